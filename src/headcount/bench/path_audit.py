"""Is a record's loss along its path the stated one, where units of a level have unequal shares?

With ``bypass`` an only child is not measured, and its parent has the shares of both. So a level
has units with much, with little and without noise, and only sums along paths from the whole to a
leaf are the same. Many lines of units stand side by side below the whole, of several kinds: with
an only child nowhere, at the end, or everywhere. In each line one person's record changes. All
answers of a line together are reduced to their log-likelihood ratio, which is all that an
attacker can use of them, and that is audited (``evaluation.audit``):

    sum over levels of r (|y - x'| - |y - x|)

where
    r      rate of the noise of the unit's own share
    y      noisy answers about the two cells
    x, x'  their true counts before and after the change

Wrong builds must fail: one whose noise is made for the sum of each level's largest share, one that
forgets to move the share of an only child, one that moves it and measures the child as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.bench.figures import Reading
from headcount.bench.measuring_audit import Build
from headcount.evaluation.audit import AuditTrials, audit_trials
from headcount.geography import Geography
from headcount.geography.spine import UnitShares
from headcount.mechanisms.topdown.answers import unit_classes
from headcount.mechanisms.topdown.choices import Marginal
from headcount.mechanisms.topdown.measure import Measurements
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.mechanisms.topdown.planned import planned_noise
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.noise import KeyedNoise, Noise, RunKey, TwoSidedGeometric
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Attribute, Schema
from headcount.tabulate import CELLS, Counts
from headcount.tabulate.counts import sparse_counts

SHARES = {"us": "1/100", "county": "19/100", "tract": "50/100", "block": "30/100"}
LEVELS = tuple(SHARES)
SCHEMA = Schema((Attribute("status", ("vacant", "occupied")),))
"""One query with two cells, as the housing units of 2020 have."""
KINDS: Mapping[str, tuple[bool, ...]] = {
    "no only child": (False, False),
    "block alone in its tract": (False, True),
    "tract alone in its county": (True, False),
    "only children from the county down": (True, True),
}
"""Kinds of lines: whether the tract and the block of a line are only children."""
REACHED = 0.8
BY_CHANCE = 0.001
"""So rarely may a build that keeps its promise have as many audits above the stated loss."""
RUNS, TRIALS, MUTANT_TRIALS = 60_000, 20, 3
QUICK = {"trials": 3}


@dataclass(frozen=True, kw_only=True)
class PathAudit:
    """Audits of lines of one kind, at a total epsilon where a path below the whole has 1."""

    kind: str
    trials: AuditTrials

    @property
    def above(self) -> int:
        """How many audits show more than the stated loss."""
        return self.trials.above(1.0)

    @property
    def reached(self) -> float:
        """The part of the stated loss that audits show on average."""
        return self.trials.mean

    @property
    def kept(self) -> bool:
        """Whether it is neither exceeded nor wasted."""
        return self.trials.p_value(1.0) > BY_CHANCE and self.reached >= REACHED


def settings_with_bypass(epsilon: Fraction) -> TopDownSettings:
    """One query, cells, at levels whose shares differ; only children give theirs up."""
    return TopDown(
        epsilon=epsilon,
        unit=UnitOfPrivacy.CHANGE_ONE,
        levels=tuple((level, Fraction(part)) for level, part in SHARES.items()),
        queries=((CELLS, Marginal(share=Fraction(1))),),
        bypass="us",
    )


def audit_paths(
    *,
    runs: int,
    trials: int,
    kinds: Sequence[str] = tuple(KINDS),
    seed: int = 0,
    build: Build = Measurements,
) -> list[PathAudit]:
    """Audit lines of some kinds, ``runs`` of them in each of so many trials."""
    lines = LinesOfUnits.of_each_kind(runs)
    truth = [lines.counts(lives_in) for lives_in in (0, 1)]
    settings = settings_with_bypass(1 / (1 - Fraction(SHARES["us"])))
    noise = KeyedNoise(RunKey.from_seed(seed), "path audit", b"neighbours", b"lines")
    number = count()  # no two samples share a run of the noise

    def sampler(kind: int, lives_in: int) -> Callable[[np.random.Generator, int], Floats]:
        def sample(_: np.random.Generator, _size: int) -> Floats:
            made = build(truth[lives_in], settings, noise, run=next(number))
            return lines.log_likelihood_ratios(made, kind)

        return sample

    return [
        PathAudit(
            kind=name,
            trials=audit_trials(
                sampler(k, 0), sampler(k, 1), runs=runs, trials=trials, seed=seed + k
            ),
        )
        for k, name in enumerate(KINDS)
        if name in kinds
    ]


@dataclass(frozen=True, eq=False)
class LinesOfUnits:
    """Units one below the other; one that is not alone has a sibling in which nobody lives.

    where
        units   for each level below the whole, the units of the lines: kinds x runs
    """

    place: Geography
    units: tuple[Ints, ...]

    @classmethod
    def of_each_kind(cls, runs: int) -> LinesOfUnits:
        """So many lines of each kind."""
        alone: Flags = np.array(list(KINDS.values()))
        kind = np.repeat(np.arange(len(alone)), runs)
        units: list[Ints] = [np.arange(len(kind))]
        parents: list[Ints] = [np.empty(0, np.int64), np.zeros(len(kind), np.int64)]
        for depth in range(alone.shape[1]):
            children = np.ones(len(parents[-1]), dtype=np.int64)
            children[units[-1]] += ~alone[kind, depth]
            first = np.cumsum(children) - children
            parents.append(np.repeat(np.arange(len(children)), children))
            units.append(first[units[-1]])
        codes = [np.array(["us"]), *(np.arange(len(one)).astype(np.str_) for one in parents[1:])]
        place = Geography(LEVELS, tuple(codes), tuple(one.astype(np.int32) for one in parents))
        return cls(place, tuple(one.reshape(len(alone), runs) for one in units))

    def counts(self, lives_in: int) -> dict[str, Counts]:
        """At the end of each line one person, in one of two cells."""
        people = np.zeros(self.place.size(self.place.leaf), dtype=np.int64)
        people[self.units[-1].ravel()] = 1
        start = np.concatenate([[0], np.cumsum(people)])
        cell = np.full(int(people.sum()), lives_in, dtype=np.int32)
        matrix = sparse_counts(start, cell, np.ones_like(cell), cells=SCHEMA.size)
        leaf = Counts(SCHEMA, self.place, self.place.leaf, matrix)
        return {level: leaf.at(level) for level in self.place.levels}

    def log_likelihood_ratios(self, made: Measurements, kind: int) -> Floats:
        """Of each line, by the noise that the build says its units have: the attacker knows it."""
        found = np.zeros(self.units[0].shape[1])
        for level, units in zip(self.place.levels[1:], self.units, strict=True):
            noise = made.planned[level, CELLS].classes[made.classes[level][units[kind][0]]]
            if noise is None:
                continue
            assert isinstance(noise.law, TwoSidedGeometric)
            unit, cell = np.repeat(units[kind], 2), np.tile(np.arange(2), units.shape[1])
            y = made.detail(level, unit, cell).reshape(-1, 2)
            one, none = np.abs(y - 1), np.abs(y)
            found += float(noise.law.rate) * ((none - one) @ np.array([1, -1]))
        return np.round(found, 9)


def level_maxima(
    counts: Mapping[str, Counts], settings: TopDownSettings, noise: Noise, *, run: int
) -> Measurements:
    """A wrong build: noise for a loss that adds up the largest share of each level."""
    place = counts[LEVELS[0]].geography
    shares = settings.unit_shares(place)
    assert shares is not None
    whole = sum(max(_in_use(shares, level)) for level in place.levels)
    assert isinstance(settings.epsilon, Fraction)
    less = replace(settings, epsilon=settings.epsilon / whole)
    return Measurements(counts, less, noise, run=run)


def with_classes(change: Callable[[Ints], Ints]) -> Build:
    """A wrong build: units have other shares than was decided."""

    def build(
        counts: Mapping[str, Counts], settings: TopDownSettings, noise: Noise, *, run: int
    ) -> Measurements:
        place = counts[LEVELS[0]].geography
        classes = {
            level: change(own.astype(np.int64)).astype(np.int8)
            for level, own in unit_classes(settings, place).items()
        }
        planned = planned_noise(settings, SCHEMA, place)
        return Measurements(counts, settings, noise, run=run, planned=planned, classes=classes)

    return build


MUTANTS: Mapping[str, Build] = {
    "noise for the sum of the levels' largest shares": level_maxima,
    "an only child's share is lost": with_classes(lambda own: np.minimum(own, 1)),
    "an only child is measured as well": with_classes(lambda own: np.maximum(own, 1)),
}


def measure(*, trials: int | None = None) -> list[Reading]:
    """Every kind of path with the build as it is; then wrong builds, each of which must fail."""
    honest = audit_paths(runs=RUNS, trials=trials or TRIALS)
    readings = [reading for one in honest for reading in _honest(one)]
    moved = [name for name, alone in KINDS.items() if any(alone)]
    for name, build in MUTANTS.items():
        found = audit_paths(runs=RUNS, trials=MUTANT_TRIALS, kinds=moved, build=build)
        said = ", ".join(f"{one.reached:.2f}" for one in found)
        readings.append(
            Reading(
                f"{name}: kinds of paths that seem right",
                sum(one.kept for one in found),
                f"of {len(found)} with only children",
                f"loss shown for a stated 1: {said}",
                at_most=0,
            )
        )
    return readings


def _honest(found: PathAudit) -> list[Reading]:
    from scipy.stats import binom

    many = len(found.trials.bounds)
    most = int(binom.ppf(1 - BY_CHANCE, many, 1 - found.trials.confidence))
    return [
        Reading(
            f"{found.kind}: stated loss that audits do not reach",
            100 * (1 - found.reached),
            "%",
            f"mean bound {found.reached:.2f} for 1; {found.trials.runs:,} runs a side",
            at_most=100 * (1 - REACHED),
        ),
        Reading(
            f"{found.kind}: audits above the stated loss",
            found.above,
            f"of {many}, confidence 95 %",
            at_most=most,
        ),
    ]


def _in_use(shares: UnitShares, level: str) -> Sequence[Fraction]:
    classes, own = shares.classes(level)
    return [classes[k] for k in np.unique(own)]
