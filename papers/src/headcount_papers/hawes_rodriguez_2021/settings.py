"""What the study is run with: the settings of the slides, and the workload of TopDown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from hashlib import sha256
from math import floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from headcount.comparison.study import Option, Seed, StudySettings
from headcount_papers.frame.dwellings import in_dwellings

if TYPE_CHECKING:
    from headcount.population.population import Households

NAME = "hawes-rodriguez-2021"
SCHEMA = "sex-age38-race7-hispanic"
"""All methods run on it: sex x 38 age bins x 7 race groups x Hispanic origin, 1,064 cells."""

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(4), Fraction(16))
RATES = (Fraction(1, 20), Fraction(1, 10), Fraction(1, 4), Fraction(1, 2))
SIZE_NOISE = (Fraction(0), Fraction(1, 5), Fraction(1, 2), Fraction(4, 5))
"""Share of households whose size in the key is off by one: half of them less, half of them more."""
TRACT_NOISE = (
    (Fraction(0), Fraction(0)),
    (Fraction(3, 10), Fraction(1, 5)),
    (Fraction(1, 10), Fraction(2, 5)),
    (Fraction(2, 5), Fraction(3, 10)),
)
"""Shares of households paired as if in another tract: of the county, of the state."""

DELTA = Fraction(1, 10**10)
"""At which the rho of a zCDP run is worth the epsilon it stands beside."""

QUERY_SHARES = (
    ("total", Fraction(1, 5)),
    ("hispanic x race x voting age", Fraction(2, 5)),
    ("sex x age", Fraction(3, 10)),
    ("cells", Fraction(1, 10)),
)
"""The workload of TopDown, the same at every level; levels share alike.

