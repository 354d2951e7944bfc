"""Charts over named groups, which the report of hawes-rodriguez-2021 alone has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from headcount.comparison.study import Findings
from headcount.report.figures import Control, series_legend, with_controls
from headcount.report.theme import INK, looks_for

if TYPE_CHECKING:
    from altair.typing import ChartType

_LOOKS = {
    "the attack": ("#332288", "circle"),
    "proportional guess": ("#E69F00", "diamond"),
    "modal guess": ("#5D5D5D", "triangle-right"),
}
_ERROR_TICKS = (0, 1, 3, 10, 30, 100, 300, 1000, 3000)


def bars(frame: pl.DataFrame, *, findings: Findings, controls: Sequence[Control]) -> ChartType:
    """Shares withheld at each level as bars, the slides' as ticks."""
    import altair as alt

    levels = frame["level"].unique(maintain_order=True).to_list()
    names = frame["table"].unique(maintain_order=True).to_list()
    colours = [look.colour for look in looks_for(names)]
    base = alt.Chart(frame).encode(
        x=alt.X("level:N", sort=levels, title=None, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("table:N", sort=names),
        tooltip=[
            "table",
            "level",
            alt.Tooltip("percent:Q", format=".1f", title="here (%)"),
            alt.Tooltip("slides:Q", format=".1f", title="slides, 2010 census (%)"),
        ],
    )
    here = base.mark_bar().encode(
        y=alt.Y("percent:Q", title="Withheld (%)", scale=alt.Scale(domain=[0, 100])),
        color=alt.Color(
            "table:N",
            title=None,
            sort=names,
            scale=alt.Scale(domain=names, range=colours),
            legend=series_legend(frame, "table", controls, strokes=False),
        ),
    )
    slides = base.mark_tick(color=INK, thickness=2.5).encode(
        y=alt.Y("slides:Q", title="Withheld (%)")
    )
    return _chosen(alt.LayerChart(layer=[here, slides]), frame, controls, height=300)


def precisions(
    frame: pl.DataFrame, *, findings: Findings, controls: Sequence[Control]
) -> ChartType:
    """Precision of every method with its interval, and both guesses on the same matches."""
    import altair as alt

    names = list(_LOOKS)
    colours, symbols = (
        alt.Scale(domain=names, range=[look[which] for look in _LOOKS.values()]) for which in (0, 1)
    )
    methods = frame["method"].unique(maintain_order=True).to_list()
    title = "Right, of those matched (%)"
    legend = series_legend(frame, "by", controls, strokes=False)
    base = alt.Chart(frame).encode(
        y=alt.Y(
            "method:N",
            sort=methods,
            title=None,
            axis=alt.Axis(labelPadding=12, grid=True, labelColor=INK),
        ),
        color=alt.Color("by:N", title=None, scale=colours, legend=legend),
        tooltip=[
            "method",
            "by",
            alt.Tooltip("rate:Q", format=".1f", title="right (%)"),
            alt.Tooltip("low:Q", format=".1f"),
            alt.Tooltip("high:Q", format=".1f"),
        ],
    )
    dots = base.mark_point(size=80, filled=True).encode(
        x=alt.X("rate:Q", title=title, scale=alt.Scale(domain=[0, 100])),
        shape=alt.Shape("by:N", title=None, scale=symbols, legend=legend),
    )
    reach = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    height = max(340, 26 * len(methods))
    return _chosen(alt.LayerChart(layer=[reach, dots]), frame, controls, height=height)


def by_category(
    frame: pl.DataFrame,
    *,
    findings: Findings,
    controls: Sequence[Control],
    joined: bool = False,
) -> ChartType:
    """Errors over named groups, one colour and symbol for each method; sizes are joined."""
    import altair as alt

    order = frame["group"].unique(maintain_order=True).to_list()
    names = frame["method"].unique(maintain_order=True).to_list()
    looks = looks_for(names)
    colour = alt.Scale(domain=names, range=[look.colour for look in looks])
    symbol = alt.Scale(domain=names, range=[look.symbol for look in looks])
    largest = float(frame["mae"].max() or 0)  # type: ignore[arg-type]
    ticks = [tick for tick in _ERROR_TICKS if tick <= max(1.5 * largest, 1)]
    title = "Mean absolute error (people)"
    legend = series_legend(frame, "method", controls, strokes=False)
    base = alt.Chart(frame).encode(
        x=alt.X("group:N", sort=order, title=None, axis=alt.Axis(labelAngle=-25)),
        y=alt.Y(
            "mae:Q",
            title=title,
            scale=alt.Scale(type="symlog", constant=1, nice=False),
            axis=alt.Axis(values=ticks, format=",d"),
        ),
        color=alt.Color("method:N", title=None, scale=colour, legend=legend),
        tooltip=["group", "method", alt.Tooltip("mae:Q", format=",.1f", title=title)],
    )
    line = base.mark_line(strokeWidth=1.25, opacity=0.6)
    dots = base.mark_point(size=75, filled=True).encode(
        shape=alt.Shape("method:N", title=None, scale=symbol, legend=legend)
    )
    layers = alt.LayerChart(layer=[line, dots] if joined else [dots])
    return _chosen(layers, frame, controls, height=300)


def _chosen(
    chart: Any, frame: pl.DataFrame, controls: Sequence[Control], *, height: int
) -> ChartType:
    """A chart of named groups with lists to choose from, as other figures have them."""
    finished: ChartType = with_controls(chart, frame, controls).properties(
        width="container", height=height
    )
    return finished
