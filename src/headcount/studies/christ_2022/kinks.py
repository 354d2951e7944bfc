"""Where a curve bends: two straight lines that meet, fitted by least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

STEPS = 400


@dataclass(frozen=True, kw_only=True)
class Kink:
    """A broken line: y = level + before x up to the kink, and slope ``after`` beyond it.

    where
        explained   how much of the squared error of one straight line the bend takes away, 0 to 1
    """

    at: float
    before: float
    after: float
    explained: float


def find_kink(x: ArrayLike, y: ArrayLike) -> Kink:
    """The break of the continuous broken line that fits best.

        minimise sum (y - a - b x - c max(0, x - t))^2 over a, b, c and t

    where
        t   the kink, on a fine grid between the second value of x and the last but one
    """
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    one = np.column_stack([np.ones_like(xs), xs])
    straight = _left(one, ys)[1]
    best: tuple[float, float, np.ndarray] | None = None
    for t in np.linspace(xs[1], xs[-2], STEPS):
        found, left = _left(np.column_stack([one, np.maximum(xs - t, 0)]), ys)
        if best is None or left < best[0]:
            best = (left, float(t), found)
    assert best is not None
    left, at, (_, before, bend) = best
    explained = 1 - left / straight if straight > 0 else 0.0
    return Kink(at=at, before=float(before), after=float(before + bend), explained=explained)


def _left(columns: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    found = np.linalg.lstsq(columns, y, rcond=None)[0]
    return found, float(np.square(y - columns @ found).sum())
