"""What the study is run with: swappers, rates, epsilons, metrics and attacks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from headcount.errors import ConfigError
from headcount.mechanisms.swapping.similar import Likeness
from headcount.privacy import UnitOfPrivacy
from headcount.studies.christ_2022.places import POOL

STUDY = "christ-2022"

SWAPPERS: dict[str, Likeness] = {
    "random": Likeness(kind="random"),
    "pseudo-random": Likeness(kind="pseudo-random"),
    "0-similar": Likeness(kind="similar", k=0),
    "1-similar": Likeness(kind="similar", k=1),
    "3-similar": Likeness(kind="similar", k=3),
}
SIMILAR = ("0-similar", "1-similar", "3-similar")
DP = "dp"

UNIQUE_BY = ("age", "sex", "race", "hispanic")
"""A row is unique if nobody else in the area has these. With household size too, far more are."""

UNIT = UnitOfPrivacy.ADD_REMOVE
"""The paper's: every epsilon of the study is the rate of the noise, for one row more or less."""

BUCKETS = (2, 6, 45)
"""Numbers of age buckets of the noisy histogram."""
WIDTHS = (2, 15, 45)
"""Years of age that the attacker cannot tell apart."""
AGES = 91
"""0 to 89, and 90 for all older ages."""

MUS = (1e-2, 1e-3, 1e-4, 1e-5)
RACE = "hispanic x race"
FOUR = "age x hispanic x race x household size"

FEWEST_RATES = 2
MOST_RATES = 1000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Parameters to sweep, and the replicates behind every mean.

    where
        rates      how many swap rates, evenly from 0.01 to 1
        epsilons   how many epsilons, evenly from 0.1 to 10
        pool       people in the sample of a state, for synthetic block groups
    """

    rates: int = 100
    epsilons: int = 200
    replicates: int = 25
    seed: int = 2022
    pool: int = POOL

    def __post_init__(self) -> None:
        for place, found, low, high in (
            ("rates", self.rates, FEWEST_RATES, MOST_RATES),
            ("epsilons", self.epsilons, 2, 10_000),
            ("replicates", self.replicates, 1, 10_000),
            ("seed", self.seed, 0, 2**63),
            ("pool", self.pool, 2_000, 100_000_000),
        ):
            if not low <= found <= high:
                raise ConfigError(
                    f"study {STUDY}", place=place, found=f"{found}", expected=f"{low:,} to {high:,}"
                )

    def swap_rates(self) -> tuple[Fraction, ...]:
        """Rates from 0.01 to 1, to four decimals; 0 comes before them: nobody is swapped."""
        step = Fraction(99, 100) / (self.rates - 1)
        made = [round(Fraction(1, 100) + number * step, 4) for number in range(self.rates)]
        return (Fraction(0), *made)

    def promises(self) -> tuple[Fraction, ...]:
        """Epsilons from 0.1 to 10."""
        step = Fraction(99, 10) / (self.epsilons - 1)
        return tuple(Fraction(1, 10) + number * step for number in range(self.epsilons))
