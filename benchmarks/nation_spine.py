"""The made-up nation along an optimised spine: areas and places made up too, and paths.

As in 2020, a few tracts are crossed by the border of an Indian area, and most by that of a place
or a county subdivision; blocks with a facility make block groups of their own, and so only
children.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.geography.spine import NO_AREA, UnitShares, optimised_spine
from headcount.tabulate import Counts

if TYPE_CHECKING:
    import polars as pl

CROSSED = 0.03
"""Share of tracts with the border of an Indian area."""
TRACTS_A_PLACE, TRACTS_A_SUBDIVISION = 5, 3
NO_PLACE = "99999"


def along_made_up_spine(counts: Counts, *, seed: int) -> Counts:
    """The same counts and places, which now have a spine with them."""
    assert counts.quarters is not None
    spine = optimised_spine(_blocks(counts, np.random.default_rng([seed, 6])), name="nation")
    geography = replace(counts.geography, spine=spine)
    domain = replace(counts.domain, geography=geography)
    return replace(counts, domain=domain, quarters=replace(counts.quarters, geography=geography))


def _blocks(counts: Counts, chance: np.random.Generator) -> pl.DataFrame:
    """Blocks with the codes of all places that they are in."""
    import polars as pl

    geography = counts.geography
    tract, tracts = geography.ancestors("tract"), geography.size("tract")
    first = np.searchsorted(tract, np.arange(tracts + 1))
    # how far a block is along its tract, 0 to 1: borders cut tracts in two
    along = (np.arange(len(tract)) - first[tract]) / np.diff(first)[tract]
    crossed = np.where(chance.random(tracts) < CROSSED, chance.random(tracts), 0.0)
    inside = along < crossed[tract]
    in_place = along < (1.6 * chance.random(tracts))[tract]
    area = 1 + geography.ancestors("county", of="tract") % 4_000
    numbers = np.arange(tracts)

    def coded(number: NDArray[np.integer[Any]], width: int) -> pl.Series:
        return pl.Series(number).cast(pl.String).str.zfill(width).gather(tract)

    codes = {
        level: pl.Series(geography.units[geography.depth(level)].tolist()).gather(
            geography.ancestors(level)
        )
        for level in ("state", "county", "tract", "block")
    }
    assert counts.quarters is not None
    stands = counts.quarters.occupied[:, 1:] > 0
    patterns = pl.Series(["".join("01"[k >> bit & 1] for bit in range(7)) for k in range(128)])
    return pl.DataFrame(
        {
            **codes,
            "area": coded(area, 4),
            "place": coded(numbers // TRACTS_A_PLACE, 5),
            "subdivision": coded(numbers // TRACTS_A_SUBDIVISION, 5),
            "quarters": patterns.gather(stands @ (1 << np.arange(7))),
            "inside": inside,
            "in_place": in_place,
        }
    ).with_columns(
        pl.when("inside").then("area").otherwise(pl.lit(NO_AREA)).alias("area"),
        pl.when("in_place").then("place").otherwise(pl.lit(NO_PLACE)).alias("place"),
    )


def bypassed_units(shares: UnitShares) -> int:
    """How many units have no share, because it was moved up."""
    return sum(int((shares.classes(level)[1] == 0).sum()) for level in shares.geography.levels)


def paths_beside_1(shares: UnitShares) -> int:
    """On how many paths from the whole to a leaf shares do not add up to 1; every leaf is asked."""
    place = shares.geography
    whole = int(np.lcm.reduce([one.denominator for one in shares.shares]))
    sums = np.zeros(place.size(place.leaf), dtype=np.int64)
    for level in place.levels:
        classes, own = shares.classes(level)
        parts = np.array([_integer(share * whole) for share in classes])
        sums += parts[own[place.ancestors(level)]]
    return int((sums != whole).sum())


def _integer(value: Fraction) -> int:
    assert value.denominator == 1
    return value.numerator
