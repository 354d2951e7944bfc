"""Errors and the size of what is counted: relative errors, groups that are lost, counts below 0.

An error of 5 people is little for a county and everything for a block of 8. Relative errors are
undefined for counts of nobody, so they are taken in two ways that say what they do about those.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.evaluation._tallied import ComparedPairs
from headcount.evaluation.error import median_of, sum_of


@dataclass(frozen=True, kw_only=True)
class SizeSummary:
    """What is counted, and how large the errors are beside it; None where nobody is counted.

        percent_of_mean = 100 x sum of |released - exact| / sum of exact
        median_percent  = median of 100 x |released - exact| / exact, where exact is not 0

    where
        mean_count     mean exact count of the whole set, empty ones too
        median_count   median of the exact counts that are not 0: the typical size
        lost           exact counts that are not 0 and were released as 0 or less
        lost_people    people in them
        negative       released counts below 0
    """

    mean_count: float
    median_count: float | None
    percent_of_mean: float | None
    median_percent: float | None
    lost: int
    lost_people: float
    negative: int


def beside_size(pairs: ComparedPairs) -> SizeSummary:
    """Errors of a set of counts relative to the counts, and what is missing from the release."""
    there = pairs.truth > 0
    exact = pairs.truth[there].astype(np.float64)
    apart = np.abs(pairs.residuals()).astype(np.float64)
    gone = pairs.released[there] <= 0
    times = pairs.times
    own = None if times is None else times[there]
    people, some = sum_of(exact, own), bool(exact.size)
    return SizeSummary(
        mean_count=people / pairs.n,
        median_count=median_of(exact, times=own) if some else None,
        percent_of_mean=100 * sum_of(apart, times) / people if some else None,
        median_percent=median_of(100 * apart[there] / exact, times=own) if some else None,
        lost=int(sum_of(gone, own)),
        lost_people=sum_of(exact * gone, own),
        negative=int(sum_of(pairs.released < 0, times)),
    )
