"""Reading a population from Parquet or CSV: one row per person, or a wide table of counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from headcount.arrays import Ints, Ints32
from headcount.errors import InputError, one_of
from headcount.geography.build import (
    GeographySource,
    Prefixes,
    build_geography,
    check_codes,
    place_rows,
)
from headcount.geography.geography import Geography
from headcount.population.population import MOST_PEOPLE, Population
from headcount.population.quarters import Quarters
from headcount.population.reading import ReadSummary
from headcount.population.suspicious import (
    COUNT_COLUMNS,
    Totals,
    refuse_counts_of_people,
    refuse_missing_levels,
    refuse_sums,
    sums_of_others,
    without_totals,
)
from headcount.population.tables import read_table
from headcount.schema import Attribute, Follows, Schema
from headcount.schema.follows import looks_like_size


@dataclass(frozen=True, kw_only=True)
class AttributeColumn:
    """Where an attribute stands in a file.

    where
        column        its column; by default the name
        levels        the public list of levels; without it they are read from the data
        real_levels   levels that look like missing values but are real
        follows       whose doing it is; left out, it is the person's, unless a name like that of
                      a household size or a table of dwellings leaves it open
    """

    name: str
    column: str = ""
    levels: tuple[str, ...] | None = None
    real_levels: tuple[str, ...] = ()
    follows: Follows | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", self.column or self.name)
        if self.levels is not None and self.real_levels:
            raise InputError(
                f"attribute {self.name!r}",
                found="levels and real_levels",
                expected="real_levels only where levels are read from the data",
            )

    def refuse_follows(self, *known: Follows) -> None:
        """Refuse what an attribute of this table cannot follow."""
        if self.follows is not None and self.follows not in known:
            expected = " or ".join(f"'{one}'" for one in known)
            raise InputError(
                "population",
                found=f"attribute {self.name!r} with follows = '{self.follows}'",
                expected=f"{expected} for an attribute of this table",
            )

    def refuse_size(self, *, size_column: str) -> None:
        """Refuse the number of people in the household under another flag."""
        if self.follows not in (Follows.PERSON, Follows.DWELLING):
            return
        if self.column == size_column or looks_like_size(self.name, self.column):
            raise InputError(
                "population",
                found=f"attribute {self.name!r}, judging by its name the number of people in the "
                f"household, with follows = '{self.follows}'",
                expected="a [[population.dwelling_attribute]] with follows = 'size' or 'members'",
            )

    def attribute(self, levels: tuple[str, ...]) -> Attribute:
        """The attribute with these levels."""
        unsaid = looks_like_size(self.name, self.column)
        return Attribute(
            self.name,
            levels,
            self.follows or (Follows.UNSTATED if unsaid else Follows.PERSON),
        )


def read_microdata(
    path: Path,
    *,
    attributes: Sequence[AttributeColumn],
    geography: GeographySource,
    structural_zeros: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = (),
    units: Path | None = None,
    public: bool = False,
    totals: Totals = "refuse",
    not_counts: Sequence[str] = (),
) -> Population:
    """Read one row per person: geography columns and one column per attribute.

    ``units`` is a file with the geography columns, one row for each leaf that exists; without it
    the units are read from the data, and the population says so. ``totals`` says what to do with
    rows that look like totals, ``not_counts`` names columns that are not numbers of people though
    they are called so.
    """
    name = str(path)
    used = [*geography.columns, *(a.column for a in attributes)]
    table = read_table(path, [*used, *COUNT_COLUMNS], optional={*COUNT_COLUMNS} - {*used})
    refuse_counts_of_people(table, used, not_counts, name=name)
    table, left_out = without_totals(table, geography, totals, name=name)
    reading = _reading(name, table.height, left_out, table, geography)
    name = name if not left_out else f"{name} (rows of totals left out)"
    tree, unit, read_off = place_table(table, geography, units, name, totals=totals)
    chosen = []
    codes: list[Ints32] = []
    for attribute in attributes:
        values = table[attribute.column].cast(pl.String)
        if attribute.levels is None:
            refuse_null(values, attribute.column, name)
            levels = levels_of(values)
            refuse_missing_levels(
                values, levels, attribute.real_levels, column=attribute.column, name=name
            )
            read_off += (f"which levels of {attribute.name!r} exist",)
        else:
            levels = attribute.levels
        known = attribute.attribute(levels)
        chosen.append(known)
        codes.append(encode(values, known, attribute.column, name))
    schema = Schema(tuple(chosen), structural_zeros)
    cell = np.zeros(table.height, dtype=np.int32)
    for known, code in zip(chosen, codes, strict=True):
        cell = cell * np.int32(known.size) + code
    _refuse_impossible(schema, cell, name)
    return Population(
        str(path),
        schema,
        tree,
        unit,
        cell,
        public=public,
        read_off=read_off,
        reading=reading,
        one_person="one person is one row of the file, and nothing of any other row"
        + _nobodys(totals),
    )


def read_counts(
    path: Path,
    *,
    schema: Schema,
    geography: GeographySource,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    units: Path | None = None,
    public: bool = False,
    totals: Totals = "refuse",
    sums: Literal["refuse", "keep"] = "refuse",
) -> Population:
    """Read a wide table of counts: geography columns, then one column per cell.

    ``columns`` maps a column to the levels of its cell; without it a cell's column is the cell's
    levels joined by '_' (see ``Schema.cell_names``). Structural zeros may have no column.
    ``totals`` says what to do with rows that look like totals by their code, ``sums`` with those
    that equal the sum of others.
    """
    name = str(path)
    cells = _cell_columns(schema, columns)
    optional = {column for column, cell in cells.items() if not schema.possible[cell]}
    table = read_table(path, [*geography.columns, *cells], optional=optional)
    present = {column: cell for column, cell in cells.items() if column in table.columns}
    table, left_out = without_totals(table, geography, totals, name=name)
    told = name if not left_out else f"{name} (rows of totals left out)"
    counts = np.column_stack([whole_numbers(table[column], told) for column in present])
    tree, unit, read_off = place_table(table, geography, units, told, distinct=True, totals=totals)
    if sums == "refuse":
        refuse_sums(sums_of_others(counts, unit, tree), geography.codes(table)[-1], name=told)
    row, position = np.nonzero(counts)
    cell = np.fromiter(present.values(), dtype=np.int32)[position]
    _refuse_impossible(schema, cell, told, rows=row)
    return Population(
        name,
        schema,
        tree,
        unit[row],
        cell,
        counts[row, position],
        public=public,
        read_off=read_off,
        reading=_reading(name, table.height, left_out, table, geography),
        one_person="one person is one count in one cell of one row of the table" + _nobodys(totals),
    )


def _nobodys(totals: Totals) -> str:
    """What the guarantee says of rows that are left out: by the setting, not by the data."""
    return "; a row of totals is left out, and is nobody's" if totals == "drop" else ""


def _reading(
    name: str, rows: int, left_out: int, table: pl.DataFrame, source: GeographySource
) -> ReadSummary:
    return ReadSummary(
        rows=((name, rows),),
        left_out=(("rows of totals", left_out),) if left_out else (),
        remarks=cut_codes(table, source),
    )


def cut_codes(table: pl.DataFrame, source: GeographySource) -> tuple[str, ...]:
    """What to tell of codes that go on after the last prefix."""
    if not isinstance(source, Prefixes) or table.is_empty():
        return ()
    (_, last), length = source.prefixes[-1], len(str(table[source.column][0]))
    if length <= last:
        return ()
    return (f"codes in {source.column!r} are cut to the first {last} of {length} characters",)


def place_table(
    table: pl.DataFrame,
    source: GeographySource,
    units: Path | None,
    name: str,
    *,
    distinct: bool = False,
    totals: Totals = "refuse",
) -> tuple[Geography, Ints32, tuple[str, ...]]:
    """The geography, each row's leaf, and what of it was read from the data."""
    if units is None:
        tree, unit = build_geography(table, source, name=name, distinct=distinct)
        return tree, unit, ("which units exist",)
    listed = read_table(units, source.columns)
    listed, _ = without_totals(listed, source, totals, name=str(units), may_drop=False)
    tree, _ = build_geography(listed, source, name=str(units), distinct=True)
    if distinct:
        build_geography(table, source, name=name, distinct=True)
    check_codes(table, source, name=name)
    _refuse_other_parents(table, listed, source, name)
    return tree, place_rows(source.codes(table)[-1], tree, name=name), ()


