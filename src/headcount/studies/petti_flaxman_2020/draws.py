"""Releases of both mechanisms, made once: a second call draws only what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from headcount.mechanisms import Context, Mechanism, Tabulated, protect
from headcount.mechanisms.sampling import Sampling
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.studies.frame.cache import Codec
from headcount.studies.frame.cases import seeded_noise
from headcount.studies.frame.study import Work
from headcount.studies.petti_flaxman_2020.residuals import (
    STRATA,
    Residuals,
    TrueCounts,
    reduce_release,
)
from headcount.studies.petti_flaxman_2020.settings import Settings

MechanismName = Literal["topdown", "sampling"]
MECHANISMS: tuple[MechanismName, ...] = ("topdown", "sampling")
RESIDUALS: Codec[Residuals] = Codec(
    ending="npz", to_bytes=Residuals.to_bytes, from_bytes=Residuals.from_bytes
)


@dataclass(frozen=True)
class Case:
    """One release: a mechanism, its parameter, and the number of the replicate."""

    name: MechanismName
    parameter: Fraction
    replicate: int

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism with its parameter."""
        if self.name == "topdown":
            return topdown(self.parameter)
        return Sampling(fraction=self.parameter)


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """The residuals of every release."""

    truth: TrueCounts
    settings: Settings
    found: dict[Case, Residuals]

    def of(self, name: MechanismName, parameter: Fraction) -> list[Residuals]:
        """All replicates of one mechanism and parameter."""
        replicates = range(self.settings.replicates)
        return [self.found[Case(name, parameter, number)] for number in replicates]


def parameters(settings: Settings, name: MechanismName) -> tuple[Fraction, ...]:
    """What is swept for a mechanism."""
    return settings.epsilons if name == "topdown" else settings.fractions


def cases(settings: Settings) -> list[Case]:
    """Everything to draw; replicates outermost, so that an unfinished study is a small one."""
    return [
        Case(name, parameter, replicate)
        for replicate in range(settings.replicates)
        for name in MECHANISMS
        for parameter in parameters(settings, name)
    ]


def draw_all(data: Tabulated, settings: Settings, work: Work) -> Draws:
    """Draw every release, or read what is left of it from the cache."""
    truth = TrueCounts(data.counts)
    wanted = cases(settings)
    found = {
        case: work.cache.get(
            partial(draw, case, data, truth, seed=settings.seed, work=work),
            name=f"{case.name}-{str(case.parameter).replace('/', 'of')}-{case.replicate}",
            inputs=f"{data.digest.hex()} {settings.seed} {case.mechanism!r}",
            made_by=__name__,
            codec=RESIDUALS,
        )
        for case in work.progress(wanted, what="Releases", total=len(wanted))
    }
    return Draws(truth=truth, settings=settings, found=found)


def draw(case: Case, data: Tabulated, truth: TrueCounts, *, seed: int, work: Work) -> Residuals:
    """Make one release and reduce it to its residuals."""
    noise = seeded_noise(case.mechanism, seed=seed, digest=data.digest)
    context = Context(engine=work.engine)
    release = protect(data, case.mechanism, noise, run=case.replicate, context=context)
    leaf: Any = release.as_counts().table(data.counts.level)
    denominator = 1
    if case.name == "sampling":
        # A sampled count over f = a/b is a whole number of 1/a people.
        denominator = case.parameter.numerator
        leaf = leaf.copy()
        leaf.data = np.rint(leaf.data * denominator).astype(np.int64)
    strata = np.asarray((leaf @ STRATA.matrix(data.counts.schema)).toarray(), dtype=np.int64)
    return reduce_release(truth, strata, denominator=denominator)


def topdown(epsilon: Fraction) -> TopDown:
    """TopDown with every choice of the 2018 end-to-end test but epsilon."""
    return TopDown.from_preset("e2e-2018", epsilon=epsilon)
