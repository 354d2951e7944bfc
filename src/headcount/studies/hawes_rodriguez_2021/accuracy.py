"""Mean absolute error of counties and places by size, and of race groups in counties."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.geography import Areas
from headcount.studies.hawes_rodriguez_2021.settings import PLACE
from headcount.tabulate import Counts, Query
from headcount.tabulate.counts import adder

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

COUNTY = "county"
SIZES = {
    COUNTY: (0, 1_000, 5_000, 10_000, 50_000, 100_000),
    PLACE: (0, 500, 1_000, 5_000, 10_000, 50_000, 100_000),
}
"""Smallest population of each size category, as in the Bureau's accuracy metrics."""
EVERY = "all"
TOTAL = "total population"
RACE = "race: "
"""Begins the name of the statistic of a race group."""


def category(low: int, high: int | None) -> str:
    """The name of a size category: from ``low`` to below ``high``."""
    if high is None:
        return f"{low:,} or more"
    return f"under {high:,}" if low == 0 else f"{low:,} to {high - 1:,}"


def categories(area: str) -> tuple[str, ...]:
    """Names of the size categories of counties or places, all first."""
    bounds = SIZES[area]
    inner = [category(low, high) for low, high in pairwise(bounds)]
    return (EVERY, *inner, category(bounds[-1], None))


def race_totals(counts: Counts, matrix: Any) -> Ints:
    """Counties x race groups of a table (leaf units x cells)."""
    up = adder(counts.geography, COUNTY, of=counts.level)
    by_race = Query("race", ("race",)).matrix(counts.schema)
    return np.asarray((up @ (matrix @ by_race)).toarray(), dtype=np.int64)


def place_totals(areas: Areas, matrix: Any) -> Ints:
    """People of each place."""
    return areas.add_up(np.asarray(matrix.sum(axis=1), dtype=np.int64).reshape(-1))


def errors(
    counts: Counts, matrix: Any, *, totals: Floats | None = None, races: Floats | None = None
) -> pl.DataFrame:
    """Mean absolute error of one release by area, size category (in truth) and statistic.

    ``totals`` and ``races`` are what is published about counties, where that is not the sums of
    the release: under the rules of 1980 small race groups are published as 0. Those that are not
    a number are withheld: they have no error, and are not among the ``units``.
    """
    truth = race_totals(counts, counts.matrix)
    release = race_totals(counts, matrix)
    people = truth.sum(axis=1)
    shown = release.sum(axis=1) if totals is None else totals
    rows = _by_size(COUNTY, TOTAL, people, np.abs(shown - people))
    published = release if races is None else races
    for number, level in enumerate(counts.schema.attribute("race").levels):
        off = np.abs(published[:, number] - truth[:, number])
        rows += _by_size(COUNTY, RACE + level, people, off)
    areas = () if counts.households is None else counts.households.areas
    for places in areas:
        if places.name == PLACE:
            own = place_totals(places, counts.matrix)
            rows += _by_size(PLACE, TOTAL, own, np.abs(place_totals(places, matrix) - own))
    return pl.DataFrame(rows)


def _by_size(
    area: str, statistic: str, people: Ints, off: NDArray[np.number[Any]]
) -> list[dict[str, object]]:
    """The mean of some absolute errors by size of their unit; empty categories are left out."""
    group = np.searchsorted(SIZES[area], people, side="right")
    rows = []
    for number, label in enumerate(categories(area)):
        inside = np.isfinite(off) & (group == number if number else True)
        if inside.any():
            rows.append(
                {"area": area, "size_category": label, "statistic": statistic,
                 "units": int(inside.sum()), "mae": float(off[inside].mean())}
            )  # fmt: skip
    return rows
