"""The true loss of ``averaged`` at each size of error, in closed form: what the curves estimate."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from headcount.arrays import Floats


def averaged_loss(x: Floats, *, epsilon: Fraction, parts: int) -> Floats:
    """How far the log-chance of an error falls from x >= 0 to x + 1, for the mean of P draws.

        loss(x) = log Pr[S = P x] - log Pr[S = P (x + 1)]

    where
        S   the sum of the P draws' noise. Each draw is the difference of two one-sided geometric
            draws, so S is the difference of two negative binomials, and for s >= 0

            Pr[S = s] proportional to a^s sum_b c(s + b) c(b) a^(2b),    a = exp(-epsilon / P),

            where c(n) = (n + P - 1)! / (n! (P - 1)!) is a polynomial of degree P - 1.

    One person moves every draw by 1 and so the mean by 1. The polynomial lowers the loss near
    zero, where most errors lie, to a part of epsilon; far out it no longer matters and the loss
    nears epsilon: in the worst case averaging gives nothing back.
    """
    sums = np.rint(parts * x)
    return _log_chance(sums, epsilon, parts) - _log_chance(sums + parts, epsilon, parts)


def _log_chance(s: Floats, epsilon: Fraction, parts: int) -> Floats:
    """Log Pr[S = s] for s >= 0, up to a constant."""
    rate = float(epsilon) / parts
    # a^(2b) b^(2P - 2) is below 1e-20 of its peak by then.
    b = np.arange(int((50 + 20 * parts) / rate), dtype=np.float64)
    inner = _ways(b, parts) * np.exp(-2 * rate * b)
    return np.array([np.log(np.dot(_ways(one + b, parts), inner)) - rate * one for one in s])


def _ways(n: Floats, parts: int) -> Floats:
    """Binomial coefficient (n + P - 1 choose P - 1)."""
    product = np.ones_like(n)
    for i in range(1, parts):
        product *= (n + i) / i
    return product
