"""Tables on a terminal: of results, and of what was read, in true numbers that go nowhere else."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console
    from rich.table import Table

    from headcount.run.how_far_off import HowFarOff
    from headcount.tabulate.counts import Summary

UNBOUNDED = 100_000
"""Columns of a terminal on which every table fits."""
CONFIDENTIAL = "CONFIDENTIAL: what was read, in true numbers"
NARROW, WIDE = 40, 60
"""Columns of a terminal: the fewest that hold a table, and enough for levels beside numbers."""


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


def show_reading(summary: Summary, *, public: bool, counted: str) -> None:
    """Print rows, people, units and levels as tables that fit a narrow terminal and a pipe.

    ``counted`` is what the records are: people, or housing units.
    """
    from rich.text import Text

    from headcount.population.population import is_it_right

    console = plain_console()
    wide = console.width >= WIDE
    console.print("what was read" if public else Text(CONFIDENTIAL, style="bold red"))
    tables = (
        _rows(summary, counted),
        _units(summary, counted),
        _attributes(summary, counted, wide=wide),
    )
    for table in tables:
        console.print()
        console.print(table)
    for one in () if wide else summary.attributes:
        console.print(f" {_plain(one.name)}: {_some(one.levels)}")
    for remark in summary.reading.remarks:
        console.print(f" {remark}")
    console.print(f"\n {is_it_right(summary.people, summary.levels[-1].units, counted)}\n")


def _rows(summary: Summary, counted: str) -> Table:
    rows = [(f"{rows:,}", Path(name).name) for name, rows in summary.reading.rows]
    if not rows:
        rows = [("-", "generated, no file was read")]
    left_out = summary.reading.left_out or (("rows", 0),)
    rows += [(f"{rows:,}", f"{reason} left out") for reason, rows in left_out]
    return table_of(("rows", "of"), [*rows, (f"{summary.people:,}", counted)], numbers={0})


def _units(summary: Summary, counted: str) -> Table:
    rows = [
        (
            one.name,
            f"{one.units:,}",
            f"{one.inhabited:,}",
            f"{one.mean:,.0f}" if one.mean >= 100 else f"{one.mean:,.3g}",
        )
        for one in summary.levels
    ]
    columns = ("level", "units", f"with {counted}", f"{counted} per unit")
    return table_of(columns, rows, numbers={1, 2, 3})


def _attributes(summary: Summary, counted: str, *, wide: bool) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            one.name,
            *(f"{number:,}" for number in (len(one.levels), one.new, one.empty)),
            *([_some(one.levels)] if wide else []),
        )
        for one in summary.attributes
    ]
    rows = rows or [("none", "-", "-", "-", *([""] if wide else []))]
    columns = ("attribute", "levels", "new", f"without {counted}", *(["which"] if wide else []))
    return table_of(columns, rows, numbers={1, 2, 3})


def plain_console() -> Console:
    """The terminal, or a pipe; text from a file means nothing but itself there."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False, markup=False)
    console.width = max(console.width, NARROW)
    return console


def show_far(far: HowFarOff) -> None:
    """Print how far off counts will be, beside how many people they count."""
    from rich.padding import Padding

    from headcount.run.how_far_off import HEADINGS

    console = plain_console()
    counted = far.counted
    console.print(f"how far off counts will be, in {counted}:\n")
    if console.width >= WIDE:
        console.print(table_of(HEADINGS, far.table(), numbers={2, 3, 4}))
    else:
        for one in far.rows:
            console.print(_plain(one.sentence(counted)))
    finest = far.finest_total
    said = [f"{_plain(finest.sentence(counted))}." if finest else "", *far.words()]
    console.print(Padding("\n".join(one for one in ("", *said) if one), (1, 0, 1, 2)))


def table_of(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int]
) -> Table:
    """Columns of numbers stay whole, their headings wrap; the rest of the width is for text."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for at, name in enumerate(columns):
        longest = max(len(text) for text in (*(row[at] for row in rows), *name.split()))
        least = longest if at in numbers else min(longest, 12)
        side: Literal["left", "right"] = "right" if at in numbers else "left"
        table.add_column(name, justify=side, overflow="fold", min_width=least)
    for row in rows:
        table.add_row(*map(_plain, row))
    return table


def _plain(text: str) -> str:
    """Text from a file, which must not steer the terminal."""
    return text if text.isprintable() else repr(text)


def _some(levels: tuple[str, ...], *, most: int = 8) -> str:
    """The levels, or the first few and the last two."""
    told = [level if len(level) <= 30 else level[:29] + "…" for level in levels]
    told = [_plain(level) if level.strip() == level != "" else repr(level) for level in told]
    if len(told) > most:
        told = [*told[: most - 3], "…", *told[-2:]]
    return ", ".join(told)
