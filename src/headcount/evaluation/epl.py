"""The published estimate of empirical privacy loss, from the residuals of one or more releases."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import factorial, inf, isfinite, log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.arrays import Floats, Ints
from headcount.errors import ConfigError, InputError
from headcount.evaluation.error import finite_vector, quantile_of

_TAIL = 1e-14  # share of a density that may be left out beyond the window
_TERMS = 20  # of the series below; its remainder is at most e^2/20! = 3e-18 of each addend
_PAIRS = 1 << 20  # point x bin pairs held in memory at once
_TINY = float(np.finfo(np.float64).tiny)
_MOST_POINTS = 10_000_000  # one for each whole person of error
_UNDERFLOW = 38.7  # standardised distance beyond which exp(-u^2/2) is zero in double precision


@dataclass(frozen=True, kw_only=True, eq=False)
class EmpiricalLoss:
    """The curve EPL(x), its maximum and its median; `None` and a reason where undefined.

    `points` and `curve` have one entry for each EPL value. Where the density is too small for
    double precision the curve is NaN, and then neither maximum nor median is given.
    """

    points: Floats
    curve: Floats
    max_abs: float | None
    median_abs: float | None
    half_width: float
    kernel_sd: float
    n: int
    undefined: str | None


def published(
    residuals: ArrayLike,
    times: Ints | None = None,
    /,
    *,
    kernel_factor: float = 0.1,
    range_percentile: float = 95.0,
    range_multiplier: float = 1.0,
) -> EmpiricalLoss:
    """Estimate empirical privacy loss by the recipe behind the published tables.

        EPL(x_i) = log f(x_i) - log f(x_{i+1}),    f a Gaussian kernel density

    where

    - b = `range_multiplier` x max(|P_{100-p}|, |P_p|) of the residuals, p = `range_percentile`;
    - the x_i are the midpoints of the bins with edges -b, -b+1, ... below b;
    - the kernel's standard deviation is `kernel_factor` x the sample SD (n-1) of the residuals;
    - `times` says how often each of the residuals, whole numbers then, occurs; if None, once.

    Flaxman (2019), "less-obvious estimate", uses (0.15, 95, 2); Petti & Flaxman (2020) use
    (0.1, 95, 1), the defaults here. As the bins stop below b, the grid reaches one unit further
    below zero than above: flipping the sign of the residuals mirrors the curve but for that step,
    and may change its maximum. Flaxman takes exact minus released, Petti & Flaxman the reverse.
    """
    _check(kernel_factor, range_percentile, range_multiplier)
    values = finite_vector(residuals, "residuals").astype(np.float64)
    n = values.size if times is None else int(times.sum())
    kernel_sd = kernel_factor * (_sample_sd(values, times) if n > 1 else 0.0)
    half_width, points = _grid(values, times, range_percentile, range_multiplier)
    reason, curve = None, np.empty(0)
    if n < 2:
        reason = "there are fewer than two residuals"
    elif values.min() == values.max() or kernel_sd < _TINY:
        reason = "all residuals are equal"
    elif points.size < 2:
        reason = f"the range of errors looked at, {half_width:g} to each side, is too narrow"
    else:
        density = gaussian_density(values, points, kernel_sd=kernel_sd, times=times)
        curve = _log_steps(density)
        gaps = int(np.isnan(curve).sum())
        if gaps:
            reason = f"the density is zero in double precision at {gaps} of {curve.size} steps"
    size = np.abs(curve)
    return EmpiricalLoss(
        points=points[: curve.size],
        curve=curve,
        max_abs=None if reason else float(size.max()),
        median_abs=None if reason else float(np.median(size)),
        half_width=half_width,
        kernel_sd=kernel_sd,
        n=n,
        undefined=reason,
    )


def _sample_sd(values: Floats, times: Ints | None) -> float:
    """The standard deviation with n - 1; of whole numbers with their numbers, exact sums."""
    if times is None:
        return float(values.std(ddof=1))
    n, whole = int(times.sum()), values.astype(np.int64)
    first = sum(int(v) * int(t) for v, t in zip(whole, times, strict=True))
    second = sum(int(v) ** 2 * int(t) for v, t in zip(whole, times, strict=True))
    return sqrt(Fraction(n * second - first * first, n * (n - 1)))


def gaussian_density(
    values: ArrayLike, points: ArrayLike, *, kernel_sd: float, times: Ints | None = None
) -> Floats:
    """Gaussian kernel density of `values` at `points`, to a relative error below 1e-12.

        f(x) = 1 / (n h sqrt(2 pi)) sum_j exp(-(x - r_j)^2 / (2 h^2)),    h = `kernel_sd`

    Written out because a plain sum needs n x m exponentials: minutes for half a million
    residuals, where this takes a fraction of a second and is exact in the same sense:

    - Only values within R(x) of x are added, R^2 = d^2 + 2 h^2 log(n / 1e-14), where d is the
      distance from x to the nearest value: each of the n left out is below 1e-14/n of f(x).
    - Equal values are added once, with their number as weight.
    - When it pays, values are gathered into bins of half width h / max(R/h) around a centre c.
      With u = (x - c)/h and t = (r - c)/h, |u t| <= 1 inside the window, so the series

          exp(-(u - t)^2 / 2) = exp(-u^2 / 2) sum_k u^k [t^k exp(-t^2 / 2) / k!]

      needs 20 terms, and a bin needs only the sums of its brackets.
    """
    unique, weights = _distinct(finite_vector(values, "values"), times)
    where = np.asarray(points, dtype=np.float64)
    n, scale = int(weights.sum()), 1.0 / kernel_sd
    unique = unique.astype(np.float64)
    nearest = _distance_to_nearest(unique, where) * scale
    window = np.sqrt(np.minimum(nearest, _UNDERFLOW) ** 2 + 2.0 * log(n / _TAIL))
    window[nearest > _UNDERFLOW] = 0.0
    centres, moments = _gather(unique, weights, scale, float(window.max(initial=1.0)))
    # A bin counts when any of its values may lie in the window.
    reach = (window + 1.0 / window.max(initial=1.0)) / scale
    first = np.searchsorted(centres, where - reach, side="left")
    last = np.searchsorted(centres, where + reach, side="right")
    sums = _window_sums(where, first, last, centres, moments, scale)
    return sums * (scale / (n * sqrt(2.0 * pi)))


def _gather(unique: Floats, weights: Ints, scale: float, widest: float) -> tuple[Floats, Floats]:
    """Return bin centres and the moments of each bin, moments[k] being the factor of u^k."""
    width = 2.0 / (widest * scale)
    label = np.floor((unique - unique[0]) / width)
    starts = np.flatnonzero(np.concatenate(([True], label[1:] != label[:-1])))
    if starts.size * _TERMS >= unique.size:
        return unique, weights[np.newaxis].astype(np.float64)
    ends = np.append(starts[1:], unique.size)
    centres = 0.5 * (unique[starts] + unique[ends - 1])
    t = (unique - np.repeat(centres, ends - starts)) * scale
    term = weights * np.exp(-0.5 * t * t)
    moments = np.empty((_TERMS, starts.size))
    for k in range(_TERMS):
        moments[k] = np.add.reduceat(term, starts) / factorial(k)
        term = term * t
    return centres, moments


def _window_sums(
    points: Floats,
    first: NDArray[np.intp],
    last: NDArray[np.intp],
    centres: Floats,
    moments: Floats,
    scale: float,
) -> Floats:
    """Sum exp(-u^2/2) sum_k moments[k] u^k over each point's bins first..last-1."""
    sums = np.zeros(points.size)
    lengths = last - first
    total = np.concatenate(([0], np.cumsum(lengths)))
    start = 0
    while start < points.size:
        stop = max(start + 1, int(np.searchsorted(total, total[start] + _PAIRS, "right")) - 1)
        some = slice(start, stop)
        # Runs of consecutive bin numbers, one run for each point.
        offset = np.repeat(first[some] - (total[some] - total[start]), lengths[some])
        bins = np.arange(offset.size) + offset
        owner = np.repeat(np.arange(stop - start), lengths[some])
        u = (np.repeat(points[some], lengths[some]) - centres[bins]) * scale
        value = moments[-1, bins]
        for row in moments[-2::-1]:
            value = value * u + row[bins]
        value *= np.exp(-0.5 * u * u)
        sums[some] = np.bincount(owner, weights=value, minlength=stop - start)
        start = stop
    return sums


