"""Exact and released counts of a large table: each pair that occurs, and how often.

Counts are whole numbers, and most of them small, so that a table of a hundred million counts has
some ten thousand different pairs. Every statistic of errors follows from them exactly, and pieces
of a table are tallied one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.evaluation.error import (
    EXACT_MINUS_RELEASED,
    RELEASED_MINUS_EXACT,
    CellSet,
    CountPairs,
    ErrorSummary,
    Sign,
    summarise,
)

_KEYS = ("column", "truth", "released")


@dataclass(frozen=True, kw_only=True, eq=False)
class TalliedPairs:
    """Different pairs of exact and released counts of a set, whose places are not known.

    where
        column     the column of the table that a pair is in
        times      how often it occurs there
        unlisted   counts of each column that are zero on both sides: part of the set
    """

    cells: CellSet
    column: Ints
    truth: Ints
    released: Ints
    times: Ints
    unlisted: Ints

    @property
    def empty(self) -> int:
        """Counts of the set that are zero on both sides."""
        return int(self.unlisted.sum())

    @property
    def n(self) -> int:
        """How many counts the set has."""
        return int(self.times.sum()) + self.empty

    def residuals(self, *, sign: Sign = RELEASED_MINUS_EXACT) -> NDArray[Any]:
        """One residual for each pair that occurs; those of the `empty` ones are zero."""
        difference = self.released - self.truth
        return -difference if sign == EXACT_MINUS_RELEASED else difference

    def summary(self, *, sign: Sign = RELEASED_MINUS_EXACT) -> ErrorSummary:
        """The errors of the whole set."""
        return summarise(
            self.residuals(sign=sign),
            zeros=self.empty,
            times=self.times,
            sign=sign,
            cells=self.cells,
        )

    def columns(self) -> Iterator[TalliedPairs]:
        """The pairs of each column of the table, in order."""
        for number in range(len(self.unlisted)):
            mine = self.column == number
            yield TalliedPairs(
                cells=self.cells,
                column=np.zeros(int(mine.sum()), dtype=np.int64),
                truth=self.truth[mine],
                released=self.released[mine],
                times=self.times[mine],
                unlisted=self.unlisted[[number]],
            )


ComparedPairs: TypeAlias = CountPairs | TalliedPairs


def tally(pieces: Iterable[CountPairs], cells: CellSet, *, by_column: bool) -> TalliedPairs:
    """Count the pairs of the pieces of one table, some of its rows each: whole numbers only.

    Without ``by_column`` all of its columns are taken as one.
    """
    found: pl.DataFrame | None = None
    unlisted = np.zeros(0, dtype=np.int64)
    for pairs in pieces:
        rows, columns = pairs.shape if by_column else (pairs.shape[0] * pairs.shape[1], 1)
        column = pairs.place % columns
        new = pl.DataFrame(dict(zip(_KEYS, (column, pairs.truth, pairs.released), strict=True)))
        counted = new.group_by(_KEYS).len("times").cast(pl.Int64)
        both = counted if found is None else pl.concat([found, counted])
        found = both.group_by(_KEYS).agg(pl.col("times").sum())
        unlisted = unlisted if unlisted.size else np.zeros(columns, dtype=np.int64)
        if cells == "all":
            unlisted += rows - np.bincount(column, minlength=columns)
    assert found is not None  # a table has a piece
    ordered = found.sort(_KEYS)
    return TalliedPairs(
        cells=cells,
        unlisted=unlisted,
        **{name: ordered[name].to_numpy() for name in (*_KEYS, "times")},
    )
