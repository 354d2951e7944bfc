"""Tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def show_table(frame: pl.DataFrame, *, title: str) -> None:
    """Print a frame as a plain table with readable numbers."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in frame.columns:
        table.add_column(
            name.replace("_", " "),
            justify="right" if _numeric(frame, name) else "left",
            min_width=_widest(frame, name),
        )
    for row in frame.iter_rows():
        table.add_row(*(_text(value) for value in row))
    Console().print(table)


def _numeric(frame: pl.DataFrame, name: str) -> bool:
    return frame.schema[name].is_numeric()


def _widest(frame: pl.DataFrame, name: str) -> int:
    """Room for every number and word: a number that is cut is another number."""
    words = (word for value in frame[name].to_list() for word in _text(value).split())
    return max(map(len, words), default=1)


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
