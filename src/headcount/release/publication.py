"""What a release can publish besides its tables: each kind with its checks and its files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from headcount.errors import ConfigError
from headcount.population import Population
from headcount.population.quarters import Quarters
from headcount.progress import Progress
from headcount.release._mdf import refuse_other_layout, write_mdf
from headcount.release._sampled import refuse_weight, write_sample
from headcount.release._tidy import refuse_same_names, write_tidy
from headcount.release.release import Release

MEASUREMENTS = "measurements"
"""The noisy measurements: written while they are drawn, in the folder of that name."""


class Publication(ABC):
    """One of ``run.publish``: a folder of that name below ``release/``."""

    @abstractmethod
    def check(self, population: Population) -> None:
        """Refuse people for whom it could not be written: before a loss, not after."""

    @abstractmethod
    def write(
        self, release: Release, folder: Path, *, quarters: Quarters | None, progress: Progress
    ) -> Sequence[Path]:
        """Write the files, from the release and the published quarters: the truth has no part."""


@dataclass(frozen=True)
class PeopleInQuarters(Publication):
    """Synthetic people, placed in the living quarters that are published exactly.

    where
        mdf   in the layout of the 2018 end-to-end test, fields between bars, instead of tidy tables
    """

    mdf: bool = False

    def check(self, population: Population) -> None:
        """Refuse a domain that the layout has no fields for, or two columns of one name."""
        quarters = _known(population.quarters, population.name)
        if self.mdf:
            refuse_other_layout(population.schema, population.geography, quarters)
        else:
            refuse_same_names(population.schema, population.geography)

    def write(
        self, release: Release, folder: Path, *, quarters: Quarters | None, progress: Progress
    ) -> Sequence[Path]:
        """Two files: people, and living quarters."""
        folder.mkdir(parents=True, exist_ok=True)
        written = write_mdf if self.mdf else write_tidy
        return written(
            release.as_counts().tables[release.geography.leaf],
            schema=release.schema,
            geography=release.geography,
            quarters=_known(quarters, "release"),
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
