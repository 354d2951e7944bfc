"""Forests of groups of cells that nest: bounds, and the queries of a pass.

Only where groups are laminar (of two, one holds the other, or they share nothing) is rounding a
network problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.topdown.solve.batch import NO_BOUND, Batch

Partition = Ints32
"""For each schema cell the number of its group, from 0; -1 for no group."""


class Nesting(NamedTuple):
    """The bounded groups of a level as a forest: of two groups one holds the other or none.

    The matrix of "sum over children" rows and of such a forest of rows within each child is a
    network matrix, so the linear relaxation of rounding has integral vertices (Hoffman and
    Kruskal 1956). Groups that cross an earlier group of the forest are left out of it.

        column    int32[T]   the column of ``low`` and ``high`` of each node of the forest; a node
                             comes after every node that holds it
        above     int32[T]   the smallest node that holds this one, -1 for none
        leaf      int32[n]   for each schema cell the smallest node that holds it, -1 for none
        left_out  int64[L]   bounded columns that cross the forest
    """

    column: Ints
    above: Ints32
    leaf: Ints32
    left_out: Ints

    @property
    def nested(self) -> bool:
        """Whether the forest holds every bounded group: rounding is a network problem."""
        return len(self.left_out) == 0


def nesting(batch: Batch) -> Nesting:
    """How the bounded groups of a batch nest: as decided for its level, or as it is here."""
    if batch.forest is not None:
        return batch.forest
    return forest_of(bounded_columns(batch), group=batch.group, bound_start=batch.bound_start)


def forest_of(bounded: Ints, *, group: Ints32, bound_start: Ints) -> Nesting:
    """Sort the bounded groups into a forest and what crosses it.

    where
        bounded      the columns of ``low`` and ``high`` in which some bound can bind
        group        for each family, the group of each schema cell
        bound_start  where each family's columns begin
    """
    where = bound_column(group, bound_start)
    overlap = _overlaps(where, bounded, int(bound_start[-1]))
    size = overlap.diagonal()
    crossing = (overlap > 0) & (overlap < np.minimum(size[:, None], size[None, :]))
    taken = np.ones(len(bounded), dtype=bool)
    if crossing.any():
        taken[:] = False
        for k in range(len(bounded)):
            taken[k] = not crossing[k, taken].any()
    chosen = np.flatnonzero(taken)
    chosen = chosen[np.argsort(-size[chosen], kind="stable")]
    above, leaf = _forest(where, bounded[chosen], overlap[np.ix_(chosen, chosen)])
    return Nesting(
        column=bounded[chosen].astype(np.int64),
        above=above,
        leaf=leaf,
        left_out=bounded[~taken].astype(np.int64),
    )


def bounded_columns(batch: Batch) -> Ints:
    """The columns in which some child has a bound that can bind."""
    return np.flatnonzero(((batch.low > 0) | (batch.high < NO_BOUND)).any(axis=0))


def bound_column(group: Ints32, bound_start: Ints) -> Ints:
    """For each family and schema cell, the column of its group's bounds; -1 if it has none."""
    bounded = np.diff(bound_start) > 0
    return np.where(bounded[:, None], group + bound_start[:-1, None], -1)


def rank_of(columns: Ints, many: int) -> Ints:
    """The place of each of so many columns among the chosen ones; -1 for others, and for -1."""
    rank = np.full(many + 1, -1, dtype=np.int64)
    rank[columns] = np.arange(len(columns))
    return rank


def locate(batch: Batch, column: int) -> tuple[int, int]:
    """Family and group of a column of bounds."""
    family = int(np.searchsorted(batch.bound_start, column, side="right")) - 1
    return family, int(column - batch.bound_start[family])


def _overlaps(where: Ints, columns: Ints, many: int) -> Ints:
    """How many cells each two of the groups share."""
    families, cells = where.shape
    row = rank_of(columns, many)[where]
    held = row >= 0
    member = np.zeros((len(columns), cells), dtype=np.float32)
    member[row[held], np.broadcast_to(np.arange(cells), (families, cells))[held]] = 1
    return (member @ member.T).astype(np.int64)  # exact: far fewer than 2^24 cells


def _forest(where: Ints, columns: Ints, overlap: Ints) -> tuple[Ints32, Ints32]:
    """Link groups, given from large to small, to the smallest group that holds them."""
    above = np.full(len(columns), -1, dtype=np.int32)
    leaf = np.full(where.shape[1], -1, dtype=np.int32)
    for k, column in enumerate(columns):
        holders = np.flatnonzero(overlap[k, :k] == overlap[k, k])
        if len(holders):
            above[k] = holders[-1]
        leaf[(where == column).any(axis=0)] = k
    return above, leaf


class ChainForest(NamedTuple):
    """The groups of a rounding pass as a forest: of two groups one holds the other, or none.

    above    int32[T]   the smallest group that holds this one, -1 for none
    leaf     int32[n]   for each schema cell the smallest group that holds it, -1 for none
    column   int64[T]   of each group in ``low`` and ``high``; -1 without bounds
    queries  int64[T]   how many queries of the pass have this group
    by_cell  how many queries of the pass are the cells themselves
    low, high   int64[C, B]   the batch's bounds, and the integers of earlier passes
    """

    above: Ints32
    leaf: Ints32
    column: Ints
    queries: Ints
    by_cell: int
    low: Ints
    high: Ints


class _Layer(NamedTuple):
    """A partition with the columns that hold its groups' bounds (-1: none), in a pass or not."""

    group: Partition
    column: Ints
    counts: bool


