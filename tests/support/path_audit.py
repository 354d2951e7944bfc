"""Is a record's loss along its path the stated one, where units of a level have unequal shares?

With ``bypass`` an only child is not measured, and its parent has the shares of both. So a level
has units with much, with little and without noise, and only sums along paths from the whole to a
leaf are the same. Many lines of units stand side by side below the whole, of several kinds: with
an only child nowhere, at the end, or everywhere. In each line one person's record changes; or the
person moves, from the end of a line of one kind to the end of a line of another, which costs half
of either path. All answers that depend on it are reduced to their log-likelihood ratio, which is
all that an attacker can use of them, and that is audited: for epsilon by a guessing game
(``epsilon_bounds``), for rho by the divergence (``zcdp_audit``). It is a sum over levels of

    r (|y - x'| - |y - x|)    or    ((y - x')^2 - (y - x)^2) / (2 sigma2)

where
    r, sigma2   rate or variance of the noise of the unit's own share
    y           noisy answers about the two cells
    x, x'       their true counts before and after the change

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
from headcount.domain import Domain
from headcount.geography import Geography
from headcount.geography.spine import UnitShares
from headcount.noise import DiscreteGaussian, KeyedNoise, Noise, RunKey, TwoSidedGeometric
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Attribute, Schema
from headcount.tabulate import CELLS, Counts
from headcount.tabulate.counts import sparse_counts
from headcount.topdown.answers import unit_classes
from headcount.topdown.choices import Marginal
from headcount.topdown.measure import Measurements
from headcount.topdown.mechanism import TopDown
from headcount.topdown.settings import TopDownSettings, planned_noise
from tests.support.audit_trials import AuditTrials, audit_trials
from tests.support.measuring_audit import Build
from tests.support.zcdp_audit import rho_trials

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
NAMES = tuple(KINDS)
MOVES = ((0, 3), (1, 2))
"""Kinds of lines between which people move."""
EPSILON, RHO = "epsilon", "rho"
REACHED = 0.8
BY_CHANCE = 0.001
"""So rarely may a build that keeps its promise have as many audits above the stated loss."""


@dataclass(frozen=True)
class PathChange:
    """What one person's record does: another cell of the same leaf, or the end of another line.

    where
        kinds           of the lines that see it
        before, after   the cell of the person at the end of a line of each kind; None: nobody
    """

    name: str
    kinds: tuple[int, ...]
    before: tuple[int | None, ...]
    after: tuple[int | None, ...]

    @property
    def unequal(self) -> bool:
        """Whether a line that sees it has an only child."""
        return any(any(KINDS[NAMES[k]]) for k in self.kinds)


def path_changes() -> list[PathChange]:
    """A changed record in each kind of line, and a person who moves between two of them."""
    lines = len(KINDS)
    changed = [PathChange(name, (k,), (0,) * lines, (1,) * lines) for k, name in enumerate(NAMES)]
    first: tuple[int | None, ...] = tuple(
        0 if k in {a for a, _ in MOVES} else None for k in range(lines)
    )
    second = tuple(None if cell == 0 else 0 for cell in first)
    moved = [
        PathChange(f"moved: {NAMES[a]}, to {NAMES[b]}", (a, b), first, second) for a, b in MOVES
    ]
    return changed + moved


@dataclass(frozen=True, kw_only=True)
class PathAudit:
    """Audits of one change, at a total loss where a path below the whole has 1."""

    change: PathChange
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


def settings_with_bypass(total: Fraction, loss: str = EPSILON) -> TopDownSettings:
    """One query, cells, at levels whose shares differ; only children give theirs up."""
    return TopDown(
        epsilon=total if loss == EPSILON else None,
        rho=total if loss == RHO else None,
        unit=UnitOfPrivacy.CHANGE_ONE,
        levels=tuple((level, Fraction(part)) for level, part in SHARES.items()),
        queries=((CELLS, Marginal(share=Fraction(1))),),
        bypass="us",
    )


def audit_paths(
    changes: Sequence[PathChange],
    *,
    runs: int,
    trials: int,
    loss: str = EPSILON,
    seed: int = 0,
    build: Build = Measurements,
) -> list[PathAudit]:
    """Audit some changes, ``runs`` of each in each of so many trials."""
    lines = LinesOfUnits.of_each_kind(runs)
    settings = settings_with_bypass(1 / (1 - Fraction(SHARES["us"])), loss)
    noise = KeyedNoise(RunKey.from_seed(seed), "path audit", b"neighbours", loss.encode())
    number = count()  # no two samples share a run of the noise
    audited = audit_trials if loss == EPSILON else rho_trials

    def sampler(change: PathChange, after: bool) -> Callable[[np.random.Generator, int], Floats]:
        truth = lines.counts(change.after if after else change.before)

        def sample(_: np.random.Generator, _size: int) -> Floats:
            made = build(truth, settings, noise, run=next(number))
            return lines.log_likelihood_ratios(made, change)

        return sample

    return [
        PathAudit(
            change=one,
            trials=audited(
                sampler(one, False), sampler(one, True), runs=runs, trials=trials, seed=seed + k
            ),
        )
        for k, one in enumerate(changes)
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

    def counts(self, cells: Sequence[int | None]) -> dict[str, Counts]:
        """At the end of each line of a kind one person, in its cell; nobody where it is None."""
        people = np.zeros(self.place.size(self.place.leaf), dtype=np.int64)
        cell = np.zeros_like(people, dtype=np.int32)
        for ends, own in zip(self.units[-1], cells, strict=True):
            people[ends], cell[ends] = own is not None, own or 0
        start = np.concatenate([[0], np.cumsum(people)])
        cell = cell[people > 0]
        matrix = sparse_counts(start, cell, np.ones_like(cell), cells=SCHEMA.size)
        leaf = Counts(Domain(SCHEMA, self.place), self.place.leaf, matrix)
        return {level: leaf.at(level) for level in self.place.levels}

    def log_likelihood_ratios(self, made: Measurements, change: PathChange) -> Floats:
        """Of each line, by the noise that the build says its units have: the attacker knows it."""
        found = np.zeros(self.units[0].shape[1])
        for kind in change.kinds:
            before, after = (_one_person(side[kind]) for side in (change.before, change.after))
            for level, units in zip(self.place.levels[1:], self.units, strict=True):
                noise = made.planned[level, CELLS].classes[made.classes[level][units[kind][0]]]
                if noise is None:
                    continue
                unit, cell = np.repeat(units[kind], 2), np.tile(np.arange(2), units.shape[1])
                y = made.picker(level, unit)(CELLS, unit, cell).reshape(-1, 2)
                if isinstance(noise.law, TwoSidedGeometric):
                    apart = np.abs(y - after) - np.abs(y - before)
                    found += float(noise.law.rate) * apart.sum(axis=1)
                else:
                    assert isinstance(noise.law, DiscreteGaussian)
                    apart = (y - after) ** 2 - (y - before) ** 2
                    found += apart.sum(axis=1) / float(2 * noise.law.sigma2)
        return np.round(found, 9)


def _one_person(cell: int | None) -> Ints:
    """The counts of a line with one person in a cell, or with nobody."""
    return np.array([cell == 0, cell == 1], dtype=np.int64)


def level_maxima(
    counts: Mapping[str, Counts], settings: TopDownSettings, noise: Noise, *, run: int
) -> Measurements:
    """A wrong build: noise for a loss that adds up the largest share of each level."""
    place = counts[LEVELS[0]].geography
    shares = settings.unit_shares(place)
    assert shares is not None
    whole = sum(max(_in_use(shares, level)) for level in place.levels)
    loss = EPSILON if settings.rho is None else RHO
    less = replace(settings, **{loss: getattr(settings, loss) / whole})
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


def _in_use(shares: UnitShares, level: str) -> Sequence[Fraction]:
    classes, own = shares.classes(level)
    return [classes[k] for k in np.unique(own)]
