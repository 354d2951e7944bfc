"""Counts that averaging claims, beside the true ones and beside what theory says of the mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.evaluation import NotFeasible
from headcount.evaluation.attacked import Attacked, score_claims
from headcount.evaluation.part import Part, TruePeople
from headcount.release.published import by_name
from headcount.report.figures import Axis, point_chart
from headcount.report.model import Column, Figure, KeyNumber
from headcount.tabulate.linked_tables import table_values
from headcount_papers.averaging.attack import AveragedCounts, share_recovered


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _CountsAveraged(Attacked):
    """A row for each attacker and number of partitions."""

    index: tuple[str, ...] = ("attacker", "partitions")
    value: str = "right_percent"
    value_words: str = "counts whose mean over partitions is the true count, %"
    caption: str = "Counts recovered by averaging, by number of partitions."

    def explain(self) -> str:
        """What is counted, and what theory assumes."""
        return (
            f"{self.words} *Right* are means that round to the true count, *right as published* "
            "counts that were published as they are. *Theory* is the share for normal noise whose "
            "variance is that of a change of large counts, and sums that are independent: small "
            "counts change less, and parts that are empty leave two sums with the same noise. A "
            "count that stands in two tables is here twice. The attacker cannot see which of the "
            "means are right. The *informed* attacker knows the settings by which counts were "
            "changed, the *uninformed* one has the release alone."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """For each attacker the share of all counts that have partitions."""
        return tuple(
            KeyNumber(
                value=f"{100 * int(some['right'].sum()) / int(some['counts'].sum()):,.3g}",
                unit="%",
                label=f"of {some['counts'].sum():,} counts come back by averaging, to an {name} "
                "attacker",
            )
            for (name,), some in self.table.group_by("attacker", maintain_order=True)
        )

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        percents = {
            "right_percent": "Right",
            "theory_percent": "Theory",
            "published_percent": "Right as published",
        }
        return (
            Column(key="attacker", label="Attacker"),
            Column(key="partitions", label="Partitions", format=",d"),
            Column(key="counts", label="Counts", format=",d"),
            Column(key="right", label="Right", format=",d"),
            *(
                Column(key=key, label=label, unit="% of counts", format=",.1f")
                for key, label in percents.items()
            ),
        )

    def figure(self) -> Figure:
        """Right, in theory, and as published, by number of partitions."""
        names = {
            "right_percent": "by averaging",
            "theory_percent": "theory",
            "published_percent": "as published",
        }
        last = self.table.filter(pl.col("attacker") == self.table["attacker"][0])
        long = last.rename(names).unpivot(
            list(names.values()), index="partitions", variable_name="what", value_name="percent"
        )
        caption = "Counts that averaging recovers, by number of partitions."
        places = tuple(str(one) for one in last["partitions"])
        return Figure(
            name=f"{self.name}-figure",
            caption=caption,
            alt=caption,
            chart=point_chart(
                long.with_columns(pl.col("partitions").cast(pl.String)),
                x=Axis(column="partitions", title="Partitions of the count", names=places),
                y=Axis(column="percent", title="Right (% of counts)", zero=True),
                series="what",
            ),
        )


@score_claims.register
def counts_averaged(claims: AveragedCounts, people: TruePeople, part: Part) -> _CountsAveraged:
    """Every mean beside the true count."""
    tables, counts = by_name(part.release.as_tables().published), people.counts()
    true = {
        where: table_values(counts.at(where[1]), tables[where].cells) for where in claims.published
    }
    schema = {
        "attacker": pl.String,
        "partitions": pl.Int64,
        "counts": pl.Int64,
        "right": pl.Int64,
        "right_percent": pl.Float64,
        "theory_percent": pl.Float64,
        "published_percent": pl.Float64,
    }
    rows = list(_mean_rows(claims, true))
    if not rows:
        raise NotFeasible("no published count is the sum of others")
    return _CountsAveraged.by(claims, part, table=pl.DataFrame(rows, schema=schema))


def _mean_rows(
    claims: AveragedCounts, true: dict[tuple[str, str], Ints]
) -> Iterator[dict[str, Any]]:
    places = list(true)
    truth, shown, many, weight = (
        np.concatenate([one[where].ravel() for where in places])
        for one in (true, claims.published, claims.partitions, claims.weight)
    )
    for attacker, own in claims.count.items():
        claimed = np.concatenate([own[where].ravel() for where in places])
        for partitions in np.unique(many[many > 0]).tolist():
            here = many == partitions
            theory = [share_recovered(claims.variance, float(w)) for w in weight[here]]
            right = claimed[here] == truth[here]
            yield {
                "attacker": attacker,
                "partitions": partitions,
                "counts": int(here.sum()),
                "right": int(right.sum()),
                "right_percent": 100 * float(right.mean()),
                "theory_percent": None
                if np.isnan(claims.variance)
                else 100 * float(np.mean(theory)),
                "published_percent": 100 * float((shown[here] == truth[here]).mean()),
            }
