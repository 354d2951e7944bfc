"""Does a sample follow its law? Tests with the power to see a scale that is 0.3 % off.

Used on samples of pure noise; floats are fine here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.noise import DiscreteGaussian, Law, TwoSidedGeometric
from headcount_papers.frame.published_noise import GeometricByRatio

BINS = 40
"""Few bins: the power against a small change of scale falls with their number."""

TAIL = 1e-5
LOG_LEFT = 70.0
"""exp(-70) is 4e-31."""


@dataclass(frozen=True)
class Fit:
    """p-values of one sample under one law.

    ``bins``
        chi-square over about 40 bins of equal probability, by sign.
    ``scale``
        mean of |x| (geometric) or x^2 (Gaussian), the statistic that holds all there is to know
        about the scale.
    ``tail``
        how many lie beyond the magnitude exceeded at least once in 100,000, a Poisson count.
    ``zero``
        how many are zero, a binomial count.
    """

    bins: float
    scale: float
    tail: float
    zero: float

    @property
    def p(self) -> float:
        """The smallest p-value, corrected for there being four."""
        return min(1.0, 4 * min(self.bins, self.scale, self.tail, self.zero))


def magnitudes(law: Law) -> Floats:
    """Pr[|X| = k] for k = 0, 1, ... until what remains is about 1e-30.

    By the textbook's formulas, a^|k| and exp(-k^2 / (2 sigma^2)) over their sum, in floats: what
    the samplers' tables are made from is under test.
    """
    if isinstance(law, TwoSidedGeometric | GeometricByRatio):
        rate = -log(law.ratio) if isinstance(law, GeometricByRatio) else float(law.rate)
        power = rate * np.arange(int(LOG_LEFT / rate) + 2)
    elif isinstance(law, DiscreteGaussian):
        last = int(sqrt(2 * LOG_LEFT * float(law.sigma2))) + 2
        power = np.arange(last) ** 2 / (2 * float(law.sigma2))
    else:
        raise TypeError(f"no formula for {law}")
    weight = np.exp(-power) * np.where(np.arange(power.size) > 0, 2.0, 1.0)
    return np.asarray(weight / weight.sum())


def tail_cut(p: Floats) -> int:
    """The largest magnitude that is exceeded with probability at least ``TAIL``."""
    beyond = np.cumsum(p[::-1])[::-1][1:]
    return max(0, int((beyond >= TAIL).sum()) - 1)


def fit(law: Law, sample: Ints) -> Fit:
    """Test a sample of independent draws against the law."""
    from scipy import stats

    p = magnitudes(law)
    above, below = _tally(sample, p.size), _tally(-sample, p.size)
    both = above + below
    both[0] = above[0]
    n = sample.size
    chances, counts = _bin(p, above, below)
    expected = n * chances
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    k = np.arange(p.size, dtype=np.float64)
    power = 2 if isinstance(law, DiscreteGaussian) else 1
    mean = float((p * k**power).sum())
    spread = sqrt(float((p * k ** (2 * power)).sum()) - mean**2)
    z = (float((both * k**power).sum()) / n - mean) / (spread / sqrt(n))
    cut = tail_cut(p)
    return Fit(
        bins=float(stats.chi2.sf(chi_square, chances.size - 1)),
        scale=float(2 * stats.norm.sf(abs(z))),
        tail=_two_sided(stats.poisson(n * float(p[cut + 1 :].sum())), int(both[cut + 1 :].sum())),
        zero=_two_sided(stats.binom(n, float(p[0])), int(both[0])),
    )


def _tally(sample: Ints, size: int) -> Ints:
    """How often 0, 1, ..., size - 1 occur, the last one with all beyond it."""
    return np.bincount(np.minimum(sample[sample >= 0], size - 1), minlength=size)


def _bin(p: Floats, above: Ints, below: Ints) -> tuple[Floats, Floats]:
    """Chances and counts of bins: zero, then runs of magnitudes, each split by sign."""
    label = np.minimum((np.cumsum(p) - p) * BINS / 2, BINS / 2 - 1).astype(np.int64) + 1
    label[0] = 0
    label = np.unique(label, return_inverse=True)[1]  # a narrow law leaves some bins empty
    chance, plus, minus = (np.bincount(label, weights=x) for x in (p, above, below))
    chances = np.concatenate([chance[:1], chance[1:] / 2, chance[1:] / 2])
    return chances, np.concatenate([plus, minus[1:]])


def _two_sided(law: object, count: int) -> float:
    """Twice the smaller tail of a scipy law at the count."""
    below, above = law.cdf(count), law.sf(count - 1)  # type: ignore[attr-defined]
    return min(1.0, 2 * float(min(below, above)))


def two_sample(one: Ints, other: Ints) -> float:
    """p-value that two samples have one law: chi-square over 40 quantile bins of both."""
    from scipy import stats

    both = np.concatenate([one, other])
    edges = np.unique(np.quantile(both, np.arange(1, BINS) / BINS))
    counts = [
        np.bincount(np.searchsorted(edges, x), minlength=edges.size + 1) for x in (one, other)
    ]
    table = np.array(counts)
    return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


def fudged(law: Law, factor: Fraction) -> Law:
    """A control that must be rejected: the law with its scale multiplied by the factor."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.sigma2 * factor**2)
    assert isinstance(law, TwoSidedGeometric)
    return TwoSidedGeometric(law.rate / factor)


def double_zero(law: Law, sample: Ints) -> Ints:
    """A control that must be rejected: zero counted once for each sign."""
    p = float(magnitudes(law)[0])
    chosen = np.random.default_rng(5).random(sample.size) < p / (1 + p)
    return np.where(chosen, 0, sample)  # Pr[0] is now 2 p / (1 + p)


def cut_tail(law: Law, sample: Ints) -> Ints:
    """A control that must be rejected: no draw beyond the last 1 in 100,000."""
    return sample[np.abs(sample) <= tail_cut(magnitudes(law))]
