"""Uniform words from a seeded stream."""

from __future__ import annotations

import numpy as np

from headcount.noise import KeyedNoise, RunKey, Stream
from headcount.noise.source import SEED_DRAWS, Words, cipher_words


def stream_words(seed: int) -> Words:
    noise = KeyedNoise(RunKey.from_seed(seed), "cell-key", b"", b"")
    return cipher_words(noise, Stream("leaf", "record keys", SEED_DRAWS), 0)


def uniform(seed: int, many: int):
    return np.concatenate([some.copy() for some in stream_words(seed).run(0, many)])
