"""What the study is run with: whose people, how many draws, and every plan that is tried."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from headcount.comparison.study import Option, Seed, StudySettings

NAME = "without-noise"
LADDERS = (100, 200, 500)
"""Least people of an area of the releases that are scored."""
TRIED = (50, 100, 200, 500, 1000)
"""Least people of an area among the plans that are tried."""
LIMITS = (0.01, 0.001)
"""Shares of people that may be proven, for what has to be given up."""
PART = 7
"""People of a part, where blocks are cut."""
SURE = 0.9
"""The share of a secret from which on an attacker claims it."""


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    """Whom the study is run on, and how often."""

    people: Annotated[
        int, Option(help="People of the synthetic state.", least=1_000, most=1_000_000)
    ] = 6_000
    persons: Annotated[
        Path | None,
        Option(
            help="Persons of your own in its place, CSV or Parquet: sex, age in years, race, "
            "hispanic, and some of state, county, tract, block_group, block."
        ),
    ] = None
    counts: Annotated[
        Path | None,
        Option(
            help="Counts of your own: the same places, and columns GROUP_minor and GROUP_adult."
        ),
    ] = None
    draws: Annotated[
        int, Option(help="Synthetic states, or draws of noise.", least=1, most=100, always=True)
    ] = 6
    seed: Seed = 2030

    def __post_init__(self) -> None:
        super().__post_init__()
        for given in (self.persons, self.counts):
            if given is not None and not given.is_file():
                raise self.refused(
                    "--persons, --counts", found=f"{given.name}: no such file", expected="a file"
                )

    def identity(self) -> dict[str, Any]:
        """Files go by their content: other people are another study."""
        from hashlib import sha256

        digests = {
            name: sha256(path.read_bytes()).hexdigest()
            for name, path in (("persons", self.persons), ("counts", self.counts))
            if path is not None
        }
        return {**super().identity(), "digests": digests}

    @property
    def own(self) -> bool:
        """Whether the people are somebody's own."""
        return self.persons is not None or self.counts is not None