def _refuse_other_parents(
    table: pl.DataFrame, listed: pl.DataFrame, source: GeographySource, name: str
) -> None:
    """A row whose leaf is known but whose upper codes differ from the list's is an error."""
    keys = [f"{number}" for number in range(len(source.levels) - 1)]
    known = pl.DataFrame(dict(zip(keys, source.codes(listed), strict=True)))
    rows = pl.DataFrame(dict(zip(keys, source.codes(table), strict=True))).with_row_index("row")
    listed_rows = rows.join(known.select(keys[-1]), on=keys[-1], how="semi")
    wrong = listed_rows.join(known, on=keys, how="anti")
    if wrong.height:
        first = wrong.sort("row").row(0, named=True)
        raise InputError(
            name,
            place=f"row {first['row'] + 1}, unit {first[keys[-1]]!r}",
            found="other parents than in the list of units",
            expected="the same parent units in both files",
        )


def levels_of(values: pl.Series) -> tuple[str, ...]:
    """The levels that occur, by number where each begins with one (9, 10-14, 85+), else by text."""
    found = values.unique().sort().to_list()
    numbers = [re.match(r"\d+", level) for level in found]
    if all(numbers):
        order = np.argsort([int(number[0]) for number in numbers if number], kind="stable")
        found = [found[place] for place in order]
    return tuple(found)


