"""The averaging attack: one true count through many partitions, whose sums have it as their mean.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import erf, sqrt

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Flags, Floats, Ints
from headcount.attacks import Attack, ClaimedCounts, CountRanges, People, changed_tables
from headcount.attacks.changed_cells import (
    INFORMED,
    UNINFORMED,
    ChangedCells,
    changed_cells,
    hides_its_change,
)
from headcount.engines import Engine
from headcount.release import Release
from headcount.release.changed import ChangeTable
from headcount.tabulate.additive import Additive
from headcount_papers.averaging.gaps import published_gaps

NOTHING = -1
"""Of a count without partitions: nothing is claimed."""
ALL_EXACT = 1e-6
"""Stands for no noise at all, in the weight of a sum whose parts are all exact."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _CellValues:
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


def _draws(some: ChangedCells) -> _CellValues:
    """The published values of each cell: one, or one a table where chance is drawn anew.

    That shows wherever a cell has two values; people with a key have one in every table.
    """
    size, values = some.linked.additive.size, []
    for where, number in some.linked.number.items():
        one = np.full(size, -1)
        shown = ~some.published[where].withheld
        one[number[shown]] = some.published[where].value[shown]
        values.append(one)
    last, known = some.values()
    if all(((one < 0) | (one == last)).all() for one in values):
        values = [np.where(known, last, -1)]
    return _CellValues(values=tuple(values), exact=some.exact())


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AveragedCounts(ClaimedCounts):
    """Counts as the mean of their partitions, for each (table, level) (units x cells).

    where
        ranges       of each attacker: the one count that he claims, where a cell has partitions
        published    the published count
        partitions   how many partitions each has
        weight       how many published counts the mean is worth
        variance     of one change: as it is known, or as the gaps of margins show it; NaN if
                     neither says anything
    """

    published: dict[tuple[str, str], Ints]
    partitions: dict[tuple[str, str], Ints]
    weight: dict[tuple[str, str], Floats]
    variance: float

    @property
    def count(self) -> Mapping[str, Mapping[tuple[str, str], Ints]]:
        """By attacker the count that is claimed; -1 where a cell has no partition."""
        return {one.attacker: one.low for one in self.ranges}


@dataclass(frozen=True, kw_only=True)
class Average(Attack):
    """Average what is published of the same people in different partitions.

    where
        largest_change   what the attacker knows of the largest change where neither the release
                         says it nor an evaluation gives him the settings: no claim is farther from
                         the published count; 0 if nothing
        variance         what is known of the variance of a change; 0 for that of the settings, or
                         else what gaps of margins show
    """

    name = "averaging"
    whole = True
    at_least_0 = ("largest_change", "variance")
    supports = staticmethod(changed_tables)
    largest_change: int = 0
    variance: float = 0.0

    def run(
        self, release: Release, people: People, *, engine: Engine | None = None
    ) -> AveragedCounts:
        """Claim the nearest whole number to each mean, or the likeliest count."""
        cells = changed_cells(release.as_tables())
        hidden = hides_its_change([some.unread() for some in cells])
        knows = bool(self.largest_change) or not hides_its_change(cells)
        names = [name for name, one in ((INFORMED, knows), (UNINFORMED, hidden)) if one]
        count: dict[str, dict[tuple[str, str], Ints]] = {name: {} for name in names}
        published: dict[tuple[str, str], Ints] = {}
        partitions: dict[tuple[str, str], Ints] = {}
        weight: dict[tuple[str, str], Floats] = {}
        table = _law_of(cells)
        variance = self.variance or (table.variance if table else _shown_variance(cells))
        for some in cells:
            draws = _draws(some)
            found = _average_cells(some.linked.additive, draws)
            size = some.linked.additive.size
            for name in names:
                claimed = np.full(size, NOTHING)
                claimed[found.cell] = (
                    self._knowing(some, draws, found, table, variance)
                    if name == INFORMED
                    else found.averages.count
                )
                count[name] |= some.spread(claimed)
            many, worth = np.zeros(size, dtype=np.int64), np.ones(size)
            many[found.cell], worth[found.cell] = found.partitions, found.averages.weight
            published |= some.spread(some.values()[0])
            partitions |= some.spread(many)
            weight |= some.spread(worth)
        return AveragedCounts(
            attack=self.name,
            title="Do counts come back when their partitions are averaged?",
            schema=release.schema,
            geography=release.geography,
            ranges=tuple(
                CountRanges(
                    attacker=name,
                    low=own,
                    high=own,
                    attacked={where: one >= 0 for where, one in own.items()},
                )
                for name, own in count.items()
            ),
            published=published,
            partitions=partitions,
            weight=weight,
            variance=variance,
            facts={"kind": self.name, "variance": variance, "knows_table": table is not None},
            words=(
                "A published count is also the sum of its parts by any attribute and of the units "
                "within its unit. Each of these sums has noise of its own, and their mean less "
                "than each. The attacker claims the whole number that is nearest to the mean, "
                "weighted by the number of parts, for every count that has parts and is not "
                "published as it is. Where a table draws chance anew for each cell, a count that "
                "several tables have is averaged over these as well. Who knows the chance of each "
                "change claims the count that is likeliest by the published value and the sums."
            ),
        )

    def _knowing(
        self,
        some: ChangedCells,
        draws: _CellValues,
        found: _CellAverages,
        table: ChangeTable | None,
        variance: float,
    ) -> Ints:
        """What an attacker claims who knows the settings, or the largest change alone."""
        low, high = some.ranges(self.largest_change or None)
        mean = np.clip(found.averages.count, low[found.cell], high[found.cell])
        if table is None or not variance > 0:
            return mean
        best, possible = _likeliest(found, draws, table, variance)
        return np.where(possible, best, mean)


def _law_of(cells: Sequence[ChangedCells]) -> ChangeTable | None:
    """The law of changes that an attacker was given; None if there is none."""
    known = [one.known for some in cells for one in some.published.values()]
    return next((one.table for one in known if one is not None), None)


def _shown_variance(cells: Sequence[ChangedCells]) -> float:
    """The variance of a change as the gaps of margins show it; NaN if none is large enough."""
    gaps = [one for one in published_gaps(cells) if not np.isnan(one.variance)]
    return float(np.mean([one.variance for one in gaps])) if gaps else float("nan")


@dataclass(frozen=True, eq=False, kw_only=True)
class _Averages:
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


@dataclass(frozen=True, eq=False, kw_only=True)
class _CellAverages:
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
    averages: _Averages
    sums: _Averages
    least: Ints


def _average_cells(additive: Additive, draws: _CellValues) -> _CellAverages:
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
    return _CellAverages(
        cell=cell,
        partitions=partitions[cell],
        averages=_Averages(
            mean=(times * value[cell] + weighted[cell]) / (times + of_sums),
            weight=times + of_sums,
        ),
        sums=_Averages(mean=weighted[cell] / of_sums, weight=of_sums),
        least=least[cell],
    )


def _likeliest(
    found: _CellAverages, draws: _CellValues, table: ChangeTable, variance: float
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


def share_recovered(variance: float, weight: float) -> float:
    """The share of counts whose mean rounds to the truth, with normal noise: P(|e| < 1/2)."""
    return erf(0.5 / sqrt(2 * variance / weight)) if variance else 1.0
