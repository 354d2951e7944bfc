"""How figures look: one theme, and one colour, dash and symbol for each mechanism.

A mechanism has the same look in every report. The colours stay apart under the three common kinds
of colour blindness (a test measures it), on white paper and on a dark screen; dashes and symbols
carry the same distinction in a black-and-white print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FONT = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, system-ui, sans-serif"
INK = "#1b2530"
MUTED = "#5b6672"
GRID = "#eceff2"
RULE = "#9aa4ae"


@dataclass(frozen=True)
class _Look:
    """The colour, dash pattern and symbol of one series."""

    colour: str
    dash: tuple[int, ...]
    symbol: str


SOLID = (1, 0)
HOURGLASS = "M-0.8,-0.8H0.8L-0.8,0.8H0.8Z"
"""A symbol of our own: Vega's wedge is too thin to be seen."""

MECHANISM_LOOKS: dict[str, _Look] = {
    "geometric": _Look("#0072B2", SOLID, "circle"),
    "raked": _Look("#CB5200", (7, 3), "square"),
    "averaged": _Look("#0FA050", (2, 2), "triangle-up"),
    "topdown": _Look("#332288", SOLID, "diamond"),
    "sampling": _Look("#E69F00", (10, 3, 2, 3), "triangle-down"),
    "swapping": _Look("#CB90AF", (7, 3), "cross"),
    "suppression": _Look("#45B9EB", (4, 2, 1, 2), "triangle-right"),
    "cell-key": _Look("#9C00FC", (6, 2, 2, 2), "triangle-left"),
    "rounding": _Look("#6B2D00", (3, 3), HOURGLASS),
    "identity": _Look("#5D5D5D", (1, 3), "stroke"),
}

# For series that are no mechanism of ours: a user's own, or the levels of a geography.
OTHER_LOOKS: tuple[_Look, ...] = (
    _Look("#7A5C00", SOLID, "circle"),
    _Look("#B0306A", (7, 3), "square"),
    _Look("#1F8A8A", (2, 2), "triangle-up"),
    _Look("#8A8F98", (10, 3, 2, 3), "diamond"),
    _Look("#4B2E83", (4, 2, 1, 2), "triangle-down"),
    _Look("#C8643F", (4, 1), "cross"),
    _Look("#0B6E4F", SOLID, "triangle-right"),
    _Look("#1D4E9E", (9, 2), "stroke"),
)


DARK_PAPER = "#14191f"
DARK: dict[str, str] = {
    # What is not a series: text, grid and axes, and the paper itself.
    INK: "#e4e9ee",
    MUTED: "#a4afba",
    GRID: "#29313a",
    RULE: "#5f6b77",
    "white": DARK_PAPER,
    # Mechanisms.
    "#0072B2": "#39a9ea",
    "#CB5200": "#d96602",
    "#0FA050": "#48f48a",
    "#332288": "#5952ef",
    "#E69F00": "#fee629",
    "#CB90AF": "#de9bad",
    "#45B9EB": "#c8ebff",
    "#9C00FC": "#b4309c",
    "#6B2D00": "#90603c",
    "#5D5D5D": "#716767",
    # Other series.
    "#7A5C00": "#b3a600",
    "#B0306A": "#a75c73",
    "#1F8A8A": "#68f8e0",
    "#8A8F98": "#53689a",
    "#4B2E83": "#8b58d2",
    "#C8643F": "#c55636",
    "#0B6E4F": "#1abd76",
    "#1D4E9E": "#a3b7eb",
}
"""What each colour of a figure becomes on a dark screen; files and prints keep the light ones."""

HEAT: dict[str, str] = {
    "#f1f5f9": "#1a222b",
    "#dbe9f4": "#1d3347",
    "#b5d2e8": "#1f4a6b",
    "#fbe0b0": "#6b5420",
    "#f3b36a": "#8a5a16",
    "#dd7a3c": "#c9712e",
    "#a8401f": "#ff9b6b",
}
"""Shades of percentages from small to large, and what each becomes on a dark screen."""


