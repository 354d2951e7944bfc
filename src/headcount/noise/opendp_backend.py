"""OpenDP's exact samplers behind the same interface; the reference, and selectable at run time.

OpenDP draws from the operating system and cannot be keyed: a draw can be made once only. **The
caller must write every measurement before using it**, and a resumed run must read it back.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import singledispatch
from math import inf, nextafter, sqrt
from typing import Any

import numpy as np

from headcount.arrays import Ints
from headcount.errors import PrivacyError
from headcount.noise.law import Law
from headcount.noise.laws import DiscreteGaussian, TwoSidedGeometric
from headcount.noise.source import DrawPositions, KeyKind, Stream, check_draws

AT_ONCE = 1 << 18
"""Values drawn with one call."""


class OpenDPNoise:
    """Noise from OpenDP (CKS 2020), on integers; a second request for the same draw is refused.

    OpenDP takes the scale as a float, which it reads as an exact fraction. The float used is the
    nearest one that is not below the scale asked for, so the loss is never more than stated.
    """

    key_kind = KeyKind.OS
    backend = "opendp"

    def __init__(self) -> None:
        self._drawn: dict[tuple[str, str, str], list[range]] = {}

    def draw(self, stream: Stream, law: Law, *, draws: range) -> Ints:
        """Every scalar of the given draws: an array ``(len(draws), stream.size)``."""
        sample = opendp_sampler(law)
        check_draws(stream, draws)
        self._refuse_again(stream, draws)
        values = np.empty(len(draws) * stream.size, dtype=np.int64)
        for start in range(0, values.size, AT_ONCE):  # OpenDP hands out Python's large integers
            into = values[start : start + AT_ONCE]
            into[:] = sample(into.size)
        return values.reshape(len(draws), stream.size)

    def draw_at(self, stream: Stream, law: Law, *, draw: int, index: DrawPositions) -> Ints:
        """Not offered: see the module."""
        raise PrivacyError(
            f"noise {stream.level}/{stream.query}: found positions asked of the opendp backend, "
            "expected a whole draw, written before use: OpenDP draws have no address to go back to"
        )

    def _refuse_again(self, stream: Stream, draws: range) -> None:
        """Refuse a draw that was made, and remember these; runs of them as one: there are many."""
        made = self._drawn.setdefault((stream.purpose, stream.level, stream.query), [])
        again = next((one for one in draws if any(one in past for past in made)), None)
        if again is not None:
            raise PrivacyError(
                f"noise {stream.level}/{stream.query}: found a second request for draw {again}, "
                "expected the measurement written the first time to be read: OpenDP draws "
                "cannot be repeated, and new noise on the same count spends again"
            )
        if made and made[-1].step == draws.step == 1 and made[-1].stop == draws.start:
            made[-1] = range(made[-1].start, draws.stop)
        else:
            made.append(draws)


def opendp_sampler(law: Law) -> Callable[[int], list[int]]:
    """A function that draws ``count`` values of the law with OpenDP."""
    measurement = opendp_measurement(law)

    def draw(count: int) -> list[int]:
        if count == 0:
            return []
        values: list[int] = measurement(np.zeros(count, dtype=np.int64))
        return values

    return draw


@singledispatch
def opendp_measurement(law: Law) -> Any:
    """OpenDP's measurement that adds noise of the law to a vector of integers."""
    raise PrivacyError(
        f"noise: found {law} with the opendp backend, expected a law that OpenDP draws by its "
        "scale: two-sided geometric or discrete Gaussian"
    )


@opendp_measurement.register
def _(law: TwoSidedGeometric) -> Any:
    dp, domain = _integers()
    return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=_scale(1 / law.rate, power=1))


@opendp_measurement.register
def _(law: DiscreteGaussian) -> Any:
    dp, domain = _integers()
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=_scale(law.sigma2, power=2))


def _integers() -> tuple[Any, Any]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp, dp.vector_domain(dp.atom_domain(T="i64"))


def _scale(wanted: Fraction, *, power: int) -> float:
    """The smallest float near the root of ``wanted`` whose power is not below it."""
    scale = sqrt(wanted) if power == 2 else float(wanted)
    while Fraction(scale) ** power < wanted:
        scale = nextafter(scale, inf)
    return scale
