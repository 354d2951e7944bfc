"""Is the empirical privacy loss a good measure? The section for methodologists."""

from __future__ import annotations

import polars as pl

from headcount.report.figures import Axis, Control, Reference, band_chart, line_chart
from headcount.report.model import Block, Callout, Figure, Prose, Section, Subheading
from headcount.studies.petti_flaxman_2020 import report_appendix as appendix
from headcount.studies.petti_flaxman_2020.report_empty import hide_anchors, with_anchors
from headcount.studies.petti_flaxman_2020.report_words import (
    LEVEL_NAMES,
    LEVELS,
    Tables,
    count_named,
    in_order,
    level_named,
    listed,
)

TITLE = "Is EPL a good measure?"
LOSS_TICKS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
EPSILON_TICKS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_LINES = {
    "epl": "EPL as published",
    "epl_calibrated": "corrected for few errors",
    "epsilon": "promise ε",
}
_SETTINGS = {
    "bandwidth": "width of the kernel",
    "percentile": "percentile of the range",
    "multiplier": "multiplier of the range",
}


def measure_section(found: Tables) -> Section:
    """What EPL shows, what it misses, and where the paper's case for it is mistaken."""
    blocks: tuple[Block, ...] = (
        Subheading("Too high when errors are few"),
        Prose(
            "EPL is quick and needs no second run, which is why it was invented. But it is the "
            "*largest* value of a wavering curve, and the largest of many wavering values is too "
            "high, more so the fewer errors there are. For noise whose true loss is known the "
            "excess can be computed, and taken off: the **corrected** EPL is the loss of that pure "
            "noise which, with as many errors, would on average show the EPL seen."
        ),
        small_sample_figure(found),
        pure_noise_figure(found),
        Callout(
            "note",
            "Compare EPLs only between equal numbers of errors. Those of states and counties are "
            "inflated most. What remains after the correction is still no guarantee: it looks at "
            "one count at a time, and TopDown publishes all of them, at four levels.",
        ),
        Subheading("The appendix's case for it"),
        Prose(
            "The paper's appendix tests EPL on pure noise in the 2,663 districts of Washington, "
            "where it comes out near ε. But that noise loses only half of ε: its rate is ε/2. The "
            "other half is the excess of a maximum over few errors; the two happen to cancel. "
            "With as many errors as the nation's districts have, EPL settles near the true loss."
        ),
        appendix_figure(found),
        appendix.epl_vs_epsilon_table(found),
        Prose(
            "Nor is it true that EPL hardly depends on how it is computed. The published tables of "
            "sensitivity ignore the setting that they vary."
        ),
        sensitivity_figure(found),
        appendix.sensitivity_table(found),
        Subheading("Composition and invariants"),
        Prose(
            "Two more examples of the appendix ask what happens when two noisy answers are "
            "combined, and when some totals are exact. They are run again here as coded and as "
            "described. EPL jumps where estimates pile up at zero: it then measures the pile, "
            "not what is given away."
        ),
        appendix.composition_table(found),
        appendix.invariant_table(found),
        appendix.baseline_table(found),
        appendix.scalars_table(found),
        Subheading("Published mistakes, by name"),
        appendix.mistakes(found),
    )
    return Section(title=TITLE, blocks=blocks)


def small_sample_figure(found: Tables) -> Figure:
    """EPL beside its calibrated value and the promise."""
    frame = (
        in_order(found["topdown"].filter(pl.col("epl").is_not_null()))
        .with_columns(pl.col("epsilon").alias("at"))
        .unpivot(list(_LINES), index=["count_type", "level", "at"], variable_name="which",
                 value_name="loss")
        .drop_nulls()
        .select(count_named(), level_named(), "at",
                pl.col("which").replace_strict(_LINES).alias("line"), "loss")
    )  # fmt: skip
    choices = ["counts", "place"]
    frame = with_anchors(frame, choices, places={"at": (0.25, 8.0), "loss": (0.1, 1.0)})
    chart = line_chart(
        frame,
        x=Axis(column="at", title="Promise ε", scale="log", ticks=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
               format="~g"),
        y=Axis(column="loss", title="Privacy loss", scale="log", format="~g", ticks=LOSS_TICKS),
        series="line", points=True, height=320,
        controls=[Control(column="counts", label="Counts"),
                  Control(column="place", label="Level")],
    )  # fmt: skip
    return Figure(
        name="small-samples",
        caption="**Few errors make EPL look worse than it is.** EPL of TopDown as the paper "
        "computes it, and corrected for the number of errors, beside the promise."
        f"{_corrections(found['topdown'])} Where no pure noise would show the EPL seen, or noise "
        "of scales far apart would, there is no corrected value.",
        alt="Lines against epsilon: the promise, the EPL as published, and the corrected EPL.",
        chart=hide_anchors(chart, frame, choices),
    )


