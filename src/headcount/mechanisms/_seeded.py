"""Generators of random numbers and words that are seeded from the noise of a run.

For steps that need more than noise on counts: a permutation, a sample. Any source of noise will do,
and the same key, data and run give the same draws.
"""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256

import numpy as np

from headcount.noise import Noise, Stream, TwoSidedGeometric
from headcount.noise.words import Words, derive_key

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
