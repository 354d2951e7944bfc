"""The node function: a parent's estimate and its children's answers become the children's counts.

It is pure: every engine calls it with the same arguments and gets the same counts, in whatever
chunks and on whatever machine. It sees noisy answers, bounds and estimates; never the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headcount.errors import RunError
from headcount.geography import Geography
from headcount.mechanisms.topdown import kernels
from headcount.mechanisms.topdown.level import Level
from headcount.mechanisms.topdown.measure import Measurements
from headcount.solve.batch import Batch

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Integer counts of some units, sparse: row u holds cells ``cell[start[u]:start[u+1]]``."""

    start: Integers
    cell: NDArray[np.int32]
    value: Integers

    @property
    def units(self) -> int:
        """Number of rows."""
        return len(self.start) - 1

    def totals(self) -> Integers:
        """People per row."""
        ends = np.concatenate([[0], np.cumsum(self.value)])
        return np.asarray(ends[self.start[1:]] - ends[self.start[:-1]], dtype=np.int64)


@dataclass(frozen=True)
class Family:
    """A chunk of parents with their children: positions in their levels."""

    parents: range
    children: range


def chunks(geography: Geography, level: str, *, children_at_once: int = 2_000) -> list[Family]:
    """Cut the parents of a level into runs with about so many children each."""
    depth = geography.depth(level)
    parent = geography.parents[depth]
    first = np.append(geography.children_start(geography.levels[depth - 1]), len(parent))
    cuts = [0]
    while cuts[-1] < len(first) - 1:
        reach = first[cuts[-1]] + children_at_once
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(first, reach, side="right")) - 1))
    return [Family(range(a, b), range(int(first[a]), int(first[b]))) for a, b in pairwise(cuts)]


def spans(start: Integers, length: Integers) -> Integers:
    """The numbers start[i], ..., start[i] + length[i] - 1 for every i, one after another."""
    ends = np.cumsum(length)
    offset = np.repeat(start - (ends - length), length)
    return np.asarray(offset + np.arange(ends[-1] if len(ends) else 0), dtype=np.int64)


def build_batch(
    above: Rows, parents: Integers, child_first: Integers, level: Level, measurements: Measurements
) -> tuple[Batch, Integers, Integers]:
    """The problems of some parents, and for each variable its child (in the level) and cell.

    where
        parents       positions of the parents to solve
        child_first   first child of every parent of the level above, and the end
    """
    sizes = above.start[parents + 1] - above.start[parents]
    entries = spans(above.start[parents], sizes)
    families = child_first[parents + 1] - child_first[parents]
    child = spans(child_first[parents], families)
    cell_start = np.concatenate([[0], np.cumsum(sizes)])
    child_start = np.concatenate([[0], np.cumsum(families)])
    cell, high = above.cell[entries], level.high[child]
    var_start = np.zeros(len(entries) + 1, dtype=np.int64)
    kernels.count_variables(cell_start, cell, child_start, level.column, high, var_start)
    var_child = np.empty(var_start[-1], dtype=np.int32)
    var_cell = np.empty(var_start[-1], dtype=np.int64)
    kernels.fill_variables(cell_start, cell, child_start, level.column, high, var_child, var_cell)
    var_unit = child[var_child]
    answer = np.zeros(len(var_unit))
    if level.weight > 0:
        answer = measurements.detail(level.name, var_unit, var_cell).astype(np.float64)
    batch = Batch(
        parent=parents,
        cell_start=cell_start,
        cell=cell,
        total=above.value[entries],
        child_start=child_start,
        var_start=var_start,
        var_child=var_child,
        answer=answer,
        weight=level.weight,
        family_start=level.family_start,
        group=level.group,
        family_weight=level.family_weight,
        margin=level.margin[child],
        low=level.low[child],
        high=high,
    )
    return batch, var_unit, var_cell


