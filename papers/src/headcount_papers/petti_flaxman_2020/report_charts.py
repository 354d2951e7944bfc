"""Charts of this report that ``report.toml`` cannot describe: more lists, labels, and a switch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from headcount.comparison.study import Findings
from headcount.report.figures import (
    Control,
    band_chart,
    control_name,
    line_chart,
    series_legend,
    with_controls,
)
from headcount.report.theme import INK, MUTED, looks_for
from headcount_papers.petti_flaxman_2020.empty_choices import hide_anchors

if TYPE_CHECKING:
    from altair.typing import ChartType

_CHOICES = ["counts", "place"]


def with_empty_choices(frame: pl.DataFrame, *, findings: Findings, **about: Any) -> ChartType:
    """Lines; a choice that has none says so."""
    return hide_anchors(line_chart(frame, **about), frame, _CHOICES)


def with_a_spread(frame: pl.DataFrame, *, findings: Findings, **about: Any) -> ChartType:
    """Bands that a checkbox hides, so that the means have the axes to themselves."""
    import altair as alt

    chart: Any = band_chart(frame, **about)
    spread = alt.param(
        name=control_name("spread"), value=True, bind=alt.binding_checkbox(name="Show the spread")
    )
    for column in (about["low"], about["high"]):
        shown = f"{control_name('spread')} ? datum.{column} : datum.{about['y'].column}"
        chart = chart.transform_calculate(**{column: shown})
    return cast("ChartType", chart.add_params(spread))


def of_a_setting(frame: pl.DataFrame, *, findings: Findings, **about: Any) -> ChartType:
    """Curves with two more lists: epsilon for TopDown, and a sample, or none, beside it."""
    import altair as alt

    tables = findings.tables
    epsilons = sorted(tables["topdown"]["epsilon"].unique())
    sizes = sorted(frame.filter(method="sampling")["parameter"].unique())
    epsilon = alt.param(
        name=control_name("epsilon"),
        value=findings.facts["epsilon"],
        bind=alt.binding_select(options=epsilons, name="Promise ε"),
    )
    sample = alt.param(
        name=control_name("sample"),
        value=0.5,
        bind=alt.binding_select(
            options=[0.0, *sizes],
            labels=["none", *(f"{100 * size:g} %" for size in sizes)],
            name="Sample",
        ),
    )
    method, parameter = alt.datum.method, alt.datum.parameter
    keep = ((method == "topdown") & (parameter == epsilon)) | (
        (method == "sampling") & (parameter == sample)
    )
    chart: Any = line_chart(frame, **about)
    chart = chart.add_params(epsilon, sample).transform_filter(keep)
    missing = _without_curve(findings)
    _list_only_drawn(chart, missing)
    if missing.is_empty():
        return cast("ChartType", chart)
    names = {"counts": "counts", "place": "place", "parameter": "epsilon"}
    here = " && ".join(f"datum.{key} === {control_name(name)}" for key, name in names.items())
    note = (
        alt.Chart(missing)
        .transform_filter(here)
        .mark_text(
            align="left",
            color=INK,
            tooltip=None,
            text="topdown: no curve, because its errors are all zero or nearly so",
        )
        .encode(x=alt.value(14), y=alt.value(12))
    )
    width, height = chart.width, chart.height
    chart.width = chart.height = alt.Undefined
    return alt.LayerChart(layer=[chart, note]).properties(width=width, height=height)


def _list_only_drawn(chart: Any, missing: pl.DataFrame) -> None:
    """Leave out of the legend what has no curve: TopDown at some choices, and no sample."""
    import altair as alt

    lacking = " || ".join(
        f"({control_name('counts')} === {json.dumps(counts)} && {control_name('place')} === "
        f"{json.dumps(place)} && {control_name('epsilon')} === {epsilon!r})"
        for counts, place, epsilon in missing.iter_rows()
    )
    drawn = alt.ExprRef(
        f"{control_name('sample')} === 0 ? ['topdown'] : "
        f"({lacking or 'false'}) ? ['sampling'] : ['topdown', 'sampling']"
    )
    for layer in chart.layer:
        for channel in ("color", "strokeDash"):
            encoding = getattr(layer.encoding, channel)
            if encoding is not alt.Undefined:
                encoding.legend.values = drawn


def _without_curve(findings: Findings) -> pl.DataFrame:
    """Choices for which TopDown has no curve, such as totals of states."""
    from headcount_papers.petti_flaxman_2020.report import VIEWS

    rows: pl.DataFrame = VIEWS["topdown-table"](findings)
    return rows.filter(pl.col("epl").is_null()).select(
        "counts", "place", pl.col("epsilon").alias("parameter")
    )


def trade_off(frame: pl.DataFrame, *, findings: Findings, **about: Any) -> ChartType:
    """Points joined by their setting, with the setting beside them and in every tooltip."""
    import altair as alt

    chart: Any = line_chart(frame, **about)
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
    return hide_anchors(chart + labels, frame, _CHOICES)


def groups(frame: pl.DataFrame, *, findings: Findings, **about: Any) -> ChartType:
    """One row for each group, one symbol for each epsilon."""
    import altair as alt

    promises, names = (
        frame[column].unique(maintain_order=True).to_list() for column in ("promise", "group")
    )
    levels = [Control(column="place", label="Level")]
    looks = looks_for(promises)
    colour = alt.Scale(domain=promises, range=[look.colour for look in looks])
    symbol = alt.Scale(domain=promises, range=[look.symbol for look in looks])
    pick = alt.selection_point(fields=["promise"], bind="legend")
    legend = series_legend(frame, "promise", levels, strokes=False)
    dots = (
        alt.Chart(frame)
        .mark_point(size=90)
        .encode(
            x=alt.X(
                "mean_error:Q",
                title="Mean error (people)",
                axis=alt.Axis(format="+,.2~g", tickCount=6),
            ),
            y=alt.Y("group:N", title=None, sort=names, axis=alt.Axis(grid=True, labelFontSize=13)),
            color=alt.Color("promise:N", title=None, scale=colour, legend=legend),
            shape=alt.Shape("promise:N", title=None, scale=symbol, legend=legend),
            opacity=alt.when(pick).then(alt.value(1.0)).otherwise(alt.value(0.1)),
            tooltip=[
                alt.Tooltip("group:N"),
                alt.Tooltip("promise:N"),
                alt.Tooltip("mean_error:Q", title="mean error (people)", format="+,.2f"),
                alt.Tooltip("mean_absolute_error:Q", title="mean size of error", format=",.2f"),
            ],
        )
    )
    zero = alt.Chart(pl.DataFrame({"at": [0.0]})).mark_rule(color=MUTED, tooltip=None)
    shown = with_controls(alt.LayerChart(layer=[dots.add_params(pick)]), frame, levels)
    chart = alt.LayerChart(layer=[zero.encode(x="at:Q"), shown])
    drawn: ChartType = chart.properties(width="container", height=26 * len(names))
    return drawn
