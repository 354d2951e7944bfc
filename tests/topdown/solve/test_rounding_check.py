"""The integer check fires on each kind of violation, names its place and never a count."""

from __future__ import annotations

import numpy as np
import pytest

from headcount.topdown.solve.batch import Violation, violations
from tests.support.dense import Margin, from_dense, side_by_side


@pytest.fixture
def batch():
    """Two parents of three cells and two children: a bounded total and a bounded pair of groups."""
    families = [
        Margin(group=[0, 0, 0], low=[[1, 1]], high=[[9, 9]]),
        Margin(group=[0, 1, 1], low=[[0, 0], [0, 2]], high=[[4, 0], [9, 9]]),
    ]
    ones = [
        from_dense(np.zeros((3, 2)), weight=1.0, total=[3, 2, 2], families=families, parent=parent)
        for parent in (17, 23)
    ]
    return side_by_side(ones)


GOOD = [3, 0, 1, 1, 1, 1]


def fires(batch, second):
    return violations(batch, np.array([*GOOD, *second], dtype=np.int64))


def test_a_good_answer_has_none(batch):
    assert fires(batch, GOOD) == []


def test_a_sum_that_is_not_kept(batch):
    (found,) = fires(batch, [3, 0, 1, 1, 0, 1])
    assert found == Violation(kind="sum", parent=23, index=1, cell=2)
    assert str(found) == "parent 23: cell 2: sum of the children not kept"


def test_a_negative_count(batch):
    (found,) = fires(batch, [3, 0, -1, 3, 1, 1])
    assert found == Violation(kind="negative", parent=23, index=1, cell=1, child=2)
    assert str(found) == "parent 23: child 2: cell 1: negative"


def test_a_lower_bound(batch):
    (found,) = fires(batch, [3, 0, 1, 1, 2, 0])
    assert found == Violation(kind="low", parent=23, index=1, child=3, family=1, group=1)
    assert str(found) == "parent 23: child 3: lower bound of group 1 of family 1 not kept"


def test_an_upper_bound(batch):
    (found,) = fires(batch, [2, 1, 1, 1, 1, 1])
    assert found == Violation(kind="high", parent=23, index=1, child=3, family=1, group=0)
    assert str(found) == "parent 23: child 3: upper bound of group 0 of family 1 not kept"


def test_a_bound_on_cells_that_no_variable_holds():
    families = [Margin(group=[0, 1], low=[[0], [1]])]
    batch = from_dense(np.zeros((2, 1)), weight=1.0, total=[2, 0], families=families)
    (found,) = violations(batch, np.array([2]))
    assert (found.kind, found.group) == ("low", 1)


def test_the_kept_margin_takes_the_place_of_the_cells(batch):
    keep = np.array([0, 1, 1], dtype=np.int32)
    moved = np.array([*GOOD, 3, 0, 1, 0, 1, 2], dtype=np.int64)
    assert [v.cell for v in violations(batch, moved)] == [1, 2]
    assert violations(batch, moved, keep=keep) == []
    moved[-2] = 0
    (found,) = violations(batch, moved, keep=keep)
    assert (found.kind, found.parent, found.cell) == ("sum", 23, 1)


def test_the_root_keeps_no_sums():
    batch = from_dense(np.zeros((2, 1)), weight=1.0, total=None)
    assert violations(batch, np.array([5, 0])) == []


def test_floats_are_not_checked_but_refused(batch):
    with pytest.raises(TypeError, match=r"found float64\[12\], expected int64\[12\]"):
        violations(batch, np.zeros(12))  # type: ignore[arg-type]
