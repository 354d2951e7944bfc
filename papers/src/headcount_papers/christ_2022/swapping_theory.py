"""What theory says of swapping and of noisy histograms: Christ, Radway & Bellovin (2022).

Theorem 1 (a share under random swapping), Theorem 2 (unique rows and population size) and the
variances of appendix A.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb, factorial, prod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from headcount.errors import InputError
from headcount.noise import TwoSidedGeometric

Model = Literal["independent", "exact count"]
MOST_SETS = 2_000_000
"""Sets of attribute combinations that Theorem 2 may list."""


@dataclass(frozen=True, kw_only=True)
class UniqueBounds:
    """Bounds of the probability that at least m of n rows are unique (Theorem 2).

    where
        lower       Pr[the first m rows are unique], equation (1)
        union       binom(n, m) times that: the union bound of the proof
        published   n^m / m! times that: equation (3)

    Bounds above 1 say nothing.
    """

    lower: float
    union: float
    published: float


@dataclass(frozen=True, kw_only=True)
class ShareChange:
    """How a category's share of an area changes under random swapping.

    where
        expected            E[change] = kappa (beta - alpha): Theorem 1 without its bars
        lower_bound         |E[change]|, which the paper calls the expected error
        expected_absolute   E|change|, never less
    """

    expected: float
    lower_bound: float
    expected_absolute: float


def share_change(
    *,
    people: int,
    in_category: int,
    outside: int,
    outside_in_category: int,
    rate: Fraction | float,
    model: Model = "exact count",
) -> ShareChange:
    """Theorem 1, and the expected absolute error that its formula understates.

        E[change] = kappa (beta - alpha) <= E|change|

    where
        kappa   the swap rate
        alpha   the category's share of the area's people
        beta    its share of those who may be partners

    *independent* is the paper's model: each row is replaced with probability kappa by a row drawn
    with replacement, so the category loses Binomial(n alpha, kappa (1 - beta)) and gains
    Binomial(n (1 - alpha), kappa beta). *exact count* is what swapping does when rows are marked
    at random: m = round(kappa n) rows leave and m of the others come, without replacement, so
    it loses Hypergeometric(n, n alpha, m) and gains Hypergeometric(outside, ..., m); there kappa
    is m / n. In both, losses and gains are independent and the law of their difference is summed.
    """
    from scipy.stats import binom, hypergeom

    if not (0 <= in_category <= people and 0 <= outside_in_category <= outside) or people < 1:
        raise InputError(
            "share change",
            found="more people in the category than there are people",
            expected="at most as many",
        )
    if not 0 <= rate <= 1 or outside < 1:
        raise InputError(
            "share change",
            found=f"rate {rate}, {outside} people outside the area",
            expected="a rate in [0, 1] and at least one person outside",
        )
    alpha, beta = in_category / people, outside_in_category / outside
    grid = np.arange(people + 1)
    if model == "independent":
        kappa = float(rate)
        lose = binom.pmf(grid, in_category, kappa * (1 - beta))
        gain = binom.pmf(grid, people - in_category, kappa * beta)
    else:
        moved = round(Fraction(str(rate)) * people)
        if moved > outside:
            raise InputError(
                "share change",
                found=f"{outside} people outside the area",
                expected=f"at least {moved}, a partner for each person swapped",
            )
        kappa = moved / people
        lose = hypergeom.pmf(grid, people, in_category, moved)
        gain = hypergeom.pmf(grid, outside, outside_in_category, moved)
    law = np.convolve(gain, lose[::-1])  # entry i: change of i - people
    change = np.arange(-people, people + 1) / people
    expected = kappa * (beta - alpha)
    return ShareChange(
        expected=expected,
        lower_bound=abs(expected),
        expected_absolute=float(np.abs(change) @ law),
    )


def unique_bounds(probabilities: ArrayLike, *, rows: int, unique: int) -> UniqueBounds:
    """Theorem 2 for rows drawn independently with these probabilities of their tuples.

        Pr[first m unique] = sum over sets of m tuples of m! prod P_i (1 - sum P_i)^(n - m)

    Sets are listed one by one, so support and m must be small; for m = 1 any support will do.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 1 or (p < 0).any() or abs(p.sum() - 1) > 1e-9:
        raise InputError(
            "unique rows", place="probabilities", found="another vector", expected="a sum of 1"
        )
    if not 1 <= unique <= rows:
        raise InputError("unique rows", place="unique", found=f"{unique}", expected=f"1 to {rows}")
    if comb(len(p), unique) > MOST_SETS:
        raise InputError(
            "unique rows",
            found=f"{comb(len(p), unique):,} sets of {unique} tuples",
            expected=f"at most {MOST_SETS:,}",
        )
    first = 0.0
    for some in combinations(p.tolist(), unique):
        first += prod(some) * max(1 - sum(some), 0.0) ** (rows - unique)
    first *= factorial(unique)
    return UniqueBounds(
        lower=first,
        union=comb(rows, unique) * first,
        published=rows**unique / factorial(unique) * first,
    )


def summed_variance(cells: int, epsilon: Fraction) -> float:
    """Variance of a count that is the sum of c noisy cells: 2 c e^eps / (1 - e^eps)^2 (A.3)."""
    if cells < 0:
        raise InputError("variance", place="cells", found=f"{cells}", expected="0 or more")
    return cells * TwoSidedGeometric(epsilon).variance
