"""A chart as a specification of Vega-Lite: its axes, its legends, and files with no page around."""

from __future__ import annotations

import html
import json
import logging
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headcount.files import make_folder, write_bytes_atomic, write_text_atomic
from headcount.report.theme import theme_config

if TYPE_CHECKING:
    import altair as alt
    import polars as pl
    from altair.typing import ChartType


Scale = Literal["linear", "log", "symlog", "sqrt"]

WIDEST_LABELS = 48
"""Letters of names that stand side by side upright, on a narrow page too."""
MOST_LABELS, LONG_LABEL = 24, 20
"""With more names some labels are left out where they would overlap."""
STATIC_WIDTH = 660
"""Pixels: a chart that fills its column on screen needs a width on paper."""
LETTER, ENTRY = 7, 56
"""Pixels of a letter, and of an entry's symbol and padding; the page's script has them too."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis: the column it shows, its title in plain words with the unit, and its scale.

    With ``names`` the column holds these names, and they stand side by side in this order.
    """

    column: str
    title: str
    scale: Scale = "linear"
    format: str = ""
    domain: tuple[float, float] | None = None
    ticks: tuple[float, ...] = ()
    zero: bool = False
    names: tuple[str, ...] = ()

    def encode(self, channel: type[Any], *, padded: bool) -> Any:
        """The axis as an encoding of altair, along ``alt.X`` or ``alt.Y``."""
        import altair as alt

        if not self.names:
            field = f"{field_of(self.column)}:Q"
            return channel(
                field, title=self.title, scale=scale_of(self, padded=padded), axis=axis_of(self)
            )
        tilted = sum(map(len, self.names)) > WIDEST_LABELS
        steep = max(map(len, self.names)) > LONG_LABEL  # the first would begin left of the picture
        axis = alt.Axis(
            labelAngle=(-60 if steep else -30) if tilted else 0,
            labelLimit=240,
            labelOverlap=len(self.names) > MOST_LABELS,
        )
        return channel(
            f"{field_of(self.column)}:N", title=self.title, sort=list(self.names), axis=axis
        )


def scale_of(axis: Axis, *, padded: bool) -> alt.Scale:
    """How numbers are laid out along an axis."""
    import altair as alt

    options: dict[str, Any] = {"type": axis.scale}
    if axis.domain is not None:
        options.update(domain=list(axis.domain), nice=False)
    elif axis.scale == "log":
        # Rounding a log axis out to powers of ten would leave most of the picture empty.
        options.update(nice=False, padding=18)
    else:
        options.update(zero=axis.zero, padding=10 if padded and not axis.zero else 0)
    return alt.Scale(**options)


def axis_of(axis: Axis) -> alt.Axis:
    """Ticks, their numbers, and the grid."""
    import altair as alt

    options: dict[str, Any] = {"values": list(axis.ticks)} if axis.ticks else {"tickCount": 6}
    if axis.scale == "log" and not axis.ticks:
        options["grid"] = False  # a line at each of 1, 2, ... 9 is a thicket
    if axis.format:
        options["format"] = axis.format
    return alt.Axis(**options)


def field_of(column: str) -> str:
    """A column as altair's shorthand: ':' divides name and type, '.' and '[' go into objects."""
    escapes: Mapping[str, str] = {":": "\\:", ".": "\\.", "[": "\\[", "]": "\\]"}
    return "".join(escapes.get(c, c) for c in column)


