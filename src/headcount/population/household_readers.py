"""Reading people in dwellings from Parquet or CSV: a person table, a dwelling table, keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.geography import Areas, Geography
from headcount.geography.build import GeographySource, place_rows
from headcount.population.households import HOUSEHOLD, VACANT, Households
from headcount.population.readers import (
    AttributeColumn,
    cut_codes,
    encode,
    levels_of,
    place_table,
    refuse_null,
    whole_numbers,
)
from headcount.population.reading import ReadSummary
from headcount.population.suspicious import Totals, refuse_missing_levels, without_totals
from headcount.population.tables import read_table
from headcount.schema import Attribute, Follows

KINDS = ("household", "vacant")
"""Kinds of dwelling in a file that has no facilities."""

MOST_LEVELS, MOST_KINDS = np.iinfo(np.int16).max, np.iinfo(np.int8).max
"""Levels of an attribute are numbered in 16 bits, kinds of dwelling in 8."""


_DWELLING = "\0dwelling"  # a name that no column of a file has


def read_households(
    persons: Path,
    dwellings: Path | None = None,
    *,
    key: str,
    geography: GeographySource,
    attributes: Sequence[AttributeColumn],
    dwelling_attributes: Sequence[AttributeColumn] = (),
    kind: str = "",
    kinds: tuple[str, ...] = KINDS,
    size: str = "",
    areas: Sequence[str] = (),
    units: Path | None = None,
    public: bool = False,
    totals: Totals = "refuse",
) -> Households:
    """Read people in dwellings.

    where
        persons               one row per person: the key of their dwelling, their attributes
        dwellings             one row per dwelling: its key, geography, attributes. Without it
                              those columns are read from the persons, and must be the same for all
                              who share a key
        key                   column that holds the key, in both files
        kind, kinds           column of the kind of dwelling, and its values: household first,
                              vacant second, then types of group quarters. Without the column a
                              dwelling is a household, or vacant if nobody lives there
        size                  column with the number of people, to be checked
        areas                 columns of off-spine areas such as places, empty for none; from
                              ``units`` if it has them
        units                 the public list of leaf units, as for ``read_microdata``
        totals                ``"keep"``: codes that look like rows of totals are those of units

    Persons may carry geography columns beside a dwelling table; they must then agree with it.
    """
    listed = _listed(areas, units, geography)
    shared = [*geography.columns, *(a.column for a in dwelling_attributes)]
    shared += [column for column in (kind, size) if column]
    shared += [area for area in areas if area not in listed]
    own = [key, *(a.column for a in attributes)]
    people = read_table(
        persons,
        [*own, *(shared if dwellings is None else geography.columns)],
        optional=set(geography.columns) - set(own) if dwellings else None,
    )
    table = people if dwellings is None else read_table(dwellings, [key, *shared])
    files = (str(persons), str(dwellings or persons))
    without_totals(table, geography, totals, name=files[1], may_drop=False)
    pick, dwelling = _join(people, table, key, files)
    for column in dict.fromkeys(shared):
        if column in people.columns:
            _refuse_spread(column, people, table, pick[dwelling], key, files[0], geography)
    tree, unit, read_off = place_table(table, geography, units, files[1], totals=totals)
    living = np.bincount(dwelling, minlength=len(pick))
    codes = _kinds(table, kind, kinds, pick, living, key, files[1])
    if size:
        _check_size(table, size, pick, living, key, files[1])
    own_columns = [_open_if_size(column, size) for column in attributes]
    of_persons, person_codes, more = _attributes(people, own_columns, files[0])
    of_dwellings, dwelling_codes, most = _attributes(table, dwelling_attributes, files[1])
    order = np.argsort(dwelling, kind="stable")
    return Households(
        files[0],
        tree,
        of_persons,
        of_dwellings,
        kinds,
        unit[pick],
        codes,
        np.concatenate([[0], np.cumsum(living)]),
        {name: values[order] for name, values in person_codes.items()},
        {name: values[pick] for name, values in dwelling_codes.items()},
        tuple(
            _areas(area, listed[area], geography, tree, str(units))
            if area in listed
            else _areas(area, table, geography, tree, files[1])
            for area in areas
        ),
        public=public,
        read_off=(*read_off, *more, *most),
        reading=ReadSummary(
            rows=tuple({files[1]: table.height, files[0]: people.height}.items()),
            remarks=cut_codes(table, geography),
        ),
    )


def _join(
    people: pl.DataFrame, table: pl.DataFrame, key: str, files: tuple[str, str]
) -> tuple[Ints, Ints]:
    """The row of the table where each dwelling stands, and for each person the dwelling.

    If the table is that of the persons, a dwelling stands where its first person does.
    """
    known, wanted = table[key].cast(pl.String), people[key].cast(pl.String)
    refuse_null(wanted, key, files[0])
    refuse_null(known, key, files[1])
    once = known.is_first_distinct()
    if table is not people and not once.all():
        row = int((~once).arg_true()[0])
        raise InputError(
            files[1],
            place=f"column {key!r}, row {row + 1}",
            found=f"key {known[row]!r} a second time",
            expected="one row for each dwelling",
        )
    numbered = known.filter(once).to_frame(key).with_row_index(_DWELLING)
    found = wanted.to_frame(key).join(numbered, on=key, how="left", maintain_order="left")
    if (missing := found[_DWELLING].is_null()).any():
        row = int(missing.arg_true()[0])
        raise InputError(
            files[0],
            place=f"column {key!r}, row {row + 1}",
            found=f"key {wanted[row]!r}",
            expected=f"a key of {files[1]}",
        )
    rows = once.arg_true().to_numpy().astype(np.int64)
    return rows, found[_DWELLING].to_numpy().astype(np.int64)


def _refuse_spread(
    column: str,
    people: pl.DataFrame,
    table: pl.DataFrame,
    row_of: Ints,
    key: str,
    name: str,
    geography: GeographySource,
) -> None:
    """A dwelling stands in one unit and has one value of each of its columns."""
    here = people[column].cast(pl.String)
    there = table[column].cast(pl.String).gather(row_of)
    differs = here.ne_missing(there)
    if differs.any():
        row = int(differs.arg_true()[0])
        placed = column in geography.columns
        raise InputError(
            name,
            place=f"column {column!r}, row {row + 1}, {key} {people[key][row]!r}",
            found=f"{here[row]!r} where the dwelling has {there[row]!r}",
            expected="a household in one unit" if placed else "one value for each dwelling",
        )


def _kinds(
    table: pl.DataFrame,
    column: str,
    kinds: tuple[str, ...],
    pick: Ints,
    living: Ints,
    key: str,
    name: str,
) -> NDArray[np.int8]:
    if not len(KINDS) <= len(kinds) <= MOST_KINDS:
        raise InputError(
            name,
            place="kinds",
            found=f"{len(kinds)}: {list(kinds)}",
            expected=f"household, vacant, facilities; at most {MOST_KINDS}",
        )
    if not column:
        return np.where(living > 0, HOUSEHOLD, VACANT).astype(np.int8)
    values = table[column].cast(pl.String)
    codes = encode(values, Attribute("kind", kinds), column, name).astype(np.int8)[pick]
    for bad, found, expected in (
        ((codes == VACANT) & (living > 0), "people in a vacant dwelling", "nobody there"),
        ((codes == HOUSEHOLD) & (living == 0), "an occupied dwelling without people", "someone"),
    ):
        if bad.any():
            row = int(pick[np.flatnonzero(bad)[0]])
            place = f"column {column!r}, row {row + 1}, {key} {table[key][row]!r}"
            raise InputError(name, place=place, found=found, expected=expected)
    return codes


def _check_size(
    table: pl.DataFrame,
    column: str,
    pick: Ints,
    living: Ints,
    key: str,
    name: str,
) -> None:
    # Which number was found, and which expected, would be counts of the truth.
    wrong = np.flatnonzero(whole_numbers(table[column], name)[pick] != living)
    if len(wrong):
        row = int(pick[wrong[0]])
        raise InputError(
            name,
            place=f"column {column!r}, row {row + 1}, {key} {table[key][row]!r}",
            found="a size other than the number of its persons",
            expected="the number of persons with that key",
        )


def _open_if_size(column: AttributeColumn, size: str) -> AttributeColumn:
    """A column of persons that is the number of people: not the person's own unless said to be."""
    if size and column.column == size and column.follows is None:
        return replace(column, follows=Follows.UNSTATED)
    return column


