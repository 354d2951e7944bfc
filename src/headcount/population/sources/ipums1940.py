"""``kind = "ipums1940"``: the IPUMS extract of the census of 1940, fixed width."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headcount.fields import FilePath
from headcount.geography import Geography
from headcount.population._placed import UNITS_READ_OFF
from headcount.population.ipums1940 import (
    Orphans,
    one_record,
    read_ipums1940,
    read_places,
    schema_1940,
)
from headcount.population.population import Population
from headcount.population.source import lines_digest
from headcount.population.sources._base import FromFile
from headcount.progress import Progress, silent
from headcount.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Ipums1940(FromFile):
    """The extract, with its living quarters.

    where
        file          fixed width, .gz allowed
        orphans       what to do with people whose housing unit is not in the file
        nurse_nva_0   nobody under 18 in homes for the elderly or poor: a structural zero
        public        whether the data are public: no "do not publish" banner
    """

    kind = "ipums1940"
    file: FilePath
    orphans: Orphans = "refuse"
    nurse_nva_0: bool = False
    public: bool = False

    def read(self, progress: Progress = silent) -> Population:
        """Read the people and their living quarters."""
        people, quarters = read_ipums1940(
            self.file,
            orphans=self.orphans,
            nurse_nva_0=self.nurse_nva_0,
            public=self.public,
            progress=progress,
        )
        return replace(people, quarters=quarters)

    def domain(self) -> tuple[Schema, Geography]:
        """The cells of 1940, and the places of the units (H)."""
        return schema_1940(nurse_nva_0=self.nurse_nva_0), read_places(self.file)

    def _known(self) -> dict[str, Any]:
        return {
            "public": self.public,
            "read_off": UNITS_READ_OFF,
            "one_person": one_record(self.orphans),
        }

    @property
    def places_from(self) -> Path:
        """The extract: there is no other list of districts."""
        return self.file

    def source_digest(self) -> str:
        """The digest of the file's lines, in blocks."""
        return lines_digest(self.file)
