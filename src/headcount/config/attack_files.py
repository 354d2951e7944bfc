"""Files that an attacker brings: tables from elsewhere, named people, and tables to be linked."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.attacks import People, whole_people
from headcount.attacks.intervals import UNKNOWN
from headcount.attacks.knowledge import Knowledge, between
from headcount.attacks.linkage import Link, Linked, LinkRows, rows_of
from headcount.attacks.records import KNOWN, Features, Records, records_from_rows
from headcount.attacks.reidentification import KnownPeople
from headcount.errors import ConfigError, InputError, one_of
from headcount.evaluation.attacked import TrueSecrets
from headcount.fields import AtLeast0, FilePath
from headcount.files import read_toml
from headcount.geography import Geography, regular
from headcount.geography.geography import CodeColumns, build_geography
from headcount.population.tables import read_table
from headcount.release import Release
from headcount.release.published import cell_names, is_total
from headcount.schema import Attribute, Schema, load_schema
from headcount.tabulate.codings import find_attribute, level_atoms, years
from headcount.tabulate.published import PublishedTable, tables
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
class _TablesFile:
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
    said = located(from_table(_TablesFile, data, source=source), path.parent)
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
    atoms = level_atoms(schema, attribute, "age")
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
    """An attacker's file: columns person, block (named as the leaf level, or "block"), sex, age.

    Or whatever attributes are known in their place.
    """
    columns = [geography.leaf, "block", *KNOWN, *features.schema.names]
    frame = read_table(path, ["person", *columns], optional=set(columns))
    block = _place_people(frame, geography, str(path))
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
    block = _place_people(frame, geography, str(path))
    if (block < 0).any():
        row = int(np.argmax(block < 0))
        raise InputError(
            str(path),
            place=f"row {row + 1}",
            found="a block outside the release",
            expected="everyone in a block of the release",
        )
    _refuse_repeated(frame["person"], str(path))
    cell = np.zeros(frame.height, dtype=np.int64)
    for attribute in schema.attributes:
        code = _levels(frame[attribute.name], attribute, schema, str(path))
        cell = cell * attribute.size + code
    return frame["person"].cast(pl.String), records_from_rows(block, cell, features)


def _refuse_repeated(person: pl.Series, source: str) -> None:
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


def _place_people(frame: pl.DataFrame, geography: Geography, source: str) -> Ints:
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
    schema, codes = features.schema, {}
    for attribute in features.known:
        role = next((one for one in KNOWN if find_attribute(schema, one) == attribute), "")
        column = attribute.name if attribute.name in frame.columns else role or attribute.name
        if column not in frame.columns:
            named = role or attribute.name
            raise InputError(
                source, found=f"columns {frame.columns}", expected=f"one named {named}"
            )
        codes[attribute.name] = _levels(frame[column], attribute, schema, source)
    return features.key_of(codes)


IDENTITY = ("person", "slot")
"""Columns of a released table that say whose record a row holds, and whose place it has."""


@dataclass(frozen=True, eq=False)
class LinkFiles:
    """Two tables of people, coded alike.

    where
        attack   what is linked, and what is to be learnt
        named    people whom the attacker knows, with the column person
        rows     released records, with the secret
        source   where they come from
    """

    attack: Link
    named: pl.DataFrame
    rows: pl.DataFrame
    known: Path
    source: Path

    @classmethod
    def read(cls, attack: Link, known: Path, rows: pl.DataFrame, source: Path) -> LinkFiles:
        """The attacker's file beside released rows."""
        named = read_table(known, ["person", "age", *attack.exact])
        _refuse_repeated(named["person"], str(known))
        return cls(attack, named, rows, known, source)

    def linked(self) -> Linked:
        """Link them: a table has no geography, so everybody is in one place."""
        people, rows = self._coded()
        secret = self.rows[self.attack.secret]
        values = secret.drop_nulls().unique(maintain_order=True)
        if values.is_empty():
            raise InputError(
                str(self.source),
                place=f"column {secret.name!r}",
                found="no value at all",
                expected="what the attacker wants to learn",
            )
        levels = values.cast(pl.String)
        return self.attack.match(
            People(name=self.known.stem, unit=np.zeros(self.named.height, int), codes=people),
            LinkRows(
                codes=rows,
                exact=self.attack.exact,
                width=self.attack.age_width,
                secret=positions(levels, secret.cast(pl.String)),
                values=values,
                words=", ".join(self.attack.exact) or "nothing else",
            ),
            schema=Schema((Attribute(secret.name, tuple(levels)),)),
            geography=regular(children=1, depth=0),
        )

    def _coded(self) -> tuple[dict[str, Ints], dict[str, Ints]]:
        ages = _ages(self.named["age"], str(self.known)), _ages(self.rows["age"], str(self.source))
        oldest = min(age.open_from for age in ages)
        people, rows = ({"age": np.minimum(age.year, oldest)} for age in ages)
        for name in self.attack.exact:
            people[name], rows[name] = _same_numbers(self.named[name], self.rows[name])
        return people, rows

    def truth(self, path: Path) -> TrueSecrets:
        """The secrets of the people named, and whose the released rows are, as far as is said."""
        secret = self.attack.secret
        real = read_table(path, ["person", secret])
        _refuse_repeated(real["person"], str(path))
        own = self.named["person"].cast(pl.String)
        at = positions(real["person"].cast(pl.String), own)
        true = real[secret].cast(pl.String).gather(pl.Series(at).replace(-1, None))
        if true.null_count():
            raise InputError(
                str(path),
                found=f"no person {own[int(true.is_null().arg_max() or 0)]!r} of the attacker's "
                "file",
                expected="everyone in it",
            )
        said = self.rows.select(name for name in IDENTITY if name in self.rows.columns)
        said = said.cast(pl.String)
        return TrueSecrets(
            secret=true.to_numpy(),
            released=self.rows[secret].cast(pl.String).to_numpy(),
            origin=positions(own, said["person"]) if "person" in said else None,
            slot=positions(said["slot"], own) if "slot" in said else None,
        )


