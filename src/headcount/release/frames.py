"""The tables of a release as data frames: one row for each unit, or one for each count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.release.published import (
    FLAG,
    TOTAL_LABEL,
    PublishedCells,
    cell_columns,
    cell_names,
    flags,
)
from headcount.schema import Schema

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Dense = Ints | Floats
LevelTable: TypeAlias = "Ints | Floats | csr_array[Any, tuple[int, int]]"

COUNT = "n"
"""The column of counts of a tidy table."""

MOST_COLUMNS = 2048
"""Columns of a table with one column per cell; a sparse table with more is written cell by cell."""


def units_frame(geography: Geography, level: str) -> pl.DataFrame:
    """The units of a level: their codes from the top to the unit, as text."""
    depth = geography.depth(level)
    above = [level] if depth == 0 else geography.levels[1 : depth + 1]
    codes = {
        name: geography.units[geography.depth(name)][geography.ancestors(name, of=level)]
        for name in above
    }
    return pl.DataFrame(
        {name: pl.Series(name, code.tolist(), dtype=pl.String) for name, code in codes.items()}
    )


def wide_frame(units: pl.DataFrame, schema: Schema, table: LevelTable) -> pl.DataFrame:
    """Some units as a wide table: the codes from the top to the unit, then one column per cell."""
    full = _dense(table)
    cells = {name: full[:, i] for i, name in enumerate(schema.cell_names) if schema.possible[i]}
    return units.with_columns(pl.Series(name, column) for name, column in cells.items())


def tidy_frame(units: pl.DataFrame, schema: Schema, table: LevelTable) -> pl.DataFrame:
    """Some units as a tidy table: codes of the unit, each attribute by its level, and ``n``.

    Every possible count has its row, zeros included; but of a sparse table with more than
    ``MOST_COLUMNS`` cells (63 races by single years are 20,000) only counts that are not zero.
    """
    refuse_clash(units.columns, [*schema.names, COUNT], "column")
    unit, cell, value = _entries(table, schema)
    codes = np.unravel_index(cell, schema.shape) if schema.names else ()
    rows: pl.DataFrame = units[unit]
    return rows.with_columns(
        *(
            pl.Series(attribute.name, attribute.levels, dtype=pl.Enum(attribute.levels))[code]
            for attribute, code in zip(schema.attributes, codes, strict=True)
        ),
        pl.Series(COUNT, value),
    )


def refuse_clash(levels: Sequence[str], names: Sequence[str], what: str) -> None:
    """Refuse a geography level that has the name of another column."""
    if clash := sorted(set(levels) & set(names)):
        raise InputError(
            "release",
            place=f"column {clash[0]!r}",
            found=f"a geography level and a {what} of that name",
            expected="distinct names",
        )


def only_counted(schema: Schema, table: LevelTable) -> bool:
    """Whether a table has rows for counts other than zero alone."""
    return schema.size > MOST_COLUMNS and not isinstance(table, np.ndarray)


def _entries(table: LevelTable, schema: Schema) -> tuple[Ints, Ints, Any]:
    """Unit, cell and value of every count that has a row of its own."""
    if only_counted(schema, table):
        entries = table.tocoo()  # type: ignore[union-attr]
        return entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data
    full, cells = _dense(table), np.flatnonzero(schema.possible)
    unit = np.repeat(np.arange(len(full)), len(cells))
    return unit, np.tile(cells, len(full)), full[:, cells].ravel()


def _dense(table: LevelTable) -> Dense:
    return table if isinstance(table, np.ndarray) else np.asarray(table.toarray())


def tables_frame(
    geography: Geography, level: str, tables: Sequence[PublishedCells], *, tidy: bool
) -> pl.DataFrame:
    """Published tables at a level; a withheld count is missing.

    Tidy: ``table``, codes of the unit, ``cell``, ``n`` and whether it is ``published``; of tables
    of a user's own each attribute in place of the cell, and a ``flag``. Else a row for each unit
    and a column for each cell of each table.
    """
    units = units_frame(geography, level)
    if not tidy:
        columns = {
            f"{one.name}: {name}": pl.Series(one.value[:, i]).set(
                pl.Series(one.withheld[:, i]), None
            )
            for one in tables
            for i, name in enumerate(cell_names(one.cells))
        }
        return units.with_columns(**columns)
    if all(one.cells.table.is_own for one in tables):
        return _tidy_own(units, tables)
    return pl.concat([_tidy_table(units, one) for one in tables])


def _tidy_own(units: pl.DataFrame, tables: Sequence[PublishedCells]) -> pl.DataFrame:
    """Tables of a user's own one below the other: by an attribute that one lacks it is a total."""
    found = []
    for one in tables:
        rows = units[np.repeat(np.arange(units.height), one.cells.size)]
        groups = {name: labels * units.height for name, labels in cell_columns(one.cells).items()}
        found.append(
            rows.select(
                pl.lit(one.name).alias("table"),
                pl.all(),
                *(pl.Series(name, labels, dtype=pl.String) for name, labels in groups.items()),
                pl.Series(COUNT, one.value.ravel(), dtype=pl.Int64).set(
                    pl.Series(one.withheld.ravel()), None
                ),
                pl.Series(FLAG, flags(one), dtype=pl.String),
            )
        )
    joined = pl.concat(found, how="diagonal")
    names = dict.fromkeys(axis.role for one in tables for axis in one.cells.axes)
    return joined.select(
        "table", *units.columns, *(pl.col(one).fill_null(TOTAL_LABEL) for one in names), COUNT, FLAG
    )


def _tidy_table(units: pl.DataFrame, one: PublishedCells) -> pl.DataFrame:
    names = cell_names(one.cells)
    rows: pl.DataFrame = units[np.repeat(np.arange(units.height), len(names))]
    return rows.select(
        pl.lit(one.name).alias("table"),
        pl.all(),
        pl.Series("cell", names * units.height, dtype=pl.String),
        pl.Series(COUNT, one.value.ravel(), dtype=pl.Int64),
        pl.Series("published", ~one.withheld.ravel()),
    ).with_columns(pl.when("published").then(COUNT).alias(COUNT))
