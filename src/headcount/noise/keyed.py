"""Noise as a pure function of (run key, mechanism, data, config, level, query, law, draw, place).

One word of a cipher stream makes one draw, and word number = draw * stream.size + position, so
the order of the work, its chunks and its processes cannot matter, and noise need not be stored.
Certified tables hold the integer cut points by which one word becomes one draw.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count, islice
from threading import Lock
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints, Ints32
from headcount.errors import ConfigError, PrivacyError
from headcount.noise.laws import Law, invert, precision
from headcount.noise.source import (
    CHUNK,
    DrawPositions,
    KeyKind,
    RunKey,
    Stream,
    Words,
    check_draws,
    derive_key,
    encode,
    lookup,
)

SAMPLER_VERSION = 1
"""Part of every key: a change of sampler gives unrelated noise, never a second use of the same."""

FEW = 32
"""Draws of one stream that are made without a table: a wide law's takes as long as thousands."""

ServedBy = Literal["table", "slow"]

_INT64 = np.dtype(np.int64)
_log = logging.getLogger(__name__)
TABLE_LIMIT = 1 << 20
"""Most thresholds a table may have (8 MiB): geometric to scale 24,000, Gaussian to sigma 110,000.

Beyond it the exact slow sampler takes over."""

_GUIDE_BITS = 16
_PRECISIONS = (192, 512, 2048, 8192)


@dataclass(frozen=True, eq=False)
class _CutPoints:
    """Thresholds of one law for words of one width, with a guide that makes look-ups short.

    ``thresholds[k]`` = floor(2^(word_bits - 1) Pr[|X| <= k]), the last being 2^(word_bits - 1) - 1.
    ``guide``, ``shift``, ``drop``: see ``words.lookup``.
    """

    thresholds: NDArray[np.uint64]
    guide: Ints32
    shift: np.uint64
    drop: np.uint64


@lru_cache(maxsize=256)
def build_table(law: Law, *, word_bits: int = 64, limit: int = TABLE_LIMIT) -> _CutPoints | None:
    """The table of a law, or None if it needs more than ``limit`` thresholds."""
    thresholds = certify_thresholds(law, bits=word_bits - 1, limit=limit)
    if thresholds is None:
        return None
    guide_bits = min(_GUIDE_BITS, word_bits - 1)
    shift = word_bits - 1 - guide_bits
    edges = np.arange((1 << guide_bits) + 1, dtype=np.uint64) << np.uint64(shift)
    below = np.searchsorted(thresholds, edges, side="left").astype(np.int32)
    holds = below[1:] > below[:-1]
    guide = below.copy()
    guide[:-1][holds] = ~below[:-1][holds]
    for array in (thresholds, guide):
        array.setflags(write=False)
    return _CutPoints(thresholds, guide, shift=np.uint64(shift), drop=np.uint64(64 - word_bits))


@lru_cache(maxsize=256)
def _has_table(law: Law, *, word_bits: int = 64, limit: int = TABLE_LIMIT) -> bool:
    """Whether the law has a table, without making it if a look at the last threshold tells."""
    whole = 1 << (word_bits - 1)
    with precision(_PRECISIONS[0]):
        if law.survival_below(limit - 1) * whole > 1:
            return False
        rest = law.survival(limit - 1)
        # A ball above 0 is enough: the exact number has millions of digits.
        if rest * whole <= 1 and (rest > 0 or law.exact_survival(limit - 1) != 0):
            return True
    return build_table(law, word_bits=word_bits, limit=limit) is not None


def certify_thresholds(law: Law, *, bits: int, limit: int) -> NDArray[np.uint64] | None:
    """floor(2^bits Pr[|X| <= k]) for k = 0, 1, ... up to the first that equals 2^bits - 1.

    Each floor is certified: the whole ball that encloses the real number has that floor. Otherwise
    the precision grows. None if more than ``limit`` are needed.
    """
    for digits in _PRECISIONS:
        with precision(digits):
            if law.survival_below(limit - 1) * (1 << bits) > 1:
                return None
            values = _floors(law, bits=bits, limit=limit)
        if values is None:
            continue
        if values[-1] != (1 << bits) - 1:
            return None
        return np.array(values, dtype=np.uint64)
    raise PrivacyError(
        f"The noise table of {law} cannot be certified: a threshold lies too near to an integer "
        f"for {_PRECISIONS[-1]} bits."
    )