def encode(
    values: pl.Series, attribute: Attribute, column: str, name: str, *, what: str = "level"
) -> Ints32:
    """The number of each value among an attribute's levels; another is named with its row."""
    refuse_null(values, column, name)
    numbers = {level: number for number, level in enumerate(attribute.levels)}
    code = values.replace_strict(numbers, default=None, return_dtype=pl.Int32)
    if code.null_count():
        row = int(code.is_null().arg_true()[0])
        raise InputError(
            name,
            place=f"column {column!r}, row {row + 1}",
            found=f"{what} {values[row]!r}",
            expected=one_of(attribute.levels),
        )
    return code.to_numpy()


def refuse_null(values: pl.Series, column: str, name: str) -> None:
    """Refuse a column with gaps; the first is named by its row."""
    if values.null_count():
        row = int(values.is_null().arg_true()[0])
        raise InputError(
            name, place=f"column {column!r}, row {row + 1}", found="nothing", expected="a value"
        )


def whole_numbers(values: pl.Series, name: str) -> Ints:
    """The counts of one column; anything but whole numbers from 0 is an error."""
    if not (values.dtype.is_numeric() or values.dtype in (pl.String, pl.Null)):
        raise InputError(
            name,
            place=f"column {values.name!r}",
            found=f"values of type {values.dtype}",
            expected="whole numbers, 0 or more",
        )
    numbers = _exact(values)
    good = (numbers >= 0).fill_null(False)
    if not good.all():
        row = int((~good).arg_true()[0])
        raise InputError(
            name,
            place=f"column {values.name!r}, row {row + 1}",
            found="nothing" if values[row] is None else repr(values[row]),
            expected="a whole number, 0 or more",
        )
    return numbers.to_numpy()


def _exact(values: pl.Series) -> pl.Series:
    """Whole numbers as they are written, null where there is none.

    A float tells neighbouring whole numbers apart only below 2^53 (2^24 if it is short), so a
    larger one may have been another number before it was stored.
    """
    if values.dtype.is_integer():
        return values.cast(pl.Int64, strict=False)
    if values.dtype.is_float():
        limit = 1 << (24 if values.dtype == pl.Float32 else 53)
        near = values.cast(pl.Float64)
        whole = (near == near.round()) & (near.abs() < limit)
        return near.set(~whole.fill_null(False), None).cast(pl.Int64, strict=False)
    text = values.cast(pl.String)  # also decimals: "3.0" and "3." are 3 in text as well
    plain = text.str.replace(r"\.0*$", "").cast(pl.Int64, strict=False)
    others = (plain.is_null() & text.is_not_null()).arg_true()
    return plain.scatter(others, [_whole(one) for one in text.gather(others)])


