"""Releases of both mechanisms, made once: a second call draws only what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from headcount.comparison.cache import Codec
from headcount.comparison.cases import Case, Released, run_cases
from headcount.comparison.study import Work
from headcount.mechanisms import Mechanism, Sampling, Tabulated
from headcount.topdown.mechanism import TopDown
from headcount_papers.petti_flaxman_2020.residuals import (
    STRATA,
    Residuals,
    TrueCounts,
    reduce_release,
)
from headcount_papers.petti_flaxman_2020.settings import Settings

MechanismName = Literal["topdown", "sampling"]
MECHANISMS: tuple[MechanismName, ...] = ("topdown", "sampling")
RESIDUALS: Codec[Residuals] = Codec(
    ending="npz", to_bytes=Residuals.to_bytes, from_bytes=Residuals.from_bytes
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """The residuals of every release, by mechanism and parameter, one for each replicate."""

    truth: TrueCounts
    settings: Settings
    found: dict[tuple[MechanismName, Fraction], list[Residuals]]

    def of(self, name: MechanismName, parameter: Fraction) -> list[Residuals]:
        """All replicates of one mechanism and parameter."""
        return self.found[name, parameter]


def parameters(settings: Settings, name: MechanismName) -> tuple[Fraction, ...]:
    """What is swept for a mechanism."""
    return settings.epsilons if name == "topdown" else settings.fractions


def mechanism(name: MechanismName, parameter: Fraction) -> Mechanism:
    """A sample, or TopDown with every choice of the 2018 end-to-end test but epsilon."""
    if name == "sampling":
        return Sampling(fraction=parameter)
    return TopDown.from_preset("e2e-2018", epsilon=parameter)


def cases(settings: Settings) -> list[Case]:
    """One case a release; replicates outermost, so that an unfinished study is a small one."""
    return [
        Case(
            name=f"{name}-{str(parameter).replace('/', 'of')}-{replicate}",
            mechanism=mechanism(name, parameter),
            runs=range(replicate, replicate + 1),
            columns={"mechanism": name, "parameter": parameter},
        )
        for replicate in range(settings.replicates)
        for name in MECHANISMS
        for parameter in parameters(settings, name)
    ]


def draw_all(data: Tabulated, settings: Settings, work: Work) -> Draws:
    """Draw every release, or read what is left of it from the cache."""
    truth = TrueCounts(data.counts)
    wanted = cases(settings)
    made = run_cases(
        wanted,
        lambda releases: reduced(releases, truth),
        data=data,
        seed=settings.seed,
        work=work,
        what="Releases",
        inputs=data.digest.hex(),
        made_by=__name__,
        codec=RESIDUALS,
    )
    found: dict[tuple[MechanismName, Fraction], list[Residuals]] = {}
    for case, one in zip(wanted, made, strict=True):
        key = case.columns["mechanism"], case.columns["parameter"]
        found.setdefault(key, []).append(one)
    return Draws(truth=truth, settings=settings, found=found)


def reduced(releases: Iterator[Released], truth: TrueCounts) -> Residuals:
    """The residuals of a case's one release; whole numbers for a sample too, whose weight is b/a.

    The paper pools the residuals of replicates before it measures, which no metric of one release
    can give again.
    """
    (one,) = releases
    release = one.release.as_counts()
    leaf = release.unweighted().table(release.geography.leaf)
    strata = (leaf @ STRATA.matrix(release.schema)).toarray() * release.weight.numerator
    denominator = release.weight.denominator
    return reduce_release(truth, np.asarray(strata, dtype=np.int64), denominator=denominator)
