"""The parents of a level, cut into pieces of work, and their problems without any answers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headcount.arrays import Flags, Ints, Ints32
from headcount.geography import Geography
from headcount.topdown import _kernels as kernels
from headcount.topdown._estimate import (
    NodeProblem,
    NodeWork,
    Reopened,
    SparseRows,
    Triples,
)
from headcount.topdown._level import LevelPlan
from headcount.topdown.solve.batch import Batch


@dataclass(frozen=True)
class ParentChunk:
    """A piece of work: a run of parents with their children, by positions in their levels."""

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


def pose(
    above: SparseRows,
    child_first: Ints,
    level: LevelPlan,
    *,
    first: int = 0,
    chosen: Ints | None = None,
    limits: tuple[Ints, Ints] | None = None,
) -> NodeProblem:
    """The problems of some parents; all answers are 0 until they are measured.

    where
        above         the parents' counts
        child_first   position of each parent's first child in the level, and the end
        first         position of the first parent in its level, for errors
        chosen        which of these parents to solve; None for all
        limits        bounds of the children in place of the level's
    """
    parents = np.arange(above.units, dtype=np.int64) if chosen is None else chosen
    sizes = above.start[parents + 1] - above.start[parents]
    entries = spans(above.start[parents], sizes)
    families = child_first[parents + 1] - child_first[parents]
    child = spans(child_first[parents], families)
    cell_start = np.concatenate([[0], np.cumsum(sizes)])
    child_start = np.concatenate([[0], np.cumsum(families)])
    low, high = level.bounds_of(child) if limits is None else limits
    cell, column = above.cell[entries], level.column
    var_start = np.zeros(len(entries) + 1, dtype=np.int64)
    kernels.count_variables(cell_start, cell, child_start, column, high, var_start)
    var_child = np.empty(var_start[-1], dtype=np.int32)
    var_cell = np.empty(var_start[-1], dtype=np.int64)
    kernels.fill_variables(cell_start, cell, child_start, column, high, var_child, var_cell)
    weight, family_weight = level.weights_of(child)
    batch = Batch(
        parent=parents + first,
        cell_start=cell_start,
        cell=cell,
        total=above.value[entries],
        child_start=child_start,
        var_start=var_start,
        var_child=var_child,
        answer=np.zeros(len(var_child)),
        weight=weight,
        family_start=level.family_start,
        bound_start=level.bound_start,
        group=level.group,
        family_weight=family_weight,
        margin=np.zeros((len(child), int(level.family_start[-1]))),
        low=low,
        high=high,
        forest=level.forest,
        **({} if level.joint is None else level.joint.of_children(child)),
    )
    return NodeProblem(batch, child, child[var_child], var_cell, level.passes)


def piece(above: SparseRows, chunk: ParentChunk, child_first: Ints, level: LevelPlan) -> NodeWork:
    """A piece of work, its problems posed.

    An only child copies its parent, and children of an empty parent are empty: no solve. An only
    child whose bounds forbid the copy is a parent that cannot be met.

    where
        above         the counts of the piece's parents
        child_first   position of the first child of each of them, and the end
    """
    parents = np.arange(above.units, dtype=np.int64)
    kids = np.diff(child_first)
    people = np.diff(above.start) > 0
    alone, several = parents[people & (kids == 1)], parents[people & (kids > 1)]
    fits = _copy_fits(above, alone, child_first, level)
    start = chunk.parents.start
    return NodeWork(
        children=chunk.children,
        copies=_copies(above, alone[fits], child_first),
        problem=pose(above, child_first, level, first=start, chosen=several)
        if len(several)
        else None,
        stuck=alone[~fits] + start,
        notes={"only children": int(fits.sum()), "empty parents": int((~people).sum())},
    )


def reopened(
    above: SparseRows, kids: Ints, level: LevelPlan, *, keep: Ints32, possible: Flags
) -> Reopened:
    """A parent that could not be met, for the failsafe.

    where
        above      its counts, one row
        kids       position of its first child, and the end
        keep       the margin each cell belongs to in the failsafe
        possible   the cells that are no structural zeros: only these may reopen
    """
    total = np.zeros(len(keep), dtype=np.int64)
    total[above.cell] = above.value
    margin = np.bincount(keep, weights=total)
    cell = np.flatnonzero((margin[keep] > 0) & possible).astype(np.int32)
    rows = SparseRows(np.array([0, len(cell)]), cell, total[cell])
    return Reopened(pose(rows, kids, level), keep)


def _copy_fits(above: SparseRows, alone: Ints, child_first: Ints, level: LevelPlan) -> Flags:
    low, high = level.bounds_of(child_first[alone])
    fits: Flags = kernels.rows_within(
        above.start, above.cell, above.value, alone, level.column, low, high
    )
    return fits


def _copies(above: SparseRows, alone: Ints, child_first: Ints) -> Triples:
    """Only children with their parent's counts."""
    sizes = above.start[alone + 1] - above.start[alone]
    entries = spans(above.start[alone], sizes)
    unit = np.repeat(child_first[alone], sizes)
    return unit, above.cell[entries].astype(np.int64), above.value[entries]
