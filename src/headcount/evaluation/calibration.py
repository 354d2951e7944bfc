"""What empirical privacy loss says about pure noise of known loss, and the way back.

EPL is the maximum of a noisy curve and so too high when residuals are few. Pure two-sided
geometric noise has a loss that is known exactly, so it shows by how much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, exp, floor, log, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Floats, Ints
from headcount.draws import multinomial
from headcount.errors import InputError

MONOTONE_FROM = 2_000
"""With so many values the mean EPL of pure noise rises with z; with fewer it may turn back."""
MOSTLY = 0.95
"""A mean over draws counts if EPL is defined in at least this share of them."""
_STEP = 0.15
_STEPS, _STEPS_IF_SMALL = 40, 20  # down to a four-hundredth, or a twentieth of EPL
_ONE_PLACE = 4 * _STEP
"""Crossings within so much of log z are one, seen through chance."""
_OPEN = 3.0
"""Standard errors within which a mean cannot be told from EPL."""
_FIRST_LOOK = 32
_CLOSE = 0.02
_TAIL = 30.0
"""Noise beyond (log n + 30) / z is put at that end: it has probability below 1e-13."""
_AT_ONCE = 32
"""Neighbouring points whose sums run over the same values."""
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a loss is read off residuals; the defaults are those of Petti & Flaxman (2020)."""

    kernel_factor: float = 0.1
    range_percentile: float = 95.0
    range_multiplier: float = 1.0


PETTI_FLAXMAN = Recipe()


def epl_of_histogram(
    values: ArrayLike, numbers: ArrayLike, recipe: Recipe = PETTI_FLAXMAN
) -> float | None:
    """The largest |EPL(x)| of ``published`` for residuals given as values and how many of each.

    ``values`` are ascending and distinct. None where the recipe gives no number. It equals
    ``published(np.repeat(values, numbers))``, at a cost that does not grow with how many there are.
    """
    x, w = np.asarray(values, dtype=np.float64), np.asarray(numbers, dtype=np.float64)
    there = w > 0
    x, w = x[there], w[there]
    ends = np.cumsum(w)
    if x.size < 2:
        return None
    n = float(ends[-1])
    off = x - float(x @ w) / n
    kernel_sd = recipe.kernel_factor * sqrt(float((off * off) @ w) / (n - 1))
    low, high = 100 - recipe.range_percentile, recipe.range_percentile
    reach = recipe.range_multiplier * max(
        abs(_percentile(x, ends, low)), abs(_percentile(x, ends, high))
    )
    edges = np.arange(-reach, reach, 1.0)
    points = 0.5 * (edges[1:] + edges[:-1])
    if points.size < 2 or kernel_sd < _TINY:
        return None
    density = _density(x, w, points, kernel_sd) / (n * kernel_sd * sqrt(2 * pi))
    if not (density >= _TINY).all():
        return None
    return float(np.abs(np.diff(np.log(density))).max())


def geometric_epl(
    z: float, *, n: int, draws: int, seed: int, recipe: Recipe = PETTI_FLAXMAN
) -> Floats:
    """EPL of ``draws`` samples of n pure noise values, Pr[k] proportional to exp(-z |k|).

    The true loss of that noise is z; NaN where the recipe gives no number. Many values are drawn
    as histograms (multinomial), so that a million cost no more than a thousand. Few are differences
    of two geometric numbers, floor(E / z) with E exponential: a seed has the same E at every z,
    so its mean EPL moves smoothly with z.
    """
    if not z > 0 or n < 2 or draws < 1:
        raise InputError(
            "calibration of EPL",
            found=f"z {z}, n {n}, draws {draws}",
            expected="z above 0, n of 2 or more, draws of 1 or more",
        )
    samples = _values if n < MONOTONE_FROM else _histograms
    found = [epl_of_histogram(*one, recipe) for one in samples(z, n=n, draws=draws, seed=seed)]
    return np.array([np.nan if one is None else one for one in found])


def _histograms(z: float, *, n: int, draws: int, seed: int) -> Iterator[tuple[Ints, Ints]]:
    reach = ceil((log(n) + _TAIL) / z)
    values = np.arange(-reach, reach + 1)
    weight = np.exp(-z * np.abs(values))
    rng = np.random.default_rng([seed, n])
    for _ in range(draws):
        yield values, multinomial(rng, n, weight / weight.sum())


def _values(z: float, *, n: int, draws: int, seed: int) -> Iterator[tuple[Ints, Ints]]:
    rng = np.random.default_rng([seed, n])
    for _ in range(draws):
        one, other = np.floor(rng.standard_exponential((2, n)) / z)
        yield np.unique(one - other, return_counts=True)


def mean_geometric_epl(
    z: float, *, n: int, draws: int, seed: int, recipe: Recipe = PETTI_FLAXMAN
) -> float | None:
    """The mean of ``geometric_epl`` where it is defined; None if it mostly is not (``MOSTLY``)."""
    found = _look(z, n=n, draws=draws, seed=seed, recipe=recipe)
    return None if found is None else found[0]


