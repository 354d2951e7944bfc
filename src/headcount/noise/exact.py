"""Exact reference samplers, and ball (interval) arithmetic that certifies the fast ones.

The inversion of a growing prefix serves words that a table cannot decide, and every draw of a law
too wide for a table unless the law has a sampler of its own: a discrete Gaussian has the rejection
sampler of Canonne, Kamath and Steinke. Balls, which provably hold a number, are FLINT's ``arb``
(F. Johansson, "Arb: efficient arbitrary-precision midpoint-radius interval arithmetic", IEEE Trans.
Computers 66(8), 2017).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from math import isqrt
from threading import RLock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flint import arb

    from headcount.noise.laws import Law

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


class Bits:
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


def rejection_gaussian(sigma2: Fraction, source: Bits) -> int:
    """A discrete Gaussian draw (Canonne, Kamath and Steinke 2020, algorithm 3)."""
    t = isqrt(sigma2.numerator // sigma2.denominator) + 1
    while True:
        y = _discrete_laplace(t, source)
        if source.bernoulli_exp((abs(y) - sigma2 / t) ** 2 / (2 * sigma2)):
            return y


def _discrete_laplace(t: int, source: Bits) -> int:
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
