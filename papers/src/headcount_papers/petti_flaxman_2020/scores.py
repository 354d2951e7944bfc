"""Error and empirical loss of every mechanism, parameter, level and type of count."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.comparison.cache import JSON
from headcount.comparison.study import Work
from headcount.evaluation.tally import ErrorSummary, summarise
from headcount_papers import calibration
from headcount_papers.calibration import PETTI_FLAXMAN, calibrate, draws_for
from headcount_papers.empirical_privacy_loss import EmpiricalLoss, gaussian_density, published
from headcount_papers.petti_flaxman_2020.draws import MECHANISMS, Draws, MechanismName, parameters
from headcount_papers.petti_flaxman_2020.residuals import pool
from headcount_papers.petti_flaxman_2020.settings import COUNT_TYPES, LEVELS, CountType, Level

PRINTED_2019: dict[str, float] = {"range_percentile": 99.0, "range_multiplier": 1.5}
"""The recipe behind the sampling losses printed in the paper; all others use 95 and 1."""

MOST_CURVE_POINTS = 400
"""A curve with more points is thinned: no screen shows more."""

TOPDOWN_COLUMNS = (
    "count_type",
    "level",
    "epsilon",
    "mae",
    "p95",
    "max",
    "rmse",
    "mean_error",
    "epl",
    "epl_calibrated",
)
SPREAD = ("runs", "mae_sd", "p95_sd", "max_sd", "rmse_sd", "mean_error_sd", "epl_sd")
"""Standard deviations from run to run, and how many runs."""
SAMPLING_COLUMNS = ("count_type", "level", "fraction", "mae", "p95", "max", "rmse", "epl")


@dataclass(frozen=True, kw_only=True, eq=False)
class Score:
    """One mechanism at one parameter, for one type of count at one level, replicates pooled."""

    mechanism: MechanismName
    parameter: Fraction
    count_type: CountType
    level: Level
    error: ErrorSummary
    loss: EmpiricalLoss
    printed_2019: float | None
    one_sample: float | None
    one_sample_2019: float | None
    calibrated: float | None
    runs: tuple[dict[str, float | None], ...]

    def row(self, parameter: str) -> dict[str, Any]:
        """As a row of a table, the parameter under its own name."""
        return {
            "count_type": self.count_type,
            "level": self.level,
            parameter: float(self.parameter),
            "mae": self.error.median_absolute,
            "p95": self.error.p95_absolute,
            "max": self.error.max_absolute,
            "rmse": self.error.rmse,
            "mean_error": self.error.bias,
            "epl": self.loss.max_abs,
            "epl_calibrated": self.calibrated,
            "epl_2019_settings": self.printed_2019,
            "epl_one_sample": self.one_sample,
            "epl_one_sample_2019_settings": self.one_sample_2019,
            "n": self.error.n,
            "runs": len(self.runs),
            **{f"{name}_sd": _sd([run[name] for run in self.runs]) for name in self.runs[0]},
            "epl_mean_2019": _mean([run["epl_2019_settings"] for run in self.runs]),
        }


def _of_run(errors: Floats, *, printed_2019: bool) -> dict[str, float | None]:
    """What one run says alone: how far its numbers differ from run to run is what chance does."""
    error = summarise(errors, cells="either")
    of_2019 = loss_of(errors, **PRINTED_2019).max_abs if printed_2019 else None
    return {
        "mae": error.median_absolute,
        "p95": error.p95_absolute,
        "max": error.max_absolute,
        "rmse": error.rmse,
        "mean_error": error.bias,
        "epl": loss_of(errors).max_abs,
        "epl_2019_settings": of_2019,
    }


def _sd(values: list[float | None]) -> float | None:
    """Standard deviation from run to run; None for one run, or where a run has no such number."""
    known = [value for value in values if value is not None]
    return float(np.std(known, ddof=1)) if len(known) == len(values) > 1 else None


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def loss_of(residuals: Any, **recipe: float) -> EmpiricalLoss:
    """Empirical privacy loss by the paper's recipe: kernel factor 0.1, percentile 95, times 1."""
    return published(residuals, **{"kernel_factor": 0.1, **recipe})


def calibrated(epl: float | None, n: int, *, seed: int, work: Work) -> float | None:
    """The calibrated loss; the search takes a second, so that it is kept."""
    if epl is None:
        return None
    draws = draws_for(n)
    about = f"EPL {epl!r}, n {n}, draws {draws}, seed {seed}, {PETTI_FLAXMAN!r}"
    found: float | None = work.cache.get(
        lambda: calibrate(epl, n=n, draws=draws, seed=seed),
        name="calibration",
        inputs=about,
        made_by=calibration.__name__,
        codec=JSON,
    )
    return found


