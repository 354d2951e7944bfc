"""Rounding of all tables together, so that they still add up: controlled, and of small counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headcount.arrays import Ints
from headcount.mechanisms.rounding.controlled import round_controlled
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import all_values, link_tables
from headcount.tabulate.published import TableCells

TablePlace = tuple[str, str]
"""A table by its name, and a level."""


def controlled_tables(
    counts: Counts, made: Sequence[TableCells], *, base: int, lowest: str
) -> tuple[Mapping[TablePlace, Ints], int, bool]:
    """Rounded tables by (name, level); the most steps K; whether all were proved the nearest."""
    values = all_values(counts, tuple(cells.crossed for cells in made), lowest=lowest)
    found: dict[TablePlace, Ints] = {}
    steps, proved = 0, True
    for linked in link_tables(made, counts.geography, lowest=lowest):
        rounded = round_controlled(linked.additive, linked.gather(values), base=base)
        steps, proved = max(steps, int(rounded.steps.max(initial=0))), proved & rounded.proved
        found |= {where: rounded.counts[number] for where, number in linked.number.items()}
    return found, steps, proved


def inner_cells(
    counts: Counts, made: Sequence[TableCells], where: Sequence[tuple[int, str]]
) -> tuple[Ints, Any, Sequence[tuple[int, int]]]:
    """What small count rounding works on, of all tables together.

    Returns the counts of the inner cells, which are the cells of the schema in the units of the
    lowest level of any table, where somebody is; the 0/1 matrix (inner cells x published cells);
    and the shape of each table in turn.
    """
    from scipy.sparse import csr_array, hstack

    geography = counts.geography
    finest = max((level for _, level in where), key=geography.depth)
    entries = counts.at(finest).matrix.tocoo()
    parts, shapes = [], []
    for number, level in where:
        cells = made[number]
        shape = (geography.size(level), cells.size)
        unit = geography.ancestors(level, of=finest)[entries.row].astype(np.int64)
        rows = csr_array(cells.matrix[entries.col])
        inside = np.repeat(np.arange(len(unit)), np.diff(rows.indptr))
        column = unit[inside] * cells.size + rows.indices
        parts.append(
            csr_array(
                (rows.data.astype(np.int64), (inside, column)),
                shape=(len(unit), shape[0] * shape[1]),
            )
        )
        shapes.append(shape)
    return np.asarray(entries.data, dtype=np.int64), hstack(parts, format="csr"), shapes


def tables_of(sums: Ints, shapes: Sequence[tuple[int, int]]) -> list[Ints]:
    """Published cells of all tables, one table after another."""
    ends = np.cumsum([units * cells for units, cells in shapes])
    parts = np.split(sums, ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def sums_of_detail(cells: TableCells) -> Any:
    """The 0/1 matrix (detailed cells x cells) that adds detail up; None if that gives other sums.

    A detailed cell is part of another if they have people in common.
    """
    from scipy.sparse import csr_array

    detail = cells.matrix[:, cells.inner]
    part = csr_array((detail.T @ cells.matrix) > 0).astype(np.int64)
    return part if (detail @ part != cells.matrix).nnz == 0 else None
