"""Methods that change the counts of published tables: what they have in common.

Cells are changed one by one, or rounded together; either way what is published is tables, not
counts of every unit and cell, and a value may not be taken for the count behind it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import numpy as np

from headcount.arrays import Ints
from headcount.domain import Domain
from headcount.errors import InputError
from headcount.fields import FilePath, Named
from headcount.mechanisms._base import (
    Context,
    TablesOutcome,
    refuse_too_many,
)
from headcount.mechanisms._key_file import KeptKeys
from headcount.mechanisms._own_tables import (
    AUTO,
    NOTHING,
    GroupsTable,
    Keyed,
    TableMethod,
    TablesDesign,
    TablesField,
    plain,
)
from headcount.noise import Noise
from headcount.privacy import Guarantee
from headcount.release.changed import ChangeRules
from headcount.release.published import PublishedCells
from headcount.schema.schema import BinsField
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import table_values
from headcount.tabulate.published import TableCells
from headcount.typed import PRESET, from_table

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class ChangedTables(TableMethod):
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

    def __post_init__(self) -> None:
        self.freeze_tables()
        self.refuse_names()
        if self.keys is not None:
            object.__setattr__(self, "keys", Path(self.keys))

    @classmethod
    def from_preset(cls, preset: str, **keys: Any) -> Self:
        """With the settings of a preset, but for the keys that are given."""
        return from_table(cls, {PRESET: preset, **keys}, source=cls.name)

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
    @abstractmethod
    def way(self) -> str:
        """Everything that decides how a count is changed by its key: a key file is for one way."""

    def for_a_trial(self, *, of_nobody: bool = False) -> Self:
        """With keys of each run's own: the kept ones are for what is published."""
        return self if self.keys is None else replace(self, keys=None)

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """None, and it says so."""

    def on(self, domain: Domain) -> TablesDesign:
        """Every table at each of its levels."""
        made = self.made(domain)
        return TablesDesign(
            method=self,
            domain=domain,
            guarantee=self.guarantee(),
            made=made,
            tables=tuple((made[one], level) for one, level in self.where(made, domain.geography)),
            changes_tables=True,
            public_text=f"{type(self).__name__}({self.said(hidden=self.secret)})",
            secret_settings=len(self.secret) > 1,
            keys=None if self.keys is None else KeptKeys(self.keys, self.way),
        )

    @property
    def secret(self) -> tuple[str, ...]:
        """Settings that stay with the curator: where the key file is, and perhaps others."""
        return ("keys",)

    def refuse_changed(self, *, by: str, weight: Fraction, households: bool) -> None:
        """Refuse a sample, where that makes no sense."""
        if weight != 1:
            self.refuse_weight(weight, f" ({by})")

    @abstractmethod
    def refuse_weight(self, weight: Fraction, by: str = "") -> None:
        """Refuse people who stand for so many each, where that makes no sense."""

    @abstractmethod
    def refuse_tables(self, counts: Counts, made: Sequence[TableCells]) -> None:
        """Refuse people or tables for which the settings have no meaning."""

    def check(self, design: TablesDesign, counts: Counts) -> tuple[str, ...]:
        """Refuse tables or a key file that cannot be used; say what will be published."""
        made = self._checked(design, counts)
        if design.keys is not None:
            design.keys.check_file()
        return self.remarks(made, counts.geography)

    def _checked(self, design: TablesDesign, counts: Counts) -> tuple[TableCells, ...]:
        """The tables, of counts that can be changed."""
        if counts.weight != 1:
            self.refuse_weight(counts.weight)
        self.check_counts(counts)
        refuse_too_many(counts, name=self.name)
        self.refuse_tables(counts, design.made)
        return design.made

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
        self, design: TablesDesign, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> TablesOutcome:
        """The tables with changed counts, once for each run number."""
        made = self._checked(design, counts)
        where = tuple(self.where(made, counts.geography))
        first, *later = (
            self.change(TablesRun(counts, made, where, noise, run, context))
            for run in (runs if self.draws_noise else runs[:1])
        )
        names = tuple(cells.table.name for cells in made)
        return TablesOutcome(
            first.published,
            ChangeRules(method=self.name, tables=names, words=first.words),
            notes=first.notes,
            later=tuple(one.published for one in later),
            weight=counts.weight,
        )

    @abstractmethod
    def change(self, run: TablesRun) -> Changed:
        """The tables of one run."""


class Changed(NamedTuple):
    """Tables with changed counts, what is said of the rules, and what a receipt notes."""

    published: tuple[PublishedCells, ...]
    words: tuple[str, ...]
    notes: Mapping[str, float | str]


@dataclass(frozen=True, eq=False, repr=False)
class TablesRun:
    """What one run changes, and by what chance.

    where
        made     the tables
        where    each table, by its number, at each of its levels
        number   of the run
    """

    counts: Counts
    made: Sequence[TableCells]
    where: Sequence[tuple[int, str]]
    noise: Noise
    number: int
    context: Context

    def map_tables(self, function: Callable[[TrueTable], R]) -> Iterator[R]:
        """What a function makes of each table at each of its levels, as work of the engine."""
        tables = _TrueTables(self.counts, self.made)
        return self.context.engine.map(lambda where: function(tables.at(*where)), self.where)


class TrueTable(NamedTuple):
    """A table, the counts of its level, and its true values."""

    cells: TableCells
    here: Counts
    values: Ints


@dataclass(frozen=True, eq=False, repr=False)
class _TrueTables:
    """Tables of some counts, which are added up once for each level."""

    counts: Counts
    made: Sequence[TableCells]
    levels: dict[str, Counts] = field(default_factory=dict)

    def at(self, number: int, level: str) -> TrueTable:
        """A table by its number, at a level."""
        if (here := self.levels.get(level)) is None:
            here = self.levels[level] = self.counts.at(level)
        return TrueTable(self.made[number], here, table_values(here, self.made[number]))


def overlapping(made: Sequence[TableCells]) -> str:
    """The first table that counts somebody twice; "" if none does."""
    twice = (one.table.name for one in made if any(coding.overlapping for coding in one.axes))
    return next(twice, "")
