"""Two mechanisms side by side: error against loss, and the parameters that come nearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NEAREST = (
    "nearest point of the sampling curve, drawn straight between its fractions, in the plane of "
    "MAE and EPL with both axes scaled to the range of the two curves; then the nearest of the "
    "fractions"
)
"""Nearest as an eye sees it on a figure. The part of the published curves at hand gives 0.47 for
epsilon 1 and 0.70 for epsilon 2, where the paper's eye saw 0.50 and 0.75; the plane of logarithms
would give 0.65 for the latter."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One setting of a mechanism: its parameter, its typical error and its empirical loss."""

    parameter: float
    error: float
    loss: float | None


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """The point of a curve nearest to another mechanism's setting.

    where
        parameter   interpolated along the curve
        distance    as a share of the axes: 0.1 is a tenth of the range of error, or of loss
        at_end      the curve ends there, so the true answer may lie beyond it
    """

    parameter: float
    distance: float
    at_end: bool


def nearest_on_curve(
    point: Point, curve: Sequence[Point], *, others: Sequence[Point] = ()
) -> Nearest | None:
    """Where a curve comes nearest to a point, as an eye sees it on a figure of both.

    where
        curve    the curve to search, drawn straight between neighbouring parameters
        others   further points of the figure: its axes span all errors and all losses

    None where the loss of the point, or of all but one of the curve's points, is undefined.
    """
    placed = sorted((p for p in curve if p.loss is not None), key=lambda p: p.parameter)
    if point.loss is None or len(placed) < 2:
        return None
    drawn = np.array([_place(p) for p in (point, *placed, *others) if p.loss is not None])
    span = np.ptp(drawn, axis=0)
    span[span == 0] = 1.0
    here = drawn[0] / span
    place = drawn[1 : 1 + len(placed)] / span
    parameter = np.array([p.parameter for p in placed])
    start, step = place[:-1], np.diff(place, axis=0)
    length = (step**2).sum(axis=1)
    along = ((here - start) * step).sum(axis=1)
    share = np.clip(np.divide(along, length, out=np.zeros_like(along), where=length > 0), 0, 1)
    gap = np.linalg.norm(start + share[:, None] * step - here, axis=1)
    best = int(np.argmin(gap))
    found = float(parameter[best] + share[best] * (parameter[best + 1] - parameter[best]))
    ends = (parameter[0], parameter[-1])
    return Nearest(parameter=found, distance=float(gap[best]), at_end=found in ends)


def nearest_of(value: float, options: Sequence[float]) -> float:
    """The option nearest to a value."""
    return min(options, key=lambda option: abs(option - value))


def _place(point: Point) -> tuple[float, float]:
    assert point.loss is not None
    return point.error, point.loss
