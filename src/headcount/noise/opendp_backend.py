"""OpenDP's exact samplers behind the same interface; the reference, and selectable at run time.

OpenDP draws from the operating system and cannot be keyed: a draw can be made once only. **The
caller must write every measurement before using it**, and a resumed run must read it back.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf, nextafter, sqrt
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from headcount.errors import PrivacyError
from headcount.noise.laws import Gaussian, Geometric, Law, exact
from headcount.noise.source import KeyKind, Stream, check_draws

AT_ONCE = 1 << 18
"""Values drawn with one call."""


class OpenDPNoise:
    """Noise from OpenDP (CKS 2020), on integers; a second request for the same draw is refused.

    OpenDP takes the scale as a float, which it reads as an exact fraction. The float used is the
    nearest one that is not below the scale asked for, so the loss is never more than stated.
    """

    key_kind: KeyKind = "os"
    backend = "opendp"

    def __init__(self) -> None:
        self._drawn: dict[tuple[str, str, str], list[range]] = {}

    def geometric(self, stream: Stream, *, epsilon: Fraction, draws: range) -> NDArray[np.int64]:
        """Two-sided geometric, Pr[k] proportional to exp(-epsilon |k|); (len(draws), size)."""
        return self._draw(stream, Geometric("epsilon", exact(epsilon)), draws)

    def gaussian(self, stream: Stream, *, variance: Fraction, draws: range) -> NDArray[np.int64]:
        """Discrete Gaussian, Pr[k] proportional to exp(-k^2 / (2 variance)); (len(draws), size)."""
        return self._draw(stream, Gaussian(exact(variance)), draws)

    def geometric_ratio(
        self, stream: Stream, *, ratio: Fraction, draws: range
    ) -> NDArray[np.int64]:
        """Not offered: a rational ratio has an irrational scale, which OpenDP cannot take."""
        raise PrivacyError(
            f"noise {stream.level}/{stream.query}: found ratio {ratio} with the opendp backend, "
            "expected epsilon: OpenDP takes a scale, and 1 / -log(ratio) has no exact value"
        )

    def geometric_at(
        self, stream: Stream, *, epsilon: Fraction, draw: int, index: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Not offered: see the module."""
        _refuse_address(stream, "geometric_at")

    def geometric_ratio_at(
        self, stream: Stream, *, ratio: Fraction, draw: int, index: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Not offered: see the module."""
        _refuse_address(stream, "geometric_ratio_at")

    def gaussian_at(
        self, stream: Stream, *, variance: Fraction, draw: int, index: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Not offered: see the module."""
        _refuse_address(stream, "gaussian_at")

    def _draw(self, stream: Stream, law: Law, draws: range) -> NDArray[np.int64]:
        check_draws(stream, draws)
        self._refuse_again(stream, draws)
        values = np.empty(len(draws) * stream.size, dtype=np.int64)
        sample = opendp_sampler(law)
        for start in range(0, values.size, AT_ONCE):  # OpenDP hands out Python's large integers
            into = values[start : start + AT_ONCE]
            into[:] = sample(into.size)
        return values.reshape(len(draws), stream.size)

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
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if isinstance(law, Gaussian):
        measure = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=_scale(law))
    else:
        measure = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=_scale(law))

    def draw(count: int) -> list[int]:
        if count == 0:
            return []
        values: list[int] = measure(np.zeros(count, dtype=np.int64))
        return values

    return draw


def _scale(law: Law) -> float:
    """The smallest float near the law's scale that is not below it."""
    power = 2 if isinstance(law, Gaussian) else 1
    wanted = law.parameter if isinstance(law, Gaussian) else 1 / law.parameter
    scale = sqrt(wanted) if power == 2 else float(wanted)
    while Fraction(scale) ** power < wanted:
        scale = nextafter(scale, inf)
    return scale


def _refuse_address(stream: Stream, method: str) -> NoReturn:
    raise PrivacyError(
        f"noise {stream.level}/{stream.query}: found {method} with the opendp backend, expected a "
        "whole draw, written before use: OpenDP draws have no address to go back to"
    )
