"""The audit tested: bounds from repeated audits of one mechanism, whose true loss is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Floats
from headcount.evaluation.epsilon_bounds import _candidates, _clopper_pearson_lower, _runs, audit

Draw = Callable[[np.random.Generator, int], ArrayLike]
"""Runs a mechanism: (generator, number of runs) -> outputs of shape (runs,) or (runs, areas)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditTrials:
    """Bounds from repeated audits of one mechanism, to test the audit itself."""

    bounds: Floats
    uncorrected: Floats
    confidence: float
    runs: int

    @property
    def mean(self) -> float:
        """Mean of the bounds."""
        return float(self.bounds.mean())

    def above(self, epsilon: float) -> int:
        """Return how many bounds exceed `epsilon`: errors, if it is the true loss."""
        return int((self.bounds > epsilon).sum())

    def p_value(self, true_epsilon: float, *, uncorrected: bool = False) -> float:
        """Chance of so many errors or more if each has the stated error rate."""
        from scipy.stats import binom

        bounds = self.uncorrected if uncorrected else self.bounds
        errors = int((bounds > true_epsilon).sum())
        return float(binom.sf(errors - 1, bounds.size, 1.0 - self.confidence))


def audit_trials(
    draw_d: Draw,
    draw_d_prime: Draw,
    *,
    runs: int = 10_000,
    trials: int = 200,
    confidence: float = 0.95,
    choosing_share: float = 0.25,
    seed: int = 0,
) -> AuditTrials:
    """Audit a mechanism `trials` times with fresh runs and fresh coins each time."""
    bounds, uncorrected = np.empty(trials), np.empty(trials)
    for trial in range(trials):
        generator = np.random.default_rng([seed, trial])
        d, d_prime = draw_d(generator, runs), draw_d_prime(generator, runs)
        bounds[trial] = audit(
            d,
            d_prime,
            confidence=confidence,
            choosing_share=choosing_share,
            seed=int(generator.integers(2**63)),
        ).epsilon_lower
        uncorrected[trial] = uncorrected_bound(d, d_prime, confidence=confidence)
    return AuditTrials(bounds=bounds, uncorrected=uncorrected, confidence=confidence, runs=runs)


def uncorrected_bound(
    sample_d: ArrayLike, sample_d_prime: ArrayLike, *, confidence: float
) -> float:
    """Best bound over all events on all runs, as if only one event had been tried: NOT valid.

    It exists to show that choosing and bounding on the same runs breaks the error rate.
    """
    d, d_prime = _runs(sample_d, "sample_d"), _runs(sample_d_prime, "sample_d_prime")
    _, in_d, in_d_prime = _candidates(d, d_prime)
    right, wrong = np.append(in_d, in_d_prime), np.append(in_d_prime, in_d)
    limit = float(_clopper_pearson_lower(right, wrong, 1.0 - confidence).max())
    return max(0.0, log(limit / (1.0 - limit))) if limit > 0 else 0.0
