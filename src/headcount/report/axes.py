"""Axes and legends of charts: numbers on a scale, names side by side, and what is drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

Scale = Literal["linear", "log", "symlog", "sqrt"]

WIDEST_LABELS = 48
"""Letters of names that stand side by side upright, on a narrow page too."""
MOST_LABELS = 24
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
        axis = alt.Axis(labelAngle=-30 if tilted else 0, labelOverlap=len(self.names) > MOST_LABELS)
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