def score_all(draws: Draws, work: Work) -> tuple[list[Score], pl.DataFrame]:
    """Scores of everything, and the curves behind them."""
    wanted = [
        (mechanism, parameter, kind, level)
        for mechanism in MECHANISMS
        for parameter in parameters(draws.settings, mechanism)
        for kind in COUNT_TYPES
        for level in LEVELS
    ]
    seed = draws.settings.seed
    scores, curves = [], []
    for name, parameter, kind, level in work.progress(wanted, what="Scores", total=len(wanted)):
        errors = pool(draws.of(name, parameter), kind, level)
        loss = loss_of(errors)
        of_topdown = name == "topdown"
        first = pool(draws.of(name, parameter)[:1], kind, level)  # the paper's sample was one
        score = Score(
            mechanism=name,
            parameter=parameter,
            count_type=kind,
            level=level,
            error=summarise(errors, cells="either"),
            loss=loss,
            printed_2019=None if of_topdown else loss_of(errors, **PRINTED_2019).max_abs,
            one_sample=None if of_topdown else loss_of(first).max_abs,
            one_sample_2019=None if of_topdown else loss_of(first, **PRINTED_2019).max_abs,
            calibrated=calibrated(loss.max_abs, loss.n, seed=seed, work=work)
            if of_topdown
            else None,
            runs=tuple(
                _of_run(pool([one], kind, level), printed_2019=not of_topdown)
                for one in draws.of(name, parameter)
            ),
        )
        scores.append(score)
        curves.append(_curve(score, errors))
    return scores, pl.concat(curves)


def topdown_table(scores: list[Score]) -> pl.DataFrame:
    """``topdown.csv``."""
    rows = [one.row("epsilon") for one in scores if one.mechanism == "topdown"]
    return _frame(rows).select(*TOPDOWN_COLUMNS, "n", *SPREAD)


def sampling_table(scores: list[Score], draws: Draws) -> pl.DataFrame:
    """``sampling.csv``, with the RMSE that theory expects and its standard error."""
    truth, replicates = draws.truth, draws.settings.replicates
    rows = [
        one.row("fraction") | dict(zip(("rmse_expected", "rmse_standard_error"), law, strict=True))
        for one in scores
        if one.mechanism == "sampling"
        for law in [
            sampling_law(
                truth.values(one.count_type, one.level), one.parameter, replicates=replicates
            )
        ]
    ]
    more = ("mean_error", "epl_2019_settings", "n", "rmse_expected", "rmse_standard_error")
    single = ("epl_one_sample", "epl_one_sample_2019_settings")
    return _frame(rows).select(
        *SAMPLING_COLUMNS, *more, *single, *SPREAD, "epl_2019_settings_sd", "epl_mean_2019"
    )


def sampling_law(counts: Ints, fraction: Fraction, *, replicates: int) -> tuple[float, float]:
    """The RMSE of a simple random sample over non-empty counts that are the whole, and its error.

        MSE = mean of c K (1 - K/N) + (r/f - 1)^2 K^2,    c = (1 - r) / r x N / (N - 1) x (r/f)^2
        se  = sqrt(2 tr(S^2) / R) / (2 m RMSE),           S = c (diag K - K K' / N)

    where
        K, N    the m counts, and their sum: everybody
        r       round(f N) / N, the share that is drawn
        R       replicates; errors are taken to be normal

    For small places it is the paper's sqrt(mean (1 - f) / f). A place that is a large part of the
    whole errs less, and one that is the whole not at all, but for rounding.
    """
    there = counts[counts > 0].astype(np.float64)
    people = int(counts.sum())
    if people < 2:
        return 0.0, 0.0
    share = round(fraction * people) / people
    weight = share / float(fraction)
    spread = (1 - share) / share * people / (people - 1) * weight**2 if share else 0.0
    second, third = float((there**2).sum()), float((there**3).sum())
    square = max(spread * (people - second / people), 0.0) + (weight - 1) ** 2 * second
    expected = float(np.sqrt(square / there.size))
    trace = second - 2 * third / people + (second / people) ** 2
    error = spread * float(np.sqrt(2 * max(trace, 0.0) / replicates)) / there.size
    return expected, error / (2 * expected) if expected else 0.0


def size_table(draws: Draws) -> pl.DataFrame:
    """Sizes of the exact counts over non-empty cells: what an error is to be set against."""
    rows = []
    for kind in COUNT_TYPES:
        for level in LEVELS:
            values = draws.truth.values(kind, level)
            values = values[values > 0]
            p05, median, p95 = np.quantile(values, [0.05, 0.5, 0.95])
            rows.append(
                {
                    "count_type": kind,
                    "level": level,
                    "cells": values.size,
                    "median": float(median),
                    "p05": float(p05),
                    "p95": float(p95),
                    "mean": float(values.mean()),
                    "sd": float(values.std()),
                    "max": float(values.max()),
                }
            )
    return pl.DataFrame(rows)


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    found = pl.DataFrame(rows, infer_schema_length=None)
    return found.cast({name: pl.Float64 for name in found.columns if name.startswith("epl")})


def _curve(score: Score, errors: np.ndarray[Any, Any]) -> pl.DataFrame:
    """The density of the errors and EPL(x), one point for each whole person, or thinned."""
    loss = score.loss
    x, epl = loss.points, loss.curve
    if x.size > MOST_CURVE_POINTS:
        keep = np.unique(np.linspace(0, x.size - 1, MOST_CURVE_POINTS).astype(np.int64))
        x, epl = x[keep], epl[keep]
    density = gaussian_density(errors, x, kernel_sd=loss.kernel_sd) if x.size else np.empty(0)
    return pl.DataFrame(
        {"x": x, "density": density, "epl": epl},
        schema={"x": pl.Float64, "density": pl.Float64, "epl": pl.Float64},
    ).select(
        pl.lit(score.count_type).alias("count_type"),
        pl.lit(score.level).alias("level"),
        pl.lit(score.mechanism).alias("mechanism"),
        pl.lit(float(score.parameter)).alias("parameter"),
        "x",
        "density",
        pl.col("epl").fill_nan(None),
    )
