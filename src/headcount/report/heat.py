"""A chart of shaded fields: one colour for each range of percentages, the same in every report."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from headcount.report.figures import (
    Control,
    checked_as_a_whole,
    require_columns,
    with_controls,
)
from headcount.report.model import HEAT_STEPS
from headcount.report.specs import MOST_LABELS, Axis, field_of
from headcount.report.theme import HEAT

if TYPE_CHECKING:
    import polars as pl
    from altair.typing import ChartType

SHADE = "shade"
"""The column that holds the range of a percentage."""
ROW, LEAST = 26, 120
"""Pixels of a row, and of the smallest chart."""


def _shades() -> list[str]:
    """The ranges that have a colour each, in words."""
    steps = [f"{step:,g}" for step in HEAT_STEPS]
    between = [f"{low} to {high}" for low, high in pairwise(steps)]
    return [f"below {steps[0]}", *between, f"{steps[-1]} or more"]


@checked_as_a_whole
def heat_chart(
    frame: pl.DataFrame,
    *,
    x: Axis,
    y: Axis,
    value: Axis,
    controls: Sequence[Control] = (),
) -> ChartType:
    """Draw a field for each row of the frame at ``x`` and ``y``, shaded by ``value``, a percentage.

    Where ``x`` has no names its column has them, in the order of the frame, as chosen.
    """
    import altair as alt
    import polars as pl

    require_columns(frame, "heat chart", [x.column, y.column, value.column])
    names = _shades()
    warmth = [bisect_right(HEAT_STEPS, abs(number)) for number in frame[value.column]]
    frame = frame.with_columns(pl.Series(SHADE, [names[one] for one in warmth]))
    shade = alt.Color(
        f"{SHADE}:N",
        title=value.title,
        scale=alt.Scale(domain=names, range=list(HEAT)),
        legend=alt.Legend(symbolType="square", columns=4, symbolStrokeWidth=0),
    )
    rows = y.names or tuple(dict.fromkeys(frame[y.column].to_list()))
    columns = x.names or tuple(dict.fromkeys(frame[x.column].to_list()))
    across = alt.X(
        f"{field_of(x.column)}:N",
        title=x.title,
        sort=list(columns),
        axis=alt.Axis(labelAngle=-40, labelOverlap=len(columns) > MOST_LABELS, labelLimit=110),
    )
    down = alt.Y(
        f"{field_of(y.column)}:N",
        title=None,
        sort=list(rows),
        axis=alt.Axis(labelLimit=170, domain=False, ticks=False),
    )
    tooltip = [
        alt.Tooltip(f"{field_of(y.column)}:N", title=y.title),
        alt.Tooltip(f"{field_of(x.column)}:N", title=x.title),
        alt.Tooltip(f"{field_of(value.column)}:Q", title=value.title, format=",.3~g"),
    ]
    fields = (
        alt.Chart(frame)
        .mark_rect(stroke="white", strokeWidth=1)
        .encode(x=across, y=down, color=shade, tooltip=tooltip)
    )
    chart: ChartType = with_controls(fields, frame, controls)
    return chart.properties(width="container", height=max(LEAST, ROW * len(rows)))
