"""Noisy measurements of a run, pooled or nudged on request: all that an estimate sees.

They come from a source, which draws them from the truth (measure.py) or reads them from published
files (measurements/). Two stages may follow: a nudge adds more noise, pooling joins them with the
answers of the levels below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from headcount.arrays import Floats, Ints, Ints8, Ints32
from headcount.compiled import kernel
from headcount.geography import Geography
from headcount.tabulate import CELLS
from headcount.topdown._estimate import LevelPlan, NodeProblem
from headcount.topdown.settings import PlannedNoise, TopDownSettings

if TYPE_CHECKING:
    from headcount.topdown._pool import Pool
from collections.abc import Iterator

from headcount.errors import InputError
from headcount.topdown.measurements import NoisyMeasurements

Planned: TypeAlias = Mapping[tuple[str, str], PlannedNoise]
"""The noise of each measured level and query."""
Classes: TypeAlias = Mapping[str, Ints8]
"""For each unit of a level, which of its shares it has; no level where all have the same."""


Picker: TypeAlias = Callable[[str, Ints, Ints], Ints | Floats]
"""Gives the answers to a query of some (unit, answer) pairs, those of a unit in a row."""


class _Source(Protocol):
    """Noisy answers as they were drawn."""

    def values(self, level: str, query: str, units: range) -> Ints:
        """Every answer of some units to a query: units x answers; 0 in units without a share."""

    def picker(self, level: str, unit: Ints) -> Callable[[str, Ints, Ints], Ints]:
        """What gives single answers of some units, opened once for all queries: a ``Picker``."""


@dataclass(frozen=True, eq=False)
class Nudge:
    """A stage that adds a part of fresh noise to each answer.

    where
        noise   noisy counts of places where nobody lives: noise alone
        part    how much of it is added
    """

    noise: _Source
    part: float

    def added(self, answers: Ints | Floats, noise: Ints | Floats) -> Floats:
        """Answers with more noise."""
        return np.asarray(self.part * noise.astype(np.float64) + answers)


@dataclass(frozen=True, eq=False)
class Answers:
    """Noisy answers of one run.

    They can be sent to another process where their source can: one that holds true counts refuses.

    where
        planned   the noise of each query; with pooling also of those that only levels below answer
        classes   which share of the loss each unit has
        nudge     more noise on each answer, if any
        pool      answers joined with those of the levels below, if they are
    """

    source: _Source
    planned: Planned
    classes: Classes
    nudge: Nudge | None = None
    pool: Pool | None = None

    def values(self, level: str, query: str, units: range) -> Ints | Floats:
        """Every answer of some units to a query: units x answers; 0 in units without a share."""
        if self.pool is not None and self.pool.has(level, query):
            return self.pool.values(level, query, units)
        drawn = self.source.values(level, query, units)
        if self.nudge is None:
            return drawn
        return self.nudge.added(drawn, self.nudge.noise.values(level, query, units))

    def picker(self, level: str, unit: Ints) -> Picker:
        """What gives single answers of some units, as the descent uses them."""
        drawn = partial(self._drawn, level, unit)
        return drawn() if self.pool is None else self.pool.picker(level, unit, drawn)

    def _drawn(self, level: str, unit: Ints) -> Picker:
        """What gives single answers before they are pooled."""
        drawn, nudge = self.source.picker(level, unit), self.nudge
        if nudge is None:
            return drawn
        noise = nudge.noise.picker(level, unit)
        return lambda query, unit, group: nudge.added(
            drawn(query, unit, group), noise(query, unit, group)
        )

    def answered(self, level: LevelPlan, problem: NodeProblem) -> NodeProblem:
        """The problem with noisy answers: to its variables, and to groups that hold any of them."""
        picked = self.picker(level.name, problem.child)
        batch, answers = problem.batch, np.zeros(len(problem.unit))
        if level.weight > 0:
            answers = picked(CELLS, problem.unit, problem.cell).astype(np.float64)
        margin = np.zeros((len(problem.child), int(level.family_start[-1])))
        for f in np.flatnonzero(level.family_weight > 0):
            first, last = level.family_start[f : f + 2]
            child, group = _groups_in_use(
                batch.cell_start, batch.cell, batch.child_start, level.group[f], last - first
            )
            unit = problem.child[child]
            margin[child, first + group] = picked(level.families[f], unit, group)
        return replace(problem, batch=replace(batch, answer=answers, margin=margin))

    def weighted(self, level: LevelPlan) -> LevelPlan:
        """A level's plan with the weights that these answers deserve."""
        return level if self.pool is None else self.pool.weighted(level)

    def said(self) -> dict[str, str]:
        """What a receipt says of them; nothing of answers that are used as they were drawn."""
        return {} if self.pool is None else {"answers pooled": self.pool.plan.from_words}


def unit_classes(settings: TopDownSettings, geography: Geography) -> Classes:
    """Which share of the loss each unit has, at levels where these differ."""
    if (shares := settings.unit_shares(geography)) is None:
        return {}
    return {level: shares.classes(level)[1].astype(np.int8) for level in geography.levels}


@kernel(work=lambda start, cell, *_: 2 * len(cell) + len(start) * _[-1])
def _groups_in_use(
    cell_start: Ints, cell: Ints32, child_start: Ints, of_cell: Ints32, size: int
) -> tuple[Ints, Ints]:
    """Child and group, in order, of each group that a kept cell of the child's parent is in."""
    seen = np.zeros(size, dtype=np.bool_)
    used = np.empty(size, dtype=np.int64)
    child, group = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for fill in (False, True):
        n = 0
        for p in range(len(cell_start) - 1):
            seen[:] = False
            for e in range(cell_start[p], cell_start[p + 1]):
                seen[of_cell[cell[e]]] = True
            met = 0
            for g in range(size):
                if seen[g]:
                    used[met] = g
                    met += 1
            if not fill:
                n += met * (child_start[p + 1] - child_start[p])
                continue
            for c in range(child_start[p], child_start[p + 1]):
                for g in used[:met]:
                    child[n], group[n] = c, g
                    n += 1
        if not fill:
            child, group = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    return child, group


