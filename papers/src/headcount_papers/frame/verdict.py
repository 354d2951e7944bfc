"""A verdict is a test: a printed number, or a statement, beside draws of ours.

Draws are of people, seeds and replicates. Every test leaves "undecided" open, and is wrong in at
most one of twenty runs, so that another seed does not turn a verdict into its opposite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite, sqrt

import numpy as np
import polars as pl

REPRODUCED, COMPATIBLE, UNDECIDED = "reproduced", "compatible", "undecided"
NOT_REPRODUCED, PAPER_ERRS = "not reproduced here", "the paper errs"
NOT_TESTABLE, NOT_JUDGED = "not testable here", "not judged"
OUTCOMES = (REPRODUCED, COMPATIBLE, UNDECIDED, NOT_REPRODUCED, PAPER_ERRS, NOT_TESTABLE)
"""In the order of summaries; ``NOT_JUDGED`` is for people whom the paper is not about."""

TAIL = 0.025
"""On each side of the central 95 %, and the error of each test on each side."""
EDGE = 1.959963984540054
"""Standard deviations from the middle of a normal law to the end of its central 95 %."""
HALF = 0.5
FAR = 1e4
"""Standard errors from which on a chance is 0."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a test says.

    where
        percentile   where the printed number lies among draws like ours, 0 to 100
        share        of our draws in which a statement is true, with its interval: low, high
        draws        ours
        needed       how many would decide it, if it is undecided; None if none would
    """

    outcome: str
    percentile: float | None = None
    share: float | None = None
    low: float | None = None
    high: float | None = None
    draws: int | None = None
    needed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The mean and the standard deviation of ``draws`` draws."""

    mean: float
    sd: float
    draws: int

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """Those of some numbers."""
        found = np.asarray(values, dtype=np.float64)
        sd = float(found.std(ddof=1)) if found.size > 1 else 0.0
        return Spread(mean=float(found.mean()), sd=sd, draws=found.size)


def of_number(
    printed: float,
    ours: Spread,
    *,
    margin: tuple[float, float] | None = None,
    unit: float = 0.0,
    pooled: int = 1,
) -> Verdict:
    """Judge a printed number: is it near enough, is it like a draw of ours?

        reproduced      m +- t s / sqrt(n) lies within the margin (two one-sided t tests)
        compatible      |p - mu| < c sigma,   c = 1.96 / sqrt(k)
        not reproduced  |p - mu| > c sigma    (both by the noncentral t law of (m - p) sqrt(n) / s)
        percentile      of p by the t law of a further draw: (p - m) / (s sqrt(1/k + 1/n))

    where
        p       the printed number; ``unit`` is that of its last digit, which ours shares, and adds
                unit^2 / 12 to the variance
        m, s    mean and standard deviation of our n draws, of a law with mu and sigma
        k       ``pooled``: how many draws the printed number is the mean of
        margin  from where to where a number is the same for the purpose
    """
    from scipy.stats import nct, t

    n, s = ours.draws, sqrt(ours.sd**2 + unit**2 / 12)
    if n < 2:
        return Verdict(outcome=NOT_TESTABLE, draws=n)
    reach = float(t.ppf(1 - TAIL, n - 1)) * s / sqrt(n)
    near = margin is not None and margin[0] <= ours.mean - reach and ours.mean + reach <= margin[1]
    far = _standard(printed - ours.mean, s)
    percentile = 100 * float(t.cdf(far / sqrt(1 / pooled + 1 / n), n - 1))
    off, edge = abs(far) * sqrt(n), EDGE / sqrt(pooled) * sqrt(n)
    # How far off it would be by chance alone, were it just at the edge: farther, and less far.
    above = 0.0 if off > FAR else float(nct.sf(off, n - 1, edge))
    below = float(nct.cdf(off, n - 1, edge))
    outcome, needed = UNDECIDED, None
    if near:
        outcome = REPRODUCED
    elif above < TAIL:
        outcome = NOT_REPRODUCED
    elif below < TAIL:
        outcome = COMPATIBLE
    else:
        gap = abs(abs(far) - EDGE / sqrt(pooled))
        needed = _more(EDGE**2 * (1 + far**2 / 2) / gap**2 if gap else inf, n)
    return Verdict(outcome=outcome, percentile=percentile, draws=n, needed=needed)


def of_statement(true: int, of: int, *, line: float = HALF) -> Verdict:
    """Judge a statement by the draws in which it is true: in more of them than ``line``?

    The share has its Clopper-Pearson interval; that lies above the line (reproduced), below it
    (not reproduced), or on it.
    """
    low, high = interval(true, of)
    share = true / of
    outcome = REPRODUCED if low > line else NOT_REPRODUCED if high < line else UNDECIDED
    needed = None
    if outcome == UNDECIDED and share != line:
        needed = _more(_first_decided(share, of, line), of)
    return Verdict(outcome=outcome, share=share, low=low, high=high, draws=of, needed=needed)


def _first_decided(share: float, n: int, line: float) -> float:
    """From about how many draws on the interval of such a share is off the line."""
    while n <= FAR:
        low, high = interval(round(share * n), n)
        if low > line or high < line:
            return n
        n += max(n // 20, 1)
    return inf


def exactly(true: int, of: int) -> Verdict:
    """Judge a statement that leaves nothing to chance: it is true in every case, or it is not."""
    return Verdict(outcome=REPRODUCED if true == of else NOT_REPRODUCED, share=true / of)


def interval(true: int, of: int) -> tuple[float, float]:
    """The Clopper-Pearson interval of a share, 95 %."""
    from scipy.stats import beta

    low = float(beta.ppf(TAIL, true, of - true + 1)) if true else 0.0
    high = float(beta.ppf(1 - TAIL, true + 1, of - true)) if true < of else 1.0
    return low, high


def _standard(difference: float, s: float) -> float:
    """A difference in standard deviations; without any it is none or out of reach."""
    return difference / s if s else 0.0 if difference == 0 else float(np.copysign(FAR, difference))


def _more(needed: float, n: int) -> int | None:
    """So many draws, to two digits, and more than there are."""
    if not isfinite(needed) or needed > FAR:
        return None
    whole = max(ceil(needed), n + 1)
    step: int = 10 ** max(len(str(whole)) - 2, 0)
    return -(-whole // step) * step


COLUMNS = {
    "id": pl.String,
    "section": pl.String,
    "source": pl.String,
    "claim": pl.String,
    "paper": pl.String,
    "finding": pl.String,
    "published": pl.Float64,
    "ours": pl.Float64,
    "difference": pl.Float64,
    "tolerance": pl.Float64,
    "rule": pl.String,
    "outcome": pl.String,
    "percentile": pl.Float64,
    "share": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "draws": pl.Int64,
    "needed": pl.Int64,
    "cause": pl.String,
    "reason": pl.String,
    "figure": pl.String,
    "covered_by": pl.String,
    "headline": pl.Int64,
}
"""Of every table of verdicts; the keys of its rows follow."""
