"""The tables of the report of flaxman-2019."""

from __future__ import annotations

import polars as pl

from headcount.report.model import Column, Table, table_from_frame
from headcount.studies.flaxman_2019 import EXACT, PUBLISHED, FlaxmanStudy

MECHANISM = Column(key="mechanism", label="Method")
EPSILON = Column(key="epsilon", label="Promise", unit="ε", format="g")


def epl_table(study: FlaxmanStudy) -> Table:
    """Error and empirical loss of both variants."""
    both = pl.concat(
        study.figure.epl(variant).with_columns(pl.lit(variant).alias("noise"))
        for variant in (PUBLISHED, EXACT)
    )
    ratio = (pl.col("median_abs_epl") / pl.col("epsilon")).alias("ratio")
    return table_from_frame(
        both.with_columns(ratio).sort("mechanism", "epsilon", maintain_order=True),
        name="epl",
        caption=f"Error and empirical privacy loss (EPL), means over {study.replicates} "
        "replicates, for the noise of the paper's code (published) and the exact mechanism.",
        columns=[
            MECHANISM,
            EPSILON,
            Column(key="noise", label="Noise"),
            Column(key="residual_sd", label="SD of errors", unit="people", format=",.1f"),
            Column(key="median_abs_residual", label="Median error", unit="people", format=".1f"),
            Column(key="median_abs_epl", label="Median |EPL|", format=".4f"),
            Column(key="ratio", label="Median |EPL| / ε", format=".2f"),
            Column(key="max_abs_epl", label="Largest |EPL|", format=".4f"),
        ],
        notes=f"Kernel factor {study.settings.kernel_factor:g}, range: "
        f"{study.settings.range_multiplier:g} times the {study.settings.range_percentile:g}th "
        "percentile. The promise ε is for one person added or removed. Means of raked at 0.025 "
        "are ruled by a few runs.",
    )


def claims_table(study: FlaxmanStudy) -> Table:
    """The published numbers against this run."""
    words = {
        "residual_sd": "SD of errors",
        "median_abs_residual": "median error",
        "median_abs_epl": "median |EPL|",
        "median_abs_epl / epsilon": "median |EPL| / ε",
    }
    frame = study.claims.select(
        pl.col("quantity").replace_strict(words),
        "mechanism",
        "epsilon",
        "published",
        "ours",
        (100 * pl.col("relative_difference")).alias("difference"),
        (100 * pl.col("tolerance")).alias("tolerance"),
        pl.when(pl.col("within").is_null())
        .then(pl.lit("not judged"))
        .otherwise(pl.when("within").then(pl.lit("yes")).otherwise(pl.lit("no")))
        .alias("within"),
    )
    return table_from_frame(
        frame,
        name="claims",
        caption="The published numbers against this run (published variant, means over "
        f"{study.replicates} replicates).",
        columns=[
            Column(key="quantity", label="Quantity"),
            MECHANISM,
            EPSILON,
            Column(key="published", label="Published", format=",.4g"),
            Column(key="ours", label="This run", format=",.4g"),
            Column(key="difference", label="Difference", unit="%", format="+.1f"),
            Column(key="tolerance", label="Tolerance", unit="±%", format=".0f"),
            Column(key="within", label="Within"),
        ],
        notes="Published values come from one run with its own chance error: the standard "
        "deviation of 9,261 geometric errors has a standard error of about 1.2 %. Raked at 0.025 "
        "has no stable loss and is not judged.",
    )


def losses_table(study: FlaxmanStudy) -> Table:
    """What the published variant really loses."""
    frame = study.losses.filter(pl.col("variant") == PUBLISHED)
    return table_from_frame(
        frame,
        name="true-losses",
        caption="What the published variant really loses.",
        columns=[
            MECHANISM,
            Column(key="epsilon", label="ε stated", format="g"),
            Column(key="true_loss_add_remove", label="True loss",
                   unit="one person added or removed", format=".5f"),
            Column(key="true_loss_change_one", label="True loss",
                   unit="one person's record changes", format=".5f"),
        ],
        notes="−n ln(1 − ε/n) for n equal shares: 1 for geometric, "
        f"{study.settings.parts} for raked and averaged. The two losses are of different units and "
        "are not to be compared with each other. The exact mechanism loses what it states.",
        folded=True,
    )  # fmt: skip


def audit_table(study: FlaxmanStudy) -> Table:
    """Lower bounds from guessing games."""
    frame = study.audits.with_columns(
        pl.when("control").then(pl.lit("null test (raked)"))
        .otherwise(pl.col("mechanism")).alias("mechanism")
    )  # fmt: skip
    return table_from_frame(
        frame,
        name="audit",
        caption="Lower bounds on the loss when one person's record changes, exact mechanism.",
        columns=[
            MECHANISM,
            EPSILON,
            Column(key="looks_at", label="Looks at"),
            Column(key="promised_loss", label="Promised at most", unit="one record changes",
                   format=".2f"),
            Column(key="audit_epsilon_lower", label="Proved at least", unit="one record changes",
                   format=".3f"),
            Column(key="confidence", label="Confidence", format=".0%"),
            Column(key="runs_each", label="Runs", unit="on each population", format=",d"),
            Column(key="correct", label="Right guesses", format=",d"),
            Column(key="guesses", label="of", format=",d"),
        ],
        notes="Each bound holds at its own confidence. At zero the audit found nothing. ε is for "
        "one person added or removed; the promise and the bound beside it are for one record that "
        "changes. In the null test nobody moved: a bound above zero would be a false alarm.",
    )  # fmt: skip


def sweep_table(study: FlaxmanStudy) -> Table:
    """Every setting tried."""
    return table_from_frame(
        study.sweep,
        name="sweep-table",
        caption="Every setting tried, exact mechanism.",
        columns=[
            Column(key="parameter", label="Setting"),
            Column(key="value", label="Value", format=",g"),
            MECHANISM,
            EPSILON,
            Column(key="areas", label="Areas", format=",d"),
            Column(key="residual_sd", label="Standard deviation", unit="people", format=",.3g"),
            Column(key="median_abs_epl", label="Median |EPL|", format=".4g"),
            Column(key="max_abs_epl", label="Largest |EPL|", format=".4g"),
            Column(key="epl_over_epsilon", label="Median |EPL| / ε", format=".2f"),
            Column(key="defined", label="Replicates", unit="where defined", format="d"),
        ],
        notes="A dash means that the density was zero somewhere in the range, so that the recipe "
        "gives no number.",
        folded=True,
    )


def levels_table(study: FlaxmanStudy) -> Table:
    """Errors at every level."""
    return table_from_frame(
        study.levels,
        name="levels",
        caption="Errors at every level, exact mechanism.",
        columns=[
            MECHANISM,
            EPSILON,
            Column(key="level", label="Level"),
            Column(key="units", label="Units", format=",d"),
            Column(key="median_abs_residual", label="Median error", unit="people", format=",.1f"),
            Column(key="median_abs_percent", label="Median error", unit="% of mean count",
                   format=".3g"),
            Column(key="p95_abs_residual", label="95 % of errors within", unit="people",
                   format=",.0f"),
            Column(key="residual_sd", label="SD of errors", unit="people", format=",.0f"),
        ],
        notes=f"All runs of {study.replicates} replicates together. Geometric and averaged are "
        "added up from areas.",
        folded=True,
    )  # fmt: skip
