"""Bounds of a user's own: low and high for each unit and group, from a CSV or Parquet file."""

from __future__ import annotations

from math import prod

import numpy as np
import polars as pl

from headcount.arrays import Flags, Ints
from headcount.errors import InputError, Problems
from headcount.geography import Geography
from headcount.population.columns import AttributeColumn, coded
from headcount.population.tables import Rows, read_rows
from headcount.schema import Attribute, Schema
from headcount.schema.schema import first_repeated
from headcount.tabulate import Query
from headcount.topdown.choices import TableBounds, file_digest
from headcount.topdown.solve.batch import NO_BOUND

LARGEST_BOUND = 2**40
"""The largest bound; more people are refused anyway."""


def read_bounds(
    bounds: TableBounds, query: Query, schema: Schema, geography: Geography
) -> tuple[Ints, Ints]:
    """Low and high of every unit and group (units x groups).

    One row for each: the unit's code in a column named after the level, the group's levels in
    columns named after the query's attributes or recodes, then ``low`` and ``high``. An empty
    ``low`` is 0, an empty ``high`` no bound. Groups that cannot hold anyone may be left out.
    """
    path = bounds.file
    name = str(path)
    if bounds.sha256 and file_digest(path) != bounds.sha256:
        raise InputError(name, found="different content", expected=f"sha256 {bounds.sha256}")
    axes = query.attributes(schema)
    columns = [bounds.level, *(axis.name for axis in axes), "low", "high"]
    if twice := first_repeated(columns):
        raise InputError(
            name,
            place=f"column {twice!r}",
            found="two columns of that name",
            expected="a level, attributes and recodes with distinct names, none low or high",
        )
    rows = read_rows(path, columns)
    codes = [str(code) for code in geography.units[geography.depth(bounds.level)]]
    problems, row = rows.problems(), np.zeros(rows.frame.height, dtype=np.int64)
    for axis in (Attribute(bounds.level, tuple(codes)), *axes):
        known = AttributeColumn(name=axis.name, levels=axis.levels)
        row = row * axis.size + coded(rows, known, problems)[1]
    low, high = (
        _whole(rows, which, problems, empty=n) for which, n in (("low", 0), ("high", None))
    )
    problems.refuse()
    shape = (len(codes), prod(axis.size for axis in axes))
    problems.add(
        _repeated(row),
        found=lambda _: "a second row for its unit and group",
        expected="one",
    )
    problems.add(
        np.flatnonzero(low > high),
        found=lambda _: "low above high",
        expected="low at most high",
    )
    problems.refuse()
    wanted = np.zeros(shape[1], dtype=bool)
    wanted[query.groups(schema)[schema.possible]] = True
    _refuse_missing(row, wanted, shape, bounds.level, codes, axes, name)
    lows = np.zeros(shape, dtype=np.int64)
    highs = np.where(wanted, NO_BOUND, 0) * np.ones(shape, dtype=np.int64)
    lows.flat[row], highs.flat[row] = low, high
    return lows, highs


def group_name(axes: tuple[Attribute, ...], group: int) -> str:
    """A group by the names of its levels."""
    place = np.unravel_index(group, [axis.size for axis in axes] or [1])
    names = [one.levels[int(k)] for one, k in zip(axes, place, strict=False)]
    return ", ".join(names) or "everyone"


def _whole(rows: Rows, column: str, problems: Problems, *, empty: int | None) -> Ints:
    """A column of bounds; ``empty`` stands for nothing, None for no bound."""
    text = rows.frame[column].cast(pl.String).str.strip_chars()
    blank = (text.is_null() | (text == "")).to_numpy()
    numbers = text.cast(pl.Float64, strict=False).to_numpy()
    with np.errstate(invalid="ignore"):
        good = blank | (
            (numbers >= 0) & (numbers <= LARGEST_BOUND) & (numbers == np.floor(numbers))
        )
    problems.add(
        np.flatnonzero(~good),
        place=f"column {column!r}",
        found=lambda row: repr(text[row]),
        expected="a whole number from 0 to 2^40, or nothing",
    )
    missing = int(NO_BOUND) if empty is None else empty
    known = np.where(good, np.nan_to_num(numbers, posinf=0), 0)
    return np.where(blank, missing, known).astype(np.int64)


def _repeated(row: Ints) -> Ints:
    """Rows whose unit and group an earlier one has."""
    _, first = np.unique(row, return_index=True)
    return np.setdiff1d(np.arange(len(row)), first)


def _refuse_missing(
    row: Ints,
    wanted: Flags,
    shape: tuple[int, int],
    level: str,
    codes: list[str],
    axes: tuple[Attribute, ...],
    name: str,
) -> None:
    there = np.zeros(shape, dtype=bool)
    there.flat[row] = True
    if len(gone := np.argwhere(~there & wanted)):
        unit, group = (int(k) for k in gone[0])
        raise InputError(
            name,
            place=f"{level} {codes[unit]!r}, group ({group_name(axes, group)})",
            found="no row",
            expected="a row for every unit and group (an empty low or high means no bound)",
        )
