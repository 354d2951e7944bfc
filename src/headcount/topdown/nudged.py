"""Published answers with a little more noise: how far does a release follow its answers?

Whoever has the answers can add noise of the same law to them and estimate again. That looks at
published files only, so it costs no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.noise import Noise
from headcount.tabulate import CELLS, Counts
from headcount.tabulate.counts import every_level
from headcount.topdown._estimate import NodeProblem
from headcount.topdown._level import LevelPlan
from headcount.topdown.answers import Answers, Classes, Planned, with_answers
from headcount.topdown.measure import Measurements

if TYPE_CHECKING:
    from headcount.topdown.from_measurements import PublishedStart


@dataclass(frozen=True, eq=False)
class NudgedAnswers:
    """Answers, and a part of fresh noise on each.

    where
        answers   the published ones
        noise     noisy counts of places where nobody lives: noise alone
        part      how much of it is added
    """

    answers: Answers
    noise: Answers
    part: float

    def open(self) -> NudgedAnswers:
        """Itself."""
        return self

    @property
    def planned(self) -> Planned:
        """The noise of the published answers: the estimate knows of no other."""
        return self.answers.planned

    @property
    def classes(self) -> Classes:
        """Which share of the loss each unit has."""
        return self.answers.classes

    def values(self, level: str, query: str, units: range) -> Floats:
        """Every answer of some units to a query."""
        found = self.part * self.noise.values(level, query, units).astype(np.float64)
        return found + self.answers.values(level, query, units)

    def picked(self, level: str, query: str, unit: Ints, group: Ints) -> Floats:
        """The answers of some (unit, answer) pairs."""
        found = self.part * self.noise.picked(level, query, unit, group).astype(np.float64)
        return found + self.answers.picked(level, query, unit, group)

    def answered(self, level: LevelPlan, problem: NodeProblem) -> NodeProblem:
        """The problem with its answers."""
        return with_answers(
            level,
            problem,
            detail=lambda unit, cell: self.picked(level.name, CELLS, unit, cell),
            groups=lambda query, unit, group: self.picked(level.name, query, unit, group),
        )

    def said(self) -> dict[str, str]:
        """Nothing: no release is made of them."""
        return {}

    def weighted(self, level: LevelPlan) -> LevelPlan:
        """The plan itself."""
        return level


def nudged(start: PublishedStart, noise: Noise, *, run: int, part: float) -> PublishedStart:
    """The same start, from answers with some more noise; each run has other noise."""
    from scipy.sparse import csr_array

    places, schema = start.measurements.geography, start.measurements.schema
    empty = csr_array((places.size(places.leaf), schema.size), dtype=int)
    nobody = Counts(schema, places, places.leaf, empty)
    if places.spine is not None:
        nobody = start.mechanism.laid(nobody)
    answers = start.answers
    fresh = Measurements(
        every_level(nobody),
        start.mechanism,
        noise,
        run=run,
        planned=answers.planned,
        classes=answers.classes,
    )
    return replace(start, answers=NudgedAnswers(answers, fresh, part))
