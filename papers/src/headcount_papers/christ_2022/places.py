"""Block groups of nine counties and their states, drawn to the published counts of 2010.

The paper's own block groups were never published. Here a block group is made as the paper made
its own: blocks of a county, put together. A block's mix of races scatters about the county's, more
so where the county is more diverse; a household is of one race. What is published of Washington's
block group (its people, its minority) is met by drawing again until it holds.

The paper has "600-1,500" people in a block group and "standardized" sizes, and prints one: 1,090.
By default all have that size, so that no difference between them is one of size.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints
from headcount.draws import multinomial
from headcount.errors import InputError
from headcount.population.town_people import RACE_SETS, SINGLE_RACES

PersonRows = Mapping[str, NDArray[np.int16]]
"""Level numbers by attribute, one row per person."""

POOL = 1_000_000
"""People in the sample of a state from which partners are drawn (christ 2022, 4.2)."""

BLOCK = 60
"""People of a block, on average: 1,052,567 in 17,644 populated ones (Rhode Island, 2010 Census)."""

PEOPLE = 1_090
"""People of a block group: the one size that the paper prints, of Washington's."""
SMALLEST, LARGEST = 600, 1_500
"""The range that it names."""

MIXES = "by diversity"
"""How far blocks scatter about their county, one of ``mixes`` in counties.toml."""

MINORITY = 0.1
"""A group below this share of the block group is a minority (christ 2022, 4.4)."""

TRIES = 20_000

FIGURE_13 = {
    "heat": (0.48, 0.38, 0.05, 0.05, 0.02, 0.008, 0.006, 0.004, 0.002),
    "housing_type": (0.62, 0.06, 0.037, 0.045, 0.047, 0.045, 0.09, 0.055, 0.001),
    "military": (0.92, 0.08),
    "moved_in": (0.09, 0.19, 0.28, 0.19, 0.15, 0.10),
    "property_value": (0.35, 0.09, 0.12, 0.16, 0.14, 0.10, 0.04),
    "rent": (0.65, 0.03, 0.05, 0.07, 0.08, 0.06, 0.04, 0.02),
    "rooms": (0.02, 0.03, 0.09, 0.16, 0.21, 0.19, 0.13, 0.09, 0.08),
    "year_built": (
        *(0.02, 0.03, 0.04, 0.08, 0.07, 0.07, 0.07, 0.08),
        *(0.12, 0.11, 0.10, 0.07, 0.05, 0.04, 0.05),
    ),
    "owner_costs": (0.35, 0.07, 0.12, 0.15, 0.14, 0.10, 0.07),
}
"""The further attributes of appendix A.3, with as many levels; their shares are plausible ones."""
DWELLING = (*(name for name in FIGURE_13 if name != "military"), "tenure")
"""Attributes of the dwelling, the same for all who live in it."""


@dataclass(frozen=True)
class Place:
    """A county or a state: who lives there, by group, and what is known of its block group."""

    name: str
    people: tuple[int, ...]
    adult: float
    state: str = ""
    diversity: str = ""
    block_group: int | None = None
    minority: int | None = None

    @property
    def shares(self) -> Floats:
        """Shares of the eight groups: Hispanic, then not Hispanic by race."""
        people = np.asarray(self.people, dtype=np.float64)
        return np.asarray(people / people.sum())


@cache
def _published() -> Any:
    return tomllib.loads(files(__package__).joinpath("counties.toml").read_text("utf-8"))


@cache
def counties() -> tuple[Place, ...]:
    """The nine counties of the paper, most diverse first."""
    adult = _published()["nation"]["adult"]
    return tuple(
        Place(**{"adult": adult, **row, "people": tuple(row["people"])})
        for row in _published()["county"]
    )


@cache
def states() -> Mapping[str, Place]:
    """Their states by name."""
    return {
        row["name"]: Place(row["name"], tuple(row["people"]), row["adult"])
        for row in _published()["state"]
    }


