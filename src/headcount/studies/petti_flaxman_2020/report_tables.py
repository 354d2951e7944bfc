"""The tables of the report of petti-flaxman-2020."""

from __future__ import annotations

import polars as pl

from headcount.report.model import Column, Table, table_from_frame
from headcount.studies.petti_flaxman_2020.report_words import (
    ALIKE,
    LEVEL_NAMES,
    Tables,
    compared,
    count_named,
    in_order,
    level_named,
    same_error,
    shown_epsilons,
)

PLACES = Column(key="place", label="Places")
COUNTS = Column(key="counts", label="Counts")
TABLE_1 = {1.0: 0.5, 2.0: 0.75, 4.0: 0.9, 6.0: 0.95}
"""The paper's own, judged by eye."""
ERRORS = (
    Column(key="mae", label="Median error", unit="people", format=",.4g"),
    Column(key="p95", label="19 of 20 within", unit="people", format=",.4g"),
    Column(key="max", label="Largest", unit="people", format=",.4g"),
    Column(key="rmse", label="RMSE", unit="people", format=",.4g"),
)
EPSILON = Column(key="epsilon", label="Promise", unit="ε", format="g")


def meaning_table(tables: Tables) -> Table:
    """The size of an error beside the size of a count."""
    shown = shown_epsilons(tables["topdown"]["epsilon"])
    sizes = tables["sizes"].select(
        "count_type", "level", pl.col("median").alias("typical"), pl.col("p95").alias("large")
    )
    frame = in_order(sizes)
    columns = [
        COUNTS,
        PLACES,
        Column(key="typical", label="Typical count", unit="people", format=",.0f"),
    ]
    for epsilon in shown:
        key = f"{epsilon:g}"
        rows = tables["topdown"].filter(pl.col("epsilon") == epsilon)
        frame = frame.join(
            rows.select("count_type", "level", pl.col("mae").alias(f"mae {key}")),
            on=["count_type", "level"], how="left", maintain_order="left",
        ).with_columns(
            (100 * pl.col(f"mae {key}") / pl.col("typical")).alias(f"share {key}")
        )  # fmt: skip
        columns += [
            Column(key=f"mae {key}", label=f"ε = {key}", unit="people", format=",.3g"),
            Column(key=f"share {key}", label="", unit="%", format=".2g"),
        ]
    return table_from_frame(
        frame.with_columns(count_named(), level_named()),
        name="meaning",
        caption="How large is the error beside the count? Median count, and median error in people "
        "and in percent of it.",
        columns=columns,
        notes="Half of all counts are smaller than the typical one, and half of all errors are "
        "larger than the one given; both are over counts that are not empty. The same error in "
        "people is a far larger one in percent of a small count.",
    )


def equivalence_table(tables: Tables) -> Table:
    """Table 1 of the paper, with the method that it does without."""
    found = compared(tables).filter(count_type="SC", level="county").sort("epsilon")
    same = [
        same_error(tables, count_type="SC", level="county", epsilon=epsilon)
        for epsilon in found["epsilon"]
    ]
    frame = found.with_columns(
        pl.col("epsilon")
        .replace_strict(TABLE_1, default=None, return_dtype=pl.Float64)
        .alias("paper"),
        pl.Series("same_error", same, dtype=pl.Float64),
        pl.when("alike").then(pl.lit("yes")).otherwise(pl.lit("no")).alias("word"),
    ).with_columns(pl.col("paper", "fraction", "fraction_low", "fraction_high", "same_error") * 100)
    method = found["method"][0] if found.height else "none"
    return table_from_frame(
        frame,
        name="table-1",
        caption="The sample that TopDown resembles most: people by age, race and ethnicity in "
        "counties. (The paper's table 1.)",
        columns=[
            EPSILON,
            Column(key="paper", label="Paper", unit="by eye, %", format=".0f"),
            Column(key="fraction", label="Nearest sample", unit="%", format=".0f"),
            Column(key="fraction_low", label="Chance", unit="from, %", format=".0f"),
            Column(key="fraction_high", label="", unit="to, %", format=".0f"),
            Column(key="error_ratio", label="TopDown / it", unit="error", format=".2f"),
            Column(key="loss_ratio", label="", unit="loss", format=".2f"),
            Column(key="word", label="Alike?"),
            Column(key="same_error", label="Same error", unit="sample, %", format=".0f"),
        ],
        notes=f"Nearest sample: {method}. TopDown / it: error and loss of TopDown over those of "
        f"that sample; where both are within a factor of {ALIKE:g} we call them alike. Same "
        "error: the sample with the nearest median error, whatever its loss. Chance: two "
        "standard errors to each side, found by leaving out one run after the other, to the "
        "nearest of the samples. A dash: error or loss is undefined.",
    )