def _corrections(topdown: pl.DataFrame) -> str:
    """What is left of EPL after the correction, at the median of each level."""
    left = topdown.select("level", (pl.col("epl_calibrated") / pl.col("epl")).alias("left"))
    there = dict(left.drop_nulls().group_by("level").median().iter_rows())
    told = [
        f"{100 * there[level]:.0f} % for {LEVEL_NAMES[level].lower()}"
        for level in LEVELS
        if level in there
    ]
    return f" What is left of it, at the median: {listed(told)}." if told else ""


def pure_noise_figure(found: Tables) -> Figure:
    """EPL over the true loss for pure noise, by the number of errors."""
    number = pl.col("n").map_elements(lambda n: f"{n:,} errors", pl.String)
    frame = found["appendix_pure_noise"].drop_nulls().select(
        number.alias("errors"), "z", "ratio",
        (pl.col("p05") / pl.col("z")).alias("low"), (pl.col("p95") / pl.col("z")).alias("high"),
    )  # fmt: skip
    return Figure(
        name="pure-noise",
        caption="**By how much EPL overstates the loss of pure noise**, for as many errors as "
        "states, Washington's districts, counties and districts give (the first, third and "
        "fourth over four runs). At 1 it would be right. Bands hold 9 of 10 draws.",
        alt="EPL over true loss, far above one for 204 errors and close to one for 539,428.",
        chart=band_chart(
            frame,
            x=Axis(column="z", title="True loss of the noise", scale="log", ticks=EPSILON_TICKS,
                   format="~g"),
            y=Axis(column="ratio", title="EPL / true loss", scale="log", format="~g",
                   ticks=(0.5, 1.0, 2.0, 5.0, 10.0, 20.0)),
            low="low", high="high", series="errors", height=300,
            references=[Reference(label="right", y=1.0)],
        ),
    )  # fmt: skip


def appendix_figure(found: Tables) -> Figure:
    """EPL against epsilon in the appendix, and what is behind it."""
    lines = {
        "replayed_mean": "EPL of 2,663 errors",
        "mean_at_large_n": "EPL of 539,428 errors",
        "true_loss": "true loss of the noise",
    }
    frame = (
        found["appendix_epl_vs_epsilon"]
        .unpivot(list(lines), index="epsilon", variable_name="which", value_name="loss")
        .drop_nulls()
        .select("epsilon", pl.col("which").replace_strict(lines).alias("line"),
                (pl.col("loss") / pl.col("epsilon")).alias("ratio"))
    )  # fmt: skip
    return Figure(
        name="appendix-epl",
        caption="**Why EPL seemed to equal ε.** The appendix's noise at each ε: its true loss is "
        "about half of ε, EPL from 2,663 errors is about twice that. (The appendix's numbers, "
        "drawn again from its own random stream.)",
        alt="EPL over epsilon: near one for the appendix's numbers, near one half for many errors "
        "and for the true loss.",
        chart=line_chart(
            frame,
            x=Axis(column="epsilon", title="ε as stated in the appendix", scale="log",
                   ticks=EPSILON_TICKS, format="~g"),
            y=Axis(column="ratio", title="Loss / ε", format=".2f", zero=True),
            series="line", points=True, height=280,
            references=[Reference(label="ε", y=1.0)],
        ),
    )  # fmt: skip


def sensitivity_figure(found: Tables) -> Figure:
    """One-way sensitivity, as published and with the setting used."""
    lines = {"published_mean": "setting ignored, as published", "honoured_mean": "setting used"}
    frame = (
        found["appendix_sensitivity"]
        .unpivot(list(lines), index=["parameter", "value"], variable_name="which",
                 value_name="epl")
        .drop_nulls()
        .select(pl.col("parameter").replace_strict(_SETTINGS).alias("setting"), "value",
                pl.col("which").replace_strict(lines).alias("line"), "epl")
    )  # fmt: skip
    return Figure(
        name="appendix-sensitivity",
        caption="**What EPL depends on.** Mean EPL of the appendix's noise (ε = 0.25, true loss "
        "0.134, 2,663 errors) with one setting moved. *Choose the setting.*",
        alt="EPL against a setting: flat as published, rising or falling steeply when the setting "
        "is used.",
        chart=line_chart(
            frame,
            x=Axis(column="value", title="Value of the setting", scale="log", format="~g"),
            y=Axis(column="epl", title="Mean EPL", scale="log", format="~g",
                   ticks=LOSS_TICKS),
            series="line", points=True, height=280,
            controls=[Control(column="setting", label="Setting")],
        ),
    )  # fmt: skip
