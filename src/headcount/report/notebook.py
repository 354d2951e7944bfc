"""Small pieces of HTML for notebooks: a heading, facts, sentences and the first rows of a table.

They stand in somebody else's page: styles are on the elements, and colours are the page's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from headcount.report.model import CONFIDENTIAL_BANNER, Column

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS, MOST_COLUMNS = 8, 12
"""Of a table that are shown."""

LARGE = 10_000
"""From here on four digits would leave a number with an exponent."""

_CELL = "padding:2px 10px;border-bottom:1px solid rgba(128,128,128,.3)"
_QUIET = "opacity:.75;font-size:90%"
_BANNER = "border-left:4px solid #b3261e;padding:2px 10px;margin:6px 0"


def shown(
    title: str,
    *,
    facts: Mapping[str, str] | None = None,
    sentences: Sequence[str] = (),
    frames: Mapping[str, pl.DataFrame] | None = None,
    note: str = "",
    confidential: bool = False,
) -> str:
    """An object as HTML: what it is, facts about it, sentences, and tables under their names."""
    parts = [f"<div><strong>{escape(title)}</strong></div>"]
    if confidential:
        parts.append(f'<div style="{_BANNER}">{escape(CONFIDENTIAL_BANNER)}</div>')
    if facts:
        rows = "".join(
            f'<tr><th style="{_CELL};text-align:left;font-weight:600">{escape(key)}</th>'
            f'<td style="{_CELL};text-align:left">{escape(value)}</td></tr>'
            for key, value in facts.items()
        )
        parts.append(f'<table style="border-collapse:collapse;margin:6px 0">{rows}</table>')
    if sentences:
        listed = "".join(f"<li>{escape(one)}</li>" for one in sentences)
        parts.append(f'<ul style="margin:6px 0;padding-left:20px">{listed}</ul>')
    for name, frame in (frames or {}).items():
        parts.append(_table(name, frame))
    if note:
        parts.append(f'<div style="{_QUIET}">{escape(note)}</div>')
    return f'<div style="max-width:60em;overflow-x:auto">{"".join(parts)}</div>'


def _table(name: str, frame: pl.DataFrame) -> str:
    """The first rows and columns, and a word on what is left out."""
    columns = [
        Column(
            key=key,
            label=key,
            format=_number_format(frame[key]),
        )
        for key in frame.columns[:MOST_COLUMNS]
    ]
    head = "".join(f'<th style="{_style(one)}">{escape(one.label)}</th>' for one in columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_style(one)}">{escape(one.show(value))}</td>'
            for one, value in zip(columns, row, strict=True)
        )
        + "</tr>"
        for row in frame.select(one.key for one in columns).head(MOST_ROWS).iter_rows()
    )
    more = [
        f"{frame.height - MOST_ROWS:,} more rows" if frame.height > MOST_ROWS else "",
        f"{frame.width - MOST_COLUMNS:,} more columns" if frame.width > MOST_COLUMNS else "",
    ]
    left = " and ".join(filter(None, more))
    return (
        f'<div style="margin-top:6px">{escape(name)}</div>'
        f'<table style="border-collapse:collapse"><tr>{head}</tr>{rows}</table>'
        + (f'<div style="{_QUIET}">and {left}</div>' if left else "")
    )


def _number_format(values: pl.Series) -> str:
    """Whole numbers in full; of others four digits, or none behind the point if they are large."""
    if not values.dtype.is_float():
        return ",d" if values.dtype.is_integer() else ""
    large = values.drop_nans().abs().max()
    return ",.0f" if isinstance(large, float) and large >= LARGE else ",.4g"


def _style(column: Column) -> str:
    side = "right" if column.numeric else "left"
    return f"{_CELL};text-align:{side}"
