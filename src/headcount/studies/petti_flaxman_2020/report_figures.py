"""The figures of the study petti-flaxman-2020."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import polars as pl

from headcount.report.figures import Axis, Control, control_name, line_chart
from headcount.report.model import Figure
from headcount.report.theme import INK
from headcount.studies.petti_flaxman_2020.report_empty import hide_anchors, with_anchors
from headcount.studies.petti_flaxman_2020.report_words import (
    ALIKE,
    Tables,
    compared,
    count_named,
    headline,
    in_order,
    level_named,
    promise_named,
    shortly,
)

if TYPE_CHECKING:
    from altair.typing import ChartType

SERIES = {
    ("SC", "county"): "age × race: counties",
    ("SC", "enumeration_district"): "age × race: districts",
    ("TC", "county"): "totals of counties",
    ("TC", "enumeration_district"): "totals of districts",
}
COUNTS = Control(column="counts", label="Counts")
PLACES = Control(column="place", label="Level")
ERROR = "Error: protected minus exact count (people)"
_POINTS = 140  # a curve needs no more to look smooth
_SAMPLES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
ERROR_TICKS = (0, 1, 3, 10, 30, 100, 300, 1000)
MAE_TICKS = tuple(m * 10.0**k for k in range(5) for m in (1, 2, 5))
EPL_TICKS = tuple(m * 10.0**k for k in range(-3, 2) for m in (1, 2, 5))
EPSILON_TICKS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def error_figure(tables: Tables) -> Figure:
    """How far off counts are, by epsilon."""
    words = {"mae": "half of all counts are nearer", "p95": "19 of 20 are nearer"}
    frame = (
        in_order(tables["topdown"])
        .unpivot(list(words), index=["count_type", "level", "epsilon"], variable_name="which")
        .select(count_named(), level_named(), "epsilon",
                pl.col("which").replace_strict(words).alias("line"), pl.col("value").alias("error"))
    )  # fmt: skip
    return Figure(
        name="errors-by-epsilon",
        caption="**How far a protected count is from the true one.** Choose what is counted and "
        f"for which places.{_errors_told(tables['topdown'])}",
        alt="Two lines against epsilon: the median error and the 95th percentile.",
        chart=line_chart(
            frame,
            x=Axis(column="epsilon", title="Promise ε (smaller is stronger)", scale="log",
                   ticks=EPSILON_TICKS, format="~g"),
            y=Axis(column="error", title="Error (people)", scale="symlog", format=",d", zero=True,
                   ticks=ERROR_TICKS),
            series="line", points=True, controls=[COUNTS, PLACES], height=300,
        ),
    )  # fmt: skip


def _errors_told(topdown: pl.DataFrame) -> str:
    """What the table shows of errors, as far as it does."""
    text = ""
    falls = pl.col("rmse").sort_by("epsilon").diff().fill_null(0) <= 0
    if topdown["epsilon"].n_unique() > 1 and (
        topdown.group_by("count_type", "level").agg(falls.all())["rmse"].all()
    ):
        text += " The larger ε, the smaller the error."
    exact = topdown.filter(count_type="TC", level="state")["max"]
    if exact.len() and (exact == 0).all():
        text += " Totals of states are published as they are: their error is zero."
    return text


def sample_figure(tables: Tables) -> Figure | None:
    """Which sample TopDown is like, for every epsilon and kind of count; None if like none."""
    kinds = {f"{count_type} {level}": words for (count_type, level), words in SERIES.items()}
    kind = pl.format("{} {}", "count_type", "level")
    frame = (
        compared(tables)
        .filter("alike", kind.is_in(list(kinds)))
        .select(kind.replace_strict(kinds).alias("counts"), "epsilon",
                (100 * pl.col("fraction_interpolated")).alias("sample"))
    )  # fmt: skip
    if frame.is_empty():
        return None
    return Figure(
        name="samples",
        caption="**Which sample is TopDown like?** The size of the sample that comes nearest in "
        "error and empirical privacy loss. A setting that is like no sample, error or loss being "
        f"apart by more than a factor of {ALIKE:g}, has no point. (Age × race: counts by age, race "
        "and ethnicity.)",
        alt="Lines against epsilon: the sample that TopDown is like, for kinds of counts.",
        chart=line_chart(
            frame,
            x=Axis(column="epsilon", title="Promise ε (smaller is stronger)", scale="log",
                   ticks=EPSILON_TICKS, format="~g"),
            y=Axis(column="sample", title="Size of the sample (%)", format=".0f", domain=(0, 100)),
            series="counts", points=True, height=300,
        ),
    )  # fmt: skip


def residual_figure(tables: Tables) -> Figure:
    """Figure 1 (a) of the paper, for any level, count and epsilon, with a sample beside it."""
    epsilon = headline(tables["topdown"]["epsilon"])
    chart = line_chart(
        _curves(tables).drop("loss"),
        x=Axis(column="x", title=ERROR),
        y=Axis(column="share", title="Share of counts per person of error (%)", format=".2~g",
               zero=True),
        series="method", controls=[COUNTS, PLACES], height=280,
    )  # fmt: skip
    return Figure(
        name="figure-1a",
        caption="**The errors of all counts of one kind**, smoothed as in the paper: how common "
        f"each size of error is, TopDown beside a sample.{_hump(tables['curves'], epsilon)} The "
        "largest twentieth of errors is not drawn. *Choose counts, level, ε and the size of the "
        "sample.* (The paper's figure 1 a.)",
        alt="Curves of the density of errors around zero.",
        chart=_choose_parameters(chart, tables, epsilon),
    )


def _hump(curves: pl.DataFrame, epsilon: float) -> str:
    """Whether errors of stratified counts in districts are commonest just below zero."""
    rows = curves.filter(mechanism="topdown", count_type="SC", level="enumeration_district",
                         parameter=epsilon)  # fmt: skip
    if rows.is_empty() or not -10 < rows.sort("density")["x"][-1] < 0:
        return ""
    return (
        " By age, race and ethnicity in districts there is a hump just below zero: cells of one "
        "or a few people that came out empty."
    )


def loss_figure(tables: Tables) -> Figure:
    """Figure 1 (b) of the paper, for any level, count and epsilon, with a sample beside it."""
    epsilon = headline(tables["topdown"]["epsilon"])
    chart = line_chart(
        _curves(tables).drop("share").drop_nulls(),
        x=Axis(column="x", title=ERROR),
        y=Axis(column="loss", title="Empirical privacy loss at x", format=".2~f"),
        series="method", controls=[COUNTS, PLACES], height=280,
    )  # fmt: skip
    return Figure(
        name="figure-1b",
        caption="**What an error of each size gives away**: how much likelier, in logarithms, an "
        "error of x is than one of x + 1. The farthest point from zero is the **empirical privacy "
        "loss** (EPL). Where counts are few the curve wanders, and its farthest point is then "
        "chance. *Choose as above.* (The paper's figure 1 b.)",
        alt="Curves of the empirical privacy loss against the error.",
        chart=_choose_parameters(chart, tables, epsilon),
    )


def _curves(tables: Tables) -> pl.DataFrame:
    """Thinned curves: ``choice`` is the epsilon or the sample as a word."""
    by = ["count_type", "level", "mechanism", "parameter"]
    every = (pl.len().over(by) // _POINTS).clip(lower_bound=1)
    epsilons = tables["topdown"]["epsilon"].unique().to_list()
    kept = (pl.col("mechanism") == "topdown") & pl.col("parameter").is_in(epsilons)
    kept |= (pl.col("mechanism") == "sampling") & pl.col("parameter").round(4).is_in(_SAMPLES)
    # Where TopDown has no curve one point stands in for it, too short a line to be seen.
    lacking = tables["topdown"].filter(pl.col("epl").is_null()).select(
        "count_type", "level", mechanism=pl.lit("topdown"), parameter="epsilon",
        x=pl.lit(0.0), density=pl.lit(0.0), epl=pl.lit(0.0),
    )  # fmt: skip
    return (
        in_order(pl.concat([tables["curves"].filter(kept), lacking]))
        .filter(pl.int_range(pl.len()).over(by) % every == 0)
        .select(
            count_named(),
            level_named(),
            pl.col("mechanism").alias("method"),
            pl.col("parameter").round(4),
            pl.col("x").round(2),
            (100 * pl.col("density")).round_sig_figs(4).alias("share"),
            pl.col("epl").fill_nan(None).round_sig_figs(4).alias("loss"),
        )
    )


def _choose_parameters(chart: Any, tables: Tables, epsilon: float) -> ChartType:
    """Two more lists: epsilon for TopDown, and the size of a sample, or none, beside it."""
    import altair as alt

    epsilons = sorted(tables["topdown"]["epsilon"].unique())
    labels = ["none", *(f"{100 * fraction:g} %" for fraction in _SAMPLES)]
    chosen_epsilon = alt.param(
        name=control_name("epsilon"),
        value=epsilon,
        bind=alt.binding_select(options=epsilons, name="Promise ε"),
    )
    chosen_sample = alt.param(
        name=control_name("sample"),
        value=0.5,
        bind=alt.binding_select(options=[0.0, *_SAMPLES], labels=labels, name="Sample"),
    )
    method, parameter = alt.datum.method, alt.datum.parameter
    keep = ((method == "topdown") & (parameter == chosen_epsilon)) | (
        (method == "sampling") & (parameter == chosen_sample)
    )
    chart = chart.add_params(chosen_epsilon, chosen_sample).transform_filter(keep)
    note = _undefined_note(tables)
    if note is None:
        return cast("ChartType", chart)
    width, height = chart.width, chart.height
    chart.width = chart.height = alt.Undefined
    return alt.LayerChart(layer=[chart, note]).properties(width=width, height=height)


def _undefined_note(tables: Tables) -> Any:
    """A line in place of TopDown's curve where there is none, such as for totals of states."""
    import altair as alt

    missing = in_order(tables["topdown"].filter(pl.col("epl").is_null())).select(
        count_named(), level_named(), pl.col("epsilon").alias("parameter")
    )
    if missing.is_empty():
        return None
    here = (
        f"datum.counts === {control_name('counts')} && datum.place === {control_name('place')} "
        f"&& datum.parameter === {control_name('epsilon')}"
    )
    text = "topdown: no curve, because its errors are all zero or nearly so"
    return (
        alt.Chart(missing)
        .transform_filter(here)
        .mark_text(align="left", color=INK, tooltip=None, text=text)
        .encode(x=alt.value(14), y=alt.value(12))
    )


