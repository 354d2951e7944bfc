"""Parametric bootstrap: TopDown once more, on a release in the place of the truth.

A release is public, so whatever is made of it alone costs no privacy. It keeps every invariant and
bound: a rerun keeps the same ones.

Where measurements are published, they are asked as well: no truth, no assumption of bias. Let t be
a true count, r the released one, and y = t + e the best linear estimate of it from the same noisy
answers, which is unbiased. Then

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

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from headcount.arrays import Flags, Floats
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.mechanisms import Context
from headcount.noise import Noise
from headcount.processes import Progress
from headcount.release import CountsRelease, Release
from headcount.release.layout import LevelTable
from headcount.tabulate import CELLS, Counts, Query
from headcount.tabulate.counts import every_level
from headcount.topdown.accuracy import components_of
from headcount.topdown.answers import Nudge
from headcount.topdown.descend import along_spine
from headcount.topdown.from_measurements import PublishedStart, estimate_from
from headcount.topdown.linear.matrices import TooManyTogether
from headcount.topdown.measure import Measurements
from headcount.topdown.mechanism import TopDown
from headcount.topdown.place_estimates import (
    Estimated,
    MeasuredTree,
    PlaceEstimates,
    refuse_other_attributes,
)
from headcount.typed import from_table

log = logging.getLogger(__name__)

SOURCE = "error report"
REPUBLISH = 'measurements beside it (publish = ["measurements"])'


def settings_from_json(said: Mapping[str, Any], *, source: str) -> TopDown:
    """The settings that a receipt has (``TopDown.to_json``)."""
    return from_table(TopDown, dict(said), source=source, place="settings", tag="name")


def released_counts(release: Release, how: TopDown | PublishedStart) -> Counts:
    """A release as counts that TopDown can protect; what it cannot is refused.

    where
        how   the settings; or, with bounds or along a spine, measurements, beside which what is
              exact and bounded is published
    """
    if not isinstance(release, CountsRelease) or release.weight != 1 or release.missing:
        raise InputError(
            SOURCE,
            found="a release with withheld, changed, weighted or missing counts",
            expected="whole counts of every unit and cell, as topdown makes them",
        )
    settings = how if isinstance(how, TopDown) else how.mechanism
    if settings.loss is None:
        raise ConfigError(
            SOURCE, found="no noise: epsilon is infinite", expected="a release with noise"
        )
    places = release.geography
    if isinstance(how, PublishedStart):
        places = _same_places(release, how)
    elif how.bounds or how.spine:
        what = "bounds" if how.bounds else "a spine"
        raise InputError(
            SOURCE,
            found=f"settings with {what}, which the tables of a release do not show",
            expected=REPUBLISH,
        )
    return Counts(Domain(release.schema, places), places.leaf, _whole(release.table(places.leaf)))


def rerun(
    counts: Counts,
    how: TopDown | PublishedStart,
    noise: Noise,
    *,
    run: int,
    context: Context | None = None,
) -> Mapping[str, LevelTable]:
    """Protect ``released_counts`` once: tables of every level, in published places."""
    if isinstance(how, TopDown):
        quiet = replace(how, report_epsilon=Fraction(0))
        design = quiet.on(counts.domain)
        made = design.run(counts, noise, runs=range(run, run + 1), context=context).as_counts()
        return {level: tables[0] for level, tables in made.tables.items()}
    laid = along_spine(counts) if how.mechanism.spine else counts
    planned, classes = how.answers.planned, how.answers.classes
    drawn = Measurements(
        every_level(laid), how.mechanism, noise, run=run, planned=planned, classes=classes
    )
    return estimate_from(replace(how, answers=drawn.answers), context=context).tables


def _nudged(start: PublishedStart, noise: Noise, *, run: int, part: float) -> PublishedStart:
    """The same start, from answers with some more noise; each run has other noise.

    How far does a release follow its answers? Whoever has them can add noise of the same law and
    estimate again. That looks at published files only, so it costs no privacy.
    """
    places, schema = start.measurements.geography, start.measurements.schema
    empty = csr_array((places.size(places.leaf), schema.size), dtype=int)
    nobody = Counts(Domain(schema, places), places.leaf, empty)
    if start.mechanism.spine:
        nobody = along_spine(nobody)
    planned, classes = start.answers.planned, start.answers.classes
    fresh = Measurements(
        every_level(nobody), start.mechanism, noise, run=run, planned=planned, classes=classes
    )
    return replace(start, answers=replace(start.answers, nudge=Nudge(fresh, part)))


def _same_places(release: CountsRelease, start: PublishedStart) -> Geography:
    """The places of measurements, which may have a spine, if a release has the same ones."""
    found, expected = release.geography, start.measurements.geography
    same = found.levels == expected.levels and all(
        len(one) == len(other) and bool((one == other).all())
        for one, other in zip(found.units[1:], expected.units[1:], strict=True)
    )
    if not same:
        raise InputError(
            SOURCE,
            found="a release of other places than the measurements have",
            expected="both of one run",
        )
    refuse_other_attributes(release, start, source=SOURCE)
    return expected


def _whole(table: LevelTable) -> Any:
    """Sparse counts; those that no TopDown can have made are refused."""
    matrix = csr_array(table)
    if (matrix.data != np.rint(matrix.data)).any() or matrix.data.min(initial=0) < 0:
        raise InputError(
            SOURCE, found="counts below 0 or with fractions", expected="whole numbers of 0 or more"
        )
    return matrix.astype(np.int64)


MOST_ANSWERS = 1 << 27
"""Answers of all levels beyond which this is left out: the estimate of one count reads them all."""
PART = 0.125
"""h. With the whole noise errors of block totals in Rhode Island (rho 2.56, shares like 2020) come
out 8 % too small, with half of it 2 %, with a quarter 0.6 %: that goes with the square of h, and
what whole people add to the standard error with 1 / h."""
LEAST_MOVE = 0.5
"""People by which added noise must move estimates, as a standard deviation. Where it moves them by
less, whether a whole number follows hangs on ties: with one answer to each cell, of deviation 1,
errors came out 45 % too large. Reruns are good there, because the release is near the truth."""
SQUARES = {"level": pl.String, "query": pl.String, "square": pl.Float64, "error": pl.Float64}
"""Mean squared errors with their standard errors."""
Made = tuple[PublishedStart, CountsRelease]
"""Answers, and the release that they lead to."""


def by_measurements(
    release: CountsRelease,
    start: PublishedStart,
    queries: Sequence[Query],
    noise: Noise,
    *,
    runs: int,
    few: int,
    context: Context,
    progress: Progress,
) -> tuple[pl.DataFrame, str]:
    """The mean squared errors that published measurements tell of, and why they do not; "" if so.

    where
        noise   what is added to answers; each run has other noise
        few     levels of fewer units are left out
    """
    nothing = pl.DataFrame(schema=SQUARES)
    if unused := _refuse_measured(release, start, context):
        return nothing, unused
    steps = progress(range(runs), what="estimating again with more noise", total=runs)
    made = [
        (more := _nudged(start, noise, run=run, part=PART), estimate_from(more, context=context))
        for run in steps
    ]
    try:
        return _measured_squares((start, release), made, queries, few=few), ""
    except TooManyTogether as error:  # beyond the memory of this machine
        return nothing, _said(error)


def _refuse_measured(release: CountsRelease, start: PublishedStart, context: Context) -> str:
    """Why measurements tell nothing of a release, in words; "" if they do."""
    if _answers_in(start) > MOST_ANSWERS:
        return f"there are more than {MOST_ANSWERS:,} answers"
    try:
        _ = components_of(start.mechanism, start.measurements.schema).every
    except TooManyTogether as error:
        return _said(error)
    leaf = release.geography.leaf
    again = estimate_from(start, context=context).table(leaf)
    if (csr_array(again) != csr_array(release.table(leaf))).nnz:
        log.warning("the measurements lead to another release: nothing is learnt from them")
        return "they lead to another release than this one"
    return ""


def _said(error: TooManyTogether) -> str:
    return f"{error.found} ({error.place}): {error.expected}"


def _answers_in(start: PublishedStart) -> int:
    """How many answers there are to read."""
    return sum(noise.entries for noise in start.answers.planned.values())


def _measured_squares(
    published: Made, nudged: Sequence[Made], queries: Sequence[Query], *, few: int
) -> pl.DataFrame:
    """The mean squared error of every query at every level of many units, with its standard error.

    where
        published   the answers and the release as they are
        nudged      answers with ``PART`` of fresh noise more, and the releases that they lead to
        few         levels of fewer units are left out: an average over these is itself uncertain

    So is what the answers do not tell, and what has too little noise for it (LEAST_MOVE).
    """
    start, _ = published
    schema, rows = start.measurements.schema, []
    for level in start.measurements.geography.levels:
        if start.measurements.geography.size(level) < few:
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


AS_FAR = 0.1
"""How far errors by reruns are off, as a part of them: on real counts up to 13 % too small."""

BY_BOTH, BY_RERUNS = "both", "reruns"
"""What the best figure is from."""


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
    columns = squares.with_columns(measured=measured, sizes=pl.lit("all"))
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
