"""What the pooled estimate depends on: one setting moved at a time, all others the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import polars as pl

from headcount.population.uniform import uniform
from headcount.progress import Progress, silent
from headcount.studies.flaxman_2019.pooled import estimate, score
from headcount.studies.flaxman_2019.runs import counted, leaf_residuals, outcomes
from headcount.studies.flaxman_2019.settings import EXACT, MECHANISMS, Settings

SWEEP: Mapping[str, tuple[Any, ...]] = {
    "people": (10_000, 100_000, 1_000_000, 10_000_000),
    "depth": (1, 2, 3, 4, 6),
    "mean": (10, 30, 100, 300, 1000),
    "epsilon": tuple(Fraction(e) for e in ("0.0125", "0.025", "0.05", "0.1", "0.2", "0.4", "0.8")),
    "range_percentile": (80.0, 90.0, 95.0, 97.5, 99.0),
    "range_multiplier": (0.5, 1.0, 1.5, 2.0, 3.0),
    "kernel_factor": (0.02, 0.05, 0.1, 0.15, 0.3, 0.6),
}
"""Values tried for each setting; ``epsilon`` is that of the direct estimate, 0.1, elsewhere."""

_ESTIMATOR = ("range_percentile", "range_multiplier", "kernel_factor")


def sweep(
    *,
    seed: int,
    replicates: int,
    settings: Settings,
    values: Mapping[str, tuple[Any, ...]] = SWEEP,
    progress: Progress = silent,
) -> pl.DataFrame:
    """Score the exact mechanisms at each value; means over the replicates where it is defined."""
    # Settings of the estimator alone are tried on the same residuals, made once.
    population_cases = [(p, (v,)) for p, vs in values.items() if p not in _ESTIMATOR for v in vs]
    cases = population_cases + [(p, vs) for p, vs in values.items() if p in _ESTIMATOR]
    rows: list[dict[str, Any]] = []
    for parameter, tried in progress(cases, what="Sweep", total=len(cases)):
        rows += _case(parameter, tried, seed=seed, replicates=replicates, settings=settings)
    return pl.DataFrame(rows)


def _case(
    parameter: str, tried: tuple[Any, ...], *, seed: int, replicates: int, settings: Settings
) -> list[dict[str, Any]]:
    epsilon = tried[0] if parameter == "epsilon" else settings.direct_epsilon
    moved = [_moved(settings, parameter, value) for value in tried]
    made_with = moved[0]
    people, depth, mean = made_with.people, made_with.depth, made_with.mean
    counts, digest = counted(uniform(people=people, depth=depth, mean=mean, seed=seed))
    rows = []
    for name in MECHANISMS:
        made = outcomes(
            counts, digest, name, epsilon,
            settings=made_with, variant=EXACT, seed=seed, runs=range(replicates),
        )  # fmt: skip
        errors = list(leaf_residuals(counts, made))
        for value, how in zip(tried, moved, strict=True):
            scores = pl.DataFrame([score(one, estimate(one, how)) for one in errors])
            rows.append(
                {"parameter": parameter, "value": float(value), "mechanism": name}
                | {"epsilon": float(epsilon)}
                | _described(how)
                | {"replicates": replicates}
                | _summary(scores, float(epsilon))
            )
    return rows


def _moved(settings: Settings, parameter: str, value: Any) -> Settings:
    """The settings with one of them changed; no one is moved here, so any two areas will do."""
    settings = replace(settings, moved=(0, 1))
    return settings if parameter == "epsilon" else replace(settings, **{parameter: value})


def _described(settings: Settings) -> dict[str, Any]:
    shown = ("people", "depth", "mean", "areas", *_ESTIMATOR)
    return {key: getattr(settings, key) for key in shown}


def _summary(scores: pl.DataFrame, epsilon: float) -> dict[str, Any]:
    means = scores.mean().row(0, named=True)
    defined = scores["median_abs_epl"].cast(pl.Float64).drop_nulls()
    keys = ("residual_sd", "median_abs_residual", "median_abs_epl", "max_abs_epl")
    return {
        "defined": len(defined),
        **{key: means[key] for key in keys},
        "lowest_median_abs_epl": defined.min(),
        "highest_median_abs_epl": defined.max(),
        "epl_over_epsilon": None
        if means["median_abs_epl"] is None
        else means["median_abs_epl"] / epsilon,
    }
