"""Sheets of Excel and OpenDocument, and files of Stata, SPSS and SAS, as text."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from headcount.errors import InputError, one_of
from headcount.population.formats.content import Content, Stated, as_text, whole_text
from headcount.population.formats.kinds import (
    DAMAGE,
    SAS,
    Kind,
    Stored,
    TooLargeError,
    damaged,
    fitting,
    refuse_too_many,
    too_large,
)
from headcount.population.text_files import Format, heading_names
from headcount.processes import memory_limit

Merged = tuple[int, int, int, int]
"""First row and column, last row and column, from 0."""

SHEET = "sheet"
"""The column of their names, where several sheets are one table."""

LARGER_AS_SHEET = 20
"""Memory that an Excel file takes, in sizes of the file, which is packed."""

CELL = 64
"""Memory that a cell of a sheet takes, empty or not: a sheet is read as far as its last cell."""

_CELL = re.compile(rb'<c r="([A-Z]{1,3})([0-9]{1,7})"')
_ROW = re.compile(rb'<row [^>]{0,200}?r="([0-9]{1,7})"')
_MERGED = re.compile(rb'<mergeCell ref="([A-Z]{1,3})([0-9]{1,7}):([A-Z]{1,3})([0-9]{1,7})"')
_REPEATED = re.compile(rb'number-(rows|columns)-(?:repeated|spanned)="([0-9]{1,9})"')
_TAIL = 400
"""Bytes that are looked at again, so that nothing is cut where a piece ends."""


def sheet_names(stored: Stored) -> list[str]:
    """The sheets of an Excel file in which something stands."""
    import fastexcel

    _refuse_large_sheets(stored)
    book = _book(stored)
    try:
        return [
            one for one in book.sheet_names if book.load_sheet(one, n_rows=1, dtypes="string").width
        ]
    except fastexcel.FastExcelError as error:
        raise damaged(stored.name, error, "an Excel file") from None


def read_excel(stored: Stored, form: Format) -> Content:
    """A sheet with its heading, which is the first row in which something stands, or as told."""
    if form.sheets:
        return _sheets_together(stored, form)
    if form.cut:
        return _cut(stored, form)
    table, header = _as_headed(stored, form)
    return Content(frame=table.select(pl.all().cast(pl.String)), header=header)


def _sheets_together(stored: Stored, form: Format) -> Content:
    """Sheets with the same heading below each other, with a column of their names."""
    parts: list[pl.DataFrame] = []
    for name in form.sheets:
        own = _cut(stored, replace(form, sheets=(), sheet=name))
        alike = not parts or own.frame.columns == parts[0].columns[1:]
        if not alike or SHEET in own.frame.columns:
            raise InputError(
                stored.name,
                place=f"sheet {name!r}",
                found="another heading" if not alike else f"a column {SHEET!r}",
                expected=f"the heading of the sheet {form.sheets[0]!r}, without a column of that "
                "name: sheets are parts of one table",
            )
        named = pl.Series(SHEET, [name] * own.frame.height, dtype=pl.String)
        parts.append(own.frame.insert_column(0, named))
    return Content(frame=pl.concat(parts), header=parts[0].columns)


def _as_headed(stored: Stored, form: Format) -> tuple[pl.DataFrame, list[str]]:
    import fastexcel

    book = _chosen(stored, form)
    sheet = form.sheet or 0
    try:
        table = book.load_sheet(sheet, dtypes="string").to_polars()
        first = book.load_sheet(sheet, dtypes="string", header_row=None, n_rows=1).to_polars()
    except fastexcel.FastExcelError as error:
        raise damaged(stored.name, error, "an Excel file") from None
    header = ["" if one is None else str(one) for one in first.row(0)] if first.height else []
    if header.count("") == 1:  # of which there may be one, as of the numbers of rows
        table = table.rename({table.columns[header.index("")]: ""})
    return table, header


def grid(stored: Stored, form: Format) -> pl.DataFrame:
    """All cells of a sheet as text, from its first row, under the numbers of the columns."""
    import fastexcel

    book = _chosen(stored, form)
    try:
        table = book.load_sheet(
            form.sheet or 0, dtypes="string", header_row=None, skip_rows=0
        ).to_polars()
    except fastexcel.FastExcelError as error:
        raise damaged(stored.name, error, "an Excel file") from None
    cells: pl.DataFrame = table.select(pl.all().cast(pl.String).replace("", None))
    return cells.rename({old: str(n) for n, old in enumerate(cells.columns, 1)})


def _cut(stored: Stored, form: Format) -> Content:
    """The part of a sheet that is a table, by what its format says."""
    cells = grid(stored, form)
    above, lines = form.lines_above, form.heading_lines
    first = above + lines + form.lines_after_heading
    if first > cells.height - form.lines_below:
        raise InputError(
            stored.name,
            place="format",
            found=f"no rows below row {first}",
            expected="a heading and rows: fewer lines_above, heading_lines, lines_after_heading or "
            "lines_below",
        )
    heading = [[one or "" for one in row] for row in cells.slice(above, lines).rows()]
    spans = [
        (r - above, c, last - above, last_c)
        for r, c, last, last_c in merged_cells(stored, form)
        if above <= r < above + lines
    ]
    names = heading_names(heading or [[""] * cells.width], spans)
    body = cells.slice(first, cells.height - form.lines_below - first)
    return Content(frame=body.rename(dict(zip(body.columns, names, strict=True))), header=names)


def _chosen(stored: Stored, form: Format) -> Any:
    _refuse_large_sheets(stored)
    book = _book(stored)
    if form.sheet and form.sheet not in book.sheet_names:
        raise InputError(
            stored.name,
            place="sheet",
            found=repr(form.sheet),
            expected=one_of(book.sheet_names),
        )
    return book


def _book(stored: Stored) -> Any:
    import fastexcel

    try:
        return fastexcel.read_excel(
            stored.content(larger=LARGER_AS_SHEET) if stored.member else stored.path
        )
    except fastexcel.FastExcelError as error:
        raise damaged(stored.name, error, "an Excel file") from None


def merged_cells(stored: Stored, form: Format) -> tuple[Merged, ...]:
    """Merged cells of a sheet in the format of Excel since 2007; those of others are not known.

    Read by hand: fastexcel does not tell them.
    """
    names = _book(stored).sheet_names
    number = names.index(form.sheet) if form.sheet in names else 0
    with suppress(*DAMAGE), _archive(stored) as archive:
        own = _sheet_file(archive, number)
        found: set[Merged] = set()
        for piece in _pieces(archive, own) if own else ():
            found.update(
                (int(r) - 1, _column(c) - 1, int(last) - 1, _column(last_c) - 1)
                for c, r, last_c, last in _MERGED.findall(piece)
            )
        return tuple(sorted(found))
    return ()


def _sheet_file(archive: zipfile.ZipFile, number: int) -> str:
    """Where in a workbook the cells of a sheet stand."""
    book = archive.read("xl/workbook.xml")
    ids = re.findall(rb'<sheet [^>]*?r:id="([^"]+)"', book)
    links = archive.read("xl/_rels/workbook.xml.rels")
    for link in re.findall(rb"<Relationship [^>]+>", links) if number < len(ids) else ():
        if b'Id="' + ids[number] + b'"' in link and (at := re.search(rb'Target="([^"]+)"', link)):
            target = at[1].decode("ascii", errors="replace")
            return target[1:] if target.startswith("/") else f"xl/{target}"
    return ""


def _archive(stored: Stored) -> zipfile.ZipFile:
    source = BytesIO(stored.content()) if stored.member else stored.path
    return zipfile.ZipFile(source)


def _pieces(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """A file of an archive in pieces, each with the end of the one before."""
    with archive.open(name) as file:
        before = b""
        while some := file.read(1 << 20):
            yield before + some
            before = some[-_TAIL:]


def _column(letters: bytes) -> int:
    number = 0
    for one in letters:
        number = 26 * number + one - ord("A") + 1
    return number


def _refuse_large_sheets(stored: Stored) -> None:
    """Refuse sheets that do not fit into memory, before anything of them is in it.

    A sheet is read as a rectangle as far as its last cell, however few there are: two cells may
    stand for sixteen thousand million. The size that a zip claims is not believed.
    """
    about = stored.path.stat()
    _refuse_large(stored, (about.st_mtime_ns, about.st_size, memory_limit()))


@lru_cache(maxsize=16)
def _refuse_large(stored: Stored, _: tuple[int, int, int]) -> None:
    name = stored.name
    with stored.opened() as file:
        start = file.read(4)
        size = file.seek(0, 2)
    if LARGER_AS_SHEET * size > memory_limit():
        raise too_large(name)(size, LARGER_AS_SHEET * size)
    if not start.startswith(b"PK"):
        return
    try:
        with _archive(stored) as archive:
            left = memory_limit() // 2
            for one in archive.infolist():
                rows = columns = 1
                repeated = {b"rows": 1, b"columns": 1}
                for piece in _pieces(archive, one.filename):
                    left -= len(piece)
                    if left < 0:
                        unpacked = memory_limit() // 2
                        raise too_large(name)(unpacked, 2 * unpacked)
                    if one.filename.endswith(".xml"):
                        rows = max([rows, *map(int, _ROW.findall(piece))])
                        letters = {c for c, _ in _CELL.findall(piece)}
                        columns = max([columns, *map(_column, letters)])
                        for what, number in _REPEATED.findall(piece):
                            repeated[what] = max(repeated[what], int(number))
                if CELL * rows * columns > (most := memory_limit()):
                    raise TooLargeError(
                        name,
                        found=f"a sheet as far as row {rows:,} and column {columns:,}",
                        expected=fitting(most, CELL * rows * columns),
                    )
    except DAMAGE as error:
        raise damaged(name, error, "an Excel file") from None


# --- statistics programs ---------------------------------------------------------------------


def read_statistics(stored: Stored, kind: Kind) -> Content:
    """The table of a Stata, SPSS or SAS file, codes as they are."""
    with _as_path(stored) as path:
        rows, columns = _size(path, stored.name, kind)
        refuse_too_many(stored.name, rows, len(columns))
        table, facts = _statistics(
            path,
            stored.name,
            kind,
            output_format="polars",
            disable_datetime_conversion=True,
        )
    labels = {
        column: {whole_text(value): str(label) for value, label in known.items()}
        for column, known in facts.variable_value_labels.items()
    }
    said = facts.column_names_to_labels
    return Content(
        frame=table.select(as_text(table[column], stored.name) for column in table.columns),
        header=table.columns,
        column_labels={name: str(label) for name, label in said.items() if label},
        value_labels=labels,
        stated=Stated(title=str(facts.file_label or "")),
    )


def statistics_header(stored: Stored, kind: Kind) -> list[str]:
    """The columns of a Stata, SPSS or SAS file."""
    with _as_path(stored) as path:
        return _size(path, stored.name, kind)[1]


def _size(path: Path, name: str, kind: Kind) -> tuple[int, list[str]]:
    """How many rows a file says it has (0 if it does not say), and its columns."""
    _, facts = _statistics(path, name, kind, output_format="polars", metadataonly=True)
    return int(facts.number_rows or 0), list(facts.column_names)


def _statistics(path: Path, name: str, kind: Kind, **options: Any) -> Any:
    import pyreadstat

    start = Stored(path).start()
    read: Any
    if kind == "stata":
        read = pyreadstat.read_dta
    elif kind == "sas":
        read = pyreadstat.read_sas7bdat if start.startswith(SAS) else pyreadstat.read_xport
    else:
        read = pyreadstat.read_sav if start.startswith(b"$FL") else pyreadstat.read_por
    if kind in ("stata", "spss") and read is not pyreadstat.read_por:
        options.setdefault("apply_value_formats", False)
    try:
        return read(path, **options)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, *DAMAGE) as error:
        raise damaged(name, error, "a Stata, SPSS or SAS file") from None


@contextmanager
def _as_path(stored: Stored) -> Iterator[Path]:
    """A file for a reader that wants a path: one of a zip is unpacked for as long as it is read."""
    if not stored.member:
        yield stored.path
        return
    with TemporaryDirectory(prefix="headcount-") as folder:  # which nobody else may look into
        path = Path(folder) / f"file{stored.ending}"
        path.write_bytes(stored.content())
        yield path
