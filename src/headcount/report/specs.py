"""A chart as a specification of Vega-Lite, and as files that need no page around them."""

from __future__ import annotations

import html
import logging
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headcount.files import make_folder, write_bytes_atomic, write_text_atomic
from headcount.report.axes import STATIC_WIDTH
from headcount.report.theme import theme_config

if TYPE_CHECKING:
    from altair.typing import ChartType

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
