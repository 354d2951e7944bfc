"""``kind = "microdata"``: one row per person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headcount.fields import FilePath, Named
from headcount.population.population import Population
from headcount.population.readers import AttributeColumn, read_microdata
from headcount.population.sources._base import (
    FromFile,
    GeographyTable,
    QuartersTable,
    refuse_twice,
)
from headcount.population.suspicious import Totals
from headcount.progress import Progress, silent
from headcount.schema import Attribute, Follows, Schema, impossible
from headcount.schema.schema import Combination

ImpossibleCombination = Annotated[Combination, Named(tuple[str, ...])]
"""Levels by attribute that cannot be together."""


@dataclass(frozen=True, kw_only=True)
class Microdata(FromFile):
    """A table of people.

    where
        file              the table, .csv or .parquet
        geography         its columns of places
        attribute         its columns of attributes
        structural_zero   combinations that cannot exist
        units             the public list of units
        quarters          living quarters by type
        public            whether the data are public: no "do not publish" banner
        totals            what to do with rows that look like totals
        not_counts        columns that do not count people, though their names suggest it
    """

    kind = "microdata"
    file: FilePath
    geography: GeographyTable
    attribute: tuple[AttributeColumn, ...] = ()
    structural_zero: tuple[ImpossibleCombination, ...] = ()
    units: FilePath | None = None
    quarters: QuartersTable | None = None
    public: bool = False
    totals: Totals = "refuse"
    not_counts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        refuse_twice(tuple(one.name for one in self.attribute), "attribute")
        for one in self.attribute:
            one.refuse_follows(Follows.PERSON)
        # With all levels given the schema is known before the data is; else its reader checks.
        chosen = [Attribute(a.name, a.levels) for a in self.attribute if a.levels is not None]
        if len(chosen) == len(self.attribute):
            Schema(tuple(chosen), self.zeros)

    @property
    def zeros(self) -> tuple[Combination, ...]:
        """Combinations that cannot exist, as a schema has them."""
        return tuple(impossible(dict(zero)) for zero in self.structural_zero)

    def read(self, progress: Progress = silent) -> Population:
        """Read the people, and the living quarters if there are any."""
        people = read_microdata(
            self.file,
            attributes=self.attribute,
            geography=self.geography,
            structural_zeros=self.zeros,
            units=self.units,
            public=self.public,
            totals=self.totals,
            not_counts=self.not_counts,
        )
        return people if self.quarters is None else self.quarters.join(people, self.geography)
