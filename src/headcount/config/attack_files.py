"""Files that an attacker brings: tables from elsewhere, and named people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.attacks.knowledge import UNKNOWN, Knowledge, between
from headcount.attacks.records import KNOWN, Features, Records, records_from_rows
from headcount.attacks.reidentification import KnownPeople
from headcount.errors import ConfigError, InputError, one_of
from headcount.fields import AtLeast0, FilePath
from headcount.geography import Geography
from headcount.geography.build import CodeColumns, build_geography
from headcount.population.tables import read_table
from headcount.release.published import cell_names, is_total
from headcount.schema import Attribute, Schema, load_schema
from headcount.tabulate.published import PublishedTable, tables
from headcount.tabulate.published.codings import find_attribute, level_atoms, years
from headcount.toml_files import read_toml
from headcount.typed import from_table, located

LARGEST = 1 << 39
"""No count is as large: half of what stands for an unknown one."""


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A published table in a file with the columns unit, cell and value, or low and high.

    where
        product, name   which table it is
        level           whose units it is about
        file            .csv or .parquet
        zero_hides      the largest count that a published 0 may stand for
    """

    product: str
    name: str
    level: str
    file: FilePath
    zero_hides: AtLeast0 = 0


@dataclass(frozen=True, kw_only=True)
class TablesFile:
    """What a file of tables says.

    where
        schema   a shipped schema, or a TOML file
        units    a table of the units
        levels   its columns, from the top to the leaf
        table    the tables
    """

    schema: str
    units: FilePath
    levels: tuple[str, ...]
    table: tuple[TableFile, ...]


def read_tables_file(path: Path) -> Knowledge:
    """Tables from a TOML file that says what they are and where they stand.

    An empty value, or a cell that is not in the file of a table, is unknown.
    """
    source = str(path)
    data = read_toml(path, expected="a TOML file that lists tables")
    said = located(from_table(TablesFile, data, source=source), path.parent)
    schema = load_schema(said.schema)
    places = CodeColumns(columns=said.levels)
    units = read_table(said.units, list(said.levels))
    geography, _ = build_geography(units, places, name=str(said.units))
    held = []
    for one in said.table:
        known = tables(one.product)
        if one.name not in known:
            raise ConfigError(source, place="table", found=repr(one.name), expected=one_of(known))
        table = known[one.name]
        support = table.supports(schema)
        if not support:
            raise ConfigError(
                source,
                place=f"table {table.name}",
                found=support.reason,
                expected="a table that the schema can make",
            )
        if one.level not in geography.levels:
            raise ConfigError(
                source,
                place=f"table {table.name}, level",
                found=repr(one.level),
                expected=one_of(geography.levels),
            )
        held.append(_held(one, table, schema, geography))
    return Knowledge(schema, geography, tuple(held))


def _held(one: TableFile, table: PublishedTable, schema: Schema, geography: Geography) -> Any:
    cells, level, path = table.on(schema), one.level, one.file
    ends_of = ("value", "low", "high")
    frame = read_table(path, ["unit", "cell", *ends_of], optional=set(ends_of))
    unit = _numbered(frame["unit"], list(geography.units[geography.depth(level)]), str(path))
    cell = _numbered(frame["cell"], cell_names(cells), str(path))
    low = np.zeros((geography.size(level), cells.size), dtype=np.int64)
    high = np.full(low.shape, UNKNOWN, dtype=np.int64)
    ends = ("value", "value") if "value" in frame.columns else ("low", "high")
    for name in ends:
        if name not in frame.columns:
            raise InputError(str(path), found=f"no column {name!r}", expected="value, or low, high")
    again = pl.DataFrame({"unit": unit, "cell": cell}).is_duplicated()
    if again.any():
        row = int(again.arg_max() or 0)
        raise InputError(
            str(path),
            place=f"row {row + 1}",
            found=f"unit {frame['unit'][row]!r}, cell {frame['cell'][row]!r} more than once",
            expected="each cell once",
        )
    first, last = (_whole(frame[name], str(path)) for name in ends)
    low[unit, cell] = first.fill_null(0).to_numpy()
    high[unit, cell] = last.fill_null(UNKNOWN).to_numpy()
    if one.zero_hides:
        high[(high == 0) & ~is_total(cells)] = one.zero_hides
    return between(cells, low, high, level=level)


def _whole(values: pl.Series, source: str) -> pl.Series:
    """Whole numbers, empty where nothing is said; anything else is an error with its row."""
    said = values.cast(pl.String).str.strip_chars().replace("", None)
    numbers = said.cast(pl.Float64, strict=False)
    wrong = said.is_not_null() & (numbers.is_null() | (numbers != numbers.round()).fill_null(True))
    wrong = wrong | (numbers.abs() > LARGEST).fill_null(False)
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise InputError(
            source,
            place=f"column {values.name!r}, row {row + 1}",
            found=repr(said[row]),
            expected="a whole number, or nothing for a cell that is withheld",
        )
    return numbers.cast(pl.Int64)


