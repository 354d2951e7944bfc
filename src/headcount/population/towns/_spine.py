"""The land: counties, tracts, block groups and blocks of a generated state, and its places."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Floats, Ints, Ints32
from headcount.geography import Areas, Geography

STATE_CODE = 99
"""A state code nobody has."""

PER_TRACT, PER_GROUP, PER_BLOCK = 4_230, 1_420, 50
"""People in a mean tract, block group and populated block (United States, 2010)."""

COUNTY_SPREAD = 1.6
"""Standard deviation of log county size: the median county is a quarter of the mean one."""

BLOCK_SPREAD = 1.2
"""Standard deviation of log block size: the median populated block is half the mean one."""

NO_HOUSING = 0.41
"""Share of blocks without housing; with those of vacant units alone 44 % have no people."""

MOST_BLOCKS = 999

IN_PLACES = 0.72
"""Share of people in places."""

PLACE_MEDIAN, PLACE_SPREAD = 1_100.0, 1.9
"""Median people of a place, and standard deviation of its logarithm."""

SMALLEST_PLACE = 30.0


@dataclass(frozen=True, eq=False)
class Land:
    """Blocks, how many people each is to hold on average, and the places over them."""

    geography: Geography
    expected: Floats
    places: Areas


def make_land(
    rng: np.random.Generator, *, people: int, counties: int, block_spread: float = BLOCK_SPREAD
) -> Land:
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
    return Land(geography, expected, _places(rng, expected, county, counties))


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
