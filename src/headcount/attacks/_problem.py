"""Integer problems of a reconstruction: settled by propagation, searched, then solved by HiGHS.

Unknown counts lie between bounds, and so do their sums over rows. Propagation settles most of them
and the rest falls into independent parts (``settle``); small parts are searched exhaustively, and
what search leaves open is an integer program (``solve``).

*Solution variability* of a block is how far another solution can lie from the one found
(``farthest``). With S0 the records found and N their number,

    v = 100 * max over solutions x of L1(S0, x) / (2 N)

where L1 compares histograms over everything that the block's tables distinguish. Zero means that
the records are certain. From another start the value lies between v / 2 and 2 v.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.arrays import Flags, Ints, Ints32
from headcount.attacks import _kernels as kernels
from headcount.attacks.intervals import UNKNOWN
from headcount.solve.mip import DONE, NOTHING, STOPPED, MachineError, Program, SolverError, steps_of

_log = logging.getLogger(__name__)

NO_END = UNKNOWN // 2
"""No count of people is larger. What sums tell of unknown ends is as large as these, but for a few
people."""
PATIENCE = 3600.0
"""Seconds for one question, whatever its steps. Who runs into that gets an error, not a result."""
ALGEBRA, SEARCH, SOLVER, NO_METHOD = "algebra", "search", "solver", "none"


@dataclass(frozen=True, eq=False)
class _Problem:
    """Counts x with lo <= x <= hi whose sums over rows lie between rlo and rhi.

    where
        ptr, idx    row r is the sum of x[idx[ptr[r]:ptr[r+1]]]
        place       where each unknown stands in the problem that this one is part of
    """

    ptr: Ints
    idx: Ints
    rlo: Ints
    rhi: Ints
    lo: Ints
    hi: Ints
    place: Ints

    @property
    def arrays(self) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        """What the loops of a search are given."""
        return self.ptr, self.idx, self.rlo, self.rhi, self.lo, self.hi

    @property
    def endless(self) -> Flags:
        """Which unknowns have no upper end, or one that only follows from that of another."""
        return self.hi > NO_END

    @property
    def bounded(self) -> bool:
        """Whether every unknown has an upper end."""
        return not self.endless.any()

    def keeps(self, x: Ints) -> bool:
        """Whether x is a solution."""
        sums = np.add.reduceat(x[self.idx], self.ptr[:-1]) if len(self.rlo) else self.rlo
        within = (self.lo <= x).all() and (x <= self.hi).all()
        return bool(within and (self.rlo <= sums).all() and (sums <= self.rhi).all())


@dataclass(frozen=True, eq=False)
class Settled:
    """A problem after propagation: settled counts, and independent parts still open.

    where
        x       the settled counts; open ones stand at their lower end
        open    the parts, each with its ``place`` in x
        fixed   whether all solutions have the same total
    """

    x: Ints
    open: tuple[_Problem, ...]
    fixed: bool


def settle(rows: Ints32, low: Ints, high: Ints) -> Settled | None:
    """Settle what bounds and sums determine, and split the rest; None if there is no solution.

    ``rows`` (unknowns x families) holds the number of each unknown's row, -1 for none; ``low``
    and ``high`` are the ends of each row.
    """
    ptr, idx, rlo, rhi, fam, possible = kernels.assemble(rows, low, high)
    size = len(rows)
    lo, hi = np.zeros(size, dtype=np.int64), np.full(size, UNKNOWN, dtype=np.int64)
    if not possible or not kernels.propagate(ptr, idx, rlo, rhi, lo, hi):
        return None
    free = np.flatnonzero(lo < hi)
    if not len(free):
        return Settled(lo, (), True)
    number = np.full(size, -1, dtype=np.int64)
    number[free] = np.arange(len(free))
    fixed = _fixed(ptr, rlo, rhi, fam, size)
    ptr, idx, rlo, rhi, fam = kernels.reduce(ptr, idx, rlo, rhi, fam, lo, hi, number)
    keep, agree = kernels.implied(ptr, idx, rlo, rhi, fam, len(free))
    if not agree:
        return None
    root = kernels.components(ptr, idx, keep, len(free))
    whole = _Problem(ptr, idx, rlo, rhi, lo[free], hi[free], free)
    return Settled(lo, tuple(_split(whole, keep, root)), fixed)


def _fixed(ptr: Ints, rlo: Ints, rhi: Ints, fam: Ints, size: int) -> bool:
    """Whether one family of exact rows holds every unknown."""
    exact = rlo == rhi
    length = np.diff(ptr)
    held = np.bincount(fam[exact], weights=length[exact]) if exact.any() else np.zeros(1)
    return bool((held == size).any())


def _split(whole: _Problem, keep: Flags, root: Ints) -> Iterator[_Problem]:
    """The independent parts: unknowns by component (``root``), with the kept rows over them."""
    ptr, idx, kept = whole.ptr, whole.idx, np.flatnonzero(keep)
    length = np.diff(ptr)
    row_root = root[idx[ptr[kept]]] if len(kept) else kept
    roots, first = np.unique(root, return_inverse=True)
    order = np.argsort(first, kind="stable")
    start = np.searchsorted(first[order], np.arange(len(roots) + 1))
    local = np.empty(len(root), dtype=np.int64)
    local[order] = np.arange(len(root)) - start[first[order]]
    row_order = np.argsort(row_root, kind="stable")
    row_start = np.searchsorted(row_root[row_order], roots)
    row_end = np.searchsorted(row_root[row_order], roots, side="right")
    for k in range(len(roots)):
        members = order[start[k] : start[k + 1]]
        rows = kept[row_order[row_start[k] : row_end[k]]]
        entries = [idx[ptr[r] : ptr[r + 1]] for r in rows]
        yield _Problem(
            np.concatenate([[0], np.cumsum(length[rows])]),
            local[np.concatenate(entries)] if entries else np.empty(0, dtype=np.int64),
            whole.rlo[rows],
            whole.rhi[rows],
            whole.lo[members],
            whole.hi[members],
            whole.place[members],
        )


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How hard to try: nodes of search for a part, then HiGHS with so many steps each."""

    nodes: int = 300
    largest: int = 400
    steps: int = 10_000


