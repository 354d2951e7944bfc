"""Figure 13: the block group of Cibola with fifteen attributes, swapped and attacked.

Swapping *on* fifteen attributes is not defined in the paper. Here partners of k-similar swapping
are within k levels in every attribute that is exchanged: years of age, ranks of race by Hispanic
origin, and levels of household size and of the nine further attributes; sex is free from k = 1.
Where nobody qualifies, k grows by one until somebody does. The same person may be the partner of
two rows: of a million, few are. A row is unique if nobody else has all its fifteen values.

Which fields the attacker knows is not stated either, so that both ends are tried: race and
household size beside the age bucket, as for six attributes, and all that is not secret but sex.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.attacks.linkage import EXACT
from headcount.mechanisms.swapping.persons import KEEP, Pool, swap_area
from headcount.mechanisms.swapping.rates import AreaSwaps
from headcount.studies.christ_2022.accuracy import score_swaps
from headcount.studies.christ_2022.people import Area, Synthetic
from headcount.studies.christ_2022.places import FIGURE_13
from headcount.studies.christ_2022.privacy import attack_swaps
from headcount.studies.christ_2022.settings import SIMILAR, SWAPPERS, Settings
from headcount.studies.christ_2022.swapped import unique_rows

COUNTY = "Cibola"
ATTRIBUTES = 15
KNOWN = (*EXACT, "tenure", *FIGURE_13)


def run_detailed(source: Synthetic, swapper: str, settings: Settings) -> dict[str, pl.DataFrame]:
    """Accuracy and privacy of one swapper on fifteen attributes."""
    area = source.area(COUNTY, detailed=True)
    swaps = swap_detailed(area, swapper, settings)
    about = {"mechanism": swapper, "attributes": ATTRIBUTES}
    return {
        "accuracy": score_swaps(area, swaps, settings, four=False, **about),  # type: ignore[arg-type]
        "privacy": attack_swaps(area, swaps, settings, keys=(EXACT, KNOWN), **about),  # type: ignore[arg-type]
    }


def swap_detailed(area: Area, swapper: str, settings: Settings) -> AreaSwaps:
    """Everybody swapped in each replicate, unique rows first."""
    rng = stream(settings.seed, area.name, swapper, "detailed")
    every = tuple(area.rows)
    if swapper not in SIMILAR:
        pool = Pool.of(area.pool, SWAPPERS[swapper], area=area.rows)
        swaps = [
            swap_area(area.rows, pool, rate=1, rng=rng, unique_by=every)
            for _ in range(settings.replicates)
        ]
        return AreaSwaps.of(area.rows, area.pool, swaps, keep=KEEP)
    shape = (settings.replicates, area.size)
    partner = np.empty(shape, dtype=np.int64)
    neighbours = NeighbouringTables(area)
    for row in range(area.size):
        near = neighbours.within(row, SWAPPERS[swapper].k)
        partner[:, row] = near[rng.integers(len(near), size=settings.replicates)]
    later = ~unique_rows(area.rows, every)
    turn = np.argsort(np.argsort(later + rng.random(shape), axis=1), axis=1)
    other = {name: column[partner] for name, column in area.pool.items() if name not in KEEP}
    return AreaSwaps(rows=area.rows, partner=other, turn=turn)


def stream(seed: int, *about: str) -> np.random.Generator:
    """Random numbers of one part of the study, whatever other parts are run."""
    digest = sha256("\0".join(about).encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:8], "little")])


class NeighbouringTables:
    """Who in the pool is within k levels of a row in everything that is exchanged."""

    def __init__(self, area: Area) -> None:
        assert area.order is not None
        rank = np.empty(len(area.order), dtype=np.int64)
        rank[list(area.order)] = np.arange(len(area.order))
        self._area = _compared(area.rows, rank)
        pool = _compared(area.pool, rank)
        self._order = np.argsort(pool["age"], kind="stable")
        self._pool = {name: column[self._order] for name, column in pool.items()}

    def within(self, row: int, k: int) -> Ints:
        """Rows of the pool at the least distance, k or the next that has somebody."""
        own = {name: int(column[row]) for name, column in self._area.items()}
        while True:
            ages = np.searchsorted(self._pool["age"], [own["age"] - k, own["age"] + k + 1])
            near = np.arange(*ages)
            for name, column in self._pool.items():
                if name == "sex" and k > 0:
                    continue
                near = near[np.abs(column[near] - own[name]) <= k]
            if len(near):
                return self._order[near]
            k += 1


def _compared(rows: Mapping[str, NDArray[np.integer]], rank: Ints) -> dict[str, Ints]:
    """What is compared, the most telling first."""
    made = {
        "age": rows["age"],
        "rank": rank[rows["race"].astype(np.int64) * 2 + rows["hispanic"]],
        "year_built": rows["year_built"],
    }
    others = set(rows) - set(KEEP) - {"race", "hispanic"} - set(made)
    made |= {name: rows[name] for name in sorted(others)}
    return {name: column.astype(np.int64) for name, column in made.items()}
