"""Betting odds: how sure an attacker can become at most, worked out from a loss and nothing else.

An attacker weighs two databases that differ in one unit of privacy. Before a release the odds are
p : 1 - p, after it at most exp(L) as much, where L is the privacy loss of what was published:

    chance after <= 1 / (1 + (1 - p) / p exp(-epsilon))        while L <= epsilon

    pure epsilon    L <= epsilon always
    rho             L <= rho + 2 sqrt(rho ln(1/delta)), but for a chance of delta

The first is the definition and Bayes' rule; the second is lemma 3.5 of Bun and Steinke (2016),
"Concentrated Differential Privacy". Of an (epsilon, delta) alone no such odds follow.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from headcount.noise.laws import enclose, precision
from headcount.privacy.loss import Loss, PureLoss, ZCDPLoss

if TYPE_CHECKING:
    from flint import arb

_BITS = 256


def bounding_epsilon(loss: Loss, *, delta: Fraction) -> Fraction | None:
    """What the privacy loss exceeds with chance ``delta`` at most, rounded up; None if unknown."""
    if isinstance(loss, PureLoss):
        return loss.epsilon
    if not isinstance(loss, ZCDPLoss):
        return None
    with precision(_BITS):
        rho = enclose(loss.rho)
        return _above(rho + 2 * (rho * enclose(1 / delta).log()).sqrt())


def chance_after(before: Fraction, epsilon: Fraction) -> Fraction:
    """The largest chance that an attacker can give what is true, who gave it ``before``."""
    with precision(_BITS):
        against = enclose((1 - before) / before) * (-enclose(epsilon)).exp()
        return min(_above(1 / (1 + against)), Fraction(1))


def _above(ball: arb) -> Fraction:
    """A binary float that is no smaller than what a ball encloses."""
    from flint import arb

    found = float(ball.upper())
    while not ball <= arb(found):
        found = math.nextafter(found, math.inf)
    return Fraction(found)
