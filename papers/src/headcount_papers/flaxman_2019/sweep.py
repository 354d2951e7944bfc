"""What the pooled estimate depends on: one setting moved at a time, all others the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import polars as pl
from numpy.typing import NDArray

from headcount.comparison.cases import Case, run_cases
from headcount.comparison.study import Work
from headcount_papers.flaxman_2019.cases import case, leaf_errors, people
from headcount_papers.flaxman_2019.pooled import estimate, score
from headcount_papers.flaxman_2019.settings import EXACT, Settings

_ESTIMATOR = ("range_percentile", "range_multiplier", "kernel_factor")


_POPULATION = ("people", "depth", "mean")
"""What can be moved of made-up people only."""
_REPLICATES = 5
"""The sweep shows directions; more replicates would be most of the study's time."""


def sweep(settings: Settings, work: Work) -> pl.DataFrame:
    """Score the exact mechanisms at each value; means over the replicates where it is defined."""
    # Settings of the estimator alone are tried on the same residuals, made once.
    swept = {
        parameter: values
        for parameter, values in settings.swept.items()
        if settings.population is None or parameter not in _POPULATION
    }
    tried = [(p, (v,)) for p, vs in swept.items() if p not in _ESTIMATOR for v in vs]
    tried += [(p, vs) for p, vs in swept.items() if p in _ESTIMATOR]
    runs = range(min(settings.replicates, _REPLICATES))
    moved, cases = {}, []
    for parameter, values in tried:
        here = {value: _moved(settings, parameter, value) for value in values}
        first = here[values[0]]
        epsilon = values[0] if parameter == "epsilon" else settings.direct_epsilon
        for name in settings.chosen:
            one = case(first, name, epsilon, variant=EXACT, runs=runs)
            cases.append(replace(one, name=f"{parameter} {values[0]}, {one.name}"))
            moved[cases[-1].name] = parameter, here
    made = run_cases(
        cases,
        lambda releases: [leaf_errors(one) for one in releases],
        data=lambda one: people(next(iter(moved[one.name][1].values()))),
        seed=settings.seed,
        work=work,
        what="Sweep",
    )
    return pl.DataFrame(
        [
            row
            for one, errors in zip(cases, made, strict=True)
            for row in _rows(one, errors, *moved[one.name])
        ]
    )


def _rows(
    one: Case, errors: list[NDArray[Any]], parameter: str, moved: Mapping[Any, Settings]
) -> Iterator[dict[str, Any]]:
    name, epsilon = one.columns["mechanism"], one.columns["epsilon"]
    for value, how in moved.items():
        scores = pl.DataFrame([score(found, estimate(found, how)) for found in errors])
        yield (
            {"parameter": parameter, "value": float(value), "mechanism": name, "epsilon": epsilon}
            | _described(how)
            | {"replicates": len(errors)}
            | _summary(scores, epsilon)
        )


def _moved(settings: Settings, parameter: str, value: Any) -> Settings:
    """The settings with one of them changed; no one is moved here, so any two areas will do."""
    settings = replace(settings, moved=None)
    return settings if parameter == "epsilon" else replace(settings, **{parameter: value})


def _described(settings: Settings) -> dict[str, Any]:
    shown = ("areas", *_ESTIMATOR)
    made_up = {key: None if settings.population else getattr(settings, key) for key in _POPULATION}
    return {**made_up, **{key: getattr(settings, key) for key in shown}}


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
