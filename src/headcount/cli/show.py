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
            name.replace("_", " "), justify="right" if _numeric(frame, name) else "left"
        )
    for row in frame.iter_rows():
        table.add_row(*(_text(value) for value in row))
    Console().print(table)


def _numeric(frame: pl.DataFrame, name: str) -> bool:
    return frame.schema[name].is_numeric()


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
