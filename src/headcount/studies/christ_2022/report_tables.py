"""The tables of the report of christ-2022."""

from __future__ import annotations

import polars as pl

from headcount.report.model import Column, Table, table_from_frame
from headcount.studies.christ_2022.report_words import Tables, at_rate
from headcount.studies.christ_2022.settings import SWAPPERS

PLACE = Column(key="county", label="Block group")


def areas_table(tables: Tables) -> Table:
    """Who lives in each block group."""
    frame = tables["areas"].with_columns(pl.col("unique_share") * 100)
    columns = [
        PLACE,
        Column(key="diversity", label="Diversity"),
        Column(key="people", label="People", format=",d"),
        Column(key="minority_people", label="In minorities", format=",d"),
        Column(key="groups", label="Groups", format="d"),
        Column(key="unique_rows", label="Unique rows", format=",d"),
        Column(key="unique_share", label="Unique", unit="%", format=".0f"),
        Column(key="unique_with_household_size", label="… with household size", format=",d"),
    ]
    if (frame["diversity"] == "").all():
        columns.pop(1)
    return table_from_frame(
        frame,
        name="areas",
        caption="The block groups.",
        columns=columns,
        notes="Groups: combinations of Hispanic origin and race that somebody has. In minorities: "
        "people of groups below 10 % of the block group. Unique: nobody else there has the same "
        "age, sex, race and Hispanic origin. That is what similar swapping compares, and the "
        "reading that fits the paper's numbers (10 to 461 unique rows). If household size must "
        "agree too, far more rows are unique: the last column.",
    )


def claims_table(tables: Tables) -> Table:
    """The paper's claims one by one."""
    return table_from_frame(
        tables["claims"],
        name="claims",
        caption="What the paper says, and what this run finds.",
        columns=[
            Column(key="claim", label="Claim"),
            Column(key="paper", label="Paper"),
            Column(key="ours", label="This run"),
            Column(key="holds", label="Holds"),
            Column(key="rule", label="When it holds"),
        ],
        notes="Printed numbers hold within a factor of 1.3 or 5 points (percent, or 0.05 of a "
        "rate), because most were read off figures. Nothing was tuned to make a claim hold. “The "
        "same individual” is read as the row in the person's place. KL is at μ = 0.0001, on "
        "Hispanic origin by race; with noise, negative counts are set to 0 after summing unless "
        "a row says otherwise.",
    )


def kinks_table(tables: Tables) -> Table:
    """Where the curves bend, by both rules."""
    frame = tables["kinks"].filter(curve="kl", attributes=6)
    wide = frame.pivot("mechanism", index=["county", "unique_share", "bends"], values="kink")
    return table_from_frame(
        wide.sort("county", "bends", maintain_order=True),
        name="kinks",
        caption="The swap rate at which KL bends, beside the share of unique rows.",
        columns=[
            PLACE,
            Column(key="unique_share", label="Unique rows", unit="share", format=".2f"),
            Column(key="bends", label="Bends fitted", format="d"),
            *(Column(key=name, label=name, format=".2f") for name in SWAPPERS),
        ],
        notes="Straight lines that meet, fitted by least squares to the mean curve. *One bend* was "
        "the first rule. In several block groups it sits where KL rises again late, so *two "
        "bends* were tried after those results had been seen; of the two the one is shown at which "
        "the curve becomes flatter. A dash: there is none. Claims are judged by both rules, and a "
        "curve without a kink counts against a claim.",
        folded=True,
    )


