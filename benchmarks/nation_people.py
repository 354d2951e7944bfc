"""A made-up nation of the shape of 2020: places, people and living quarters, from a seed.

Not a model of anybody: sizes of places, how many cells are in use in them, and how people share a
block are near the real figures (``REAL``), because these decide what a release costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from headcount.arrays import Floats, Ints, Ints32
from headcount.compiled import kernel
from headcount.domain import Domain
from headcount.geography import Geography
from headcount.population.population import Quarters
from headcount.schema import Schema, load_schema
from headcount.tabulate import Counts
from headcount.tabulate.counts import sparse_counts

LEVELS = ("us", "state", "county", "tract", "block_group", "block")
UNITS = {"state": 51, "county": 3_143, "tract": 84_000, "block_group": 240_000, "block": 8_100_000}
PEOPLE, POPULATED, LARGEST_COUNTY = 331_000_000, 5_900_000, 2_500
SEED = 2020
REAL = {"block_group": 40, "county": 250}
"""Cells of 2,016 that are in use in a mean unit, as in the census of 2020."""

_ALONE = (0.616, 0.124, 0.011, 0.060, 0.002, 0.084)
_MORE = {2: 0.095, 3: 0.009, 4: 0.0018, 5: 0.0005, 6: 0.0001}
"""Shares of people of one race (the census of 2020), and of so many. Three and above are more than
there are: otherwise people of a made-up county are too much alike, and too few cells in use."""
_HISPANIC = (0.20, 0.02, 0.25, 0.02, 0.20, 0.92)
"""Of each race alone, the share that is Hispanic: roughly."""
_COUNTY_SPREAD, _BLOCK_SPREAD = 1.3, 1.1
"""Standard deviations of the logarithms of sizes."""
_MIX_COUNTY, _MIX_GROUP = 0.6, 1.1
"""Standard deviations of the logarithm of a kind's share between counties and block groups."""
_UNDER_18, _FACILITIES, _IN_FACILITY, _IN_HOME = 0.22, 0.035, 0.55, 2.5
"""Share of minors; of blocks with a facility, and of their people in it; people to a home."""


def nation_2020(share: float, *, seed: int) -> Counts:
    """Counts of a nation with that share of the places and people of 2020."""
    chance = np.random.default_rng(seed)
    sizes = {level: max(2, round(share * n)) for level, n in UNITS.items()}
    most = sizes["tract"] - sizes["county"] + 1
    largest = min(round(share**0.5 * LARGEST_COUNTY), most)
    return _filled(_places(sizes, largest, chance), share, chance)


def county_2020(tracts: int, *, seed: int) -> Counts:
    """Counts by tract of a nation that is one county, and a second one of one tract.

    Without a second state the answer to some queries could not change with a record.
    """
    chance, share = np.random.default_rng(seed), tracts / UNITS["tract"]
    sizes = {level: max(2, round(share * n)) for level, n in UNITS.items()}
    sizes |= {"state": 2, "county": 2, "tract": tracts + 1}
    blocks = _filled(_places(sizes, tracts, chance), share, chance)
    whole = blocks.geography
    geography = Geography(LEVELS[:4], whole.units[:4], whole.parents[:4])
    assert blocks.quarters is not None
    first = np.searchsorted(whole.ancestors("tract"), np.arange(tracts + 1))
    occupied, vacant = (
        np.add.reduceat(part, first, axis=0)
        for part in (blocks.quarters.occupied, blocks.quarters.vacant)
    )
    quarters = Quarters(geography, "hhgq", occupied, vacant)
    return Counts(
        Domain(blocks.schema, geography), "tract", blocks.at("tract").matrix, quarters=quarters
    )