def known_mixes() -> Mapping[str, Mapping[str, float]]:
    """Assumptions about blocks by name: the concentration for each class of diversity."""
    found: Mapping[str, Mapping[str, float]] = _published()["mixes"]
    return found


def county(name: str) -> Place:
    """The county of that name."""
    for place in counties():
        if place.name == name:
            return place
    known = [place.name for place in counties()]
    raise InputError("christ-2022", found=f"county {name!r}", expected=f"one of {known}")


@cache
def race_by_group() -> Floats:
    """Shares of the 2 x 63 (Hispanic, race) categories within each of the eight groups."""
    nation = _published()["nation"]
    two = np.zeros(len(RACE_SETS))
    for words, share in nation["two"].items():
        two[RACE_SETS.index(tuple(SINGLE_RACES.index(word) for word in words.split()))] = share
    unnamed = (two == 0) & (np.array([len(races) for races in RACE_SETS]) > 1)
    two[unnamed] = (1 - two.sum()) / unnamed.sum()
    shares = np.zeros((8, 2, len(RACE_SETS)))
    *alone, several = nation["hispanic_race"]
    shares[0, 1] = several * two
    shares[0, 1, :6] = alone
    shares[0, 1] /= shares[0, 1].sum()
    for race in range(6):
        shares[1 + race, 0, race] = 1
    shares[7, 0] = two
    return shares.reshape(8, -1)


def national_people() -> Floats:
    """People of the nation in each of the 126 (Hispanic, race) categories."""
    nation = np.asarray(_published()["nation"]["people"], dtype=np.float64)
    return np.asarray(nation @ race_by_group())


def frequency_order() -> Ints:
    """The 126 (Hispanic, race) categories from the most to the least frequent in the nation."""
    return np.argsort(-national_people(), kind="stable")


def state_pool(name: str, *, seed: int, people: int = POOL, detailed: bool = False) -> PersonRows:
    """A sample of a state: each attribute drawn from the state's distribution."""
    state = states()[name]
    rng = np.random.default_rng([seed, 1, sorted(states()).index(name)])
    category = rng.choice(126, size=people, p=state.shares @ race_by_group())
    return _strangers(category, state.adult, rng, detailed=detailed)


def block_group(
    place: Place,
    *,
    seed: int,
    draw: int = 0,
    people: int | None = PEOPLE,
    mixes: str = MIXES,
    detailed: bool = False,
) -> PersonRows:
    """Blocks of a county, put together to one block group.

    where
        draw     tells the block groups of one county and seed apart
        people   how many live there; None draws a number from 600 to 1,500
        mixes    how far blocks scatter about their county
    """
    number = [other.name for other in counties()].index(place.name)
    rng = np.random.default_rng([seed, 2, number, draw])
    size = place.block_group or people or int(rng.integers(SMALLEST, LARGEST + 1))
    concentration = known_mixes()[mixes][place.diversity]
    for _ in range(TRIES):
        households = _households(size, rng)
        category = _categories(place.shares, concentration, len(households), rng)
        if place.minority is None or minority_rows(category.repeat(households)).sum() == (
            place.minority
        ):
            return _neighbours(category, households, place.adult, rng, detailed=detailed)
    raise InputError(
        "christ-2022",
        place=place.name,
        found=f"no block group with a minority of {place.minority} in {TRIES:,} drawn",
        expected="counts of the county that make it likely",
    )


def minority_rows(category: Ints, *, threshold: float = MINORITY) -> Flags:
    """Whether each row's (Hispanic, race) category is below a share of all rows."""
    people = np.bincount(category, minlength=126)
    return np.asarray((people < threshold * len(category))[category])


