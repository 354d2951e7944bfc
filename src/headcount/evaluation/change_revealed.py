"""The largest change that margins prove, beside the changes that were made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from headcount.attacks.margin_gaps import RevealedChange
from headcount.evaluation.attacked import Attacked
from headcount.evaluation.part import Part, TruePeople
from headcount.report.figures import Axis, point_chart
from headcount.report.model import Column, Figure, KeyNumber
from headcount.tabulate.linked_tables import table_values


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ChangeRevealed(Attacked):
    """One row: what the margins prove, and what is true."""

    value: str = "proved"
    value_words: str = "largest change that gaps of margins prove, in {counted}"
    caption: str = "What gaps of margins prove of the changes."

    def explain(self) -> str:
        """What is proved, and beside what it stands."""
        return (
            f"{self.words} What is proved is never more than the largest change that the method "
            "allows. Beside it stands the largest change in this release, from the true counts: "
            "where both are the same the secret is out. Where records were swapped first, the "
            "true counts are not those that were changed, and the two cannot be compared."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """The change that is proved."""
        row = self.table.row(0, named=True)
        return (
            KeyNumber(
                value=f"{row['proved']:,}",
                label=f"is the largest change that gaps of margins prove; the largest made is "
                f"{row['largest']:,}",
            ),
        )

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
        return Figure(
            name=f"{self.name}-figure",
            caption="The largest change that margins prove, and the largest that was made.",
            alt="The largest change that margins prove, and the largest that was made.",
            chart=point_chart(
                frame,
                x=Axis(column="what", title="Largest change", names=tuple(names.values())),
                y=Axis(column="change", title=self.counted.capitalize(), zero=True),
                series="what",
            ),
        )


def change_revealed(claims: RevealedChange, people: TruePeople, part: Part) -> ChangeRevealed:
    """What was proved beside the changes of all published counts."""
    counts = people.counts()
    changes = np.concatenate(
        [
            (one.value - table_values(counts.at(one.level), one.cells))[~one.withheld]
            for one in part.release.as_tables().published
        ]
    )
    row = {
        "margins": claims.margins,
        "broken": claims.broken,
        "proofs": claims.proofs,
        "proved": claims.largest_change,
        "largest": int(np.abs(changes).max(initial=0)),
        "variance_shown": None if np.isnan(claims.variance) else claims.variance,
        "variance": float(changes.var()) if len(changes) else None,
    }
    schema = {"variance_shown": pl.Float64, "variance": pl.Float64}
    return ChangeRevealed.by(claims, part, table=pl.DataFrame([row], schema_overrides=schema))
