"""The cases of the study: three mechanisms, with exact noise or with that of the paper's code."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

from numpy.typing import NDArray

from headcount.comparison.cases import Case, Released
from headcount.population import Population
from headcount.tabulate import Tabulated
from headcount_papers.flaxman_2019.settings import PUBLISHED, MechanismName, Settings, Variant
from headcount_papers.frame.published_noise import AsPublished


def case(
    settings: Settings, name: MechanismName, epsilon: Fraction, *, variant: Variant, runs: range
) -> Case:
    """A mechanism at an epsilon; its noise is keyed by the words that it was first made under."""
    mechanism = settings.mechanism(name, epsilon)
    parts = f", parts={settings.parts}" if name == "averaged" else ""
    return Case(
        name=f"{name}, epsilon {epsilon}, {variant}",
        mechanism=AsPublished(mechanism) if variant == PUBLISHED else mechanism,
        runs=runs,
        columns={"variant": variant, "mechanism": name, "epsilon": float(epsilon)},
        words=f"{name.capitalize()}(epsilon={epsilon!r}{parts}) {variant}",
        label=mechanism.name,
    )


def counted(population: Population) -> Tabulated:
    """The people with the digest that keyed the noise from the first: of their dense table."""
    data = Tabulated.of(population)
    return replace(data, digest=sha256(data.counts.dense().tobytes()).digest())


def people(settings: Settings) -> Tabulated:
    """The people of the settings, counted."""
    return counted(settings.counted_people())


def leaf_errors(one: Released) -> NDArray[Any]:
    """Exact minus released for every area: the sign the paper plots.

    All areas of the public domain enter, whether or not anyone lives there.
    """
    counts = one.truth.counts
    return (counts.dense() - one.release.at(counts.level)).ravel()
