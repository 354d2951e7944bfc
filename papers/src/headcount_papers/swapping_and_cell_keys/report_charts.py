"""The two charts of this study: what is given away against what it costs, and the risk surface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from headcount.comparison.study import Findings
from headcount.report.figures import Control, with_controls
from headcount.report.theme import GRID, HEAT, INK, MECHANISM_LOOKS, MUTED

if TYPE_CHECKING:
    from altair.typing import ChartType

SWAPPING, KEYS, ROUNDING, MIXED, TOPDOWN = (
    *("swapping alone", "cell keys alone", "rounding alone"),
    *("swap, then noise", "TopDown"),
)
_LOOKS = {
    SWAPPING: MECHANISM_LOOKS["raked"],
    KEYS: MECHANISM_LOOKS["geometric"],
    ROUNDING: replace(MECHANISM_LOOKS["rounding"], symbol="triangle-down"),
    MIXED: MECHANISM_LOOKS["identity"],
    TOPDOWN: MECHANISM_LOOKS["topdown"],
}
"""No two of these look alike in grey; swapping's own pink is too pale beside the others."""
_SIDES: dict[str, tuple[Any, int, int]] = {
    "left": ("right", -10, 7),
    "right": ("left", 10, -4),
    "above": ("left", -4, -14),
    "below": ("left", -6, 17),
    "far below": ("left", -6, 34),
}
"""Where words stand beside a point: alignment, and pixels to the right and down."""
_NAMES: dict[str, tuple[Any, int, int]] = {
    SWAPPING: ("left", 44, 0),
    KEYS: ("right", 0, 18),
    ROUNDING: ("right", -8, 0),
    MIXED: ("right", 0, 19),
    TOPDOWN: ("left", 0, -31),
}
"""Where the name of a family stands from the strength of its point."""
SHADES = (2.0, 5.0, 10.0, 25.0, 50.0)
"""Risks at which a field of the surface becomes a shade warmer."""


def trade_off(frame: pl.DataFrame, *, findings: Findings, controls: Sequence[Control]) -> ChartType:
    """Risk against error: a line for each way alone, with its strengths beside the points."""
    import altair as alt

    x = alt.X(
        "error:Q",
        title="Error: people counted wrongly, for each 100 counted",
        scale=alt.Scale(type="symlog", constant=1, domainMin=0, nice=False),
        axis=alt.Axis(values=[0, 1, 2, 5, 10, 20, 50, 100, 200], grid=True, gridColor=GRID),
    )
    y = alt.Y(
        "risk:Q",
        title="Risk: what an attacker wins by betting on small counts (%)",
        scale=alt.Scale(type="symlog", constant=10, domain=[-3, 105], nice=False),
        axis=alt.Axis(values=[0, 5, 10, 25, 50, 100]),
    )
    names = list(_LOOKS)
    colour = alt.Color(
        "family:N",
        scale=alt.Scale(domain=names, range=[look.colour for look in _LOOKS.values()]),
        legend=None,
    )
    tooltip = [
        alt.Tooltip("chain:N", title="chain"),
        alt.Tooltip("risk:Q", title="risk (%)", format=".1f"),
        alt.Tooltip("low:Q", title="from (95 %)", format=".1f"),
        alt.Tooltip("high:Q", title="to (95 %)", format=".1f"),
        alt.Tooltip("error:Q", title="wrong, of 100", format=".2f"),
    ]
    base = alt.Chart(frame).encode(x=x, y=y, color=colour, tooltip=tooltip)
    alone = base.transform_filter(alt.datum.family != MIXED)
    lined = alone.transform_filter(alt.datum.lined)
    symbols = alt.Shape(
        "family:N",
        scale=alt.Scale(domain=names, range=[look.symbol for look in _LOOKS.values()]),
        legend=None,
    )
    layers: list[Any] = [
        base.transform_filter(alt.datum.family == MIXED).mark_circle(size=42, opacity=0.5),
        lined.mark_line(strokeWidth=2.5).encode(order="strength:Q", detail="family:N"),
        alone.mark_rule(strokeWidth=1.5, opacity=0.6).encode(y="low:Q", y2="high:Q"),
        alone.mark_point(filled=True, size=100, opacity=1).encode(shape=symbols),
    ]
    for side, (align, dx, dy) in _SIDES.items():
        text = base.transform_filter(alt.datum.side == side)
        named = text.transform_filter(alt.datum.name != "")
        layers.append(
            text.transform_filter(alt.datum.label != "")
            .mark_text(align=align, dx=dx, dy=dy, fontSize=11.5)
            .encode(text="label:N", color=alt.value(MUTED))
        )
        for family in names:
            end, right, down = _NAMES[family]
            layers.append(
                named.transform_filter(alt.datum.family == family)
                .mark_text(align=end, dx=dx + right, dy=dy + down, fontSize=13.5, fontWeight=700)
                .encode(text="name:N", color=alt.value(INK))
            )
    chart: ChartType = with_controls(alt.LayerChart(layer=layers), frame, controls)
    return chart.properties(width="container", height=460)


