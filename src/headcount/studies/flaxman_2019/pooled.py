"""The paper's "less-obvious" estimate: the errors of all areas stand for many runs of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.evaluate import EmpiricalLoss, published
from headcount.progress import Progress, silent
from headcount.studies.flaxman_2019.runs import leaf_residuals, releases
from headcount.studies.flaxman_2019.settings import (
    FIGURE_1,
    MECHANISMS,
    PUBLISHED,
    Settings,
    Variant,
)
from headcount.tabulate import Counts, Tabulated

EPL_COLUMNS = (
    "mechanism",
    "epsilon",
    "residual_sd",
    "median_abs_residual",
    "median_abs_epl",
    "max_abs_epl",
)


def epl_means(replicates: pl.DataFrame, variant: Variant = PUBLISHED) -> pl.DataFrame:
    """Means over the runs of a variant, one row for each mechanism and epsilon."""
    return (
        replicates.filter(variant=variant)
        .group_by("mechanism", "epsilon", maintain_order=True)
        .agg(pl.col(EPL_COLUMNS[2:]).cast(pl.Float64).mean())
    )


def figure_1(
    settings: Settings,
    *,
    variants: tuple[Variant, ...] = (PUBLISHED,),
    progress: Progress = silent,
) -> dict[str, pl.DataFrame]:
    """Estimate empirical loss for every mechanism and epsilon, from the population on.

    where
        residuals    (a) exact minus released, every area of the first run, at the epsilons of
                     the figure: variant, mechanism, epsilon, residual
        curves       (b) EPL(x) of the first run, all epsilons: variant, mechanism, epsilon,
                     x, loss
        replicates   the scores of every run: variant, replicate, then the columns of ``epl``
    """
    data = Tabulated.of(settings.population())
    cases = [(v, m, e) for v in variants for m in MECHANISMS for e in settings.epsilons]
    residuals, curves, rows = [], [], []
    for variant, name, epsilon in progress(cases, what="Pooled estimate", total=len(cases)):
        about = {"variant": variant, "mechanism": name, "epsilon": float(epsilon)}
        runs = range(settings.replicates)
        made = releases(data, name, epsilon, settings=settings, variant=variant, runs=runs)
        for replicate, errors in enumerate(leaf_residuals(data, made)):
            loss = estimate(errors, settings)
            rows.append(about | {"replicate": replicate} | score(errors, loss))
            if replicate:
                continue
            curves.append(_frame(about, x=loss.points, loss=loss.curve))
            if FIGURE_1[name] == epsilon:
                residuals.append(_frame(about, residual=errors.astype(np.float64)))
    return {
        "residuals": pl.concat(residuals),
        "curves": pl.concat(curves),
        "replicates": pl.DataFrame(rows),
    }


def estimate(errors: NDArray[Any], settings: Settings) -> EmpiricalLoss:
    """The published estimate with the study's settings."""
    return published(
        errors,
        kernel_factor=settings.kernel_factor,
        range_percentile=settings.range_percentile,
        range_multiplier=settings.range_multiplier,
    )


def score(errors: NDArray[Any], loss: EmpiricalLoss) -> dict[str, float | None]:
    """The figures of one run: spread and typical size of its errors, empirical loss."""
    size = np.abs(errors)
    return {
        "residual_sd": float(errors.std()),
        "median_abs_residual": float(np.median(size)),
        "max_abs_residual": float(size.max()),
        "median_abs_epl": loss.median_abs,
        "max_abs_epl": loss.max_abs,
        "kernel_sd": loss.kernel_sd,
        "half_width": loss.half_width,
    }


def levels(settings: Settings, progress: Progress = silent) -> pl.DataFrame:
    """Errors at every level: of raked as it is released, of the others by adding up areas."""
    data = Tabulated.of(settings.population())
    counts = {level: data.counts.at(level) for level in data.counts.geography.levels}
    truth = {level: one.dense() for level, one in counts.items()}
    cases = [(m, e) for m in MECHANISMS for e in settings.epsilons]
    rows: list[dict[str, Any]] = []
    for name, epsilon in progress(cases, what="Errors by level", total=len(cases)):
        runs = range(settings.replicates)
        made = releases(data, name, epsilon, settings=settings, variant="exact", runs=runs)
        errors = [{level: truth[level] - one.at(level) for level in truth} for one in made]
        rows += [
            {"mechanism": name, "epsilon": float(epsilon), "level": level}
            | _level_score(counts[level], np.concatenate([one[level].ravel() for one in errors]))
            for level in truth
        ]
    return pl.DataFrame(rows)


def _level_score(counts: Counts, errors: NDArray[Any]) -> dict[str, Any]:
    size = np.abs(errors)
    units = counts.geography.size(counts.level)
    mean_people = float(counts.totals().sum() / units)
    return {
        "units": units,
        "mean_people": mean_people,
        "residual_sd": float(errors.std()),
        "median_abs_residual": float(np.median(size)),
        "p95_abs_residual": float(np.quantile(size, 0.95)),
        "mean_residual": float(errors.mean()),
        "median_abs_percent": 100 * float(np.median(size)) / mean_people,
    }


def _frame(about: dict[str, Any], **columns: NDArray[Any]) -> pl.DataFrame:
    fixed = [pl.lit(value).alias(key) for key, value in about.items()]
    return pl.DataFrame(columns).select(*fixed, *columns)
