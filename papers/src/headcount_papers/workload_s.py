"""Workload S: a plain made-up state of a million households, on which swappers are timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Floats, Ints, Ints32
from headcount.draws import multinomial
from headcount.errors import InputError
from headcount.fields import AtLeast0, Whole
from headcount.geography import Geography
from headcount.population import Generated, InDwellings
from headcount.population.from_households import SEVEN_RACES
from headcount.population.population import HOUSEHOLD, Households, Population
from headcount.population.town_people import AGE, HISPANIC, OLDEST, SEX
from headcount.processes import Progress, silent
from headcount.schema import Attribute, Follows

LEVELS = ("county", "tract", "block_group", "block")
CHILDREN = (20, 100, 3, 6)
"""Counties in the state, tracts in each, block groups, blocks."""

SIZES = (0.28, 0.33, 0.16, 0.13, 0.06, 0.03, 0.01)
RACES = (0.70, 0.13, 0.06, 0.003, 0.012, 0.065, 0.03)
"""Shares of households of 1 to 7 people, and of the seven race groups."""

CONCENTRATION, HISPANIC_RATE, BLOCK_SHAPE = 6.0, (0.5, 2.5), 1.2
OTHER_RACE, OTHER_ORIGIN, OWNERS = 0.08, 0.06, 0.65

RACE = Attribute("race", (*SEVEN_RACES, "multiple"))
TENURE = Attribute("tenure", ("own", "rent"), Follows.DWELLING)
HOUSEHOLD_SIZE = Attribute("household_size", ("1", "2", "3", "4+"), Follows.SIZE)

MOST_HOUSEHOLDS = 20_000_000

Ints16 = NDArray[np.int16]


def workload_s(*, seed: int = 20261115, households: int = 1_000_000) -> Households:
    """Generate workload S: households dropped on 36,000 blocks, no vacant units or facilities.

    Block weights are gamma(1.2); a block's race mix is Dirichlet(6 x shares) and its Hispanic rate
    beta(0.5, 2.5). A member draws a race from the shares of the state with probability 0.08, and is
    of the other origin with probability 0.06. Householders are 18 to 89, others 0 to 84, uniformly.
    """
    if not 1 <= households <= MOST_HOUSEHOLDS:
        raise InputError(
            "workload S",
            place="households",
            found=f"{households:,}",
            expected=f"from 1 to {MOST_HOUSEHOLDS:,}",
        )
    rng = np.random.default_rng(seed)
    geography = _geography()
    blocks = geography.size("block")
    weight = rng.gamma(BLOCK_SHAPE, size=blocks)
    standing = multinomial(rng, households, weight / weight.sum())
    block = np.repeat(np.arange(blocks, dtype=np.int32), standing)
    size = 1 + rng.choice(len(SIZES), size=households, p=SIZES)
    first = np.concatenate([[0], np.cumsum(size)])
    tenure = (rng.random(households) >= OWNERS).astype(np.int16)
    return Households(
        "workload S",
        geography,
        (AGE, SEX, RACE, HISPANIC),
        (TENURE, HOUSEHOLD_SIZE),
        ("household", "vacant"),
        block,
        np.full(households, HOUSEHOLD, dtype=np.int8),
        first,
        _people(rng, block, size, first[:-1]),
        {"tenure": tenure, "household_size": (np.minimum(size, 4) - 1).astype(np.int16)},
        public=True,
    )


def _geography() -> Geography:
    """Codes nest by prefixes of 2, 5, 6 and 7 digits."""
    units = [np.array(["state"])]
    parents: list[Ints32] = [np.empty(0, dtype=np.int32)]
    codes = np.array([""])
    for children, digits in zip(CHILDREN, (2, 3, 1, 1), strict=True):
        parents.append(np.repeat(np.arange(len(codes), dtype=np.int32), children))
        ends = [f"{child:0{digits}d}" for child in range(1, children + 1)]
        codes = np.array([code + end for code in codes.tolist() for end in ends])
        units.append(codes)
    return Geography(("state", *LEVELS), tuple(units), tuple(parents))


def _people(rng: np.random.Generator, block: Ints32, size: Ints, head: Ints) -> dict[str, Ints16]:
    blocks = int(np.prod(CHILDREN))
    upto = np.cumsum(rng.dirichlet(CONCENTRATION * np.array(RACES), size=blocks), axis=1)
    rate = rng.beta(*HISPANIC_RATE, size=blocks)
    people = int(size.sum())
    race = np.repeat(_pick(rng, upto, block), size)
    hispanic = np.repeat((rng.random(len(block)) < rate[block]).astype(np.int16), size)
    member = np.ones(people, dtype=bool)
    member[head] = False
    own = np.flatnonzero(member & (rng.random(people) < OTHER_RACE))
    race[own] = rng.choice(len(RACES), size=len(own), p=RACES)
    hispanic ^= member & (rng.random(people) < OTHER_ORIGIN)
    age = rng.integers(0, 85, size=people, dtype=np.int16)
    age[head] = rng.integers(18, OLDEST, size=len(head), dtype=np.int16)
    sex = rng.integers(0, 2, size=people, dtype=np.int16)
    return {"age": age, "sex": sex, "race": race, "hispanic": hispanic}


def _pick(rng: np.random.Generator, upto: Floats, unit: Ints32) -> Ints16:
    """A race for each row, from the mix of its block."""
    point = rng.random(len(unit))
    race = np.zeros(len(unit), dtype=np.int16)
    for k in range(upto.shape[1] - 1):
        race += point >= upto[unit, k]
    return race


@dataclass(frozen=True, kw_only=True)
class WorkloadS(InDwellings, Generated):
    """Households dropped on 36,000 blocks.

    where
        seed         one seed, one state
        households   how many
    """

    kind = "workload-s"
    seed: AtLeast0 = 20261115
    households: Annotated[int, Whole(low=1, high=MOST_HOUSEHOLDS)] = 1_000_000

    def read(self, progress: Progress = silent) -> Population:
        """Generate the people in their dwellings."""
        return self.chosen(workload_s(seed=self.seed, households=self.households))
