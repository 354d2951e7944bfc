"""Which sampling fraction is TopDown like? Table 1 of the paper, with its method stated."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from headcount.evaluation.tally import median_of
from headcount_papers.calibration import epl_of_histogram
from headcount_papers.petti_flaxman_2020.draws import Draws, MechanismName, parameters
from headcount_papers.petti_flaxman_2020.residuals import pool_histograms
from headcount_papers.petti_flaxman_2020.scores import Score
from headcount_papers.petti_flaxman_2020.settings import COUNT_TYPES, LEVELS, CountType, Level
from headcount_papers.petti_flaxman_2020.tradeoff import (
    NEAREST,
    Nearest,
    Point,
    nearest_of,
    nearest_on_curve,
)

EQUIVALENCE_COLUMNS = ("epsilon", "fraction", "method", "fraction_low", "fraction_high")
_ANSWERS = {
    "fraction": pl.Float64,
    "fraction_low": pl.Float64,
    "fraction_high": pl.Float64,
    "fraction_interpolated": pl.Float64,
    "standard_error": pl.Float64,
    "distance": pl.Float64,
    "at_end": pl.Boolean,
}
_SCHEMA = {
    "count_type": pl.String,
    "level": pl.String,
    "epsilon": pl.Float64,
    "method": pl.String,
    **_ANSWERS,
}


def equivalence_table(draws: Draws, scores: list[Score]) -> pl.DataFrame:
    """The nearest sampling fraction of every epsilon, for every type of count and level.

    where
        fraction                the swept fraction nearest to the interpolated one; with those
                                below blank where error or loss is undefined
        fraction_low, _high     the swept fractions nearest to the interpolated one minus and plus
                                two jackknife standard errors
        standard_error          of the interpolated one:
                                sqrt((R - 1) / R sum of (x_r - mean of x)^2), x_r being the answer
                                from all R replicates but r, of TopDown and of samples
        distance                how far the two are apart as a share of the figure's axes: with a
                                large distance no fraction is like this epsilon
        at_end                  the sampling curve ends there: the answer may lie beyond it

    The paper judged by eye, on stratified counts of counties.
    """
    rows: list[dict[str, Any]] = []
    all_of = range(draws.settings.replicates)
    for kind in COUNT_TYPES:
        for level in LEVELS:
            pooled = {
                (one.mechanism, one.parameter): _point(one)
                for one in scores
                if (one.count_type, one.level) == (kind, level)
            }
            without = [
                _points_of(draws, kind, level, [r for r in all_of if r != left_out])
                for left_out in all_of
                if len(all_of) > 1
            ]
            for epsilon in draws.settings.epsilons:
                others = [_nearest(one, epsilon) for one in without]
                rows.append(
                    {"count_type": kind, "level": level, "epsilon": float(epsilon)}
                    | {"method": NEAREST}
                    | _answer(_nearest(pooled, epsilon), others, draws)
                )
    return pl.DataFrame(rows, schema=_SCHEMA)


def _answer(best: Nearest | None, others: list[Nearest | None], draws: Draws) -> dict[str, Any]:
    if best is None:
        return dict.fromkeys(_ANSWERS)
    options = [float(f) for f in draws.settings.fractions]
    found = [one.parameter for one in others if one is not None]
    low = high = error = None
    if found and len(found) == len(others):
        error = float(np.sqrt((len(found) - 1) * np.var(found)))
        low, high = (nearest_of(best.parameter + k * error, options) for k in (-2, 2))
    values = (
        *(nearest_of(best.parameter, options), low, high, best.parameter, error),
        *(best.distance, best.at_end),
    )
    return dict(zip(_ANSWERS, values, strict=True))


Points = dict[tuple[MechanismName, Fraction], Point]


def _nearest(points: Points, epsilon: Fraction) -> Nearest | None:
    curve = [point for (mechanism, _), point in points.items() if mechanism == "sampling"]
    others = [point for (mechanism, _), point in points.items() if mechanism == "topdown"]
    return nearest_on_curve(points["topdown", epsilon], curve, others=others)


def _point(score: Score) -> Point:
    return Point(
        parameter=float(score.parameter),
        error=score.error.median_absolute,
        loss=score.loss.max_abs,
    )


def _points_of(draws: Draws, kind: CountType, level: Level, replicates: list[int]) -> Points:
    """Error and loss of some replicates together."""
    found: Points = {}
    names: tuple[MechanismName, ...] = ("topdown", "sampling")
    for mechanism in names:
        for parameter in parameters(draws.settings, mechanism):
            made = draws.of(mechanism, parameter)
            values, numbers = pool_histograms([made[r] for r in replicates], kind, level)
            found[mechanism, parameter] = Point(
                parameter=float(parameter),
                error=median_of(np.abs(values), times=numbers),
                loss=epl_of_histogram(values, numbers),
            )
    return found
