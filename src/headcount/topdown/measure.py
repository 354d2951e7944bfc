"""The measuring step: the only place where TopDown's noise meets true counts.

Every query at every level is measured once. Answers are drawn where they are asked for: noise is a
pure function of its address, so an answer that the estimate never looks at (of a group of cells
that are all empty in the parent's estimate) need not be drawn, and the release has the same
distribution. What is drawn is truth plus integer noise; floats come after.

True counts are read by ranges of units, from memory or from files of the run. The files are the
curator's: below ``internal/``, for their owner alone, and gone when the run ends, however it ends
but by a kill; then the next run of the same command, or ``headcount close``, removes them. What
says where they are can be sent to other processes, by files that are as private: it has no count in
it, but digests of counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from headcount.arrays import Flags, Ints, Ints32
from headcount.compiled import kernel
from headcount.errors import PrivacyError
from headcount.files import removing
from headcount.noise import Law, Noise, Stream, TwoSidedGeometric
from headcount.noise.source import DrawPositions
from headcount.release.layout import stem_of
from headcount.schema import Schema
from headcount.storage import Storage, StoredNumbers, store_numbers
from headcount.tabulate import CELLS, Counts
from headcount.topdown.answers import Answers, Classes, Planned, unit_classes
from headcount.topdown.parts import SparseRows
from headcount.topdown.restrict import UNITS_AT_ONCE, Restriction, Restrictions
from headcount.topdown.settings import TopDownSettings, planned_noise

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TRUTH = "truth"
"""The folder of these files in a run's workspace."""
ENTRIES_AT_ONCE = 1 << 20
"""Numbers that are written together."""


class _TruthByRange(Protocol):
    """True counts, by level and units."""

    @property
    def schema(self) -> Schema:
        """What is counted."""

    def units(self, level: str) -> int:
        """How many units a level has."""

    def rows(self, level: str, units: range) -> SparseRows:
        """The counts of some units of a level, the cells of each in order."""


class _TruthHere:
    """Counts of this process's memory."""

    def __init__(self, levels: Mapping[str, Counts]) -> None:
        self._levels = levels
        for level in levels.values():
            level.matrix.sum_duplicates()  # cells in order, each once

    @property
    def schema(self) -> Schema:
        """What is counted."""
        return next(iter(self._levels.values())).schema

    def units(self, level: str) -> int:
        """How many units a level has."""
        return self._levels[level].geography.size(level)

    def rows(self, level: str, units: range) -> SparseRows:
        """The counts of some units of a level."""
        matrix = self._levels[level].matrix
        start = matrix.indptr[units.start : units.stop + 1].astype(np.int64)
        own = slice(start[0], start[-1])
        cell = matrix.indices[own].astype(np.int32, copy=False)
        return SparseRows(start - start[0], cell, matrix.data[own].astype(np.int64, copy=False))


class _LevelFiles(NamedTuple):
    """The rows of a level: unit u has the entries from ``start[u]`` to ``start[u + 1]``."""

    start: StoredNumbers
    cell: StoredNumbers
    value: StoredNumbers


@dataclass(frozen=True, eq=False)
class TruthFiles:
    """Counts in files: a description of these, which other processes open."""

    schema: Schema
    levels: Mapping[str, _LevelFiles]

    def units(self, level: str) -> int:
        """How many units a level has."""
        return len(self.levels[level].start) - 1

    def rows(self, level: str, units: range) -> SparseRows:
        """The counts of some units of a level."""
        files = self.levels[level]
        start = files.start[units.start : units.stop + 1]
        own = slice(int(start[0]), int(start[-1]))
        return SparseRows(start - start[0], files.cell[own].astype(np.int32), files.value[own])


@contextmanager
def truth_in_files(levels: Mapping[str, Counts], storage: Storage) -> Iterator[TruthFiles]:
    """Counts of every level written to files, which go in the end."""
    storage.remove()  # of a run that was killed
    with removing(storage.remove, str(storage.folder)):
        files = {level: _stored(counts, storage) for level, counts in levels.items()}
        schema = next(iter(levels.values())).schema
        del levels  # whoever uses the files need not hold the counts as well
        yield TruthFiles(schema, files)


