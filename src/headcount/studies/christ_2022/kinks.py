"""Where a curve bends: straight lines that meet, fitted by least squares.

With one bend the fit finds the strongest one, whichever way it goes. That was this study's first
rule. Some curves level off and rise again later, and one bend then sits at the rise; so a second
rule was added *after* the first results were seen: two bends, of which the one is taken at which
the curve becomes flatter. Because of this order both are reported and claims are judged by each.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Floats

FLAT = 1e-9
"""A curve that moves less than this has no bend."""


@dataclass(frozen=True, kw_only=True)
class Kink:
    """Where a curve bends, and its slopes on both sides.

    where
        explained   how much of the squared error of one straight line the bends take away, 0 to 1
    """

    at: float
    before: float
    after: float
    explained: float


def find_kinks(x: ArrayLike, curves: ArrayLike, *, bends: int) -> list[Kink | None]:
    """The kink of each curve (curves x points); None for a flat one.

        minimise sum (y - a - b x - sum over j of c_j max(0, x - t_j))^2 over a, b, c and t

    where
        t   one or two bends, at values of x other than the first and the last

    With two bends the one is taken at which the size of the slope falls most, and a curve that
    becomes flatter at neither has no kink.
    """
    xs, ys = np.asarray(x, dtype=np.float64), np.atleast_2d(np.asarray(curves, dtype=np.float64))
    straight = _explained(_broken(xs, ()), ys)
    best = np.full(len(ys), -np.inf)
    where = np.zeros((len(ys), bends))
    for places in combinations(xs[1:-1], bends):
        found = _explained(_broken(xs, places), ys)
        better = found > best
        best[better], where[better] = found[better], places
    left = np.maximum(np.square(ys).sum(axis=1) - straight, FLAT**2)
    gained = np.clip((best - straight) / left, 0, 1)
    return [
        _kink(xs, y, tuple(places), float(part))
        for y, places, part in zip(ys, where, gained, strict=True)
    ]


def _kink(x: Floats, y: Floats, places: tuple[float, ...], explained: float) -> Kink | None:
    if np.ptp(y) < FLAT:
        return None
    slopes = np.cumsum(np.linalg.lstsq(_broken(x, places), y, rcond=None)[0][1:])
    falls = np.abs(slopes[:-1]) - np.abs(slopes[1:])
    which = int(falls.argmax())
    if len(places) > 1 and falls[which] <= 0:
        return None
    return Kink(
        at=float(places[which]),
        before=float(slopes[which]),
        after=float(slopes[which + 1]),
        explained=explained,
    )


def _broken(x: Floats, places: tuple[float, ...]) -> Floats:
    return np.column_stack([np.ones_like(x), x, *(np.maximum(x - t, 0) for t in places)])


def _explained(columns: Floats, ys: Floats) -> Floats:
    """The part of each curve's squares that lies in the span of the columns."""
    basis = np.linalg.qr(columns)[0]
    return np.asarray(np.square(ys @ basis).sum(axis=1))
