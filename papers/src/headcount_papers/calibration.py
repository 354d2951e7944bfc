"""Calibration of empirical privacy loss: its value for noise of known epsilon, and the inverse.

EPL is the maximum of a noisy curve and so too high when residuals are few. Pure two-sided
geometric noise has a loss that is known exactly, so it shows by how much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
_LEFT_OUT = 1e-14
"""Values that together add less than this share of a density are left out of it."""
_ROOM = 1 << 21
"""Counts of samples that are held at once."""
_SPARSE = 32
"""With so many whole numbers to a value it is quicker to go by the values than by the numbers."""
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
    return _Samples(n=n, seed=seed, recipe=recipe).losses(z, draws)


@dataclass
class _Samples:
    """Samples of pure noise and their EPL, which a search asks for again and again.

    The first draws are the same however many are asked for, so that none is made twice.
    """

    n: int
    seed: int
    recipe: Recipe
    _found: dict[float, tuple[Floats, np.random.Generator]] = field(default_factory=dict)
    _standard: Floats = field(default_factory=lambda: np.empty((0, 2, 0)))

    def losses(self, z: float, draws: int) -> Floats:
        """EPL of the first ``draws`` samples; NaN where the recipe gives no number."""
        before = self._found.get(z)
        known, rng = before if before is not None else (np.empty(0), self._rng())
        if known.size < draws:
            make = self._values if self.n < MONOTONE_FROM else self._histograms
            more = make(z, known.size, draws, rng)
            known = np.concatenate([known, *(_losses(*one, self.recipe) for one in more)])
            self._found[z] = known, rng
        return known[:draws]

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.n])

    def _histograms(
        self, z: float, start: int, stop: int, rng: np.random.Generator
    ) -> Iterator[tuple[int, Ints]]:
        reach = ceil((log(self.n) + _TAIL) / z)
        weight = np.exp(-z * np.abs(np.arange(-reach, reach + 1)))
        chance = weight / weight.sum()
        for some in _runs(start, stop, chance.size):
            drawn = multinomial(rng, np.full(len(some), self.n), chance)
            seen = np.flatnonzero(drawn.any(axis=0))
            yield int(seen[0]) - reach, drawn[:, seen[0] : seen[-1] + 1]

    def _values(
        self, z: float, start: int, stop: int, rng: np.random.Generator
    ) -> Iterator[tuple[int, Ints]]:
        if self._standard.shape[0] < stop:
            self._standard = self._rng().standard_exponential((stop, 2, self.n))
        whole = np.floor(self._standard[start:stop] / z)
        values = (whole[:, 0] - whole[:, 1]).astype(np.int64)
        low, high = int(values.min()), int(values.max())
        width = high - low + 1
        for some in _runs(0, stop - start, width):
            here = values[some] - low + width * np.arange(len(some))[:, None]
            yield low, np.bincount(here.ravel(), minlength=width * len(some)).reshape(-1, width)


def _runs(start: int, stop: int, width: int) -> list[range]:
    """Runs of samples whose counts take little room."""
    step = max(_ROOM // width, 1)
    return [range(first, min(first + step, stop)) for first in range(start, stop, step)]


def _losses(low: int, numbers: Ints, recipe: Recipe) -> Floats:
    """``epl_of_histogram`` of each row: how often low, low + 1, ... occur in one sample.

    Values are whole numbers and points are one apart, so the densities of a row need one table of
    exponentials, and are its convolution with the row.
    """
    width, n = numbers.shape[1], int(numbers[0].sum())
    if width > _SPARSE * n:
        values = np.arange(low, low + width)
        one_by_one = (epl_of_histogram(values, row, recipe) for row in numbers)
        return np.array([np.nan if one is None else one for one in one_by_one])
    kernel_sd, reach = _kernels(low, numbers, recipe)
    points = np.maximum(np.ceil(2 * reach) - 1, 0).astype(np.int64)
    ok = (points >= 2) & (kernel_sd >= _TINY)
    found = np.full(len(numbers), np.nan)
    if ok.any():
        start = 0.5 - reach[ok] - low
        found[ok] = _steepest(numbers[ok], start, points[ok], kernel_sd[ok], n)
    return found


def _kernels(low: int, numbers: Ints, recipe: Recipe) -> tuple[Floats, Floats]:
    """The kernel's standard deviation of each row, and how far its points reach to either side."""
    values, n = np.arange(low, low + numbers.shape[1], dtype=np.float64), int(numbers[0].sum())
    off = values - (numbers @ values / n)[:, None]
    squares = np.einsum("ij,ij,ij->i", off, off, numbers)
    kernel_sd = recipe.kernel_factor * np.sqrt(squares / (n - 1))
    ends = np.cumsum(numbers, axis=1)

    def percentile(percent: float) -> Floats:
        place = (n - 1) * percent / 100
        below, above = (values[(ends <= of).sum(axis=1)] for of in (floor(place), ceil(place)))
        return np.asarray(below + (above - below) * (place - floor(place)))

    far = [np.abs(percentile(p)) for p in (100 - recipe.range_percentile, recipe.range_percentile)]
    return kernel_sd, recipe.range_multiplier * np.maximum(*far)


