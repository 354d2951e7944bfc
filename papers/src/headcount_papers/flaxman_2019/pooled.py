"""The paper's "less-obvious" estimate: the errors of all areas stand for many runs of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.comparison.cache import Frames
from headcount.comparison.cases import Measure, Released, run_cases, score_cases
from headcount.comparison.study import Work
from headcount.evaluation.tally import summarise
from headcount.tabulate import Counts
from headcount_papers.empirical_privacy_loss import EmpiricalLoss, published
from headcount_papers.flaxman_2019.cases import case, leaf_errors, people
from headcount_papers.flaxman_2019.settings import EXACT, PUBLISHED, Settings, Variant

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
    settings: Settings, work: Work, *, variants: tuple[Variant, ...] = (PUBLISHED,)
) -> Frames:
    """Estimate empirical loss for every mechanism and epsilon, from the population on.

    where
        replicates   the scores of every run: variant, mechanism, epsilon, replicate, and the rest
                     of the columns of ``epl``
        curves       (b) EPL(x) of the first run, all epsilons: variant, mechanism, epsilon,
                     x, loss
        residuals    (a) exact minus released, every area of the first run, at the epsilons of
                     the figure: variant, mechanism, epsilon, residual

    The shipped metric of empirical loss leaves out areas that are empty on both sides and gives
    no curve: here its function is called.
    """
    runs = range(settings.replicates)
    cases = [
        case(settings, name, epsilon, variant=variant, runs=runs)
        for variant in variants
        for name in settings.chosen
        for epsilon in settings.epsilons
    ]
    measures: dict[str, Measure] = {
        "replicates": lambda one: _scores(leaf_errors(one), settings),
        "curves": lambda one: _curve(one, settings),
        "residuals": lambda one: _residuals(one, settings),
    }
    found = score_cases(
        cases,
        measures,
        data=people(settings),
        seed=settings.seed,
        work=work,
        what="Pooled estimate",
        made_by=__name__,
    )
    return {
        name: table if name == "replicates" else table.drop("replicate")
        for name, table in found.items()
    }


def _scores(errors: NDArray[Any], settings: Settings) -> pl.DataFrame:
    return pl.DataFrame([score(errors, estimate(errors, settings))])


def _curve(one: Released, settings: Settings) -> pl.DataFrame:
    if one.replicate:
        return pl.DataFrame(schema={"x": pl.Float64, "loss": pl.Float64})
    loss = estimate(leaf_errors(one), settings)
    return pl.DataFrame({"x": loss.points, "loss": loss.curve})


def _residuals(one: Released, settings: Settings) -> pl.DataFrame:
    about = one.case.columns
    shown = not one.replicate and float(settings.figure_1[about["mechanism"]]) == about["epsilon"]
    errors = leaf_errors(one) if shown else np.empty(0)
    return pl.DataFrame({"residual": errors.astype(np.float64)})


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
    found = summarise(errors)
    return {
        "residual_sd": float(errors.std()),
        "median_abs_residual": found.median_absolute,
        "max_abs_residual": found.max_absolute,
        "median_abs_epl": loss.median_abs,
        "max_abs_epl": loss.max_abs,
        "kernel_sd": loss.kernel_sd,
        "half_width": loss.half_width,
    }


def levels(settings: Settings, work: Work) -> pl.DataFrame:
    """Errors at every level: of raked as it is released, of the others by adding up areas."""
    runs = range(settings.replicates)
    cases = [
        case(settings, m, e, variant=EXACT, runs=runs)
        for m in settings.chosen
        for e in settings.epsilons
    ]
    made = run_cases(
        cases,
        _by_level,
        data=people(settings),
        seed=settings.seed,
        work=work,
        what="Errors by level",
    )
    return pl.DataFrame(
        [{**one.columns, **row} for one, rows in zip(cases, made, strict=True) for row in rows]
    ).drop("variant")


def _by_level(made: Iterator[Released]) -> list[dict[str, Any]]:
    """Statistics of the errors of all runs together."""
    errors: dict[str, list[NDArray[Any]]] = {}
    for one in made:
        truth = one.truth.counts
        counts = {level: truth.at(level) for level in truth.geography.levels}
        for level, exact in counts.items():
            errors.setdefault(level, []).append((exact.dense() - one.release.at(level)).ravel())
    return [
        {"level": level} | _level_score(counts[level], np.concatenate(found))
        for level, found in errors.items()
    ]


def _level_score(counts: Counts, errors: NDArray[Any]) -> dict[str, Any]:
    found = summarise(errors)
    units = counts.geography.size(counts.level)
    mean_people = float(counts.totals().sum() / units)
    return {
        "units": units,
        "mean_people": mean_people,
        "residual_sd": float(errors.std()),
        "median_abs_residual": found.median_absolute,
        "p95_abs_residual": found.p95_absolute,
        "mean_residual": found.bias,
        "median_abs_percent": 100 * found.median_absolute / mean_people,
    }
