"""One count through all its partitions: in the table, over units, and between tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.attacks.averaging import CellAverages, CellValues, average_cells, likeliest
from headcount.attacks.changed_cells import (
    INFORMED,
    UNINFORMED,
    ChangedCells,
    changed_cells,
    hides_its_change,
    published_gaps,
)
from headcount.attacks.kinds._base import (
    NOTHING,
    Attack,
    CountClaims,
    People,
    changed_tables,
)
from headcount.engines.protocol import Engine
from headcount.errors import ConfigError
from headcount.release import Release
from headcount.release.change_table import ChangeTable
from headcount.report.finding import Support


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AveragedCounts(CountClaims):
    """Counts as the mean of their partitions, for each (table, level) (units x cells).

    where
        count        the count that is claimed; -1 where a cell has no partition, by attacker
        published    the published count
        partitions   how many partitions each has
        weight       how many published counts the mean is worth
        variance     of one change: as it is known, or as the gaps of margins show it; NaN if
                     neither says anything
    """

    count: dict[str, dict[tuple[str, str], Ints]]
    published: dict[tuple[str, str], Ints]
    partitions: dict[tuple[str, str], Ints]
    weight: dict[tuple[str, str], Floats]
    variance: float

    def claimed(self) -> dict[tuple[str, str], Ints]:
        """The nearest whole numbers to the means."""
        return next(iter(self.count.values()))


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
    largest_change: int = 0
    variance: float = 0.0

    def __post_init__(self) -> None:
        for place in ("largest_change", "variance"):
            if (value := getattr(self, place)) < 0:
                raise ConfigError(self.name, place=place, found=str(value), expected="0 or more")

    def supports(self, release: Release) -> Support:
        """Tables whose counts were changed."""
        return changed_tables(release)

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
        table = law_of(cells)
        variance = self.variance or (table.variance if table else shown_variance(cells))
        for some in cells:
            draws = some.draws()
            found = average_cells(some.linked.additive, draws)
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
            count=count,
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
        draws: CellValues,
        found: CellAverages,
        table: ChangeTable | None,
        variance: float,
    ) -> Ints:
        """What an attacker claims who knows the settings, or the largest change alone."""
        low, high = some.ranges(self.largest_change or None)
        mean = np.clip(found.averages.count, low[found.cell], high[found.cell])
        if table is None or not variance > 0:
            return mean
        best, possible = likeliest(found, draws, table, variance)
        return np.where(possible, best, mean)


def law_of(cells: Sequence[ChangedCells]) -> ChangeTable | None:
    """The law of changes that an attacker was given; None if there is none."""
    known = [one.known for some in cells for one in some.published.values()]
    return next((one.table for one in known if one is not None), None)


def shown_variance(cells: Sequence[ChangedCells]) -> float:
    """The variance of a change as the gaps of margins show it; NaN if none is large enough."""
    gaps = [one for one in published_gaps(cells) if not np.isnan(one.variance)]
    return float(np.mean([one.variance for one in gaps])) if gaps else float("nan")
