"""Errors of a release by the measurements that it was made from: no truth, no assumption of bias.

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

import numpy as np
import polars as pl

from headcount.arrays import Floats
from headcount.evaluation.release_errors import ALL, FEW_UNITS
from headcount.mechanisms.topdown.from_measurements import PublishedStart
from headcount.release import CountsRelease
from headcount.run.intervals import interval_pieces
from headcount.tabulate import Query

PART = 0.125
"""h. With the whole noise errors of block totals in Rhode Island (rho 2.56, shares like 2020) come
out 8 % too small, with half of it 2 %, with a quarter 0.6 %: that goes with the square of h, and
what whole people add to the standard error with 1 / h."""
LEAST_MOVE = 0.5
"""People by which added noise must move estimates, as a standard deviation. Where it moves them by
less, whether a whole number follows hangs on ties: with one answer to each cell, of deviation 1,
errors came out 45 % too large. Reruns are good there, because the release is near the truth."""
SURE, AGAINST = 0.05, 2.5
"""Measurements are believed against reruns if their standard error is at most this part of the
error itself, and both differ by more than so many standard errors. Where they agree the reruns are
surer: in levels of few hundred units measurements are off by 5 % by chance alone."""
MOST_ANSWERS = 1 << 27
"""Answers of all levels beyond which this is left out: the estimate of one count reads them all."""

BY_MEASUREMENTS, BY_RERUNS = "measurements", "reruns"
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
    places, schema, rows = start.measurements.geography, start.measurements.schema, []
    for level in places.levels:
        if places.size(level) < FEW_UNITS:
            continue
        for query in queries:
            sums = _sums_of_units([published, *nudged], level, query)
            if sums is None:
                continue
            many = len(sums) * len(np.unique(query.groups(schema)[schema.possible]))
            error = float(sums.std(ddof=1) * np.sqrt(len(sums))) / many
            rows.append((level, query.name, float(sums.sum()) / many, error))
    return pl.DataFrame(rows, schema=SQUARES, orient="row")


def _sums_of_units(made: Sequence[Made], level: str, query: Query) -> Floats | None:
    """For each unit of a level the sum of squared errors over a query's counts; None if untold."""
    tables = [interval_pieces(start, level, query.name, release=release) for start, release in made]
    size, found = query.size(made[0][0].measurements.schema), []
    variance, noisy = 0.0, 0
    for first, *others in zip(*tables, strict=True):
        if first["deviation"].null_count():
            return None
        deviation = first["deviation"].to_numpy()
        variance += float(np.square(deviation).sum())
        noisy += int(np.count_nonzero(deviation))
        estimate, released = _numbers(first)
        sums = np.square(released - estimate)
        for other in others:
            moved, followed = (
                after - before
                for after, before in zip(_numbers(other), (estimate, released), strict=True)
            )
            sums += moved * (2 * followed - moved) / (PART**2 * len(others))
        found.append(sums.reshape(-1, size).sum(axis=1))
    if PART * np.sqrt(variance / max(noisy, 1)) < LEAST_MOVE:
        return None
    return np.concatenate(found)


def _numbers(table: pl.DataFrame) -> tuple[Floats, Floats]:
    """The estimate and the released count of each row."""
    return table["estimate"].to_numpy(), table["released"].to_numpy().astype(np.float64)


def with_measured(table: pl.DataFrame, squares: pl.DataFrame) -> pl.DataFrame:
    """A table of errors by reruns (evaluation/release_errors.py), with those by the measurements.

    ``best`` is by the measurements where they are sure and speak against the reruns, else by these.
    """
    measured = pl.when(pl.col("square") > 0).then(pl.col("square").sqrt())
    columns = squares.with_columns(measured=measured, sizes=pl.lit(ALL))
    columns = columns.with_columns(measured_error=pl.col("error") / (2 * pl.col("measured")))
    both = table.join(columns.drop("square", "error"), on=["level", "query", "sizes"], how="left")
    apart, measured_error = pl.col("measured") - pl.col("rmse"), pl.col("measured_error")
    chance = (measured_error.pow(2) + pl.col("rmse_error").pow(2)).sqrt()
    sure = (measured_error <= SURE * pl.col("measured")) & (apart.abs() > AGAINST * chance)
    return both.with_columns(
        best=pl.when(sure).then("measured").otherwise("rmse"),
        best_error=pl.when(sure).then("measured_error").otherwise("rmse_error"),
        best_by=pl.when(sure).then(pl.lit(BY_MEASUREMENTS)).otherwise(pl.lit(BY_RERUNS)),
    )
