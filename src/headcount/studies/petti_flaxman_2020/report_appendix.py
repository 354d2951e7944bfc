"""The tables of the paper's appendix beside ours."""

from __future__ import annotations

import polars as pl

from headcount.report.model import Column, Prose, Table, table_from_frame
from headcount.studies.petti_flaxman_2020.report_words import Tables

_LOSS = ".4g"


def epl_vs_epsilon_table(found: Tables) -> Table:
    """EPL of pure noise against epsilon."""
    return table_from_frame(
        found["appendix_epl_vs_epsilon"],
        name="appendix-epl-table",
        caption="EPL of pure noise against ε: the appendix, drawn again, and the truth.",
        columns=[
            Column(key="epsilon", label="ε stated", format="g"),
            Column(key="published_mean", label="Published", unit="mean of 10", format=_LOSS),
            Column(key="published_p2_5", label="", unit="2.5 %", format=_LOSS),
            Column(key="published_p97_5", label="", unit="97.5 %", format=_LOSS),
            Column(key="replayed_mean", label="Drawn again", unit="mean of 10", format=_LOSS),
            Column(key="replayed_p2_5", label="", unit="2.5 %", format=_LOSS),
            Column(key="replayed_p97_5", label="", unit="97.5 %", format=_LOSS),
            Column(key="mean_at_large_n", label="539,428 errors", unit="mean of 5", format=_LOSS),
            Column(key="true_loss", label="True loss", format=_LOSS),
        ],
        notes="Drawn again from the same random stream, so that it must agree to the digits "
        "printed. A dash: not printed.",
        folded=True,
    )


def sensitivity_table(found: Tables) -> Table:
    """One-way sensitivity of EPL."""
    return table_from_frame(
        found["appendix_sensitivity"],
        name="appendix-sensitivity-table",
        caption="One-way sensitivity of EPL: published, drawn again, and with the setting used.",
        columns=[
            Column(key="parameter", label="Setting"),
            Column(key="value", label="Value", format="g"),
            Column(key="published_mean", label="Published", unit="ignored", format=_LOSS),
            Column(key="replayed_mean", label="Drawn again", unit="ignored", format=_LOSS),
            Column(key="honoured_mean", label="Used", unit="mean", format=_LOSS),
            Column(key="honoured_p2_5", label="", unit="2.5 %", format=_LOSS),
            Column(key="honoured_p97_5", label="", unit="97.5 %", format=_LOSS),
            Column(key="honoured_share_defined", label="Defined", unit="share", format=".2f"),
        ],
        notes="The three published parts hold the same numbers: the setting was never passed on.",
        folded=True,
    )


def composition_table(found: Tables) -> Table:
    """Two measurements combined: the pairs of epsilon that were printed."""
    keys = ["epsilon_total", "epsilon_strata", "epsilon_sum"]
    both = found["appendix_composition"]
    printed = both.filter(pl.col("published").is_not_null()).select(*keys, "published", "epl")
    weighed = both.filter(weights="1 / variance").select(*keys, pl.col("epl").alias("weighed"))
    place = both["place"][0]
    return table_from_frame(
        printed.join(weighed, on=keys, how="left", maintain_order="left"),
        name="appendix-composition",
        caption=f"Composition: EPL of district totals from two noisy answers ({place}).",
        columns=[
            Column(key="epsilon_total", label="ε of totals", format="g"),
            Column(key="epsilon_strata", label="ε of strata", format="g"),
            Column(key="epsilon_sum", label="Promise", unit="sum", format="g"),
            Column(key="published", label="Published", unit="EPL", format=".3g"),
            Column(key="epl", label="This run", unit="weights as coded", format=".3g"),
            Column(key="weighed", label="This run", unit="weights 1/variance", format=".3g"),
        ],
        notes="As coded: weights 0.25 and 0.75, whatever the noise. The published numbers are of "
        "one draw on the real districts; only their size can be compared. An EPL far above "
        "the promise is a failure of the measure, since the promise is proved.",
        folded=True,
    )


def invariant_table(found: Tables) -> Table:
    """Exact totals and what they do to EPL."""
    frame = found["appendix_invariants"]
    return table_from_frame(
        frame,
        name="appendix-invariant",
        caption="Invariants: EPL of counts by age, race and ethnicity at ε = 0.25 under different "
        f"exact totals ({frame['place'][0]}).",
        columns=[
            Column(key="variant", label="What is held"),
            Column(key="published", label="Published", unit="EPL", format=".3g"),
            Column(key="epl", label="This run", unit="EPL", format=".3g"),
            Column(key="published_twice_median", label="Published", unit="2 × median",
                   format=".3g"),
            Column(key="twice_median", label="This run", unit="2 × median", format=".3g"),
            Column(key="share_zero", label="Errors of zero", unit="share", format=".2f"),
            Column(key="n", label="Errors", format=",d"),
        ],
        folded=True,
    )  # fmt: skip


def baseline_table(found: Tables) -> Table:
    """Errors of pure noise."""
    return table_from_frame(
        found["appendix_noise_baseline"],
        name="appendix-baseline",
        caption="Errors of pure two-sided geometric noise, a million draws.",
        columns=[
            Column(key="p", label="p passed on", format="g"),
            Column(key="z", label="True loss", format=".4f"),
            Column(key="published_mae", label="Median error", unit="published", format=".3g"),
            Column(key="mae", label="", unit="this run", format=".3g"),
            Column(key="published_p95", label="95 % within", unit="published", format=".3g"),
            Column(key="p95", label="", unit="this run", format=".3g"),
            Column(key="published_rmse", label="RMSE", unit="published", format=".4g"),
            Column(key="rmse", label="", unit="this run", format=".4g"),
            Column(key="rmse_exact", label="", unit="exact", format=".4g"),
        ],
        notes="Published: means of three executions.",
        folded=True,
    )


def scalars_table(found: Tables) -> Table:
    """Single numbers of the appendix."""
    return table_from_frame(
        found["appendix_scalars"],
        name="appendix-scalars",
        caption="Single numbers of the appendix that need no census data.",
        columns=[
            Column(key="quantity", label="Quantity"),
            Column(key="published", label="Published", format=".10g"),
            Column(key="ours", label="This run", format=".10g"),
            Column(key="difference", label="Difference", format="+.1g"),
        ],
        folded=True,
    )


def mistakes(found: Tables) -> Prose:
    """Where text and code of the paper part ways: a list, since no screen is wide enough."""
    rows = found["appendix_mistakes"].iter_rows(named=True)
    items = [
        f"- **{row['where'].capitalize()}.** Said: {row['said']}. In fact: {row['done']}. "
        f"*Here: {row['here']}.*"
        for row in rows
    ]
    return Prose("\n".join(items))
