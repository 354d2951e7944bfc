"""A table of counts, or of people, that somebody else made: tidy or wide."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.errors import InputError, Problems, one_of
from headcount.geography import Geography
from headcount.population.tables import Rows
from headcount.release._matching import Entries, level_numbers, unit_numbers
from headcount.release.layout import marginal
from headcount.schema import Schema

COUNT_NAMES = ("n", "count", "value", "people")
"""What a column of counts is called, unless a config says otherwise."""

ValueMaps = Mapping[str, Mapping[str, str]]


def read_counts(
    rows: Rows, schema: Schema, geography: Geography, count: str, values: ValueMaps
) -> Entries:
    """The counts of a table: a column for each cell, a row for each count, or one for each person.

    Attributes that the table does not have are added up.
    """
    header = rows.frame.columns
    level = _level(rows, geography)
    names = tuple(name for name in schema.names if name in header)
    counts = count or next(
        (name for name in COUNT_NAMES if name in header and name not in schema.names), ""
    )
    if count and count not in header:
        raise InputError(
            rows.name, place="release.count", found=f"no column {count!r}", expected=one_of(header)
        )
    wide = () if names else _cells(schema, header)
    if not names and wide is not None and not counts:
        return _wide(rows, schema, geography, level, wide)
    if not counts and not names:
        raise InputError(
            rows.name,
            found=f"columns {one_of(header).removeprefix('one of ')}",
            expected=f"a column of counts (one of {', '.join(COUNT_NAMES)}, or [release] count), "
            f"attributes ({', '.join(schema.names) or 'none'}), or cells such as "
            f"{schema.cell_names[0]!r}; [release] columns says what a column is",
        )
    return _tidy(rows, schema, geography, level, names, counts, values)


def _level(rows: Rows, geography: Geography) -> str:
    """The lowest level that has a column."""
    found = [level for level in geography.levels if level in rows.frame.columns]
    if not found:
        raise InputError(
            rows.name,
            found=f"columns {one_of(rows.frame.columns).removeprefix('one of ')}",
            expected=f"a column with codes of units, named {one_of(geography.levels)} "
            "([release] columns says what a column is)",
        )
    return found[-1]


def _cells(schema: Schema, header: list[str]) -> tuple[str, ...] | None:
    """The attributes whose cells the columns are: the most; None if the columns are no cells."""
    for size in range(len(schema.names), -1, -1):
        for names in combinations(schema.names, size):
            part = marginal(schema, names)
            cells = [name for name, ok in zip(part.cell_names, part.possible, strict=True) if ok]
            if set(cells) <= set(header):
                return names
    return schema.names if set(schema.cell_names) & set(header) else None


def _wide(
    rows: Rows, schema: Schema, geography: Geography, level: str, names: tuple[str, ...]
) -> Entries:
    part, frame = marginal(schema, names), rows.frame
    cells = [number for number, name in enumerate(part.cell_names) if name in frame.columns]
    row = np.arange(frame.height)
    problems = rows.problems()
    unit = unit_numbers(frame, level, geography, problems, row)
    columns = [_numbers(frame[part.cell_names[number]], rows, problems, row) for number in cells]
    problems.refuse()
    return Entries(
        source=rows.name,
        level=level,
        names=names,
        unit=np.repeat(unit, len(cells)),
        cell=np.tile(np.array(cells, dtype=np.int64), frame.height),
        value=np.column_stack([values for values, _ in columns]).ravel(),
        whole=all(whole for _, whole in columns),
        complete=False,
        row=np.repeat(row, len(cells)),
        problems=rows.problems,
        words=f"a wide table of each {level}, {len(cells):,} cells",
    )


def _tidy(
    rows: Rows,
    schema: Schema,
    geography: Geography,
    level: str,
    names: tuple[str, ...],
    count: str,
    values: ValueMaps,
) -> Entries:
    frame, row, problems = rows.frame, np.arange(rows.frame.height), rows.problems()
    people = not count
    keys = [*(level for level in geography.levels if level in frame.columns), *names]
    if people:  # people who are alike are counted, not listed
        frame, row = _counted(frame, keys)
        count = "n"
    else:
        problems.add(
            (~frame.select(pl.struct(keys).is_first_distinct()).to_series()).arg_true(),
            found=lambda at: "the unit and levels of an earlier row",
            expected="each once",
        )
    unit = unit_numbers(frame, level, geography, problems, row)
    part = marginal(schema, names)
    cell = np.zeros(len(row), dtype=np.int64)
    for attribute in part.attributes:
        mapped = values.get(attribute.name, {})
        number = level_numbers(frame[attribute.name], attribute, mapped, problems, row)
        cell = cell * attribute.size + number
    value, whole = _numbers(frame[count], rows, problems, row)
    problems.refuse()
    by = f"by {', '.join(names)}" if names else "in all"
    return Entries(
        source=rows.name,
        level=level,
        names=names,
        unit=unit,
        cell=cell,
        value=value,
        whole=whole,
        complete=people,
        row=row,
        problems=rows.problems,
        words=f"a row for each {'person' if people else 'count'} of each {level}, {by}",
    ).added()


def _counted(frame: pl.DataFrame, columns: list[str]) -> tuple[pl.DataFrame, Ints]:
    """How many rows are alike, and the first of them."""
    alike = (
        frame.select(columns)
        .with_row_index("\0row")
        .group_by(columns, maintain_order=True)
        .agg(pl.col("\0row").first(), pl.len().alias("n"))
    )
    return alike.drop("\0row"), alike["\0row"].to_numpy().astype(np.int64)


def _numbers(column: pl.Series, rows: Rows, problems: Problems, row: Ints) -> tuple[Floats, bool]:
    """Counts, NaN where there is none, and whether they are written as whole numbers."""
    if column.dtype.is_numeric():
        numbers, text = column, column.cast(pl.String)
    else:
        text = column.cast(pl.String).str.strip_chars()
        numbers = rows.form.plain(text).cast(pl.Float64, strict=False)
    exact = numbers.cast(pl.Float64)
    blank = text.is_null() | (text == "")
    wrong = ~blank & (exact.is_null() | exact.is_infinite().fill_null(False))
    bad = wrong.arg_true().to_numpy()
    place = dict(zip(row[bad].tolist(), bad.tolist(), strict=True))
    problems.add(
        row[bad],
        place=f"column {column.name!r}",
        found=lambda at: repr(text[place[at]]),
        expected="a number, or nothing where a count is missing",
    )
    whole = column.dtype.is_integer() or not bool(text.str.contains(r"[.eE]").any())
    return exact.fill_null(np.nan).to_numpy(), whole
