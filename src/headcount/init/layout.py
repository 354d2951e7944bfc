"""Where in a sheet of cells the table is: titles above it, its heading, labels, notes below it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headcount.population.columns import WITHHELD

Line = Sequence[str | None]

NUMBER = re.compile(r"[-+]?\(?[\d.,'\s\u00a0\u202f]*\d[\d.,'\s\u00a0\u202f]*([eE][-+]?\d+)?%?\)?")
_SIGN = re.compile(WITHHELD)
_YEAR = re.compile(r"(1[789]|20)\d\d")

MOST_HEADING = 4
"""Lines that a heading has at most."""

NUMERIC, HALF, FULL = 0.6, 0.5, 0.9
"""Shares of the cells of a column, and of a line."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How many lines stand above the heading, in it, between it and the rows, and below these."""

    lines_above: int = 0
    heading_lines: int = 1
    lines_after_heading: int = 0
    lines_below: int = 0

    @property
    def notes(self) -> list[str]:
        """What is said of it, where it is not just a line of names and rows."""
        said = []
        if self.lines_above:
            said.append(f"{self.lines_above} lines above the table are left out")
        if self.heading_lines > 1:
            said.append(f"names of columns stand in {self.heading_lines} lines and are joined")
        if self.lines_after_heading:
            said.append(
                f"{self.lines_after_heading} lines between the names of columns and the rows are "
                "left out"
            )
        if self.lines_below:
            said.append(f"{self.lines_below} lines below the table are left out")
        return said


def find_layout(lines: Sequence[Line], tail: Sequence[Line] = ()) -> Layout | None:
    """The layout of a sheet, by its first lines and, if these are not all, its last ones.

    Nothing if the rows begin in the first line: then there are no names.
    """
    cells = [[(one or "").strip() for one in line] for line in lines]
    filled = [sum(map(bool, line)) for line in cells]
    if not any(number > 1 for number in filled):
        return Layout()
    body = [line for line, number in zip(cells, filled, strict=True) if number > 1]
    numeric = _numeric_columns(body[len(body) // 3 :])
    begin = _first_row(cells, filled, numeric)
    heading = _heading(cells, filled, begin)
    if heading is None:
        return None
    first, last = heading
    found = Layout(
        lines_above=first,
        heading_lines=last + 1 - first,
        lines_after_heading=begin - last - 1,
        lines_below=_notes_below(tail or cells[begin:], numeric),
    )
    return _with_labels_apart(found, cells)


def _numeric_columns(body: Sequence[Sequence[str]]) -> list[int]:
    width = max(map(len, body), default=0)
    found = []
    for k in range(width):
        own = [line[k] for line in body if k < len(line) and line[k]]
        numbers = sum(_is_number(one) for one in own)
        if own and numbers >= NUMERIC * len(own) and len(own) >= len(body) / 3:
            found.append(k)
    return found


def _is_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell) is not None


def _first_row(cells: list[list[str]], filled: list[int], numeric: list[int]) -> int:
    """The first line of the table's rows."""
    if not numeric:
        width = max(filled)
        first = next(k for k, number in enumerate(filled) if number >= FULL * width)
        return first + 1
    for k, line in enumerate(cells):
        own = {c: line[c] for c in numeric if c < len(line) and line[c]}
        sound = [one for one in own.values() if _is_number(one) or _SIGN.fullmatch(one)]
        if not any(map(_is_number, sound)) or len(sound) < HALF * len(numeric):
            continue
        if (k == 0 or filled[k - 1] < 2) and _names_years(line, cells[k + 1 : k + 4]):
            continue
        return k
    return len(cells)


def _names_years(line: list[str], below: list[list[str]]) -> bool:
    """Whether a line without another above it names columns by years, which stand not below it."""
    years = [k for k, one in enumerate(line) if _YEAR.fullmatch(one)]
    if any(_is_number(one) for k, one in enumerate(line) if k not in years) or not years:
        return False
    again = any(_YEAR.fullmatch(one[k]) for one in below for k in years if k < len(one))
    return len({line[k] for k in years}) == len(years) and not again


def _heading(cells: list[list[str]], filled: list[int], begin: int) -> tuple[int, int] | None:
    """The first and last line of the names of columns, above the rows."""
    last = begin - 1
    while last >= 0 and filled[last] < 2 and begin - last <= 3:
        last -= 1
    if last < 0 or filled[last] < 2:
        return None if max(filled) > 1 else (0, 0)
    first = last
    while first > 0 and filled[first - 1] > 1 and last - first + 1 < MOST_HEADING:
        first -= 1
    while first < last and _is_title(cells[first], cells[first + 1]):
        first += 1
    return first, last


def _is_title(line: list[str], below: list[str]) -> bool:
    """Whether a line over a full one names no columns: it has little beside its first cell."""
    width = sum(map(bool, below))
    return sum(map(bool, line[1:])) < 2 and width > 3


def _with_labels_apart(found: Layout, cells: list[list[str]]) -> Layout:
    """The same, where the first line names all columns and others say it in more words."""
    names = cells[found.lines_above]
    others = cells[found.lines_above + 1 : found.lines_above + found.heading_lines]
    own = [one for one in names if one]
    whole = len(own) == max(map(len, cells)) or len(own) >= len(names) - 1
    if not others or not whole or len(set(own)) < len(own):
        return found
    return replace(
        found,
        heading_lines=1,
        lines_after_heading=found.lines_after_heading + found.heading_lines - 1,
    )


def _notes_below(lines: Sequence[Line], numeric: list[int]) -> int:
    """How many lines at the end are notes, or blank below the first note."""
    number = 0
    for at, line in enumerate(reversed(lines)):
        own = [(one or "").strip() for one in line]
        several = sum(map(bool, own)) > 1
        numbers = any(k < len(own) and _is_number(own[k]) for k in numeric)
        if several and (numbers or not numeric):
            break
        if any(own) and (not several or len(own) > 2):
            number = at + 1
        elif several:
            break
    return number


def delimiter_of(lines: Sequence[str], delimiters: Sequence[str]) -> str:
    """The sign that parts most lines into the same number of fields, several of them."""
    import csv

    best, most = "", (0, 0)
    for sign in delimiters:
        widths = [len(one) for one in csv.reader(lines, delimiter=sign) if one]
        usual = max(set(widths), key=lambda w: (widths.count(w), w), default=1)
        score = (widths.count(usual) if usual > 1 else 0, usual)
        if score > most:
            best, most = sign, score
    return best if most[0] >= len(lines) / 2 else ""