def legend_of(names: Sequence[str], *, strokes: bool, shown: str = "") -> alt.Legend:
    """A legend of short strokes, or of the symbols themselves.

    where
        names   of all series
        shown   an expression of Vega for those that are drawn, from ``shown_series``
    """
    import altair as alt

    options: dict[str, Any] = {"symbolType": "stroke", "symbolSize": 360} if strokes else {}
    if shown:
        options["values"] = alt.ExprRef(shown)
    room = STATIC_WIDTH - ENTRY
    if sum(LETTER * len(name) + ENTRY for name in names) > room:
        longest = max(len(name) for name in names)
        options["columns"] = max(1, room // (LETTER * longest + ENTRY))
    return alt.Legend(symbolOpacity=1, labelLimit=0, **options)


def shown_series(frame: pl.DataFrame, *, series: str, chosen: Mapping[str, str]) -> str:
    """An expression for the series that have rows at what the reader chose; "" if always all.

    ``chosen`` has the signal of each column of the frame from which the reader chooses.
    """
    names = frame[series].unique(maintain_order=True).to_list()
    options = [frame[column].unique(maintain_order=True).to_list() for column in chosen]
    found: dict[tuple[Any, ...], list[str]] = {}
    for *choice, name in frame.select(*chosen, series).unique(maintain_order=True).iter_rows():
        found.setdefault(tuple(choice), []).append(name)
    cases = [found.get(choice, []) for choice in product(*options)]
    if all(len(case) == len(names) for case in cases):
        return ""
    number = "0"
    for values, signal in zip(options, chosen.values(), strict=True):
        number = f"({number}) * {len(values)} + indexof({json.dumps(values)}, {signal})"
    ordered = [[name for name in names if name in case] for case in cases]
    return f"{json.dumps(ordered)}[{number}]"


log = logging.getLogger(__name__)

TITLE_LETTERS, SUBTITLE_LETTERS = 88, 105
"""Letters of a line of a static figure's title, and of what is chosen below it."""


def chart_spec(
    chart: ChartType | dict[str, Any], *, alt_text: str = "", static: bool = False, title: str = ""
) -> dict[str, Any]:
    """The complete Vega-Lite specification of a chart: theme, data and description included.

    ``static`` is for a file: the chart has a width of its own and, since nothing can be chosen and
    no caption is near, the ``title`` above it and what is chosen in its lists. A chart may be given
    as its own specification, which takes long to write.
    """
    spec = {**chart} if isinstance(chart, dict) else _written(chart)
    if alt_text:
        spec["description"] = alt_text
    if not static:
        return spec
    if spec.get("width") == "container":
        spec["width"] = STATIC_WIDTH
    above = {
        "text": textwrap.wrap(title, TITLE_LETTERS),
        "subtitle": textwrap.wrap(_choices(spec), SUBTITLE_LETTERS),
    }
    if any(above.values()):
        spec["title"] = above
    return spec


def _written(chart: ChartType) -> dict[str, Any]:
    """A chart with theme and data, checked by altair."""
    import altair as alt

    theme = alt.theme.ThemeConfig(config=theme_config())  # type: ignore[typeddict-item]
    alt.theme.register("headcount", enable=False)(lambda: theme)
    # In a context: a notebook's own theme and row limit stay as they were.
    with (
        alt.theme.enable("headcount"),
        alt.data_transformers.enable("default", max_rows=None),
    ):
        spec: dict[str, Any] = chart.to_dict()
    return spec


def _choices(spec: dict[str, Any]) -> str:
    """What is chosen in the lists of a chart, in words."""
    said = []
    for param in spec.get("params", ()):
        bind = param.get("bind")
        if isinstance(bind, dict) and "options" in bind:
            options = list(bind["options"])
            value = list(bind.get("labels") or options)[options.index(param["value"])]
            shown = f"{value:g}" if isinstance(value, float) else str(value)
            said.append(f"{bind['name']}: {shown}")
    return "; ".join(said)


def save_figure(
    chart: ChartType | dict[str, Any],
    path_without_suffix: Path,
    *,
    alt_text: str = "",
    title: str = "",
) -> None:
    """Write ``path_without_suffix`` + ``.svg`` and ``.png`` (twice the pixels, for print)."""
    target = Path(path_without_suffix)
    svg = svg_of(chart, alt_text=alt_text, title=title)
    png = png_of(svg)
    make_folder(target.parent)
    write_text_atomic(target.with_name(target.name + ".svg"), svg)
    write_bytes_atomic(target.with_name(target.name + ".png"), png)
    log.debug("wrote figure %s as svg and png", target)


def svg_of(chart: ChartType | dict[str, Any], *, alt_text: str = "", title: str = "") -> str:
    """A chart as a drawing that needs no program to be seen."""
    import vl_convert

    spec = chart_spec(chart, alt_text=alt_text, static=True, title=title)
    svg = vl_convert.vegalite_to_svg(spec, vl_version=vegalite_version(), allowed_base_urls=[])
    if not alt_text:
        return svg
    label = html.escape(alt_text, quote=True)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def png_of(svg: str) -> bytes:
    """A drawing as a picture with twice the pixels, for print."""
    import vl_convert

    return vl_convert.svg_to_png(svg, scale=2)


def vegalite_version() -> str:
    """The Vega-Lite version, as "6.4", that altair writes and that must draw its charts."""
    import altair as alt

    major, minor, *_ = str(alt.SCHEMA_VERSION).removeprefix("v").split(".")
    return f"{major}.{minor}"
