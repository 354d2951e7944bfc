"""The error report of a release: the same method again, on the release in place of the truth.

Post-processing of what is published: no data, no key and no ledger are opened, and nothing below
``internal/`` is read.

Where measurements are published, they are asked as well (``topdown/rerun.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import polars as pl

from headcount.addresses import step_words
from headcount.errors import ConfigError, RunError
from headcount.evaluation.error_report import FEW_UNITS, ErrorReport, ReleaseErrors
from headcount.files import write_bytes_atomic, write_text_atomic
from headcount.mechanisms import Context
from headcount.noise import KeyedNoise, RunKey
from headcount.processes import Progress, silent
from headcount.release import CountsRelease, Release
from headcount.release.publication import MEASUREMENTS
from headcount.release.store import MANIFEST, RECEIPT, Stored, read_stored, release_folder
from headcount.report.html import write_report
from headcount.run.protect import engine_named
from headcount.tabulate import counts_digest, every_cell
from headcount.tabulate.counts import every_level
from headcount.topdown.from_measurements import PublishedStart, start_from
from headcount.topdown.mechanism import TopDown
from headcount.topdown.rerun import (
    SQUARES,
    by_measurements,
    released_counts,
    rerun,
    settings_from_json,
    with_measured,
)

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
        more = KeyedNoise(RunKey.from_seed(seed), NUDGES, *marks)
        squares, unused = by_measurements(
            release,
            how,
            queries,
            more,
            runs=runs,
            few=FEW_UNITS,
            context=context,
            progress=progress,
        )
    return ErrorReport(
        table=with_measured(errors.table(), squares),
        levels=counts.geography.levels,
        runs=runs,
        seed=seed,
        without_measurements=unused,
    )


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
