"""The parents of a level, cut into pieces of work: here noisy answers are drawn, chunk by chunk.

This is the last place below which nobody knows of measurements: what leaves it is plain arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints, Ints32
from headcount.geography import Geography
from headcount.mechanisms.topdown import _kernels as kernels
from headcount.mechanisms.topdown._estimate import (
    NodeProblem,
    NodeWork,
    Reopened,
    SparseRows,
    Triples,
)
from headcount.mechanisms.topdown._level import MeasuredLevel
from headcount.mechanisms.topdown.measure import Measurements
from headcount.solve.batch import Batch


@dataclass(frozen=True)
class ParentChunk:
    """A chunk of parents with their children: positions in their levels."""

    parents: range
    children: range


def chunks(geography: Geography, level: str, *, children_at_once: int = 2_000) -> list[ParentChunk]:
    """Cut the parents of a level into runs with about so many children each."""
    depth = geography.depth(level)
    parent = geography.parents[depth]
    first = np.append(geography.children_start(geography.levels[depth - 1]), len(parent))
    cuts = [0]
    while cuts[-1] < len(first) - 1:
        reach = first[cuts[-1]] + children_at_once
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(first, reach, side="right")) - 1))
    return [
        ParentChunk(range(a, b), range(int(first[a]), int(first[b]))) for a, b in pairwise(cuts)
    ]


def spans(start: Ints, length: Ints) -> Ints:
    """The numbers start[i], ..., start[i] + length[i] - 1 for every i, one after another."""
    ends = np.cumsum(length)
    offset = np.repeat(start - (ends - length), length)
    return np.asarray(offset + np.arange(ends[-1] if len(ends) else 0), dtype=np.int64)


def build_problem(
    above: SparseRows,
    parents: Ints,
    child_first: Ints,
    level: MeasuredLevel,
    measurements: Measurements | None,
    *,
    offset: int = 0,
) -> NodeProblem:
    """The problems of some parents, with detailed answers drawn for every variable.

    where
        parents        positions of the parents to solve
        child_first    first child of every parent of the level above, and the end
        measurements   None for a problem whose answers do not matter: they are 0
        offset         the level's first unit, where ``level`` is but a part of it
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
    var_unit = child[var_child] + offset
    answer = np.zeros(len(var_unit))
    if level.weight > 0 and measurements is not None:
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
        weight=np.full(len(child), level.weight),
        family_start=level.family_start,
        group=level.group,
        family_weight=np.tile(level.family_weight, (len(child), 1)),
        margin=level.margin[child],
        low=level.low[child],
        high=high,
    )
    return NodeProblem(batch, var_unit, var_cell)


@dataclass(frozen=True, eq=False, kw_only=True)
class Parents:
    """The parents of one level, and what is known of their children.

    where
        above         the parents' counts
        child_first   first child of every parent, and the end
        codes         the parents' codes, for errors
        keep          the margin each cell belongs to in the failsafe; None for no failsafe
        possible      the cells that are no structural zeros: only these may reopen
    """

    above: SparseRows
    child_first: Ints
    codes: NDArray[np.str_]
    level: MeasuredLevel
    measurements: Measurements
    possible: Flags
    keep: Ints32 | None = None

    def works(self, families: Iterable[ParentChunk]) -> Iterator[NodeWork]:
        """Each chunk as a piece of work, drawn when it is asked for: few are in memory at once.

        An only child copies its parent, and children of an empty parent are empty: no solve. An
        only child whose bounds forbid the copy is a parent that cannot be met.
        """
        for chunk in families:
            parents = np.arange(chunk.parents.start, chunk.parents.stop, dtype=np.int64)
            kids = self.child_first[parents + 1] - self.child_first[parents]
            people = self.above.start[parents + 1] - self.above.start[parents] > 0
            alone, several = parents[people & (kids == 1)], parents[people & (kids > 1)]
            fits = self._copy_fits(alone)
            yield NodeWork(
                children=chunk.children,
                copies=self._copies(alone[fits]),
                problem=self._problem(several, self.measurements) if len(several) else None,
                stuck=alone[~fits],
                notes={"only children": int(fits.sum()), "empty parents": int((~people).sum())},
            )

    def reopened(self, stuck: Iterable[int]) -> Iterator[Reopened]:
        """Parents that could not be met, for the failsafe."""
        if self.keep is None:
            raise AssertionError("no failsafe is set")
        for parent in stuck:
            own = slice(self.above.start[parent], self.above.start[parent + 1])
            total = np.zeros(len(self.keep), dtype=np.int64)
            total[self.above.cell[own]] = self.above.value[own]
            margin = np.bincount(self.keep, weights=total)
            cell = np.flatnonzero((margin[self.keep] > 0) & self.possible).astype(np.int32)
            rows = SparseRows(np.array([0, len(cell)]), cell, total[cell])
            kids = self.child_first[parent : parent + 2]
            only = np.zeros(1, dtype=np.int64)
            problem = build_problem(rows, only, kids, self.level, self.measurements)
            yield Reopened(problem, self.keep)

    def _problem(self, parents: Ints, measurements: Measurements | None) -> NodeProblem:
        return build_problem(self.above, parents, self.child_first, self.level, measurements)

    def _copy_fits(self, alone: Ints) -> Flags:
        above, level = self.above, self.level
        fits: Flags = kernels.rows_within(
            above.start,
            above.cell,
            above.value,
            alone,
            self.child_first[alone],
            level.column,
            level.low,
            level.high,
        )
        return fits

    def _copies(self, alone: Ints) -> Triples:
        """Only children with their parent's counts."""
        sizes = self.above.start[alone + 1] - self.above.start[alone]
        entries = spans(self.above.start[alone], sizes)
        unit = np.repeat(self.child_first[alone], sizes)
        return unit, self.above.cell[entries].astype(np.int64), self.above.value[entries]
