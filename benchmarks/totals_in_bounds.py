"""What the answer to a block group's total is worth between the bounds that its tract leaves.

A block with a facility is a block group of its own, and so takes over the share of its only block.
Its total has less noise than others, but must fit what was released for the tract: where nothing
else of the tract has a facility of that type, all people of the type live there, as many as the
noise of the tract has made of them. For block group b

    low_b  = sum over types k of max(l_bk, T_k - sum of h_k over the other block groups)
    high_b = sum over types k of min(h_bk, T_k - sum of l_k over the other block groups)

where
    l, h   the fewest and the most people of a type, from living quarters
    T_k    released people of type k in the tract
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from benchmarks.recheck import leaf_bounds_2020
from headcount.arrays import Floats, Ints
from headcount.geography import Geography
from headcount.tabulate import Counts


def bounds_of_groups(counts: Counts, released: Ints) -> tuple[Ints, Ints]:
    """The fewest and the most people of every block group of the spine.

    ``released`` has the people of every block of the published tree by type of living quarters.
    """
    spine, order = counts.geography.spine, counts.geography.along_spine
    assert spine is not None
    low, high, people = (
        np.add.reduceat(leaf[order], spine.children_start("block_group"))
        for leaf in (*leaf_bounds_2020(counts), released)
    )
    left = _of_all(spine, people)
    others_low, others_high = _of_all(spine, low) - low, _of_all(spine, high) - high
    return (
        np.maximum(low, left - others_high).sum(axis=1),
        np.minimum(high, left - others_low).sum(axis=1),
    )


def _of_all(spine: Geography, groups: Ints) -> Ints:
    """For every block group the sum over all block groups of its tract."""
    of_tract = np.add.reduceat(groups, spine.children_start("tract"))
    return of_tract[spine.parents[spine.depth("block_group")]]


def squared_error_within(low: Floats | Ints, high: Floats | Ints, sd: float) -> Floats:
    """The mean squared error of an answer that is cut at bounds, given as distances to the truth.

        E[min(max(e, l), h)^2] = l^2 P(a) + h^2 (1 - P(b)) + s^2 (P(b) - P(a) + a p(a) - b p(b))

    where
        e      the error of the answer, normal with standard deviation s
        l, h   low and high less the truth
        a, b   l / s and h / s
        P, p   the distribution and the density of the standard normal
    """
    a, b = (np.asarray(one, dtype=np.float64) / sd for one in (low, high))
    inside = ndtr(b) - ndtr(a) + a * _density(a) - b * _density(b)
    cut: Floats = sd**2 * (a**2 * ndtr(a) + b**2 * ndtr(-b) + inside)
    return cut


def _density(x: Floats) -> Floats:
    found: Floats = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    return found