def _stored(counts: Counts, storage: Storage) -> _LevelFiles:
    counts.matrix.sum_duplicates()
    name, matrix = stem_of(counts.level), counts.matrix
    return _LevelFiles(
        store_numbers(
            storage, f"{name}/start", _pieces(matrix.indptr), least=0, most=int(matrix.indptr[-1])
        ),
        store_numbers(
            storage, f"{name}/cell", _pieces(matrix.indices), least=0, most=counts.schema.size
        ),
        store_numbers(
            storage,
            f"{name}/count",
            _pieces(matrix.data),
            least=0,
            most=int(matrix.data.max(initial=0)),
        ),
    )


def bounds_in_files(restrictions: Restrictions, storage: Storage) -> Restrictions:
    """The same restrictions, with the bounds of every level in files."""
    return {
        level: tuple(
            Restriction(
                one.query,
                _stored_bounds(one.low, storage, f"{stem_of(level)}/low-{k}"),
                _stored_bounds(one.high, storage, f"{stem_of(level)}/high-{k}"),
            )
            for k, one in enumerate(those)
        )
        for level, those in restrictions.items()
    }


def _stored_bounds(bounds: Any, storage: Storage, name: str) -> StoredNumbers:
    ends = [(piece.min(initial=0), piece.max(initial=0)) for piece in _pieces(bounds)]
    least, most = min(int(low) for low, _ in ends), max(int(high) for _, high in ends)
    return store_numbers(storage, name, _pieces(bounds), least=least, most=most)


