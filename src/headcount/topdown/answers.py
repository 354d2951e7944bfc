"""Where the estimate's answers come from: drawn from the truth, or read from what was published.

An estimate sees a source of answers and nothing behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol, TypeAlias

import numpy as np

from headcount.arrays import Floats, Ints, Ints8
from headcount.geography import Geography
from headcount.topdown import _kernels as kernels
from headcount.topdown._estimate import NodeProblem
from headcount.topdown._level import LevelPlan
from headcount.topdown.planned import PlannedNoise
from headcount.topdown.settings import TopDownSettings

Planned: TypeAlias = Mapping[tuple[str, str], PlannedNoise]
"""The noise of each measured level and query."""
Classes: TypeAlias = Mapping[str, Ints8]
"""For each unit of a level, which of its shares it has; no level where all have the same."""


class Answers(Protocol):
    """Noisy answers of one run."""

    @property
    def planned(self) -> Planned:
        """Their noise."""

    @property
    def classes(self) -> Classes:
        """Which share of the loss each unit has."""

    def answered(self, level: LevelPlan, problem: NodeProblem) -> NodeProblem:
        """The problem with noisy answers."""

    def values(self, level: str, query: str, units: range) -> Ints | Floats:
        """Every answer of some units to a query: units x answers; 0 in units without a share."""

    def picked(self, level: str, query: str, unit: Ints, group: Ints) -> Ints | Floats:
        """The answers of some (unit, answer) pairs; pairs of a unit in a row."""

    def said(self) -> dict[str, str]:
        """What a receipt says of them; nothing of answers that are used as they were drawn."""

    def weighted(self, level: LevelPlan) -> LevelPlan:
        """A level's plan with the weights that these answers deserve."""


class AnswerSource(Protocol):
    """What a task is given: it opens the answers where it works."""

    def open(self) -> Answers:
        """The answers, in this process."""


def unit_classes(settings: TopDownSettings, geography: Geography) -> Classes:
    """Which share of the loss each unit has, at levels where these differ."""
    if (shares := settings.unit_shares(geography)) is None:
        return {}
    return {level: shares.classes(level)[1].astype(np.int8) for level in geography.levels}


def with_answers(
    level: LevelPlan,
    problem: NodeProblem,
    *,
    detail: Callable[[Ints, Ints], Ints | Floats],
    groups: Callable[[str, Ints, Ints], Ints | Floats],
) -> NodeProblem:
    """The problem with noisy answers: to its variables, and to groups that hold any of them.

    where
        detail   answers of (unit, cell) pairs
        groups   answers of (unit, group) pairs of a query
    """
    batch, answers = problem.batch, np.zeros(len(problem.unit))
    if level.weight > 0:
        answers = detail(problem.unit, problem.cell).astype(np.float64)
    margin = np.zeros((len(problem.child), int(level.family_start[-1])))
    for f in np.flatnonzero(level.family_weight > 0):
        first, last = level.family_start[f : f + 2]
        child, group = kernels.groups_in_use(
            batch.cell_start, batch.cell, batch.child_start, level.group[f], last - first
        )
        unit = problem.child[child]
        margin[child, first + group] = groups(level.families[f], unit, group)
    return replace(problem, batch=replace(batch, answer=answers, margin=margin))
