"""The tables of a release as data frames: one row for each unit, or one for each count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints, arrow_numbers, arrow_texts
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.processes import gib, memory_limit
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
    import pyarrow as pa
    from scipy.sparse import csr_array

Dense = Ints | Floats
LevelTable: TypeAlias = "Ints | Floats | csr_array[Any, tuple[int, int]]"

COUNT = "n"
"""The column of counts of a tidy table."""

MOST_COLUMNS, MOST_COUNTS = 256, 1 << 24
"""Cells, and units x cells, of a table with a row for each unit; beyond that a sparse table has a
row for each count that is not zero."""


def is_large(schema: Schema, units: int) -> bool:
    """Whether a table of so many units is too wide, or too large, to list counts of 0."""
    return schema.size > MOST_COLUMNS or schema.size * units > MOST_COUNTS


def code_names(geography: Geography, level: str) -> tuple[str, ...]:
    """The columns of codes in the tables of a level, from the top to the unit."""
    depth = geography.depth(level)
    return (level,) if depth == 0 else geography.levels[1 : depth + 1]


def _code_columns(geography: Geography, level: str, units: range) -> dict[str, pa.DictionaryArray]:
    """Codes of some units of a level from the top to the unit, each code held once.

    Units are in the order of the tree, so those above a run of units are a run as well.
    """
    import pyarrow as pa

    columns = {}
    for name in code_names(geography, level):
        of_unit = geography.ancestors(name, of=level, units=units)
        first, last = (int(of_unit[0]), int(of_unit[-1]) + 1) if len(of_unit) else (0, 0)
        codes = arrow_texts(geography.units[geography.depth(name)][first:last])
        columns[name] = pa.DictionaryArray.from_arrays(arrow_numbers(of_unit - first), codes)
    return columns


def units_frame(geography: Geography, level: str, units: range | None = None) -> pl.DataFrame:
    """The units of a level, or some of them: their codes from the top to the unit, as text."""
    units = range(geography.size(level)) if units is None else units
    return pl.DataFrame(
        {
            name: pl.from_arrow(column.dictionary_decode())
            for name, column in _code_columns(geography, level, units).items()
        }
    )


def counted_rows(
    geography: Geography, level: str, units: range, schema: Schema, table: LevelTable
) -> pa.Table:
    """Counts of some units that are not 0, as ``tidy_frame`` has them, for the writer of Parquet.

    ``table`` is of these units alone. Codes and levels are numbers into lists of them.
    """
    import pyarrow as pa

    entries = table.tocoo()  # type: ignore[union-attr]
    rows = arrow_numbers(entries.row)
    columns = {
        name: column.take(rows) for name, column in _code_columns(geography, level, units).items()
    }
    codes = np.unravel_index(entries.col, schema.shape) if schema.names else ()
    for attribute, code in zip(schema.attributes, codes, strict=True):
        number, levels = arrow_numbers(code.astype(np.int32)), arrow_texts(attribute.levels)
        columns[attribute.name] = pa.DictionaryArray.from_arrays(number, levels)
    return pa.table(columns | {COUNT: arrow_numbers(entries.data)})


def wide_frame(units: pl.DataFrame, schema: Schema, table: LevelTable) -> pl.DataFrame:
    """Some units as a wide table: the codes from the top to the unit, then one column per cell."""
    full = dense(table)
    cells = {name: full[:, i] for i, name in enumerate(schema.cell_names) if schema.possible[i]}
    return units.with_columns(pl.Series(name, column) for name, column in cells.items())


def tidy_frame(units: pl.DataFrame, schema: Schema, table: LevelTable) -> pl.DataFrame:
    """Some units as a tidy table: codes of the unit, each attribute by its level, and ``n``.

    Every possible count has its row, zeros included; but of a large sparse table (``is_large``: 63
    races by single years are 20,000 cells) only counts that are not zero.
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
    return not isinstance(table, np.ndarray) and is_large(schema, table.shape[0])


def _entries(table: LevelTable, schema: Schema) -> tuple[Ints, Ints, Any]:
    """Unit, cell and value of every count that has a row of its own."""
    if only_counted(schema, table):
        entries = table.tocoo()  # type: ignore[union-attr]
        return entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data
    full, cells = dense(table), np.flatnonzero(schema.possible)
    unit = np.repeat(np.arange(len(full)), len(cells))
    return unit, np.tile(cells, len(full)), full[:, cells].ravel()


def dense(table: LevelTable) -> Dense:
    """The counts as a full array; refused where that would be larger than memory."""
    if isinstance(table, np.ndarray):
        return table
    needed = table.shape[0] * table.shape[1] * table.dtype.itemsize
    if needed > (limit := memory_limit()):
        raise InputError(
            "release",
            found=f"{table.shape[0]:,} units x {table.shape[1]:,} cells, which take {gib(needed)} "
            f"as a full array, with {gib(limit)} of memory",
            expected="the sparse table, release.table(level), or some units of it",
        )
    return np.asarray(table.toarray())


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
