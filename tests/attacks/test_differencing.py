"""Pieces of two overlapping divisions against counting all that could live there."""

from itertools import product as pairs

import numpy as np
import pytest

from headcount.attacks.differencing import _difference, _overlay
from headcount.attacks.intervals import UNKNOWN
from headcount.errors import InputError
from headcount.release.changed import Off

EXACT = Off(down=0, up=0, zero_hides=0)


def ranges(values, off):
    every = np.ones(len(values), dtype=bool)
    return off.ends(np.asarray(values), inner=every, total=~every, unknown=UNKNOWN)


def totals(labels, counts):
    return np.bincount(labels, weights=counts).astype(np.int64)


def test_a_sliver_between_an_area_and_a_square_is_the_difference_of_exact_counts():
    """Square 0 is area 0 with three people of area 1 besides."""
    areas, squares = np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])
    people = np.array([10, 20, 3, 50])
    made = _overlay(areas, squares)
    assert made.pieces == 3
    assert made.unpublished.tolist() == [made.of_leaf[2]]  # the last piece is a whole square
    found = _difference(
        made, ranges(totals(areas, people), EXACT), ranges(totals(squares, people), EXACT)
    )
    assert [one.tolist() for one in found] == [[[3]], [[3]]]


def test_changed_counts_leave_a_range():
    areas, squares = np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])
    off = Off(down=2, up=2, zero_hides=2)
    found = _difference(_overlay(areas, squares), ranges([31, 52], off), ranges([33, 51], off))
    assert [one.tolist() for one in found] == [[[0]], [[5]]]
    unknown = _difference(
        _overlay(areas, squares), ranges([31, 52], Off()), ranges([33, 51], Off())
    )
    assert unknown[1][0, 0] > 1_000_000


@pytest.mark.parametrize("seed", range(40))
def test_ranges_are_those_of_all_that_could_live_there(seed):
    rng = np.random.default_rng(seed)
    areas = np.append(rng.permutation([0, 0, 1, 1, 2]), 0)
    squares = np.append(rng.permutation([0, 0, 1, 1, 1]), 1)
    largest = seed % 3
    off = Off(down=largest, up=largest, zero_hides=largest)
    people = rng.integers(0, 3, 6)
    made = _overlay(areas, squares)
    shown = []
    for labels in (areas, squares):
        true = totals(labels, people)
        change = rng.integers(-largest, largest + 1, len(true))
        shown.append(ranges(np.where(true > 0, np.maximum(true + change, 0), 0), off))
    most = 2 * 6 + 2 * largest
    every = np.array(list(pairs(range(min(most, 7)), repeat=made.pieces)))
    fits = np.ones(len(every), dtype=bool)
    for labels, (low, high) in zip((areas, squares), shown, strict=True):
        of_piece = np.zeros(made.pieces, dtype=np.int64)
        of_piece[made.of_leaf] = labels
        for label in range(len(low)):
            total = every[:, of_piece == label].sum(axis=1)
            fits &= (total >= low[label]) & (total <= high[label])
    pieces = made.unpublished
    found = _difference(made, *shown, effort="relations")
    low, high = (one[:, 0] for one in _difference(made, *shown))
    assert (found[0][:, 0] <= low).all()
    assert low.tolist() == every[fits][:, pieces].min(axis=0).tolist()
    assert np.minimum(high, 6).tolist() == every[fits][:, pieces].max(axis=0).tolist()
    true = totals(made.of_leaf, people)[pieces]
    assert ((low <= true) & (true <= high)).all()


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([0, 1], [0, 1, 1], "second: found"),
        ([1, 2], [0, 0], "first: found"),
        ([0, 2], [0, 0], "first: found a number without a unit"),
    ],
)
def test_divisions_that_do_not_fit_are_an_error(first, second, message):
    with pytest.raises(InputError, match=f"divisions: {message}|divisions: at {message}"):
        _overlay(first, second)
