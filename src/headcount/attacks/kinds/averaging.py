"""One count through all its partitions: in the table, over units, and between tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.attacks.averaging import average_cells
from headcount.attacks.changed_cells import ChangedCells, changed_cells, published_gaps
from headcount.attacks.kinds._base import Attack, CountClaims, People, changed_tables
from headcount.engines.protocol import Engine
from headcount.errors import ConfigError
from headcount.release import Release
from headcount.report.finding import Support

KNOWS, DOES_NOT = "knows the largest change", "does not know it"


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
        largest_change   what the attacker knows of the largest change: no claim is farther from
                         the published count; 0 if nothing
        variance         what is known of the variance of a change; 0 for what gaps of margins show
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
        """Claim the nearest whole number to each mean."""
        cells = changed_cells(release.as_tables())
        count: dict[str, dict[tuple[str, str], Ints]] = {DOES_NOT: {}}
        if self.largest_change:
            count = {KNOWS: {}, **count}
        published: dict[tuple[str, str], Ints] = {}
        partitions: dict[tuple[str, str], Ints] = {}
        weight: dict[tuple[str, str], Floats] = {}
        for some in cells:
            value, known = some.values()
            found = average_cells(some.linked.additive, value, known)
            many = np.zeros(len(value), dtype=np.int64)
            worth, claimed = np.ones(len(value)), np.full(len(value), -1)
            many[found.cell], worth[found.cell] = found.partitions, found.averages.weight
            claimed[found.cell] = found.averages.count
            near = np.clip(claimed, value - self.largest_change, value + self.largest_change)
            for attacker in count:
                own = near if attacker == KNOWS else claimed
                count[attacker] |= some.spread(np.where(many > 0, own, -1))
            published |= some.spread(value)
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
            variance=self.variance or shown_variance(cells),
            facts={"kind": self.name, "largest_change": self.largest_change},
            words=(
                "A published count is also the sum of its parts by any attribute and of the units "
                "within its unit. Each of these sums has noise of its own, and their mean less "
                "than each. The attacker claims the whole number that is nearest to the mean, "
                "weighted by the number of parts, for every count above 0 that has parts."
            ),
        )


def shown_variance(cells: Sequence[ChangedCells]) -> float:
    """The variance of a change as the gaps of margins show it; NaN if none is large enough."""
    gaps = [one for one in published_gaps(cells) if not np.isnan(one.variance)]
    return float(np.mean([one.variance for one in gaps])) if gaps else float("nan")
