"""Tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def show_table(frame: pl.DataFrame, *, title: str) -> None:
    """Print a frame as a plain table with readable numbers."""
    from rich.console import Console
    from rich.measure import Measurement
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
    console = Console()
    # A table that is wider than the terminal, or than a pipe is taken to be, is shown whole.
    needed = Measurement.get(console, console.options, table).minimum
    console.print(table, width=max(console.width, needed), crop=False)


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
