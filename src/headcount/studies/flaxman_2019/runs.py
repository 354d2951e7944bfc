"""Running a mechanism many times on one population, a few runs at a time."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from hashlib import sha256

import numpy as np

from headcount.mechanisms import CountsOutcome
from headcount.noise import KeyedNoise, Noise, RunKey
from headcount.population import Population
from headcount.studies.flaxman_2019.noise import PublishedNoise
from headcount.studies.flaxman_2019.settings import PUBLISHED, MechanismName, Settings, Variant
from headcount.tabulate import Counts, tabulate

_AT_ONCE = 1 << 22
"""Random numbers held at a time: with their copies about 200 MiB."""


def counted(population: Population) -> tuple[Counts, bytes]:
    """The counts, and the digest of them which ties noise to the data it is for."""
    counts = tabulate(population)
    return counts, sha256(counts.dense().tobytes()).digest()


def outcomes(
    counts: Counts,
    digest: bytes,
    name: MechanismName,
    epsilon: Fraction,
    *,
    settings: Settings,
    variant: Variant,
    runs: range,
) -> Iterator[CountsOutcome]:
    """Yield the outcomes of the runs in order, several runs in each.

    Run r has noise of its own, and two databases never share noise: streams are keyed by the
    seed, the mechanism with its parameters, the variant and the data.
    """
    mechanism = settings.mechanism(name, epsilon)
    # In the words that keyed the study's noise from the first: its numbers stay what they were.
    parts = f", parts={settings.parts}" if name == "averaged" else ""
    said = f"{type(mechanism).__name__}(epsilon={epsilon!r}{parts}) {variant}"
    config = sha256(said.encode()).digest()
    noise: Noise = KeyedNoise(RunKey.from_seed(settings.seed), name, digest, config)
    if variant == PUBLISHED:
        noise = PublishedNoise(noise)
    scalars = counts.geography.size(counts.level) * settings.shares(name)
    step = max(1, _AT_ONCE // scalars)
    for start in range(runs.start, runs.stop, step):
        some = range(start, min(start + step, runs.stop))
        yield mechanism.run(counts, noise, runs=some).as_counts()


def leaf_residuals(counts: Counts, made: Iterator[CountsOutcome]) -> Iterator[np.ndarray]:
    """Yield exact minus released for every area of each run: the sign the paper plots.

    All areas of the public domain enter, whether or not anyone lives there.
    """
    truth = counts.dense()
    for outcome in made:
        yield from (truth - outcome.tables[counts.level]).reshape(-1, truth.size)
