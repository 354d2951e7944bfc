"""The measuring step: the only place where TopDown's noise meets true counts.

Every query at every level is measured once. Answers are drawn where they are asked for: noise is a
pure function of its address, so an answer that the estimate never looks at (of a group of cells
that are all empty in the parent's estimate) need not be drawn, and the release has the same
distribution. What is drawn is truth plus integer noise; floats come after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.errors import PrivacyError
from headcount.geography import Geography
from headcount.noise import Law, Noise, Stream, TwoSidedGeometric
from headcount.noise.source import DrawPositions
from headcount.tabulate import CELLS, Counts
from headcount.topdown import _kernels as kernels
from headcount.topdown._estimate import NodeProblem, SparseRows
from headcount.topdown._level import LevelPlan
from headcount.topdown.answers import (
    Classes,
    Planned,
    unit_classes,
    with_answers,
)
from headcount.topdown.planned import PlannedNoise, planned_noise
from headcount.topdown.restrict import UNITS_AT_ONCE
from headcount.topdown.settings import TopDownSettings
from headcount.topdown.truth import TruthByRange, TruthFiles, TruthHere

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TrueRows: TypeAlias = tuple[int, SparseRows]
"""True counts of a run of units, and the number of the first."""

REPORT = "report"
"""The purpose of the noise on the distance to the truth."""
MARK = "mark"
"""The purpose of noise that is added to nothing."""
RATE = Fraction(1, 64)
"""Its rate: a draw has some 8 bits."""


class Measurements:
    """Noisy answers of one run, by level and query; opens the truth, and never gives it out.

    where
        counts    of every level: in memory, or in files
        planned   the noise of each query, where ``settings`` have been looked at before
        classes   which share of the loss each unit has, likewise
    """

    def __init__(
        self,
        counts: Mapping[str, Counts] | TruthFiles,
        settings: TopDownSettings,
        noise: Noise,
        *,
        run: int,
        planned: Planned | None = None,
        classes: Classes | None = None,
    ) -> None:
        self._counts = counts
        self._truth: TruthByRange = counts if isinstance(counts, TruthFiles) else TruthHere(counts)
        self._settings = settings
        self._noise = noise
        self._run = run
        if planned is None:
            assert not isinstance(counts, TruthFiles)
            leaf = next(iter(counts.values()))
            planned = planned_noise(settings, leaf.schema, leaf.geography)
            classes = unit_classes(settings, leaf.geography)
        self.planned, self.classes = planned, classes or {}
        schema = self._truth.schema
        self._asked = {
            query.name: (query.size(schema), query.groups(schema)) for query in settings.marginals
        }

    def noise_of(self, level: str, query: str) -> PlannedNoise | None:
        """The noise of a query at a level; None where it is not measured."""
        return self.planned.get((level, query))

    def open(self) -> Measurements:
        """Itself: see ``MeasurementFiles``."""
        return self

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("measurements: found a copy being made, expected truth to stay here")

    def answered(self, level: LevelPlan, problem: NodeProblem) -> NodeProblem:
        """The problem with noisy answers: to its variables, and to groups that hold any of them."""
        true = self._true(level.name, problem.child)
        return with_answers(
            level,
            problem,
            detail=lambda unit, cell: self._detail(level.name, unit, cell, true),
            groups=lambda query, unit, group: self._groups(level.name, query, unit, group, true),
        )

    def values(self, level: str, query: str, units: range) -> Ints:
        """Every answer of some units to a query: units x answers."""
        return self.cells(level, units) if query == CELLS else self.margin(level, query, units)

    def picked(self, level: str, query: str, unit: Ints, group: Ints) -> Ints:
        """The answers of some (unit, answer) pairs."""
        if query == CELLS:
            return self.detail(level, unit, group)
        return self.groups(level, query, unit, group)

    def said(self) -> dict[str, str]:
        """Nothing: they are used as they were drawn."""
        return {}

    def weighted(self, level: LevelPlan) -> LevelPlan:
        """The plan itself: its weights are those of the noise."""
        return level

    def margin(self, level: str, query: str, units: range | None = None) -> Ints:
        """Noisy answers of a marginal in some units, or all: units x groups."""
        size, of_cell = self._asked[query]
        return self._whole(level, query, units, possible=np.ones(size, dtype=bool), of_cell=of_cell)

    def cells(self, level: str, units: range | None = None) -> Ints:
        """Noisy detailed answers of some units, or all: units x cells, structural zeros 0."""
        schema = self._truth.schema
        every = np.arange(schema.size, dtype=np.int64)
        return self._whole(level, CELLS, units, possible=schema.possible, of_cell=every)

    def _whole(
        self, level: str, query: str, units: range | None, *, possible: Flags, of_cell: Ints
    ) -> Ints:
        """Every answer of some units, in the order of the stream; 0 where nobody is possible."""
        units, size = range(self._truth.units(level)) if units is None else units, len(possible)
        positions = range(units.start * size, units.stop * size)
        stream = self._stream(level, query, size)
        number = np.arange(units.start, units.stop)
        unit = np.repeat(number, size) if level in self.classes else None
        answers = self._noisy(level, query, stream, unit, positions).reshape(-1, size)
        if not possible.all():
            answers *= possible
        rows = self._truth.rows(level, units)
        kernels.add_true_rows(rows.start, rows.cell, rows.value, of_cell, answers)
        return self._without_others(level, number, answers)

    def groups(self, level: str, query: str, unit: Ints, group: Ints) -> Ints:
        """Noisy answers of some (unit, group) pairs of a marginal; pairs of a unit in a row.

        Always summed over the full truth of the unit.
        """
        return self._groups(level, query, unit, group, self._true(level, unit))

    def detail(self, level: str, unit: Ints, cell: Ints) -> Ints:
        """Noisy detailed answers of some (unit, cell) pairs of a level."""
        return self._detail(level, unit, cell, self._true(level, unit))

    def _groups(self, level: str, query: str, unit: Ints, group: Ints, true: TrueRows) -> Ints:
        (size, of_cell), (first, rows) = self._asked[query], true
        stream = self._stream(level, query, size)
        answers = self._noisy(level, query, stream, unit, unit * size + group)
        kernels.add_true_groups(
            rows.start, rows.cell, rows.value, of_cell, size, unit - first, group, answers
        )
        return self._without_others(level, unit, answers)

    def _detail(self, level: str, unit: Ints, cell: Ints, true: TrueRows) -> Ints:
        cells, (first, rows) = self._truth.schema.size, true
        stream = self._stream(level, CELLS, cells)
        answers = self._noisy(level, CELLS, stream, unit, unit * cells + cell)
        kernels.add_truth(rows.start, rows.cell, rows.value, unit - first, cell, answers)
        return self._without_others(level, unit, answers)

    def _true(self, level: str, unit: Ints) -> TrueRows:
        """The counts of all units from the first to the last of some."""
        first, last = (int(unit.min()), int(unit.max()) + 1) if len(unit) else (0, 0)
        return first, self._truth.rows(level, range(first, last))

    def _stream(self, level: str, query: str, size: int) -> Stream:
        """The noise of a query with so many answers in each unit."""
        return Stream(level=level, query=query, size=self._truth.units(level) * size)

    def _noisy(
        self, level: str, query: str, stream: Stream, unit: Ints | None, index: DrawPositions
    ) -> Ints:
        """The noise of some answers, by the law of each answer's unit, each law in a stream."""
        if (planned := self.noise_of(level, query)) is None:
            raise PrivacyError(f"topdown: {query!r} at {level!r} has no share and is not measured")
        if level not in self.classes:
            return self._draw(planned.law, stream, index)
        noise = np.zeros(len(index), dtype=np.int64)
        # A range becomes an array a hundred times quicker by its ends.
        where = np.arange(index.start, index.stop) if isinstance(index, range) else index
        own = self.classes[level][unit]
        for k, one in enumerate(planned.classes):
            if one is not None:
                some = np.flatnonzero(own == k)
                apart = replace(stream, purpose=f"share {k}")
                noise[some] = self._draw(one.law, apart, where[some])
        return noise

    def _without_others(self, level: str, unit: Ints, answers: Ints) -> Ints:
        """Nothing is said of units without a share, to which no noise was added."""
        if level in self.classes:
            answers[self.classes[level][unit] == 0] = 0
        return answers

    def _draw(self, law: Law | None, stream: Stream, index: DrawPositions) -> Ints:
        if law is None:
            return np.zeros(len(index), dtype=np.int64)
        return self._noise.draw_at(stream, law, draw=self._run, index=index)


