"""The laws of the noise, as enclosures by ball arithmetic: each ball provably holds its value.

Ball arithmetic is FLINT's ``arb`` (F. Johansson, "Arb: efficient arbitrary-precision
midpoint-radius interval arithmetic", IEEE Trans. Computers 66(8), 2017).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from threading import RLock
from typing import TYPE_CHECKING, Literal

from headcount.errors import ConfigError

if TYPE_CHECKING:
    from flint import arb

LARGEST_SCALE = 1 << 40
"""Largest scale or standard deviation served: noise beyond 63 bits then has odds below e^-8e6."""

_BALLS = RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with balls of so many bits; one thread at a time, as FLINT's setting is shared.

    Balls enclose at any precision: without the lock results would be wider, never wrong.
    """
    from flint import ctx

    with _BALLS, ctx.workprec(bits):
        yield


@dataclass(frozen=True)
class Geometric:
    """Two-sided geometric: Pr[X = k] = (1 - a) / (1 + a) * a^|k|.

    where a = exp(-parameter) if ``form`` is "epsilon", or a = parameter itself if "ratio".
    Ghosh, Roughgarden and Sundararajan, "Universally utility-maximizing privacy mechanisms",
    SIAM J. Comput. 41(6), 2012.
    """

    form: Literal["epsilon", "ratio"]
    parameter: Fraction

    def __post_init__(self) -> None:
        smallest = Fraction(1, LARGEST_SCALE)
        if self.form == "epsilon":
            _check(self.parameter, "epsilon", low=smallest, high=Fraction(LARGEST_SCALE))
        else:
            _check(self.parameter, "ratio", low=smallest, high=1 - smallest)

    def ratio(self) -> arb:
        """Enclose a at the current precision."""
        from flint import arb, fmpq

        value = arb(fmpq(self.parameter.numerator, self.parameter.denominator))
        return (-value).exp() if self.form == "epsilon" else value

    def survival(self, k: int) -> arb:
        """Enclose Pr[|X| > k] = 2 a^(k+1) / (1 + a)."""
        from flint import arb, fmpq

        if self.form == "ratio":
            power = self.ratio() ** (k + 1)
        else:
            exponent = self.parameter * (k + 1)
            power = (-arb(fmpq(exponent.numerator, exponent.denominator))).exp()
        return 2 * power / (1 + self.ratio())

    def survivals(self) -> Iterator[arb]:
        """Enclose Pr[|X| > k] for k = 0, 1, 2, ..."""
        a = self.ratio()
        value = 2 * a / (1 + a)
        while True:
            yield value
            value *= a

    def survival_below(self, k: int) -> arb:
        """Enclose a lower bound of Pr[|X| > k], cheaply."""
        return self.survival(k)

    def exact_survival(self, k: int) -> Fraction | None:
        """Pr[|X| > k] when it is rational."""
        if self.form == "epsilon":
            return None
        return 2 * self.parameter ** (k + 1) / (1 + self.parameter)


@dataclass(frozen=True)
class Gaussian:
    """Discrete Gaussian: Pr[X = k] = w(k) / sum over all integers j of w(j).

    where w(k) = exp(-k^2 / (2 variance)).
    Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", 2020.
    """

    parameter: Fraction
    form: Literal["variance"] = "variance"

    def __post_init__(self) -> None:
        smallest = Fraction(1, LARGEST_SCALE)
        _check(self.parameter, "variance", low=smallest, high=Fraction(LARGEST_SCALE**2))

    def weight(self, k: int) -> arb:
        """Enclose w(k)."""
        from flint import arb, fmpq

        exponent = Fraction(k * k) / (2 * self.parameter)
        return (-arb(fmpq(exponent.numerator, exponent.denominator))).exp()

    def survival(self, k: int) -> arb:
        """Enclose Pr[|X| > k]; beyond the cached balls, a ball from 0 to the last of them."""
        from flint import ctx

        balls = _gaussian_survivals(self, int(ctx.prec))
        return balls[min(k, len(balls) - 1)]

    def survivals(self) -> Iterator[arb]:
        """Enclose Pr[|X| > k] for k = 0, 1, 2, ..."""
        from flint import ctx

        balls = _gaussian_survivals(self, int(ctx.prec))
        yield from balls
        while True:
            yield balls[-1]

    def survival_below(self, k: int) -> arb:
        """Enclose a lower bound of Pr[|X| > k]: two weights over 1 + sqrt(2 pi variance).

        The bound on the sum of the weights is that of a falling function by its integral.
        """
        from flint import arb, fmpq

        variance = arb(fmpq(self.parameter.numerator, self.parameter.denominator))
        return 2 * self.weight(k + 1) / (1 + (2 * arb.pi() * variance).sqrt())

    def exact_survival(self, k: int) -> Fraction | None:
        """Never known to be rational."""
        return None


Law = Geometric | Gaussian


@lru_cache(maxsize=16)
def _gaussian_survivals(law: Gaussian, bits: int) -> tuple[arb, ...]:
    """Enclose Pr[|X| > k] for k = 0 .. last; the last ball also holds every later value.

    Weights are summed from the tail, so that small sums keep their relative precision. What lies
    beyond the last weight, w(n), is at most w(n + 1) / (1 - w(n + 2) / w(n + 1)), because the
    ratio of neighbouring weights falls.
    """
    from flint import arb

    with precision(bits):
        # w(n) < 2^-bits once n^2 > 2 variance bits (as ln 2 < 1)
        last = isqrt(2 * bits * -(-law.parameter.numerator // law.parameter.denominator)) + 2
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


def exact(value: Fraction | int) -> Fraction:
    """An integer as a fraction; a float stays one, for the law to refuse."""
    return Fraction(value) if isinstance(value, int) else value


def _check(value: object, name: str, *, low: Fraction, high: Fraction) -> None:
    """Refuse floats, infinities and scales so large that noise could leave 64 bits."""
    if not isinstance(value, Fraction):
        found = f"{value!r} ({type(value).__name__})"
        raise ConfigError("noise", place=name, found=found, expected="an exact Fraction")
    if not low <= value <= high:
        raise ConfigError("noise", place=name, found=str(value), expected=f"{low} to {high}")
