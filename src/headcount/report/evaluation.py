"""The report on one release: what it promises, and how far it is from the truth."""

from __future__ import annotations

import polars as pl

from headcount.privacy import Guarantee
from headcount.release import Release
from headcount.report.figures import Axis, line_chart
from headcount.report.model import (
    Callout,
    Column,
    Figure,
    KeyNumber,
    KeyNumbers,
    Prose,
    Report,
    Section,
    table_from_frame,
)
from headcount.report.provenance import gather_provenance

_COLUMNS = (
    Column(key="level", label="Level"),
    Column(key="query", label="Counts by"),
    Column(key="n", label="Counts compared", format=",.0f"),
    Column(key="median_absolute", label="Median error", unit="people", format=",.2f"),
    Column(key="p95_absolute", label="95 % are within", unit="people", format=",.1f"),
    Column(key="max_absolute", label="Largest", unit="people", format=",.0f"),
    Column(key="rmse", label="RMSE", unit="people", format=",.2f"),
    Column(key="bias", label="Bias", unit="people", format="+,.2f"),
)


def evaluation_report(
    release: Release, scores: pl.DataFrame, *, recipe: str, public: bool
) -> Report:
    """A report that a person who has to decide on a release can read."""
    leaf = release.geography.leaf
    totals = scores.filter(query="total")
    leaf_total = totals.filter(level=leaf).row(0, named=True)
    chart = line_chart(
        scores.with_columns(order=pl.col("level").replace_strict(_depths(release))),
        x=Axis(column="order", title="Depth of the level (0 is the whole)", format="d"),
        y=Axis(column="median_absolute", title="Median absolute error (people)", zero=True),
        series="query",
        points=True,
    )
    return Report(
        title="What the protection costs",
        subtitle=f"A release by {release.mechanism.split('(', 1)[0]}, scored against the truth",
        summary=(
            KeyNumbers(
                (
                    KeyNumber(
                        value=f"{leaf_total['median_absolute']:,.3g}",
                        unit="people",
                        label=f"median absolute error of a {leaf}'s total",
                    ),
                    KeyNumber(
                        value=f"{leaf_total['p95_absolute']:,.3g}",
                        unit="people",
                        label=f"95 % of the {leaf} totals are within this of the truth",
                    ),
                    KeyNumber(
                        value=f"{leaf_total['bias']:+,.3g}",
                        unit="people",
                        label="mean of released minus exact",
                    ),
                )
            ),
            *promise(release.guarantee),
        ),
        sections=(
            Section(
                title="Error at every level",
                blocks=(
                    Figure(
                        name="median-error-by-level",
                        caption="Half of the released counts are closer to the truth than this. "
                        "Levels run from the whole (0) down to " + leaf + ".",
                        alt="Median absolute error by geographic level, one line per query",
                        chart=chart,
                    ),
                    table_from_frame(
                        scores,
                        name="errors",
                        caption="Errors by level and query: released minus exact, in people.",
                        columns=_COLUMNS,
                        notes="A count enters when the exact or the released number is not zero.",
                    ),
                ),
            ),
        ),
        limits=(
            Prose(
                "These figures describe one release, not the spread over new noise. They are "
                "worked out from the true counts and are protected by nothing."
            ),
            Prose("\n".join(f"- Not covered: {what}." for what in release.guarantee.not_covered)),
        ),
        provenance=gather_provenance(recipe=recipe, seeds=(), config=release.mechanism),
        confidential=not public,
    )


def promise(guarantee: Guarantee) -> tuple[Callout, ...]:
    """What a release promises, or that it promises nothing."""
    said = guarantee.sentences()[: len(guarantee.sentences()) - len(guarantee.not_covered)]
    return (Callout("key finding" if guarantee.exists else "warning", " ".join(said)),)


def _depths(release: Release) -> dict[str, int]:
    return {level: depth for depth, level in enumerate(release.geography.levels)}
