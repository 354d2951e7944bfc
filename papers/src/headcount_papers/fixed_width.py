"""Fixed-width text in bulk: whole lines block by block, fields as numbers, faults by line.

Hand-written because table readers load such a file whole, and do not say which line is wrong.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints
from headcount.errors import InputError
from headcount.population.pieces import WordPairs, mixed, records_digest

BLOCK_BYTES = 1 << 22
"""Bytes read at once: small enough to stay in a processor's cache, large enough for numpy."""

DIGITS = b"0123456789"
NEWLINE = 10
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Field:
    """Columns ``start`` to ``stop`` (from 0, end not included) and the bytes allowed there."""

    name: str
    start: int
    stop: int
    legal: bytes = DIGITS
    expected: str = "digits"


@dataclass(frozen=True, order=True)
class Fault:
    """Something wrong on one line; the earliest in the file sorts first."""

    line: int
    place: str = field(compare=False)
    found: str = field(compare=False)
    expected: str = field(compare=False)

    def error(self, source: str) -> InputError:
        """The error that names the file and the line, counted from 1."""
        place = f"line {self.line}" + (f", {self.place}" if self.place else "")
        return InputError(source, place=place, found=self.found, expected=self.expected)


@dataclass(frozen=True, eq=False)
class Lines:
    """Some whole lines: their bytes, where each begins, how long it is, and its number."""

    data: NDArray[np.uint8]
    start: Ints
    length: Ints
    number: Ints

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, chosen: slice | Flags) -> Lines:
        return Lines(self.data, self.start[chosen], self.length[chosen], self.number[chosen])

    def bytes_at(self, column: int) -> NDArray[np.uint8]:
        """One column of every line; the lines must be long enough."""
        return self.data[self.start + column]

    def text(self, line: int, start: int, stop: int) -> str:
        """Part of one line, for messages."""
        first = int(self.start[line])
        stop = min(stop, int(self.length[line]))
        return self.data[first + start : first + stop].tobytes().decode("latin-1")


def read_lines(path: Path, *, block_bytes: int = BLOCK_BYTES) -> Iterator[Lines]:
    """The lines of a text file, plain or gzip, in blocks; a last line may lack its line end."""
    name = str(path)
    if not path.is_file():
        raise InputError(name, found="no such file", expected="a fixed-width text file")
    before, tail = 0, b""
    for block in chain(_blocks(path, block_bytes), [b""]):
        if block:
            data = tail + block
            cut = data.rfind(b"\n") + 1
        else:  # the end: what is left is the last line
            data = tail + b"\n" * bool(tail)
            cut = len(data)
        tail = data[cut:]
        if len(tail) > block_bytes:
            raise InputError(
                name,
                place=f"line {before + data[:cut].count(NEWLINE) + 1}",
                found=f"no line end in {block_bytes:,} bytes",
                expected="lines of fixed width",
            )
        if cut:
            lines = _split(np.frombuffer(data, dtype=np.uint8, count=cut), before)
            before += len(lines)
            yield lines


def block_count(path: Path, *, block_bytes: int = BLOCK_BYTES) -> int | None:
    """How many blocks ``read_lines`` will read; not known of a gzip or missing file."""
    if not path.is_file() or _is_gzip(path):
        return None
    return -(-path.stat().st_size // block_bytes)


def _split(data: NDArray[np.uint8], before: int) -> Lines:
    end = np.flatnonzero(data == NEWLINE)
    start = np.concatenate([[0], end[:-1] + 1])
    return Lines(data, start, end - start, np.arange(before + 1, before + 1 + len(end)))


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    try:
        with _open(path) as stream:
            while block := stream.read(size):
                yield block
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            str(path),
            found=f"compressed content that breaks off or is damaged ({error})",
            expected="a whole gzip file",
        ) from None


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path, "rb") if _is_gzip(path) else path.open("rb")


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(_GZIP)) == _GZIP


def numbers(lines: Lines, fields: Sequence[Field]) -> tuple[Mapping[str, Ints], Fault | None]:
    """Each field of every line as a number, and the first fault: a byte that is not legal.

    Numbers on lines with a fault mean nothing.
    """
    values: dict[str, Ints] = {}
    faults: list[Fault] = []
    for item in fields:
        legal = np.zeros(256, dtype=bool)
        legal[list(item.legal)] = True
        good = np.ones(len(lines), dtype=bool)
        value = np.zeros(len(lines), dtype=np.int64)
        for column in range(item.start, item.stop):
            byte = lines.bytes_at(column)
            good &= legal[byte]
            value = value * 10 + (byte - np.uint8(DIGITS[0]))
        values[item.name] = value
        if not good.all():
            line = int(np.argmin(good))
            found = repr(lines.text(line, item.start, item.stop))
            faults.append(Fault(int(lines.number[line]), item.name, found, item.expected))
    return values, min(faults, default=None)


def lines_digest(path: Path) -> str:
    """The digest of the lines of a fixed-width file, in blocks: memory does not grow with it."""
    return records_digest(_of_lines(lines) for lines in read_lines(path))


def _of_lines(lines: Lines) -> WordPairs:
    """Two words for each line, whatever its length."""
    words = np.zeros((2, len(lines)), dtype=np.uint64)
    for length in np.unique(lines.length).tolist():
        chosen = np.flatnonzero(lines.length == length)
        padded = np.zeros((len(chosen), -(-length // 8) * 8), dtype=np.uint8)
        padded[:, :length] = lines.data[lines.start[chosen, None] + np.arange(length)]
        pieces = padded.view("<u8").astype(np.uint64)
        for lane in range(2):
            places = mixed(np.arange(1, pieces.shape[1] + 1, dtype=np.uint64) + (lane << 32))
            words[lane, chosen] = mixed(pieces ^ places).sum(axis=1, dtype=np.uint64) + length
    return words