def chain_forest(
    batch: Batch, queries: Sequence[Partition], held: Sequence[tuple[Partition, Ints]]
) -> ChainForest | None:
    """The forest of a pass's queries, the batch's bounds and earlier queries; None if they cross.

    ``held`` has partitions of earlier passes and their integers, int64[C, groups].
    """
    cells = batch.group.shape[1]
    layers, low, high, used = [], [], [], 0
    for f, columns in _bounded_families(batch):
        first = batch.bound_start[f]
        number = np.full(int(batch.bound_start[f + 1] - first), -1)
        number[columns - first] = np.arange(len(columns))
        layers.append(_Layer(number[batch.group[f]], used + np.arange(len(columns)), False))
        low.append(batch.low[:, columns])
        high.append(batch.high[:, columns])
        used += len(columns)
    for group, integers in held:
        layers.append(_Layer(group, used + np.arange(integers.shape[1]), False))
        low.append(integers)
        high.append(integers)
        used += integers.shape[1]
    singles = [_is_by_cell(group) for group in queries]
    for group, single in zip(queries, singles, strict=True):
        if not single:
            layers.append(_Layer(group, np.full(int(group.max()) + 1, -1), True))
    grown = _grown(layers, cells)
    if grown is None:
        return None
    kids = len(batch.low)
    return ChainForest(
        *grown,
        by_cell=sum(singles),
        low=np.ascontiguousarray(np.concatenate([np.zeros((kids, 0), np.int64), *low], axis=1)),
        high=np.ascontiguousarray(np.concatenate([np.zeros((kids, 0), np.int64), *high], axis=1)),
    )


def nest(partitions: Sequence[Partition]) -> bool:
    """Whether of any two groups of some partitions one holds the other, or they share no cell."""
    layers = [_Layer(one, np.full(int(one.max()) + 1, -1), True) for one in partitions]
    return _grow(layers, len(partitions[0])) is not None


def _is_by_cell(group: Partition) -> bool:
    """Whether every group of a partition is one cell."""
    return int(group.max()) + 1 == len(group) and bool(np.bincount(group).all())


def _bounded_families(batch: Batch) -> list[tuple[int, Ints]]:
    """The families with bounds that can bind, each with its bounded columns."""
    columns = bounded_columns(batch)
    if batch.forest is not None:  # decided for the whole level
        columns = np.sort(np.concatenate([batch.forest.column, batch.forest.left_out]))
    family = np.searchsorted(batch.bound_start, columns, side="right") - 1
    return [(int(f), columns[family == f]) for f in np.unique(family)]


def _grown(layers: Sequence[_Layer], cells: int) -> tuple[Ints32, Ints32, Ints, Ints] | None:
    """As ``_grow``; batches of one level have the same layers, and share what was grown once."""
    return _grow_once(
        tuple(layer.group.astype(np.int32, copy=False).tobytes() for layer in layers),
        tuple(layer.column.tobytes() for layer in layers),
        tuple(layer.counts for layer in layers),
        cells,
    )


@lru_cache(maxsize=16)
def _grow_once(
    groups: tuple[bytes, ...], columns: tuple[bytes, ...], counts: tuple[bool, ...], cells: int
) -> tuple[Ints32, Ints32, Ints, Ints] | None:
    parts = zip(groups, columns, counts, strict=True)
    return _grow(
        [_Layer(np.frombuffer(a, np.int32), np.frombuffer(b, np.int64), c) for a, b, c in parts],
        cells,
    )


def _grow(layers: Sequence[_Layer], cells: int) -> tuple[Ints32, Ints32, Ints, Ints] | None:
    """Order the groups that hold each cell from large to small, and link each to the one before.

    Groups nest exactly when each group has the same one before it in all its cells: of two groups
    that cross, some cells of the smaller have the larger before them and some have not, and the
    first difference shows.
    """
    if not any(len(layer.column) for layer in layers):
        none = np.zeros(0, np.int64)
        return none.astype(np.int32), np.full(cells, -1, np.int32), none, none
    first = np.concatenate([[0], np.cumsum([len(layer.column) for layer in layers])])
    node = np.stack(
        [np.where(a.group >= 0, a.group + k, -1) for a, k in zip(layers, first, strict=False)]
    )
    size = np.bincount(node[node >= 0], minlength=int(first[-1]))
    order = np.argsort(np.where(node >= 0, -size[node], 1), axis=0, kind="stable")
    path = np.take_along_axis(node, order, axis=0)  # each cell's groups, from large to small
    before = np.concatenate([np.full((1, cells), -1), path[:-1]])
    above = np.full(int(first[-1]), -2)
    held = path >= 0
    above[path[held][::-1]] = before[held][::-1]  # the first cell decides
    if (above[path[held]] != before[held]).any():
        return None
    leaf = np.full(cells, -1)
    for row in path:
        leaf = np.where(row >= 0, row, leaf)
    rank = np.argsort(-size, kind="stable")  # numbers from large to small: holders come first
    number = np.empty(len(rank) + 1, np.int64)
    number[rank], number[-1] = np.arange(len(rank)), -1
    above = np.where(above < -1, -1, above)  # a group without cells
    return (
        number[above[rank]].astype(np.int32),
        number[leaf].astype(np.int32),
        np.concatenate([layer.column for layer in layers])[rank],
        np.concatenate([np.full(len(a.column), int(a.counts)) for a in layers])[rank],
    )
