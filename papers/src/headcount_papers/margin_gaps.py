"""Do margins that do not add up give the largest change away? (Bach, arXiv 2012.09775)

The metric ``margin-gaps``: what the gaps of published margins prove of the changes of counts
(``headcount_papers.averaging.gaps``), beside the changes that were made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from headcount.attacks import changed_tables
from headcount.attacks.changed_cells import changed_cells
from headcount.evaluation import Metric, Truth
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, point_chart
from headcount.report.finding import Finding, Support
from headcount.report.model import Column, Figure, KeyNumber
from headcount.tabulate.linked_tables import table_values
from headcount_papers.averaging.gaps import published_gaps


@dataclass(frozen=True, kw_only=True)
class MarginGapsMetric(Metric):
    """The largest change under which published totals and parts can all be true."""

    name = "margin-gaps"
    order = 60

    def supports(self, release: Release, truth: Truth) -> Support:
        """Tables whose counts were changed."""
        return changed_tables(release)

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """What is proved beside the changes of all published counts."""
        tables = release.unweighted().as_tables()
        gaps = published_gaps(changed_cells(tables))
        least = np.concatenate([one.least for one in gaps])
        proved = int(least.max(initial=0))
        spread = [one.variance for one in gaps if not np.isnan(one.variance)]
        changes = np.concatenate(
            [
                (one.value - table_values(truth.counts.at(one.level), one.cells))[~one.withheld]
                for one in tables.published
            ]
        )
        row = {
            "margins": len(least),
            "broken": sum(int(np.count_nonzero(one.gap)) for one in gaps),
            "proofs": int((least == proved).sum()) if proved else 0,
            "proved": proved,
            "largest": int(np.abs(changes).max(initial=0)),
            "variance_shown": float(np.mean(spread)) if spread else None,
            "variance": float(changes.var()) if len(changes) else None,
        }
        schema = {"variance_shown": pl.Float64, "variance": pl.Float64}
        return ChangeRevealed(
            table=pl.DataFrame([row], schema_overrides=schema),
            counted=truth.counts.domain.counted,
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ChangeRevealed(Finding):
    """One row: what the margins prove, and what is true.

    where
        margins          totals all of whose parts are published
        broken           those that are not the sum of their parts
        proofs           those that prove the largest change found, each alone
        proved           the largest change that is proved: no smaller one explains every gap
        variance_shown   of a change, as the gaps show it; none where no counts are large enough
    """

    name: str = MarginGapsMetric.name
    title: str = "Do margins that do not add up give the largest change away?"
    value: str = "proved"
    value_words: str = "largest change that gaps of margins prove, in {counted}"
    caption: str = "What gaps of margins prove of the changes."

    def explain(self) -> str:
        """What is proved, and beside what it stands."""
        return (
            "A published total less the sum of its k published parts is a sum of k + 1 changes, "
            "and a part that is published holds one person at least. The adversary takes the "
            "smallest change under which every total can be true. What is proved is never more "
            "than the largest change that the method allows. Beside it stands the largest change "
            "in this release, from the true counts: where both are the same the secret is out. "
            "Where records were swapped first, the true counts are not those that were changed, "
            "and the two cannot be compared."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """The change that is proved."""
        row = self.table.row(0, named=True)
        label = "is the largest change that gaps of margins prove; the largest made is "
        return (KeyNumber(value=f"{row['proved']:,}", label=f"{label}{row['largest']:,}"),)

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        return (
            Column(key="margins", label="Margins", format=",d"),
            Column(key="broken", label="Not the sum of their parts", format=",d"),
            Column(key="proofs", label="Proofs of the largest", format=",d"),
            Column(key="proved", label="Change proved", unit=self.counted, format=",d"),
            Column(key="largest", label="Largest change", unit=self.counted, format=",d"),
            Column(key="variance_shown", label="Variance, from gaps", format=",.3g"),
            Column(key="variance", label="Variance of changes", format=",.3g"),
        )

    def figure(self) -> Figure:
        """Both changes side by side."""
        row = self.table.row(0, named=True)
        names = {"proved": "proved by gaps", "largest": "made"}
        frame = pl.DataFrame(
            {"what": list(names.values()), "change": [row[name] for name in names]}
        )
        caption = "The largest change that margins prove, and the largest that was made."
        return Figure(
            name=f"{self.name}-figure",
            caption=caption,
            alt=caption,
            chart=point_chart(
                frame,
                x=Axis(column="what", title="Largest change", names=tuple(names.values())),
                y=Axis(column="change", title=self.counted.capitalize(), zero=True),
                series="what",
            ),
        )