def tradeoff_figure(tables: Tables) -> Figure:
    """Figure 2 of the paper for any level and count."""
    frame = with_anchors(
        _tradeoff(tables), ["counts", "place"], places={"mae": (1.0, 10.0), "epl": (0.1, 1.0)}
    )
    chart = line_chart(
        frame,
        x=Axis(column="mae", title="Median error (people): less accurate to the right",
               scale="log", ticks=MAE_TICKS, format=",~g"),
        y=Axis(column="epl", title="Empirical privacy loss", scale="log", ticks=EPL_TICKS,
               format="~g"),
        series="method", points=True, controls=[COUNTS, PLACES], height=400,
    )  # fmt: skip
    return Figure(
        name="figure-2",
        caption="**What privacy costs in accuracy.** Each point is one setting: an ε of TopDown, "
        "or the size of a sample. Down and to the left is better on both counts: less is given "
        "away *and* the counts are nearer. Where the curves meet, TopDown at that ε behaves like "
        "that sample. The figure opens on counts by age, race and ethnicity in counties, the "
        "paper's choice; *other counts and levels tell another story: choose.* A setting whose "
        "median error is zero or whose loss is undefined cannot be drawn; totals of states under "
        "TopDown are always exact. (The paper's figure 2.)",
        alt="Two curves of empirical privacy loss against median error, one for TopDown over "
        "epsilon and one for sampling over the size of the sample.",
        chart=hide_anchors(_labelled(chart, frame), frame, ["counts", "place"]),
    )


