"""The change that published margins prove, against every table that can be behind them."""

from itertools import product as pairs

import numpy as np
import pytest

from headcount.attacks.changed_cells import least_changes
from headcount.errors import InputError
from headcount.tabulate.additive import from_relations


def rows(relations, parts):
    """Relations of one total and so many parts each, the total last."""
    number = np.arange(relations * (parts + 1)).reshape(relations, parts + 1)
    listed = [(int(one[-1]), one[:-1].tolist()) for one in number]
    return from_relations(number.size, listed)


def smallest_change(values, *, zeros_stay, exact=(False,) * 4):
    """By counting: the smallest D for which some table is within D of what is published."""
    for largest in range(20):
        ranges = [
            range(v, v + 1)
            if as_it_is
            else range(max(v - largest, 1 if v and zeros_stay else 0), v + largest + 1)
            for v, as_it_is in zip(values, exact, strict=True)
        ]
        if any(sum(parts) in ranges[-1] for parts in pairs(*ranges[:-1])):
            return largest
    raise AssertionError


@pytest.mark.parametrize("zeros_stay", [True, False])
def test_the_change_that_a_gap_proves_is_that_of_counting(zeros_stay):
    rng = np.random.default_rng(4)
    values = rng.integers(0, 5, (150, 4))
    values[:, -1] = rng.integers(0, 9, 150)
    least = least_changes(rows(150, 3), values.ravel(), zeros_stay=zeros_stay)
    assert least.tolist() == [smallest_change(v, zeros_stay=zeros_stay) for v in values]
    assert (least * 4 >= np.abs(values[:, 3] - values[:, :3].sum(axis=1))).all()


@pytest.mark.parametrize("exact", [(False, False, False, True), (True, False, False, False)])
def test_an_exact_count_leaves_more_to_the_others(exact):
    rng = np.random.default_rng(6)
    values = rng.integers(1, 5, (100, 4))
    values[:, -1] = rng.integers(6, 9, 100)
    least = least_changes(rows(100, 3), values.ravel(), exact=np.tile(exact, 100))
    assert least.tolist() == [smallest_change(v, zeros_stay=True, exact=exact) for v in values]
    assert (least >= least_changes(rows(100, 3), values.ravel())).all()


def test_zeros_say_more_than_the_gap():
    """Five parts of 1 | 1: a gap of 4 over 6 counts proves 1, but each part holds 1 at least."""
    assert least_changes(rows(1, 5), np.array([1, 1, 1, 1, 1, 1])).tolist() == [4]
    assert least_changes(rows(1, 5), np.array([1] * 6), zeros_stay=False).tolist() == [1]


def test_values_below_0_are_an_error():
    with pytest.raises(InputError, match="margins: found a value below 0 or a cell without one"):
        least_changes(rows(1, 2), np.array([1, -1, 0]))
