"""What the rest of headcount knows about noise: named streams, and a source that fills them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from headcount.arrays import Ints
from headcount.errors import ConfigError
from headcount.noise.law import Law


class KeyKind(StrEnum):
    """Where the key of the noise came from."""

    OS = "os"
    """256 bits from the operating system, destroyed when the release is complete."""

    SEED = "seed"
    """The user's seed: the run can be repeated, and is not private."""


MEASUREMENT = "measurement"
"""The purpose of a stream unless it says otherwise: noise on answers to the user's queries."""

DrawPositions: TypeAlias = Ints | range
"""Places in a draw: in any order, or a run of neighbours, which is drawn much faster."""

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
        (``_keys.encode``), no choice of names makes it that of a measurement.
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
    """A source of exact integer noise: signed 64-bit integers that follow a law."""

    @property
    def key_kind(self) -> KeyKind:
        """``"os"`` for a private release, ``"seed"`` for a repeatable, not private, study."""

    @property
    def backend(self) -> str:
        """What receipts call the sampler: ``"table"``."""

    def draw(self, stream: Stream, law: Law, *, draws: range) -> Ints:
        """Every scalar of the given draws: an array ``(len(draws), stream.size)``."""

    def draw_at(self, stream: Stream, law: Law, *, draw: int, index: DrawPositions) -> Ints:
        """One draw at the positions ``index``, equal to what the whole draw holds there."""


def check_draws(stream: Stream, draws: range) -> None:
    """Refuse draw numbers outside the stream: they would repeat words."""
    if len(draws) and (min(draws) < 0 or (max(draws) + 1) * stream.size > WORDS):
        raise ConfigError(
            f"noise {stream.level}/{stream.query}",
            place="draws",
            found=f"{min(draws)}..{max(draws)}",
            expected=f"draws of {stream.size} scalars within words 0..2^63 - 1",
        )
