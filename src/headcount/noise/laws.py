"""Laws of noise: what one is, the two that releases are made with, and how far noise reaches.

A law is the one thing that samplers, plans and receipts know about noise. Releases are made with
two-sided geometric and discrete Gaussian noise.

The exact slow samplers are here, too, and the ball arithmetic that certifies: real numbers as
intervals. The inversion of a growing prefix serves words that a table cannot decide, and every draw
of a law too wide for a table unless the law has a sampler of its own: a discrete Gaussian has the
rejection sampler of Canonne, Kamath and Steinke. Balls, which provably hold a number, are FLINT's
``arb`` (F. Johansson, "Arb: efficient arbitrary-precision midpoint-radius interval arithmetic",
IEEE Trans. Computers 66(8), 2017).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from itertools import chain, count, repeat
from math import exp, fsum, isqrt, sinh
from threading import RLock
from typing import TYPE_CHECKING, ClassVar

from headcount.errors import ConfigError

if TYPE_CHECKING:
    from flint import arb

LARGEST_SCALE = 1 << 40
"""Largest scale or standard deviation served: noise beyond 63 bits then has odds below e^-8e6."""
SMALLEST = Fraction(1, LARGEST_SCALE)


@dataclass(frozen=True)
class Law(ABC):
    """A symmetric law on the integers, given by exact parameters: the fields of its dataclass.

    ``name``
        in receipts and messages.
    ``kind``
        part of every key, with ``key_parts``: two laws never share a word of a stream. Neither
        may change as long as SAMPLER_VERSION stays.

    Tables and inversion need ``survival`` only. What the noise costs is no matter of the law
    alone: ``headcount.privacy.sensitivity``.
    """

    name: ClassVar[str]
    kind: ClassVar[str]

    @property
    @abstractmethod
    def key_parts(self) -> tuple[str | int, ...]:
        """The parameters as they enter a key: names, numerators and denominators."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of a draw: for weights and reports, never for draws."""

    @abstractmethod
    def survival(self, k: int) -> arb:
        """Enclose Pr[|X| > k] at the current precision; the balls shrink as it grows."""

    def survivals(self) -> Iterator[arb]:
        """Enclose Pr[|X| > k] for k = 0, 1, 2, ..."""
        return map(self.survival, count())

    def survival_below(self, k: int) -> arb:
        """Enclose a lower bound of Pr[|X| > k], cheaply: is the law too wide for a table?"""
        return self.survival(k)

    def exact_survival(self, k: int) -> Fraction | None:
        """Pr[|X| > k] where it is known to be rational: balls never tell an integer from itself."""
        return None

    def without_table(self, word: int, *, bits: int, extension: Iterator[int]) -> int:
        """The draw of a word of ``bits`` bits when the law is too wide for a table."""
        return invert(self, word, bits=bits, extension=extension)

    @property
    def stated(self) -> dict[str, str]:
        """The parameters by name, as exact text."""
        return {field.name: str(getattr(self, field.name)) for field in fields(self)}

    def __str__(self) -> str:
        return ", ".join([self.name, *(f"{name} {value}" for name, value in self.stated.items())])


def exact_parameter(value: object, name: str, *, low: Fraction, high: Fraction) -> Fraction:
    """Refuse floats, infinities and scales so large that noise could leave 64 bits."""
    if type(value) is int:
        value = Fraction(value)
    if not isinstance(value, Fraction):
        found = f"{value!r} ({type(value).__name__})"
        raise ConfigError("noise", place=name, found=found, expected="an exact Fraction")
    if not low <= value <= high:
        raise ConfigError("noise", place=name, found=str(value), expected=f"{low} to {high}")
    return value


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
        return _rejection_gaussian(self.sigma2, _Bits(extension, bits=bits))


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


