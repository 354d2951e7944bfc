"""From the true counts and keys of cells to their changes.

The key of a cell is a word of 64 bits: the sum, modulo 2^64, of those of its people. It is uniform
if one of them is, and those of disjoint sets of people are independent; so a cell's change has the
law of its row, and the same people change alike in every table. A table has intervals of keys
(European), or a column for each of 256 or 4,096 keys (ONS).

*Perturbation of zeros*: some empty cells are published as 1, 2, ..., so that no 0 is certain. An
empty cell has nobody whose word could change it. So each category of each attribute gets a uniform
word of its own, and the key of an empty cell is the sum of those of its categories, modulo 2^64:
the same in every table with these attributes. The cells with the largest keys are raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints
from headcount.errors import ConfigError, InputError
from headcount.mechanisms.cell_key.perturbation import STAYS, WORD, ChangeLaw
from headcount.noise.source import Words
from headcount.solve.mip import Program, minimise

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


def column_row(row: ChangeLaw, columns: int) -> ChangeLaw:
    """The law p in whole numbers of columns c, as near as can be while the mean stays 0.

        minimise    sum_v |c_v - M p_v|
        subject to  sum_v c_v = M,  sum_v v c_v = 0,  c_v whole and at least 0

    where
        v   a change
        M   number of columns
        c   how many columns have that change: weights are multiples of 2^64 / M

    Taking the largest remainders instead leaves most rows of 256 columns with another mean. Where 0
    is no possible change there may be no such numbers; the nearest ones without the condition on
    the mean are taken then, and the row that is returned says its mean.
    """
    from scipy.sparse import csc_array

    check_columns(columns)
    floor, rest = zip(*(divmod(weight * columns, WORD) for weight in row.weights), strict=True)
    size, low = len(floor), np.array(floor, dtype=np.float64)
    part = np.array([r / WORD for r in rest])
    sums = np.vstack([np.ones(size), np.array(row.changes, dtype=np.float64)])
    right = np.array([columns, 0.0]) - sums @ low
    program = Program(  # c = floor + up + far - down
        cost=np.concatenate([1 - 2 * part, np.ones(2 * size)]),
        low=np.zeros(3 * size),
        high=np.concatenate([np.ones(size), np.full(size, float(columns)), low]),
        matrix=csc_array(np.hstack([sums, sums, -sums])),
        row_low=right,
        row_high=right,
        integer=True,
    )
    found = minimise(program)
    if found is None:
        found = minimise(
            replace(
                program,
                matrix=program.matrix[:1],
                row_low=right[:1],
                row_high=right[:1],
            )
        )
    if found is None:
        raise AssertionError("whole columns that sum to their number always exist")
    up, far, down = found.astype(np.int64).reshape(3, size)
    counts = np.array(floor) + up + far - down
    return ChangeLaw(row.changes, tuple(int(c) * (WORD // columns) for c in counts))


def column_table(rows: Sequence[ChangeLaw], columns: int, *, words: Words) -> Ints:
    """Changes of counts 1, 2, ... (rows) by keys 0, 1, ... (columns), each row in a random order.

    where
        rows    laws in whole columns, of counts 0, 1, ...
        words   of a cipher stream: the order is as secret as the keys
    """
    table = np.empty((len(rows) - 1, columns), dtype=np.int64)
    for number, row in enumerate(rows[1:]):
        many = [w // (WORD // columns) for w in row.weights]
        drawn = np.concatenate([some.copy() for some in words.run(number * columns, columns)])
        table[number, np.argsort(drawn, kind="stable")] = np.repeat(row.changes, many)
    return table


def column_laws(table: Ints) -> tuple[ChangeLaw, ...]:
    """The law of each row of a table with columns, count 0 included: it always stays."""
    share = WORD // table.shape[1]
    laws = [STAYS]
    for row in table:
        changes, many = np.unique(row, return_counts=True)
        laws.append(ChangeLaw(tuple(changes.tolist()), tuple(int(c) * share for c in many)))
    return tuple(laws)


def wanted_zeros(counts: Ints, rows: Sequence[ChangeLaw]) -> tuple[int, ...]:
    """How many zeros to raise to 1, 2, ..., so that a table that loses counts keeps its total.

        x_j = round(N_j * (- mean_j) / j),   so that   sum_j j x_j  is about  - sum_j N_j mean_j

    where
        N_j      number of cells with count j
        mean_j   mean change of such a cell, below 0 where counts of j are lost

    Eurostat's SAS programs for the 2021 census; the ONS.
    """
    found = []
    for j, row in enumerate(rows[1:], start=1):
        cells = int((counts == j).sum())
        found.append(max(round(-cells * row.mean / j), 0))
    return tuple(found)


def raise_zeros(counts: Ints, keys: CellKeys, possible: Flags, wanted: Sequence[int]) -> Ints:
    """The change of each cell: 0 but for the empty ones that are raised.

    where
        counts     true counts
        keys       of categories, one a cell
        possible   cells that may have people
        wanted     x_1, x_2, ...
    """
    empty = np.flatnonzero((counts == 0) & possible)
    if sum(wanted) > len(empty):
        raise InputError(
            "perturbation of zeros",
            found="fewer empty cells than are to be raised",
            expected="a table with more of them, or rows of mean nearer to 0",
        )
    first = empty[np.argsort(keys[empty], kind="stable")[::-1]][: sum(wanted)]
    changes = np.zeros(len(counts), dtype=np.int64)
    changes[first] = np.repeat(np.arange(1, len(wanted) + 1), wanted)
    return changes
