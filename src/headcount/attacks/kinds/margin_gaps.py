"""The secret largest change of counts, from margins that do not add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.attacks.changed_cells import changed_cells, published_gaps
from headcount.attacks.kinds._base import Attack, Claims, People, changed_tables
from headcount.engines.protocol import Engine
from headcount.release import Release
from headcount.report.finding import Support


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RevealedChange(Claims):
    """What the gaps of margins prove of the changes.

    where
        margins          totals all of whose parts are published
        broken           those that are not the sum of their parts
        proofs           those that prove the largest change found, each alone
        largest_change   the largest change that is proved: no smaller one explains every gap
        variance         of a change, as the gaps show it; NaN where no counts are large enough
    """

    margins: int
    broken: int
    proofs: int
    largest_change: int
    variance: float


@dataclass(frozen=True, kw_only=True)
class ReadGaps(Attack):
    """Find the largest change under which published totals and parts can all be true."""

    name = "margin-gaps"
    whole = True

    def supports(self, release: Release) -> Support:
        """Tables whose counts were changed."""
        return changed_tables(release)

    def run(
        self, release: Release, people: People, *, engine: Engine | None = None
    ) -> RevealedChange:
        """Claim the largest change that is proved, and a variance."""
        gaps = published_gaps(changed_cells(release.as_tables()))
        least = np.concatenate([one.least for one in gaps])
        largest = int(least.max(initial=0))
        broken = sum(int(np.count_nonzero(one.gap)) for one in gaps)
        spread = [one.variance for one in gaps if not np.isnan(one.variance)]
        return RevealedChange(
            attack=self.name,
            title="Do margins that do not add up give the largest change away?",
            schema=release.schema,
            geography=release.geography,
            margins=len(least),
            broken=broken,
            proofs=int((least == largest).sum()) if largest else 0,
            largest_change=largest,
            variance=float(np.mean(spread)) if spread else float("nan"),
            facts={"kind": self.name, "largest_change": largest},
            words=(
                "A published total less the sum of its k published parts is a sum of k + 1 "
                "changes, and a part that is published holds one person at least. The attacker "
                "takes the smallest change under which every total can be true."
            ),
        )
