"""Methods that change the counts of published tables: which tables, and what they have in common.

Cells are changed one by one, or rounded together; either way what is published is tables, not
counts of every unit and cell, and a value may not be taken for the count behind it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np

from headcount.arrays import Ints
from headcount.errors import ConfigError, InputError
from headcount.fields import FilePath, Named, Pairs
from headcount.geography import Geography
from headcount.mechanisms._base import COPIES, SCALAR, Context, PostTabular, TablesOutcome
from headcount.mechanisms._key_file import check_key_file, check_use
from headcount.mechanisms._own_tables import (
    AUTO,
    NOTHING,
    GroupsTable,
    Keyed,
    NameLists,
    OwnTables,
    TablesField,
    frozen,
    plain,
)
from headcount.mechanisms.suppression.rules import find_tables, known_tables
from headcount.noise import Noise
from headcount.schema import Schema
from headcount.schema.attribute import first_repeated
from headcount.schema.bins import BinsField
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import levels_of, table_values
from headcount.tabulate.published import TableCells


@dataclass(frozen=True, kw_only=True)
class ChangedTables(PostTabular):
    """Which tables are published, and where.

    where
        tables       tables by name: P1 to P4 by seven groups of race, and those of Summary File 1;
                     or one's own by attributes, ``{ age_sex = ["age", "sex"] }``; or "auto", each
                     attribute and small pairs of them
        lowest       the lowest level at which anything is published; the leaf by default
        groups       of own tables: broader groups of an attribute's levels, shown above these
        bins         the same for years of age, by where broader bins begin
        prefixes     the same for codes, by how many first characters broader codes have
        lowest_of    of own tables: the lowest level of some tables
        keys         a file outside the run that keeps the record keys, so that the same people are
                     changed alike in every later release; it is made at its first use
    """

    tables: Annotated[Sequence[str] | Keyed[Sequence[str]], TablesField()] = AUTO
    lowest: str = ""
    groups: Annotated[Keyed[Keyed[Sequence[str]]], Named(GroupsTable)] = NOTHING
    bins: Annotated[Keyed[Any], Named(Annotated[Any, BinsField()])] = NOTHING
    prefixes: Annotated[Keyed[Sequence[int]], Named(tuple[int, ...])] = NOTHING
    lowest_of: Annotated[Keyed[str], Named(str)] = NOTHING
    keys: FilePath | None = None
    withholds = True
    changes_tables = True
    to_publish_more = "published tables are not counts from which people could be made"

    def __post_init__(self) -> None:
        for name in ("groups", "bins", "prefixes", "lowest_of"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        try:
            object.__setattr__(self, "tables", TablesField().read(self.tables))
        except ValueError as error:
            raise self.bad("tables", repr(self.tables), str(error)) from None
        if self.keys is not None:
            object.__setattr__(self, "keys", Path(self.keys))
        if not self.tables:
            raise self.bad("tables", "none", "at least one")
        if self._own is None:
            self._refuse_names()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.said()})"

    def said(self, *, hidden: Sequence[str] = ()) -> str:
        """Settings that are not their defaults, as they are written to make the method again."""
        shown = {
            one.name: plain(getattr(self, one.name))
            for one in fields(self)
            if getattr(self, one.name) != one.default and one.name not in hidden
        }
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())

    @property
    def secret_files(self) -> tuple[Path, ...]:
        """The key file."""
        return () if self.keys is None else (self.keys,)

    def bad(self, place: str, found: str, expected: str) -> ConfigError:
        """What is wrong with a setting."""
        return ConfigError(self.name, place=place, found=found, expected=expected)

    @property
    def _own(self) -> OwnTables | None:
        if not isinstance(self.tables, Pairs | str):
            return None
        return OwnTables(
            tables=cast("NameLists | str", self.tables),
            groups=cast(Pairs[NameLists], self.groups),
            bins=cast(Pairs[Any], self.bins),
            prefixes=cast(Pairs[tuple[int, ...]], self.prefixes),
            lowest=cast(Pairs[str], self.lowest_of),
            source=self.name,
        )

    def _refuse_names(self) -> None:
        known, asked = known_tables(), cast(tuple[str, ...], self.tables)
        for name in asked:
            if name not in known:
                raise self.bad("tables", repr(name), f"some of {', '.join(known)}")
        if (repeated := first_repeated(asked)) is not None:
            raise self.bad("tables", f"{repeated!r} twice", "distinct tables")
        for place in ("groups", "bins", "prefixes", "lowest_of"):
            if getattr(self, place):
                expected = 'tables of one\'s own: tables = { NAME = ["attribute", ...] }'
                raise self.bad(place, "tables that are known by name", expected)

    def made(self, schema: Schema, geography: Geography) -> tuple[TableCells, ...]:
        """The tables on a population's schema; one that cannot be made is an error."""
        if self.lowest:
            geography.depth(self.lowest)  # refuses a level that there is not
        if (own := self._own) is None:
            found = find_tables(cast(tuple[str, ...], self.tables), schema, source=self.name)
            for cells in found:
                cells.table.published_at(geography)  # refuses a level that there is not
            return found
        return tuple(
            table.on(schema) for table in own.on(schema, geography, lowest_of_all=self.lowest)
        )

    def where(self, made: Sequence[TableCells], geography: Geography) -> Iterator[tuple[int, str]]:
        """Each table, by its number, at each of its levels."""
        for number, cells in enumerate(made):
            for level in levels_of(cells, geography, self.lowest):
                yield number, level

    def changed_tables(
        self, schema: Schema, geography: Geography
    ) -> tuple[tuple[TableCells, str], ...]:
        """Every table at each of its levels."""
        made = self.made(schema, geography)
        return tuple((made[number], level) for number, level in self.where(made, geography))

    def table_bytes(self, schema: Schema, geography: Geography, *, backend: str) -> int:
        """Bytes of all tables, which are held together, and of the copies of the largest."""
        made = self.made(schema, geography)
        sizes = [
            made[number].size * geography.size(level)
            for number, level in self.where(made, geography)
        ]
        return (2 * sum(sizes) + COPIES * max(sizes)) * SCALAR

    def check(self, counts: Counts) -> tuple[str, ...]:
        """Refuse tables that the population cannot make; say what will be published."""
        self.check_counts(counts)
        if self.keys is not None:
            check_key_file(self.keys)
        made, geography = self.made(counts.schema, counts.geography), counts.geography
        remarks = []
        for cells in made:
            levels = levels_of(cells, geography, self.lowest)
            units = sum(geography.size(level) for level in levels)
            remarks.append(
                f"publishes {cells.table.name} ({cells.table.title}): {cells.size:,} cells at "
                f"{', '.join(levels)}, {units * cells.size:,} in all"
            )
        return tuple(remarks)

    def check_unchanged(self, counts: Counts) -> None:
        """Refuse a key file that belongs to other data."""
        if self.keys is not None:
            check_use(self.keys, counts)

    def check_anew(self, counts: Counts) -> None:
        """Refuse a key file by which these people have been protected already."""
        if self.keys is not None:
            check_use(self.keys, counts, changed=True)

    def check_counts(self, counts: Counts) -> None:
        """Refuse what is no count of people; the message gives none."""
        data = counts.matrix.data
        if not np.issubdtype(data.dtype, np.integer):
            raise InputError(
                self.name, found=f"counts of type {data.dtype}", expected="whole numbers"
            )
        if len(data) and data.min() < 0:
            raise InputError(self.name, found="a count below 0", expected="0 or more")

    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> TablesOutcome:
        """The tables with changed counts, once for each run number."""
        self.check_counts(counts)
        made, work = self.made(counts.schema, counts.geography), context or Context()
        first, *later = (
            self.change(counts, made, noise, run=run, context=work)
            for run in (runs if self.draws_noise else runs[:1])
        )
        return TablesOutcome(
            first.published,
            first.rules,
            notes=first.notes,
            later=tuple(one.published for one in later),
            weight=first.weight,
        )

    @abstractmethod
    def change(
        self,
        counts: Counts,
        made: Sequence[TableCells],
        noise: Noise,
        *,
        run: int,
        context: Context,
    ) -> TablesOutcome:
        """The tables of one run."""


def true_tables(
    counts: Counts, made: Sequence[TableCells], where: Iterator[tuple[int, str]]
) -> Iterator[tuple[TableCells, Counts, Ints]]:
    """Each table with the counts of its level and its true values."""
    at: dict[str, Counts] = {}
    for number, level in where:
        if level not in at:
            at[level] = counts.at(level)
        yield made[number], at[level], table_values(at[level], made[number])


def overlapping(made: Sequence[TableCells]) -> str:
    """The first table that counts somebody twice; "" if none does."""
    twice = (one.table.name for one in made if any(coding.overlapping for coding in one.axes))
    return next(twice, "")