def looks_for(series: Sequence[str]) -> list[_Look]:
    """The look of each series, in the order given.

    A series takes the look of the mechanism whose name begins it, so that "raked, epsilon 0.1" is
    coloured as raked; a second series of the same mechanism and all others take spare looks.
    """
    spare = 0
    taken: set[str] = set()
    looks = []
    for name in series:
        mechanism = _mechanism_of(name)
        if mechanism is not None and mechanism not in taken:
            taken.add(mechanism)
            looks.append(MECHANISM_LOOKS[mechanism])
        else:
            looks.append(OTHER_LOOKS[spare % len(OTHER_LOOKS)])
            spare += 1
    return looks


def ordered_series(names: Sequence[str]) -> list[str]:
    """Distinct names: those of mechanisms first and in their fixed order, others as they come."""
    order = list(MECHANISM_LOOKS)
    distinct = list(dict.fromkeys(names))

    def rank(name: str) -> int:
        mechanism = _mechanism_of(name)
        return len(order) if mechanism is None else order.index(mechanism)

    return sorted(distinct, key=rank)


def _mechanism_of(name: str) -> str | None:
    for mechanism in MECHANISM_LOOKS:
        rest = name.removeprefix(mechanism)
        if rest != name and not rest[:1].isalnum():
            return mechanism
    return None


def theme_config() -> dict[str, Any]:
    """The Vega-Lite ``config`` that every figure of headcount is drawn with."""
    axis = {
        "domainColor": RULE,
        "gridColor": GRID,
        "labelColor": MUTED,
        "labelFontSize": 12,
        "labelLimit": 240,
        "labelPadding": 6,
        "tickColor": RULE,
        "tickSize": 4,
        "titleColor": INK,
        "titleFontSize": 12.5,
        "titleFontWeight": 500,
        "titlePadding": 12,
    }
    return {
        "background": "white",
        "font": FONT,
        "padding": {"left": 4, "right": 10, "top": 6, "bottom": 4},
        "view": {"stroke": None, "continuousWidth": 640, "continuousHeight": 340},
        "axis": axis,
        "axisX": {"grid": False, "labelFlush": False},
        "axisY": {"domain": False, "ticks": False, "titleAnchor": "end"},
        "legend": {
            "labelColor": INK,
            "labelFontSize": 12.5,
            "titleColor": INK,
            "orient": "top",
            "padding": 0,
            "offset": 14,
            "columnPadding": 22,
            "symbolSize": 130,
            "symbolStrokeWidth": 2.5,
            "title": None,
        },
        "header": {
            "labelColor": INK,
            "labelFontSize": 12.5,
            "labelFontWeight": 600,
            "titleColor": MUTED,
            "titleFontSize": 12,
        },
        "title": {
            "anchor": "start",
            "color": INK,
            "fontSize": 13.5,
            "fontWeight": 600,
            "offset": 12,
            "subtitleColor": MUTED,
            "subtitleFontSize": 12,
        },
        "line": {"strokeWidth": 2.25, "strokeCap": "butt", "strokeJoin": "round"},
        "point": {"filled": True, "size": 75, "opacity": 0.95},
        "bar": {"color": "#0072B2"},
        "area": {"line": False},
        "rule": {"color": MUTED},
        "text": {"color": MUTED, "fontSize": 12},
    }


def dark_rules() -> str:
    """Style sheet for drawings in ``.chart`` on a dark screen: each colour by its darker twin."""
    rules = "".join(
        f'.chart svg [fill="{light}" i]{{fill:{night}}}'
        f'.chart svg [stroke="{light}" i]{{stroke:{night}}}\n'
        for light, night in (DARK | HEAT).items()
    )
    return f"@media screen and (prefers-color-scheme: dark) {{\n{rules}}}\n"
