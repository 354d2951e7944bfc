"""``kind = "towns"``: a seeded synthetic state of people in dwellings, like the US of 2010.

Where dwellings stand: counties, tracts, block groups and blocks, places that cut across them, and
group quarters. Who lives in them is in ``town_people``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Floats, Ints, Ints32
from headcount.draws import multinomial
from headcount.errors import ConfigError, InputError
from headcount.fields import AtLeast0, AtLeast1, Whole
from headcount.geography import Areas, Geography
from headcount.population._base import Generated, InDwellings
from headcount.population.population import HOUSEHOLD, VACANT, Households, Population
from headcount.population.town_people import (
    AGE,
    HISPANIC,
    HOUSEHOLD_SIZE,
    KINDS,
    NO_SIZE,
    NO_TENURE,
    OLDEST,
    RACE,
    SEX,
    TENURE,
    TownPeople,
    age_chances,
    draw_community,
    fill_households,
    household_sizes,
    mixes,
    nobody,
    race_mask,
    race_of_mask,
)
from headcount.processes import Progress, silent

BLOCK_SPREAD = 1.2
"""Standard deviation of log block size: the median populated block is half the mean one."""
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
        if (self.counties or 1) > (most := _most_counties(self.people)):
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
    most = _most_counties(people)
    if not 1 <= counties <= most:
        raise InputError(
            "towns", place="counties", found=f"{counties}", expected=f"1 to {most} for the people"
        )
    streams = np.random.SeedSequence(seed).spawn(5)
    ground, plan, segregation, inside, quarters = map(np.random.default_rng, streams)
    land = _make_land(ground, people=people, counties=counties, block_spread=block_spread)
    dwellings = _plan(plan, land, people=people)
    mix = mixes(segregation, land.geography)
    wealth = _wealth(segregation, land, mix["block"])
    return _fill(inside, quarters, land, dwellings, mix, wealth)


def _most_counties(people: int) -> int:
    """How many counties a state of so many people can have."""
    return min(MOST_COUNTIES, people // 100)


@dataclass(frozen=True, eq=False)
class _Dwellings:
    block: Ints32
    kind: NDArray[np.int8]
    size: Ints


def _plan(rng: np.random.Generator, land: _Land, *, people: int) -> _Dwellings:
    """Where dwellings stand, of which kind and how large, in the order of their blocks."""
    households = round(people * (1 - IN_QUARTERS) / MEAN_SIZE)
    vacant = round(households * VACANCY / (1 - VACANCY))
    size = household_sizes(rng, households)
    weight = land.expected / land.expected.sum()
    standing = _spread(rng, weight, households)
    # Vacancy gathers: holiday homes and run-down streets, a few of them with nobody at all.
    uneven = (weight + 0.02 * weight.mean()) * rng.gamma(0.6, size=len(weight))
    empty = _spread(rng, uneven / uneven.sum(), vacant)
    place, kind, inside = _plan_facilities(rng, land, people=people)
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


def _wealth(rng: np.random.Generator, land: _Land, mix: Floats) -> Floats:
    """How well off each block is: by tract, by block, and less so in minority communities."""
    tract = land.geography.ancestors("tract")
    drawn = 0.6 * rng.standard_normal(land.geography.size("tract"))[tract]
    return np.asarray(drawn + 0.4 * rng.standard_normal(len(mix)) + 1.2 * (mix[:, 0] - 0.65))


def _fill(
    inside: np.random.Generator,
    quarters: np.random.Generator,
    land: _Land,
    dwellings: _Dwellings,
    mix: dict[str, Floats],
    wealth: Floats,
) -> Households:
    block, kind, size = dwellings.block, dwellings.kind, dwellings.size
    first = np.concatenate([[0], np.cumsum(size)])
    people = nobody(int(first[-1]))
    homes = np.flatnonzero(kind == HOUSEHOLD)
    tenure = np.full(len(block), NO_TENURE, dtype=np.int16)
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
    _fill_facilities(
        quarters,
        people,
        person=person,
        kind=kind[dwelling[person]],
        tract=land.geography.ancestors("tract")[block[dwelling[person]]],
        mix=mix,
    )
    household_size = np.where(kind == HOUSEHOLD, np.minimum(size, 4) - 1, NO_SIZE)
    return Households(
        "towns",
        land.geography,
        (AGE, SEX, RACE, HISPANIC),
        (TENURE, HOUSEHOLD_SIZE),
        KINDS,
        block,
        kind,
        first,
        {
            "age": people.age,
            "sex": people.sex,
            "race": race_of_mask()[people.races],
            "hispanic": people.hispanic,
        },
        {"tenure": tenure, "household_size": household_size.astype(np.int16)},
        (land.places,),
        public=True,
    )


STATE_CODE = 99
"""A state code nobody has."""

PER_TRACT, PER_GROUP, PER_BLOCK = 4_230, 1_420, 50
"""People in a mean tract, block group and populated block (United States, 2010)."""

COUNTY_SPREAD = 1.6
"""Standard deviation of log county size: the median county is a quarter of the mean one."""

NO_HOUSING = 0.41
"""Share of blocks without housing; with those of vacant units alone 44 % have no people."""

MOST_BLOCKS = 999

IN_PLACES = 0.72
"""Share of people in places."""

PLACE_MEDIAN, PLACE_SPREAD = 1_100.0, 1.9
"""Median people of a place, and standard deviation of its logarithm."""

SMALLEST_PLACE = 30.0


@dataclass(frozen=True, eq=False)
class _Land:
    """Blocks, how many people each is to hold on average, and the places over them."""

    geography: Geography
    expected: Floats
    places: Areas


def _make_land(
    rng: np.random.Generator, *, people: int, counties: int, block_spread: float = BLOCK_SPREAD
) -> _Land:
    """Lay out a state for about so many people."""
    in_county = people * _county_shares(rng, counties)
    tract_of, in_tract = _divide(rng, in_county, mean=PER_TRACT, spread=0.4, most=9_999)
    group_of, in_group = _divide(rng, in_tract, mean=PER_GROUP, spread=0.35, most=9)
    block_of, expected = _blocks(rng, in_group, block_spread)
    parents = (np.zeros(counties, dtype=np.int32), tract_of, group_of, block_of)
    geography = Geography(
        ("state", "county", "tract", "block_group", "block"),
        (np.array(["state"]), *_codes(*parents)),
        (np.empty(0, dtype=np.int32), *parents),
    )
    county = geography.ancestors("county")
    return _Land(geography, expected, _places(rng, expected, county, counties))


def _county_shares(rng: np.random.Generator, counties: int) -> Floats:
    # Spread evenly over the quantiles, so that small and large counties exist for every seed.
    ranks = (np.arange(counties) + rng.uniform(0.3, 0.7, size=counties)) / counties
    normal = NormalDist(sigma=COUNTY_SPREAD)
    sizes = np.exp([normal.inv_cdf(rank) for rank in ranks])
    rng.shuffle(sizes)
    return np.asarray(sizes / sizes.sum())


def _divide(
    rng: np.random.Generator, above: Floats, *, mean: float, spread: float, most: int
) -> tuple[Ints32, Floats]:
    """Divide units into children of about ``mean`` people: their parents, and their people."""
    children = np.clip(np.rint(above / mean), 1, most).astype(np.int64)
    parent = np.repeat(np.arange(len(above), dtype=np.int32), children)
    return parent, _share(above, parent, rng.lognormal(sigma=spread, size=len(parent)))


def _share(above: Floats, parent: Ints32, weight: Floats) -> Floats:
    total = np.bincount(parent, weights=weight, minlength=len(above))
    return np.asarray(above[parent] * weight / total[parent])


def _blocks(rng: np.random.Generator, in_group: Floats, spread: float) -> tuple[Ints32, Floats]:
    wanted = np.rint(in_group / PER_BLOCK / (1 - NO_HOUSING))
    parent = np.repeat(
        np.arange(len(in_group), dtype=np.int32),
        np.clip(wanted, 1, MOST_BLOCKS).astype(np.int64),
    )
    weight = rng.lognormal(sigma=spread, size=len(parent))
    housing = rng.random(len(parent)) >= NO_HOUSING
    # No block group without housing: one of its blocks, drawn at random, keeps it.
    order = np.lexsort((rng.random(len(parent)), parent))
    housing[order[np.r_[True, np.diff(parent[order]) > 0]]] = True
    return parent, _share(in_group, parent, weight * housing)


def _codes(*parents: Ints32) -> list[NDArray[np.str_]]:
    """Census codes: 99 + county (3) + tract (6) + block (4, of which block group 1)."""
    county, tract, group, block = parents
    counties = STATE_CODE * 1_000 + 1 + _rank(county)
    tracts = counties[tract] * 1_000_000 + 100 * (1 + _rank(tract))
    groups = tracts[group] * 10 + 1 + _rank(group)
    blocks = groups[block] * 1_000 + _rank(block)
    return [codes.astype(np.str_) for codes in (counties, tracts, groups, blocks)]


def _rank(parent: Ints32) -> Ints:
    """Position of each unit among the children of its parent."""
    return np.arange(len(parent)) - np.searchsorted(parent, parent)


def _places(rng: np.random.Generator, expected: Floats, county: Ints32, counties: int) -> Areas:
    """Places as stretches of a county's blocks, cut with no regard to tracts, gaps between.

    A county has a main town with a fifth to three fifths of its people; the other places are
    lognormal, from hamlets of a few dozen people. One block in thirty within a place belongs to
    none.
    """
    of_leaf = np.full(len(expected), -1, dtype=np.int64)
    before = 0
    starts = np.searchsorted(county, np.arange(counties + 1))
    for start, stop in pairwise(starts.tolist()):
        upto = np.cumsum(expected[start:stop])
        cuts = _stretches(rng, upto[-1])
        # Stretches alternate: gap, place, gap, place, ..., gap.
        stretch = np.searchsorted(cuts, upto - expected[start:stop] / 2, side="right")
        inside = stretch % 2 == 1
        of_leaf[start:stop][inside] = before + stretch[inside] // 2
        before += len(cuts) // 2
    of_leaf[rng.random(len(expected)) < 1 / 30] = -1
    held = np.bincount(of_leaf + 1, weights=expected, minlength=before + 1)
    of_leaf[held[of_leaf + 1] < SMALLEST_PLACE / 2] = -1  # no block, or hardly anyone in it
    found, position = np.unique(of_leaf, return_inverse=True)
    outside = int(found[0] == -1)
    codes = STATE_CODE * 100_000 + 100 * np.arange(1, len(found) - outside + 1)
    return Areas("place", codes.astype(np.str_), (position - outside).astype(np.int32))


def _stretches(rng: np.random.Generator, people: float) -> Floats:
    """Where places begin and end along a county, in people."""
    left = IN_PLACES * people
    sizes = [people * rng.uniform(0.2, 0.6)]
    left -= sizes[0]
    while left > SMALLEST_PLACE:
        size = min(left, PLACE_MEDIAN * rng.lognormal(sigma=PLACE_SPREAD))
        if size >= SMALLEST_PLACE:
            sizes.append(size)
            left -= size
    rng.shuffle(sizes)
    gaps = rng.dirichlet(np.ones(len(sizes) + 1)) * (people - sum(sizes))
    lengths = np.empty(2 * len(sizes) + 1)
    lengths[0::2], lengths[1::2] = gaps, sizes
    return np.cumsum(lengths)[:-1]


IN_QUARTERS = 0.0259
"""Share of people in group quarters (United States, 2010)."""


@dataclass(frozen=True)
class _Facility:
    """A type of group quarters: its share of people in them, its size, and who lives there."""

    share: float
    size: float
    spread: float
    campus: int  # facilities that stand in one block, on average
    remote: float  # share in blocks without housing
    local: bool  # people come from the tract, not from the whole state
    female: float
    knots: tuple[int, ...]
    heights: tuple[float, ...]


FACILITIES = {
    "correctional": _Facility(
        0.283, 300, 1.0, 1, 0.7, False, 0.09, (17, 20, 30, 45, 65, 80), (0, 2, 3, 2, 0.3, 0)
    ),
    "juvenile": _Facility(0.019, 20, 0.6, 1, 0.2, False, 0.15, (9, 14, 17, 21), (0, 2, 4, 0)),
    "nursing": _Facility(
        0.188, 85, 0.5, 1, 0.0, True, 0.68, (30, 60, 70, 80, 87, 90), (0, 0.5, 1, 3, 5, 9)
    ),
    "other_institutional": _Facility(
        0.010, 25, 0.8, 1, 0.1, True, 0.42, (0, 20, 50, 80, 90), (1, 2, 3, 1, 0.5)
    ),
    "college": _Facility(0.316, 180, 0.8, 6, 0.5, False, 0.53, (17, 18, 21, 27), (0, 4, 3, 0)),
    "military": _Facility(
        0.042, 120, 0.8, 8, 0.8, False, 0.14, (17, 19, 23, 35, 50), (0, 3, 3, 0.6, 0)
    ),
    "other_noninstitutional": _Facility(
        0.142, 12, 0.8, 1, 0.05, True, 0.40, (0, 17, 25, 50, 65, 90), (0.3, 0.3, 1.5, 2, 1, 0.2)
    ),
}

TILT = {"correctional": np.array([1, 5, 2, 0.2, 1, 1, 2, 4, 2, 1, 1, 2.2])}
"""How much likelier each community is to be there than its share of the state."""


def _plan_facilities(
    rng: np.random.Generator, land: _Land, *, people: int
) -> tuple[Ints32, NDArray[np.int8], Ints]:
    """Block, kind and number of people of each facility."""
    block, kind, size = [], [], []
    for name, facility in FACILITIES.items():
        inside = max(1, round(people * IN_QUARTERS * facility.share))
        number = max(1, round(inside / facility.size))
        weight = rng.lognormal(sigma=facility.spread, size=number)
        size.append(1 + multinomial(rng, max(inside - number, 0), weight / weight.sum()))
        hosts = _hosts(rng, land.expected, -(-number // facility.campus), facility.remote)
        block.append(hosts[rng.integers(len(hosts), size=number)])
        kind.append(np.full(number, KINDS.index(name), dtype=np.int8))
    return np.concatenate(block), np.concatenate(kind), np.concatenate(size)


def _hosts(rng: np.random.Generator, expected: Floats, number: int, remote: float) -> Ints32:
    weight = expected / expected.sum()
    empty = expected == 0
    if empty.any():
        weight = (1 - remote) * weight + remote * empty / empty.sum()
    return rng.choice(len(expected), size=number, p=weight).astype(np.int32)


def _fill_facilities(
    rng: np.random.Generator,
    people: TownPeople,
    *,
    person: Ints,
    kind: NDArray[np.int8],
    tract: Ints32,
    mix: dict[str, Floats],
) -> None:
    """Fill in the people of facilities, given their positions, kinds and tracts."""
    for name, facility in FACILITIES.items():
        chosen = kind == KINDS.index(name)
        inside = person[chosen]
        chances = age_chances(facility.knots, facility.heights)
        people.age[inside] = rng.choice(OLDEST + 1, size=len(inside), p=chances)
        people.sex[inside] = rng.random(len(inside)) < facility.female
        if facility.local:
            community = draw_community(rng, mix["tract"], tract[chosen])
        else:
            tilted = mix["state"] * TILT.get(name, 1.0)
            community = draw_community(rng, tilted, np.zeros(len(inside), dtype=np.int32))
        people.races[inside] = race_mask(rng, community)
        people.hispanic[inside] = community // 6
