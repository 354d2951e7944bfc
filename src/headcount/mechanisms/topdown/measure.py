"""The measuring step: the only place where TopDown's noise meets true counts.

Every query at every level is measured once. Answers are drawn where they are asked for: noise is a
pure function of its address, so an answer that the estimate never looks at (of a group of cells
that are all empty in the parent's estimate) need not be drawn, and the release has the same
distribution. What is drawn is truth plus integer noise; floats come after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.errors import PrivacyError
from headcount.mechanisms.topdown import _kernels as kernels
from headcount.mechanisms.topdown._estimate import NodeProblem
from headcount.mechanisms.topdown._level import LevelPlan
from headcount.mechanisms.topdown.planned import PlannedNoise, planned_noise
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.noise import Law, Noise, Stream
from headcount.noise.source import Positions
from headcount.tabulate import CELLS, Counts

if TYPE_CHECKING:
    from scipy.sparse import csr_array


REPORT = "report"
"""The purpose of the noise on the distance to the truth."""
LARGEST_COUNT = 1 << 40
"""Answers and estimates are exact in floats up to 2^53: no count, and no law's scale, is larger."""


class Measurements:
    """Noisy answers of one run, by level and query; holds the truth, and never gives it out."""

    def __init__(
        self, counts: Mapping[str, Counts], settings: TopDownSettings, noise: Noise, *, run: int
    ) -> None:
        leaf = next(iter(counts.values()))
        self._counts = counts
        self._settings = settings
        self._noise = noise
        self._run = run
        self.planned = planned_noise(settings, leaf.schema, leaf.geography)
        self._asked = {
            query.name: (query.size(leaf.schema), query.groups(leaf.schema))
            for query in settings.marginals
        }
        for level in counts.values():
            level.matrix.sum_duplicates()  # detail looks counts up by bisection

    def noise_of(self, level: str, query: str) -> PlannedNoise | None:
        """The noise of a query at a level; None where it is not measured."""
        return self.planned.get((level, query))

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("measurements: found a copy being made, expected truth to stay here")

    def answered(self, level: LevelPlan, problem: NodeProblem) -> NodeProblem:
        """The problem with noisy answers: to its variables, and to groups that hold any of them."""
        batch = problem.batch
        detail = np.zeros(len(problem.unit))
        if level.weight > 0:
            detail = self.detail(level.name, problem.unit, problem.cell).astype(np.float64)
        margin = np.zeros((len(problem.child), int(level.family_start[-1])))
        for f in np.flatnonzero(level.family_weight > 0):
            first, last = level.family_start[f : f + 2]
            child, group = kernels.groups_in_use(
                batch.cell_start, batch.cell, batch.child_start, level.group[f], last - first
            )
            found = self.groups(level.name, level.families[f], problem.child[child], group)
            margin[child, first + group] = found
        return replace(problem, batch=replace(batch, answer=detail, margin=margin))

    def margin(self, level: str, query: str, units: range | None = None) -> Ints:
        """Noisy answers of a marginal in some units, or all: units x groups."""
        size, of_cell = self._asked[query]
        return self._whole(level, query, units, possible=np.ones(size, dtype=bool), of_cell=of_cell)

    def cells(self, level: str, units: range | None = None) -> Ints:
        """Noisy detailed answers of some units, or all: units x cells, structural zeros 0."""
        schema = self._counts[level].schema
        every = np.arange(schema.size, dtype=np.int64)
        return self._whole(level, CELLS, units, possible=schema.possible, of_cell=every)

    def _whole(
        self, level: str, query: str, units: range | None, *, possible: Flags, of_cell: Ints
    ) -> Ints:
        """Every answer of some units, in the order of the stream; 0 where nobody is possible."""
        counts, size = self._counts[level], len(possible)
        every = counts.geography.size(level)
        units = range(every) if units is None else units
        stream = Stream(level=level, query=query, size=every * size)
        positions = range(units.start * size, units.stop * size)
        answers = self._draw(self._law(level, query), stream, positions).reshape(-1, size)
        if not possible.all():
            answers *= possible
        matrix = counts.matrix
        kernels.add_true_rows(
            matrix.indptr, matrix.indices, matrix.data, of_cell, units.start, answers
        )
        return answers

    def groups(self, level: str, query: str, unit: Ints, group: Ints) -> Ints:
        """Noisy answers of some (unit, group) pairs of a marginal; pairs of a unit in a row.

        Always summed over the full truth of the unit.
        """
        counts, (size, of_cell) = self._counts[level], self._asked[query]
        law = self._law(level, query)
        stream = Stream(level=level, query=query, size=counts.geography.size(level) * size)
        answers = self._draw(law, stream, unit * size + group)
        matrix = counts.matrix
        kernels.add_true_groups(
            matrix.indptr, matrix.indices, matrix.data, of_cell, size, unit, group, answers
        )
        return answers

    def detail(self, level: str, unit: Ints, cell: Ints) -> Ints:
        """Noisy detailed answers of some (unit, cell) pairs of a level."""
        counts = self._counts[level]
        law = self._law(level, CELLS)
        cells = counts.schema.size
        stream = Stream(level=level, query=CELLS, size=counts.geography.size(level) * cells)
        answers = self._draw(law, stream, unit * cells + cell)
        matrix = counts.matrix
        kernels.add_truth(matrix.indptr, matrix.indices, matrix.data, unit, cell, answers)
        return answers

    def _law(self, level: str, query: str) -> Law | None:
        if (planned := self.noise_of(level, query)) is None:
            raise PrivacyError(f"topdown: {query!r} at {level!r} has no share and is not measured")
        return planned.law

    def _draw(self, law: Law | None, stream: Stream, index: Positions) -> Ints:
        if law is None:
            return np.zeros(len(index), dtype=np.int64)
        return self._noise.draw_at(stream, law, draw=self._run, index=index)


def distance_to_truth(
    counts: Counts,
    released: csr_array[Any, tuple[int, int]],
    *,
    law: Law,
    noise: Noise,
    run: int,
) -> int:
    """The protected L1 distance between release and truth over all leaf cells.

    A neighbour moves the distance by at most as much as the cells themselves, which is 2 for a
    changed record: noise of rate epsilon / 2 then costs epsilon (the report of the 2018 test).
    Its noise has a purpose of its own, because a query of the user's may have any name.
    """
    distance = int(abs(counts.matrix - released).sum())
    stream = Stream(level=counts.level, query="distance to the truth", size=1, purpose=REPORT)
    drawn = noise.draw_at(stream, law, draw=run, index=np.zeros(1, dtype=np.int64))
    return distance + int(drawn[0])
