"""True counts of every level, read by ranges of units: from memory, or from files of the run.

The files are the curator's: below ``internal/``, for their owner alone, and gone when the run
ends, however it ends but by a kill; then the next run of the same command, or ``headcount close``,
removes them. What says where they are can be sent to other processes, by files that are as private:
it has no count in it, but digests of counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from headcount.files import removing
from headcount.release.layout import stem_of
from headcount.schema import Schema
from headcount.storage import Storage
from headcount.storage.numbers import StoredNumbers, store_numbers
from headcount.tabulate import Counts
from headcount.topdown._estimate import SparseRows
from headcount.topdown.restrict import Restriction, Restrictions

TRUTH = "truth"
"""The folder of these files in a run's workspace."""
ENTRIES_AT_ONCE = 1 << 20
"""Numbers that are written together."""


class TruthByRange(Protocol):
    """True counts, by level and units."""

    @property
    def schema(self) -> Schema:
        """What is counted."""

    def units(self, level: str) -> int:
        """How many units a level has."""

    def rows(self, level: str, units: range) -> SparseRows:
        """The counts of some units of a level, the cells of each in order."""


class TruthHere:
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


class LevelFiles(NamedTuple):
    """The rows of a level: unit u has the entries from ``start[u]`` to ``start[u + 1]``."""

    start: StoredNumbers
    cell: StoredNumbers
    value: StoredNumbers


@dataclass(frozen=True, eq=False)
class TruthFiles:
    """Counts in files: a description of these, which other processes open."""

    schema: Schema
    levels: Mapping[str, LevelFiles]

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
    with removing(storage.remove, storage.uri):
        files = {level: _stored(counts, storage) for level, counts in levels.items()}
        schema = next(iter(levels.values())).schema
        del levels  # whoever uses the files need not hold the counts as well
        yield TruthFiles(schema, files)


def _stored(counts: Counts, storage: Storage) -> LevelFiles:
    counts.matrix.sum_duplicates()
    name, matrix = stem_of(counts.level), counts.matrix
    return LevelFiles(
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
