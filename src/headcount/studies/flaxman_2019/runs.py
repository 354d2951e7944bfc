"""The releases of a mechanism on one population, many runs of it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from hashlib import sha256
from typing import Any

from numpy.typing import NDArray

from headcount.mechanisms import PostTabular, Tabulated, protect_runs
from headcount.release import CountsRelease
from headcount.studies.flaxman_2019.noise import AsPublished
from headcount.studies.flaxman_2019.settings import PUBLISHED, MechanismName, Settings, Variant
from headcount.studies.frame.cases import seeded_noise


def releases(
    data: Tabulated,
    name: MechanismName,
    epsilon: Fraction,
    *,
    settings: Settings,
    variant: Variant,
    runs: range,
) -> Iterator[CountsRelease]:
    """Yield the releases of the runs in order.

    Run r has noise of its own, and two databases never share noise: streams are keyed by the
    seed, the mechanism with its parameters, the variant and the data.
    """
    mechanism: PostTabular = settings.mechanism(name, epsilon)
    # In the words that keyed the study's noise from the first: its numbers stay what they were.
    parts = f", parts={settings.parts}" if name == "averaged" else ""
    words = f"{type(mechanism).__name__}(epsilon={epsilon!r}{parts}) {variant}"
    digest = sha256(data.counts.dense().tobytes()).digest()
    noise = seeded_noise(mechanism, seed=settings.seed, digest=digest, words=words)
    if variant == PUBLISHED:
        mechanism = AsPublished(mechanism)
    for release in protect_runs(data, mechanism, noise, runs=runs):
        yield release.as_counts()


def leaf_residuals(data: Tabulated, made: Iterator[CountsRelease]) -> Iterator[NDArray[Any]]:
    """Yield exact minus released for every area of each run: the sign the paper plots.

    All areas of the public domain enter, whether or not anyone lives there.
    """
    truth = data.counts.dense()
    for release in made:
        yield (truth - release.at(data.counts.level)).ravel()
