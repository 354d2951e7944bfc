"""Choices of a figure that have nothing to draw: they say so, and their axes stay finite."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from headcount.report.figures import control_name
from headcount.report.theme import INK

if TYPE_CHECKING:
    from altair.typing import ChartType

ANCHOR = "anchor"
"""Column that marks a row which only holds the axes of an empty choice in place."""
NOTHING = "nothing to draw: errors are all zero or nearly so, or the loss is undefined"


def with_anchors(
    frame: pl.DataFrame, choices: list[str], *, places: Mapping[str, tuple[float, float]]
) -> pl.DataFrame:
    """The frame with two rows more for each combination of ``choices`` that it lacks.

    ``places`` has two values for each numeric column; other columns get the frame's first value.
    """
    there = set(frame.select(choices).unique().iter_rows())
    options = [frame[column].unique(maintain_order=True).to_list() for column in choices]
    lacking = [one for one in product(*options) if one not in there]
    first = frame.row(0, named=True)
    rows = [
        first
        | dict(zip(choices, one, strict=True))
        | {name: two[i] for name, two in places.items()}
        for one in lacking
        for i in (0, 1)
    ]
    marked = frame.with_columns(pl.lit(False).alias(ANCHOR))
    if not rows:
        return marked
    more = pl.DataFrame(rows, schema=frame.schema).with_columns(pl.lit(True).alias(ANCHOR))
    return pl.concat([marked, more])


def hide_anchors(chart: Any, frame: pl.DataFrame, choices: list[str]) -> ChartType:
    """Draw no anchor, and a line of text in its place."""
    import altair as alt

    lacking = frame.filter(ANCHOR).select(choices).unique(maintain_order=True)
    if lacking.is_empty():
        return cast("ChartType", chart)
    hidden = alt.datum[ANCHOR]
    for layer in _units(chart):
        layer.encoding.opacity = _unless(hidden, layer.encoding.opacity)
        layer.encoding.tooltip = alt.Undefined if _is_line(layer) else layer.encoding.tooltip
    here = " && ".join(f"datum.{column} === {control_name(column)}" for column in choices)
    note = (
        alt.Chart(lacking)
        .transform_filter(here)
        .mark_text(align="left", color=INK, tooltip=None, text=NOTHING)
        .encode(x=alt.value(14), y=alt.value(12))
    )
    width, height = chart.width, chart.height
    chart.width = chart.height = alt.Undefined
    return alt.LayerChart(layer=[chart, note]).properties(width=width, height=height)


def _units(chart: Any) -> list[Any]:
    layers = getattr(chart, "layer", None)
    return [chart] if layers is None else [unit for one in layers for unit in _units(one)]


def _is_line(layer: Any) -> bool:
    mark = layer.mark
    return (mark if isinstance(mark, str) else mark.type) == "line"


def _unless(hidden: Any, opacity: Any) -> Any:
    """The same opacity, but none for anchors."""
    import altair as alt

    none = {"test": hidden.to_dict() if hasattr(hidden, "to_dict") else str(hidden), "value": 0}
    if opacity is alt.Undefined:
        return {"condition": [none], "value": 1}
    known = opacity.to_dict()
    before = known.pop("condition", [])
    return {"condition": [none, *(before if isinstance(before, list) else [before])], **known}
