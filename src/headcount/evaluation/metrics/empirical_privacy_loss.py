"""Empirical privacy loss: what the errors of one release look like (Petti & Flaxman 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from headcount.errors import InputError
from headcount.evaluation._scores import tallied_answers
from headcount.evaluation.calibration import Recipe, calibrate
from headcount.evaluation.epl import published
from headcount.evaluation.metrics._base import (
    LEVEL,
    QUERY,
    Metric,
    NotFeasible,
    by_level,
    publishes_counts,
)
from headcount.evaluation.truth import Truth
from headcount.progress import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, point_chart
from headcount.report.finding import Finding, Support
from headcount.report.model import Column, Figure, KeyNumber
from headcount.tabulate import TOTAL
from headcount.tabulate.query import CELLS

FEWEST = 100
"""Fewer errors hardly tell noise of one scale from another: EPL is then not calibrated."""


@dataclass(frozen=True, kw_only=True)
class EmpiricalPrivacyLoss(Metric):
    """EPL of totals and of cells at every level, as published and calibrated.

    where
        kernel_factor      standard deviation of the smoothing kernel, over that of the errors
        range_percentile   errors looked at: up to this percentile of their size
        range_multiplier   multiplied by this
        calibrated         also give the loss of pure geometric noise with the same EPL
        seed               seed of the noise drawn for that
        levels             which levels are looked at; all if empty
    """

    name = "empirical-privacy-loss"
    order = 40
    kernel_factor: float = Recipe.kernel_factor
    range_percentile: float = Recipe.range_percentile
    range_multiplier: float = Recipe.range_multiplier
    calibrated: bool = True
    seed: int = 0
    levels: tuple[str, ...] = ()

    def supports(self, release: Release, truth: Truth) -> Support:
        """Counts that can be off: of each the error is taken."""
        return publishes_counts(release)

    @property
    def recipe(self) -> Recipe:
        """The parameters of the published recipe."""
        return Recipe(
            kernel_factor=self.kernel_factor,
            range_percentile=self.range_percentile,
            range_multiplier=self.range_multiplier,
        )

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """EPL by level, of the counts that are not zero in truth or in the release."""
        levels = self.levels or release.geography.levels
        rows = [
            row
            for level in progress(levels, what="Empirical privacy loss", total=len(levels))
            for row in self._feasible(release.as_counts(), truth, level)
        ]
        if all(row["epl"] is None for row in rows):
            reasons = "; ".join(dict.fromkeys(row["undefined"] for row in rows))
            raise NotFeasible(f"it is undefined at every level: {reasons}")
        kinds = {"epl": pl.Float64, "epl_median": pl.Float64, "epl_calibrated": pl.Float64}
        return Losses(
            table=pl.DataFrame(rows, schema_overrides=kinds),
            levels=levels,
            recipe=self.recipe,
            stated=tuple(str(loss) for loss in release.guarantee.losses),
        )

    def _feasible(self, release: Any, truth: Truth, level: str) -> list[dict[str, Any]]:
        try:
            return self._rows(release, truth, level)
        except InputError as error:  # of errors beyond the range of the curve
            raise NotFeasible(str(error)) from None

    def _rows(self, release: Any, truth: Truth, level: str) -> list[dict[str, Any]]:
        rows = []
        asked = (TOTAL.name, CELLS)
        for query, pairs in tallied_answers(truth.counts, release, level, "either", only=asked):
            recipe = self.recipe
            found = published(
                pairs.residuals(),
                pairs.times,
                kernel_factor=recipe.kernel_factor,
                range_percentile=recipe.range_percentile,
                range_multiplier=recipe.range_multiplier,
            )
            again = None
            if self.calibrated and found.max_abs is not None and found.n >= FEWEST:
                again = calibrate(found.max_abs, n=found.n, seed=self.seed, recipe=recipe)
            rows.append(
                {
                    "level": level,
                    "query": query.name,
                    "n": found.n,
                    "epl": found.max_abs,
                    "epl_median": found.median_abs,
                    "epl_calibrated": again,
                    "undefined": found.undefined or "",
                }
            )
        return rows


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Losses(Finding):
    """A row for each level, for totals and for cells; ``undefined`` says why there is no EPL."""

    name: str = EmpiricalPrivacyLoss.name
    title: str = "Empirical privacy loss, which is not a guarantee"
    index: tuple[str, ...] = ("level", "query")
    value: str = "epl"
    caption: str = "Empirical privacy loss by level, of totals and of every cell."
    value_words: str = (
        "empirical privacy loss as published; compare it only at equal numbers of errors. Rows of "
        f"fewer than {FEWEST} errors are left out, because the maximum of a few is chance"
    )

    levels: tuple[str, ...]
    recipe: Recipe
    stated: tuple[str, ...]

    def explain(self) -> str:
        """What EPL is, and above all what it is not."""
        stated = (
            f"The guarantee of this release is another thing: {'; '.join(self.stated)}."
            if self.stated
            else "This release has no guarantee, and EPL does not give it one."
        )
        return (
            "Empirical privacy loss (EPL, Petti & Flaxman 2020) is the largest change in the log "
            "of a smoothed density of the errors from one whole person to the next (kernel of "
            f"{self.recipe.kernel_factor:g} standard deviations, errors within their "
            f"{self.recipe.range_percentile:g}th percentile). It has the unit of epsilon. "
            "**It is neither a guarantee nor a bound on epsilon, from above or from below.** It "
            "assumes that the errors of all units follow one law, which shifts by one when one "
            "person moves, and looks at one count at a time; a release may leak through what no "
            "single count shows. It is the maximum of a noisy curve and so too high where errors "
            "are few. *Calibrated* is the epsilon of pure geometric noise with the same EPL on "
            "average at the same n: it takes that excess away, and nothing else. It is left out "
            f"below {FEWEST} errors, and where no such noise shows that EPL. {stated}"
        )

    def compared(self) -> pl.DataFrame:
        """Only what many errors give."""
        return self.table.filter(pl.col("n") >= FEWEST).select(*self.index, self.value)

    def numbers(self) -> tuple[KeyNumber, ...]:
        """EPL of the totals of the smallest places."""
        leaf = self.levels[-1]
        found = self.table.filter(level=leaf, query=TOTAL.name).row(0, named=True)
        if found["epl"] is None or found["n"] < FEWEST:  # the maximum of a few errors is chance
            return ()
        again = found["epl_calibrated"]
        more = f" ({again:.3g} calibrated)" if again is not None else ""
        label = f"empirical privacy loss of {leaf} totals{more}: not a guarantee"
        return (KeyNumber(value=f"{found['epl']:.3g}", label=label),)

    def figure(self) -> Figure:
        """EPL by level, as published and calibrated."""
        many = self.table.filter(pl.col("n") >= FEWEST)
        shown = many if many["epl"].drop_nulls().len() else self.table
        named = shown.with_columns(query=pl.col("query").replace({CELLS: "every cell"}))
        long = named.unpivot(
            ["epl", "epl_calibrated"], index=["level", "query"], variable_name="kind"
        ).with_columns(
            kind=pl.format(
                "{}, {}",
                "query",
                pl.col("kind").replace({"epl": "as published", "epl_calibrated": "calibrated"}),
            )
        )
        return Figure(
            name=self.name,
            caption="Empirical privacy loss by level, as published and calibrated, from at "
            f"least {FEWEST} errors where there are that many. It is not a guarantee; where a "
            "point is missing, EPL is undefined.",
            alt="Empirical privacy loss by geographic level",
            chart=point_chart(
                long,
                x=by_level(self.levels),
                y=Axis(column="value", title="Empirical privacy loss", zero=True),
                series="kind",
            ),
        )

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        return (
            LEVEL,
            QUERY,
            Column(key="n", label="Errors", format=",d"),
            Column(key="epl", label="EPL, as published", format=",.3g"),
            Column(key="epl_median", label="Median of the curve", format=",.3g"),
            Column(key="epl_calibrated", label="EPL, calibrated", format=",.3g"),
            Column(key="undefined", label="Undefined because"),
        )