@dataclass(frozen=True, eq=False)
class Solved:
    """A solution or None; whether that is proven (optimal, or none exists); how it was found."""

    x: Ints | None
    proven: bool
    method: str = SOLVER


def solve(settled: Settled, effort: Effort) -> Solved:
    """A solution of all parts: by search where they are small, by HiGHS otherwise.

    One part without any solution is proof that there is none, whatever became of the others.
    """
    x, method, complete, proven = settled.x.copy(), ALGEBRA, True, True
    for part in settled.open:
        found = _searched(part, effort) or _ask(part, steps=effort.steps)
        method = SOLVER if SOLVER in (method, found.method) else found.method
        if found.x is None:
            if found.proven:
                return Solved(None, True, method)
            complete = proven = False
        elif not part.keeps(found.x):
            raise AssertionError("a reconstruction breaks its own tables")
        else:
            x[part.place] = found.x
    return Solved(x if complete else None, proven, method)


def _searched(part: _Problem, effort: Effort) -> Solved | None:
    """Any solution by search, or a proof that there is none; None where search gives up."""
    if not len(part.rlo):
        return Solved(part.lo, True, SEARCH)  # nothing but its bounds is known of it
    if len(part.lo) > effort.largest or not part.bounded:
        return None
    status, x = kernels.first_solution(*part.arrays, effort.nodes)
    if status == kernels.GAVE_UP:
        return None
    return Solved(x if status == kernels.FOUND else None, True, SEARCH)


def farthest(settled: Settled, start: Ints, effort: Effort) -> tuple[int, bool]:
    """The largest L1 distance of a solution from a start, and whether it is proven.

    Parts are independent, so that the distances add up. A distance not proven is the largest
    found: a lower bound.
    """
    distance, proven = 0, True
    for part in settled.open:
        if not part.bounded:
            proven = False  # no table bounds the number of people
            continue
        own, done = start[part.place], False
        if len(part.lo) <= effort.largest:
            best, done = kernels.farthest_solution(*part.arrays, own, settled.fixed, effort.nodes)
        if not done:
            found = _ask(part, own, settled.fixed, steps=effort.steps)
            best = 0 if found.x is None else int(np.abs(found.x - own).sum())
            proven &= found.proven
        distance += int(best)
    return distance, proven


def _ask(part: _Problem, start: Ints | None = None, fixed: bool = False, *, steps: int) -> Solved:
    """By HiGHS any solution, or, with a start, the one farthest from it in L1 distance."""
    return solve_program(_distance_program(part, start, fixed), len(part.lo), steps)


