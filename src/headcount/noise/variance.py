"""Variances of the noise, from its public parameters: for weights and reports, never for draws."""

from __future__ import annotations

from fractions import Fraction
from math import exp, fsum, isqrt, sinh


def geometric_variance(epsilon: Fraction) -> float:
    """Variance of the two-sided geometric: 2 a / (1 - a)^2 = 1 / (2 sinh(epsilon / 2)^2).

    where a = exp(-epsilon). The second form loses no digits when epsilon is small; where it would
    overflow, 1 - a is 1 to every digit of a float.
    """
    if epsilon > 700:
        return 2 * exp(-float(min(epsilon, Fraction(1000))))  # from 745 on it is 0 as a float
    return 1 / (2 * sinh(epsilon / 2) ** 2)


def geometric_ratio_variance(ratio: Fraction) -> Fraction:
    """Variance of the two-sided geometric with Pr[k] proportional to ratio^|k|, exactly."""
    return 2 * ratio / (1 - ratio) ** 2


def discrete_gaussian_variance(variance: Fraction) -> float:
    """Variance of the discrete Gaussian: sum k^2 w(k) / sum w(k), w(k) = exp(-k^2 / (2 variance)).

    By Poisson summation it equals its parameter but for a relative error of about
    8 pi^2 variance exp(-2 pi^2 variance), which is under 1e-80 from variance = 10 on.
    """
    if variance >= 10:
        return float(variance)
    last = isqrt(int(1500 * variance)) + 2  # beyond, w(k) < exp(-745), zero as a float
    weights = [exp(-k * k / (2 * variance)) for k in range(1, last + 1)]
    squares = fsum(k * k * weight for k, weight in enumerate(weights, start=1))
    return 2 * squares / (1 + 2 * fsum(weights))
