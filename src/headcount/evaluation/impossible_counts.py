"""Released counts that are not 0 where the schema says that nobody can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from headcount.evaluation._base import Metric, Truth, by_level, publishes_counts
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, point_chart
from headcount.report.finding import SUPPORTED, Finding, Support
from headcount.report.model import Figure, KeyNumber


@dataclass(frozen=True, kw_only=True)
class ImpossibleCounts(Metric):
    """How often a release says that somebody is where nobody can be."""

    name = "impossible-counts"
    order = 30
    depends_on = frozenset({"release"})

    def supports(self, release: Release, truth: Truth) -> Support:
        """Counts on a schema that rules something out."""
        if not (counts := publishes_counts(release)):
            return counts
        if release.schema.possible.all():
            return Support("the schema rules no cell out")
        return SUPPORTED

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """Counts that are not 0 in structural zeros, at every level."""
        ruled_out = np.flatnonzero(~release.schema.possible)
        rows = []
        for level in release.geography.levels:
            table: Any = release.table(level)
            found = table[:, ruled_out]
            values = found.ravel() if isinstance(found, np.ndarray) else found.data
            rows.append(
                {
                    "level": level,
                    "counts": table.shape[0] * len(ruled_out),
                    "not_zero": int(np.count_nonzero(values)),
                    "people": float(np.abs(values).sum()),
                }
            )
        return _Impossible(table=pl.DataFrame(rows), levels=release.geography.levels)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Impossible(Finding):
    """A row for each level: counts that must be 0, those that are not, and people in them."""

    name: str = ImpossibleCounts.name
    title: str = "People where nobody can be"
    index: tuple[str, ...] = ("level", "counts")
    value: str = "not_zero"
    caption: str = "Counts that must be 0, those that are not, and the people in them."
    value_words: str = "released counts that are not 0 where nobody can be"

    levels: tuple[str, ...]

    @property
    def at_leaf(self) -> int:
        """Counts of the finest level that are not 0 where nobody can be."""
        return int(self.table["not_zero"][-1])

    def explain(self) -> str:
        """Where such counts come from."""
        return (
            "The schema rules out some combinations of attributes. A release that follows it has 0 "
            "there; a method that moves people and leaves some of their attributes in place can "
            "put somebody there. The table counts such cells, and the people in them, exactly. "
            "They are part of no figure about errors, and need no truth: anybody can see them."
        )

    def figure(self) -> Figure:
        """Impossible counts by level."""
        return Figure(
            name=self.name,
            caption="Released counts that are not 0 where nobody can be, at each level.",
            alt="Number of impossible counts by geographic level",
            chart=point_chart(
                self.table.with_columns(series=pl.lit("not 0")),
                x=by_level(self.levels),
                y=Axis(column="not_zero", title="Counts", zero=True),
                series="series",
                height=200,
            ),
        )

    def warnings(self) -> tuple[str, ...]:
        """Only if there are any."""
        words = "released counts are not 0 where the schema says that nobody can be"
        return (f"{self.at_leaf:,} {words}",) if self.at_leaf else ()

    def numbers(self) -> tuple[KeyNumber, ...]:
        """Only if there are any."""
        if not self.at_leaf:
            return ()
        return (
            KeyNumber(
                value=f"{self.at_leaf:,}",
                unit="counts",
                label="are not 0 where the schema says that nobody can be",
            ),
        )