def _filled(geography: Geography, share: float, chance: np.random.Generator) -> Counts:
    """People and living quarters for the places of a share of the nation."""
    size = _block_sizes(geography, share, chance)
    schema = load_schema("redistricting-2020")
    start, cell, count, occupied = _people(geography, size, schema, chance)
    matrix = sparse_counts(start, cell, count, cells=schema.size)
    homes = np.maximum(occupied[:, 0] // 10, 0)
    quarters = Quarters(geography, "hhgq", occupied, homes)
    return Counts(Domain(schema, geography), geography.leaf, matrix, quarters=quarters)


def _places(sizes: Mapping[str, int], largest: int, chance: np.random.Generator) -> Geography:
    """Units of every level, in proportion; one county has far more tracts than any other.

    That one shrinks with the root of the share: a small nation has one as well. Codes are as long
    as those of the census, and the first digit of a block's is that of its block group.
    """
    counties, tracts = sizes["county"], sizes["tract"]
    others = _lognormal(counties - 1, _COUNTY_SPREAD, chance)
    others = np.minimum(others, 0.4 * largest / tracts * others.sum())
    children = [
        _split(sizes["state"], np.ones(1)),
        _split(counties, _lognormal(sizes["state"], 0.8, chance)),
        np.append(_split(tracts - largest, others), largest),
        _split(sizes["block_group"], _lognormal(tracts, 0.3, chance)),
        _split(sizes["block"], _lognormal(sizes["block_group"], 0.7, chance)),
    ]
    units, parents = [np.array(["us"])], [np.empty(0, dtype=np.int32)]
    codes = np.zeros(1, dtype=np.int64)
    width = 0
    for many, digits in zip(children, (2, 3, 6, 1, 3), strict=True):
        assert many.max() < 10**digits, "more places than codes"
        width += digits
        parent = np.repeat(np.arange(len(many), dtype=np.int32), many)
        first = np.cumsum(many) - many
        codes = codes[parent] * 10**digits + (np.arange(len(parent)) - first[parent]) + 1
        units.append(_text(codes, width))
        parents.append(parent)
    return Geography(LEVELS, tuple(units), tuple(parents))


def _text(codes: Ints, width: int) -> Any:
    """Numbers as codes of so many digits."""
    digit = np.empty((len(codes), width), dtype=np.uint32)
    left = codes.copy()
    for place in range(width - 1, -1, -1):
        digit[:, place] = left % 10 + ord("0")
        left //= 10
    return digit.view(f"<U{width}").reshape(-1)


def _lognormal(many: int, spread: float, chance: np.random.Generator) -> Floats:
    return np.exp(spread * chance.standard_normal(many))


def _split(total: int, weight: Floats) -> Ints:
    """A whole number for each weight, at least 1, that add up."""
    share = (total - len(weight)) * weight / weight.sum()
    whole: Ints = np.floor(share).astype(np.int64)
    most = np.argsort(-(share - whole), kind="stable")[: total - len(weight) - whole.sum()]
    whole[most] += 1
    return whole + 1


def _block_sizes(geography: Geography, share: float, chance: np.random.Generator) -> Ints:
    """People of each block; the same number for every tract on average."""
    blocks = geography.size("block")
    there = chance.random(blocks) < POPULATED / UNITS["block"]
    mean = _lognormal(blocks, _BLOCK_SPREAD, chance) * there
    tract = geography.ancestors("tract")
    of_tract = np.bincount(tract, mean, minlength=geography.size("tract"))
    wanted = _lognormal(len(of_tract), 0.35, chance)
    wanted *= share * PEOPLE / wanted.sum()
    factor = np.where(of_tract > 0, wanted / np.maximum(of_tract, 1e-9), 0)
    size = np.floor(mean * factor[tract] + chance.random(blocks)).astype(np.int64)
    return np.asarray(np.maximum(size, there), dtype=np.int64)


def _people(
    geography: Geography, size: Ints, schema: Schema, chance: np.random.Generator
) -> tuple[Ints, Ints32, Ints32, Ints]:
    """Entries of every block by cell, and its occupied living quarters by type."""
    kinds = _kinds()
    county = np.exp(_MIX_COUNTY * chance.standard_normal((geography.size("county"), len(kinds))))
    group_county = geography.ancestors("county", of="block_group")
    group = geography.ancestors("block_group")
    first = np.searchsorted(group, np.arange(geography.size("block_group") + 1))
    made: list[tuple[Ints, Ints32, Ints32, Ints32]] = []
    for lo in range(0, geography.size("block_group"), 10_000):
        hi = min(lo + 10_000, geography.size("block_group"))
        mix = np.exp(_MIX_GROUP * chance.standard_normal((hi - lo, len(kinds))))
        mix *= kinds * county[group_county[lo:hi]]
        reach = np.cumsum(mix, axis=1)
        reach /= reach[:, -1:]
        blocks = slice(first[lo], first[hi])
        facility = np.where(
            chance.random(blocks.stop - blocks.start) < _FACILITIES,
            chance.integers(1, 8, blocks.stop - blocks.start),
            0,
        )
        made.append(
            fill_blocks(size[blocks], group[blocks] - lo, facility, reach, schema.size, chance)
        )
    entries, cells, counts, quarters = (np.concatenate(part) for part in zip(*made, strict=True))
    start = np.concatenate([[0], np.cumsum(entries)])
    return start, cells, counts, quarters


def _kinds() -> Floats:
    """The nation's share of each kind of person, Hispanic origin by race."""
    share = []
    for n in range(1, 7):
        some = list(combinations(range(6), n))
        each = np.array([np.prod([_ALONE[r] for r in one]) for one in some])
        share += list(np.array(_ALONE) if n == 1 else _MORE[n] * each / each.sum())
    hispanic = np.array([*_HISPANIC, *[0.35] * (len(share) - 6)])
    return np.concatenate([np.array(share) * (1 - hispanic), np.array(share) * hispanic])


# Always compiled: numba draws from the generator by code of its own, which numpy may change.
@kernel(work=None)
def fill_blocks(
    size: Ints,
    group: Ints32,
    facility: Ints,
    reach: Floats,
    cells: int,
    chance: np.random.Generator,
) -> tuple[Ints, Ints32, Ints32, Ints32]:
    """Draw everybody, block by block: entries a block, their cells and counts, quarters.

    People of a home are of the same kind but for one in ten; minors are drawn one by one.
    """
    kinds, quarter = reach.shape[1], cells // 8
    table = np.zeros(cells, np.int64)
    used = np.empty(cells, np.int64)
    entries = np.zeros(size.size, np.int64)
    occupied = np.zeros((size.size, 8), np.int32)
    cell = np.empty(max(int(size.sum()), 1), np.int32)
    count = np.empty(cell.size, np.int32)
    done = 0
    for b in range(size.size):
        n, kind, left, met = int(size[b]), 0, 0, 0
        inside = int(n * _IN_FACILITY) if facility[b] > 0 else 0
        for i in range(n):
            home = i >= inside
            if left == 0 or chance.random() < 0.1:
                kind = int(np.searchsorted(reach[group[b]], chance.random()))
            if left == 0:
                left = 1 + chance.poisson(_IN_HOME - 1)
                occupied[b, 0] += home
            left -= 1
            at_home = 0 if home else int(facility[b])
            adult = 1 if at_home in (1, 3) else int(chance.random() >= _UNDER_18)
            where = at_home * quarter + adult * kinds + min(kind, kinds - 1)
            if table[where] == 0:
                used[met] = where
                met += 1
            table[where] += 1
            if i + 1 == inside:
                left = 0
        occupied[b, facility[b]] += inside > 0
        for where in np.sort(used[:met]):
            cell[done], count[done] = where, table[where]
            table[where] = 0
            done += 1
        entries[b] = met
    return entries, cell[:done].copy(), count[:done].copy(), occupied
