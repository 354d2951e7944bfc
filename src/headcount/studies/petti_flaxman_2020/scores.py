"""Error and empirical loss of every mechanism, parameter, level and type of count."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.evaluate.calibration import calibrate
from headcount.evaluate.epl import EmpiricalLoss, gaussian_density
from headcount.evaluate.error import ErrorSummary, summarise
from headcount.files import write_text_atomic
from headcount.progress import Progress, silent
from headcount.studies.petti_flaxman_2020.draws import MECHANISMS, Draws, MechanismName
from headcount.studies.petti_flaxman_2020.residuals import pool
from headcount.studies.petti_flaxman_2020.settings import (
    COUNT_TYPES,
    LEVELS,
    PRINTED_2019,
    CountType,
    Level,
    Settings,
    loss_of,
)

MOST_CURVE_POINTS = 400
"""A curve with more points is thinned: no screen shows more."""

TOPDOWN_COLUMNS = (
    "count_type", "level", "epsilon", "mae", "p95", "max", "rmse", "mean_error", "epl",
    "epl_calibrated",
)  # fmt: skip
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
    calibrated: float | None

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
            "n": self.error.n,
        }


def parameters(settings: Settings, mechanism: MechanismName) -> tuple[Fraction, ...]:
    """What is swept for a mechanism."""
    return settings.epsilons if mechanism == "topdown" else settings.fractions


def score_all(
    draws: Draws, *, cache: Path | None = None, progress: Progress = silent
) -> tuple[list[Score], pl.DataFrame]:
    """Scores of everything, and the curves behind them."""
    wanted = [
        (mechanism, parameter, kind, level)
        for mechanism in MECHANISMS
        for parameter in parameters(draws.settings, mechanism)
        for kind in COUNT_TYPES
        for level in LEVELS
    ]
    known = _Calibrations(cache, seed=draws.settings.seed)
    scores, curves = [], []
    for mechanism, parameter, kind, level in progress(wanted, what="Scores", total=len(wanted)):
        errors = pool(draws.of(mechanism, parameter), kind, level)
        loss = loss_of(errors)
        score = Score(
            mechanism=mechanism,
            parameter=parameter,
            count_type=kind,
            level=level,
            error=summarise(errors),
            loss=loss,
            printed_2019=loss_of(errors, **PRINTED_2019).max_abs
            if mechanism == "sampling"
            else None,
            calibrated=known.get(loss.max_abs, loss.n) if mechanism == "topdown" else None,
        )
        scores.append(score)
        curves.append(_curve(score, errors))
    known.save()
    return scores, pl.concat(curves)


def topdown_table(scores: list[Score]) -> pl.DataFrame:
    """``topdown.csv``."""
    return _table(scores, "topdown", "epsilon").select(*TOPDOWN_COLUMNS, "n")


def sampling_table(scores: list[Score], sizes: pl.DataFrame, *, replicates: int) -> pl.DataFrame:
    """``sampling.csv``, with the RMSE that theory expects and its standard error.

        expected = sqrt(m (1 - f) / f),   standard error = v sqrt(2 / (n R)) / (2 expected)

    where
        m, s    mean and standard deviation of the n exact counts
        v       (m^2 + s^2)^(1/2) (1 - f) / f, the root mean square of the cells' variances
        R       replicates; errors are taken to be normal and cells independent
    """
    f, mean = pl.col("fraction"), pl.col("mean")
    odds = (1 - f) / f
    expected = (mean * odds).sqrt()
    spread = (mean**2 + pl.col("sd") ** 2).sqrt() * odds
    error = spread * (2 / (pl.col("cells") * replicates)).sqrt() / (2 * expected)
    return (
        _table(scores, "sampling", "fraction")
        .join(sizes.drop("p95", "max"), on=["count_type", "level"], maintain_order="left")
        .with_columns(rmse_expected=expected, rmse_standard_error=error)
        .select(
            *SAMPLING_COLUMNS,
            "mean_error",
            "epl_2019_settings",
            "n",
            "rmse_expected",
            "rmse_standard_error",
        )
    )


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


def _table(scores: list[Score], mechanism: MechanismName, parameter: str) -> pl.DataFrame:
    rows = [one.row(parameter) for one in scores if one.mechanism == mechanism]
    return pl.DataFrame(rows, infer_schema_length=None).cast(
        {"epl": pl.Float64, "epl_calibrated": pl.Float64, "epl_2019_settings": pl.Float64}
    )


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


class _Calibrations:
    """Calibrated losses by (EPL, n), kept in one small file: the search takes a second each."""

    def __init__(self, cache: Path | None, *, seed: int) -> None:
        self._path = None if cache is None else cache / f"calibration-2-{seed}.json"
        self._seed = seed
        self._known: dict[str, float | None] = {}
        if self._path is not None and self._path.exists():
            self._known = json.loads(self._path.read_text(encoding="utf-8"))
        self._before = len(self._known)

    def get(self, epl: float | None, n: int) -> float | None:
        """The calibrated loss, searched for at most once."""
        if epl is None:
            return None
        key = f"{epl!r} {n}"
        if key not in self._known:
            self._known[key] = calibrate(epl, n=n, seed=self._seed)
        return self._known[key]

    def save(self) -> None:
        """Write what is new."""
        if self._path is not None and len(self._known) > self._before:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_text_atomic(self._path, json.dumps(self._known, indent=0))