def _steepest(numbers: Ints, start: Floats, points: Ints, kernel_sd: Floats, n: int) -> Floats:
    """The largest step of each row's log density between points ``start``, ``start`` + 1, ...

    ``start`` counts from the first column; NaN where a density is too small for a number.
    """
    first = np.floor(start).astype(np.int64)
    within = _farthest(numbers, first, first + points) + kernel_sd * sqrt(2 * log(n / _LEFT_OUT))
    half = ceil(float(within.max())) + 1
    near = np.arange(1 - half, half + 1)
    table = np.exp(-0.5 * (((start - first)[:, None] - near) / kernel_sd[:, None]) ** 2)
    most = int(points.max())
    columns = first[:, None] + np.arange(1 - half, most + half)
    inside = (columns >= 0) & (columns < numbers.shape[1])
    beside = np.take_along_axis(numbers, np.where(inside, columns, 0), axis=1) * inside
    windows = np.lib.stride_tricks.sliding_window_view(beside.astype(np.float64), 2 * half, axis=1)
    density = np.einsum("ijk,ik->ij", windows, table) / (n * kernel_sd * sqrt(2 * pi))[:, None]
    own = np.arange(most) < points[:, None]
    usable = (density >= _TINY) | ~own
    logs = np.log(np.where(usable & own, density, 1.0))
    steps = np.where(own[:, 1:], np.abs(np.diff(logs, axis=1)), 0.0).max(axis=1)
    return np.where(usable.all(axis=1), steps, np.nan)


def _farthest(numbers: Ints, first: Ints, last: Ints) -> Ints:
    """The largest distance from a column between ``first`` and ``last`` to one with a value."""
    width = numbers.shape[1]
    column, there = np.arange(width), numbers > 0
    left = np.maximum.accumulate(np.where(there, column, -width), axis=1)
    right = np.minimum.accumulate(np.where(there, column, 2 * width)[:, ::-1], axis=1)[:, ::-1]
    looked_at = (column >= first[:, None]) & (column <= last[:, None])
    inside = np.where(looked_at, np.minimum(column - left, right - column), 0).max(axis=1)
    return np.asarray(np.maximum(inside, np.maximum(right[:, 0] - first, last - left[:, -1])))


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
    samples = _Samples(n=n, seed=seed, recipe=recipe)

    def look(log_z: float, some: int) -> tuple[float, bool] | None:
        """log(mean / EPL), and whether its sign is open."""
        found = _look(samples.losses(exp(log_z), some))
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
    reached = _look(samples.losses(z, many))
    return z if reached is not None and abs(reached[0] / epl - 1) < _CLOSE else None


def _look(found: Floats) -> tuple[float, float] | None:
    """Mean EPL and its standard error; None if EPL is undefined in more than a few draws."""
    there = found[~np.isnan(found)]
    if there.size < MOSTLY * found.size:
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
    reach = nearest + kernel_sd * sqrt(2 * log(float(w.sum()) / _LEFT_OUT))
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