def _attributes(
    table: pl.DataFrame, columns: Sequence[AttributeColumn], name: str
) -> tuple[tuple[Attribute, ...], dict[str, NDArray[np.int16]], tuple[str, ...]]:
    """Attributes, their codes, and which levels were read from the data."""
    known, codes, read_off = [], {}, []
    for wanted in columns:
        values = table[wanted.column].cast(pl.String)
        refuse_null(values, wanted.column, name)
        levels = wanted.levels
        if levels is None:
            levels = levels_of(values)
            refuse_missing_levels(
                values, levels, wanted.real_levels, column=wanted.column, name=name
            )
            read_off.append(f"which levels of {wanted.name!r} exist")
        if len(levels) > MOST_LEVELS:
            raise InputError(
                name,
                place=f"column {wanted.column!r}",
                found=f"{len(levels):,} levels",
                expected=f"at most {MOST_LEVELS:,}",
            )
        attribute = wanted.attribute(levels)
        known.append(attribute)
        codes[wanted.name] = encode(values, attribute, wanted.column, name).astype(np.int16)
    return tuple(known), codes, tuple(read_off)


def _listed(
    areas: Sequence[str], units: Path | None, geography: GeographySource
) -> dict[str, pl.DataFrame]:
    """The area columns that the list of units has, each with that list."""
    if units is None or not areas:
        return {}
    rows = read_table(units, [*geography.columns, *areas], optional=set(areas))
    return {area: rows for area in areas if area in rows.columns}


def _areas(
    column: str, table: pl.DataFrame, source: GeographySource, tree: Geography, name: str
) -> Areas:
    """The map from leaf units to areas; a leaf in two areas is an error."""
    leaf = place_rows(source.codes(table)[-1], tree, name=name)
    codes = table[column].cast(pl.String).replace("", None)
    known = codes.drop_nulls().unique().sort()
    numbers = {code: number for number, code in enumerate(known.to_list())}
    area = codes.replace_strict(numbers, default=-1, return_dtype=pl.Int32).to_numpy()
    of_leaf = np.full(tree.size(tree.leaf), -1, dtype=np.int32)
    of_leaf[leaf] = area
    differs = np.flatnonzero(of_leaf[leaf] != area)
    if len(differs):
        row = int(differs[0])
        raise InputError(
            name,
            place=f"column {column!r}, row {row + 1}, unit {str(tree.units[-1][leaf[row]])!r}",
            found="a unit in two areas",
            expected="each unit in one area, or in none",
        )
    return Areas(column, known.to_numpy().astype(np.str_), of_leaf)
