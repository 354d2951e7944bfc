"""What the rest of headcount knows about noise: named streams, and a source that fills them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from headcount.errors import ConfigError

KeyKind = Literal["os", "seed"]

MEASUREMENT = "measurement"
"""The purpose of a stream unless it says otherwise: noise on answers to the user's queries."""

WORDS = 1 << 63
"""Words in one stream: addresses fit a signed 64-bit integer."""


@dataclass(frozen=True)
class Stream:
    """One addressable stream of noise.

    ``level``
        geography level.
    ``query``
        query name (``"cells"`` for the full histogram).
    ``size``
        scalars in one draw: units x cells of the level's public domain, unit-major.
    ``purpose``
        what the noise is for. Levels and queries are named by users; purposes are not, and two
        purposes never share noise, whatever the names.
    """

    level: str
    query: str
    size: int
    purpose: str = MEASUREMENT

    @property
    def address(self) -> tuple[str | int, ...]:
        """What tells this stream from all others of a run.

        That of another purpose is longer. Encoded with the number, kind and length of its parts
        (``keys.encode``), no choice of names makes it that of a measurement.
        """
        named = (self.level, self.query, self.size)
        return named if self.purpose == MEASUREMENT else (*named, self.purpose)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(
                f"noise stream {self.level}/{self.query}",
                place="size",
                found=str(self.size),
                expected="at least 1 scalar",
            )


class Noise(Protocol):
    """A source of exact integer noise.

    Every method returns signed 64-bit integers. A whole-stream method returns the array
    ``(len(draws), stream.size)``; an ``_at`` method returns the values of one draw at the
    positions ``index``, equal to what the whole draw holds there.
    """

    @property
    def key_kind(self) -> KeyKind:
        """``"os"`` for a private release, ``"seed"`` for a repeatable, not private, study."""

    @property
    def backend(self) -> str:
        """``"table"`` or ``"opendp"``."""

    def geometric(self, stream: Stream, *, epsilon: Fraction, draws: range) -> NDArray[np.int64]:
        """Two-sided geometric, Pr[k] proportional to exp(-epsilon |k|)."""

    def geometric_ratio(
        self, stream: Stream, *, ratio: Fraction, draws: range
    ) -> NDArray[np.int64]:
        """Two-sided geometric, Pr[k] proportional to ratio^|k|."""

    def gaussian(self, stream: Stream, *, variance: Fraction, draws: range) -> NDArray[np.int64]:
        """Discrete Gaussian, Pr[k] proportional to exp(-k^2 / (2 variance))."""

    def geometric_at(
        self, stream: Stream, *, epsilon: Fraction, draw: int, index: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The values of one draw of ``geometric`` at the positions ``index``."""

    def geometric_ratio_at(
        self, stream: Stream, *, ratio: Fraction, draw: int, index: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The values of one draw of ``geometric_ratio`` at the positions ``index``."""

    def gaussian_at(
        self, stream: Stream, *, variance: Fraction, draw: int, index: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The values of one draw of ``gaussian`` at the positions ``index``."""


def check_draws(stream: Stream, draws: range) -> None:
    """Refuse draw numbers outside the stream: they would repeat words."""
    if len(draws) and (min(draws) < 0 or (max(draws) + 1) * stream.size > WORDS):
        raise ConfigError(
            f"noise {stream.level}/{stream.query}",
            place="draws",
            found=f"{min(draws)}..{max(draws)}",
            expected=f"draws of {stream.size} scalars within words 0..2^63 - 1",
        )