def read_rows(path: Path, attack: Link) -> pl.DataFrame:
    """Released rows of a table."""
    columns = ["age", *attack.exact, attack.secret]
    return read_table(path, [*columns, *IDENTITY], optional=set(IDENTITY))


def rows_of_release(release: Release, attack: Link, source: Path) -> pl.DataFrame:
    """Released rows of a release of counts: attributes and units as texts."""
    schema, geography = release.schema, release.geography
    columns, known = ["age", *attack.exact, attack.secret], {*schema.names, *geography.levels}
    for name in columns:
        if name not in known:
            raise InputError(
                str(source), found=f"no attribute {name!r}", expected=f"some of {sorted(known)}"
            )
    counts = release.as_counts().unweighted()
    if not whole_people(counts):
        raise InputError(
            str(source), found="counts that are negative or not whole", expected="whole people"
        )
    unit, cell = rows_of(counts)
    made = dict(zip(schema.names, np.unravel_index(cell, schema.shape), strict=True))
    names: dict[str, Sequence[str]] = {a.name: a.levels for a in schema.attributes}
    for level in geography.levels:
        made[level] = geography.ancestors(level)[unit].astype(np.int64)
        names[level] = geography.units[geography.depth(level)].tolist()
    return pl.DataFrame(
        {name: pl.Series(names[name], dtype=pl.String).gather(made[name]) for name in columns}
    )


@dataclass(frozen=True, eq=False)
class _Ages:
    """Years of age, and the lowest open level ("90+"): years above it are not told apart.

    An open level stands for its first year. In a table without one every year is told apart.
    """

    year: Ints
    open_from: int


def _ages(values: pl.Series, source: str) -> _Ages:
    texts = values.cast(pl.String)
    year: dict[str, int] = {}
    open_from = sys.maxsize
    for text in texts.unique().to_list():
        span = years(text) if text is not None else None
        is_open = str(text).endswith("+")
        if span is None or (len(span) > 1 and not is_open):
            row = int((texts == text).arg_max() or 0) if text is not None else 0
            raise InputError(
                source,
                place=f"column 'age', row {row + 1}",
                found=repr(text),
                expected="a year of age",
            )
        year[text] = min(span)
        open_from = min(open_from, min(span)) if is_open else open_from
    numbers = texts.replace_strict(list(year), list(year.values()), return_dtype=pl.Int64)
    return _Ages(numbers.to_numpy().astype(np.int64), open_from)


def _same_numbers(known: pl.Series, released: pl.Series) -> tuple[Ints, Ints]:
    """Numbers that are equal where texts are; a missing value equals nothing in the other table."""
    both = pl.concat([known.cast(pl.String), released.cast(pl.String)])
    number = both.rank("dense").cast(pl.Int64) + 1  # 0 and 1 are the missing values of either
    first, second = number.head(known.len()), number.tail(released.len())
    return first.fill_null(0).to_numpy(), second.fill_null(1).to_numpy()
