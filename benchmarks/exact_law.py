"""The exact law of a sum of discrete noise, from its characteristic function.

An estimate's error is E = sum of c_i n_i, with n_i two-sided geometric or discrete Gaussian and c_i
its weights. It is symmetric, so that

    Pr[-a < E < a] = 2 / pi  integral over t > 0 of  phi(t) sin(a t) / t dt,
    phi(t) = product over i of phi_i(c_i t)

where phi_i is that of the noise: (1 - q)^2 / (1 - 2 q cos u + q^2) of the geometric, q = e^-rate,
and of the discrete Gaussian a sum of cos(u k) over its probabilities. A little normal noise, a
thousandth of the deviation, makes the integral end; right at a step of the law it counts half of
the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import pi

import numpy as np

from headcount.arrays import Floats
from headcount.errors import HeadcountError
from headcount.noise import DiscreteGaussian, Law, TwoSidedGeometric

SMOOTHED = 1e-3
"""Standard deviation of the normal noise, in parts of that of E."""
STEP = 0.2
"""Of t, in parts of 1 / that of E: laws must end within 2 pi / STEP deviations."""
ALIKE = 1e-9
"""Weights that differ by less, in parts of the largest, are taken together."""
LEAST_LOG = -60.0
"""Of phi: what is smaller adds nothing."""
WRAPPED = 1.0
"""From this sigma2 on a discrete Gaussian's characteristic function is that of a wrapped normal."""


def within(reach: float, parts: Iterable[tuple[Law, Floats]]) -> float:
    """Pr[-reach < E < reach], from the weights c of noise of each law."""
    weighted = [(law, *one) for law, weights in parts for one in _together(weights)]
    weighted.sort(key=lambda one: -one[0].variance * one[1] ** 2)
    variance = sum(law.variance * c**2 * times for law, c, times in weighted)
    deviation = float(np.sqrt(variance))
    t = np.arange(0.5, 8 / SMOOTHED / STEP, dtype=np.float64) * (STEP / deviation)
    logs: Floats = -((SMOOTHED * deviation * t) ** 2) / 2
    for law, c, times in weighted:
        some = logs > LEAST_LOG  # where phi is 0 already no factor matters
        t, logs = t[some], logs[some]
        with np.errstate(divide="ignore"):
            logs = logs + times * np.log(characteristic(law, c * t))
    found = np.sum(np.exp(logs) * np.sin(reach * t) / t)
    return float(2 / pi * found * STEP / deviation)


def _together(weights: Floats) -> Iterator[tuple[float, int]]:
    """Weights that differ, by their size, and how often each is there; without those that are 0."""
    sizes = np.abs(weights).reshape(-1)
    unit = ALIKE * float(sizes.max())
    number, times = np.unique(np.rint(sizes / unit), return_counts=True)
    some = number > 0
    yield from zip((number[some] * unit).tolist(), times[some].tolist(), strict=True)


def characteristic(law: Law, u: Floats) -> Floats:
    """E[cos(u n)] of noise n."""
    if isinstance(law, TwoSidedGeometric):
        q = np.exp(-float(law.rate))
        return np.asarray((1 - q) ** 2 / (1 - 2 * q * np.cos(u) + q**2))
    if not isinstance(law, DiscreteGaussian):
        raise HeadcountError(
            f"exact law: found {law.name} noise, expected geometric or discrete Gaussian"
        )
    sigma2 = float(law.sigma2)
    if sigma2 >= WRAPPED:  # sums over k and over turns of 2 pi are each other's transforms
        turned = np.remainder(u + pi, 2 * pi) - pi
        turns = 2 * pi * np.arange(-2, 3)
        sums = np.exp(-sigma2 * (turned[..., None] - turns) ** 2 / 2).sum(axis=-1)
        return np.asarray(sums / np.exp(-sigma2 * turns**2 / 2).sum())
    k = np.arange(1, 40)
    weights = np.exp(-(k**2) / (2 * sigma2))
    found = 1 + 2 * (np.cos(u[..., None] * k) * weights).sum(axis=-1)
    return np.asarray(found / (1 + 2 * weights.sum()))
