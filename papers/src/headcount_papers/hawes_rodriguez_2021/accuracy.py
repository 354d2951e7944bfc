"""Mean absolute error of counties and places by size, and of race groups in counties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from headcount.arrays import Floats, Ints
from headcount.geography import Areas, Geography
from headcount.population import Population
from headcount.population.from_households import to_population
from headcount.release import Release, TablesRelease
from headcount.release.published import by_name, is_total
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts, Query
from headcount.tabulate.counts import adder
from headcount.tabulate.published import TableCells
from headcount_papers.hawes_rodriguez_2021.settings import PLACE

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
RACE_ALONE = "race alone: "
ALONE = tuple(f"{name}_alone" for name in ("white", "black", "aian", "asian", "nhpi", "other"))
SEVERAL = "multiple"
CODES = tuple(str(code) for code in range(1, 64))
"""Of race: the six alone, then the combinations."""


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Shown:
    """People as a release shows them; not a number where withheld.

    where
        races    counties x race groups
        people   of each county
        blocks   people of each leaf unit
    """

    races: Floats
    people: Floats
    blocks: Floats


def shown(release: Release) -> Shown:
    """Counts of a release added up, or what its table P1 says."""
    if isinstance(release, TablesRelease):
        county, leaf = (_p1(release, level) for level in (COUNTY, release.geography.leaf))
        total = is_total(county[0])
        races = county[1][:, county[0].inner]
        return Shown(races=races, people=county[1][:, total][:, 0], blocks=leaf[1][:, total][:, 0])
    table = release.table(release.geography.leaf)
    races = race_totals(release.schema, release.geography, table).astype(np.float64)
    blocks = np.asarray(table.sum(axis=1), dtype=np.float64).reshape(-1)
    return Shown(races=races, people=races.sum(axis=1), blocks=blocks)


def _p1(release: TablesRelease, level: str) -> tuple[TableCells, Floats]:
    one = by_name(release.published)["P1", level]
    return one.cells, np.where(one.withheld, np.nan, one.value)


def race_totals(schema: Schema, geography: Geography, matrix: Any) -> Ints:
    """Counties x race groups of a table (leaf units x cells)."""
    up = adder(geography, COUNTY, of=geography.leaf)
    by_race = Query("race", ("race",)).matrix(schema)
    return np.asarray((up @ csr_array(matrix @ by_race)).toarray(), dtype=np.int64)


def errors(counts: Counts, release: Release, *, areas: Sequence[Areas] = ()) -> pl.DataFrame:
    """Mean absolute error of one release by area, size category (in truth) and statistic.

    Places are the sums of their blocks. Counts that are withheld, and places with a block that
    is, have no error and are not among the ``units``.
    """
    truth = race_totals(counts.schema, counts.geography, counts.matrix)
    people, made = truth.sum(axis=1), shown(release)
    rows = by_size(COUNTY, TOTAL, people, np.abs(made.people - people))
    rows += _by_race(counts, made, truth, RACE)
    withheld = np.isnan(made.blocks)
    blocks = np.where(withheld, 0, made.blocks).astype(np.int64)
    for places in areas:
        if places.name == PLACE:
            own = places.add_up(counts.totals())
            off = np.abs(places.add_up(blocks) - own).astype(np.float64)
            off[places.add_up(withheld.astype(np.int64)) > 0] = np.nan
            rows += by_size(PLACE, TOTAL, own, off)
    return pl.DataFrame(rows)


def race_alone(population: Population) -> Population | None:
    """The same people, with the race of those who report one only; None if it is not known."""
    households = population.households
    assert households is not None
    if households.attribute("race").levels != CODES:
        return None
    alone = Attribute("race", (*ALONE, SEVERAL))
    same = [alone if one.name == "race" else one for one in population.schema.attributes]
    return to_population(households, schema=Schema(tuple(same)))


def errors_of_race_alone(counts: Counts, release: Release) -> pl.DataFrame:
    """Mean absolute error of people of each race alone in counties, by size of the county."""
    truth = race_totals(counts.schema, counts.geography, counts.matrix)
    found = pl.DataFrame(_by_race(counts, shown(release), truth, RACE_ALONE))
    return found.filter(pl.col("statistic") != RACE_ALONE + SEVERAL)


def _by_race(counts: Counts, made: Shown, truth: Ints, prefix: str) -> list[dict[str, object]]:
    rows = []
    for number, level in enumerate(counts.schema.attribute("race").levels):
        off = np.abs(made.races[:, number] - truth[:, number])
        rows += by_size(COUNTY, prefix + level, truth.sum(axis=1), off)
    return rows


def by_size(
    area: str, statistic: str, people: Ints, off: NDArray[np.number[Any]]
) -> list[dict[str, object]]:
    """The mean of some absolute errors by size of their unit; empty categories are left out."""
    group = np.searchsorted(SIZES.get(area, ()), people, side="right")
    rows = []
    for number, label in enumerate(categories(area) if area in SIZES else (EVERY,)):
        inside = np.isfinite(off) & (group == number if number else True)
        if inside.any():
            rows.append(
                {
                    "area": area,
                    "size_category": label,
                    "statistic": statistic,
                    "units": int(inside.sum()),
                    "mae": float(off[inside].mean()),
                }
            )
    return rows
