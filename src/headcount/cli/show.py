"""Tables on a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console


UNBOUNDED = 100_000
"""Columns of a terminal on which every table fits."""


def show_table(frame: pl.DataFrame, *, title: str) -> None:
    """Print a frame as a plain table with readable numbers."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(title=title, title_justify="left")
    for name in frame.columns:
        table.add_column(
            name.replace("_", " "),
            justify="right" if _numeric(frame, name) else "left",
            min_width=_widest(frame, name),
        )
    for row in frame.iter_rows():
        table.add_row(*(_text(value) for value in row))
    unbounded = console.options.update(max_width=UNBOUNDED)
    needed = Measurement.get(console, unbounded, table).minimum
    if needed > console.width and (console.is_terminal or "COLUMNS" in os.environ):
        _show_rows(frame, title=title, console=console)
    else:  # a pipe has no width: the table is shown whole
        console.print(table, width=max(console.width, needed), crop=False)


def _show_rows(frame: pl.DataFrame, *, title: str, console: Console) -> None:
    """Row by row, a line for each column: for a terminal narrower than the table."""
    from rich.text import Text

    console.print(Text(title, style="italic"))
    heads = [name for name in frame.columns if not _numeric(frame, name)]
    for row in frame.iter_rows(named=True):
        console.print(Text(", ".join(_text(row[name]) for name in heads), style="bold"))
        for name in frame.columns:
            if name not in heads:
                console.print(Text(f"  {name.replace('_', ' ')}: {_text(row[name])}"))


def _numeric(frame: pl.DataFrame, name: str) -> bool:
    return frame.schema[name].is_numeric()


def _widest(frame: pl.DataFrame, name: str) -> int:
    """Room for every number and word: a number that is cut is another number."""
    texts = [name.replace("_", " "), *map(_text, frame[name].to_list())]
    return max(len(word) for text in texts for word in text.split())


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
