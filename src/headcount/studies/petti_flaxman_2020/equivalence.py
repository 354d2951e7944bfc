"""Which sampling fraction is TopDown like? Table 1 of the paper, with its method stated."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from headcount.evaluate.tradeoff import NEAREST, Nearest, Point, nearest_of, nearest_on_curve
from headcount.studies.petti_flaxman_2020.draws import Draws, MechanismName
from headcount.studies.petti_flaxman_2020.residuals import pool
from headcount.studies.petti_flaxman_2020.scores import Score, parameters
from headcount.studies.petti_flaxman_2020.settings import (
    COUNT_TYPES,
    LEVELS,
    CountType,
    Level,
    loss_of,
)

EQUIVALENCE_COLUMNS = ("epsilon", "fraction", "method", "fraction_low", "fraction_high")
_SCHEMA = {
    "count_type": pl.String,
    "level": pl.String,
    "epsilon": pl.Float64,
    "fraction": pl.Float64,
    "method": pl.String,
    "fraction_low": pl.Float64,
    "fraction_high": pl.Float64,
    "fraction_interpolated": pl.Float64,
    "distance": pl.Float64,
    "at_end": pl.Boolean,
}


def equivalence_table(draws: Draws, scores: list[Score]) -> pl.DataFrame:
    """The nearest sampling fraction of every epsilon, for every type of count and level.

    where
        fraction                the swept fraction nearest to the interpolated one
        fraction_low, _high     least and greatest interpolated answer of the pooled runs and of
                                single replicates, each compared with the sampling curve of the
                                same replicate
        distance                how far the two are apart as a share of the figure's axes: with a
                                large distance no fraction is like this epsilon
        at_end                  the sampling curve ends there: the answer may lie beyond it

    The paper judged by eye, on stratified counts of counties.
    """
    rows: list[dict[str, Any]] = []
    for kind in COUNT_TYPES:
        for level in LEVELS:
            pooled = {
                (one.mechanism, one.parameter): _point(one)
                for one in scores
                if (one.count_type, one.level) == (kind, level)
            }
            single = [_points_of(draws, kind, level, r) for r in range(draws.settings.replicates)]
            for epsilon in draws.settings.epsilons:
                best = _nearest(pooled, epsilon)
                if best is None:
                    continue
                rows.append(
                    {"count_type": kind, "level": level, "epsilon": float(epsilon)}
                    | _answer(best, [_nearest(one, epsilon) for one in single], draws)
                )
    return pl.DataFrame(rows, schema=_SCHEMA)


def _answer(best: Nearest, single: list[Nearest | None], draws: Draws) -> dict[str, Any]:
    low = high = None
    alone = [one.parameter for one in single if one is not None]
    if len(alone) > 1:
        low, high = min(*alone, best.parameter), max(*alone, best.parameter)
    options = [float(f) for f in draws.settings.fractions]
    return {
        "fraction": nearest_of(best.parameter, options),
        "method": NEAREST,
        "fraction_low": low,
        "fraction_high": high,
        "fraction_interpolated": best.parameter,
        "distance": best.distance,
        "at_end": best.at_end,
    }


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


def _points_of(draws: Draws, kind: CountType, level: Level, replicate: int) -> Points:
    """Error and loss of one replicate alone."""
    found: Points = {}
    names: tuple[MechanismName, ...] = ("topdown", "sampling")
    for mechanism in names:
        for parameter in parameters(draws.settings, mechanism):
            errors = pool([draws.of(mechanism, parameter)[replicate]], kind, level)
            found[mechanism, parameter] = Point(
                parameter=float(parameter),
                error=float(np.median(np.abs(errors))),
                loss=loss_of(errors).max_abs,
            )
    return found
