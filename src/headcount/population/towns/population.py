"""``kind = "towns"``: a seeded synthetic state of people in dwellings.

It is shaped like the United States of 2010.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Floats, Ints, Ints32
from headcount.draws import multinomial
from headcount.errors import ConfigError, InputError
from headcount.fields import AtLeast0, AtLeast1, Whole
from headcount.population._base import Generated, InDwellings
from headcount.population.dwellings import HOUSEHOLD, VACANT, Households
from headcount.population.population import Population
from headcount.population.towns import levels
from headcount.population.towns._facilities import IN_QUARTERS, fill_facilities, plan_facilities
from headcount.population.towns._mix import mixes
from headcount.population.towns._people import fill_households, household_sizes, nobody
from headcount.population.towns._spine import BLOCK_SPREAD, Land, make_land
from headcount.progress import Progress, silent

MEAN_SIZE = 2.578
"""People in a mean household."""
VACANCY = 0.114
"""Share of housing units that are vacant."""
FEWEST_PEOPLE, MOST_PEOPLE, MOST_COUNTIES = 1_000, 50_000_000, 999


@dataclass(frozen=True, kw_only=True)
class Towns(InDwellings, Generated):
    """A synthetic state.

    where
        seed       one seed, one state
        people     how many to aim at
        counties   by default one for each 50,000 people, at least five
    """

    kind = "towns"
    seed: AtLeast0 = 2010
    people: Annotated[int, Whole(low=FEWEST_PEOPLE, high=MOST_PEOPLE)] = 40_000
    counties: AtLeast1 | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.counties or 1) > (most := most_counties(self.people)):
            raise ConfigError(
                "population",
                place="counties",
                found=str(self.counties),
                expected=f"at most {most} for the people",
            )

    def read(self, progress: Progress = silent) -> Population:
        """Generate the people in their dwellings."""
        return self.chosen(towns(seed=self.seed, people=self.people, counties=self.counties))


def towns(
    *,
    seed: int = 2010,
    people: int = 40_000,
    counties: int | None = None,
    block_spread: float = BLOCK_SPREAD,
) -> Households:
    """Generate a state of about ``people`` people: block < block group < tract < county < state.

    where
        seed           one seed, one state
        people         to aim at; the number that comes out is random, within a percent or two
        counties       by default one for each 50,000 people, at least five
        block_spread   standard deviation of the logarithm of the people of a block

    Households have the sizes of the 2010 census; couples are of similar age, children are a
    generation younger, the old often live alone. Members mostly share race and origin, and the
    communities live apart: the mix of every county, tract and block is drawn about that of the
    unit above. Owners are older and live in better-off neighbourhoods. Some housing units are
    vacant, some blocks empty, and group quarters of seven types stand in few blocks. Areas named
    "place" cut across the tracts. Nobody in it is real: the population is public.
    """
    if not FEWEST_PEOPLE <= people <= MOST_PEOPLE:
        raise InputError(
            "towns",
            place="people",
            found=f"{people:,}",
            expected=f"from {FEWEST_PEOPLE:,} to {MOST_PEOPLE:,}",
        )
    counties = max(5, round(people / 50_000)) if counties is None else counties
    most = most_counties(people)
    if not 1 <= counties <= most:
        raise InputError(
            "towns", place="counties", found=f"{counties}", expected=f"1 to {most} for the people"
        )
    streams = np.random.SeedSequence(seed).spawn(5)
    ground, plan, segregation, inside, quarters = map(np.random.default_rng, streams)
    land = make_land(ground, people=people, counties=counties, block_spread=block_spread)
    dwellings = _plan(plan, land, people=people)
    mix = mixes(segregation, land.geography)
    wealth = _wealth(segregation, land, mix["block"])
    return _fill(inside, quarters, land, dwellings, mix, wealth)


def most_counties(people: int) -> int:
    """How many counties a state of so many people can have."""
    return min(MOST_COUNTIES, people // 100)


@dataclass(frozen=True, eq=False)
class _Dwellings:
    block: Ints32
    kind: NDArray[np.int8]
    size: Ints


def _plan(rng: np.random.Generator, land: Land, *, people: int) -> _Dwellings:
    """Where dwellings stand, of which kind and how large, in the order of their blocks."""
    households = round(people * (1 - IN_QUARTERS) / MEAN_SIZE)
    vacant = round(households * VACANCY / (1 - VACANCY))
    size = household_sizes(rng, households)
    weight = land.expected / land.expected.sum()
    standing = _spread(rng, weight, households)
    # Vacancy gathers: holiday homes and run-down streets, a few of them with nobody at all.
    uneven = (weight + 0.02 * weight.mean()) * rng.gamma(0.6, size=len(weight))
    empty = _spread(rng, uneven / uneven.sum(), vacant)
    place, kind, inside = plan_facilities(rng, land, people=people)
    block = np.concatenate([standing, empty, place])
    kinds = np.concatenate(
        [np.full(households, HOUSEHOLD, np.int8), np.full(vacant, VACANT, np.int8), kind]
    )
    sizes = np.concatenate([size, np.zeros(vacant, dtype=np.int64), inside])
    order = np.argsort(block, kind="stable")
    return _Dwellings(block[order], kinds[order], sizes[order])


def _spread(rng: np.random.Generator, weight: Floats, number: int) -> Ints32:
    """Blocks of so many dwellings, drawn by weight."""
    counts = multinomial(rng, number, weight)
    return np.repeat(np.arange(len(weight), dtype=np.int32), counts)


def _wealth(rng: np.random.Generator, land: Land, mix: Floats) -> Floats:
    """How well off each block is: by tract, by block, and less so in minority communities."""
    tract = land.geography.ancestors("tract")
    drawn = 0.6 * rng.standard_normal(land.geography.size("tract"))[tract]
    return np.asarray(drawn + 0.4 * rng.standard_normal(len(mix)) + 1.2 * (mix[:, 0] - 0.65))


def _fill(
    inside: np.random.Generator,
    quarters: np.random.Generator,
    land: Land,
    dwellings: _Dwellings,
    mix: dict[str, Floats],
    wealth: Floats,
) -> Households:
    block, kind, size = dwellings.block, dwellings.kind, dwellings.size
    first = np.concatenate([[0], np.cumsum(size)])
    people = nobody(int(first[-1]))
    homes = np.flatnonzero(kind == HOUSEHOLD)
    tenure = np.full(len(block), levels.NO_TENURE, dtype=np.int16)
    tenure[homes] = fill_households(
        inside,
        people,
        first=first[homes],
        size=size[homes],
        unit=block[homes],
        mix=mix["block"],
        wealth=wealth[block[homes]],
    )
    dwelling = np.repeat(np.arange(len(block), dtype=np.int32), size)
    person = np.flatnonzero(kind[dwelling] > VACANT)
    fill_facilities(
        quarters,
        people,
        person=person,
        kind=kind[dwelling[person]],
        tract=land.geography.ancestors("tract")[block[dwelling[person]]],
        mix=mix,
    )
    household_size = np.where(kind == HOUSEHOLD, np.minimum(size, 4) - 1, levels.NO_SIZE)
    return Households(
        "towns",
        land.geography,
        (levels.AGE, levels.SEX, levels.RACE, levels.HISPANIC),
        (levels.TENURE, levels.HOUSEHOLD_SIZE),
        levels.KINDS,
        block,
        kind,
        first,
        {
            "age": people.age,
            "sex": people.sex,
            "race": levels.race_of_mask()[people.races],
            "hispanic": people.hispanic,
        },
        {"tenure": tenure, "household_size": household_size.astype(np.int16)},
        (land.places,),
        public=True,
    )