def surface(frame: pl.DataFrame, *, findings: Findings, controls: Sequence[Control]) -> ChartType:
    """Risk at each swap rate and step of noise, with lines of equal risk and of equal error."""
    import altair as alt

    rates = _labels(frame, "x", pl.format("{} %", (100 * pl.col("rate")).cast(pl.Int64)))
    noise = pl.when(pl.col("noise") > 0).then(_number("noise")).otherwise(pl.lit("none"))
    steps = _labels(frame, "y", noise)

    def along(labels: Sequence[str], title: str, room: float = 0.0) -> dict[str, Any]:
        places = list(range(len(labels)))
        return {
            "title": title,
            "scale": alt.Scale(domain=[-0.5 - room, len(labels) - 0.5], nice=False),
            "axis": alt.Axis(values=places, labelExpr=_words(labels), grid=False),
        }

    # Lines are named to the left of their first place, which must not cover the other axis.
    across = along(rates, "Households swapped", room=0.35)
    upwards = along(steps, "Noise by cell keys: variance of a change")
    x, y = alt.X("x:Q", **across), alt.Y("y:Q", **upwards)
    shades = list(HEAT)[: len(SHADES) + 1]
    shade = alt.Color(
        "risk:Q",
        scale=alt.Scale(type="threshold", domain=list(SHADES), range=shades),
        legend=None,
    )
    fields = alt.Chart(frame).transform_calculate(
        left="datum.x - 0.5", right="datum.x + 0.5", below="datum.y - 0.5", above="datum.y + 0.5"
    )
    tooltip = [
        alt.Tooltip("rate:Q", title="swapped", format=".0%"),
        alt.Tooltip("method:N", title="then"),
        alt.Tooltip("risk:Q", title="risk (%)", format=".1f"),
        alt.Tooltip("low:Q", title="from (95 %)", format=".1f"),
        alt.Tooltip("high:Q", title="to (95 %)", format=".1f"),
        alt.Tooltip("error:Q", title="wrong, of 100", format=".2f"),
    ]
    lines = alt.Chart(findings.tables["contours"]).encode(x=x, y=y)
    risks = lines.transform_filter(alt.datum.of == "risk")
    errors = lines.transform_filter(alt.datum.of == "error")
    ends = alt.Chart(_line_ends(findings.tables["contours"])).encode(x=x, y=y)
    layers: list[Any] = [
        fields.mark_rect(stroke="white", strokeWidth=1).encode(
            x=alt.X("left:Q", **across),
            x2="right:Q",
            y=alt.Y("below:Q", **upwards),
            y2="above:Q",
            color=shade,
            tooltip=tooltip,
        ),
        risks.mark_line(color=INK, strokeWidth=2.25).encode(detail="value:N", order="x:Q"),
        errors.mark_line(color=_LOOKS[KEYS].colour, strokeWidth=2, strokeDash=[5, 4]).encode(
            detail="value:N", order="x:Q"
        ),
        ends.transform_filter(alt.datum.of == "risk")
        .mark_text(align="right", dx=-6, fontSize=12, fontWeight=700, color=INK)
        .encode(text="label:N"),
        ends.transform_filter(alt.datum.of == "error")
        .mark_text(align="center", dy=14, fontSize=12, fontWeight=700, color=_LOOKS[KEYS].colour)
        .encode(text="label:N"),
    ]
    numbers = fields.encode(
        x=alt.X("right:Q", **across),
        y=alt.Y("above:Q", **upwards),
        text=alt.Text("risk:Q", format=".0f"),
    )
    corner: dict[str, Any] = {
        "align": "right",
        "baseline": "top",
        "dx": -5,
        "dy": 5,
        "fontSize": 12,
    }
    layers += [
        numbers.mark_text(stroke="white", strokeWidth=3, strokeJoin="round", **corner),
        numbers.mark_text(color=INK, **corner),
    ]
    chart: ChartType = with_controls(alt.LayerChart(layer=layers), frame, controls)
    return chart.properties(width="container", height=440)


def _line_ends(contours: pl.DataFrame) -> pl.DataFrame:
    """Where each line is named: on the left end of a line of risk, the lower one of an error."""
    found = contours.sort("x", maintain_order=True).group_by("of", "value", maintain_order=True)
    first, last = found.first(), found.last()
    ends = pl.concat([first.filter(of="risk"), last.filter(of="error")])
    return ends.with_columns(label=pl.format("{} {} %", "of", pl.col("value").cast(pl.Int64)))


def _labels(frame: pl.DataFrame, place: str, words: pl.Expr) -> list[str]:
    named = frame.select(place, words.alias("words")).unique().sort(place)
    return named["words"].to_list()


def _words(labels: Sequence[str]) -> str:
    return f"{list(labels)}[datum.value]"


def _number(column: str) -> pl.Expr:
    return pl.col(column).map_elements(lambda number: f"{number:g}", return_dtype=pl.String)
