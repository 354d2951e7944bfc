"""Propagation and splitting lose no solution and add none; search finds the farthest."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headcount.attacks import _kernels as search
from headcount.attacks import _problem
from headcount.attacks._problem import (
    Effort,
    Settled,
    Solved,
    _ask,
    _Problem,
    farthest,
    settle,
    solve,
)
from headcount.attacks.intervals import UNKNOWN

Ints = NDArray[np.int64]
UNKNOWNS, MOST = 5, 3
EVERY = np.array(list(product(range(MOST + 1), repeat=UNKNOWNS)))


@st.composite
def problems(draw: st.DrawFn) -> tuple[NDArray[np.int32], Ints, Ints]:
    """Families of rows over five unknowns, with ranges around a true answer, or off it."""
    truth = np.array(draw(st.lists(st.integers(0, MOST), min_size=5, max_size=5)))
    rows, low, high = [], [], []
    start = 0
    families = draw(st.integers(1, 4))
    for number in range(families):
        group = np.array(draw(st.lists(st.integers(-1, 2), min_size=5, max_size=5)))
        if number == 0:
            group = np.arange(5)  # so that every unknown has an upper end
        rows.append(np.where(group >= 0, group + start, -1))
        for g in range(5 if number == 0 else 3):
            total = int(truth[group == g].sum())
            if number == 0:
                low.append(0)
                high.append(MOST)
            else:
                below, above = draw(st.sampled_from([(0, 0), (0, 0), (0, 1), (1, 0), (-1, 1)]))
                low.append(max(0, total - below) if (group == g).any() else 0)
                high.append(max(total + above, low[-1]))
        start = len(low)
    table = np.stack(rows, axis=1).astype(np.int32)
    return table, np.array(low), np.array(high)


def solutions(rows: NDArray[np.int32], low: Ints, high: Ints) -> set[tuple[int, ...]]:
    """All answers by trying every one."""
    keep = np.ones(len(EVERY), dtype=bool)
    for f in range(rows.shape[1]):
        for r in np.unique(rows[rows[:, f] >= 0, f]):
            sums = EVERY[:, rows[:, f] == r].sum(axis=1)
            keep &= (low[r] <= sums) & (sums <= high[r])
    return {tuple(x) for x in EVERY[keep].tolist()}


def of_part(part: _Problem) -> list[Ints]:
    """All answers of an independent part."""
    spans = [range(lo, hi + 1) for lo, hi in zip(part.lo, part.hi, strict=True)]
    return [x for x in map(np.array, product(*spans)) if part.keeps(x)]


@given(problems())
@settings(max_examples=150, deadline=None)
def test_settling_keeps_exactly_the_solutions(case: tuple[NDArray[np.int32], Ints, Ints]):
    true = solutions(*case)
    settled = settle(*case)
    if settled is None:
        assert not true
        return
    found = set()
    for chosen in product(*(of_part(part) for part in settled.open)):
        x = settled.x.copy()
        for part, values in zip(settled.open, chosen, strict=True):
            x[part.place] = values
        found.add(tuple(x.tolist()))
    assert found == true
    if settled.fixed and found:
        assert len({sum(x) for x in found}) == 1


@given(problems(), st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_search_and_highs_find_the_farthest(case: tuple[NDArray[np.int32], Ints, Ints], pick: int):
    true = sorted(solutions(*case))
    settled = settle(*case)
    if settled is None:
        return
    for part in settled.open:
        status, x = search.first_solution(
            part.ptr, part.idx, part.rlo, part.rhi, part.lo, part.hi, 10_000
        )
        answer = _ask(part, steps=10_000)
        assert (status == search.FOUND) == (answer.x is not None) == bool(of_part(part))
        assert status == search.NONE or part.keeps(x)
        assert answer.x is None or part.keeps(answer.x)
    if not true:
        return
    start = np.array(true[pick % len(true)])
    largest = max(int(np.abs(start - np.array(x)).sum()) for x in true)
    for effort in (Effort(nodes=10_000), Effort(nodes=0)):
        assert farthest(settled, start, effort) == (largest, True)


def test_a_part_without_solutions_is_proof_even_if_another_ran_out_of_time(monkeypatch):
    def part(total: int, place: int) -> _Problem:
        three = np.array([0, 1, 2])
        # Three unknowns of 0 or 1, every two of which sum to ``total``.
        return _Problem(
            np.array([0, 2, 4, 6]),
            np.array([0, 1, 1, 2, 0, 2]),
            np.full(3, total),
            np.full(3, total),
            np.zeros(3, dtype=np.int64),
            np.ones(3, dtype=np.int64),
            three + place,
        )

    settled = Settled(np.zeros(6, dtype=np.int64), (part(2, 0), part(1, 3)), True)
    answers = {"impossible": Solved(None, True), "late": Solved(None, False)}
    for order, proven in ((("late", "impossible"), True), (("late", "late"), False)):
        given = iter(order)
        monkeypatch.setattr(_problem, "_ask", lambda *_, given=given, **__: answers[next(given)])
        found = solve(settled, Effort(largest=0))
        assert found.x is None
        assert found.proven is proven


@pytest.mark.parametrize("end", [UNKNOWN, UNKNOWN - 1])
def test_a_solution_has_nobody_whom_no_table_asks_for(end):
    """Withheld counts have no upper end, and sums pass this on: less the people in the others."""
    rows = [[1, 3, 6, 8, 10], [0, 2, 5, 7, 9], [2, 3], [5, 6], [7, 8]]
    rows += [[0, 1, 2, 3, 5, 6, 7, 8, 9, 10], [1, 3, 4, 6, 8, 10], [9, 10], [*range(11)], [0, 1]]
    least = np.where(np.arange(11) == 4, 1, 0)
    most = np.where(np.isin(np.arange(11), rows[0]), 3, end)
    part = _Problem(
        np.cumsum([0, *map(len, rows)]),
        np.concatenate([np.array(row) for row in rows]),
        np.array([3, *[1] * 9]),
        np.array([3, *[UNKNOWN] * 9]),
        least,
        most,
        np.arange(11),
    )
    assert not part.bounded
    answer = _ask(part, steps=10_000)
    assert answer.proven
    assert answer.x is not None
    assert part.keeps(answer.x)
    assert answer.x.sum() < 3 + 10
