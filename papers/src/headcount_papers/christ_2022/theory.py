"""The paper's theory beside simulation: theorems 1 and 2 on block groups, and appendix A.3."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.comparison.cases import Case, releases
from headcount.domain import Domain
from headcount.draws import multinomial
from headcount.geography import Geography
from headcount.population import Population
from headcount.schema import Attribute, Schema
from headcount.tabulate import Tabulated
from headcount_papers.christ_2022.cases import swap_cases, swapped
from headcount_papers.christ_2022.people import Area
from headcount_papers.christ_2022.places import FIGURE_13
from headcount_papers.christ_2022.settings import BUCKETS, UNIT
from headcount_papers.christ_2022.swapping_theory import (
    share_change,
    summed_variance,
    unique_bounds,
)
from headcount_papers.histogram import Histogram

RATES = (Fraction(1, 10), Fraction(1, 2), Fraction(1))
RUNS = 200
EPSILON = Fraction(4)
DRAWS, PLACES = 20_000, 5_000
SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
"""People of an area for theorem 2."""
TABLES = 400
"""Random areas of each size that are drawn beside its bounds."""

PUBLISHED_VARIANCE = {
    1: 0.038,
    8: 0.304,
    10: 0.380,
    24: 0.912,
    50: 1.901,
    100: 3.801,
    180: 6.841,
    1000: 38.011,
}
"""Appendix A.3; the last is printed as a second row of 100 combinations."""


def theorem_1(area: Area, *, seed: int) -> pl.DataFrame:
    """The change of each group's share under random swapping: theory and simulation.

    Rows are marked at random here, as the theorem has it, and not uniques first. Groups: the
    largest of the area, and the one whose share differs most from the state's.
    """
    # With nothing to be unique by nobody is: rows are marked at random.
    cases = swap_cases([area], runs=RUNS, swappers=["random"], unique_by=())
    (swaps,) = swapped([area], cases, seed=seed)
    inside = area.truth()
    outside = np.bincount(area.group(area.pool), minlength=area.groups)
    gap = np.abs(inside / inside.sum() - outside / outside.sum())
    rows = []
    for group in sorted({int(inside.argmax()), int(gap.argmax())}):
        for rate in RATES:
            here = area.group(swaps.at(rate).records) == group
            change = here.mean(axis=1) - inside[group] / area.size
            law = share_change(
                people=area.size,
                in_category=int(inside[group]),
                outside=int(outside.sum()),
                outside_in_category=int(outside[group]),
                rate=rate,
            )
            rows.append(
                {
                    "county": area.name,
                    "group": group,
                    "rate": float(rate),
                    "share_in_area": inside[group] / area.size,
                    "share_outside": outside[group] / outside.sum(),
                    "expected_change": law.expected,
                    "expected_absolute_change": law.expected_absolute,
                    "simulated_change": float(change.mean()),
                    "standard_error": float(change.std(ddof=1) / RUNS**0.5),
                    "simulated_absolute_change": float(np.abs(change).mean()),
                }
            )
    return pl.DataFrame(rows)


def theorem_2(area: Area, *, seed: int) -> pl.DataFrame:
    """How likely m unique rows are in areas of n people, with this area's shares of groups.

    Rows are drawn independently, as the theorem has it; a row is unique if nobody else is of its
    group of Hispanic origin by race.
    """
    shares = area.truth()[area.truth() > 0] / area.size
    rng = np.random.default_rng([seed, 3])
    rows = []
    for people in SIZES:
        alone = (multinomial(rng, np.full(TABLES, people), shares) == 1).sum(axis=1)
        for unique in (1, 2):
            bounds = unique_bounds(shares, rows=people, unique=unique)
            rows.append(
                {
                    "county": area.name,
                    "people": people,
                    "unique": unique,
                    "lower": bounds.lower,
                    "simulated": float((alone >= unique).mean()),
                    "upper": bounds.published,
                }
            )
    return pl.DataFrame(rows)


def variances(seed: int) -> pl.DataFrame:
    """Variance of a count summed over cells with noise at epsilon 4: printed, exact, simulated."""
    rows = []
    for cells, printed in PUBLISHED_VARIANCE.items():
        drawn = noisy_sums(cells, seed)
        rows.append(
            {
                "attribute_combinations": cells,
                "paper": printed,
                "exact": summed_variance(cells, EPSILON),
                "simulated": float(drawn.var(ddof=1)),
            }
        )
    return pl.DataFrame(rows)


def noisy_sums(cells: int, seed: int) -> Ints:
    """What the noisy histogram adds to a count of so many cells: many places of nobody."""
    units = np.array([str(number) for number in range(PLACES)])
    nobody = np.empty(0, dtype=np.int32)
    empty = Population(
        "nobody",
        Domain(
            Schema((Attribute("cell", tuple(str(number) for number in range(cells))),)),
            Geography(
                ("whole", "place"),
                (np.array(["whole"]), units),
                (nobody, np.zeros(PLACES, dtype=np.int32)),
            ),
        ),
        unit=nobody,
        cell=nobody,
    )
    case = Case(
        name="nobody",
        mechanism=Histogram(epsilon=EPSILON, unit=UNIT),
        runs=range(DRAWS // PLACES),
    )
    made = releases(case, Tabulated.of(empty), seed=seed)
    sums = [one.release.at("place").sum(axis=1) for one in made]
    return np.concatenate(sums).astype(np.int64)


def combinations() -> pl.DataFrame:
    """Cells of one group by attributes and age buckets: 4 household sizes, and more with 15."""
    more = 2 * prod(len(shares) for shares in FIGURE_13.values())
    rows = [(6, buckets, 4 * buckets) for buckets in BUCKETS]
    rows.append((15, BUCKETS[1], 4 * BUCKETS[1] * more))
    return pl.DataFrame(rows, schema=["attributes", "buckets", "combinations"], orient="row")