Each kind of number that is judged has a share: totals of areas, race, and records.
"""

STATE_SHARES = tuple((name, share / (1 - QUERY_SHARES[0][1])) for name, share in QUERY_SHARES[1:])
"""At the state, and above it, the total is exact and the others have its share."""

STATE = "state"
LEVELS_NEEDED = (STATE, "county", "tract")
PLACE = "place"

PEOPLE, PEOPLE_IN_A_COUNTY, FEWEST_COUNTIES = 100_000, 4_000, 5
"""By default: so that counties and places of several size categories exist."""

BLOCK_SPREAD = 1.45
"""Spread of the logarithm of block sizes, fitted to one number of the slides: 38.7 % of blocks have
1 to 14 people. That number is therefore not a test."""

LARGE_STATE, LARGE_COUNTIES = 1_000_000, 10
"""States on which suppression is counted: counties of 98,000 people on average in 2010."""


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    """Whom the study is run on, parameters to sweep, and the replicates behind every interval.

    where
        epsilons     of TopDown, each as pure epsilon and as zCDP worth as much at ``DELTA``
        replicates   draws of every method, each on a synthetic state of its own, or on the same
                     people if they are a user's, and with another random order of ties
        states       whose tables are suppressed and counted together, as the nation's were
    """

    people: Annotated[
        int | None, Option(help="People in the synthetic state; default 100,000.", least=1_000)
    ] = None
    counties: Annotated[
        int | None, Option(help="Its counties; default one for each 4,000 people.", least=1)
    ] = None
    population: Annotated[
        Path | None,
        Option(
            help="People of your own: a TOML file with a table [population] "
            '(kind = "households"), such as a config of headcount protect.'
        ),
    ] = None
    epsilons: Annotated[
        tuple[Fraction, ...],
        Option(
            help="Another epsilon in place of 0.5, 1, 4 and 16; may be repeated.",
            name="epsilon",
            always=True,
        ),
    ] = EPSILONS
    replicates: Annotated[
        int,
        Option(
            help="Draws of every method, each on a synthetic state of its own.",
            least=1,
            most=1_000,
            always=True,
        ),
    ] = 10
    states: Annotated[
        int,
        Option(
            help="Synthetic states of a million people on which suppression is counted.",
            least=1,
            most=100,
            always=True,
        ),
    ] = 10
    seed: Seed = 2021

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.population is not None and (self.people or self.counties):
            raise self.refused(
                "--people and --counties",
                found=f"--population {self.population.name} beside them",
                expected="these for the synthetic state only",
            )

    def state(self) -> tuple[int, int]:
        """People and counties of the synthetic state."""
        people = PEOPLE if self.people is None else self.people
        fewest = max(FEWEST_COUNTIES, people // PEOPLE_IN_A_COUNTY)
        return people, fewest if self.counties is None else self.counties

    def typed(self, field: str) -> Any:
        """The recipe names the size of a synthetic state, whether it was typed or not."""
        if self.population is None and field in ("people", "counties"):
            return dict(zip(("people", "counties"), self.state(), strict=True))[field]
        return super().typed(field)

    def identity(self) -> dict[str, Any]:
        """The people go by their digest: other people are another study."""
        options = super().identity()
        return {
            "population": "towns" if self.population is None else self.population.name,
            "digest": households_digest(self.households),
            **{name: options[name] for name in ("epsilons", "replicates", "states", "seed")},
        }

    @cached_property
    def households(self) -> Households:
        """The people and their dwellings, of the first state if there are several."""
        return self._state(0) if self.population is None else in_dwellings(self.population)[1]

    def _state(self, draw: int) -> Households:
        from headcount.population.towns import towns

        people, counties = self.state()
        seed = seed_of(self.seed, draw)
        return towns(seed=seed, people=people, counties=counties, block_spread=BLOCK_SPREAD)

    def drawn(self) -> Iterator[tuple[Households, range]]:
        """Every population, and which draws are made of it."""
        if self.population is not None:
            yield self.households, range(self.replicates)
            return
        for draw in range(self.replicates):
            yield (self._state(draw) if draw else self.households), range(draw, draw + 1)


def seed_of(seed: int, draw: int) -> int:
    """The seed of a state, so that studies with seeds near to each other share none."""
    return seed + draw * 1_000_003


def large_state(seed: int) -> Households:
    """A state of a million people, in counties and blocks of the sizes of the nation."""
    from headcount.population.towns import towns

    return towns(seed=seed, people=LARGE_STATE, counties=LARGE_COUNTIES, block_spread=BLOCK_SPREAD)


def households_digest(households: Households) -> str:
    """A digest of who lives with whom, where, and in which place."""
    found = sha256(np.ascontiguousarray(households.first).tobytes())
    found.update(np.ascontiguousarray(households.block).tobytes() + households.kind.tobytes())
    for attribute in households.person_attributes:
        found.update(repr(attribute).encode())
        found.update(households.persons[attribute.name].astype(np.int32).tobytes())
    for areas in households.areas:
        found.update(areas.name.encode() + np.ascontiguousarray(areas.of_leaf).tobytes())
    for units in households.geography.units:
        found.update("\n".join(units.tolist()).encode() + b"\0")
    return found.hexdigest()


@cache
def rho_for(epsilon: Fraction) -> Fraction:
    """The largest rho, to four digits, that is worth at most ``epsilon`` at ``DELTA``."""
    from headcount.privacy import UnitOfPrivacy, ZCDPLoss
    from headcount.privacy.convert import zcdp_to_approximate

    def worth(rho: Fraction) -> Fraction:
        loss = ZCDPLoss(rho=rho, unit=UnitOfPrivacy.CHANGE_ONE)
        value = zcdp_to_approximate(loss, delta=DELTA).value
        return value.epsilon  # type: ignore[union-attr]

    low, high = Fraction(0), epsilon  # rho is at most epsilon, for rho + 2 sqrt(...) is epsilon
    while high - low > high / 20_000:
        middle = (low + high) / 2
        low, high = (middle, high) if worth(middle) <= epsilon else (low, middle)
    digits = 4 - 1 - floor(log10(low))
    return Fraction(int(low * Fraction(10) ** digits)) / Fraction(10) ** digits