def _whole(text: str) -> int | None:
    """A whole number in any other spelling, such as "1e3", or None."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    # How many digits first: 1e999999999 is a short text of a long number.
    if not number.is_finite() or number.adjusted() > 18 or number != number.to_integral_value():
        return None
    return int(number) if abs(number) <= MOST_PEOPLE else None


def _cell_columns(
    schema: Schema, columns: Mapping[str, Mapping[str, str]] | None
) -> dict[str, int]:
    if columns is None:
        return {column: cell for cell, column in enumerate(schema.cell_names)}
    cells = {column: schema.cell(**levels) for column, levels in columns.items()}
    for column, cell in cells.items():
        if list(cells.values()).count(cell) > 1:
            raise InputError(
                "columns", place=repr(column), found="a second column for its cell", expected="one"
            )
    missing = set(np.flatnonzero(schema.possible).tolist()) - set(cells.values())
    if missing:
        raise InputError(
            "columns",
            place=f"cell {schema.cell_names[min(missing)]!r}",
            found="no column",
            expected="a column for every possible cell",
        )
    return cells


def _refuse_impossible(
    schema: Schema,
    cell: Ints32,
    name: str,
    *,
    rows: Ints | None = None,
) -> None:
    bad = np.flatnonzero(~schema.possible[cell])
    if len(bad):
        row = int(bad[0] if rows is None else rows[bad[0]])
        raise InputError(
            name,
            place=f"row {row + 1}",
            found=f"someone in cell {schema.cell_names[cell[bad[0]]]!r}, a structural zero",
            expected="nobody there",
        )


def read_quarters(
    path: Path,
    *,
    population: Population,
    geography: GeographySource,
    attribute: str,
    columns: Mapping[str, str] | None = None,
    vacant: str = "",
) -> Quarters:
    """Read living quarters: geography columns, then one column for each type, one row per leaf.

    ``columns`` maps a level of the attribute to its column, by default the level's own name;
    ``vacant`` is the column of vacant housing units, if there is one.
    """
    name, tree = str(path), population.geography
    known = population.schema.attribute(attribute)
    chosen = {level: (columns or {}).get(level, level) for level in known.levels}
    extra = [vacant] if vacant else []
    table = read_table(path, [*geography.columns, *chosen.values(), *extra])
    own, at = build_geography(table, geography, name=name, distinct=True)  # refuses repeated units
    unit = place_rows(geography.codes(table)[-1], tree, name=name)
    _refuse_other_tree(own, at, tree, unit, name)
    occupied = np.zeros((tree.size(tree.leaf), known.size), dtype=np.int64)
    empty = np.zeros(len(occupied), dtype=np.int64)
    for k, column in enumerate(chosen.values()):
        occupied[unit, k] = whole_numbers(table[column], name)
    if vacant:
        empty[unit] = whole_numbers(table[vacant], name)
    return Quarters(tree, attribute, occupied, empty)


def _refuse_other_tree(
    own: Geography, at: Ints32, tree: Geography, unit: Ints32, name: str
) -> None:
    """Refuse quarters of units under other parents, and units of the population without a row."""
    for level in tree.levels[1:-1]:
        here = own.units[own.depth(level)][own.ancestors(level)[at]]
        there = tree.units[tree.depth(level)][tree.ancestors(level)[unit]]
        if (wrong := np.flatnonzero(here != there)).size:
            row = int(wrong[0])
            raise InputError(
                name,
                place=f"row {row + 1}, unit {str(tree.units[-1][unit[row]])!r}",
                found=f"{level} {str(here[row])!r}",
                expected=f"{str(there[row])!r}, as in the population",
            )
    if (missing := np.setdiff1d(np.arange(tree.size(tree.leaf)), unit)).size:
        raise InputError(
            name,
            place=f"unit {str(tree.units[-1][missing[0]])!r}",
            found="no row",
            expected=f"one for each {tree.leaf}, with zeros where there are no living quarters",
        )
