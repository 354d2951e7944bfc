"""``kind = "microdata"``: people from a table of one row per person, or for several.

They are read one by one, or counted while the table is read, however large it is. What exists in a
table is found first, then who is where; both look at a batch of rows at a time, with the same
checks. Read for its records, a table is one batch that stays in memory. _Counted, it is read in
pieces, and all that remains of a piece is how many people are in which unit and cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.domain import Domain
from headcount.engines import Engine, InOrder
from headcount.errors import ConfigError, InputError, Noted
from headcount.fields import FilePath, Named
from headcount.geography.geography import GeographyLike, geography_source
from headcount.population._base import (
    FromTables,
    GeographyTable,
    alias_of_leaf,
    refuse_overlap,
    refuse_twice,
)
from headcount.population.columns import AttributeColumn, BlankCounts, KeyColumn
from headcount.population.counts import QuartersTable
from headcount.population.formats.kinds import TooLargeError
from headcount.population.people_table import (
    EVERY_ROW,
    STAGES,
    KnownDomain,
    RowChoice,
    SeenTable,
    TableOfPeople,
    placed,
    refuse_too_many,
)
from headcount.population.pieces import TablePiece, pieces_of
from headcount.population.population import Population, RecordKeys
from headcount.population.suspicious import Totals
from headcount.population.tables import (
    AnyTable,
    header_of,
    present,
    read_rows,
    table_of,
)
from headcount.population.text_files import PLAIN, Format
from headcount.processes import Progress, silent
from headcount.schema import Follows, Schema, impossible
from headcount.schema.schema import Combination

ImpossibleCombination = Annotated[Combination, Named(tuple[str, ...])]
"""Levels by attribute that cannot be together."""


@dataclass(frozen=True, kw_only=True)
class Microdata(FromTables):
    """A table of people.

    where
        file              the table: text, Parquet, Excel, Stata or SPSS
        geography         its columns of places
        attribute         its columns of attributes
        structural_zero   combinations that cannot exist
        quarters          living quarters by type
        count             the column that says for how many people a row stands; without it a row
                          is one person
        blank_counts      what counts that are not there are: "zero", or "withheld"
        overlap           in how many rows a person may be counted: the guarantee says what that
                          means for one
        totals            what to do with rows that look like totals
        not_counts        columns that do not count people, though their names suggest it
    """

    kind = "microdata"
    file: FilePath
    geography: GeographyTable
    attribute: tuple[AttributeColumn, ...] = ()
    structural_zero: tuple[ImpossibleCombination, ...] = ()
    quarters: QuartersTable | None = None
    count: str = ""
    blank_counts: BlankCounts = "refuse"
    overlap: int = 1
    totals: Totals = "refuse"
    not_counts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_overlap(self.overlap)
        refuse_twice(tuple(one.name for one in self.attribute), "attribute")
        if (keys := self.keys) is not None:
            keys.refuse_shared(*self.geography.columns, *(one.column for one in self.attribute))
            if self.count:
                keys.refuse_counted(f"it beside count = {self.count!r}")
        for one in self.attribute:
            one.refuse_follows(Follows.PERSON)
        # With all levels given the schema is known before the data is; else its reader checks.
        if not self._unlisted:
            self._schema()

    @property
    def _unlisted(self) -> tuple[str, ...]:
        """Attributes whose levels are known from the people alone."""
        return tuple(one.name for one in self.attribute if one.known_levels is None)

    def _schema(self) -> Schema:
        known = [one.attribute(one.known_levels or ()) for one in self.attribute]
        return Schema(tuple(known), self.zeros)

    def domain(self) -> Domain:
        """The cells and places of the config and its list of units."""
        if self._unlisted:
            raise ConfigError(
                "population",
                place=f"attribute {self._unlisted[0]!r}",
                found="no levels",
                expected="levels = [...]: without a list they are known from the people alone",
            )
        levels = (said for one in self.attribute for said in one.read_off)
        return Domain(
            self._schema(),
            self.places(self.geography, self.totals),
            read_off=(*self.places_read_off(self.geography), *levels),
            one_person=self.table.one_person,
        )

    @property
    def zeros(self) -> tuple[Combination, ...]:
        """Combinations that cannot exist, as a schema has them."""
        return tuple(impossible(dict(zero)) for zero in self.structural_zero)

    @property
    def aliases(self) -> dict[str, str]:
        """The lowest level and the attributes by their columns."""
        named = {one.column: one.name for one in self.attribute if one.column != one.name}
        return alias_of_leaf(self.geography) | named

    @property
    def data_file(self) -> Path:
        """The table of people."""
        return self.file

    @property
    def table(self) -> TableOfPeople:
        """The table of people, and how it is read."""
        return TableOfPeople(
            path=self.file,
            attributes=self.attribute,
            geography=self.geography,
            structural_zeros=self.zeros,
            units=self.units,
            units_from_data=self.units_from_data,
            public=self.public,
            totals=self.totals,
            not_counts=self.not_counts,
            count=self.count,
            blank_counts=self.blank_counts,
            overlap=self.overlap,
            keys=self.keys,
            choice=self.choice,
            form=self.format,
        )

    def read(self, progress: Progress = silent) -> Population:
        """Read the people, and the living quarters if there are any."""
        return self._with_quarters(read_people(self.table))

    def read_counts(self, engine: Engine, progress: Progress = silent) -> Population:
        """The same, counted piece by piece: the table need not fit into memory."""
        return self._with_quarters(count_people(self.table, engine=engine))

    def _with_quarters(self, people: Population) -> Population:
        if self.quarters is None:
            return people
        return self.quarters.join(people, self.geography, self.format)


def read_microdata(
    path: AnyTable | str,
    *,
    attributes: Sequence[AttributeColumn],
    geography: GeographyLike,
    structural_zeros: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = (),
    units: AnyTable | str | None = None,
    units_from_data: bool = False,
    public: bool = False,
    totals: Totals = "refuse",
    not_counts: Sequence[str] = (),
    count: str = "",
    blank_counts: BlankCounts = "refuse",
    overlap: int = 1,
    keys: KeyColumn | None = None,
    choice: RowChoice = EVERY_ROW,
    form: Format = PLAIN,
) -> Population:
    """Read one row per person: geography columns and one column per attribute.

    The other keys are those of ``TableOfPeople``.
    """
    return read_people(
        TableOfPeople(
            path=table_of(path),
            attributes=tuple(attributes),
            geography=geography_source(geography),
            structural_zeros=structural_zeros,
            units=None if units is None else table_of(units),
            units_from_data=units_from_data,
            public=public,
            totals=totals,
            not_counts=tuple(not_counts),
            count=count,
            blank_counts=blank_counts,
            overlap=overlap,
            keys=keys,
            choice=choice,
            form=form,
        )
    )


def read_people(table: TableOfPeople) -> Population:
    """One entry for each row that is read."""
    columns = [*table.columns, *table.suspects]
    with _saying_what_fits():
        rows = read_rows(table.path, columns, optional=set(table.suspects), form=table.form)
    seen = SeenTable.of(rows, table)
    seen.refuse(table)
    domain = KnownDomain.of(seen, table)
    found = placed(rows, table, domain)
    domain.refuse(seen, table, [found.noted])
    keys = None if table.keys is None else table.keys.read(found.rows)
    return _population(table, seen, domain, found.unit, found.cell, found.many, keys)


def count_people(table: TableOfPeople, *, engine: Engine | None = None) -> Population:
    """One entry for each unit and cell with people; equal to ``read_people``, counted.

    Record keys belong to people one by one, so with these there is an entry for each of them.
    """
    if table.keys is not None:
        return read_people(table)
    pieces = pieces_of(table.path, table.form)
    present(table.name, table.columns, set(), header_of(table.path, table.form))
    on = engine if engine is not None and len(pieces) > 1 else InOrder()
    with _saying_what_fits():
        seen = SeenTable.together(on.map(partial(_look, table), pieces))
    seen.refuse(table)
    domain = KnownDomain.of(seen, table)
    sums, noted = SumsByKey(), []
    for part in on.map(partial(_count, table, domain), pieces):
        noted.append(part.noted)
        sums.add(part.key, part.many)
        refuse_too_many(table.name, sums.people)
    domain.refuse(seen, table, noted)
    key, many = sums.result()
    unit, cell = np.divmod(key, domain.schema.size)
    return _population(
        table, seen, domain, unit.astype(np.int32), cell.astype(np.int32), many, None
    )


@contextmanager
def _saying_what_fits() -> Iterator[None]:
    """Say of a table that does not fit into memory which ones need not."""
    try:
        yield
    except TooLargeError as error:
        raise InputError(
            error.source,
            found=error.found,
            expected=f"{error.expected}; or methods that change no records, without person_id or "
            "record_keys: for these headcount protect counts Parquet, and UTF-8 text that is not "
            "packed, of any size",
        ) from None


class _Counted(NamedTuple):
    """What remains of a piece: what is wrong by stage, and people by unit and cell."""

    noted: tuple[Noted, ...]
    key: Ints
    many: Ints


def _look(table: TableOfPeople, piece: TablePiece) -> SeenTable:
    """What exists in a piece; where rows are noted it is looked at row by row, to name them all."""
    for together in (True, False):
        batches = piece.batches(
            [*table.telling, *table.suspects],
            set(table.suspects),
            together=together,
            numbers=table.suspects,
        )
        seen = SeenTable.together(SeenTable.of(rows, table) for rows in batches)
        if not seen.noted:
            break
    return seen


def _count(table: TableOfPeople, domain: KnownDomain, piece: TablePiece) -> _Counted:
    """The people of a piece, counted; where one is wrong, row by row as well."""
    for together in (True, False):
        sums, noted = SumsByKey(), []
        for rows in piece.batches(table.columns, set(), together=together, numbers=table.numbers):
            found = placed(rows, table, domain)
            noted.append(found.noted)
            if found.sound:
                key = found.unit.astype(np.int64) * domain.schema.size + found.cell
                sums.add(
                    key, np.ones(len(key), dtype=np.int64) if found.many is None else found.many
                )
                refuse_too_many(table.name, sums.people)
        wrong = _together(noted)
        if not any(number for number, _ in wrong):
            break
    return _Counted(wrong, *sums.result())


def _together(noted: list[tuple[Noted, ...]]) -> tuple[Noted, ...]:
    """What several batches noted, by stage."""
    return tuple(
        (sum(one[stage][0] for one in noted), tuple(f for one in noted for f in one[stage][1]))
        for stage in range(STAGES)
    )


def _population(
    table: TableOfPeople,
    seen: SeenTable,
    domain: KnownDomain,
    unit: Ints32,
    cell: Ints32,
    many: Ints | None,
    keys: RecordKeys | None,
) -> Population:
    assert domain.geography is not None  # or refused
    return Population(
        table.name,
        Domain(
            domain.schema, domain.geography, read_off=domain.read_off, one_person=table.one_person
        ),
        unit,
        cell,
        many,
        public=table.public,
        reading=seen.summary(table),
        record_keys=keys,
    )


class SumsByKey:
    """Sums of whole numbers, one for each key.

    New numbers are collected, and merged into the sums once there are as many of them as keys. So
    each is sorted a few times only, however many batches there are.
    """

    def __init__(self) -> None:
        self.people = 0.0
        self._key, self._many = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self._waiting: list[tuple[Ints, Ints]] = []
        self._entries = 0

    def add(self, key: Ints, many: Ints) -> None:
        """Add numbers, one for each key; a key may stand there more than once."""
        self.people += float(many.sum(dtype=np.float64))
        self._waiting.append((key, many))
        self._entries += len(key)
        if self._entries > max(len(self._key), 1 << 20):
            self._sort()

    def result(self) -> tuple[Ints, Ints]:
        """The keys in order, and the sums; keys whose sum is 0 are left out."""
        self._sort()
        some = self._many != 0
        return (self._key, self._many) if some.all() else (self._key[some], self._many[some])

    def _sort(self) -> None:
        if not self._waiting:
            return
        key = np.concatenate([self._key, *(key for key, _ in self._waiting)])
        many = np.concatenate([self._many, *(many for _, many in self._waiting)])
        order = np.argsort(key, kind="stable")
        key, many = key[order], many[order]
        first = np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])
        self._key, self._waiting, self._entries = key[first], [], 0
        self._many = np.add.reduceat(many, first) if len(first) else many
