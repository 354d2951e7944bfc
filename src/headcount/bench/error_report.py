"""Does a release of TopDown know how far off it is, on real counts?

Every file that ``bench pool`` reads is protected several times, with and without ``pool``: that
tells the true errors. Then one more release, with its measurements and without the truth, is
reported on, and what is said is set beside: the best figure of the report, and, not judged, what
reruns alone say.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from headcount.bench.figures import Reading
from headcount.bench.pool import RHOS, SplitOfLoss, files_in, is_small, settings_for
from headcount.engines.local import LocalEngine
from headcount.evaluation.error_report import ALL, BEFORE, FEW_UNITS, ReleaseErrors
from headcount.mechanisms import Context
from headcount.mechanisms.topdown.from_measurements import start_from
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.noise import KeyedNoise, RunKey
from headcount.privacy import Guarantee
from headcount.progress import silent
from headcount.release import CountsRelease
from headcount.run.error_report import error_report
from headcount.tabulate import Counts, every_cell
from headcount.tabulate.counts import every_level

RUNS = {True: 16, False: 4}
"""Releases that tell the true errors, of files with few and with many leaves."""
REPORTED = 8
"""Runs of the report."""
WITHIN, STANDARD_ERRORS = 5.0, 2.0
"""A prediction may be off by so many %, or by so many standard errors of both sides."""


def measure(directory: Path, *, replicates: int = 0) -> list[Reading]:
    """Predicted beside true errors of every file, loss, method, level of many units and query."""
    readings: list[Reading] = []
    for name, counts in files_in(directory):
        runs = replicates or RUNS[is_small(counts)]
        for setting in settings_for(counts):
            for rho in RHOS:
                for pool in (False, True):
                    readings += _compared(name, counts, setting, rho, pool=pool, runs=runs)
    return readings


def _compared(
    name: str, counts: Counts, setting: SplitOfLoss, rho: str, *, pool: bool, runs: int
) -> Iterator[Reading]:
    mechanism = TopDown(rho=Fraction(rho), pool=pool, **setting.keys)
    settings = mechanism.completed(counts.schema, counts.geography)
    true = ReleaseErrors(
        schema=counts.schema,
        geography=counts.geography,
        queries=[*settings.marginals, every_cell(counts.schema)],
        before={level: one.matrix for level, one in every_level(counts).items()},
    )
    for seed in range(runs):
        context = Context(engine=LocalEngine())
        made = mechanism.run(counts, _noise(seed, rho), runs=range(1), context=context).tables
        true.add({level: own[0] for level, own in made.items()})
    with TemporaryDirectory() as folder:
        context = Context(engine=LocalEngine(), measurements=Path(folder))
        made = mechanism.run(counts, _noise(runs, rho), runs=range(1), context=context).tables
        release = _release(counts, mechanism, {level: own[0] for level, own in made.items()})
        beside = mechanism.publications()["measurements"]
        beside.write(release, Path(folder), quarters=None, progress=silent)
        found = error_report(release, start_from(folder), runs=REPORTED)
    about = f"{name}, {setting.name}, rho {rho}, {'pooled' if pool else 'topdown'}"
    both = found.table.join(
        true.table(), on=["level", "query", "sizes", "low", "high"], nulls_equal=True
    )
    many = both.filter(pl.col("units") >= FEW_UNITS, pl.col("rmse_right") > 0)
    for row in many.filter(sizes=ALL).iter_rows(named=True):
        yield _reading(about, row)
    leaf = many.filter(level=counts.geography.leaf, query="total", sizes=BEFORE)
    for row in leaf.iter_rows(named=True):
        yield Reading(
            f"{about}: bias of {row['level']} totals from {row['low']} people",
            row["bias"],
            "people",
            f"true {row['bias_right']:+.2f}",
        )


def _noise(seed: int, rho: str) -> KeyedNoise:
    return KeyedNoise(RunKey.from_seed(seed), "topdown", b"error report", rho.encode())


def _reading(about: str, row: dict[str, Any]) -> Reading:
    """How far a predicted root mean square error is from the true one, in %."""
    predicted, true = row["best"], row["rmse_right"]
    error = 100 * float(np.hypot(row["best_error"], row["rmse_error_right"])) / true
    alone = 100 * (row["rmse"] / true - 1)
    return Reading(
        f"{about}: {row['query']} at {row['level']}",
        abs(100 * (predicted / true - 1)),
        "% off",
        f"predicted {predicted:.3g} by {row['best_by']}, true {true:.3g}, standard error "
        f"{error:.1f} %; by reruns alone {alone:+.1f} %",
        at_most=max(WITHIN, STANDARD_ERRORS * error),
    )


def _release(counts: Counts, mechanism: TopDown, tables: dict[str, Any]) -> CountsRelease:
    """Tables as they would be published."""
    return CountsRelease(
        schema=counts.schema,
        geography=counts.geography,
        tables=tables,
        mechanism=repr(mechanism),
        guarantee=Guarantee.none("made from a seed, to be scored"),
        key_kind="seed",
        backend="table",
    )
