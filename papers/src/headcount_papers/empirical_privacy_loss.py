"""Empirical privacy loss: what the errors of one release look like (Petti & Flaxman 2020).

It is read off a Gaussian kernel density of the residuals: ``published`` is the recipe behind the
published tables; ``calibration`` says which geometric noise would show the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import factorial, inf, isfinite, log, pi, sqrt
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from headcount.arrays import Floats, Ints
from headcount.errors import ConfigError, InputError
from headcount.evaluation import (
    LEVEL,
    QUERY,
    Metric,
    NotFeasible,
    Truth,
    by_level,
    needs,
    publishes_counts,
)
from headcount.evaluation.answers import tallied_answers
from headcount.evaluation.tally import finite_vector, quantile_of
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, point_chart
from headcount.report.finding import Finding
from headcount.report.model import Column, Figure, KeyNumber
from headcount.tabulate import TOTAL
from headcount.tabulate.counts import CELLS
from headcount_papers.calibration import Recipe, calibrate

FEWEST = 100
"""Fewer errors hardly tell noise of one scale from another: EPL is then not calibrated."""
_TAIL = 1e-14  # share of a density that may be left out beyond the window
_TERMS = 20  # of the series below; its remainder is at most e^2/20! = 3e-18 of each addend
_PAIRS = 1 << 20  # point x bin pairs held in memory at once
_TINY = float(np.finfo(np.float64).tiny)
_MOST_POINTS = 10_000_000  # one for each whole person of error
_UNDERFLOW = 38.7  # standardised distance beyond which exp(-u^2/2) is zero in double precision


@dataclass(frozen=True, kw_only=True)
class EmpiricalPrivacyLoss(Metric):
    """EPL of totals and of cells at every level, as published and calibrated.

    where
        kernel_factor      standard deviation of the smoothing kernel, over that of the errors
        range_percentile   errors looked at: up to this percentile of their size
        range_multiplier   multiplied by this
        calibrated         also give the loss of pure geometric noise with the same EPL
        seed               seed of the noise drawn for that
        levels             which levels are looked at; all if empty
    """

    name = "empirical-privacy-loss"
    order = 40
    supports = staticmethod(needs(publishes_counts))
    kernel_factor: float = Recipe.kernel_factor
    range_percentile: float = Recipe.range_percentile
    range_multiplier: float = Recipe.range_multiplier
    calibrated: bool = True
    seed: int = 0
    levels: tuple[str, ...] = ()

    @property
    def recipe(self) -> Recipe:
        """The parameters of the published recipe."""
        return Recipe(
            kernel_factor=self.kernel_factor,
            range_percentile=self.range_percentile,
            range_multiplier=self.range_multiplier,
        )

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """EPL by level, of the counts that are not zero in truth or in the release."""
        levels = self.levels or release.geography.levels
        rows = [
            row
            for level in progress(levels, what="Empirical privacy loss", total=len(levels))
            for row in self._feasible(release.as_counts(), truth, level)
        ]
        if all(row["epl"] is None for row in rows):
            reasons = "; ".join(dict.fromkeys(row["undefined"] for row in rows))
            raise NotFeasible(f"it is undefined at every level: {reasons}")
        kinds = {"epl": pl.Float64, "epl_median": pl.Float64, "epl_calibrated": pl.Float64}
        return _Losses(
            table=pl.DataFrame(rows, schema_overrides=kinds),
            levels=levels,
            recipe=self.recipe,
            stated=tuple(str(loss) for loss in release.guarantee.losses),
        )

    def _feasible(self, release: Any, truth: Truth, level: str) -> list[dict[str, Any]]:
        try:
            return self._rows(release, truth, level)
        except InputError as error:  # of errors beyond the range of the curve
            raise NotFeasible(str(error)) from None

    def _rows(self, release: Any, truth: Truth, level: str) -> list[dict[str, Any]]:
        rows = []
        asked = (TOTAL.name, CELLS)
        for query, pairs in tallied_answers(truth.counts, release, level, "either", only=asked):
            recipe = self.recipe
            found = published(
                pairs.residuals(),
                pairs.times,
                kernel_factor=recipe.kernel_factor,
                range_percentile=recipe.range_percentile,
                range_multiplier=recipe.range_multiplier,
            )
            again = None
            if self.calibrated and found.max_abs is not None and found.n >= FEWEST:
                again = calibrate(found.max_abs, n=found.n, seed=self.seed, recipe=recipe)
            rows.append(
                {
                    "level": level,
                    "query": query.name,
                    "n": found.n,
                    "epl": found.max_abs,
                    "epl_median": found.median_abs,
                    "epl_calibrated": again,
                    "undefined": found.undefined or "",
                }
            )
        return rows


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Losses(Finding):
    """A row for each level, for totals and for cells; ``undefined`` says why there is no EPL."""

    name: str = EmpiricalPrivacyLoss.name
    title: str = "Empirical privacy loss, which is not a guarantee"
    index: tuple[str, ...] = ("level", "query")
    value: str = "epl"
    caption: str = "Empirical privacy loss by level, of totals and of every cell."
    value_words: str = (
        "empirical privacy loss as published; compare it only at equal numbers of errors. Rows of "
        f"fewer than {FEWEST} errors are left out, because the maximum of a few is chance"
    )

    levels: tuple[str, ...]
    recipe: Recipe
    stated: tuple[str, ...]

    def explain(self) -> str:
        """What EPL is, and above all what it is not."""
        stated = (
            f"The guarantee of this release is another thing: {'; '.join(self.stated)}."
            if self.stated
            else "This release has no guarantee, and EPL does not give it one."
        )
        return (
            "Empirical privacy loss (EPL, Petti & Flaxman 2020) is the largest change in the log "
            "of a smoothed density of the errors from one whole person to the next (kernel of "
            f"{self.recipe.kernel_factor:g} standard deviations, errors within their "
            f"{self.recipe.range_percentile:g}th percentile). It has the unit of epsilon. "
            "**It is neither a guarantee nor a bound on epsilon, from above or from below.** It "
            "assumes that the errors of all units follow one law, which shifts by one when one "
            "person moves, and looks at one count at a time; a release may leak through what no "
            "single count shows. It is the maximum of a noisy curve and so too high where errors "
            "are few. *Calibrated* is the epsilon of pure geometric noise with the same EPL on "
            "average at the same n: it takes that excess away, and nothing else. It is left out "
            f"below {FEWEST} errors, and where no such noise shows that EPL. {stated}"
        )

    def compared(self) -> pl.DataFrame:
        """Only what many errors give."""
        return self.table.filter(pl.col("n") >= FEWEST).select(*self.index, self.value)

    def numbers(self) -> tuple[KeyNumber, ...]:
        """EPL of the totals of the smallest places."""
        leaf = self.levels[-1]
        found = self.table.filter(level=leaf, query=TOTAL.name).row(0, named=True)
        if found["epl"] is None or found["n"] < FEWEST:  # the maximum of a few errors is chance
            return ()
        again = found["epl_calibrated"]
        more = f" ({again:.3g} calibrated)" if again is not None else ""
        label = f"empirical privacy loss of {leaf} totals{more}: not a guarantee"
        return (KeyNumber(value=f"{found['epl']:.3g}", label=label),)

    def figure(self) -> Figure:
        """EPL by level, as published and calibrated."""
        many = self.table.filter(pl.col("n") >= FEWEST)
        shown = many if many["epl"].drop_nulls().len() else self.table
        named = shown.with_columns(query=pl.col("query").replace({CELLS: "every cell"}))
        long = named.unpivot(
            ["epl", "epl_calibrated"], index=["level", "query"], variable_name="kind"
        ).with_columns(
            kind=pl.format(
                "{}, {}",
                "query",
                pl.col("kind").replace({"epl": "as published", "epl_calibrated": "calibrated"}),
            )
        )
        return Figure(
            name=self.name,
            caption="Empirical privacy loss by level, as published and calibrated, from at "
            f"least {FEWEST} errors where there are that many. It is not a guarantee; where a "
            "point is missing, EPL is undefined.",
            alt="Empirical privacy loss by geographic level",
            chart=point_chart(
                long,
                x=by_level(self.levels),
                y=Axis(column="value", title="Empirical privacy loss", zero=True),
                series="kind",
            ),
        )

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        return (
            LEVEL,
            QUERY,
            Column(key="n", label="Errors", format=",d"),
            Column(key="epl", label="EPL, as published", format=",.3g"),
            Column(key="epl_median", label="Median of the curve", format=",.3g"),
            Column(key="epl_calibrated", label="EPL, calibrated", format=",.3g"),
            Column(key="undefined", label="Undefined because"),
        )


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
