"""Do the bounds on a child nest? Only then is rounding a network problem."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.topdown.solve.batch import NO_BOUND, Batch


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