def judged(paper: pl.DataFrame) -> pl.DataFrame:
    """The quoted numbers with their kind, and whether ours is ``near`` or at least ``roughly`` so.

    Errors are whole numbers and table 1 goes by 5 points, so they may differ by one such step.
    """
    kind = pl.lit("sizes of exact counts")
    for start, part, name in _KINDS:
        there = pl.col("quantity").str.starts_with(start) & pl.col("quantity").str.contains(
            part, literal=True
        )
        kind = pl.when(there).then(pl.lit(name)).otherwise(kind)
    step = (
        pl.when(pl.col("quantity").str.contains("median absolute error"))
        .then(1.0)
        .when(pl.col("quantity").str.starts_with("Table 1"))
        .then(0.05)
        .otherwise(0.0)
    )
    gap, size = pl.col("difference").abs() - 1e-9, pl.col("paper").abs()
    return paper.with_columns(
        kind.alias("kind"),
        (gap <= pl.max_horizontal(0.10 * size, step)).alias("near"),
        (gap <= pl.max_horizontal(0.25 * size, step)).alias("roughly"),
    )


_KINDS = (
    ("TopDown", "error", "TopDown: errors"),
    ("TopDown", "EPL", "TopDown: EPL"),
    ("TopDown", "bias", "TopDown: bias by homogeneity"),
    ("sample", "error", "samples: errors"),
    ("sample", "EPL", "samples: EPL"),
    ("Table 1", "", "table 1"),
)


def agreement_table(tables: Tables) -> Table:
    """How many quoted numbers agree, by kind."""
    ratio = pl.when(pl.col("paper") != 0).then(pl.col("ours") / pl.col("paper"))
    frame = (
        judged(tables["paper"])
        .group_by("kind", maintain_order=True)
        .agg(
            pl.len().alias("quoted"),
            pl.col("ours").count().alias("there"),
            pl.col("near").sum(),
            pl.col("roughly").sum(),
            ratio.median().alias("ratio"),
        )
    )
    return table_from_frame(
        frame,
        name="agreement",
        caption="How many of the quoted numbers come out again.",
        columns=[
            Column(key="kind", label="Kind"),
            Column(key="quoted", label="Quoted", format="d"),
            Column(key="there", label="In this run", format="d"),
            Column(key="near", label="Agree", unit="within 10 %", format="d"),
            Column(key="roughly", label="Agree", unit="within 25 %", format="d"),
            Column(key="ratio", label="This run / paper", unit="median", format=".2f"),
        ],
        notes="Losses of samples are compared by the recipe behind the printed ones, which the "
        "paper does not mention; see [published mistakes](#section-is-epl-a-good-measure).",
    )


def paper_table(tables: Tables) -> Table:
    """Every number of the paper's results text beside ours."""
    word = (
        pl.when(pl.col("ours").is_null())
        .then(pl.lit("not run"))
        .when("near")
        .then(pl.lit("yes"))
        .when("roughly")
        .then(pl.lit("roughly"))
        .otherwise(pl.lit("no"))
    )
    frame = judged(tables["paper"]).with_columns(word.alias("agrees"))
    return table_from_frame(
        frame,
        name="paper-numbers",
        caption=f"All {frame.height} numbers of the paper's results beside this run's.",
        columns=[
            Column(key="quantity", label="Quantity"),
            Column(key="paper", label="Paper", format=",.7g"),
            Column(key="ours", label="This run", format=",.4g"),
            Column(key="difference", label="Difference", format="+,.3g"),
            Column(key="agrees", label="Agrees"),
        ],
        folded=True,
    )


