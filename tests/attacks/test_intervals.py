"""Intervals of withheld cells against counting every table there is."""

from functools import cache
from itertools import product as pairs

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.attacks.intervals import UNBOUNDED, intervals
from headcount.errors import InputError
from headcount.tabulate.additive import flat, from_relations, product_of_trees
from tests.support.additive_tables import random_table

SHAPE = (2, 3)


MADE = product_of_trees(flat(SHAPE[0]), flat(SHAPE[1]))
ROW, COLUMN = (1 + one.ravel() for one in np.indices(SHAPE))


def table(inner):
    return MADE, MADE.fill([ROW, COLUMN], np.ravel(inner))


@cache
def every_table(top):
    """Made when it is needed: every worker reads this file, and one of them runs it."""
    inner = pairs(range(top + 1), repeat=SHAPE[0] * SHAPE[1])
    return np.array([table(counts)[1] for counts in inner])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
    st.lists(st.booleans(), min_size=11, max_size=11),
)
def test_intervals_are_those_of_all_tables_that_fit(inner, hidden):
    made, values = table(inner)
    withheld = np.array([False, *hidden])
    tables = every_table(4)
    fits = tables[(tables[:, ~withheld] == values[~withheld]).all(axis=1)]
    high = np.full(12, np.inf)
    high[made.cells(*np.indices(SHAPE) + 1).ravel()] = 4  # as far as tables were counted
    found = intervals(made.additive, values, withheld, high=high)
    cells = np.flatnonzero(withheld)
    assert found.cell.tolist() == cells.tolist()
    assert found.low.tolist() == fits[:, cells].min(axis=0).tolist()
    assert found.high.tolist() == fits[:, cells].max(axis=0).tolist()


def test_withheld_values_are_never_looked_at():
    made, values = table([1, 5, 2, 7, 3, 4])
    withheld = np.zeros(12, dtype=bool)
    withheld[[5, 6, 9, 10]] = True
    other = np.where(withheld, 10**9, values)
    one = intervals(made.additive, values, withheld)
    two = intervals(made.additive, other, withheld)
    assert one.low.tolist() == two.low.tolist()
    assert one.high.tolist() == two.high.tolist()
    assert one.width.tolist() == [
        6,
        6,
        6,
        6,
    ]  # 1 + t, 5 - t, 7 - t and 3 + t are counts for t from -1 to 5


def test_what_else_is_known_narrows():
    made, values = table([1, 5, 2, 7, 3, 4])
    withheld = np.zeros(12, dtype=bool)
    withheld[[5, 6, 9, 10]] = True
    high = np.full(12, np.inf)
    high[5] = 2
    found = intervals(made.additive, values, withheld, high=high, cells=[6])
    assert (found.cell.tolist(), found.low.tolist(), found.high.tolist()) == ([6], [4], [6])


def test_a_lone_cell_is_known_and_a_free_one_is_not_bounded():
    additive = from_relations(5, [(0, [1, 2]), (0, [3, 4])])
    alone = intervals(additive, [9, 4, 5, 3, 6], [False, True, False, False, False])
    assert (alone.low[0], alone.high[0], alone.width[0]) == (4, 4, 0)
    free = intervals(additive, [9, 4, 5, 3, 6], [True, True, False, True, False])
    assert free.high.tolist() == [UNBOUNDED] * 3
    assert free.low.tolist() == [6, 1, 0]
    assert free.width.tolist() == [UNBOUNDED] * 3


def test_ends_are_rounded_inward():
    odd = from_relations(3, [(0, [1, 1, 2])])
    found = intervals(odd, [5, 2, 1], [False, True, True])
    assert found.high.tolist() == [2, 5]  # 2.5 is no count


@pytest.mark.parametrize(
    ("values", "withheld"), [([9, 4, 4], [0, 0, 0]), ([3, 4, 4], [0, 1, 0])], ids=["all", "some"]
)
def test_contradictions_are_errors(values, withheld):
    additive = from_relations(3, [(0, [1, 2])])
    with pytest.raises(InputError, match=r"around cell \d: found counts that contradict"):
        intervals(additive, values, np.array(withheld, dtype=bool))


def test_only_withheld_cells_can_be_attacked():
    additive = from_relations(3, [(0, [1, 2])])
    with pytest.raises(InputError, match="cells: found cells that are published"):
        intervals(additive, [9, 4, 5], [False, True, True], cells=[0])


@pytest.mark.parametrize("seed", range(6))
def test_where_all_is_withheld_nothing_bounds_a_cell_from_above(seed):
    made, member = random_table(seed)
    hidden = made.values > 0
    found = intervals(made.additive, np.zeros_like(made.values), hidden, low=hidden)
    assert (found.high == UNBOUNDED).all()
    lived = made.values[member.sum(axis=1) == 1] > 0  # inner counts are cells of their own
    order = member[member.sum(axis=1) == 1].argmax(axis=1)
    inner = np.zeros(member.shape[1], dtype=np.int64)
    inner[order] = lived
    assert found.low.tolist() == (member @ inner)[hidden].tolist()
