"""``kind = "microdata"``: one row per person, or for several."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from headcount.engines import Engine
from headcount.errors import ConfigError
from headcount.fields import FilePath, Named
from headcount.geography import Geography
from headcount.population.attribute_column import AttributeColumn
from headcount.population.people import count_people, read_people
from headcount.population.people_table import TableOfPeople
from headcount.population.population import Population
from headcount.population.sources._base import (
    FromTables,
    GeographyTable,
    QuartersTable,
    alias_of_leaf,
    refuse_overlap,
    refuse_twice,
)
from headcount.population.suspicious import Totals
from headcount.population.whole_numbers import BlankCounts
from headcount.progress import Progress, silent
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

    def domain(self) -> tuple[Schema, Geography]:
        """The cells and places of the config and its list of units."""
        if self._unlisted:
            raise ConfigError(
                "population",
                place=f"attribute {self._unlisted[0]!r}",
                found="no levels",
                expected="levels = [...]: without a list they are known from the people alone",
            )
        return self._schema(), self.places(self.geography, self.totals)

    def _known(self) -> dict[str, Any]:
        levels = (said for one in self.attribute for said in one.read_off)
        return {
            "public": self.public,
            "read_off": (*self.places_read_off, *levels),
            "one_person": self.table.one_person,
        }

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
