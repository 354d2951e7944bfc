"""The error report of a release: the same method again, on the release in place of the truth.

Post-processing of what is published: no data, no key and no ledger are opened, and nothing below
``internal/`` is read.

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
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from headcount.addresses import step_words
from headcount.arrays import Flags, Floats
from headcount.errors import ConfigError, RunError
from headcount.evaluation.error_report import ALL, FEW_UNITS, ErrorReport, ReleaseErrors
from headcount.files import write_bytes_atomic, write_text_atomic
from headcount.mechanisms import Context
from headcount.noise import KeyedNoise, Noise, RunKey
from headcount.progress import Progress, silent
from headcount.release import CountsRelease, Release
from headcount.release.publication import MEASUREMENTS
from headcount.release.store import MANIFEST, RECEIPT, Stored, read_stored, release_folder
from headcount.report.html import write_report
from headcount.run.engines import engine_named
from headcount.tabulate import CELLS, Query, counts_digest, every_cell
from headcount.tabulate.counts import every_level
from headcount.topdown.accuracy import components_of
from headcount.topdown.from_measurements import (
    PublishedStart,
    estimate_from,
    start_from,
)
from headcount.topdown.linear.matrices import TooManyTogether
from headcount.topdown.mechanism import TopDown
from headcount.topdown.place_estimates import Estimated, MeasuredTree, PlaceEstimates
from headcount.topdown.rerun import nudged, released_counts, rerun, settings_from_json

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


def _answers_in(start: PublishedStart) -> int:
    """How many answers there are to read."""
    return sum(noise.entries for noise in start.answers.planned.values())


def _measured_squares(
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


def _with_measured(table: pl.DataFrame, squares: pl.DataFrame) -> pl.DataFrame:
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


log = logging.getLogger(__name__)

RUNS, SEED = 5, 0
"""How often a release is protected again, and the seed of that noise, unless others are given."""
LABEL, NUDGES = "error report", "error report, more noise"
"""Set this noise apart from that of any release, also of one with the same seed."""
FILES = ("errors.csv", "errors.parquet", "report.html")


@dataclass(frozen=True, eq=False)
class _ReportedRun:
    """What was found about a release, and where the report is."""

    found: ErrorReport
    report: Path


def error_report(
    release: Release | Path | str,
    how: TopDown | PublishedStart | None = None,
    *,
    runs: int = RUNS,
    seed: int = SEED,
    progress: Progress = silent,
) -> ErrorReport:
    """Predict the errors of a release of TopDown from the release, and measurements if published.

    where
        release   a release, or the folder of one or of a run
        how       the settings that it was made with, or published measurements; None for those
                  that its folder has
        runs      how often it is protected again, and estimated again from its measurements
        seed      of the noise: the same seed gives the same report
    """
    if runs < 2:
        raise ConfigError(
            LABEL, place="runs", found=str(runs), expected="2 or more: errors are over runs"
        )
    if not isinstance(release, Release):
        folder = release_folder(Path(release))
        stored = read_stored(folder)
        release, how = stored.release, how or _made_how(folder, stored)
    elif how is None:
        raise ConfigError(
            LABEL,
            place="how",
            found="a release without its settings",
            expected="the mechanism that made it, or published measurements",
        )
    counts = released_counts(release, how)
    settings = how.mechanism if isinstance(how, PublishedStart) else how
    completed = settings.completed(counts.schema, counts.geography)
    queries = [*completed.marginals, every_cell(counts.schema)]
    errors = ReleaseErrors(
        schema=counts.schema,
        geography=counts.geography,
        queries=queries,
        before={level: one.matrix for level, one in every_level(counts).items()},
    )
    marks = counts_digest(counts), sha256(step_words(settings).encode()).digest()
    noise = KeyedNoise(RunKey.from_seed(seed), LABEL, *marks)
    context = Context(engine=engine_named(None, None))
    for run in progress(range(runs), what="protecting the release again", total=runs):
        errors.add(rerun(counts, how, noise, run=run, context=context))
    squares, unused = pl.DataFrame(schema=SQUARES), "none are published beside the release"
    if isinstance(how, PublishedStart):
        assert isinstance(release, CountsRelease)
        unused = _refuse_measured(release, how, context)
        if not unused:
            more = KeyedNoise(RunKey.from_seed(seed), NUDGES, *marks)
            said = "estimating again with more noise"
            steps = progress(range(runs), what=said, total=runs)
            made = [_nudged(how, more, run=run, context=context) for run in steps]
            try:
                squares = _measured_squares((how, release), made, queries)
            except TooManyTogether as error:  # beyond the memory of this machine
                unused = _in_words(error)
    return ErrorReport(
        table=_with_measured(errors.table(), squares),
        levels=counts.geography.levels,
        runs=runs,
        seed=seed,
        without_measurements=unused,
    )


def _refuse_measured(release: CountsRelease, start: PublishedStart, context: Context) -> str:
    """Why measurements tell nothing of a release, in words; "" if they do."""
    if _answers_in(start) > MOST_ANSWERS:
        return f"there are more than {MOST_ANSWERS:,} answers"
    try:
        _ = components_of(start.mechanism, start.measurements.schema).every
    except TooManyTogether as error:
        return _in_words(error)
    leaf = release.geography.leaf
    again = estimate_from(start, context=context).table(leaf)
    if (csr_array(again) != csr_array(release.table(leaf))).nnz:
        log.warning("the measurements lead to another release: nothing is learnt from them")
        return "they lead to another release than this one"
    return ""


def _in_words(error: TooManyTogether) -> str:
    return f"{error.found} ({error.place}): {error.expected}"


def _nudged(
    start: PublishedStart, noise: Noise, *, run: int, context: Context
) -> tuple[PublishedStart, CountsRelease]:
    """Answers with some more noise, and the release that they lead to."""
    moved = nudged(start, noise, run=run, part=PART)
    return moved, estimate_from(moved, context=context)


def _made_how(
    folder: Path, stored: Stored, *, measurements: Path | None = None
) -> TopDown | PublishedStart:
    """How the release in a folder was made: by its measurements, or else by its receipt.

    where
        stored         what the folder has
        measurements   those that an estimate was made from
    """
    release, receipt, source = stored.release, stored.receipt, str(folder / RECEIPT)
    made_from = receipt.get("made_from", {}).get("measurements")
    if made_from is None and measurements is not None:
        raise RunError(
            f"{source}: found a release that was not made from measurements, expected none named"
        )
    if made_from is None and (folder / MEASUREMENTS).is_dir():
        return start_from(folder / MEASUREMENTS)
    if (said := receipt.get("settings")) is None:
        raise RunError(
            f"{source}: found a release by {receipt['mechanism'].split('(', 1)[0]}, without "
            f"settings that can be run again, expected one that this version of headcount made by "
            f"topdown alone"
        )
    settings = settings_from_json(said, source=source)
    if made_from is None:
        return settings
    if measurements is None:
        raise RunError(
            f"{source}: found an estimate from published measurements, expected their folder too: "
            f"what is exact or bounded is known from them"
        )
    levels = release.geography.levels
    start = start_from(measurements, settings, schema=release.schema, levels=levels)
    if start.measurements.digest != made_from:
        raise RunError(
            f"{measurements}: found other measurements than the release was made from, expected "
            f"those with digest {made_from}"
        )
    return start


def report_errors(
    source: Path,
    *,
    out: Path | None = None,
    measurements: Path | None = None,
    runs: int = RUNS,
    seed: int = SEED,
    progress: Progress = silent,
) -> _ReportedRun:
    """Write the error report of a run, or of the folder of a release, into ``out``.

    where
        out            a folder; by default ``errors`` in the run directory, or here for a release
        measurements   published measurements that the release was made from, if not beside it
    """
    folder = release_folder(source)
    out = out or (source / "errors" if folder != source else Path("errors"))
    if (out / MANIFEST).exists() or out.resolve().is_relative_to(folder.resolve()):
        raise RunError(
            f"{out}: found a release, whose files stay as they are, expected another folder"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out}: found existing content, expected a new or empty folder")
    stored = read_stored(folder)
    release = stored.release
    how = _made_how(folder, stored, measurements=measurements)
    found = error_report(release, how, runs=runs, seed=seed, progress=progress)
    out.mkdir(parents=True, exist_ok=True)
    write_text_atomic(out / FILES[0], found.table.write_csv())
    table = BytesIO()
    found.table.write_parquet(table)
    write_bytes_atomic(out / FILES[1], table.getvalue())
    recipe = f"headcount errors {source.name} --runs {runs} --seed {seed}"
    write_report(found.report(release, recipe=recipe), out / FILES[2])
    return _ReportedRun(found, out / FILES[2])
