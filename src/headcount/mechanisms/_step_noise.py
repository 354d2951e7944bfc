"""Keyed noise streams for each step of a chain, and random generators that they seed.

These are for steps that need more than noise on counts: a permutation, a sample. Any source of
noise will do, and the same key, data and run give the same draws.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from hashlib import sha256

import numpy as np

from headcount.arrays import Ints
from headcount.noise import KeyKind, Law, Noise, Stream, TwoSidedGeometric
from headcount.noise.source import MEASUREMENT, DrawPositions
from headcount.noise.words import Words, derive_key


class StepNoise:
    """The noise of one step of a chain: streams of other steps have other purposes."""

    def __init__(self, source: Noise, label: str) -> None:
        self._source, self._label = source, label
        self.key_kind: KeyKind = source.key_kind
        self.backend = source.backend

    def _own(self, stream: Stream) -> Stream:
        inner = "" if stream.purpose == MEASUREMENT else f", {stream.purpose}"
        return replace(stream, purpose=f"{self._label}{inner}")

    def draw(self, stream: Stream, law: Law, *, draws: range) -> Ints:
        """Whole draws of a law, for the step."""
        return self._source.draw(self._own(stream), law, draws=draws)

    def draw_at(self, stream: Stream, law: Law, *, draw: int, index: DrawPositions) -> Ints:
        """Some values of one draw of a law, for the step."""
        return self._source.draw_at(self._own(stream), law, draw=draw, index=index)


SEED_DRAWS = 256
"""Geometric draws in a seed, with at least 1.1 bits of chance each: 280 in all."""


def generator(noise: Noise, stream: Stream, run: int) -> np.random.Generator:
    """A random generator of this run's own: fast, in floating point, and no cipher."""
    words = np.frombuffer(secret_bits(noise, stream, run), dtype="<u4")
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(words.tolist())))


def cipher_words(noise: Noise, stream: Stream, run: int) -> Words:
    """Uniform 64-bit words of this run's own, from a cipher stream."""
    digest = secret_bits(noise, stream, run)
    return Words(
        key=derive_key(digest, b"words of a step"),
        extension_key=derive_key(digest, b"extension of a step"),
    )


def secret_bits(noise: Noise, stream: Stream, run: int) -> bytes:
    """256 bits of this run's own, as secret as its noise."""
    drawn = noise.draw(stream, TwoSidedGeometric(Fraction(1)), draws=range(run, run + 1))
    return sha256(drawn.astype("<i8").tobytes()).digest()
