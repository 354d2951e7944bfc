"""From the true counts and keys of cells to their changes.

The key of a cell is a word of 64 bits: the sum, modulo 2^64, of those of its people. It is uniform
if one of them is, and those of disjoint sets of people are independent; so a cell's change has the
law of its row, and the same people change alike in every table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.errors import ConfigError
from headcount.mechanisms.cell_key.perturbation import WORD, ChangeLaw

CellKeys = NDArray[np.uint64]
PLAIN = 750
"""ONS: larger counts use the rows 501 to 750 in turn."""
TURN = 250
AT_ONCE = 1 << 20
"""Cells looked up at once: a few temporary arrays of a cell's size each."""


@dataclass(frozen=True)
class ByInterval:
    """The European lookup: the first change whose cumulated probability exceeds key / 2^64."""

    rows: tuple[ChangeLaw, ...]

    def changes(self, counts: Ints, keys: CellKeys) -> Ints:
        """The change of each cell; a count beyond the last row uses that."""
        found = np.empty(counts.shape, dtype=np.int64)
        flat, words, out = counts.ravel(), keys.ravel(), found.reshape(-1)
        for start in range(0, len(flat), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            row_of = np.minimum(flat[some], len(self.rows) - 1)
            for number, (bounds, values) in enumerate(self._bounds):
                here = np.flatnonzero(row_of == number)
                place = np.searchsorted(bounds, words[some][here], side="right")
                out[start + here] = values[place]
        return found

    @property
    def _bounds(self) -> Sequence[tuple[CellKeys, Ints]]:
        """For each row the upper bounds of all changes but the last, and the changes."""
        found = []
        for row in self.rows:
            # A change without weight can have a bound of 2^64, which is no word: it never happens.
            some = [(v, w) for v, w in zip(row.changes, row.weights, strict=True) if w]
            bounds, total = [], 0
            for _, weight in some[:-1]:
                total += weight
                bounds.append(total)
            values = np.array([v for v, _ in some], dtype=np.int64)
            found.append((np.array(bounds, dtype=np.uint64), values))
        return found


def check_columns(columns: int) -> None:
    """Refuse a number of columns that keys do not share equally."""
    if columns < 2 or columns & (columns - 1) or columns > WORD:
        raise ConfigError(
            "perturbation table",
            place="columns",
            found=str(columns),
            expected="a power of two, such as 256 or 4096",
        )


@dataclass(frozen=True, eq=False)
class ByColumn:
    """The lookup of the ONS: a table with a row a count and a column a key.

    where
        table   changes, for counts 1, 2, ... (rows) and keys 0, 1, ... (columns)

    A count n above 750 uses the row ((n - 1) mod 250) + 501, if the table has so many; a shorter
    table serves larger counts by its last row.
    """

    table: NDArray[Any]

    def __post_init__(self) -> None:
        check_columns(self.table.shape[1])

    def changes(self, counts: Ints, keys: CellKeys) -> Ints:
        """The change of each cell; empty cells stay empty."""
        rows, columns = self.table.shape
        turned = np.where(counts <= PLAIN, counts, (counts - 1) % TURN + PLAIN - TURN + 1)
        row_of = (turned if rows >= PLAIN else np.minimum(counts, rows)) - 1
        column = (keys >> np.uint64(64 - columns.bit_length() + 1)).astype(np.int64)
        return np.where(counts > 0, self.table[np.maximum(row_of, 0), column], 0).astype(np.int64)
