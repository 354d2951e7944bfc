"""Noise that cannot be drawn again is written down before it is used, and read back on resume."""

from __future__ import annotations

import io
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from threading import Lock
from tokenize import TokenError

import numpy as np
from numpy.typing import NDArray

from headcount.errors import RunError
from headcount.files import write_bytes_atomic
from headcount.noise.keys import encode
from headcount.noise.source import KeyKind, Noise, Stream


class RecordedNoise:
    """A source whose every draw is on disk before anyone sees it, so that a resumed run reuses it.

    The folder is as secret as a run key: noise plus measurements is the truth. ``destroy`` it when
    the release is complete.
    """

    def __init__(self, source: Noise, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self.key_kind: KeyKind = source.key_kind
        self.backend = source.backend
        self._drawing = Lock()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def geometric(self, stream: Stream, *, epsilon: Fraction, draws: range) -> NDArray[np.int64]:
        """Two-sided geometric noise, drawn once."""
        return self._once(
            ("geometric", epsilon, stream, draws),
            lambda: self._source.geometric(stream, epsilon=epsilon, draws=draws),
        )

    def geometric_ratio(
        self, stream: Stream, *, ratio: Fraction, draws: range
    ) -> NDArray[np.int64]:
        """Two-sided geometric noise by its ratio, drawn once."""
        return self._once(
            ("geometric_ratio", ratio, stream, draws),
            lambda: self._source.geometric_ratio(stream, ratio=ratio, draws=draws),
        )

    def gaussian(self, stream: Stream, *, variance: Fraction, draws: range) -> NDArray[np.int64]:
        """Discrete Gaussian noise, drawn once."""
        return self._once(
            ("gaussian", variance, stream, draws),
            lambda: self._source.gaussian(stream, variance=variance, draws=draws),
        )

    def geometric_at(
        self, stream: Stream, *, epsilon: Fraction, draw: int, index: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Positions of a whole recorded draw."""
        draws = range(draw, draw + 1)
        whole = self._once(
            ("geometric", epsilon, stream, draws),
            lambda: self._source.geometric(stream, epsilon=epsilon, draws=draws),
            mapped=True,
        )
        return np.array(whole[0, index])

    def geometric_ratio_at(
        self, stream: Stream, *, ratio: Fraction, draw: int, index: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Positions of a whole recorded draw."""
        draws = range(draw, draw + 1)
        whole = self._once(
            ("geometric_ratio", ratio, stream, draws),
            lambda: self._source.geometric_ratio(stream, ratio=ratio, draws=draws),
            mapped=True,
        )
        return np.array(whole[0, index])

    def gaussian_at(
        self, stream: Stream, *, variance: Fraction, draw: int, index: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Positions of a whole recorded draw."""
        draws = range(draw, draw + 1)
        whole = self._once(
            ("gaussian", variance, stream, draws),
            lambda: self._source.gaussian(stream, variance=variance, draws=draws),
            mapped=True,
        )
        return np.array(whole[0, index])

    def _once(
        self,
        address: tuple[str, Fraction, Stream, range],
        draw: Callable[[], NDArray[np.int64]],
        *,
        mapped: bool = False,
    ) -> NDArray[np.int64]:
        kind, parameter, stream, draws = address
        named, purpose = stream.address[:3], stream.address[3:]
        name = encode(kind, str(parameter), *named, draws.start, draws.stop, *purpose)
        path = self._folder / f"{sha256(name).hexdigest()[:32]}.npy"
        with self._drawing:  # two threads at once would each use a draw of their own
            if not path.exists():
                buffer = io.BytesIO()
                np.save(buffer, draw())
                write_bytes_atomic(path, buffer.getvalue())
        try:
            # Mapped, not read: a thread that asks for some positions need not hold the whole.
            noise: NDArray[np.int64] = np.load(path, mmap_mode="r" if mapped else None)
        except (ValueError, EOFError, SyntaxError, TokenError):  # numpy parses the header
            raise RunError(f"{path}: found a damaged file, expected recorded noise") from None
        return noise