def _floors(law: Law, *, bits: int, limit: int) -> list[int] | None:
    """One attempt at the current precision; None if any floor is not certified."""
    whole = 1 << bits
    values: list[int] = []
    for k, survival in zip(count(), islice(law.survivals(), limit), strict=False):
        # The floor of 1 - s by the ceiling of s: a tail far below the precision still has one.
        above = (whole * survival).ceil().unique_fmpz()
        if above is not None:
            value = whole - int(above)
        elif (exact := law.exact_survival(k)) is not None:
            value = int(whole * (1 - exact) // 1)
        else:
            return None
        values.append(value)
        if value == whole - 1:
            break
    return values


@dataclass(eq=False)
class _Source:
    """One stream with one law: its words and, unless the law is too wide, a table.

    A table is made when more than a few draws are asked for. It and inversion make the same draw of
    a word.
    """

    stream: Stream
    law: Law
    words: Words
    _has_table: bool
    word_bits: int
    limit: int
    drawn: int = 0
    table: _CutPoints | None = None
    making: Lock = field(default_factory=Lock)

    def table_for(self, more: int) -> _CutPoints | None:
        """The table, if there is one and so many draws more are worth it."""
        with self.making:  # or threads that begin together would each make the table
            self.drawn += more
            if self.table is None and self._has_table and self.drawn > FEW:
                self.table = build_table(self.law, word_bits=self.word_bits, limit=self.limit)
        return self.table

    @property
    def name(self) -> str:
        return f"noise {self.stream.level}/{self.stream.query}"


class KeyedNoise:
    """Exact noise from certified tables, addressed by counter.

    ``word_bits`` below 64 exists to test the slow path, where short words make it common.
    ``served`` tells, for each (level, query), whether tables or the slow sampler made its noise.
    """

    backend = "table"

    def __init__(
        self,
        run_key: RunKey,
        mechanism: str,
        data_digest: bytes,
        config_digest: bytes,
        *,
        word_bits: int = 64,
        table_limit: int = TABLE_LIMIT,
    ) -> None:
        if not 2 <= word_bits <= 64:
            raise ConfigError("noise", place="word_bits", found=str(word_bits), expected="2 to 64")
        self.key_kind: KeyKind = run_key.kind
        self.served: dict[tuple[str, str], ServedBy] = {}
        self._made_from = (run_key, mechanism, data_digest, config_digest)
        self._word_bits = word_bits
        self._table_limit = table_limit
        self._stream_key = derive_key(
            run_key.material,
            encode("stream key", mechanism, data_digest, config_digest, SAMPLER_VERSION, word_bits),
        )
        self._sources: dict[tuple[str | int, ...], _Source] = {}
        self._making = Lock()

    @property
    def data_digest(self) -> bytes:
        """Digest of the one dataset this noise is for."""
        return self._made_from[2]

    def __repr__(self) -> str:
        run_key, mechanism, *_ = self._made_from
        return f"KeyedNoise({run_key!r}, {mechanism!r}, ...)"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (*self._made_from, self._word_bits, self._table_limit))

    def draw(self, stream: Stream, law: Law, *, draws: range) -> Ints:
        """Every scalar of the given draws: an array ``(len(draws), stream.size)``."""
        source = self._source(stream, law)
        size = stream.size
        out = np.empty((len(draws), size), dtype=np.int64)
        if draws.step == 1:  # neighbouring draws are one run of words
            check_draws(stream, draws)
            _fill_run(source, draws.start * size, out.reshape(-1))
        else:
            for row, draw in enumerate(draws):
                check_draws(stream, range(draw, draw + 1))
                _fill_run(source, draw * size, out[row])
        return out

    def draw_at(self, stream: Stream, law: Law, *, draw: int, index: DrawPositions) -> Ints:
        """One draw at the positions ``index``, equal to what the whole draw holds there."""
        source = self._source(stream, law)
        check_draws(stream, range(draw, draw + 1))
        if isinstance(index, range):
            return _draw_run(source, draw * stream.size, index)
        if index.dtype != _INT64 or index.ndim != 1:
            raise ConfigError(
                source.name,
                place="index",
                found=f"{index.ndim}-dimensional {index.dtype}",
                expected="a list of int64 positions",
            )
        base = draw * stream.size
        out = np.empty(index.size, dtype=np.int64)
        for start in range(0, index.size, CHUNK):
            part = index[start : start + CHUNK]
            try:
                words = source.words.at(part, base, stream.size)
            except IndexError as error:
                raise _outside(source, str(error).removeprefix("found ")) from None
            into = out[start : start + CHUNK]
            for i in _look_up(source, words, into):
                into[i] = _slowly(source, base + int(part[i]), int(words[i]))
        return out

    def _source(self, stream: Stream, law: Law) -> _Source:
        """Derive the stream's keys, with the law bound in: two laws never share a word."""
        # The purpose comes last: parts are counted, so that a longer address is another one.
        named, purpose = stream.address[:3], stream.address[3:]
        address = (law.kind, *named, *law.key_parts, *purpose)
        with self._making:
            if (source := self._sources.get(address)) is None:
                source = self._sources[address] = self._made(stream, law, address)
        return source

    def _made(self, stream: Stream, law: Law, address: tuple[str | int, ...]) -> _Source:
        words = Words(
            key=derive_key(self._stream_key, encode("words", *address)),
            extension_key=derive_key(self._stream_key, encode("extension", *address)),
        )
        narrow = _has_table(law, word_bits=self._word_bits, limit=self._table_limit)
        source = _Source(stream, law, words, narrow, self._word_bits, self._table_limit)
        self.served[(stream.level, stream.query)] = "table" if narrow else "slow"
        if not narrow:
            _log.warning(
                "%s: %s needs a table of more than %d thresholds; the exact slow sampler serves it",
                source.name,
                law,
                self._table_limit,
            )
        return source