def draws_for(n: int) -> int:
    """How many draws tell neighbouring scales apart: EPL of few values varies most, at low cost."""
    return int(np.clip(2_000_000 // n, _FIRST_LOOK, 256))


def calibrate(
    epl: float | None,
    *,
    n: int,
    draws: int | None = None,
    seed: int = 0,
    recipe: Recipe = PETTI_FLAXMAN,
) -> float | None:
    """The z for which pure geometric noise with the same n has, on average, this EPL.

    where
        draws   samples of noise behind a mean that decides; ``draws_for(n)`` if None

    Found by a walk down log z, with a first look at each step and all draws where that leaves the
    side of EPL open, then by a root search. It corrects for the size of the sample and for nothing
    else: errors that are not geometric noise may lose more or less than z. None where EPL is
    undefined; where no pure noise shows that EPL (when nearly all noise is zero, the range looked
    at is too narrow for the recipe); or, with few values, where noise of scales far apart does.
    """
    from scipy.optimize import brentq

    if epl is None or not np.isfinite(epl) or epl <= 0:
        return None
    many = draws or draws_for(n)

    def look(log_z: float, some: int) -> tuple[float, bool] | None:
        """log(mean / EPL), and whether its sign is open."""
        found = _look(exp(log_z), n=n, draws=some, seed=seed, recipe=recipe)
        if found is None:
            return None
        mean, error = found
        return log(mean / epl), abs(mean - epl) < _OPEN * error

    def glance(log_z: float) -> tuple[float, bool] | None:
        first = look(log_z, min(_FIRST_LOOK, many))
        return look(log_z, many) if first is None or first[1] else first

    def above(log_z: float) -> float | None:
        found = look(log_z, many)
        return None if found is None else found[0]

    bracket = _bracket(glance, start=log(1.25 * epl), n=n)
    if bracket is None:
        return None
    try:
        z = exp(brentq(_defined(above), *bracket, xtol=5e-3))
    except (InputError, ValueError):  # undefined inside, or no change of sign with all draws
        return None
    reached = mean_geometric_epl(z, n=n, draws=many, seed=seed, recipe=recipe)
    return z if reached is not None and abs(reached / epl - 1) < _CLOSE else None


def _look(z: float, *, n: int, draws: int, seed: int, recipe: Recipe) -> tuple[float, float] | None:
    """Mean EPL and its standard error; None if EPL is undefined in more than a few draws."""
    found = geometric_epl(z, n=n, draws=draws, seed=seed, recipe=recipe)
    there = found[~np.isnan(found)]
    if there.size < MOSTLY * draws:
        return None
    return float(there.mean()), float(there.std() / np.sqrt(there.size))


def _bracket(
    look: Callable[[float], tuple[float, bool] | None], *, start: float, n: int
) -> tuple[float, float] | None:
    """The stretch of log z, walking down, in which the mean EPL passes the one seen.

    With many values the first crossing is the only one. With few there must be one, and no scale
    far from it whose mean cannot be told from the EPL seen. EPL of pure noise is never far below
    z, so the walk may start a little above EPL.
    """
    crossings: list[tuple[float, float]] = []
    fits: list[float] = []
    before: tuple[float, float] | None = None
    for step in range(_STEPS if n >= MONOTONE_FROM else _STEPS_IF_SMALL):
        here = start - _STEP * step
        found = look(here)
        if found is None:
            before = None
            continue
        if before is not None and (found[0] > 0) != (before[1] > 0):
            crossings.append((here, before[0]))
            if n >= MONOTONE_FROM:
                return crossings[0]
        before = (here, found[0])
        fits += [here] if found[1] else []
        fits += crossings[-1] if crossings else ()
        if fits and max(fits) - min(fits) > _ONE_PLACE + 1e-9:
            return None
    if len(crossings) % 2 == 0:
        return None  # no pure noise shows this EPL, or noise of two scales does
    return crossings[-1][0], crossings[0][1]


def _defined(function: Callable[[float], float | None]) -> Callable[[float], float]:
    """The function where it has a value; an error where it has none."""

    def value(x: float) -> float:
        if (found := function(x)) is None:
            raise InputError("calibration of EPL", found="an undefined mean", expected="a number")
        return found

    return value


def _density(x: Floats, w: Floats, points: Floats, kernel_sd: float) -> Floats:
    """Sum of w exp(-(p - x)^2 / (2 h^2)) at each point, to a relative error below 1e-13.

    A value further away than d + h sqrt(2 log(n / 1e-14)), with d the distance to the nearest one,
    adds less than 1e-14 / n of the sum, and is left out.
    """
    right = np.searchsorted(x[1:-1], points) + 1
    nearest = np.minimum(np.abs(points - x[right - 1]), np.abs(x[right] - points))
    reach = nearest + kernel_sd * sqrt(2 * log(float(w.sum()) / 1e-14))
    out = np.empty(points.size)
    for start in range(0, points.size, _AT_ONCE):
        here = slice(start, start + _AT_ONCE)
        first = np.searchsorted(x, (points[here] - reach[here]).min(), side="left")
        last = np.searchsorted(x, (points[here] + reach[here]).max(), side="right")
        u = (points[here, None] - x[first:last]) / kernel_sd
        out[here] = np.exp(-0.5 * u * u) @ w[first:last]
    return out


def _percentile(x: Floats, ends: Floats, percent: float) -> float:
    """Linear interpolation between order statistics, as numpy's default; ``ends`` are sums."""
    place = (float(ends[-1]) - 1) * percent / 100
    first = floor(place)
    below, above = x[np.searchsorted(ends, (first, ceil(place)), side="right")]
    return float(below + (above - below) * (place - first))
