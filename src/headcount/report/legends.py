"""Legends that list what is drawn and nothing else, in as many columns as there is room for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

STATIC_WIDTH = 660
"""Pixels: a chart that fills its column on screen needs a width on paper."""
LETTER, ENTRY = 7, 56
"""Pixels of a letter, and of an entry's symbol and padding; the page's script has them too."""


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
