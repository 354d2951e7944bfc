"""Golden cases of two divisions, of five sums of four firms, and of what values stand for."""

from __future__ import annotations

import numpy as np
import pytest

from headcount.attacks.differencing import _difference, _overlay, bridges
from headcount.attacks.intervals import intervals
from headcount.mechanisms.coarsening.settings import Show
from headcount.tabulate.additive import from_relations


def totals(labels: np.ndarray, people: np.ndarray) -> np.ndarray:
    return np.bincount(labels, weights=people).astype(np.int64)


def pieces_of(areas: list[int], districts: list[int], people: list[int]) -> tuple[list[int], ...]:
    """The ends of the pieces that nobody publishes, of exact counts, and which are bridges."""
    made = _overlay(areas, districts)
    exact = [totals(np.array(one), np.array(people)) for one in (areas, districts)]
    low, high = _difference(made, *[(one, one) for one in exact])
    return low.ravel().tolist(), high.ravel().tolist(), made.known[made.unpublished].tolist()


def test_case_5_the_middle_of_a_line_is_known():
    assert pieces_of([0, 0, 1], [0, 1, 1], [5, 2, 4]) == ([2], [2], [True])


def test_case_6_without_a_bridge_every_piece_may_be_anything():
    low, high, known = pieces_of([0, 0, 1, 1], [0, 1, 0, 1], [2, 3, 3, 2])
    assert (low, high, known) == ([0] * 4, [5] * 4, [False] * 4)


FIRMS = [17, 23, 13, 22]
SUMS = [(0, 1), (2, 3), (0, 2), (1, 3), (0, 3)]


@pytest.mark.parametrize(("sums", "known"), [(SUMS, 4), (SUMS[:4], 0)])
def test_case_7_five_sums_of_two_make_four_firms_known_and_four_none(sums, known):
    values = np.array(FIRMS + [FIRMS[a] + FIRMS[b] for a, b in sums])
    assert values[4 : 4 + len(sums)].tolist() == [40, 35, 30, 45, 39][: len(sums)]
    made = from_relations(len(values), [(4 + n, list(one)) for n, one in enumerate(sums)])
    hidden = np.arange(len(values)) < 4
    found = intervals(made, np.where(hidden, 0, values), hidden, cells=np.arange(4))
    exact = found.width == 0
    assert exact.sum() == known
    assert found.low[exact].tolist() == FIRMS[:known]
    # A graph of firms with an odd cycle: a = (30 + 39 - 35) / 2.
    assert FIRMS[0] == (30 + 39 - 35) / 2


GRADUATED = {
    15: 20,
    25: 20,
    99: 100,
    124: 100,
    125: 100,
    175: 200,
    1_050: 1_000,
    1_150: 1_200,
    10_250: 10_000,
    123_456: 123_000,
    1_234_567: 1_235_000,
}


def test_case_9_graduated_rounding_and_what_a_value_stands_for():
    how = Show(rule="us-drb-2019").how
    assert how is not None
    assert how.shown(np.array(list(GRADUATED))).tolist() == list(GRADUATED.values())
    assert how.below == 15  # 14 is not shown: "<15"
    ends = how.ends(np.array([100, 20]), unknown=1 << 40)
    assert [one.tolist() for one in ends] == [[95, 15], [125, 25]]


def test_case_10_special_tabulations():
    how = Show(rule="us-special-2004").how
    assert how is not None
    ends = how.ends(np.array([0, 4, 10, 15]), unknown=1 << 40)
    assert [one.tolist() for one in ends] == [[0, 1, 8, 13], [0, 7, 12, 17]]


@pytest.mark.parametrize("seed", range(60))
def test_a_bridge_is_what_sums_determine(seed):
    """The rank of the sums with the piece beside them: it does not rise if they determine it."""
    lot = np.random.default_rng(seed)
    shape = tuple(lot.integers(1, 6, 2).tolist())
    first, second = np.nonzero(lot.random(shape) < 0.45)
    sums = np.zeros((sum(shape), len(first)))
    sums[first, np.arange(len(first))] = sums[shape[0] + second, np.arange(len(first))] = 1
    rank = np.linalg.matrix_rank(sums) if len(first) else 0
    known = [np.linalg.matrix_rank(np.vstack([sums, one])) == rank for one in np.eye(len(first))]
    assert bridges(first, second).tolist() == known


def test_bridges_take_linear_time_and_no_recursion():
    """200,000 leaves in pairs, shifted by one: all are bridges of a line, and none of a ring."""
    n = np.arange(200_000)
    assert bridges(n // 2, (n + 1) // 2).all()
    assert not bridges(n // 2, (n + 1) // 2 % (len(n) // 2)).any()
