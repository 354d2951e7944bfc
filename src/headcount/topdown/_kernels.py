"""Compiled loops over sparse counts: look-ups, variables of a chunk, children from variables."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Flags, Ints, Ints32
from headcount.compiled import kernel, njit


@kernel
def add_truth(
    indptr: Ints,
    indices: Ints32,
    data: Ints,
    unit: Ints,
    cell: Ints,
    answers: Ints,
) -> None:
    """Add the true count of each (unit, cell) to its answer; rows are sorted by cell."""
    for i in range(len(unit)):
        low, high = indptr[unit[i]], indptr[unit[i] + 1]
        while low < high:
            middle = (low + high) // 2
            if indices[middle] < cell[i]:
                low = middle + 1
            else:
                high = middle
        if low < indptr[unit[i] + 1] and indices[low] == cell[i]:
            answers[i] += data[low]


@kernel
def add_true_groups(
    indptr: Ints,
    indices: Ints32,
    data: Ints,
    of_cell: Ints,
    size: int,
    unit: Ints,
    group: Ints,
    answers: Ints,
) -> None:
    """Add to each answer the true count of its unit and group; pairs of a unit are in a row.

    ``of_cell`` holds the group, one of ``size``, of each cell.
    """
    sums = np.zeros(size, dtype=np.int64)
    i = 0
    while i < len(unit):
        u = unit[i]
        for k in range(indptr[u], indptr[u + 1]):
            sums[of_cell[indices[k]]] += data[k]
        while i < len(unit) and unit[i] == u:
            answers[i] += sums[group[i]]
            i += 1
        for k in range(indptr[u], indptr[u + 1]):
            sums[of_cell[indices[k]]] = 0


@kernel
def add_true_rows(indptr: Ints, indices: Ints32, data: Ints, of_cell: Ints, answers: Ints) -> None:
    """Add the true counts of each unit to its row of answers."""
    for row in range(len(answers)):
        for k in range(indptr[row], indptr[row + 1]):
            answers[row, of_cell[indices[k]]] += data[k]


@kernel(work=lambda start, cell, *_: 2 * len(cell) + len(start) * _[-1])
def groups_in_use(
    cell_start: Ints, cell: Ints32, child_start: Ints, of_cell: Ints32, size: int
) -> tuple[Ints, Ints]:
    """Child and group, in order, of each group that a kept cell of the child's parent is in."""
    seen = np.zeros(size, dtype=np.bool_)
    used = np.empty(size, dtype=np.int64)
    child, group = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for fill in (False, True):
        n = 0
        for p in range(len(cell_start) - 1):
            seen[:] = False
            for e in range(cell_start[p], cell_start[p + 1]):
                seen[of_cell[cell[e]]] = True
            met = 0
            for g in range(size):
                if seen[g]:
                    used[met] = g
                    met += 1
            if not fill:
                n += met * (child_start[p + 1] - child_start[p])
                continue
            for c in range(child_start[p], child_start[p + 1]):
                for g in used[:met]:
                    child[n], group[n] = c, g
                    n += 1
        if not fill:
            child, group = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    return child, group


def _pairs(cell_start: Ints, cell: Ints32, child_start: Ints, column: Ints32, *_: object) -> int:
    """The work of looking at every child of each kept cell."""
    pairs = int((np.diff(cell_start) * np.diff(child_start)).sum())
    return pairs * (2 + len(column))


@kernel(work=_pairs)
def count_variables(
    cell_start: Ints,
    cell: Ints32,
    child_start: Ints,
    column: Ints32,
    high: Ints,
    var_start: Ints,
) -> None:
    """Fill ``var_start``: how many children each kept cell may be non-zero in.

    ``column[f, cell]`` is the column of ``high`` that bounds the cell in bounded family f.
    """
    for p in range(len(cell_start) - 1):
        for e in range(cell_start[p], cell_start[p + 1]):
            open_children = 0
            for c in range(child_start[p], child_start[p + 1]):
                open_children += _is_open(column, high, c, cell[e])
            var_start[e + 1] = var_start[e] + open_children


@kernel(work=_pairs)
def fill_variables(
    cell_start: Ints,
    cell: Ints32,
    child_start: Ints,
    column: Ints32,
    high: Ints,
    var_child: Ints32,
    var_cell: Ints,
) -> None:
    """Name the child and the cell of each variable, in the order of ``count_variables``."""
    v = 0
    for p in range(len(cell_start) - 1):
        for e in range(cell_start[p], cell_start[p + 1]):
            for c in range(child_start[p], child_start[p + 1]):
                if _is_open(column, high, c, cell[e]):
                    var_child[v] = c
                    var_cell[v] = cell[e]
                    v += 1


@njit
def _is_open(column: Ints32, high: Ints, child: int, cell: int) -> bool:
    shut = 0
    for f in range(column.shape[0]):
        shut += high[child, column[f, cell]] == 0
    return shut == 0


@kernel
def rows_by_child(
    children: int,
    var_child: Ints32,
    var_cell: Ints,
    value: Ints,
) -> tuple[Ints, Ints32, Ints]:
    """Sparse rows of the children from the variables of their parents, cells in order."""
    indptr = np.zeros(children + 1, dtype=np.int64)
    for v in range(len(value)):
        if value[v] > 0:
            indptr[var_child[v] + 1] += 1
    indptr = np.cumsum(indptr)
    place = indptr[:-1].copy()
    cells = np.empty(indptr[-1], dtype=np.int32)
    values = np.empty(indptr[-1], dtype=np.int64)
    for v in range(len(value)):
        if value[v] > 0:
            at = place[var_child[v]]
            cells[at] = var_cell[v]
            values[at] = value[v]
            place[var_child[v]] = at + 1
    return indptr, cells, values


@kernel
def rows_within(
    start: Ints,
    cell: Ints32,
    value: Ints,
    row: Ints,
    column: Ints32,
    low: Ints,
    high: Ints,
) -> Flags:
    """Whether counts ``row[i]`` would keep bounds number i, for every i."""
    within = np.ones(len(row), dtype=np.bool_)
    margin = np.zeros(low.shape[1], dtype=np.int64)
    for i in range(len(row)):
        margin[:] = 0
        for k in range(start[row[i]], start[row[i] + 1]):
            for f in range(column.shape[0]):
                margin[column[f, cell[k]]] += value[k]
        for c in range(low.shape[1]):
            if margin[c] < low[i, c] or margin[c] > high[i, c]:
                within[i] = False
    return within


@kernel
def first_broken(
    start: Ints,
    cell: Ints32,
    value: Ints,
    column: Ints32,
    low: Ints,
    high: Ints,
) -> int:
    """The first unit x column whose margin is outside its bounds, or -1."""
    families, columns = column.shape[0], low.shape[1]
    margin = np.zeros(columns, dtype=np.int64)
    for u in range(len(start) - 1):
        margin[:] = 0
        for k in range(start[u], start[u + 1]):
            for f in range(families):
                margin[column[f, cell[k]]] += value[k]
        for c in range(columns):
            if margin[c] < low[u, c] or margin[c] > high[u, c]:
                return int(u * columns + c)
    return -1
