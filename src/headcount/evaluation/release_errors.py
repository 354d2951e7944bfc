"""Errors of a release as it tells them itself: from runs of the same method on the release.

The release r stands in the place of the truth, and the method protects it B times, with fresh
noise each time. What comes out, a, is as far from r as r is from the truth, on average over many
counts: that is the bootstrap of a release, the "approximate Monte Carlo" of the Census Bureau
(arXiv 2503.19714). No count of the truth is looked at.

Sums are taken over the counts of a class, S_i in run i of n_i counts. A mean is m = sum S_i / sum
n_i, and its standard error over runs is that of a ratio,

    sqrt(B / (B - 1) * sum (S_i - m n_i)^2) / sum n_i

and that of a root mean square error, by the delta method, that of the mean square over twice the
root.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.evaluation._true_answers import possible_groups
from headcount.evaluation.breakdown import COUNT_BANDS, band_bounds
from headcount.evaluation.error import pair_counts
from headcount.geography import Geography
from headcount.schema import Schema
from headcount.tabulate import Query

ALL, PUBLISHED, BEFORE, UNLIKE = "all", "published", "before", "unlike parent"
"""Classes of counts: everything; by the count that is published, a; by the count before noise, r;
and counts of a group that is most of its unit and few of the unit's parent."""
MOST, FEW = 0.5, 0.2
"""Such a group: at least this share of the unit, at most this share of the parent, before noise."""
FEW_UNITS = 200
"""In a level of fewer units than this an average over them is itself uncertain."""
UNITS_AT_ONCE = 1 << 18

SUMS = ("counts", "squared", "absolute", "signed")
COLUMNS: Mapping[str, Any] = {
    "level": pl.String,
    "query": pl.String,
    "sizes": pl.String,
    "low": pl.Int64,
    "high": pl.Int64,
    "units": pl.Int64,
    "counts": pl.Float64,
    "rmse": pl.Float64,
    "rmse_error": pl.Float64,
    "mae": pl.Float64,
    "mae_error": pl.Float64,
    "bias": pl.Float64,
    "bias_error": pl.Float64,
}


@dataclass(eq=False)
class ReleaseErrors:
    """Sums of errors by level, query and class of counts, run after run.

    where
        queries   what is asked, by name: columns of answers that can hold anyone
        before    tables that stand in the place of the truth, by level
    """

    schema: Schema
    geography: Geography
    queries: Sequence[Query]
    before: Mapping[str, Any]
    _runs: list[Floats] = field(default_factory=list)
    _unlike_at: dict[tuple[str, str], Ints] = field(default_factory=dict)

    def add(self, made: Mapping[str, Any]) -> None:
        """Add a run: its tables by level."""
        found = np.zeros((len(self._keys()), len(SUMS)))
        keys = {key: row for row, key in enumerate(self._keys())}
        for level in self.geography.levels:
            for query in self.queries:
                for (sizes, band), sums in self._sums(level, query, made[level]):
                    found[keys[level, query.name, sizes, band]] += sums
        self._runs.append(found)

    def _keys(self) -> list[tuple[str, str, str, int]]:
        sized = [(sizes, band) for sizes in (PUBLISHED, BEFORE) for band in range(BANDS)]
        classes = [(ALL, 0), *sized, (UNLIKE, 0)]
        return [
            (level, query.name, sizes, band)
            for level in self.geography.levels
            for query in self.queries
            for sizes, band in classes
        ]

    def _sums(
        self, level: str, query: Query, made: Any
    ) -> Iterator[tuple[tuple[str, int], Sequence[float]]]:
        """Counts, and sums of errors, of every class; some units at a time."""
        answer = query.matrix(self.schema)[:, possible_groups(query, self.schema)]
        if (level, query.name) not in self._unlike_at:  # the same in every run
            self._unlike_at[level, query.name] = self._unlike(level, answer)
        unlike = self._unlike_at[level, query.name]
        for first in range(0, made.shape[0], UNITS_AT_ONCE):
            some = slice(first, first + UNITS_AT_ONCE)
            pairs = pair_counts(self.before[level][some] @ answer, made[some] @ answer)
            error = pairs.residuals().astype(np.float64)
            yield (ALL, 0), (pairs.n, *_powers(error))
            for sizes, value in ((PUBLISHED, pairs.released), (BEFORE, pairs.truth)):
                band = np.searchsorted(COUNT_BANDS, value, side="right")
                for number in range(BANDS):
                    own = band == number
                    empty = pairs.empty if number == 0 else 0
                    yield (sizes, number), (int(own.sum()) + empty, *_powers(error[own]))
            own = np.isin(pairs.place + first * answer.shape[1], unlike)
            yield (UNLIKE, 0), (int(own.sum()), *_powers(error[own]))

    def _unlike(self, level: str, answer: Any) -> Ints:
        """Positions of counts of groups that are most of their unit and few of its parent."""
        if not (depth := self.geography.depth(level)) or answer.shape[1] == 1:
            return np.zeros(0, dtype=np.int64)
        own = (self.before[level] @ answer).tocoo()
        unit, group = own.coords
        parent = self.geography.parents[depth][unit]
        above = self.before[self.geography.levels[depth - 1]] @ answer
        most = own.data >= MOST * own.sum(axis=1)[unit]
        few = np.asarray(above.tocsr()[parent, group]) <= FEW * above.sum(axis=1)[parent]
        found: Ints = (unit.astype(np.int64) * answer.shape[1] + group)[most & few]
        return found

    def table(self) -> pl.DataFrame:
        """A row for each level, query and class that has any counts; errors are in people.

        ``counts`` is the mean number over runs; ``..._error`` are standard errors over runs.
        """
        runs = np.stack(self._runs)  # run x key x sum
        rows = []
        for key, sums in zip(self._keys(), runs.transpose(1, 0, 2), strict=True):
            level, query, sizes, band = key
            if (n := sums[:, 0]).any():
                bands = band_bounds(band, COUNT_BANDS) if sizes in (PUBLISHED, BEFORE) else {}
                about = {"level": level, "query": query, "sizes": sizes, **bands}
                size = {"units": self.geography.size(level), "counts": float(n.mean())}
                rows.append({**about, **size, **_means(n, sums[:, 1:])})
        return pl.DataFrame(rows, schema=dict(COLUMNS))


BANDS = len(COUNT_BANDS) + 1


def _powers(error: Floats) -> tuple[float, float, float]:
    return float(np.square(error).sum()), float(np.abs(error).sum()), float(error.sum())


def _means(n: Floats, sums: Floats) -> dict[str, float]:
    """Means over all runs, and their standard errors."""
    whole, runs = n.sum(), len(n)
    mean = sums.sum(axis=0) / whole
    off = sums - mean * n[:, None]
    error = np.sqrt(runs / (runs - 1) * np.square(off).sum(axis=0)) / whole
    root = float(np.sqrt(mean[0]))
    return {
        "rmse": root,
        "rmse_error": float(error[0] / (2 * root)) if root else 0.0,
        "mae": float(mean[1]),
        "mae_error": float(error[1]),
        "bias": float(mean[2]),
        "bias_error": float(error[2]),
    }