def _distance_program(problem: _Problem, start: Ints | None, fixed: bool) -> Program:
    """The integer program of a question, its first unknowns being x.

    With s the start, the distance sum |x - s| has three kinds of terms. Where s is at an end of
    its range the term is linear. Elsewhere an unknown d <= |x - s| and a binary g (1: x below s)
    stand for it:

        d <= s - x + 2 (hi - s) (1 - g),    d <= x - s + 2 (s - lo) g

    If all solutions have the same total, half the distance is the sum of (s - x)^+, which needs
    no term where s = 0:

        d <= s - x + (hi - s) (1 - g),      d <= (s - lo) g
    """
    from scipy.sparse import csc_array

    n, s = len(problem.lo), start
    lo, hi = problem.lo.astype(float), problem.hi.astype(float)
    hi[problem.endless] = np.inf
    rhi = np.where(problem.rhi > NO_END, np.inf, problem.rhi.astype(float))
    # Of any solution, one without people that no table asks for: a solver is free to say billions.
    cost = problem.endless.astype(float) if s is None else np.zeros(n)
    rows = np.repeat(np.arange(len(problem.rlo)), np.diff(problem.ptr))
    entries: list[tuple[Any, Any, Any]] = [(np.ones(len(rows)), rows, problem.idx)]
    row_low, row_high = [problem.rlo.astype(float)], [rhi]
    if s is not None:
        below, above = (s - lo) > 0, (hi - s) > 0
        both = np.flatnonzero(below & above)
        cost[below & ~above] = 1.0  # minimise -(s - x)
        if not fixed:
            cost[above & ~below] = -1.0
        extra = len(both)
        d, g, base = n + np.arange(extra), n + extra + np.arange(extra), len(problem.rlo)
        one, two = base + np.arange(extra), base + extra + np.arange(extra)
        down, up = (s - lo)[both], (hi - s)[both] * (1 if fixed else 2)
        ones = np.ones(extra)
        entries += [(ones, one, d), (ones, one, both), (up, one, g), (ones, two, d)]
        if fixed:
            entries += [(-down, two, g)]
            row_high += [s[both] + up, np.zeros(extra)]
        else:
            entries += [(-ones, two, both), (-2 * down, two, g)]
            row_high += [s[both] + up, -s[both].astype(float)]
        row_low += [np.full(2 * extra, -np.inf)]
        reach = down if fixed else np.maximum(down, up / 2)
        lo, hi = np.concatenate([lo, 0 * reach, 0 * ones]), np.concatenate([hi, reach, ones])
        cost = np.concatenate([cost, -ones, 0 * ones])
    values, at_row, column = (np.concatenate(part) for part in zip(*entries, strict=True))
    low, high = np.concatenate(row_low), np.concatenate(row_high)
    matrix = csc_array((values, (at_row, column)), shape=(len(low), len(cost)))
    return Program(
        cost=cost, low=lo, high=hi, matrix=matrix, row_low=low, row_high=high, integer=True
    )


def solve_program(program: Program, size: int, steps: int) -> Solved:
    """The first ``size`` unknowns of an integer program by HiGHS.

    How long it may search is counted in steps, the same on every machine; a thousand take about a
    second. After its steps it is the best so far. HiGHS runs in a process of its own; where that
    dies, even without presolve, or gives up, nothing is proven. Where the machine ended it there is
    no answer at all: another machine might prove more.
    """
    from headcount.solve.worker import solve_apart

    # With whole prices two prices differ by one at least: a smaller gap is none.
    whole = bool((program.cost == np.rint(program.cost)).all())
    try:
        found = solve_apart(
            program,
            patience=PATIENCE,
            steps=steps_of(program, steps),
            mip_abs_gap=0.999 if whole else 1e-9,
        )
    except MachineError:
        raise
    except SolverError as error:
        _log.warning("attack: %s: the answer counts as not proven", error)
        return Solved(None, False)
    x = None if found.x is None else np.rint(found.x[:size]).astype(np.int64)
    if found.status in DONE:
        return Solved(x, True)
    if found.status in NOTHING:
        return Solved(None, True)
    if found.status not in STOPPED:
        _log.warning("attack: HiGHS ended with %r: not proven", found.status)
        x = None
    return Solved(x, False)
