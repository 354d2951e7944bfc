"""One true count through many partitions: the mean of their sums is the count itself.

A set of n people is split in two by each of m other attributes, and both parts are published with
noise of their own. The sum of the parts of one partition is n plus noise of variance k V, where k
is the number of parts, and sums of different partitions have independent noise, because different
people share a key. Their weighted mean

    x = sum_j (s_j / k_j) / sum_j (1 / k_j),    variance V / sum_j (1 / k_j)

rounds to n in 19 of 20 cases once 1.96 sqrt(V / sum_j (1 / k_j)) < 1/2: with two parts each,
1.96 sqrt(2 V / m) < 1/2, which is m > 31 V.

where
    s_j   sum of the published parts of partition j
    V     variance of the noise of one published count

A count that is published itself is one more partition, of one part. Asghar and Kaafar, PETS 2020
(arXiv 1902.06414).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, floor, sqrt

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import InputError
from headcount.tabulate.additive import Additive

CONFIDENT = 1.96
"""Standard deviations that 19 of 20 normal draws are within."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Averages:
    """Counts estimated by averaging.

    where
        mean      weighted mean of the sums, one for each count
        weight    sum_j 1 / k_j: how many directly published counts the mean is worth
    """

    mean: Floats
    weight: Floats

    @property
    def count(self) -> Ints:
        """The nearest whole count, none below 0; a half goes up."""
        return np.maximum(np.floor(self.mean + 0.5), 0).astype(np.int64)

    def sure(self, variance: float) -> Flags:
        """Whether theory says that the count is right 19 times in 20."""
        return np.asarray(CONFIDENT * np.sqrt(variance / self.weight) < 0.5, dtype=bool)


def average(sums: ArrayLike, parts: ArrayLike) -> Averages:
    """The weighted means of counts.

    where
        sums    (counts x partitions): sum of the published parts
        parts   number of parts of each partition
    """
    s, k = _checked(sums, parts)
    weight = float((1 / k).sum())
    return Averages(mean=(s / k).sum(axis=1) / weight, weight=np.full(len(s), weight))


@dataclass(frozen=True, eq=False, kw_only=True)
class CellAverages:
    """Cells of published tables, averaged over the partitions that the tables have of them.

    where
        cell         cells that are published and have one partition or more
        partitions   how many partitions each has
        averages     of the published count and the sums of the partitions
    """

    cell: Ints
    partitions: Ints
    averages: Averages


def average_cells(additive: Additive, published: Ints, known: Flags) -> CellAverages:
    """Each total with all relations whose parts are published; a 0 stays as it is.

    where
        published   the value of every cell
        known       whether it is published
    """
    lengths = np.diff(additive.start)
    own = np.repeat(np.arange(len(lengths)), lengths)
    hidden = np.bincount(own, weights=~known[additive.part], minlength=len(lengths)) > 0
    sums = np.bincount(own, weights=published[additive.part], minlength=len(lengths))
    total = additive.total
    whole = ~hidden & known[total] & (published[total] > 0)
    mean, weight = published.astype(np.float64), np.ones(additive.size)
    np.add.at(mean, total[whole], (sums / lengths)[whole])
    np.add.at(weight, total[whole], 1 / lengths[whole])
    partitions = np.bincount(total[whole], minlength=additive.size)
    cell = np.flatnonzero(partitions)
    return CellAverages(
        cell=cell,
        partitions=partitions[cell],
        averages=Averages(mean=mean[cell] / weight[cell], weight=weight[cell]),
    )


def spread(sums: ArrayLike, parts: ArrayLike) -> float:
    """The variance of one count's noise, for an attacker who does not know it.

    The mean over counts of sum_j (s_j - x)^2 / k_j / (m - 1), which is V on average.
    """
    s, k = _checked(sums, parts)
    if s.shape[1] < 2:
        raise InputError("partitions", found="one", expected="two or more, to see a spread")
    off = (s - average(s, k).mean[:, None]) ** 2 / k
    return float(off.sum(axis=1).mean() / (s.shape[1] - 1))


def _checked(sums: ArrayLike, parts: ArrayLike) -> tuple[Floats, Floats]:
    s, k = np.asarray(sums, dtype=np.float64), np.asarray(parts, dtype=np.float64)
    if s.ndim != 2 or not s.shape[1] or k.shape != s.shape[1:] or np.any(k < 1):
        raise InputError(
            "partitions",
            found=f"sums of shape {s.shape} and {len(np.atleast_1d(k))} numbers of parts",
            expected="counts x partitions, and 1 part or more for each partition",
        )
    return s, k


def share_recovered(variance: float, weight: float) -> float:
    """The share of counts whose mean rounds to the truth, with normal noise: P(|e| < 1/2)."""
    return erf(0.5 / sqrt(2 * variance / weight)) if variance else 1.0


def partitions_needed(variance: float, *, parts: int = 2) -> int:
    """The smallest m with 1.96 sqrt(parts V / m) < 1/2."""
    return floor(4 * CONFIDENT**2 * parts * variance) + 1
