"""What was read, on standard output: true numbers, which go nowhere else."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table

    from headcount.tabulate.summary import Summary

CONFIDENTIAL = "CONFIDENTIAL: what was read, in true numbers"
NARROW, WIDE = 40, 60
"""Columns of a terminal: the fewest that hold a table, and enough for levels beside numbers."""


def show_reading(summary: Summary, *, public: bool, counted: str) -> None:
    """Print rows, people, units and levels as tables that fit a narrow terminal and a pipe.

    ``counted`` is what the records are: people, or housing units.
    """
    from rich.console import Console
    from rich.text import Text

    from headcount.population.reading import is_it_right

    console = Console(highlight=False, emoji=False, markup=False)
    console.width = max(console.width, NARROW)
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
