"""The noise of the code of Flaxman (2019) and Petti & Flaxman (2020), and what it really costs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log1p
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headcount.domain import Domain
from headcount.errors import PrivacyError
from headcount.mechanisms import Context, CountsOutcome, Design, PostTabular, TablesOutcome
from headcount.noise import KeyKind, Law, Noise, Stream, TwoSidedGeometric
from headcount.noise.laws import SMALLEST, enclose, exact_parameter
from headcount.noise.source import DrawPositions
from headcount.privacy import Guarantee
from headcount.tabulate import Counts

if TYPE_CHECKING:
    from flint import arb


@dataclass(frozen=True)
class GeometricByRatio(Law):
    """Two-sided geometric by a rational ratio: Pr[X = k] = (1 - ratio) / (1 + ratio) ratio^|k|.

    Its loss is -ln(ratio) for each count moved, no rational number: no plan can state it, and no
    release can be made with it.
    """

    ratio: Fraction

    name = "two-sided geometric by its ratio"
    kind = "geometric"

    def __post_init__(self) -> None:
        ratio = exact_parameter(self.ratio, "ratio", low=SMALLEST, high=1 - SMALLEST)
        object.__setattr__(self, "ratio", ratio)

    @property
    def key_parts(self) -> tuple[str | int, ...]:
        """Named "ratio"."""
        return ("ratio", self.ratio.numerator, self.ratio.denominator)

    @property
    def variance(self) -> float:
        """2 ratio / (1 - ratio)^2."""
        return float(2 * self.ratio / (1 - self.ratio) ** 2)

    def survival(self, k: int) -> arb:
        """Enclose Pr[|X| > k] = 2 ratio^(k+1) / (1 + ratio)."""
        ratio = enclose(self.ratio)
        return 2 * ratio ** (k + 1) / (1 + ratio)

    def exact_survival(self, k: int) -> Fraction:
        """The same, exactly."""
        return 2 * self.ratio ** (k + 1) / (1 + self.ratio)


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
    can draw it, by ``AsPublished``, whose releases promise nothing. No mechanism that promises can
    be released with it: a release asks its noise for the kind of its key, and this refuses to tell.
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

    def draw(self, stream: Stream, law: Law, *, draws: range) -> NDArray[np.int64]:
        """Geometric noise with ratio 1 - rate; other laws as the base draws them."""
        return self.base.draw(stream, _published(law), draws=draws)

    def draw_at(
        self, stream: Stream, law: Law, *, draw: int, index: DrawPositions
    ) -> NDArray[np.int64]:
        """Some values of one draw."""
        return self.base.draw_at(stream, _published(law), draw=draw, index=index)


@dataclass(frozen=True)
class AsPublished(PostTabular):
    """A counting mechanism with the noise of the paper's code in place of its own."""

    inner: PostTabular
    name = "as published"

    def on(self, domain: Domain) -> Design:
        """No guarantee: what a draw loses is no fraction, and more than the epsilon stated."""
        none = "the noise of the paper's code loses -ln(1 - epsilon) where it states epsilon"
        inner = self.inner.on(domain)
        return AsPublishedDesign(
            method=self, domain=domain, guarantee=Guarantee.none(none), inner=inner
        )

    def run(
        self,
        design: AsPublishedDesign,
        counts: Counts,
        noise: Noise,
        *,
        runs: range,
        context: Context,
    ) -> CountsOutcome | TablesOutcome:
        """As the mechanism, with that noise."""
        return design.inner.run(counts, PublishedNoise(noise), runs=runs, context=context)


@dataclass(frozen=True, kw_only=True, eq=False)
class AsPublishedDesign(Design):
    """A design without a plan of its own, for its noise has no loss."""

    inner: Design

    @property
    def drawn_bytes(self) -> int:
        """As the mechanism's."""
        return self.inner.drawn_bytes


def _published(law: Law) -> Law:
    return GeometricByRatio(1 - _share(law.rate)) if isinstance(law, TwoSidedGeometric) else law


def _share(epsilon: Fraction) -> Fraction:
    if not 0 < epsilon < 1:
        raise PrivacyError(
            f"published variant of flaxman-2019: found epsilon {epsilon} in one draw, expected "
            "more than 0 and less than 1: it is used as a probability"
        )
    return epsilon
