"""The paper's theory beside simulation: Theorem 1 on the block groups, and appendix A.3."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.evaluate.swapping_theory import share_change, summed_variance
from headcount.geography import Geography
from headcount.mechanisms import protect
from headcount.mechanisms.histogram import Histogram
from headcount.mechanisms.swapping.rates import swap_at_all_rates
from headcount.population import Population
from headcount.schema import Attribute, Schema
from headcount.studies.christ_2022.people import Area
from headcount.studies.christ_2022.places import FIGURE_13
from headcount.studies.christ_2022.settings import BUCKETS, UNIT, Settings
from headcount.studies.christ_2022.swapped import noise_for, swapping
from headcount.tabulate import Tabulated

RATES = (Fraction(1, 10), Fraction(1, 2), Fraction(1))
RUNS = 200
EPSILON = Fraction(4)
DRAWS, PLACES = 20_000, 5_000

PUBLISHED_VARIANCE = {
    1: 0.038, 8: 0.304, 10: 0.380, 24: 0.912, 50: 1.901, 100: 3.801, 180: 6.841, 1000: 38.011,
}  # fmt: skip
"""Appendix A.3; the last is printed as a second row of 100 combinations."""


def theorem_1(area: Area, settings: Settings) -> pl.DataFrame:
    """The change of each group's share under random swapping: theory and simulation.

    Rows are marked at random here, as the theorem has it, and not uniques first. Groups: the
    largest of the area, and the one whose share differs most from the state's.
    """
    mechanism = swapping(area, "random", unique_by=())  # nobody is unique: marked at random
    data = area.with_pool()
    noise = noise_for(mechanism, data, settings)
    swaps = swap_at_all_rates(mechanism, data, noise, runs=range(RUNS))
    inside = area.truth()
    outside = np.bincount(area.group(area.pool), minlength=area.groups)
    gap = np.abs(inside / inside.sum() - outside / outside.sum())
    rows = []
    for group in sorted({int(inside.argmax()), int(gap.argmax())}):
        for rate in RATES:
            made, _ = swaps.at(rate)
            change = (area.group(made) == group).mean(axis=1) - inside[group] / area.size
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


def variances(settings: Settings) -> pl.DataFrame:
    """Variance of a count summed over cells with noise at epsilon 4: printed, exact, simulated."""
    rows = []
    for cells, printed in PUBLISHED_VARIANCE.items():
        drawn = noisy_sums(cells, settings)
        rows.append(
            {
                "attribute_combinations": cells,
                "paper": printed,
                "exact": summed_variance(cells, EPSILON),
                "simulated": float(drawn.var(ddof=1)),
            }
        )
    return pl.DataFrame(rows)


def noisy_sums(cells: int, settings: Settings) -> Ints:
    """What the noisy histogram adds to a count of so many cells: many places of nobody."""
    units = np.array([str(number) for number in range(PLACES)])
    nobody = np.empty(0, dtype=np.int32)
    empty = Population(
        "nobody",
        Schema((Attribute("cell", tuple(str(number) for number in range(cells))),)),
        Geography(
            ("whole", "place"),
            (np.array(["whole"]), units),
            (nobody, np.zeros(PLACES, dtype=np.int32)),
        ),
        unit=nobody,
        cell=nobody,
    )
    mechanism, data = Histogram(epsilon=EPSILON, unit=UNIT), Tabulated.of(empty)
    noise = noise_for(mechanism, data, settings)
    sums = [
        protect(data, mechanism, noise, run=run).at("place").sum(axis=1)
        for run in range(DRAWS // PLACES)
    ]
    return np.concatenate(sums).astype(np.int64)


def combinations(buckets: int) -> int:
    """Cells of one group with so many age buckets, of the six attributes: 4 household sizes."""
    return 4 * buckets


def detailed_combinations() -> int:
    """Cells of one group with fifteen attributes and six age buckets."""
    return combinations(BUCKETS[1]) * 2 * prod(len(shares) for shares in FIGURE_13.values())