def _pieces(numbers: Any) -> Iterator[Any]:
    step = max(1, ENTRIES_AT_ONCE // int(np.prod(numbers.shape[1:], dtype=np.int64)))
    for first in range(0, max(1, numbers.shape[0]), step):  # nothing is one empty piece
        yield numbers[first : first + step]


REPORT = "report"
"""The purpose of the noise on the distance to the truth."""
MARK = "mark"
"""The purpose of noise that is added to nothing."""
RATE = Fraction(1, 64)
"""Its rate: a draw has some 8 bits."""


class Measurements:
    """A source of noisy answers: opens the truth, and never gives it out.

    One whose truth and key are in files says where these are and can be sent to another process,
    which opens them there; one that holds counts refuses.

    where
        counts      of every level: in memory, or in files
        planned     the noise of each query; by default that of ``settings`` on these places
        classes     which share of the loss each unit has, likewise
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
        self._truth: _TruthByRange = (
            counts if isinstance(counts, TruthFiles) else _TruthHere(counts)
        )
        self._settings = settings
        self._noise = noise
        self._run = run
        if planned is None:
            assert not isinstance(counts, TruthFiles)
            geography = next(iter(counts.values())).geography
            planned = planned_noise(settings, self._truth.schema, geography)
            classes = unit_classes(settings, geography)
        self.planned, self.classes = planned, classes or {}

    def __reduce__(self) -> tuple[object, ...]:
        if not isinstance(self._counts, TruthFiles):
            raise PrivacyError("Measurements cannot be pickled: they hold the true counts.")
        made = partial(type(self), run=self._run, planned=self.planned, classes=self.classes)
        return made, (self._counts, self._settings, self._noise)

    @property
    def answers(self) -> Answers:
        """The answers, as they are drawn."""
        return Answers(self, self.planned, self.classes)

    @cached_property
    def _asked(self) -> Mapping[str, tuple[Flags, Ints]]:
        """For each query which of its answers are possible, and the answer that a cell adds to."""
        schema = self._truth.schema
        asked = {
            query.name: (np.ones(query.size(schema), dtype=bool), query.groups(schema))
            for query in self._settings.marginals
        }
        return {**asked, CELLS: (schema.possible, np.arange(schema.size, dtype=np.int64))}

    def values(self, level: str, query: str, units: range | None = None) -> Ints:
        """Every answer of some units to a query, or of all, in the order of the stream.

        Units x answers; 0 where nobody is possible, and in units without a share.
        """
        possible, of_cell = self._asked[query]
        units, size = range(self._truth.units(level)) if units is None else units, len(possible)
        positions = range(units.start * size, units.stop * size)
        number = np.arange(units.start, units.stop)
        unit = np.repeat(number, size) if level in self.classes else None
        answers = self._noisy(level, query, unit, positions).reshape(-1, size)
        if not possible.all():
            answers *= possible
        rows = self._truth.rows(level, units)
        _add_true_rows(rows.start, rows.cell, rows.value, of_cell, answers)
        return self._without_others(level, number, answers)

    def picker(self, level: str, unit: Ints) -> Callable[[str, Ints, Ints], Ints]:
        """What gives single answers of some units, whose truth is read once for all queries.

        A group is always summed over the full truth of its unit.
        """
        first, last = (int(unit.min()), int(unit.max()) + 1) if len(unit) else (0, 0)
        rows = self._truth.rows(level, range(first, last))

        def picked(query: str, unit: Ints, group: Ints) -> Ints:
            possible, of_cell = self._asked[query]
            size = len(possible)
            answers = self._noisy(level, query, unit, unit * size + group)
            true, where = (rows.start, rows.cell, rows.value), (unit - first, group)
            if query == CELLS:
                _add_truth(*true, *where, answers)
            else:
                _add_true_groups(*true, of_cell, size, *where, answers)
            return self._without_others(level, unit, answers)

        return picked

    def _noisy(self, level: str, query: str, unit: Ints | None, index: DrawPositions) -> Ints:
        """The noise of some answers, by the law of each answer's unit, each law in a stream."""
        if (planned := self.planned.get((level, query))) is None:
            raise PrivacyError(f"topdown: {query!r} at {level!r} has no share and is not measured")
        size = self._truth.units(level) * len(self._asked[query][0])
        stream = Stream(level=level, query=query, size=size)
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


@kernel
def _add_truth(
    indptr: Ints,
    indices: Ints32,
    data: Ints,
    unit: Ints,
    cell: Ints,
    answers: Ints,
) -> None:
    """Add the true count of each (unit, cell) to its answer; rows are sorted by cell."""
    for i in range(len(unit)):
        low, high = indptr[unit[i]], indptr[unit[i] + 1]
        while low < high:
            middle = (low + high) // 2
            if indices[middle] < cell[i]:
                low = middle + 1
            else:
                high = middle
        if low < indptr[unit[i] + 1] and indices[low] == cell[i]:
            answers[i] += data[low]


@kernel
def _add_true_groups(
    indptr: Ints,
    indices: Ints32,
    data: Ints,
    of_cell: Ints,
    size: int,
    unit: Ints,
    group: Ints,
    answers: Ints,
) -> None:
    """Add to each answer the true count of its unit and group; pairs of a unit are in a row.

    ``of_cell`` holds the group, one of ``size``, of each cell.
    """
    sums = np.zeros(size, dtype=np.int64)
    i = 0
    while i < len(unit):
        u = unit[i]
        for k in range(indptr[u], indptr[u + 1]):
            sums[of_cell[indices[k]]] += data[k]
        while i < len(unit) and unit[i] == u:
            answers[i] += sums[group[i]]
            i += 1
        for k in range(indptr[u], indptr[u + 1]):
            sums[of_cell[indices[k]]] = 0


@kernel
def _add_true_rows(indptr: Ints, indices: Ints32, data: Ints, of_cell: Ints, answers: Ints) -> None:
    """Add the true counts of each unit to its row of answers."""
    for row in range(len(answers)):
        for k in range(indptr[row], indptr[row + 1]):
            answers[row, of_cell[indices[k]]] += data[k]
