"""The laws that releases are made with: two-sided geometric and discrete Gaussian."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, repeat
from math import exp, fsum, isqrt, sinh
from typing import TYPE_CHECKING

from headcount.noise._exact import Bits, rejection_gaussian
from headcount.noise.balls import enclose, precision
from headcount.noise.law import LARGEST_SCALE, SMALLEST, Law, exact_parameter

if TYPE_CHECKING:
    from flint import arb


@dataclass(frozen=True)
class TwoSidedGeometric(Law):
    """Two-sided geometric: Pr[X = k] = (1 - a) / (1 + a) * a^|k|, where a = exp(-rate).

    Ghosh, Roughgarden and Sundararajan, "Universally utility-maximizing privacy mechanisms",
    SIAM J. Comput. 41(6), 2012.
    """

    rate: Fraction

    name = "two-sided geometric"
    kind = "geometric"

    def __post_init__(self) -> None:
        high = Fraction(LARGEST_SCALE)
        rate = exact_parameter(self.rate, "rate", low=SMALLEST, high=high)
        object.__setattr__(self, "rate", rate)

    @property
    def key_parts(self) -> tuple[str | int, ...]:
        """Named "epsilon": what a count that moves by 1 costs."""
        return ("epsilon", self.rate.numerator, self.rate.denominator)

    @property
    def variance(self) -> float:
        """2 a / (1 - a)^2 = 1 / (2 sinh(rate / 2)^2).

        The second form loses no digits when the rate is small; where it would overflow, 1 - a is
        1 to every digit of a float.
        """
        if self.rate > 700:
            return 2 * exp(-float(min(self.rate, Fraction(1000))))  # from 745 on it is 0
        return 1 / (2 * sinh(self.rate / 2) ** 2)

    def survival(self, k: int) -> arb:
        """Enclose Pr[|X| > k] = 2 a^(k+1) / (1 + a)."""
        power = (-enclose(self.rate * (k + 1))).exp()
        return 2 * power / (1 + (-enclose(self.rate)).exp())

    def survivals(self) -> Iterator[arb]:
        """Enclose Pr[|X| > k] for k = 0, 1, 2, ..., each from the one before."""
        a = (-enclose(self.rate)).exp()
        value = 2 * a / (1 + a)
        while True:
            yield value
            value *= a


@dataclass(frozen=True)
class DiscreteGaussian(Law):
    """Discrete Gaussian: Pr[X = k] = w(k) / sum over all integers j of w(j).

    where w(k) = exp(-k^2 / (2 sigma2)).
    Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", 2020.
    """

    sigma2: Fraction

    name = "discrete Gaussian"
    kind = "gaussian"

    def __post_init__(self) -> None:
        high = Fraction(LARGEST_SCALE**2)
        sigma2 = exact_parameter(self.sigma2, "sigma2", low=SMALLEST, high=high)
        object.__setattr__(self, "sigma2", sigma2)

    @property
    def key_parts(self) -> tuple[str | int, ...]:
        """Named "variance", which sigma2 nearly is."""
        return ("variance", self.sigma2.numerator, self.sigma2.denominator)

    @property
    def variance(self) -> float:
        """Variance of a draw: sum k^2 w(k) / sum w(k).

        By Poisson summation it equals sigma2 but for a relative error of about
        8 pi^2 sigma2 exp(-2 pi^2 sigma2), which is under 1e-80 from sigma2 = 10 on.
        """
        if self.sigma2 >= 10:
            return float(self.sigma2)
        last = isqrt(int(1500 * self.sigma2)) + 2  # beyond, w(k) < exp(-745), zero as a float
        weights = [exp(-k * k / (2 * self.sigma2)) for k in range(1, last + 1)]
        squares = fsum(k * k * weight for k, weight in enumerate(weights, start=1))
        return 2 * squares / (1 + 2 * fsum(weights))

    def weight(self, k: int) -> arb:
        """Enclose w(k)."""
        return (-enclose(Fraction(k * k) / (2 * self.sigma2))).exp()

    def survival(self, k: int) -> arb:
        """Enclose Pr[|X| > k]; beyond the cached balls, a ball from 0 to the last of them."""
        from flint import ctx

        balls = _gaussian_survivals(self, int(ctx.prec))
        return balls[min(k, len(balls) - 1)]

    def survivals(self) -> Iterator[arb]:
        """Enclose Pr[|X| > k] for k = 0, 1, 2, ..."""
        from flint import ctx

        balls = _gaussian_survivals(self, int(ctx.prec))
        return chain(balls, repeat(balls[-1]))

    def survival_below(self, k: int) -> arb:
        """Enclose a lower bound of Pr[|X| > k]: two weights over 1 + sqrt(2 pi sigma2).

        The bound on the sum of the weights is that of a falling function by its integral.
        """
        from flint import arb

        return 2 * self.weight(k + 1) / (1 + (2 * arb.pi() * enclose(self.sigma2)).sqrt())

    def without_table(self, word: int, *, bits: int, extension: Iterator[int]) -> int:
        """By rejection: the weights of so wide a law are too many to add up."""
        return rejection_gaussian(self.sigma2, Bits(extension, bits=bits))


@lru_cache(maxsize=16)
def _gaussian_survivals(law: DiscreteGaussian, bits: int) -> tuple[arb, ...]:
    """Enclose Pr[|X| > k] for k = 0 .. last; the last ball also holds every later value.

    Weights are summed from the tail, so that small sums keep their relative precision. What lies
    beyond the last weight, w(n), is at most w(n + 1) / (1 - w(n + 2) / w(n + 1)), because the
    ratio of neighbouring weights falls.
    """
    from flint import arb

    with precision(bits):
        # w(n) < 2^-bits once n^2 > 2 sigma2 bits (as ln 2 < 1)
        last = isqrt(2 * bits * -(-law.sigma2.numerator // law.sigma2.denominator)) + 2
        bound = law.weight(last + 1) / (1 - law.weight(last + 2) / law.weight(last + 1))
        beyond = arb(0).union(bound.upper())
        # w(k) = w(k + 1) / step(k) with step(k) = q^(2k + 1), q = w(1)
        q = law.weight(1)
        square = q * q
        weights, weight, step = [arb(1)], arb(1), q
        for _ in range(last):
            weight *= step
            step *= square
            weights.append(weight)
        tails = [beyond]
        for weight in reversed(weights[1:]):
            tails.append(tails[-1] + weight)
        total = weights[0] + 2 * tails[-1]
        return tuple(2 * tail / total for tail in reversed(tails))
