"""Somebody else's package: a mechanism, a population and a metric of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from headcount.evaluation import Metric, Truth
from headcount.fields import AtLeast1
from headcount.mechanisms.geometric import Geometric
from headcount.population import Generated, Population
from headcount.population.uniform import uniform
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.report.figures import point_chart
from headcount.report.finding import SUPPORTED, Finding, Support
from headcount.report.model import Figure
from headcount.report.specs import Axis


@dataclass(frozen=True, kw_only=True, repr=False)
class Shifted(Geometric):
    """Geometric noise, and a public number on top.

    where
        shift   the number
    """

    shift: AtLeast1 = 1
    name = "toy-shifted"

    def run(self, *given: Any, **keys: Any) -> Any:
        """The counts of geometric noise, moved."""
        outcome = super().run(*given, **keys)
        moved = {level: np.asarray(table) + self.shift for level, table in outcome.tables.items()}
        return type(outcome)(tables=moved, notes={"shift": float(self.shift)})


@dataclass(frozen=True, kw_only=True)
class Village(Generated):
    """A village of so many people."""

    kind = "toy-village"
    people: AtLeast1 = 60

    def read(self, progress: Progress = silent) -> Population:
        """Generate the people."""
        return uniform(people=self.people, depth=1, mean=10, seed=3)


@dataclass(frozen=True, kw_only=True)
class Above(Metric):
    """How many counts are above the truth by more than a number."""

    name = "toy-above"
    by: AtLeast1 = 1

    def supports(self, release: Release, truth: Truth) -> Support:
        """Every release."""
        return SUPPORTED

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """Leaf counts."""
        leaf = release.geography.leaf
        off = np.asarray(release.as_counts().table(leaf)) - truth.counts.at(leaf).dense()
        rows = {"level": [leaf], "above": [int((off > self.by).sum())]}
        return CountsAbove(table=pl.DataFrame(rows))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CountsAbove(Finding):
    """A row for the leaf level."""

    name: str = Above.name
    title: str = "Counts above the truth"

    def explain(self) -> str:
        """In plain words."""
        return "Counts that are above the truth, by a toy."

    def figure(self) -> Figure:
        """A point."""
        return Figure(
            name=self.name,
            caption="Counts above the truth.",
            alt="One point",
            chart=point_chart(
                self.table.with_columns(series=pl.lit("above")),
                x=Axis(column="level", title="Level"),
                y=Axis(column="above", title="Counts", zero=True),
                series="series",
                height=200,
            ),
        )
