"""A lower bound on rho, at a stated confidence, from runs on two neighbouring databases.

Zero-concentrated privacy with rho bounds every Renyi divergence of order a by a rho, and so, with
a -> 1, the Kullback-Leibler divergence of the outputs P and Q by rho. For any function T of an
output,

    rho >= KL(P, Q) >= mean of T under P - log (mean of exp T under Q)

with equality where T is the log-likelihood ratio, which the caller knows. T is cut off at ``CUT``,
so that both means are of bounded values, and n runs estimate them with normal errors.

Bun and Steinke (2016), Concentrated differential privacy; Donsker and Varadhan (1975).
"""

from __future__ import annotations

from math import log, sqrt
from statistics import NormalDist

import numpy as np

from headcount.arrays import Floats
from tests.support.audit_trials import AuditTrials, Draw

CUT = 8.0
"""Log-likelihood ratios beyond are taken as this."""


def rho_lower(ratio_d: Floats, ratio_d_prime: Floats, *, z: float) -> float:
    """The bound, ``z`` standard errors below the estimate.

    where
        ratio_d, ratio_d_prime   log(P / Q) of runs on the one database and on the other
    """
    first = np.clip(ratio_d, -CUT, CUT)
    second = np.exp(np.clip(ratio_d_prime, -CUT, CUT))
    mean = float(second.mean())
    error = sqrt(first.var() / first.size + second.var() / second.size / mean**2)
    return max(0.0, float(first.mean()) - log(mean) - z * error)


def rho_trials(
    draw_d: Draw,
    draw_d_prime: Draw,
    *,
    runs: int,
    trials: int,
    confidence: float = 0.95,
    seed: int = 0,
) -> AuditTrials:
    """Bounds from repeated audits; the draws give log-likelihood ratios, one a run."""
    z = NormalDist().inv_cdf(confidence)
    bounds, estimates = np.empty(trials), np.empty(trials)
    for trial in range(trials):
        generator = np.random.default_rng([seed, trial])
        d, d_prime = (
            np.asarray(draw(generator, runs), dtype=np.float64) for draw in (draw_d, draw_d_prime)
        )
        bounds[trial], estimates[trial] = (rho_lower(d, d_prime, z=k) for k in (z, 0.0))
    return AuditTrials(bounds=bounds, uncorrected=estimates, confidence=confidence, runs=runs)
