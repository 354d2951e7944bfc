"""``kind = "h1-2020"``: housing units of the census of 2020, vacant or occupied."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from headcount.domain import CountsOf, Domain
from headcount.fields import APART, FilePath
from headcount.population._base import Source
from headcount.population.pieces import table_digest
from headcount.population.population import Population
from headcount.population.redistricting_2020 import (
    HOMES_READ_OFF,
    TopLevel,
    read_places_2020,
    read_units_2020,
)
from headcount.population.text_files import PLAIN, Format
from headcount.processes import Progress, silent
from headcount.schema import load_schema


@dataclass(frozen=True, kw_only=True)
class H12020(Source):
    """Housing units of the redistricting product: what is protected is a housing unit.

    where
        units     one row per housing unit or facility
        blocks    one row per block, with the codes of all places that it is in
        whole     the level of the one unit that all others are in: "us", or "state" for Puerto Rico
        format    how the files are written, where headcount must be told
        public    whether the data are public: no "do not publish" banner
    """

    kind = "h1-2020"
    units: FilePath
    blocks: FilePath
    whole: TopLevel = "us"
    format: Annotated[Format, APART] = PLAIN
    public: bool = False

    @property
    def data_file(self) -> Path:
        """The table of units."""
        return self.units

    def read(self, progress: Progress = silent) -> Population:
        """Read the housing units and their blocks."""
        return read_units_2020(
            self.units, blocks=self.blocks, whole=self.whole, public=self.public, form=self.format
        )

    def domain(self) -> Domain:
        """Vacant or occupied, and the blocks that have living quarters."""
        places = read_places_2020(
            blocks=self.blocks, units=self.units, homes=True, whole=self.whole, form=self.format
        )
        return Domain(
            load_schema("h1-2020"),
            places,
            read_off=HOMES_READ_OFF,
            counted=CountsOf.HOUSING_UNITS,
        )

    @property
    def places_from(self) -> Path:
        """The table of units, of which it is not read whether they are occupied."""
        return self.units

    def source_digest(self) -> str:
        """The digest of the rows of units in any order, over all columns."""
        return table_digest(self.units, self.format)
