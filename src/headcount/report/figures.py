"""Charts from polars frames, in one style: lines, points, bands and histograms.

Every chart has tooltips, a legend that picks out a series on a click, and optional controls (a
list from which the reader chooses, say, a level or an epsilon). A chart is an ordinary altair
chart: a study may change or layer it further.
"""

from __future__ import annotations

import html
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headcount.errors import InputError
from headcount.files import write_bytes_atomic, write_text_atomic
from headcount.report.axes import Axis as Axis
from headcount.report.axes import axis_of, field_of, scale_of
from headcount.report.theme import INK, MUTED, looks_for, ordered_series, theme_config

if TYPE_CHECKING:
    import altair as alt
    import polars as pl
    from altair.typing import ChartType

log = logging.getLogger(__name__)

STATIC_WIDTH = 660  # pixels: a chart that fills its column on screen needs a width on paper


@dataclass(frozen=True, kw_only=True)
class Control:
    """A list from which the reader chooses one value of a column; others are left out."""

    column: str
    label: str
    initial: str | float | int | None = None


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A straight line to compare with: at a height ``y`` or at a place ``x``, with a label."""

    label: str
    y: float | None = None
    x: float | None = None


def line_chart(
    frame: pl.DataFrame,
    *,
    x: Axis,
    y: Axis,
    series: str,
    points: bool = False,
    controls: Sequence[Control] = (),
    references: Sequence[Reference] = (),
    height: int = 340,
) -> ChartType:
    """Draw one line for each value of ``series``; ``points`` marks the values on it."""
    _require_columns(frame, "line chart", [x.column, y.column, series])
    base, pick = _base(frame, x=x, y=y, series=series, strokes=not points)
    line = _line(base, frame, series=series, pick=pick, dashed=not points)
    dots = _dots(base, frame, series=series, pick=pick, visible=points)
    return _finish([line, dots.add_params(pick)], frame, controls, references, height)


def two_scale_chart(
    frame: pl.DataFrame,
    *,
    x: Axis,
    top: Axis,
    y: Axis,
    series: str,
    controls: Sequence[Control] = (),
    references: Sequence[Reference] = (),
    height: int = 340,
) -> ChartType:
    """Draw lines of two kinds at one height: over ``x`` below, or over ``top`` above.

    A row has a value in one of the two columns and none in the other.
    """
    import altair as alt

    _require_columns(frame, "two-scale chart", [x.column, top.column, y.column, series])
    sides = []
    for axis in (x, top):
        base, pick = _base(frame, x=axis, y=y, series=series, strokes=True)
        base = base.encode(
            x=alt.X(
                f"{field_of(axis.column)}:Q",
                title=axis.title,
                scale=scale_of(axis, padded=False),
                axis=alt.Axis(
                    orient="top" if axis is top else "bottom", grid=axis is x, tickCount=6
                ),
            )
        ).transform_filter(alt.datum[axis.column] != None)  # noqa: E711
        line = _line(base, frame, series=series, pick=pick, dashed=True)
        dots = _dots(base, frame, series=series, pick=pick, visible=False)
        sides.append(alt.LayerChart(layer=[line, dots.add_params(pick)]))
    both = alt.LayerChart(layer=sides).resolve_scale(x="independent")
    return _finish([both], frame, controls, references, height)


def point_chart(
    frame: pl.DataFrame,
    *,
    x: Axis,
    y: Axis,
    series: str,
    controls: Sequence[Control] = (),
    references: Sequence[Reference] = (),
    height: int = 340,
) -> ChartType:
    """Draw one symbol for each row."""
    _require_columns(frame, "point chart", [x.column, y.column, series])
    base, pick = _base(frame, x=x, y=y, series=series, strokes=False)
    dots = _dots(base, frame, series=series, pick=pick, visible=True)
    return _finish([dots.add_params(pick)], frame, controls, references, height)


def band_chart(
    frame: pl.DataFrame,
    *,
    x: Axis,
    y: Axis,
    low: str,
    high: str,
    series: str,
    points: bool = True,
    controls: Sequence[Control] = (),
    references: Sequence[Reference] = (),
    height: int = 340,
) -> ChartType:
    """Draw a line for each series with a shaded band from ``low`` to ``high`` around it."""
    import altair as alt

    _require_columns(frame, "band chart", [x.column, y.column, low, high, series])
    base, pick = _base(frame, x=x, y=y, series=series, strokes=not points, also=(low, high))
    band = base.mark_area().encode(
        y=alt.Y(f"{field_of(low)}:Q", title=y.title, scale=scale_of(y, padded=True)),
        y2=alt.Y2(field_of(high)),
        opacity=_faded_unless(pick, shown=0.18, hidden=0.03),
        tooltip=alt.value(None),
    )
    line = _line(base, frame, series=series, pick=pick, dashed=not points)
    dots = _dots(base, frame, series=series, pick=pick, visible=points)
    return _finish([band, line, dots.add_params(pick)], frame, controls, references, height)


def histogram_chart(
    frame: pl.DataFrame,
    *,
    value: Axis,
    series: str,
    bin_width: float,
    y_title: str = "Share of values (%)",
    controls: Sequence[Control] = (),
    references: Sequence[Reference] = (),
    height: int = 340,
) -> ChartType:
    """Overlay the distributions of ``value.column``, one outline for each series.

    Values are counted here, in bins of ``bin_width`` centred on its multiples, so that the file
    holds the bins and not the values. Shares are of all values of the series (and control
    choice), including any outside ``value.domain``.
    """
    import altair as alt

    _require_columns(frame, "histogram", [value.column, series])
    by = [series, *(control.column for control in controls)]
    binned = bin_values(frame, column=value.column, bin_width=bin_width, by=by)
    if value.domain is not None:
        binned = binned.filter(binned["middle"].is_between(*value.domain))
    x = Axis(
        column="middle",
        title=value.title,
        scale=value.scale,
        format=value.format,
        domain=value.domain,
        ticks=value.ticks,
    )
    y = Axis(column="share", title=y_title, format=".3~g", zero=True)
    base, pick = _base(binned, x=x, y=y, series=series, strokes=True)
    area = base.mark_area(interpolate="step", clip=True).encode(
        y=alt.Y(
            "share:Q", title=y.title, scale=scale_of(y, padded=True), axis=axis_of(y), stack=None
        ),
        opacity=_faded_unless(pick, shown=0.08, hidden=0.02),
    )
    line = base.mark_line(interpolate="step", strokeWidth=1.75, clip=True).encode(
        opacity=_faded_unless(pick, shown=1.0)
    )
    dots = _dots(base, binned, series=series, pick=pick, visible=False)
    return _finish([area, line, dots.add_params(pick)], frame, controls, references, height)


def chart_spec(chart: ChartType, *, alt_text: str = "", static: bool = False) -> dict[str, Any]:
    """The complete Vega-Lite specification of a chart: theme, data and description included.

    ``static`` gives a chart that fills its column a width of its own, for a file.
    """
    import altair as alt

    theme = alt.theme.ThemeConfig(config=theme_config())  # type: ignore[typeddict-item]
    alt.theme.register("headcount", enable=False)(lambda: theme)
    # In a context: a notebook's own theme and row limit stay as they were.
    with (
        alt.theme.enable("headcount"),
        alt.data_transformers.enable("default", max_rows=None),
    ):
        spec: dict[str, Any] = chart.to_dict()
    if alt_text:
        spec["description"] = alt_text
    if static and spec.get("width") == "container":
        spec["width"] = STATIC_WIDTH
    return spec


def save_figure(chart: ChartType, path_without_suffix: Path, *, alt_text: str = "") -> None:
    """Write ``path_without_suffix`` + ``.svg`` and ``.png`` (twice the pixels, for print)."""
    import vl_convert

    target = Path(path_without_suffix)
    spec = chart_spec(chart, alt_text=alt_text, static=True)
    version = vegalite_version()
    svg = vl_convert.vegalite_to_svg(spec, vl_version=version, allowed_base_urls=[])
    if alt_text:
        label = html.escape(alt_text, quote=True)
        svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    png = vl_convert.vegalite_to_png(spec, vl_version=version, scale=2, allowed_base_urls=[])
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomic(target.with_name(target.name + ".svg"), svg)
    write_bytes_atomic(target.with_name(target.name + ".png"), png)
    log.debug("wrote figure %s as svg and png", target)


def vegalite_version() -> str:
    """The Vega-Lite version, as "6.4", that altair writes and that must draw its charts."""
    import altair as alt

    major, minor, *_ = str(alt.SCHEMA_VERSION).removeprefix("v").split(".")
    return f"{major}.{minor}"


def _base(
    frame: pl.DataFrame, *, x: Axis, y: Axis, series: str, strokes: bool, also: Sequence[str] = ()
) -> tuple[alt.Chart, alt.Parameter]:
    """Axes, colours and tooltip shared by the layers of a chart, and its legend selection."""
    import altair as alt

    shown = [c for c in frame.columns if c in {x.column, y.column, series, *also}]
    numeric = {c: x.format if c == x.column else y.format for c in shown if c != series}
    titles = {x.column: x.title, y.column: y.title}
    tooltip = [alt.Tooltip(f"{field_of(series)}:N", title=_plain(series))]
    for column, number_format in numeric.items():
        named = column == x.column and bool(x.names)
        extra: dict[str, Any] = {} if named else {"format": number_format or ",.4~g"}
        title = titles.get(column, _plain(column))
        kind = "N" if named else "Q"
        tooltip.append(alt.Tooltip(f"{field_of(column)}:{kind}", title=title, **extra))
    names, looks = _series(frame, series)
    colour = alt.Color(
        f"{field_of(series)}:N",
        title=None,
        scale=alt.Scale(domain=names, range=[look.colour for look in looks]),
        legend=_legend(strokes=strokes, many=len(names) > 6),
    )
    chart = alt.Chart(frame).encode(
        x=x.encode(alt.X, padded=False),
        y=y.encode(alt.Y, padded=True),
        color=colour,
        tooltip=tooltip,
    )
    return chart, alt.selection_point(fields=[series], bind="legend")


def _line(
    base: alt.Chart, frame: pl.DataFrame, *, series: str, pick: alt.Parameter, dashed: bool
) -> alt.Chart:
    """Lines: dashed to tell them apart in black and white, or solid where symbols do that."""
    line: alt.Chart = base.mark_line().encode(opacity=_faded_unless(pick, shown=1.0))
    if dashed:
        line = line.encode(strokeDash=_dash_encoding(frame, series))
    return line


def _dots(
    base: alt.Chart, frame: pl.DataFrame, *, series: str, pick: alt.Parameter, visible: bool
) -> alt.Chart:
    """Points that carry the tooltip. A line is too thin to aim at, so there are always some."""
    dots: alt.Chart = base.mark_point() if visible else base.mark_point(size=110, opacity=0)
    if visible:
        shape = _shape_encoding(frame, series)
        dots = dots.encode(shape=shape, opacity=_faded_unless(pick, shown=1.0))
    return dots


def _finish(
    layers: list[alt.Chart],
    frame: pl.DataFrame,
    controls: Sequence[Control],
    references: Sequence[Reference],
    height: int,
) -> ChartType:
    import altair as alt

    chart = alt.LayerChart(layer=layers)
    for control in controls:
        chart = _add_control(chart, frame, control)
    # References come after the controls' filters, which would otherwise look for their columns.
    if references:
        marks = [mark for reference in references for mark in _reference(reference)]
        chart = alt.LayerChart(layer=[chart, *marks])
    return chart.properties(width="container", height=height)


def _add_control(chart: alt.LayerChart, frame: pl.DataFrame, control: Control) -> alt.LayerChart:
    import altair as alt

    _require_columns(frame, "control", [control.column])
    options = frame.get_column(control.column).unique(maintain_order=True).to_list()
    initial = options[0] if control.initial is None else control.initial
    if initial not in options:
        raise InputError(
            f"report control {control.column!r}",
            place="initial",
            found=repr(initial),
            expected="one of " + ", ".join(repr(option) for option in options),
        )
    parameter = alt.param(
        name=control_name(control.column),
        value=initial,
        bind=alt.binding_select(options=options, name=control.label),
    )
    keep = alt.datum[control.column] == parameter
    return chart.add_params(parameter).transform_filter(keep)


def control_name(column: str) -> str:
    """The Vega signal behind a control, and the ``name`` of its list in the page."""
    return "choose_" + "".join(c if c.isalnum() else "_" for c in column)


def _reference(reference: Reference) -> list[alt.Chart]:
    import altair as alt
    import polars as pl

    if (reference.x is None) == (reference.y is None):
        raise InputError(
            f"report reference {reference.label!r}",
            found="both x and y" if reference.x is not None else "neither x nor y",
            expected="one of them",
        )
    along = "y" if reference.x is None else "x"
    at = reference.y if reference.x is None else reference.x
    base = alt.Chart(pl.DataFrame({"at": [at], "label": [reference.label]}))
    rule = base.mark_rule(strokeDash=[4, 4], color=MUTED, tooltip=None)
    label = base.mark_text(align="left", dx=6, dy=-8, color=INK, fontSize=11.5, tooltip=None)
    text = alt.Text("label:N")
    if along == "y":
        return [rule.encode(y="at:Q"), label.encode(y="at:Q", x=alt.value(0), text=text)]
    return [rule.encode(x="at:Q"), label.encode(x="at:Q", y=alt.value(16), text=text)]


def bin_values(
    frame: pl.DataFrame, *, column: str, bin_width: float, by: Sequence[str]
) -> pl.DataFrame:
    """Count a column per bin and group: columns ``by``, ``middle`` and ``share`` (percent).

    Bins are centred on the multiples of ``bin_width``; an empty one at each end lets an outline
    come down to zero.
    """
    import polars as pl

    if not bin_width > 0:
        raise InputError(
            "report histogram", place="bin_width", found=repr(bin_width), expected="more than 0"
        )
    bins = (pl.col(column) / bin_width).round().cast(pl.Int64).alias("bin")
    counts = frame.select([*by, bins]).group_by([*by, "bin"]).len()
    totals = counts.group_by(by).agg(
        pl.col("len").sum().alias("total"),
        pl.int_ranges(pl.col("bin").min() - 1, pl.col("bin").max() + 2).alias("bin"),
    )
    full = totals.explode("bin").join(counts, on=[*by, "bin"], how="left")
    middle = (pl.col("bin") * bin_width).alias("middle")
    share = (100 * pl.col("len").fill_null(0) / pl.col("total")).alias("share")
    return full.select([*by, middle, share]).sort([*by, "middle"])


def _series(frame: pl.DataFrame, series: str) -> tuple[list[str], list[Any]]:
    shown = frame.get_column(series).unique(maintain_order=True).to_list()
    names = ordered_series([str(name) for name in shown])
    return names, looks_for(names)


def _dash_encoding(frame: pl.DataFrame, series: str) -> alt.StrokeDash:
    import altair as alt

    names, looks = _series(frame, series)
    scale = alt.Scale(domain=names, range=[list(look.dash) for look in looks])
    legend = _legend(strokes=True, many=len(names) > 6)
    return alt.StrokeDash(f"{field_of(series)}:N", title=None, scale=scale, legend=legend)


def _legend(*, strokes: bool, many: bool = False) -> alt.Legend:
    """A legend of short strokes, or of the symbols themselves; many go into columns."""
    import altair as alt

    if strokes:
        columns: dict[str, Any] = {"columns": 4} if many else {}
        return alt.Legend(symbolOpacity=1, symbolType="stroke", symbolSize=360, **columns)
    return alt.Legend(symbolOpacity=1)


def _shape_encoding(frame: pl.DataFrame, series: str) -> alt.Shape:
    import altair as alt

    names, looks = _series(frame, series)
    scale = alt.Scale(domain=names, range=[look.symbol for look in looks])
    legend = _legend(strokes=False)
    return alt.Shape(f"{field_of(series)}:N", title=None, scale=scale, legend=legend)


def _faded_unless(pick: alt.Parameter, *, shown: float, hidden: float = 0.1) -> Any:
    import altair as alt

    return alt.when(pick).then(alt.value(shown)).otherwise(alt.value(hidden))


def _plain(column: str) -> str:
    return column.replace("_", " ")


def _require_columns(frame: pl.DataFrame, what: str, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in frame.columns:
            raise InputError(
                f"report {what}",
                place=f"column {column!r}",
                found=f"a frame with {', '.join(frame.columns)}",
                expected="a column of that name",
            )
    if frame.is_empty():
        raise InputError(f"report {what}", found="an empty frame", expected="at least one row")