def _households(people: int, rng: np.random.Generator) -> Ints:
    """Sizes of households with so many people in all; the last may be cut to fit."""
    shares = np.asarray(_published()["nation"]["households"])
    sizes = 1 + rng.choice(len(shares), size=people, p=shares / shares.sum())
    some = sizes[: int(np.searchsorted(np.cumsum(sizes), people)) + 1]
    some[-1] -= some.sum() - people
    return np.asarray(some, dtype=np.int64)


def _categories(
    shares: Floats, concentration: float, households: int, rng: np.random.Generator
) -> Ints:
    """The (Hispanic, race) category of each household, block by block."""
    blocks = max(1, round(households * _mean_household() / BLOCK))
    sizes = multinomial(rng, households, rng.dirichlet(np.ones(blocks)))
    mixes = rng.dirichlet(concentration * shares, size=len(sizes))
    counts = multinomial(rng, sizes, mixes @ race_by_group())
    return rng.permutation(np.repeat(np.arange(126), counts.sum(axis=0)))


def _mean_household() -> float:
    shares = np.asarray(_published()["nation"]["households"])
    return float(shares @ np.arange(1, len(shares) + 1) / shares.sum())


def _neighbours(
    category: Ints, households: Ints, adult: float, rng: np.random.Generator, *, detailed: bool
) -> PersonRows:
    """The people of households; what is the dwelling's is the same for all who live in it."""
    nation = _published()["nation"]
    rows = _persons(np.repeat(category, households), adult, rng)
    rows["household_size"] = np.repeat(np.minimum(households, 4) - 1, households)
    own = {"tenure": rng.random(len(households)) >= nation["owners"]}
    for name, shares in FIGURE_13.items() if detailed else ():
        size = len(households) if name in DWELLING else int(households.sum())
        own[name] = rng.choice(len(shares), size=size, p=np.array(shares) / sum(shares))
    for name, codes in own.items():
        rows[name] = np.repeat(codes, households) if name in DWELLING else codes
    return {name: np.asarray(codes, dtype=np.int16) for name, codes in rows.items()}


def _strangers(
    category: Ints, adult: float, rng: np.random.Generator, *, detailed: bool
) -> PersonRows:
    """People each drawn alone, every attribute by itself, as the paper samples its states."""
    nation, people = _published()["nation"], len(category)
    rows = _persons(category, adult, rng)
    housed = np.asarray(nation["households"]) * np.arange(1, len(nation["households"]) + 1)
    by_size = np.append(housed[:3], housed[3:].sum()) / housed.sum()
    rows["household_size"] = rng.choice(4, size=people, p=by_size)
    rows["tenure"] = rng.random(people) >= nation["owners"]
    for name, shares in FIGURE_13.items() if detailed else ():
        rows[name] = rng.choice(len(shares), size=people, p=np.array(shares) / sum(shares))
    return {name: np.asarray(codes, dtype=np.int16) for name, codes in rows.items()}


def _persons(category: Ints, adult: float, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    by_age = _age_shares(adult)
    age = rng.choice(len(by_age), size=len(category), p=by_age)
    women = np.asarray(_published()["nation"]["women"])[np.minimum(age // 5, 17)]
    hispanic, race = np.divmod(category, len(RACE_SETS))
    return {"age": age, "sex": rng.random(len(age)) < women, "race": race, "hispanic": hispanic}


def _age_shares(adult: float) -> Floats:
    """Shares of single years of age, 0 to 90 and over, with a given share of adults.

    Within five-year groups the years are alike; 85 and over falls by a constant ratio to 90.
    """
    groups = np.asarray(_published()["nation"]["age"], dtype=np.float64)
    tail = 0.86 ** np.arange(6)
    tail[-1] = 0.86**5 / (1 - 0.86)  # 90 stands for all older years
    shares = np.concatenate([np.repeat(groups[:-1] / 5, 5), groups[-1] * tail / tail.sum()])
    minor = np.arange(len(shares)) < 18
    shares[minor] *= (1 - adult) / shares[minor].sum()
    shares[~minor] *= adult / shares[~minor].sum()
    return shares