def _distance_to_nearest(ordered: Floats, points: Floats) -> Floats:
    right = np.searchsorted(ordered, points)
    above = ordered[np.minimum(right, ordered.size - 1)]
    below = ordered[np.maximum(right - 1, 0)]
    return np.asarray(np.minimum(np.abs(above - points), np.abs(points - below)))


def _distinct(values: NDArray[Any], times: Ints | None) -> tuple[NDArray[Any], Ints]:
    """Each value once, ascending, and how often it occurs."""
    if times is None:
        return np.unique(values, return_counts=True)
    unique, which = np.unique(values, return_inverse=True)
    weights = np.zeros(unique.size, dtype=np.int64)
    np.add.at(weights, which, times)
    return unique, weights


def _grid(
    values: Floats, times: Ints | None, percentile: float, multiplier: float
) -> tuple[float, Floats]:
    if values.size == 0:
        return 0.0, np.empty(0)
    shares = [100.0 - percentile, percentile]
    if times is None:
        ends = np.percentile(values, shares)
    else:
        ends = np.array([quantile_of(values, share / 100, times=times) for share in shares])
    half_width = multiplier * float(np.abs(ends).max())
    if 2 * half_width > _MOST_POINTS:
        raise InputError(
            "empirical privacy loss",
            place="residuals",
            found=f"errors as far as {half_width:.3g} from zero inside the range looked at",
            expected=f"at most {_MOST_POINTS // 2:,}, as the curve has one point per person",
        )
    edges = np.arange(-half_width, half_width, 1.0)
    return half_width, 0.5 * (edges[1:] + edges[:-1])


def _log_steps(density: Floats) -> Floats:
    # Below the smallest normal number digits are lost, so such a density is no better than zero.
    usable = density >= _TINY
    logs = np.full(density.size, np.nan)
    np.log(density, out=logs, where=usable)
    return np.asarray(logs[:-1] - logs[1:])


def _check(kernel_factor: float, range_percentile: float, range_multiplier: float) -> None:
    limits = {
        "kernel_factor": (kernel_factor, 0.0, inf),
        "range_percentile": (range_percentile, 50.0, 100.0),
        "range_multiplier": (range_multiplier, 0.0, inf),
    }
    for key, (value, low, high) in limits.items():
        if not (isfinite(value) and low < value <= high):
            raise ConfigError(
                "empirical privacy loss",
                place=key,
                found=repr(value),
                expected=f"a number above {low:g}" + (f", at most {high:g}" if high < inf else ""),
            )
