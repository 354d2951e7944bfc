"""A prior, off by default: detailed answers drawn towards the shape of the parent.

A release with it is **model-based**: it says of small places what their parent is like, as far as
their own noisy answers do not tell. That looks at noisy answers and finished estimates only, so it
costs no privacy; it is most exact on average, and least where a place is unlike its parent.

For each parent with counts p, shape s = p / sum p, and for child j with noisy cells y of variance v

    m = s t,   d = y - m,   y' = m + k d,   k = tau^2 / (tau^2 + var d)
    tau^2 = phi s (1 - s) t^2 + (1 - phi) s (1 - s) t
    var d = v + s^2 var t - 2 s var t / n

where
    t       the best total of the child from its noisy total and its n noisy cells
    tau^2   how far a cell of a child lies from the parent's shape: drawn one by one (phi = 0) or
            all alike (phi = 1)
    phi     by the moments of d in the parent's family: sum (d^2 - var d) = sum tau^2, from 0 to 1

then three times tau^2 <- (2 tau^2 + E) / 3, with E = (k d)^2 + k var d the square that the answer
itself suggests, so that a cell which stands out is drawn less. tau^2 is at least 1/4, and 2 % of
var d. Everything of a family is worked out within it, in the order of its cells: no piece of work
and no engine changes a bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.topdown._estimate import NodeProblem
from headcount.topdown._level import LevelPlan
from headcount.topdown.answers import Answers, AnswerSource, Classes, Planned
from headcount.topdown.settings import TopDownSettings

MODEL_BASED = "model-based"
DRAWN = "cells of a place are drawn towards the shape of the place above"
"""What a receipt and a guarantee say of it."""
SMALLEST, LEAST_SHARE = 0.25, 0.02
"""tau^2 is at least the one, and at least this share of the noise."""
STEPS = 3


def with_prior(source: AnswerSource, settings: TopDownSettings) -> AnswerSource:
    """The answers, drawn to the parent if the settings ask for it; without noise nothing is."""
    return PriorAnswers(source) if settings.prior and settings.loss is not None else source


@dataclass(frozen=True, eq=False)
class PriorAnswers:
    """Answers whose cells are drawn towards the parent's shape; all others are as they were."""

    source: AnswerSource

    def open(self) -> PriorAnswers:
        """Itself: what it holds opens what is elsewhere."""
        return self

    @property
    def own(self) -> Answers:
        """The answers without a prior."""
        return self.source.open()

    @property
    def planned(self) -> Planned:
        """The noise that was drawn."""
        return self.own.planned

    @property
    def classes(self) -> Classes:
        """Which share of the loss each unit has."""
        return self.own.classes

    def values(self, level: str, query: str, units: range) -> Ints | Floats:
        """Answers of some units to a query, without a prior."""
        return self.own.values(level, query, units)

    def picked(self, level: str, query: str, unit: Ints, group: Ints) -> Ints | Floats:
        """The answers of some (unit, answer) pairs, without a prior."""
        return self.own.picked(level, query, unit, group)

    def weighted(self, level: LevelPlan) -> LevelPlan:
        """A level's plan: the prior changes no weight."""
        return self.own.weighted(level)

    def said(self) -> dict[str, str]:
        """What a receipt says of it."""
        return {**self.own.said(), MODEL_BASED: DRAWN}

    def answered(self, level: LevelPlan, problem: NodeProblem) -> NodeProblem:
        """The problem with its answers, those of cells drawn."""
        return drawn_to_parent(self.own.answered(level, problem))


def drawn_to_parent(problem: NodeProblem) -> NodeProblem:
    """The problem with its detailed answers drawn towards the shape of each parent.

    A parent without people, such as the whole before anything is estimated, has no shape.
    """
    batch = problem.batch
    entry = np.repeat(np.arange(len(batch.total)), np.diff(batch.var_start))
    of_entry = np.repeat(np.arange(len(batch.parent)), np.diff(batch.cell_start))
    people = np.bincount(of_entry, weights=batch.total, minlength=len(batch.parent))
    parent, child = of_entry[entry], batch.var_child.astype(np.int64)
    known = (people[parent] > 0) & (batch.weight[child] > 0)
    if not known.any():
        return problem
    entry, parent, child = entry[known], parent[known], child[known]
    y, weight = batch.answer[known], batch.weight[child]
    share = batch.total[entry] / people[parent]
    total, total_variance, cells = _totals(problem, child, y)
    mean = share * np.maximum(total, 0.0)[child]
    off, spread = y - mean, share * (1 - share)
    own = total_variance[child]
    variance = np.maximum(1 / weight + share**2 * own - 2 * share * own / cells[child], 0.0)
    tau = _deviation(parent, off, variance, spread, total, total_variance, child)
    floor = np.maximum(SMALLEST, LEAST_SHARE * variance)
    tau = np.maximum(tau, floor)
    for _ in range(STEPS):
        k = tau / (tau + variance)
        tau = np.maximum((2 * tau + (k * off) ** 2 + k * variance) / 3, floor)
    answer = batch.answer.copy()
    answer[known] = mean + tau / (tau + variance) * off
    return replace(problem, batch=replace(batch, answer=answer))


def _totals(problem: NodeProblem, child: Ints, y: Floats) -> tuple[Floats, Floats, Floats]:
    """For each child its best total, the variance of that, and how many cells tell of it."""
    batch = problem.batch
    children = len(problem.child)
    cells = np.maximum(np.bincount(child, minlength=children), 1).astype(np.float64)
    summed = np.bincount(child, weights=y, minlength=children)
    precision = batch.weight / cells
    found = precision * summed
    for family in np.flatnonzero(np.diff(batch.family_start) == 1):  # the total, where it is asked
        weight = batch.family_weight[:, family]
        found = found + weight * batch.margin[:, batch.family_start[family]]
        precision = precision + weight
    variance = np.divide(1.0, precision, out=np.zeros(children), where=precision > 0)
    return found * variance, variance, cells


def _deviation(
    parent: Ints,
    off: Floats,
    variance: Floats,
    spread: Floats,
    total: Floats,
    total_variance: Floats,
    child: Ints,
) -> Floats:
    """tau^2 of each cell before it adapts itself."""
    one_by_one = spread * np.maximum(total, 0.0)[child]
    squared = np.maximum(total**2 - total_variance, np.maximum(total, 0.0))
    alike = spread * squared[child]

    def summed(values: Floats) -> Floats:
        return np.bincount(parent, weights=values).astype(np.float64)

    more, room = summed(off**2 - variance - one_by_one), summed(alike - one_by_one)
    phi = np.clip(np.divide(more, room, out=np.zeros_like(more), where=room > 0), 0.0, 1.0)
    found: Floats = phi[parent] * alike + (1 - phi[parent]) * one_by_one
    return found
