"""What a release can publish besides its tables: each kind with its checks and its files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from headcount.errors import ConfigError
from headcount.population import Population
from headcount.population.population import Quarters
from headcount.processes import Progress
from headcount.release._mdf import refuse_other_layout, write_mdf
from headcount.release._mdf_2020 import (
    PERSONS_LAYOUT,
    ExactTotals,
    layout_of,
    refuse_other_records,
    write_checked_2020,
)
from headcount.release._tidy import refuse_same_names, refuse_weight, write_sample, write_tidy
from headcount.release.mdf_2020_check import CAP, FLOORS
from headcount.release.release import Release
from headcount.tabulate import Counts

MEASUREMENTS = "measurements"
"""The noisy measurements: written while they are drawn, in the folder of that name."""


class Publication(ABC):
    """One of ``run.publish``: a folder of that name below ``release/``."""

    @abstractmethod
    def check(self, population: Population) -> None:
        """Refuse people for whom it could not be written: before a loss, not after."""

    def knowing(self, counts: Counts) -> Publication:
        """The same with those totals of the protected records that the release has exactly.

        Files can then be checked against them. Nothing else may be taken from the counts.
        """
        return self

    @abstractmethod
    def write(
        self, release: Release, folder: Path, *, quarters: Quarters | None, progress: Progress
    ) -> Sequence[Path]:
        """Write the files, from the release and the published quarters: the truth has no part."""


class PeopleInQuarters(Publication):
    """Synthetic people as tidy tables, placed in living quarters that are published exactly."""

    def check(self, population: Population) -> None:
        """Refuse people without living quarters, or two columns of one name."""
        _known(population.quarters, population.name)
        refuse_same_names(population.schema, population.geography)

    def write(
        self, release: Release, folder: Path, *, quarters: Quarters | None, progress: Progress
    ) -> Sequence[Path]:
        """Two files: people, and living quarters."""
        return write_tidy(
            release.as_counts().tables[release.geography.leaf],
            schema=release.schema,
            geography=release.geography,
            quarters=_known(quarters, "release"),
            folder=folder,
            progress=progress,
        )


@dataclass(frozen=True)
class MdfFiles(Publication):
    """Records as text in a layout of the Census Bureau, fields between bars.

    People of the schema e2e-2018 are placed in living quarters (layouts of 1940); people or housing
    units of 2020 are not, and their file is read again and checked.

    where
        caps, floors   the most and the fewest people in one living quarters of each type
        vacant         whether vacant homes count as any other
        exact_at       levels at which the number of people, or of housing units, is exact
        exact          that number for each unit of the finest of these levels, once it is known
    """

    caps: tuple[int, ...] = ()
    floors: tuple[int, ...] = ()
    vacant: bool = False
    exact_at: tuple[str, ...] = ()
    exact: ExactTotals | None = field(default=None, compare=False, repr=False)

    def knowing(self, counts: Counts) -> MdfFiles:
        """The same with the exact totals."""
        if not self.exact_at:
            return self
        level = max(self.exact_at, key=counts.geography.depth)
        totals = np.zeros(counts.geography.size(level), dtype=np.int64)
        np.add.at(totals, counts.geography.ancestors(level), counts.totals())
        return replace(self, exact=ExactTotals(level, totals))

    def check(self, population: Population) -> None:
        """Refuse a domain that no layout has fields for."""
        schema, geography = population.schema, population.geography
        quarters = _known(population.quarters, population.name)
        if layout_of(schema) is None:
            refuse_other_layout(schema, geography, quarters)
            loose = self.vacant or min(self.floors, default=1) < 1
            expected = "floors of at least 1 and vacant homes apart: each quarters has somebody"
        else:
            refuse_other_records(schema, geography)
            loose = any(a < b for a, b in zip(self.floors, FLOORS, strict=False))
            loose |= max(self.caps, default=0) > CAP
            expected = f"caps of at most {CAP:,} and floors of at least {list(FLOORS)}"
        if loose:
            homes = ", vacant homes counted as any other" if self.vacant else ""
            raise ConfigError(
                population.name,
                place="run.publish",
                found=f"'mdf' with bounds that its layout does not allow: caps of up to "
                f"{max(self.caps, default=0):,}, floors {list(self.floors)}{homes}",
                expected=expected,
            )

    def write(
        self, release: Release, folder: Path, *, quarters: Quarters | None, progress: Progress
    ) -> Sequence[Path]:
        """One file of people or housing units of 2020; of 1940 one of people and one of units."""
        known, layout = _known(quarters, "release"), layout_of(release.schema)
        leaf, geography = release.as_counts().tables[release.geography.leaf], release.geography
        if layout is None:
            return write_mdf(
                leaf,
                schema=release.schema,
                geography=geography,
                quarters=known,
                folder=folder,
                progress=progress,
            )
        return write_checked_2020(
            leaf,
            persons=layout == PERSONS_LAYOUT,
            geography=geography,
            quarters=known,
            exact=self.exact,
            folder=folder,
            progress=progress,
        )


@dataclass(frozen=True)
class SampledPeople(Publication):
    """The people whose weighted counts the release holds: each a share ``fraction`` of all."""

    fraction: Fraction

    def check(self, population: Population) -> None:
        """Refuse a domain with a column of the weight's name."""
        refuse_weight(population.schema, population.geography)

    def write(
        self, release: Release, folder: Path, *, quarters: Quarters | None, progress: Progress
    ) -> Sequence[Path]:
        """One tidy table."""
        return write_sample(
            release.as_counts().tables[release.geography.leaf],
            fraction=self.fraction,
            schema=release.schema,
            geography=release.geography,
            folder=folder,
            progress=progress,
        )


def _known(quarters: Quarters | None, source: str) -> Quarters:
    if quarters is None:
        raise ConfigError(
            source,
            place="run.publish",
            found="no living quarters to place people in",
            expected="a population with living quarters, or other things to publish",
        )
    return quarters
