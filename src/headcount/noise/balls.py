"""Ball arithmetic: real numbers as intervals that provably hold them.

Balls are FLINT's ``arb`` (F. Johansson, "Arb: efficient arbitrary-precision midpoint-radius
interval arithmetic", IEEE Trans. Computers 66(8), 2017).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from threading import RLock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flint import arb

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
