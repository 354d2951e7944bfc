"""How well a release represents small groups (Christ, Radway & Bellovin 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from headcount.evaluation.metrics._base import LEVEL, Metric, publishes_counts
from headcount.evaluation.representation import (
    SIZE_BANDS,
    Yardsticks,
    represent,
)
from headcount.evaluation.truth import Truth
from headcount.progress import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, Control, line_chart
from headcount.report.finding import SUPPORTED, Finding, Support
from headcount.report.model import Column, Figure

_WORDS = {
    "kl": "divergence of shares (nats)",
    "mse": "squared error (people²)",
    "underallocated": "groups that lost people (per area)",
}
_COLUMNS = (
    LEVEL,
    Column(key="metric", label="Metric"),
    Column(key="group", label="Groups"),
    Column(key="people", label="People in the area"),
    Column(key="areas", label="Areas", format=",d"),
    Column(key="mean", label="Mean", format=",.4g"),
    Column(key="sd", label="Standard deviation", format=",.4g"),
)


@dataclass(frozen=True, kw_only=True)
class Representation(Metric):
    """Divergence, squared error and lost people of groups by race and origin, by size of area."""

    name = "representation"
    order = 20
    smoothing: float = Yardsticks.mu
    minority_below: float = Yardsticks.minority_below
    under: float = Yardsticks.under

    def supports(self, release: Release, truth: Truth) -> Support:
        """Counts by race and Hispanic origin, below the whole, of a size that can be held."""
        if not (counts := publishes_counts(release)):
            return counts
        if missing := sorted({"hispanic", "race"} - set(release.schema.names)):
            return Support(f"the schema has no attribute {' and no '.join(missing)}")
        if len(release.geography.levels) < 2:
            return Support("there is no level below the whole")
        return SUPPORTED

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """Every metric at every level below the whole, by size of area."""
        by = Yardsticks(mu=self.smoothing, minority_below=self.minority_below, under=self.under)
        levels = release.geography.levels[1:]
        tables = [
            represent(truth.counts, release.table(level), level=level, by=by, bands=SIZE_BANDS)
            for level in progress(levels, what="Representation", total=len(levels))
        ]
        return Represented(table=pl.concat(tables), by=by, levels=levels)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Represented(Finding):
    """A row for each level, metric, kind of group and band of area sizes."""

    name: str = Representation.name
    title: str = "How small groups fare"
    index: tuple[str, ...] = ("level", "metric", "group", "low", "high", "areas")
    value: str = "mean"
    value_words: str = "representation of small groups, mean over areas"
    caption: str = "Metrics of representation by level and size of area."
    table_name: str = Representation.name
    folded: bool = True

    by: Yardsticks
    levels: tuple[str, ...]

    def explain(self) -> str:
        """What the three metrics are."""
        return (
            "People are grouped by Hispanic origin and race, area by area. *Divergence* is the "
            "Kullback-Leibler divergence of the released shares of an area from the true ones, "
            f"smoothed by {self.by.mu:g}, in nats: 0 where the shares agree. *Squared error* is "
            "the mean over groups of (released - exact)², in people squared. *Groups that lost "
            f"people* are released at {100 * self.by.under:g} % of their size or less. "
            f"*Minorities* are groups below {100 * self.by.minority_below:g} % of their area. "
            "Answers below 0 are taken as 0. Means and standard deviations are over areas of one "
            "release, not over new noise, and areas where nobody lives are left out."
        )

    def figure(self) -> Figure:
        """Means by size of area; the metric and the level are chosen by the reader."""
        shown = self.shown()
        bands = tuple(dict.fromkeys(shown.sort("low")["people"].to_list()))
        return Figure(
            name="representation-by-size",
            caption="Representation of groups by race and origin, by number of people in the area.",
            alt="Mean of a representation metric by size of area, for everyone and for minorities",
            chart=line_chart(
                shown,
                x=Axis(column="people", title="People in the area", names=bands),
                y=Axis(column="mean", title="Mean over areas", zero=True),
                series="group",
                points=True,
                controls=(
                    Control(column="metric", label="Metric"),
                    Control(column="level", label="Level", initial=self.levels[-1]),
                ),
            ),
        )

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        return _COLUMNS

    def shown(self) -> pl.DataFrame:
        """Metrics and sizes of areas in words."""
        high = pl.col("high").cast(pl.Int64)
        return self.table.with_columns(
            pl.col("mean", "sd").fill_nan(None),
            metric=pl.col("metric").replace(_WORDS),
            people=pl.when(high.is_null())
            .then(pl.format("{} or more", "low"))
            .otherwise(pl.format("{} to {}", "low", high - 1)),
        )
