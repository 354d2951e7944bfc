"""Two mechanisms side by side: error against loss, and the parameters that come nearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NEAREST = (
    "nearest point of the sampling curve, drawn straight between its fractions, in the plane of "
    "log MAE and log EPL; then the nearest of the fractions"
)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One setting of a mechanism: its parameter, its typical error and its empirical loss."""

    parameter: float
    error: float
    loss: float | None

    @property
    def place(self) -> tuple[float, float] | None:
        """Its place in the plane of logarithms; None where it has none."""
        if self.loss is None or not (self.error > 0 and self.loss > 0):
            return None
        return float(np.log(self.error)), float(np.log(self.loss))


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """The point of a curve nearest to another mechanism's setting.

    where
        parameter   interpolated along the curve
        distance    in natural-log units: 0.1 is about 10 % of error or loss
        at_end      the curve ends there, so the true answer may lie beyond it
    """

    parameter: float
    distance: float
    at_end: bool


def nearest_on_curve(point: Point, curve: Sequence[Point]) -> Nearest | None:
    """Where a curve comes nearest to a point, in the plane of log error and log loss.

    The curve is drawn straight between neighbouring parameters. None where the point or all but
    one of the curve's points have no place in the plane (error or loss zero or undefined).
    """
    here = point.place
    placed = sorted(
        ((one.parameter, one.place) for one in curve if one.place is not None),
        key=lambda pair: pair[0],
    )
    if here is None or len(placed) < 2:
        return None
    parameter = np.array([p for p, _ in placed])
    place = np.array([xy for _, xy in placed])
    start, step = place[:-1], np.diff(place, axis=0)
    length = (step**2).sum(axis=1)
    along = ((np.array(here) - start) * step).sum(axis=1)
    share = np.clip(np.divide(along, length, out=np.zeros_like(along), where=length > 0), 0, 1)
    gap = np.linalg.norm(start + share[:, None] * step - np.array(here), axis=1)
    best = int(np.argmin(gap))
    found = float(parameter[best] + share[best] * (parameter[best + 1] - parameter[best]))
    ends = (parameter[0], parameter[-1])
    return Nearest(parameter=found, distance=float(gap[best]), at_end=found in ends)


def nearest_of(value: float, options: Sequence[float]) -> float:
    """The option nearest to a value."""
    return min(options, key=lambda option: abs(option - value))
