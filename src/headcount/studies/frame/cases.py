"""Seeded noise for a case of a study: a mechanism on some data, with its replicates as runs."""

from __future__ import annotations

from hashlib import sha256

from headcount.mechanisms import Chain, Mechanism, mechanism_digest
from headcount.noise import KeyedNoise, RunKey


def seeded_noise(
    mechanism: Mechanism, *, seed: int, digest: bytes, words: str = "", label: str = ""
) -> KeyedNoise:
    """Noise that depends on the seed, the mechanism with its parameters, and the data.

    where
        digest   of the data: two databases never share noise
        words    what keys the noise in place of the mechanism's own digest; a study whose numbers
                 were made under other words keeps them
        label    of its streams; the mechanism's name if empty
    """
    chain = Chain.of(mechanism)
    config = sha256(words.encode()).digest() if words else mechanism_digest(chain)
    return KeyedNoise(RunKey.from_seed(seed), label or chain.name, digest, config)
