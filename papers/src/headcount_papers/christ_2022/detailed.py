"""Figure 13: a block group of Cibola with fifteen attributes, swapped and attacked.

The paper swaps "on age, sex and race" and does not say what becomes of the attributes of the
dwelling, nor what the attacker knows. Three readings are run side by side:

    dwelling stays          partners are alike in age, sex and race; what is the dwelling's (tenure
                            and all further attributes but military service) stays in its place
    household stays         the same, and household size stays too
    alike in everything     partners are within k levels in every attribute, and everything but
                            tenure goes with the person

and two attackers: one who knows age, race and household size, as with six attributes, and one who
knows everything but sex and the secret, Hispanic origin. A row is unique if nobody else has all its
fifteen values. The rows span more cells than a schema can number, so that they go to the shipped
swapping as rows.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import polars as pl

from headcount.attacks.linkage import EXACT
from headcount.comparison.cases import seeded_noise
from headcount_papers.christ_2022.accuracy import score_swaps
from headcount_papers.christ_2022.cases import swapping
from headcount_papers.christ_2022.people import OUTSIDE, Area, Synthetic, geography
from headcount_papers.christ_2022.places import DWELLING, FIGURE_13
from headcount_papers.christ_2022.privacy import attack_swaps
from headcount_papers.christ_2022.rates import AreaSwaps, swap_rows
from headcount_papers.christ_2022.settings import Grid
from headcount_papers.person_swapping.persons import KEEP

COUNTY = "Cibola"
ATTRIBUTES = 15
KNOWN = (*EXACT, "tenure", *FIGURE_13)

READINGS: dict[str, dict[str, Any]] = {
    "dwelling stays": {"keep": DWELLING},
    "household stays": {"keep": (*DWELLING, "household_size")},
    "alike in everything": {"keep": KEEP, "alike": ("household_size", *FIGURE_13)},
}


def run_detailed(
    source: Synthetic, reading: str, swapper: str, grid: Grid, *, seed: int, draw: int, runs: int
) -> dict[str, pl.DataFrame]:
    """Accuracy and privacy of one similar swapper on a block group with fifteen attributes."""
    area = source.area(COUNTY, draw, detailed=True)
    swaps = swap_detailed(area, reading, swapper, runs=runs, seed=seed)
    about: dict[str, Any] = {"mechanism": swapper, "attributes": ATTRIBUTES, "reading": reading}
    return {
        "accuracy": score_swaps(area, swaps, grid, **about),
        "privacy": attack_swaps(area, swaps, grid, keys=(EXACT, KNOWN), rules=("slot",), **about),
    }


def swap_detailed(area: Area, reading: str, swapper: str, *, runs: int, seed: int) -> AreaSwaps:
    """Everybody swapped in each run, unique rows first."""
    mechanism = swapping(area, swapper, unique_by=tuple(area.rows), **READINGS[reading])
    digest = sha256()
    for side in (area.rows, area.pool):
        for name in sorted(side):
            digest.update(side[name].tobytes())
    noise = seeded_noise(mechanism, seed=seed, digest=digest.digest())
    where = geography([area.unit, OUTSIDE])
    return swap_rows(mechanism, area.rows, area.pool, noise, geography=where, runs=range(runs))
