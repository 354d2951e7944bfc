"""How far noise reaches: known from its law alone, before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from headcount.noise.balls import enclose, precision
from headcount.noise.law import Law
from headcount.noise.laws import DiscreteGaussian

if TYPE_CHECKING:
    from flint import arb

ONE_IN_20 = Fraction(1, 20)
WIDE = 10**8
"""From this variance on the weights of a discrete Gaussian are too many to add up for a message."""
_BITS = 64


def reach(law: Law, *, missed: Fraction = ONE_IN_20) -> int:
    """The smallest k with Pr[|noise| > k] <= missed; for a very wide Gaussian at most 1 more.

    Found by bisection with balls that provably hold the probability, at a precision that grows
    until they decide. Of a Gaussian with a variance of 10^8 or more

        Pr[|X| > k] <= erfc(k / sqrt(2 sigma2))

    is used: its weights beyond k add up to less than the integral from k on, and all of them to
    more than sqrt(2 pi sigma2), by Poisson summation. (They add up to more than the integral from
    k + 1 on, hence the 1.)
    """
    above = _beyond(law)
    high = 1
    while above(high, missed):
        high *= 2
    low = -1  # somebody is beyond -1, always
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if above(middle, missed) else (low, middle)
    return high


def _beyond(law: Law) -> Callable[[int, Fraction], bool]:
    """Whether Pr[|noise| > k] is above some odds."""
    survival: Callable[[int], arb] = law.survival
    if isinstance(law, DiscreteGaussian) and law.sigma2 >= WIDE:
        sigma2 = law.sigma2

        def survival(k: int) -> arb:
            return (enclose(Fraction(k)) / (2 * enclose(sigma2)).sqrt()).erfc()

    def above(k: int, odds: Fraction) -> bool:
        if (known := law.exact_survival(k)) is not None:
            return known > odds
        bits = _BITS
        while True:
            with precision(bits):
                ball, wanted = survival(k), enclose(odds)
                if ball > wanted:
                    return True
                if ball <= wanted:
                    return False
            bits *= 2

    return above