def found_table(tables: Tables) -> Table:
    """People identified at chosen rates, everyone and minorities."""
    rows = tables["privacy"].filter(
        pl.col("mechanism").is_in(["random", "0-similar"]),
        identity_rule="slot", bucket_width=2, attributes=6,
    )  # fmt: skip
    parts = []
    for rate in (0.0, 0.05, 0.25, 0.5, 1.0):
        some = at_rate(rows, rate).select("county", "group", "mechanism", "percent")
        named = pl.format("{} {}", "mechanism", pl.lit(f"{rate:g}")).alias("case")
        parts.append(some.with_columns(named))
    wide = pl.concat(parts).pivot("case", index=["county", "group"], values="percent")
    cases = ["random 0", *(f"{s} {r:g}" for s in ("random", "0-similar")
                           for r in (0.05, 0.25, 0.5, 1.0))]  # fmt: skip
    return table_from_frame(
        wide,
        name="found",
        caption="People identified, in percent; ages known to within 2 years.",
        columns=[
            PLACE,
            Column(key="group", label="Of"),
            *(Column(key=case, label="none swapped" if case == "random 0" else case, unit="%",
                     format=".1f") for case in cases),
        ],
        notes="Swapper and swap rate. Several people may claim one row; the one-to-one variant, in "
        "which disputed claims are dropped, is in privacy.csv.",
        folded=True,
    )  # fmt: skip


def clip_table(tables: Tables) -> Table:
    """What the two ways to remove negative counts do."""
    frame = tables["accuracy"].filter(
        pl.col("clip").is_in(["query", "cell"]),
        query="hispanic x race", group="everyone", metric="mse", attributes=6,
    )  # fmt: skip
    parts = []
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        away = (frame["parameter"] - epsilon).abs()
        parts.append(frame.filter(away == away.min()).with_columns(pl.lit(epsilon).alias("at")))
    wide = (
        pl.concat(parts)
        .group_by("buckets", "at", "clip", maintain_order=True)
        .agg(pl.col("mean").mean().sqrt())
        .pivot("clip", index=["buckets", "at"], values="mean")
    )
    return table_from_frame(
        wide.sort("buckets", "at"),
        name="clipping",
        caption="Negative counts set to 0 after summing, or cell by cell: error of a group's "
        "count.",
        columns=[
            Column(key="buckets", label="Age buckets", format="d"),
            Column(key="at", label="Promise", unit="ε", format="g"),
            Column(key="query", label="After summing", unit="people", format=",.2f"),
            Column(key="cell", label="Cell by cell", unit="people", format=",.2f"),
        ],
        notes="Root of the mean squared error over groups and block groups. Empty cells that are "
        "clipped one by one add phantom people to every group, the more the more cells there are.",
    )


def theorem_table(tables: Tables) -> Table:
    """Theorem 1 beside simulation."""
    return table_from_frame(
        tables["theorem_1"].with_columns(
            pl.col("share_in_area") * 100, pl.col("share_outside") * 100,
            *(pl.col(f"{kind}_{what}") * 100 for kind in ("expected", "simulated")
              for what in ("change", "absolute_change")),
        ),
        name="theorem-1",
        caption="Theorem 1: how a group's share changes under random swapping.",
        columns=[
            PLACE,
            Column(key="group", label="Group", format="d"),
            Column(key="rate", label="Swap rate", format="g"),
            Column(key="share_in_area", label="Share here", unit="%", format=".1f"),
            Column(key="share_outside", label="Share outside", unit="%", format=".1f"),
            Column(key="expected_change", label="Expected change", unit="points", format=".2f"),
            Column(key="simulated_change", label="simulated", unit="points", format=".2f"),
            Column(key="expected_absolute_change", label="Expected absolute change",
                   unit="points", format=".2f"),
            Column(key="simulated_absolute_change", label="simulated", unit="points",
                   format=".2f"),
        ],
        notes="The largest group of each block group, and the one whose share differs most from "
        "that outside. Rows are marked at random here, not uniques first; 200 runs.",
        folded=True,
    )  # fmt: skip


def variance_table(tables: Tables) -> Table:
    """Appendix A.3."""
    return table_from_frame(
        tables["variance"],
        name="variance",
        caption="Variance of a group's count that is summed over cells with noise, at ε = 4.",
        columns=[
            Column(key="attribute_combinations", label="Cells summed", format=",d"),
            Column(key="paper", label="Paper", unit="people²", format=".3f"),
            Column(key="exact", label="Exact", unit="people²", format=".3f"),
            Column(key="simulated", label="Simulated", unit="people²", format=".3f"),
        ],
        notes="The paper prints the last row as 100 cells; it is 1,000.",
    )
