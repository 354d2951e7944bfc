"""Charts from polars frames, in one style: lines, points, bands and histograms.

Every chart has tooltips, a legend that picks out a series on a click, and optional controls (a
list from which the reader chooses, say, a level or an epsilon). A chart is an ordinary altair
chart: a study may change or layer it further.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from headcount.errors import InputError
from headcount.report.specs import Axis as Axis
from headcount.report.specs import axis_of, field_of, legend_of, scale_of, shown_series
from headcount.report.theme import INK, MUTED, looks_for, ordered_series

if TYPE_CHECKING:
    import altair as alt
    import polars as pl
    from altair.typing import ChartType

P = ParamSpec("P")
T = TypeVar("T")
WIDEST, NARROWEST = 7.0, 1.5
"""Pixels of the first and the last of lines that lie on each other."""


def checked_as_a_whole(build: Callable[P, T]) -> Callable[P, T]:
    """Build a chart without a check of each of its parts: it is checked when it is written."""

    @wraps(build)
    def built(*args: P.args, **named: P.kwargs) -> T:
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):
            return build(*args, **named)

    return built


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


@checked_as_a_whole
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
    require_columns(frame, "line chart", [x.column, y.column, series])
    base, pick = _base(frame, x=x, y=y, series=series, strokes=not points, controls=controls)
    lines = _lines(
        base, frame, x=x, y=y, series=series, pick=pick, points=points, controls=controls
    )
    return _finish(lines, frame, controls, references, height)


@checked_as_a_whole
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

    require_columns(frame, "two-scale chart", [x.column, top.column, y.column, series])
    sides = []
    for axis in (x, top):
        base, pick = _base(frame, x=axis, y=y, series=series, strokes=True, controls=controls)
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
        lines = _lines(
            base, frame, x=axis, y=y, series=series, pick=pick, points=False, controls=controls
        )
        sides.append(alt.LayerChart(layer=lines))
    apart = alt.Resolve(scale=alt.ScaleResolveMap(x="independent"))
    return _finish(sides, frame, controls, references, height, resolve=apart)


@checked_as_a_whole
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
    require_columns(frame, "point chart", [x.column, y.column, series])
    base, pick = _base(frame, x=x, y=y, series=series, strokes=False, controls=controls)
    dots = _dots(base, frame, series=series, pick=pick, visible=True, controls=controls)
    return _finish([dots.add_params(pick)], frame, controls, references, height)


@checked_as_a_whole
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

    require_columns(frame, "band chart", [x.column, y.column, low, high, series])
    base, pick = _base(
        frame, x=x, y=y, series=series, strokes=not points, controls=controls, also=(low, high)
    )
    band = base.mark_area().encode(
        y=alt.Y(f"{field_of(low)}:Q", title=y.title, scale=scale_of(y, padded=True)),
        y2=alt.Y2(field_of(high)),
        opacity=_faded_unless(pick, shown=0.18, hidden=0.03),
        tooltip=alt.TooltipValue(None),
    )
    lines = _lines(
        base, frame, x=x, y=y, series=series, pick=pick, points=points, controls=controls
    )
    return _finish([band, *lines], frame, controls, references, height)


@checked_as_a_whole
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

    require_columns(frame, "histogram", [value.column, series])
    by = [series, *(control.column for control in controls)]
    binned = _bin_values(frame, column=value.column, bin_width=bin_width, by=by)
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
    base, pick = _base(binned, x=x, y=y, series=series, strokes=True, controls=controls)
    area = base.mark_area(interpolate="step", clip=True).encode(
        y=alt.Y(
            "share:Q", title=y.title, scale=scale_of(y, padded=True), axis=axis_of(y), stack=None
        ),
        opacity=_faded_unless(pick, shown=0.08, hidden=0.02),
    )
    line = base.mark_line(interpolate="step", strokeWidth=1.75, clip=True).encode(
        opacity=_faded_unless(pick, shown=1.0)
    )
    dots = _dots(base, binned, series=series, pick=pick, visible=False, controls=controls)
    return _finish([area, line, dots.add_params(pick)], frame, controls, references, height)


def _base(
    frame: pl.DataFrame,
    *,
    x: Axis,
    y: Axis,
    series: str,
    strokes: bool,
    controls: Sequence[Control],
    also: Sequence[str] = (),
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
        legend=series_legend(frame, series, controls, strokes=strokes),
    )
    chart = alt.Chart(frame).encode(
        x=x.encode(alt.X, padded=False),
        y=y.encode(alt.Y, padded=True),
        color=colour,
        tooltip=tooltip,
    )
    return chart, alt.selection_point(fields=[series], bind="legend")


def _lines(
    base: alt.Chart,
    frame: pl.DataFrame,
    *,
    x: Axis,
    y: Axis,
    series: str,
    pick: alt.Parameter,
    points: bool,
    controls: Sequence[Control],
) -> list[alt.Chart]:
    """Lines, dashed to tell them apart in black and white or solid where symbols do that; points.

    Where solid ones lie on each other, each is drawn narrower than the one below it; through dashes
    the one below is seen.
    """
    import altair as alt

    line: alt.Chart = base.mark_line().encode(opacity=_faded_unless(pick, shown=1.0))
    names, looks = _series(frame, series)
    field = f"{field_of(series)}:N"
    if not points:
        scale = alt.Scale(domain=names, range=[list(look.dash) for look in looks])
        legend = series_legend(frame, series, controls, strokes=True)
        line = line.encode(strokeDash=alt.StrokeDash(field, title=None, scale=scale, legend=legend))
    if points and _coincide(frame, x=x, y=y, series=series, controls=controls):
        *drawn, _ = frame[series].unique(maintain_order=True)
        step = (WIDEST - NARROWEST) / max(1, len(drawn))
        # Conditions, not a scale: a scale of the same column would be one of the legend's.
        widths = [
            {"test": f"datum[{json.dumps(series)}] === {json.dumps(name)}", "value": width}
            for name, width in zip(drawn, count(WIDEST, -step), strict=False)
        ]
        # The channel "size": a line's width in the theme would hide one of "strokeWidth".
        line = line.encode(size={"condition": widths, "value": NARROWEST})
    dots = _dots(base, frame, series=series, pick=pick, visible=points, controls=controls)
    return [line, dots.add_params(pick)]


def _coincide(
    frame: pl.DataFrame, *, x: Axis, y: Axis, series: str, controls: Sequence[Control]
) -> bool:
    """Whether two lines lie on each other for most of their way, at some choice of the reader."""
    import polars as pl

    by = [x.column, *(control.column for control in controls)]
    value = pl.col(y.column).cast(pl.Float64)
    height = pl.when(value > 0).then(value.log()) if y.scale == "log" else value
    rows = frame.select(*by, series, height.alias("height")).drop_nulls()
    wide = rows["height"].max() or 0, rows["height"].min() or 0
    near = (pl.col("height") - pl.col("height_right")).abs() <= (wide[0] - wide[1]) / 200  # type: ignore[operator]
    pairs = rows.join(rows, on=by).filter(pl.col(series) < pl.col(f"{series}_right"))
    shares = pairs.group_by(series, f"{series}_right", *by[1:]).agg(near.mean().alias("share"))
    return bool((shares["share"] > 0.5).any())


def _dots(
    base: alt.Chart,
    frame: pl.DataFrame,
    *,
    series: str,
    pick: alt.Parameter,
    visible: bool,
    controls: Sequence[Control],
) -> alt.Chart:
    """Points that carry the tooltip. A line is too thin to aim at, so there are always some."""
    import altair as alt

    dots: alt.Chart = base.mark_point() if visible else base.mark_point(size=110, opacity=0)
    if visible:
        names, looks = _series(frame, series)
        scale = alt.Scale(domain=names, range=[look.symbol for look in looks])
        legend = series_legend(frame, series, controls, strokes=False)
        shape = alt.Shape(f"{field_of(series)}:N", title=None, scale=scale, legend=legend)
        dots = dots.encode(shape=shape, opacity=_faded_unless(pick, shown=1.0))
    return dots


def _finish(
    layers: Sequence[alt.Chart | alt.LayerChart],
    frame: pl.DataFrame,
    controls: Sequence[Control],
    references: Sequence[Reference],
    height: int,
    **more: Any,
) -> ChartType:
    import altair as alt

    chart: ChartType = with_controls(alt.LayerChart(layer=layers, **more), frame, controls)
    # References come after the controls' filters, which would otherwise look for their columns.
    if references:
        marks = [mark for reference in references for mark in _reference(reference)]
        chart = alt.LayerChart(layer=[chart, *marks])
    chart.width, chart.height = "container", height  # ``properties`` would copy all layers
    return chart


def with_controls(chart: Any, frame: pl.DataFrame, controls: Sequence[Control]) -> Any:
    """Give a chart a list for each control; it draws the rows of ``frame`` that are chosen."""
    import altair as alt

    parameters, filters = [], []
    for control in controls:
        require_columns(frame, "control", [control.column])
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
        parameters.append(parameter.param)
        filters += alt.Chart().transform_filter(keep).transform
    for part, more in (("params", parameters), ("transform", filters)):
        if more:  # in place: altair's own ways copy all layers several times
            chart[part] = [*(() if chart[part] is alt.Undefined else chart[part]), *more]
    return chart


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
        y, left = alt.Y("at:Q"), alt.XValue(0)  # type: ignore[no-untyped-call]
        return [rule.encode(y=y), label.encode(y=y, x=left, text=text)]
    x, top = alt.X("at:Q"), alt.YValue(16)  # type: ignore[no-untyped-call]
    return [rule.encode(x=x), label.encode(x=x, y=top, text=text)]


def _bin_values(
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


def series_legend(
    frame: pl.DataFrame, series: str, controls: Sequence[Control], *, strokes: bool
) -> alt.Legend:
    """The legend of the series that have rows at what the reader chose."""
    chosen = {control.column: control_name(control.column) for control in controls}
    shown = shown_series(frame, series=series, chosen=chosen)
    return legend_of(_series(frame, series)[0], strokes=strokes, shown=shown)


def _faded_unless(pick: alt.Parameter, *, shown: float, hidden: float = 0.1) -> Any:
    import altair as alt

    # ``alt.when`` makes a table, for which altair then looks for a class among all that it has.
    return alt.OpacityValue(hidden, condition=[{"param": pick.name, "value": shown}])


def _plain(column: str) -> str:
    return column.replace("_", " ")


def require_columns(frame: pl.DataFrame, what: str, columns: Sequence[str]) -> None:
    """Refuse a frame without some columns, or without rows."""
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