UNITS_AT_ONCE = 1 << 14
SAME_VARIANCE = 1e-9
"""Relative: variances are written as floats."""


def published_answers(
    measurements: NoisyMeasurements, planned: Planned, expected: Classes | None
) -> Answers:
    """The answers, after checking that every unit has those that its share paid for, and no others.

    where
        planned    the noise of each level and query, and of each share
        expected   which share each unit has; None where that cannot be known, because levels
                   below are not there: then the variances say it
    """
    classes: dict[str, Ints8] = {}
    for level in measurements.levels:
        asked = {query: noise for (at, query), noise in planned.items() if at == level}
        _refuse_other_queries(measurements, level, asked)
        if not asked:
            continue
        found = _classes(measurements, level, asked)
        shared = any(noise.classes for noise in asked.values())
        may_lack = _only_children(measurements, level) if shared else np.zeros(1, dtype=bool)
        _refuse_where(
            measurements,
            level,
            (found == 0) & ~may_lack,
            "no answers",
            "answers for its share" + ": only an only child has none" * shared,
        )
        if not shared:
            continue
        if expected is not None:
            _refuse_where(
                measurements,
                level,
                found != expected[level],
                "variances of another share, or no answers",
                "those of its place in the tree: an only child's share is its parent's",
            )
        classes[level] = found
    return Answers(measurements, planned, classes)


def _refuse_other_queries(
    measurements: NoisyMeasurements, level: str, asked: Mapping[str, PlannedNoise]
) -> None:
    """Refuse answers that no share pays for, and shares without any answers.

    A level of only children has none at all.
    """
    there = measurements.measured(level)
    if not there and any(noise.classes for noise in asked.values()):
        return
    for query in (*asked, *there):
        if (query in there) == (query in asked):
            continue
        missing = query in asked
        raise InputError(
            str(measurements.folder),
            place=f"level {level!r}, query {query!r}",
            found="no answers" if missing else "answers, and no share",
            expected="answers: the query has a share there"
            if missing
            else "answers to queries that have a share there",
        )


def _classes(
    measurements: NoisyMeasurements, level: str, asked: Mapping[str, PlannedNoise]
) -> Ints8:
    """For each unit the number of the share that its variances are of; 0 without answers."""
    found = np.zeros(measurements.tree.size(level), dtype=np.int8)
    for some in _pieces(len(found)):
        own: Ints8 | None = None
        for query, noise in asked.items():
            variance = measurements.variances(level, query, some)
            known = _numbered(variance, _variances(noise))
            _refuse_variance(measurements, level, query, noise, some, variance, known)
            if own is not None and (own != known).any():
                first = int(np.argmax(own != known))
                raise InputError(
                    str(measurements.folder),
                    place=_place(measurements, level, some.start + first),
                    found=f"answers to {query!r} of another share than to other queries, or none",
                    expected="answers to every query that has a share there",
                )
            own = known
        assert own is not None
        found[some.start : some.stop] = own
    return found


def _variances(noise: PlannedNoise) -> list[float | None]:
    """The variance of each share that a unit can have; None for no share."""
    shares = noise.classes or (None, noise)
    return [None if one is None else 0.0 if one.law is None else one.law.variance for one in shares]


def _numbered(variance: Floats, known: list[float | None]) -> Ints8:
    """The number of each variance among those known, 0 for none there, -1 for an unknown one."""
    number = np.where(np.isnan(variance), 0, -1).astype(np.int8)
    for k, one in enumerate(known):
        if one is not None:
            number[np.isclose(variance, one, rtol=SAME_VARIANCE, atol=0)] = k
    return number


def _refuse_variance(
    measurements: NoisyMeasurements,
    level: str,
    query: str,
    noise: PlannedNoise,
    some: range,
    variance: Floats,
    known: Ints8,
) -> None:
    if (known >= 0).all():
        return
    at = int(np.argmax(known < 0))
    said = ", ".join(f"{one:.9g}" for one in _variances(noise) if one is not None)
    raise InputError(
        str(measurements.folder),
        place=f"{_place(measurements, level, some.start + at)}, query {query!r}",
        found=f"variance {variance[at]:.9g}",
        expected=f"{said}, as its share says",
    )


def _refuse_where(
    measurements: NoisyMeasurements, level: str, wrong: Ints | Floats, found: str, expected: str
) -> None:
    if wrong.any():
        place = _place(measurements, level, int(np.argmax(wrong)))
        raise InputError(str(measurements.folder), place=place, found=found, expected=expected)


def _only_children(measurements: NoisyMeasurements, level: str) -> Ints:
    depth = measurements.tree.depth(level)
    if depth == 0:
        return np.zeros(1, dtype=bool)
    parent = measurements.tree.parents[depth]
    return np.asarray(np.bincount(parent)[parent] == 1)


def _place(measurements: NoisyMeasurements, level: str, unit: int) -> str:
    code = measurements.tree.units[measurements.tree.depth(level)][unit]
    return f"level {level!r}, geounit {str(code)!r}"


def _pieces(units: int) -> Iterator[range]:
    for first in range(0, units, UNITS_AT_ONCE):
        yield range(first, min(first + UNITS_AT_ONCE, units))