def targets_table(tables: Tables) -> Table:
    """Published rows beyond the results text."""
    word = (
        pl.when(pl.col("within").is_null())
        .then(pl.lit("not judged"))
        .when("within")
        .then(pl.lit("yes"))
        .otherwise(pl.lit("no"))
    )
    frame = tables["targets"].with_columns(
        word.alias("kept"), pl.col("level").replace(LEVEL_NAMES).alias("place")
    )
    return table_from_frame(
        frame,
        name="targets",
        caption=f"{frame.height} numbers of the extended data and notebooks, and what must hold.",
        columns=[
            Column(key="mechanism", label="Method"),
            Column(key="count_type", label="Counts"),
            PLACES,
            Column(key="parameter", label="Setting", unit="ε or share", format="g"),
            Column(key="homogeneity_index", label="Index", format="d"),
            Column(key="statistic", label="Number"),
            Column(key="published", label="Published", format=",.4g"),
            Column(key="ours", label="This run", format=",.4g"),
            Column(key="tolerance", label="Tolerance", format=",.3g"),
            Column(key="rule", label="Rule"),
            Column(key="kept", label="Kept"),
        ],
        notes="Published: the paper's number, or the one that a law asks for. Most are judged by a "
        "tolerance; signs, the order of the bias and losses below ε by being so.",
        folded=True,
    )


def whole_table(tables: Tables) -> Table:
    """8 x 2 x 3: the paper's extended data."""
    return table_from_frame(
        in_order(tables["topdown"]).with_columns(count_named(), level_named()),
        name="topdown-table",
        caption="TopDown at every ε: errors and empirical privacy loss. (The paper's extended "
        "data.)",
        columns=[
            COUNTS,
            PLACES,
            EPSILON,
            *ERRORS,
            Column(key="mean_error", label="Mean error", unit="people", format="+,.2f"),
            Column(key="epl", label="EPL", unit="as published", format=".3f"),
            Column(key="epl_calibrated", label="EPL", unit="corrected", format=".3f"),
        ],
        notes="RMSE: root mean square error. Corrected: see [](#small-samples). A dash: "
        "undefined, because all errors are equal.",
        folded=True,
    )


def sampling_table(tables: Tables) -> Table:
    """19 x 2 x 3 for sampling."""
    return table_from_frame(
        in_order(tables["sampling"]).with_columns(
            count_named(), level_named(), pl.col("fraction") * 100
        ),
        name="sampling-table",
        caption="Simple random samples of every size: errors and empirical privacy loss.",
        columns=[
            COUNTS,
            PLACES,
            Column(key="fraction", label="Sample", unit="%", format=".0f"),
            *ERRORS,
            Column(key="epl", label="EPL", unit="as published", format=".3f"),
        ],
        notes="A sample has no differential-privacy guarantee at any size: whoever is in it is in "
        f"it with every answer.{_one_state(tables)}",
        folded=True,
    )


def _one_state(tables: Tables) -> str:
    """A sample of one state has the state's own total, but for rounding."""
    if tables["sizes"].filter(count_type="TC", level="state")["cells"].to_list() != [1]:
        return ""
    return (
        " This run is on one state, and the sample is drawn from the whole: so the state's total "
        "is exact by construction, but for rounding to whole people."
    )


def fit_table(tables: Tables) -> Table:
    """The synthetic population beside the published facts."""
    word = (
        pl.when(pl.col("within").is_null())
        .then(pl.lit("not judged"))
        .when("within")
        .then(pl.lit("yes"))
        .otherwise(pl.lit("no"))
    )
    return table_from_frame(
        tables["fit"].with_columns(
            word.alias("kept"), pl.col("level").replace(LEVEL_NAMES).alias("place")
        ),
        name="fit",
        caption="This population beside what is published of the 1940 census.",
        columns=[
            Column(key="quantity", label="Quantity"),
            Column(key="place", label="Level"),
            Column(key="target", label="Published", format=",.6g"),
            Column(key="achieved", label="This population", format=",.6g"),
            Column(key="difference", label="Difference", format="+,.4g"),
            Column(key="tolerance", label="Tolerance", format=",.4g"),
            Column(key="kept", label="Within"),
        ],
        notes="Tolerances are in the unit of the figure.",
        folded=True,
    )
