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
from headcount.release.change_table import ChangeTable
from headcount.tabulate.additive import Additive

CONFIDENT = 1.96
"""Standard deviations that 19 of 20 normal draws are within."""
ALL_EXACT = 1e-6
"""Stands for no noise at all, in the weight of a sum whose parts are all exact."""


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
class CellValues:
    """What is published of each cell: once, or more often where chance was drawn anew.

    where
        values   for each draw the value of every cell, -1 where it has none
        exact    cells whose value is the count
    """

    values: tuple[Ints, ...]
    exact: Flags

    @property
    def many(self) -> Ints:
        """How many values each cell has."""
        return np.asarray(np.sum([one >= 0 for one in self.values], axis=0), dtype=np.int64)

    @property
    def mean(self) -> Floats:
        """The mean of a cell's values; 0 where it has none."""
        added = np.sum([np.maximum(one, 0) for one in self.values], axis=0, dtype=np.int64)
        return np.asarray(added / np.maximum(self.many, 1), dtype=np.float64)


@dataclass(frozen=True, eq=False, kw_only=True)
class CellAverages:
    """Cells of published tables, averaged over the partitions that the tables have of them.

    where
        cell         cells that are published, changed, and have one partition or more
        partitions   how many partitions each has
        averages     of the published values and the sums of the partitions
        sums         of the sums of the partitions alone
        least        people whom some partition shows at least: one for each part above 0
    """

    cell: Ints
    partitions: Ints
    averages: Averages
    sums: Averages
    least: Ints


def average_cells(additive: Additive, draws: CellValues) -> CellAverages:
    """Each total that is changed, with all relations whose parts are published.

    A total of 0 whose parts are all 0 stays as it is. A cell with r values is worth r; a partition
    1 / sum_p (1 / r_p) over its parts p, those that are exact left out.
    """
    lengths, many, value = np.diff(additive.start), draws.many, draws.mean
    own = np.repeat(np.arange(len(lengths)), lengths)

    def added(of_part: ArrayLike) -> Floats:
        found = np.bincount(own, weights=np.asarray(of_part, dtype=float), minlength=len(lengths))
        return found.astype(np.float64)

    part, total = additive.part, additive.total
    sums = added(value[part])
    above = added(value[part] > 0).astype(np.int64)
    noise = added(np.where(draws.exact, 0.0, 1 / np.maximum(many, 1))[part])
    whole = (added(many[part] == 0) == 0) & (many[total] > 0) & ~draws.exact[total]
    shown = np.bincount(total[whole], weights=sums[whole], minlength=additive.size) + value
    whole &= shown[total] > 0
    worth = 1 / np.maximum(noise, ALL_EXACT)
    weight = np.bincount(total[whole], weights=worth[whole], minlength=additive.size)
    weighted = np.bincount(total[whole], weights=(worth * sums)[whole], minlength=additive.size)
    least = np.zeros(additive.size, dtype=np.int64)
    np.maximum.at(least, total[whole], above[whole])
    partitions = np.bincount(total[whole], minlength=additive.size)
    cell = np.flatnonzero(partitions)
    of_sums, times = weight[cell].astype(np.float64), many[cell].astype(np.float64)
    return CellAverages(
        cell=cell,
        partitions=partitions[cell],
        averages=Averages(
            mean=(times * value[cell] + weighted[cell]) / (times + of_sums),
            weight=times + of_sums,
        ),
        sums=Averages(mean=weighted[cell] / of_sums, weight=of_sums),
        least=least[cell],
    )


def likeliest(
    found: CellAverages, draws: CellValues, table: ChangeTable, variance: float
) -> tuple[Ints, Flags]:
    """The likeliest count of each cell, for an attacker who knows the law of changes.

        log P(n) = sum_r log p(n -> a_r) - w (n - s)^2 / (2 V) + constant

    where
        a_r    the published values of the cell
        p      the perturbation table
        s, w   mean and weight of the sums of partitions, whose noise is taken as normal
        V      variance of a change

    No count is likelier than another beforehand. A count has as many people at least as some
    partition has parts above 0, where an empty cell stays empty. Also returns whether any count is
    possible at all.
    """
    values = np.stack([one[found.cell] for one in draws.values])
    first = np.take_along_axis(values, np.argmax(values >= 0, axis=0)[None], axis=0)[0]
    counts = first[:, None] - np.arange(table.first, table.last + 1)
    score = -found.sums.weight[:, None] * (counts - found.sums.mean[:, None]) ** 2 / (2 * variance)
    with np.errstate(divide="ignore"):
        for one in values:
            there = one >= 0
            score[there] += np.log(table.of_change(counts[there], one[there][:, None]))
    if not table.raised:
        score[counts < found.least[:, None]] = -np.inf
    best = np.argmax(score, axis=1)[:, None]
    return (
        np.take_along_axis(counts, best, axis=1)[:, 0],
        np.asarray(np.isfinite(np.take_along_axis(score, best, axis=1)[:, 0]), dtype=bool),
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