def _tradeoff(tables: Tables) -> pl.DataFrame:
    columns = ["count_type", "level", "mae", "epl"]
    topdown = tables["topdown"].select(
        *columns, pl.lit("topdown").alias("method"), promise_named().alias("setting"),
        pl.lit(True).alias("named"), pl.col("epsilon").alias("step"),
    )  # fmt: skip
    share = pl.format("{} %", shortly("fraction", times=100))
    named = pl.col("fraction").round(4).is_in(_SAMPLES)
    sampling = tables["sampling"].select(
        *columns, pl.lit("sampling").alias("method"), share.alias("setting"),
        named.alias("named"), pl.col("fraction").alias("step"),
    )  # fmt: skip
    both = pl.concat([topdown, sampling]).filter((pl.col("mae") > 0) & pl.col("epl").is_not_null())
    first = pl.col("level").replace_strict({"county": 0, "enumeration_district": 1, "state": 2})
    return both.sort(pl.col("count_type") == "TC", first, maintain_order=True).select(
        count_named(), level_named(), "method", "setting", "mae", "epl", "named", "step"
    )


def _labelled(chart: Any, frame: pl.DataFrame) -> ChartType:
    """Write the setting beside its point, and into every tooltip."""
    import altair as alt

    tooltip = [
        alt.Tooltip("method:N"),
        alt.Tooltip("setting:N"),
        alt.Tooltip("mae:Q", title="median error (people)", format=",.3~g"),
        alt.Tooltip("epl:Q", title="empirical privacy loss", format=".3~g"),
    ]
    chart.layer = [layer.encode(tooltip=tooltip) for layer in chart.layer]
    # Medians tie: join the points by their setting, not from left to right.
    chart.layer[0] = chart.layer[0].encode(order="step:Q")
    # One layer for both methods: one without a label would leave its axes without an extent.
    above = "datum.method === 'topdown'"
    labels = (
        alt.Chart(frame)
        .transform_filter(alt.datum.named)
        .mark_text(
            align=alt.expr(f"{above} ? 'left' : 'right'"),
            dx=alt.expr(f"{above} ? 8 : -8"),
            dy=alt.expr(f"{above} ? -8 : 10"),
            fontSize=11.5,
            color=INK,
            tooltip=None,
        )
        .encode(x="mae:Q", y="epl:Q", text="setting:N")
    )
    labelled: ChartType = chart + labels
    return labelled
