"""What the study is run with: the settings of the slides, and the workload of TopDown."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from headcount.errors import ConfigError

STUDY = "hawes-rodriguez-2021"
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


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Parameters to sweep, and the replicates behind every interval.

    where
        epsilons     of TopDown, each as pure epsilon and as zCDP worth as much at ``DELTA``
        replicates   draws of every method, each attacked with another random order of ties
        seed         of all draws
    """

    epsilons: tuple[Fraction, ...] = EPSILONS
    replicates: int = 10
    seed: int = 2021

    def __post_init__(self) -> None:
        for place, found, low, high in (
            ("replicates", self.replicates, 1, 1_000),
            ("seed", self.seed, 0, 2**63),
        ):
            if not low <= found <= high:
                raise ConfigError(
                    f"study {STUDY}", place=place, found=f"{found}", expected=f"{low:,} to {high:,}"
                )
        distinct = len(set(self.epsilons)) == len(self.epsilons)
        if not self.epsilons or min(self.epsilons) <= 0 or not distinct:
            raise ConfigError(
                f"study {STUDY}", place="epsilons",
                found=", ".join(str(epsilon) for epsilon in self.epsilons) or "none",
                expected="distinct numbers above 0",
            )  # fmt: skip


def default_counties(people: int) -> int:
    """Counties of a synthetic state of so many people."""
    return max(FEWEST_COUNTIES, people // PEOPLE_IN_A_COUNTY)


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
    digits = 4 - 1 - _magnitude(low)
    return Fraction(int(low * Fraction(10) ** digits)) / Fraction(10) ** digits


def _magnitude(value: Fraction) -> int:
    """The power of ten of the first digit."""
    from math import floor, log10

    return floor(log10(value))
