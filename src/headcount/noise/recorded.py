"""Noise that cannot be drawn again is written down before it is used, and read back on resume."""

from __future__ import annotations

import io
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from tokenize import TokenError

import numpy as np

from headcount.arrays import Ints
from headcount.errors import RunError
from headcount.files import write_bytes_atomic
from headcount.noise._keys import encode
from headcount.noise.law import Law
from headcount.noise.source import DrawPositions, KeyKind, Noise, Stream

DIGEST_BYTES = 32


@dataclass(frozen=True)
class AllWritten:
    """A source with nothing left to draw: every draw is on disk."""

    key_kind: KeyKind
    backend: str

    def draw(self, stream: Stream, law: Law, *, draws: range) -> Ints:
        """An error: draws are made by the process that began the run."""
        raise RunError(
            f"noise {stream.level}/{stream.query}: found no record of this draw, expected the one "
            f"that was written before work was handed out"
        )

    def draw_at(self, stream: Stream, law: Law, *, draw: int, index: DrawPositions) -> Ints:
        """The same."""
        return self.draw(stream, law, draws=range(draw, draw + 1))


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
        self._sound: set[Path] = set()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def __reduce__(self) -> tuple[object, ...]:
        # Another process reads what is written, and draws nothing: two would draw twice.
        written = AllWritten(self.key_kind, self.backend)
        return (RecordedNoise, (written, self._folder.absolute()))

    def draw(self, stream: Stream, law: Law, *, draws: range) -> Ints:
        """Every scalar of the given draws, drawn once."""
        return self._once(stream, law, draws)

    def draw_at(self, stream: Stream, law: Law, *, draw: int, index: DrawPositions) -> Ints:
        """Positions of a whole recorded draw."""
        # Mapped, not read: a thread that asks for some positions need not hold the whole.
        whole = self._once(stream, law, range(draw, draw + 1), mapped=True)
        at = slice(index.start, index.stop) if isinstance(index, range) else index
        return np.array(whole[0, at])

    def _once(self, stream: Stream, law: Law, draws: range, *, mapped: bool = False) -> Ints:
        named, purpose = stream.address[:3], stream.address[3:]
        which = (draws.start, draws.stop, draws.step)
        name = encode(law.kind, *law.key_parts, *named, *which, *purpose)
        path = self._folder / f"{sha256(name).hexdigest()[:32]}.npy"
        with self._drawing:  # two threads at once would each use a draw of their own
            if not path.exists():
                buffer = io.BytesIO()
                np.save(buffer, self._source.draw(stream, law, draws=draws))
                data = buffer.getvalue()
                write_bytes_atomic(path, data + sha256(data).digest())  # numpy reads no further
                self._sound.add(path)
            if path not in self._sound:
                _refuse_damaged(path)
                self._sound.add(path)
        try:
            noise: Ints = np.load(path, mmap_mode="r" if mapped else None)
        except (ValueError, EOFError, SyntaxError, TokenError):  # numpy parses the header
            raise _damaged(path) from None
        return noise


def _refuse_damaged(path: Path) -> None:
    """Refuse a file that does not end in the digest of what is before."""
    left, hasher = path.stat().st_size - DIGEST_BYTES, sha256()
    with path.open("rb") as file:
        while left > 0 and (some := file.read(min(left, 1 << 20))):
            hasher.update(some)
            left -= len(some)
        if left or file.read() != hasher.digest():
            raise _damaged(path)


def _damaged(path: Path) -> RunError:
    return RunError(f"{path}: found a damaged file, expected recorded noise")
