"""The paper's theory beside simulation: Theorem 1 on the block groups, and appendix A.3."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import polars as pl

from headcount.evaluate.swapping_theory import share_change, summed_variance
from headcount.mechanisms.histogram import draw_sums
from headcount.mechanisms.swapping.persons import Pool, swap_area
from headcount.studies.christ_2022.people import Area
from headcount.studies.christ_2022.places import FIGURE_13
from headcount.studies.christ_2022.settings import BUCKETS, SWAPPERS, Settings
from headcount.studies.christ_2022.swapped import stack, stream

RATES = (Fraction(1, 10), Fraction(1, 2), Fraction(1))
RUNS = 200
EPSILON = Fraction(4)
DRAWS = 20_000

PUBLISHED_VARIANCE = {
    1: 0.038, 8: 0.304, 10: 0.380, 24: 0.912, 50: 1.901, 100: 3.801, 180: 6.841, 1000: 38.011,
}  # fmt: skip
"""Appendix A.3; the last is printed as a second row of 100 combinations."""


def theorem_1(area: Area, settings: Settings) -> pl.DataFrame:
    """The change of each group's share under random swapping: theory and simulation.

    Rows are marked at random here, as the theorem has it, and not uniques first. Groups: the
    largest of the area, and the one whose share differs most from the state's.
    """
    rng = stream(settings.seed, area.name, "theorem 1")
    pool = Pool.of(area.pool, SWAPPERS["random"])
    swapped = stack(
        area,
        lambda: swap_area(area.rows, pool, rate=1, rng=rng, uniques_first=False),
        RUNS,
    )
    inside = area.truth()
    outside = np.bincount(area.group(area.pool), minlength=area.groups)
    gap = np.abs(inside / inside.sum() - outside / outside.sum())
    rows = []
    for group in sorted({int(inside.argmax()), int(gap.argmax())}):
        for rate in RATES:
            made, _ = swapped.at(rate)
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
    rng = stream(settings.seed, "variance")
    rows = []
    for cells, printed in PUBLISHED_VARIANCE.items():
        # A large true count, so that nothing is clipped.
        truth = np.full((1, cells), 10**6)
        drawn = draw_sums(truth, epsilon=float(EPSILON), clip="query", draws=DRAWS, rng=rng)
        rows.append(
            {
                "attribute_combinations": cells,
                "paper": printed,
                "exact": summed_variance(cells, EPSILON),
                "simulated": float(drawn.var(ddof=1)),
            }
        )
    return pl.DataFrame(rows)


def combinations(buckets: int) -> int:
    """Cells of one group with so many age buckets, of the six attributes: 4 household sizes."""
    return 4 * buckets


def detailed_combinations() -> int:
    """Cells of one group with fifteen attributes and six age buckets."""
    return combinations(BUCKETS[1]) * 2 * prod(len(shares) for shares in FIGURE_13.values())