@dataclass(frozen=True, eq=False)
class Step:
    """One chunk's result: its children's counts, and what happened on the way."""

    rows: Rows
    notes: dict[str, float]


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """Everything a chunk of one level shares: the node function of that level.

    where
        above         the parents' counts
        child_first   first child of every parent, and the end
        codes         the parents' codes, for errors
        child_codes   the children's
        keep          the margin each cell belongs to in the failsafe; None for no failsafe
        possible      the cells that are no structural zeros: only these may reopen
    """

    above: Rows
    child_first: Integers
    codes: NDArray[np.str_]
    child_codes: NDArray[np.str_]
    level: Level
    measurements: Measurements
    possible: NDArray[np.bool_]
    keep: NDArray[np.int32] | None = None

    def __call__(self, chunk: Family) -> Step:
        """Estimate, round and check the children of a chunk of parents.

        An only child copies its parent, and children of an empty parent are empty: no solve. An
        only child whose bounds forbid the copy is a parent that cannot be met.
        """
        parents = np.arange(chunk.parents.start, chunk.parents.stop, dtype=np.int64)
        kids = self.child_first[parents + 1] - self.child_first[parents]
        people = self.above.start[parents + 1] - self.above.start[parents] > 0
        alone = parents[people & (kids == 1)]
        fits = self._copy_fits(alone)
        pieces = [self._copies(alone[fits])]
        notes: dict[str, float] = {
            "only children": int(fits.sum()),
            "empty parents": int((~people).sum()),
        }
        solve, stuck = parents[people & (kids > 1)], alone[~fits]
        if len(solve):
            solved, left, happened = self._solve(solve)
            pieces.append(solved)
            stuck = np.concatenate([stuck, left])
            notes |= happened
        notes |= {"failsafe": len(stuck), "failsafe rounded wider": 0}
        for parent in stuck:
            rescued, wider = self._rescue(int(parent))
            pieces.append(rescued)
            notes["failsafe rounded wider"] += wider
        unit, cell, value = (np.concatenate(part) for part in zip(*pieces, strict=True))
        child = (unit - chunk.children.start).astype(np.int32)
        return Step(Rows(*kernels.rows_by_child(len(chunk.children), child, cell, value)), notes)

    def _copy_fits(self, alone: Integers) -> NDArray[np.bool_]:
        above, level = self.above, self.level
        fits: NDArray[np.bool_] = kernels.rows_within(
            above.start, above.cell, above.value, alone, self.child_first[alone],
            level.column, level.low, level.high,
        )  # fmt: skip
        return fits

    def _copies(self, alone: Integers) -> Triples:
        """Only children with their parent's counts."""
        sizes = self.above.start[alone + 1] - self.above.start[alone]
        entries = spans(self.above.start[alone], sizes)
        unit = np.repeat(self.child_first[alone], sizes)
        return unit, self.above.cell[entries].astype(np.int64), self.above.value[entries]

    def _solve(self, parents: Integers) -> tuple[Triples, Integers, dict[str, float]]:
        """Children's counts, the parents left without any, and what happened."""
        batch, unit, cell = build_batch(
            self.above, parents, self.child_first, self.level, self.measurements
        )
        counts, stuck, notes = solve_batch(batch, self.codes)
        return (unit, cell, counts), parents[stuck], notes

    def _rescue(self, parent: int) -> tuple[Triples, bool]:
        """One parent through the failsafe, and whether rounding went beyond floor and ceiling.

        Its empty cells reopen where the kept margin is not empty.
        """
        from headcount.solve.failsafe import rescue
        from headcount.solve.mip import SolverError

        if self.keep is None:
            raise self._unmet(parent, "and no failsafe is set")
        own = slice(self.above.start[parent], self.above.start[parent + 1])
        total = np.zeros(len(self.keep), dtype=np.int64)
        total[self.above.cell[own]] = self.above.value[own]
        margin = np.bincount(self.keep, weights=total)
        cell = np.flatnonzero((margin[self.keep] > 0) & self.possible).astype(np.int32)
        reopened = Rows(np.array([0, len(cell)]), cell, total[cell])
        kids = self.child_first[parent : parent + 2]
        batch, unit, cells = build_batch(
            reopened, np.zeros(1, dtype=np.int64), kids, self.level, self.measurements
        )
        try:
            rescued = rescue(batch, keep=self.keep)
        except SolverError:
            raise self._unmet(parent, "even by the failsafe") from None
        if rescued.broken:
            raise self._unmet(parent, "even by the failsafe")
        return (unit, cells, rescued.counts), bool(rescued.widened[0])

    def _unmet(self, parent: int, how: str) -> RunError:
        return RunError(
            f"topdown: level {self.level.name!r}: found bounds of the children of "
            f"{str(self.codes[parent])!r} that cannot be met, {how}{self._obstacles(parent)}; "
            f"expected bounds that leave room for the parent's counts"
        )

    def _obstacles(self, parent: int) -> str:
        """Which bounds break if as few as possible break, by child and query."""
        from headcount.solve.feasibility import clashes

        batch, _, _ = build_batch(
            self.above, np.array([parent]), self.child_first, self.level, self.measurements
        )
        codes = self.child_codes[self.child_first[parent] :]
        named = {
            f"{self.level.families[clash.family]!r} of {str(codes[clash.child])!r}"
            for clash in clashes(batch)
            if clash.family >= 0
        }
        return f" (in the way: {', '.join(sorted(named)[:3])})" if named else ""


Triples = tuple[Integers, Integers, Integers]
"""Unit, cell and count of some entries."""


def solve_batch(
    batch: Batch, codes: NDArray[np.str_]
) -> tuple[Integers, Integers, dict[str, float]]:
    """Least squares, then rounding: the counts, the parents left without any, and what happened.

    One thread, because engines run chunks side by side. Parents without an answer have counts 0.
    ``codes`` name all parents of the level, for errors.
    """
    from headcount.solve.leastsquares import least_squares
    from headcount.solve.rounding import Method, round_batch

    solved = least_squares(batch, threads=1)
    rounded = round_batch(batch, solved.x, threads=1)
    if rounded.broken:
        code = str(codes[rounded.broken[0].parent])
        raise RunError(
            f"topdown: children of {code!r}: found a constraint broken by rounding "
            f"({rounded.broken[0]}), expected every one kept"
        )
    stuck = np.union1d(solved.outcome.unsolved, np.flatnonzero(rounded.method == Method.NONE))
    counts = rounded.counts.copy()
    for p in stuck:
        counts[slice(*batch.var_start[batch.cell_start[p : p + 2]])] = 0
    notes = dict(solved.outcome.summary())
    notes |= rounded.summary() | {"violations": len(rounded.broken)}
    return counts, stuck, notes


def refuse_broken(rows: Rows, level: Level, codes: NDArray[np.str_]) -> None:
    """Check every bound of every unit of a level again, in integers, whoever solved it."""
    bad = kernels.first_broken(
        rows.start, rows.cell, rows.value, level.column, level.low, level.high
    )
    if bad >= 0:
        unit, column = divmod(int(bad), level.low.shape[1])
        raise RunError(
            f"topdown: level {level.name!r}, unit {str(codes[unit])!r}: found the bound on "
            f"{level.family_of(column)!r} broken, expected it kept"
        )
