"""``kind = "redistricting-2020"``: people of the census of 2020, with their living quarters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from headcount.fields import APART, FilePath
from headcount.geography import Geography
from headcount.population.format import PLAIN, Format
from headcount.population.population import Population
from headcount.population.redistricting_2020 import (
    PERSONS_READ_OFF,
    TopLevel,
    read_persons_2020,
    read_places_2020,
)
from headcount.population.source import table_digest
from headcount.population.sources._base import Source
from headcount.progress import Progress, silent
from headcount.schema import Schema, load_schema


@dataclass(frozen=True, kw_only=True)
class Redistricting2020(Source):
    """Persons of the redistricting product, with the columns of ``population.redistricting_2020``.

    where
        persons   one row per person
        blocks    one row per block, with the codes of all places that it is in
        units     one row per housing unit or facility; without it nothing bounds the counts
        whole     the level of the one unit that all others are in: "us", or "state" for Puerto Rico
        format    how the files are written, where headcount must be told
        public    whether the data are public: no "do not publish" banner
    """

    kind = "redistricting-2020"
    persons: FilePath
    blocks: FilePath
    units: FilePath | None = None
    whole: TopLevel = "us"
    format: Annotated[Format, APART] = PLAIN
    public: bool = False

    @property
    def data_file(self) -> Path:
        """The table of people."""
        return self.persons

    def read(self, progress: Progress = silent) -> Population:
        """Read the people, their blocks and living quarters."""
        return read_persons_2020(
            self.persons,
            blocks=self.blocks,
            units=self.units,
            whole=self.whole,
            public=self.public,
            form=self.format,
        )

    def domain(self) -> tuple[Schema, Geography]:
        """The cells of the product, and the blocks that have living quarters."""
        places = read_places_2020(
            blocks=self.blocks, units=self.units, homes=False, whole=self.whole, form=self.format
        )
        return load_schema("redistricting-2020"), places

    def _known(self) -> dict[str, Any]:
        return {
            "public": self.public,
            "read_off": () if self.units is None else PERSONS_READ_OFF,
        }

    @property
    def places_from(self) -> Path | None:
        """The table of living quarters, where there is one."""
        return self.units

    def source_digest(self) -> str:
        """The digest of the rows of people in any order, over all columns."""
        return table_digest(self.persons, self.format)
