"""``kind = "counts"``: one row per unit, one column per cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from headcount.fields import FilePath
from headcount.geography import Geography
from headcount.population.population import Population
from headcount.population.readers import one_of_counts, read_counts
from headcount.population.sources._base import (
    FromTables,
    GeographyTable,
    QuartersTable,
    alias_of_leaf,
    refuse_overlap,
)
from headcount.population.suspicious import Totals
from headcount.population.whole_numbers import BlankCounts
from headcount.progress import Progress, silent
from headcount.schema import Schema, load_schema
from headcount.schema.load import SchemaFile


@dataclass(frozen=True, kw_only=True)
class CountsTable(FromTables):
    """A wide table of counts.

    where
        file           the table: text, Parquet, Excel, Stata or SPSS
        geography      its columns of places
        schema         a shipped schema, or a TOML file
        cells          the levels of a column's cell, where columns are not named after their
                       cells; several columns of one cell are added up
        quarters       living quarters by type
        totals         what to do with rows that look like totals by their code
        sums           what to do with rows that equal the sum of others
        blank_counts   what counts that are not there are: "zero", or "withheld"
        overlap        in how many cells or rows a person may be counted: the guarantee says what
                       that means for one; where nobody says it, parts of others are looked for
    """

    kind = "counts"
    file: FilePath
    geography: GeographyTable
    schema: Annotated[str, SchemaFile()]
    cells: Mapping[str, Mapping[str, str]] | None = None
    quarters: QuartersTable | None = None
    totals: Totals = "refuse"
    sums: Literal["refuse", "keep"] = "refuse"
    blank_counts: BlankCounts = "refuse"
    overlap: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_overlap(self.overlap)
        if self.keys is not None:
            self.keys.refuse_counted("it for a table of counts")

    @property
    def aliases(self) -> dict[str, str]:
        """The lowest level by its column."""
        return alias_of_leaf(self.geography)

    @property
    def data_file(self) -> Path:
        """The table of people."""
        return self.file

    def domain(self) -> tuple[Schema, Geography]:
        """The cells of the schema, and the places of the list of units."""
        return load_schema(self.schema), self.places(self.geography, self.totals)

    def _known(self) -> dict[str, Any]:
        return {
            "public": self.public,
            "read_off": self.places_read_off,
            "one_person": one_of_counts(self.totals, self.choice, self.overlap, self.blank_counts),
        }

    def read(self, progress: Progress = silent) -> Population:
        """Read the counts, and the living quarters if there are any."""
        people = read_counts(
            self.file,
            schema=load_schema(self.schema),
            geography=self.geography,
            columns=self.cells,
            units=self.units,
            units_from_data=self.units_from_data,
            public=self.public,
            totals=self.totals,
            sums=self.sums,
            blank_counts=self.blank_counts,
            overlap=self.overlap,
            choice=self.choice,
            form=self.format,
        )
        if self.quarters is None:
            return people
        return self.quarters.join(people, self.geography, self.format)
