"""Whether a release is biased with the homogeneity of places, or with anything else."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from headcount.errors import InputError
from headcount.population.homogeneity import INDEX_DEFINITIONS, homogeneity_index

__all__ = ["INDEX_DEFINITIONS", "bias_by", "homogeneity_index"]


def bias_by(groups: ArrayLike, errors: ArrayLike) -> dict[int, tuple[int, float, float, float]]:
    """For each group number: how many errors, their mean, and their 5th and 95th percentile.

    ``errors`` may have several rows, one for each run; ``groups`` has one number per column.
    """
    label, values = np.asarray(groups), np.atleast_2d(np.asarray(errors, dtype=np.float64))
    if label.ndim != 1 or values.shape[1:] != label.shape:
        raise InputError(
            "bias",
            place="errors",
            found=f"shape {values.shape}",
            expected=f"runs x {label.size} units",
        )
    found = {}
    for group in np.unique(label):
        some = values[:, label == group].ravel()
        low, high = np.quantile(some, [0.05, 0.95])
        found[int(group)] = (some.size, float(some.mean()), float(low), float(high))
    return found