_BALLS = RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with balls of so many bits; one thread at a time, as FLINT's setting is shared.

    Balls enclose at any precision: without the lock results would be wider, never wrong.
    """
    from flint import ctx

    with _BALLS, ctx.workprec(bits):
        yield


def enclose(number: Fraction) -> arb:
    """A ball around an exact number, at the current precision."""
    from flint import arb, fmpq

    return arb(fmpq(number.numerator, number.denominator))


def invert(law: Law, word: int, *, bits: int, extension: Iterator[int]) -> int:
    """The draw that a word of ``bits`` bits, extended as far as needed, stands for.

    The lowest bit of ``word`` is the sign; the others are the first binary digits of a uniform
    number U, and each extension word gives ``bits`` digits more. |X| is the smallest k with
    U < Pr[|X| <= k]; it is returned once every U with the known digits gives the same k.
    """
    sign, prefix, length = word & 1, word >> 1, bits - 1
    while (magnitude := _decide(law, prefix, length)) is None:
        prefix = (prefix << bits) | next(extension)
        length += bits
    return -magnitude if sign else magnitude


def _decide(law: Law, prefix: int, length: int) -> int | None:
    """The smallest k with U < Pr[|X| <= k] for every U in [prefix, prefix + 1) / 2^length."""
    from flint import arb

    room = (1 << length) - prefix - 1
    if room == 0:  # U may still be as near to 1 as it likes
        return None
    with precision(length + 64):
        scale = arb(1 << length)

        def surely_within(k: int) -> bool:  # all such U are below Pr[|X| <= k]
            return bool(scale * law.survival(k) <= room)

        high = 1
        while not surely_within(high - 1):
            high *= 2
        low, high = 0, high - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if surely_within(middle) else (middle + 1, high)
        # none of them is below Pr[|X| <= k - 1]
        if surely_within(low) and (low == 0 or scale * law.survival(low - 1) >= room + 1):
            return low
    return None


class _Bits:
    """Random bits taken from the words of an extension, first word first."""

    def __init__(self, words: Iterator[int], *, bits: int) -> None:
        self._words = words
        self._width = bits
        self._store = 0
        self._left = 0

    def take(self, count: int) -> int:
        """The next ``count`` bits as an integer."""
        while self._left < count:
            self._store = (self._store << self._width) | next(self._words)
            self._left += self._width
        self._left -= count
        value = self._store >> self._left
        self._store &= (1 << self._left) - 1
        return value

    def below(self, bound: int) -> int:
        """A uniform integer in 0 .. bound - 1, by rejection."""
        size = (bound - 1).bit_length()
        while (value := self.take(size)) >= bound:
            pass
        return value

    def bernoulli(self, chance: Fraction) -> bool:
        """True with the given rational probability."""
        return self.below(chance.denominator) < chance.numerator

    def bernoulli_exp(self, gamma: Fraction) -> bool:
        """True with probability exp(-gamma), gamma >= 0 (Canonne et al. 2020, algorithm 1)."""
        while gamma > 1:
            if not self.bernoulli_exp(Fraction(1)):
                return False
            gamma -= 1
        k = 1
        while self.bernoulli(gamma / k):
            k += 1
        return k % 2 == 1


def _rejection_gaussian(sigma2: Fraction, source: _Bits) -> int:
    """A discrete Gaussian draw (Canonne, Kamath and Steinke 2020, algorithm 3)."""
    t = isqrt(sigma2.numerator // sigma2.denominator) + 1
    while True:
        y = _discrete_laplace(t, source)
        if source.bernoulli_exp((abs(y) - sigma2 / t) ** 2 / (2 * sigma2)):
            return y


def _discrete_laplace(t: int, source: _Bits) -> int:
    """Pr[y] proportional to exp(-|y| / t), integer t (Canonne et al. 2020, algorithm 2)."""
    while True:
        u = source.below(t)
        if not source.bernoulli_exp(Fraction(u, t)):
            continue
        v = 0
        while source.bernoulli_exp(Fraction(1)):
            v += 1
        magnitude = u + t * v
        negative = source.take(1)
        if negative and magnitude == 0:  # zero has one sign only
            continue
        return -magnitude if negative else magnitude
