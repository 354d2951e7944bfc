"""``kind = "counts"``: one row per unit, one column per cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from headcount.fields import FilePath
from headcount.population.population import Population
from headcount.population.readers import read_counts
from headcount.population.sources._base import (
    FromFile,
    GeographyTable,
    QuartersTable,
    SchemaFile,
)
from headcount.population.suspicious import Totals
from headcount.progress import Progress, silent
from headcount.schema import load_schema


@dataclass(frozen=True, kw_only=True)
class CountsTable(FromFile):
    """A wide table of counts.

    where
        file        the table, .csv or .parquet
        geography   its columns of places
        schema      a shipped schema, or a TOML file
        cells       the levels of a column's cell, where columns are not named after their cells
        units       the public list of units
        quarters    living quarters by type
        public      whether the data are public: no "do not publish" banner
        totals      what to do with rows that look like totals by their code
        sums        what to do with rows that equal the sum of others
    """

    kind = "counts"
    file: FilePath
    geography: GeographyTable
    schema: Annotated[str, SchemaFile()]
    cells: Mapping[str, Mapping[str, str]] | None = None
    units: FilePath | None = None
    quarters: QuartersTable | None = None
    public: bool = False
    totals: Totals = "refuse"
    sums: Literal["refuse", "keep"] = "refuse"

    def read(self, progress: Progress = silent) -> Population:
        """Read the counts, and the living quarters if there are any."""
        people = read_counts(
            self.file,
            schema=load_schema(self.schema),
            geography=self.geography,
            columns=self.cells,
            units=self.units,
            public=self.public,
            totals=self.totals,
            sums=self.sums,
        )
        return people if self.quarters is None else self.quarters.join(people, self.geography)
