"""Stein's unbiased risk estimate (SURE) of a release's errors, from its noisy measurements.

Let t be a true count, r the released one, and y = t + e the best linear estimate of it from the
same noisy answers, which is unbiased. Then

    E (r - t)^2 = E [ (r - y)^2 - e^2 + 2 r e ]

where (r - y)^2 is there to be seen, and the rest depends on noise alone. It is learnt from answers
with a part h of fresh noise more, which lead to the release r + x and to the estimate y + h e':

    E e^2 = E e'^2,     E r e = E x e' / h   as h goes to 0

since both sides of the second are the slope of r along the noise, times its covariance (Stein's
lemma, exact for normal noise). Stein (1981), Estimation of the mean of a multivariate normal
distribution; Efron (2004), The estimation of prediction error; Ramani, Blu and Unser (2008),
Monte-Carlo SURE.

The standard error of the mean of a level is that over its units, as if these were independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Flags, Floats
from headcount.evaluation.error_report import ALL, FEW_UNITS
from headcount.release import CountsRelease
from headcount.tabulate import CELLS, Query
from headcount.topdown.from_measurements import PublishedStart
from headcount.topdown.place_estimates import Estimated, MeasuredTree, PlaceEstimates

PART = 0.125
"""h. With the whole noise errors of block totals in Rhode Island (rho 2.56, shares like 2020) come
out 8 % too small, with half of it 2 %, with a quarter 0.6 %: that goes with the square of h, and
what whole people add to the standard error with 1 / h."""
LEAST_MOVE = 0.5
"""People by which added noise must move estimates, as a standard deviation. Where it moves them by
less, whether a whole number follows hangs on ties: with one answer to each cell, of deviation 1,
errors came out 45 % too large. Reruns are good there, because the release is near the truth."""
AS_FAR = 0.1
"""How far errors by reruns are off, as a part of them: on real counts up to 13 % too small."""
MOST_ANSWERS = 1 << 27
"""Answers of all levels beyond which this is left out: the estimate of one count reads them all."""

BY_BOTH, BY_RERUNS = "both", "reruns"
"""What the best figure is from."""

SQUARES = {"level": pl.String, "query": pl.String, "square": pl.Float64, "error": pl.Float64}
"""Mean squared errors with their standard errors."""
Made = tuple[PublishedStart, CountsRelease]
"""Answers, and the release that they lead to."""


def answers_in(start: PublishedStart) -> int:
    """How many answers there are to read."""
    return sum(noise.entries for noise in start.answers.planned.values())


def measured_squares(
    published: Made, nudged: Sequence[Made], queries: Sequence[Query]
) -> pl.DataFrame:
    """The mean squared error of every query at every level of many units, with its standard error.

    where
        published   the answers and the release as they are
        nudged      answers with ``PART`` of fresh noise more, and the releases that they lead to

    Left out is what the answers do not tell, and what has too little noise for it (LEAST_MOVE).
    """
    start, _ = published
    schema, rows = start.measurements.schema, []
    for level in start.measurements.geography.levels:
        if start.measurements.geography.size(level) < FEW_UNITS:
            continue
        found = _sums_of_units([published, *nudged], level, queries)
        for query, sums in zip(queries, found, strict=True):
            if sums is None:
                continue
            many = len(sums) * len(np.unique(query.groups(schema)[schema.possible]))
            error = float(sums.std(ddof=1) * np.sqrt(len(sums))) / many
            rows.append((level, query.name, float(sums.sum()) / many, error))
    return pl.DataFrame(rows, schema=SQUARES, orient="row")


def _sums_of_units(
    made: Sequence[Made], level: str, queries: Sequence[Query]
) -> list[Floats | None]:
    """For each query the sum of squared errors in each unit of a level; None if untold.

    Estimates of cells are made once for all queries, whose estimates are sums of them.
    """
    names = [query.name for query in queries]
    places = [
        PlaceEstimates(MeasuredTree(start, CELLS), release, names if not run else ())
        for run, (start, release) in enumerate(made)
    ]
    found = [
        _Squares(query.matrix(made[0][0].measurements.schema), query.name) for query in queries
    ]
    for first, *others in zip(*(one.of_level(level) for one in places), strict=True):
        for one in found:
            one.add(first, others)
    return [one.of_units() for one in found]


class _Squares:
    """Squared errors of one query in a level, added up place by place.

    where
        matrix   the query, cells x answers
    """

    def __init__(self, matrix: Any, query: str) -> None:
        self._matrix, self._query = matrix, query
        self._found: list[Floats] = []
        self._variance, self._noisy = 0.0, 0

    def add(self, first: Estimated, others: Sequence[Estimated]) -> None:
        """Take some places, as they are and with more noise."""
        possible = np.asarray(first.possible.astype(np.int64) @ self._matrix) > 0
        variance = first.variance[self._query][possible]
        self._variance += float(variance.sum())
        self._noisy += int(np.count_nonzero(variance))
        estimate, released = self._numbers(first, possible)
        sums = np.square(released - estimate)
        for other in others:
            moved, followed = (
                after - before
                for after, before in zip(
                    self._numbers(other, possible), (estimate, released), strict=True
                )
            )
            sums += moved * (2 * followed - moved) / (PART**2 * len(others))
        self._found.append(sums.sum(axis=1))

    def _numbers(self, cells: Estimated, possible: Flags) -> tuple[Floats, Floats]:
        """The query's estimates, 0 where nobody can be counted, and its released counts."""
        assert cells.released is not None
        estimate = np.asarray(cells.estimate @ self._matrix)
        released = np.asarray(cells.released @ self._matrix, dtype=np.float64)
        return np.where(possible, estimate, 0.0), released

    def of_units(self) -> Floats | None:
        """The sum over the query's counts in each unit; None if the answers do not tell it."""
        enough = PART * np.sqrt(self._variance / max(self._noisy, 1)) >= LEAST_MOVE
        told = np.isfinite(self._variance)
        return np.concatenate(self._found) if told and enough else None


def with_measured(table: pl.DataFrame, squares: pl.DataFrame) -> pl.DataFrame:
    """A table of errors by reruns (evaluation/error_report.py), with those by the measurements.

    The best figure is that of the reruns, raised towards that of the measurements if it is larger:

        b = p + w (m - p)  if m > p,  w = t / (t + v),  t = (p AS_FAR)^2

    where
        p, m   the errors by reruns and by measurements
        v      the variance of m - p
        t      that of how far reruns are off, before measurements tell of it

    It is never lowered: a release in the place of the truth is too smooth, if anything.
    """
    measured = pl.when(pl.col("square") > 0).then(pl.col("square").sqrt())
    columns = squares.with_columns(measured=measured, sizes=pl.lit(ALL))
    columns = columns.with_columns(measured_error=pl.col("error") / (2 * pl.col("measured")))
    both = table.join(columns.drop("square", "error"), on=["level", "query", "sizes"], how="left")
    more = pl.col("measured") - pl.col("rmse")
    variance = pl.col("measured_error").pow(2) + pl.col("rmse_error").pow(2)
    raised, off = (more > 0).fill_null(value=False), (AS_FAR * pl.col("rmse")).pow(2)
    weight = off / (off + variance)
    error = (weight * pl.col("measured_error").pow(2) + pl.col("rmse_error").pow(2)).sqrt()
    return both.with_columns(
        best=pl.when(raised).then(pl.col("rmse") + weight * more).otherwise("rmse"),
        best_error=pl.when(raised).then(error).otherwise("rmse_error"),
        best_by=pl.when(raised).then(pl.lit(BY_BOTH)).otherwise(pl.lit(BY_RERUNS)),
    )