class MeasurementFiles:
    """Where measurements are made from: small, and without a count or a key, so that it travels.

    Who gets it opens the files of the truth, and the key in its own file.
    """

    def __init__(
        self,
        truth: TruthFiles,
        settings: TopDownSettings,
        planned: Planned,
        classes: Classes,
        noise: Noise,
        run: int,
    ) -> None:
        self._parts = (truth, settings, planned, classes, noise, run)
        self._opened: Measurements | None = None

    def open(self) -> Measurements:
        """The measurements, in this process."""
        if self._opened is None:
            truth, settings, planned, classes, noise, run = self._parts
            self._opened = Measurements(
                truth, settings, noise, run=run, planned=planned, classes=classes
            )
        return self._opened

    def __reduce__(self) -> tuple[object, ...]:
        return (MeasurementFiles, self._parts)


def measured(
    truth: Mapping[str, Counts] | TruthFiles,
    settings: TopDownSettings,
    noise: Noise,
    geography: Geography,
    *,
    run: int,
) -> Measurements | MeasurementFiles:
    """The measurements of a run; those of a truth in files may be opened by other processes."""
    if not isinstance(truth, TruthFiles):
        return Measurements(truth, settings, noise, run=run)
    planned = planned_noise(settings, truth.schema, geography)
    classes = unit_classes(settings, geography)
    return MeasurementFiles(truth, settings, planned, classes, noise, run)


def mark_of(noise: Noise) -> bytes:
    """Bytes that differ from one source of noise to another: draws that are used for nothing else.

    Files that one source of noise made are not to be taken for those of another.
    """
    stream, law = Stream(level="", query="", size=32, purpose=MARK), TwoSidedGeometric(RATE)
    return noise.draw_at(stream, law, draw=0, index=range(stream.size)).tobytes()


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
    units, matrix, distance = released.shape[0], counts.matrix, 0
    for first in range(0, units, UNITS_AT_ONCE):
        some = slice(first, first + UNITS_AT_ONCE)
        distance += int(abs(matrix[some] - released[some]).sum())
    stream = Stream(level=counts.level, query="distance to the truth", size=1, purpose=REPORT)
    drawn = noise.draw_at(stream, law, draw=run, index=np.zeros(1, dtype=np.int64))
    return distance + int(drawn[0])
