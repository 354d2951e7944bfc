"""What the study is run with: swappers, rates, epsilons, metrics and attacks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from headcount.comparison.study import Option, Seed, StudySettings
from headcount.privacy import UnitOfPrivacy
from headcount_papers.christ_2022.places import LARGEST, MIXES, PEOPLE, POOL, SMALLEST, known_mixes
from headcount_papers.person_swapping.similar import PartnerRule

if TYPE_CHECKING:
    from headcount_papers.christ_2022.people import PeopleSource

NAME = "christ-2022"

SWAPPERS: dict[str, PartnerRule] = {
    "random": PartnerRule(kind="random"),
    "pseudo-random": PartnerRule(kind="pseudo-random"),
    "0-similar": PartnerRule(kind="similar", k=0),
    "1-similar": PartnerRule(kind="similar", k=1),
    "3-similar": PartnerRule(kind="similar", k=3),
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

FEWEST_PEOPLE, MOST_PEOPLE = 50, 10_000
"""Of a block group."""

REDUCED_RATES, REDUCED_EPSILONS, REDUCED_RUNS = 23, 9, 4
"""The reduced grid, on which the many block groups are run: rates from 0.01 to 1 (and 0), epsilons
from 2 to 10, the range of the paper's plots, and runs of each."""
DETAILED_RUNS, DETAILED_DRAWS = 3, 10
"""With fifteen attributes, where each partner is sought person by person: runs behind the figures,
and block groups, of one run each, by which claims are judged."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Swap rates and epsilons, and the runs of each."""

    rates: tuple[Fraction, ...]
    epsilons: tuple[Fraction, ...]
    runs: int


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    """Whom the study is run on, parameters to sweep, and the replicates behind every mean.

    where
        counties   some of the paper's nine, or areas of the table; all if empty
        draws      block groups of each county over which claims are judged
        people     in a block group, or 0 for 600 to 1,500, drawn
        mixes      how far blocks scatter about their county's mix of races
        persons    a table of people of the user's own; None for synthetic block groups
        column     the column of that table that names areas
        rates      how many swap rates, evenly from 0.01 to 1
        epsilons   how many epsilons, evenly from 0.1 to 10
        pool       people in the sample of a state, for synthetic block groups
    """

    counties: Annotated[
        tuple[str, ...],
        Option(help="Counties to run, for example Alameda,Cibola; all nine if empty."),
    ] = ()
    draws: Annotated[
        int,
        Option(
            help="Block groups of each county over which claims are judged.",
            least=1,
            most=1_000,
            always=True,
        ),
    ] = 20
    people: Annotated[
        int,
        Option(
            help=f"People in a block group; 0 draws {SMALLEST} to {LARGEST:,} for each.",
            least=0,
            most=MOST_PEOPLE,
            always=True,
        ),
    ] = PEOPLE
    mixes: Annotated[
        str,
        Option(
            help="How far blocks scatter about their county's mix of races: "
            f"{', '.join(known_mixes())}."
        ),
    ] = MIXES
    persons: Annotated[
        Path | None,
        Option(
            help="A table of people of your own (.csv, .parquet): age, sex, race, hispanic, and "
            "if you have them household_size and tenure; --counties names its areas."
        ),
    ] = None
    column: Annotated[
        str, Option(help="The column of that table that names areas.", name="area")
    ] = "area"
    rates: Annotated[
        int,
        Option(
            help="How many swap rates, evenly spaced from 0.01 to 1.",
            least=2,
            most=1_000,
            always=True,
        ),
    ] = 100
    epsilons: Annotated[
        int,
        Option(
            help="How many epsilons, evenly spaced from 0.1 to 10.",
            least=2,
            most=10_000,
            always=True,
        ),
    ] = 200
    replicates: Annotated[
        int, Option(help="Runs of each setting.", least=1, most=10_000, always=True)
    ] = 25
    pool: Annotated[
        int,
        Option(help="People in the sample of a state.", least=2_000, most=100_000_000, always=True),
    ] = POOL
    seed: Seed = 2022

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.people < FEWEST_PEOPLE:
            expected = f"0, or {FEWEST_PEOPLE} to {MOST_PEOPLE:,}"
            raise self.refused("people", found=f"{self.people}", expected=expected)
        if self.mixes not in known_mixes():
            expected = f"one of {', '.join(known_mixes())}"
            raise self.refused("mixes", found=self.mixes, expected=expected)

    @cached_property
    def source(self) -> PeopleSource:
        """The areas, and everyone outside them."""
        from headcount_papers.christ_2022.people import Synthetic, read_table

        if self.persons is not None:
            return read_table(self.persons, column=self.column, names=self.counties)
        return Synthetic(
            names=self.counties or Synthetic.names,
            seed=self.seed,
            pool=self.pool,
            people=self.people or None,
            mixes=self.mixes,
        )

    def identity(self) -> dict[str, Any]:
        """People of a table go by the content of the file."""
        options = super().identity()
        numbers = ("draws", "rates", "epsilons", "replicates", "seed", "pool")
        return {
            **{name: options[name] for name in numbers},
            "people": self.source.key(),
            "counties": list(self.source.names),
        }

    @property
    def full(self) -> Grid:
        """The paper's grid, on which one block group of each county is run."""
        return Grid(
            rates=_rates(self.rates),
            epsilons=_evenly(Fraction(1, 10), Fraction(10), self.epsilons),
            runs=self.replicates,
        )

    @property
    def reduced(self) -> Grid:
        """The grid of all other block groups."""
        return Grid(
            rates=_rates(min(self.rates, REDUCED_RATES)),
            epsilons=_evenly(Fraction(2), Fraction(10), min(self.epsilons, REDUCED_EPSILONS)),
            runs=min(self.replicates, REDUCED_RUNS),
        )


def _rates(number: int) -> tuple[Fraction, ...]:
    """Rates from 0.01 to 1, to four decimals; 0 comes before them: nobody is swapped."""
    made = (round(rate, 4) for rate in _evenly(Fraction(1, 100), Fraction(1), number))
    return (Fraction(0), *made)


def _evenly(first: Fraction, last: Fraction, number: int) -> tuple[Fraction, ...]:
    return tuple(first + place * (last - first) / (number - 1) for place in range(number))
