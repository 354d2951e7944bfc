"""Where in a sheet of cells the table is: titles above it, its heading, labels, notes below it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from headcount.errors import InputError
from headcount.init.words import CODED
from headcount.population.columns import WITHHELD
from headcount.population.formats.office import SHEET
from headcount.population.formats.sheets import Sheet, open_sheets
from headcount.population.tables import AnyTable, FrameTable
from headcount.population.text_files import Format

Line = Sequence[str | None]

NUMBER = re.compile(r"[-+]?\(?[\d.,'\s\u00a0\u202f]*\d[\d.,'\s\u00a0\u202f]*([eE][-+]?\d+)?%?\)?")
_SIGN = re.compile(WITHHELD)
_YEAR = re.compile(r"(1[789]|20)\d\d")

_PARTED = re.compile(r"\d\s{2,}\S|\S\s{2,}-?\d|^\d{8,}\S*$")
"""Fields that stand below each other: blanks before or after a number, or one long number."""

MOST_LEFT_OUT = 3
"""Lines with numbers above the names of columns, or between these and the rows, at most."""

MOST_HEADING = 4
"""Lines that a heading has at most."""

MANY_LINES = 20
"""Lines in which a value of a row stands again: else it may be a name."""

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
    def notes(self) -> tuple[str, ...]:
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
        return tuple(said)


@dataclass(frozen=True)
class _Arranged:
    """How a file is written, which sheet of it is read, and what is said of that.

    where
        labels   what columns are, as a codebook or a second line of names says
    """

    form: Format | None
    sheet: str
    notes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


def arranged(path: AnyTable, *, sheet: str = "", form: Format | None = None) -> _Arranged:
    """How a file is written and where its table stands, as far as nobody has said it."""
    if isinstance(path, FrameTable) or (form is not None and form.cut):
        return _Arranged(form, sheet)
    sheets = open_sheets(path)
    chosen, notes = _sheet(path, sheets, sheet or (form.sheet if form else ""))
    own = chosen.form if form is None else replace(form, sheet=chosen.form.sheet)
    if chosen.header_stated:
        return _Arranged(own, chosen.name, tuple(notes), chosen.column_labels)
    lines = chosen.cells.rows()
    _refuse_fixed_width(path, chosen)
    layout = find_layout(lines, chosen.tail.rows(), text=chosen.kind == "text")
    if layout is None:
        raise InputError(
            str(path),
            place="the first line",
            found="values and no names: there is no header line",
            expected="a name for each column, in one line or several, above the rows",
        )
    _refuse_rows_left_out(path, lines, layout)
    _refuse_heading_again(path, lines, layout)
    heading = list(lines[layout.lines_above]) if lines else []
    names = [one for one in heading if one]
    below = [*lines[layout.lines_above + 1 :], *chosen.tail.rows()]
    blank = [k for k, one in enumerate(heading) if not one]
    filled = {k for line in below for k in blank if k < len(line) and line[k]}
    hollow = len(blank) > 1 >= len(filled)
    twice = layout.heading_lines == 1 and (len(set(names)) < len(names) or hollow)
    own = replace(own, **asdict(layout), number_names=twice)
    plain = layout == Layout(lines_above=_blank_above(lines)) and not twice
    if plain:
        own = replace(own, lines_above=0)
    if twice:
        notes.append("names of columns that stand twice, or that are none, are numbered")
    labels = chosen.column_labels or _labels(lines, layout)
    return _Arranged(own, chosen.name, (*notes, *(() if plain else layout.notes)), labels)


def _refuse_rows_left_out(path: Path, lines: Sequence[Line], layout: Layout) -> None:
    """Refuse a table above or below the names of columns that is none of theirs."""
    first = layout.lines_above + layout.heading_lines
    outside = [*range(layout.lines_above), *range(first, first + layout.lines_after_heading)]
    rows = [k for k in outside if k < len(lines) and _is_row(lines[k])]
    if len(rows) > MOST_LEFT_OUT:
        raise InputError(
            str(path),
            place=f"line {rows[0] + 1}",
            found=f"{len(rows)} lines with numbers, apart from the rows below the names of columns "
            f"in line {layout.lines_above + 1}: several tables below each other?",
            expected="one table in a file",
        )


def _refuse_heading_again(path: Path, lines: Sequence[Line], layout: Layout) -> None:
    """Refuse a line of the heading, or of units below it, that stands again among the rows."""
    begin = layout.lines_above + layout.heading_lines + layout.lines_after_heading
    heading = [[one or "" for one in line] for line in lines[layout.lines_above : begin]]
    known = [line for line in heading if sum(map(bool, line)) > 1 and not _is_row(line)]
    for k, line in enumerate(lines[begin:]):
        if [one or "" for one in line] in known:
            own = known.index([one or "" for one in line])
            raise InputError(
                str(path),
                place=f"line {begin + k + 1}",
                found=f"{'a line below the' if own else 'the line of'} names again: several tables "
                "below each other",
                expected="one table in a file",
            )


def _is_row(line: Line) -> bool:
    filled = [one for one in line if one and one.strip()]
    return len(filled) > 1 and any(map(_is_number, filled))


def _labels(lines: Sequence[Line], layout: Layout) -> Mapping[str, str]:
    """What columns are by the line below their names, where one is left out there."""
    if layout.heading_lines > 1 or not layout.lines_after_heading:
        return {}
    names, below = lines[layout.lines_above], lines[layout.lines_above + 1]
    return {a.strip(): b.strip() for a, b in zip(names, below, strict=True) if a and b}


def _blank_above(lines: Sequence[Line]) -> int:
    return next((k for k, line in enumerate(lines) if any(line)), 0)


def _sheet(path: Path, sheets: Sequence[Sheet], named: str) -> tuple[Sheet, list[str]]:
    """The sheet that is named, or the only one with a table."""
    if named:
        wanted = [one for one in sheets if one.name == named]
        if len(sheets) == 1 and not wanted:
            wanted = list(sheets)
        if wanted:
            return wanted[0], []
    some = [one for one in sheets if _has_table(one)] or list(sheets)
    if len(some) == 1 and not named:
        others = len(sheets) > 1
        return some[0], [f"sheet {some[0].name!r}: the only one with a table"] if others else []
    if len(some) > 1 and not named and _are_parts(some):
        names = tuple(one.name for one in some)
        said = f"{len(names)} sheets with the same heading and rows are one table; a column"
        together = replace(some[0], form=replace(some[0].form, sheet="", sheets=names), name="")
        return together, [f"{said} {SHEET!r} has their names: {', '.join(names[:3])}, ..."]
    raise InputError(
        str(path),
        place="sheets",
        found=f"several: {', '.join(repr(one.name) for one in (sheets if named else some)[:12])}",
        expected=f'one of them: --sheet "{some[0].name}"',
    )


def _are_parts(sheets: Sequence[Sheet]) -> bool:
    """Whether sheets of a workbook have the same heading and rows of the same names."""
    if any(one.kind != "excel" for one in sheets):
        return False
    first: tuple[Layout | None, list[object]] | None = None
    for one in sheets:
        lines = one.cells.rows()
        layout = find_layout(lines)
        if layout is None:
            return False
        begin = layout.lines_above + layout.heading_lines + layout.lines_after_heading
        body = lines[begin : len(lines) - layout.lines_below]
        names = [[cell for cell in line if cell and not _is_number(cell)] for line in body]
        own = (layout, [lines[layout.lines_above : begin], names])
        if first is not None and own != first:
            return False
        first = own
    return True


def _has_table(sheet: Sheet) -> bool:
    """Whether a sheet has numbers below each other in several columns, or below one name."""
    lines = [[(one or "").strip() for one in line] for line in sheet.cells.head(400).rows()]
    several = [line for line in lines if sum(map(bool, line)) > 1]
    return len(several) > 1 and bool(_numeric_columns(several[1:]))


def _refuse_fixed_width(path: Path, sheet: Sheet) -> None:
    """Refuse a text whose fields stand below each other, with no sign between them."""
    if sheet.kind != "text":
        return
    fields = [sum(map(bool, line)) for line in sheet.cells.rows()]
    lines = ["".join(one or "" for one in line) for line in sheet.cells.rows() if any(line)]
    alike = [number for number in fields if number > 1]
    if len(lines) < 3 or 2 * len(alike) > len(lines):
        return
    parted = sum(_PARTED.search(line) is not None for line in lines)
    if 2 * parted > len(lines):
        raise InputError(
            str(path),
            found="lines without a sign between their fields: fixed width, with no layout that "
            "says where a column begins",
            expected="text with commas, semicolons, tabs or bars, or a codebook (DDI .xml) beside",
        )


def find_layout(
    lines: Sequence[Line], tail: Sequence[Line] = (), *, text: bool = False
) -> Layout | None:
    """The layout of a sheet, by its first lines and, if these are not all, its last ones.

    Nothing if the rows begin in the first line: then there are no names. In a ``text`` a record
    of several lines is followed by blank ones.
    """
    cells = [[(one or "").strip() for one in line] for line in lines]
    heights = [1] * len(cells)
    if text:
        cells, heights = _records(cells)
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
    last = _last_name(cells[first : last + 1]) + first
    return Layout(
        lines_above=sum(heights[:first]),
        heading_lines=last + 1 - first,
        lines_after_heading=sum(heights[last + 1 : begin]),
        lines_below=_notes_below(tail or lines[sum(heights[:begin]) :], numeric),
    )


def _records(cells: list[list[str]]) -> tuple[list[list[str]], list[int]]:
    """Records, and on how many lines each of them stands."""
    found: list[list[str]] = []
    heights: list[int] = []
    left = 0
    for line in cells:
        if left and not any(line):
            left -= 1
            heights[-1] += 1
            continue
        found.append([" ".join(one.split()) for one in line])
        heights.append(1)
        left = sum(one.count("\n") for one in line)
    return found, heights


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
        names = next(k for k, number in enumerate(filled) if number >= FULL * width)
        return names + 1 + _says_more(cells[names:])
    for k, line in enumerate(cells):
        own = {c: line[c] for c in numeric if c < len(line) and line[c]}
        sound = [one for one in own.values() if _is_number(one) or _SIGN.fullmatch(one)]
        if not any(map(_is_number, sound)) or len(sound) < HALF * len(numeric):
            continue
        if (k == 0 or filled[k - 1] < 2) and _names_years(line, cells[k + 1 : k + 4]):
            continue
        # Rows before it whose counts are all withheld; the first full line has the names.
        names = next(at for at, number in enumerate(filled) if number > 1)
        while (
            k > names + 1 and filled[k - 1] >= FULL * filled[k] and _withheld(cells[k - 1 :], own)
        ):
            k -= 1
        return k
    return len(cells)


def _withheld(lines: list[list[str]], numeric: Iterable[int]) -> bool:
    """Whether the first line has signs for counts that are not there, and no letters as names."""
    line, *others = lines
    signs = [line[k] if k < len(line) else "" for k in numeric]
    letters = any(one.isalpha() for one in signs)
    return all(one and _SIGN.fullmatch(one) for one in signs) and not (
        letters and not _again(line, others)
    )


def _says_more(lines: list[list[str]]) -> bool:
    """Whether the line below names is none of a row: tags, or words where the names are codes."""
    if len(lines) < 2:
        return False
    names, below = ([one for one in line if one] for line in lines[:2])
    if all(one.startswith("#") for one in below):
        return len(below) > 1
    coded = all(CODED.fullmatch(one) for one in names)
    return coded and len(lines) > MANY_LINES and not _again(lines[1], lines[2:])


def _again(line: list[str], others: list[list[str]]) -> bool:
    """Whether a value of a line stands in its column in another line too."""
    return any(one and one in there for one, *there in zip_longest(line, *others, fillvalue=""))


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


def _last_name(heading: list[list[str]]) -> int:
    """The last line of names: the first, where it names all columns and others say it in words."""
    first, others = heading[0], heading[1:]
    own = [one for one in first if one]
    more = [k for line in others for k, name in enumerate(line) if name]
    whole = all(k < len(first) and first[k] for k in more)
    return 0 if whole and len(set(own)) == len(own) else len(heading) - 1


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
