"""Do two sets of replicates follow one law? A replicate is the unit: its parts are dependent."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Floats

PERMUTATIONS = 4_999


def energy_p_value(a: Floats, b: Floats, *, seed: int) -> float:
    """Chance of so large an energy distance if both sets (replicates x parts) had one law.

    2 mean|A - B| - mean|A - A'| - mean|B - B'|, 0 only for equal laws (Szekely & Rizzo 2004); every
    part is first divided by its pooled standard deviation, and labels are shuffled.
    """
    from scipy.spatial.distance import cdist

    pooled = np.concatenate([a, b])
    spread = pooled.std(axis=0)
    pooled = pooled[:, spread > 0] / spread[spread > 0]
    apart = cdist(pooled, pooled)
    sides = _shuffled_sides(len(a), len(b), seed)
    between = sides @ apart
    # sums over pairs by side: each row of `sides` marks the replicates labelled a
    within_a = (between * sides).sum(axis=1)
    across = between.sum(axis=1) - within_a
    within_b = apart.sum() - within_a - 2 * across
    n, m = len(a), len(b)
    return _share_as_large(2 * across / (n * m) - within_a / n**2 - within_b / m**2)


def means_p_value(a: Floats, b: Floats, *, seed: int) -> float:
    """Chance of so large a difference of means in any part, in units of its standard error."""
    pooled = np.concatenate([a, b])
    spread = pooled.std(axis=0)
    pooled = (pooled[:, spread > 0] - pooled.mean(axis=0)[spread > 0]) / spread[spread > 0]
    sides = _shuffled_sides(len(a), len(b), seed)
    sums = sides @ pooled
    apart = sums / len(a) + sums / len(b)  # the pooled sum is 0
    return _share_as_large(np.abs(apart).max(axis=1, initial=0.0))


def _shuffled_sides(n: int, m: int, seed: int) -> Floats:
    """Rows of labels, 1 for the first set: the true ones, then permutations."""
    sides = np.zeros((1 + PERMUTATIONS, n + m))
    sides[:, :n] = 1.0
    rng = np.random.default_rng(seed)
    sides[1:] = rng.permuted(sides[1:], axis=1)
    return sides


def _share_as_large(statistic: Floats) -> float:
    near = 1e-9 * max(1.0, abs(float(statistic[0])))
    return float((statistic >= statistic[0] - near).mean())
