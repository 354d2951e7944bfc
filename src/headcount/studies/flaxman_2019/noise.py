"""The noise of the paper's code, which exists in this study only, and what it really costs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log1p

import numpy as np
from numpy.typing import NDArray

from headcount.errors import PrivacyError
from headcount.noise import KeyKind, Noise, Stream


def published_loss(epsilon: Fraction, *, shares: int = 1) -> float:
    """The true loss of a mechanism that spends ``epsilon`` in equal shares on published noise.

        n x -ln(1 - epsilon / n)

    where
        n   shares; one person added or removed moves one count of each share by 1

    It is above epsilon: by 5 % for one share of 0.1, and without bound as a share nears 1.
    """
    return -shares * log1p(-float(_share(epsilon / shares)))


@dataclass(frozen=True)
class PublishedNoise:
    """Geometric noise as drawn by the code of Flaxman (2019).

    That code passes epsilon as the success probability p of two one-sided geometric draws, whose
    difference has

        Pr[k] proportional to (1 - p)^|k|,    p = epsilon

    where the geometric mechanism has exp(-epsilon |k|). So each draw costs -ln(1 - epsilon), more
    than the epsilon asked for. The published figures match only this noise, therefore the study
    can draw it; no release can be made with it, because a release asks its noise for the kind of
    its key and this noise refuses to tell.
    """

    base: Noise
    backend: str = "published variant of flaxman-2019"

    @property
    def key_kind(self) -> KeyKind:
        """Refused: only a release asks, and there is none with this noise."""
        raise PrivacyError(
            "noise: found the published variant of flaxman-2019 in a release, expected the exact "
            "mechanism: the published variant loses -ln(1 - epsilon), more than the epsilon stated"
        )

    def geometric(self, stream: Stream, *, epsilon: Fraction, draws: range) -> NDArray[np.int64]:
        """Two-sided geometric with ratio 1 - epsilon."""
        return self.base.geometric_ratio(stream, ratio=1 - _share(epsilon), draws=draws)

    def geometric_at(
        self, stream: Stream, *, epsilon: Fraction, draw: int, index: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Some values of one draw of ``geometric``."""
        ratio = 1 - _share(epsilon)
        return self.base.geometric_ratio_at(stream, ratio=ratio, draw=draw, index=index)

    def geometric_ratio(
        self, stream: Stream, *, ratio: Fraction, draws: range
    ) -> NDArray[np.int64]:
        """As the base draws it: a ratio is not an epsilon."""
        return self.base.geometric_ratio(stream, ratio=ratio, draws=draws)

    def geometric_ratio_at(
        self, stream: Stream, *, ratio: Fraction, draw: int, index: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """As the base draws it."""
        return self.base.geometric_ratio_at(stream, ratio=ratio, draw=draw, index=index)

    def gaussian(self, stream: Stream, *, variance: Fraction, draws: range) -> NDArray[np.int64]:
        """As the base draws it."""
        return self.base.gaussian(stream, variance=variance, draws=draws)

    def gaussian_at(
        self, stream: Stream, *, variance: Fraction, draw: int, index: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """As the base draws it."""
        return self.base.gaussian_at(stream, variance=variance, draw=draw, index=index)


def _share(epsilon: Fraction) -> Fraction:
    if not 0 < epsilon < 1:
        raise PrivacyError(
            f"published variant of flaxman-2019: found epsilon {epsilon} in one draw, expected "
            "more than 0 and less than 1: it is used as a probability"
        )
    return epsilon