def served_by(law: Law) -> ServedBy:
    """Whether a table or the slow sampler makes the noise of a law; makes the table."""
    return "table" if build_table(law) is not None else "slow"


def _rebuild(
    run_key: RunKey, mechanism: str, data: bytes, config: bytes, word_bits: int, limit: int
) -> KeyedNoise:
    return KeyedNoise(run_key, mechanism, data, config, word_bits=word_bits, table_limit=limit)


def _draw_run(source: _Source, base: int, index: range) -> Ints:
    """The draw whose first word is number ``base``, at positions in a row."""
    size = source.stream.size
    if index.step != 1 or not 0 <= index.start <= index.stop <= size:
        raise _outside(source, f"{index} of 0..{size - 1}")
    out = np.empty(len(index), dtype=np.int64)
    _fill_run(source, base + index.start, out)
    return out


def _outside(source: _Source, found: str) -> ConfigError:
    expected = "positions inside the stream"
    return ConfigError(source.name, place="index", found=found, expected=expected)


def _fill_run(source: _Source, start: int, out: Ints) -> None:
    """Fill ``out`` from the words that begin at number ``start``."""
    done = 0
    for words in source.words.run(start, out.size):
        into = out[done : done + words.size]
        for i in _look_up(source, words, into):
            into[i] = _slowly(source, start + done + int(i), int(words[i]))
        done += words.size


def _look_up(source: _Source, words: NDArray[np.uint64], out: Ints) -> Ints:
    """Decide the words by table; returns the positions that stay open."""
    table = source.table_for(words.size)
    if table is None:
        return np.arange(words.size, dtype=np.int64)
    undecided = np.empty(words.size, dtype=np.int64)
    found = lookup(words, table.drop, table.thresholds, table.guide, table.shift, out, undecided)
    return undecided[:found]


def _slowly(source: _Source, number: int, word: int) -> int:
    """The draw of word ``number``, exactly, with as many extension words as it takes."""
    drop = 64 - source.word_bits
    extension = (more >> drop for more in source.words.extension(number))
    if not source._has_table:
        return source.law.without_table(word >> drop, bits=source.word_bits, extension=extension)
    return invert(source.law, word >> drop, bits=source.word_bits, extension=extension)
