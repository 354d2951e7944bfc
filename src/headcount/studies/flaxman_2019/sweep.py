"""What the pooled estimate depends on: one setting moved at a time, all others the paper's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from headcount.progress import Progress, silent
from headcount.studies.flaxman_2019.pooled import estimate, score
from headcount.studies.flaxman_2019.runs import leaf_residuals, releases
from headcount.studies.flaxman_2019.settings import EXACT, MECHANISMS, Settings
from headcount.tabulate import Tabulated

_ESTIMATOR = ("range_percentile", "range_multiplier", "kernel_factor")


_REPLICATES = 5
"""The sweep shows directions; more replicates would be most of the study's time."""


def sweep(settings: Settings, progress: Progress = silent) -> pl.DataFrame:
    """Score the exact mechanisms at each value; means over the replicates where it is defined."""
    # Settings of the estimator alone are tried on the same residuals, made once.
    swept = settings.swept
    population_cases = [(p, (v,)) for p, vs in swept.items() if p not in _ESTIMATOR for v in vs]
    cases = population_cases + [(p, vs) for p, vs in swept.items() if p in _ESTIMATOR]
    rows: list[dict[str, Any]] = []
    for parameter, tried in progress(cases, what="Sweep", total=len(cases)):
        rows += _case(parameter, tried, settings)
    return pl.DataFrame(rows)


def _case(parameter: str, tried: tuple[Any, ...], settings: Settings) -> list[dict[str, Any]]:
    epsilon = tried[0] if parameter == "epsilon" else settings.direct_epsilon
    replicates = min(settings.replicates, _REPLICATES)
    moved = [_moved(settings, parameter, value) for value in tried]
    data = Tabulated.of(moved[0].population())
    rows = []
    for name in MECHANISMS:
        runs = range(replicates)
        made = releases(data, name, epsilon, settings=moved[0], variant=EXACT, runs=runs)
        errors = list(leaf_residuals(data, made))
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