def _numbers(values: pl.Series, known: Mapping[str, int], source: str, expected: str) -> Ints:
    """Numbers of names; a strange one is an error with its row."""
    found = values.cast(pl.String).replace_strict(
        list(known), list(known.values()), default=None, return_dtype=pl.Int64
    )
    if found.null_count():
        row = int(found.is_null().arg_max() or 0)
        raise InputError(
            source,
            place=f"column {values.name!r}, row {row + 1}",
            found=repr(values[row]),
            expected=expected,
        )
    return found.to_numpy().astype(np.int64)


def _numbered(values: pl.Series, known: Sequence[str], source: str) -> Ints:
    """Positions of names in a list of known ones."""
    position = {str(name): i for i, name in enumerate(known)}
    return _numbers(values, position, source, one_of(known, most=5))


def positions(known: pl.Series, wanted: pl.Series) -> Ints:
    """For each wanted name its first position among the known, or -1."""
    rows = pl.DataFrame({"name": known}).with_row_index("at").unique("name", keep="first")
    found = wanted.to_frame("name").join(rows, on="name", how="left", maintain_order="left")["at"]
    return found.cast(pl.Int64).fill_null(-1).to_numpy().astype(np.int64)


def _levels(values: pl.Series, attribute: Attribute, schema: Schema, source: str) -> Ints:
    """Level numbers of an attribute: by name; of an age also by the level that holds a year."""
    if attribute is not find_attribute(schema, "age"):
        return _numbered(values, attribute.levels, source)
    names = {level: i for i, level in enumerate(attribute.levels)}
    atoms = level_atoms(attribute, "age")
    if not isinstance(atoms, str):
        for text in values.cast(pl.String).unique().to_list():
            span = years(text) if text is not None else None
            for i, own in enumerate(atoms):
                if text not in names and span is not None and span <= own:
                    names[text] = i
    expected = f"a year of age, or {one_of(attribute.levels, most=5)}"
    return _numbers(values, names, source, expected)


def read_known(
    path: Path, features: Features, geography: Geography
) -> tuple[pl.Series, KnownPeople]:
    """An attacker's file: columns person, block (named as the leaf level, or "block"), sex, age."""
    columns = [geography.leaf, "block", *KNOWN, *features.schema.names]
    frame = read_table(path, ["person", *columns], optional=set(columns))
    block = place_people(frame, geography, str(path))
    key = _keys(frame, features, str(path))
    ids = frame["person"].cast(pl.String)
    known = KnownPeople(
        name=path.stem, features=features, person=np.arange(len(ids)), block=block, key=key
    )
    return ids, known


def read_true_people(
    path: Path, features: Features, geography: Geography
) -> tuple[pl.Series, Records]:
    """Everyone in truth: columns person, block, and every attribute of the schema."""
    schema = features.schema
    places = [geography.leaf, "block"]
    frame = read_table(path, ["person", *schema.names, *places], optional=set(places))
    block = place_people(frame, geography, str(path))
    if (block < 0).any():
        row = int(np.argmax(block < 0))
        raise InputError(
            str(path),
            place=f"row {row + 1}",
            found="a block outside the release",
            expected="everyone in a block of the release",
        )
    refuse_repeated(frame["person"], str(path))
    cell = np.zeros(frame.height, dtype=np.int64)
    for attribute in schema.attributes:
        code = _levels(frame[attribute.name], attribute, schema, str(path))
        cell = cell * attribute.size + code
    return frame["person"].cast(pl.String), records_from_rows(block, cell, features)


def refuse_repeated(person: pl.Series, source: str) -> None:
    """Refuse a truth that has someone twice: which of the rows is true nobody can tell."""
    again = person.is_duplicated() | person.is_null()
    if again.any():
        row = int(again.arg_max() or 0)
        raise InputError(
            source,
            place=f"column 'person', row {row + 1}",
            found="no person" if person[row] is None else f"{person[row]!r} more than once",
            expected="each person once",
        )


def place_people(frame: pl.DataFrame, geography: Geography, source: str) -> Ints:
    """Leaf unit of each row; -1 for a code that the geography does not have."""
    column = geography.leaf if geography.leaf in frame.columns else "block"
    if column not in frame.columns:
        raise InputError(
            source, found=f"columns {frame.columns}", expected=f"a column {geography.leaf!r}"
        )
    numbers = geography.unit_numbers
    return (
        frame[column]
        .cast(pl.String)
        .replace_strict(list(numbers), list(numbers.values()), default=-1, return_dtype=pl.Int64)
        .to_numpy()
        .astype(np.int64)
    )


def _keys(frame: pl.DataFrame, features: Features, source: str) -> Ints:
    codes: dict[str, Ints | None] = {}
    for role in KNOWN:
        attribute = find_attribute(features.schema, role)
        codes[role] = None
        if attribute is None:
            continue
        column = attribute.name if attribute.name in frame.columns else role
        if column not in frame.columns:
            raise InputError(source, found=f"columns {frame.columns}", expected=f"one named {role}")
        codes[role] = _levels(frame[column], attribute, features.schema, source)
    return features.key_of(sex=codes["sex"], age=codes["age"])
