"""The door for whoever looks at a file: what tables are in it, as far as its format says."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import StringIO
from itertools import islice
from pathlib import Path

import polars as pl

from headcount.errors import InputError
from headcount.population.formats import office
from headcount.population.formats.content import Content, Stated, ValueLabels
from headcount.population.formats.kinds import Kind, Stored, kind_of, too_large
from headcount.population.formats.layouts import Codebook, codebook_of, read_laid_out
from headcount.population.formats.office import Merged
from headcount.population.formats.whole import INSIDE, read_stored, sheets_in, tables_of, text_in
from headcount.population.tables import refuse_no_file
from headcount.population.text_files import (
    DELIMITERS,
    Format,
    TextFile,
    likely_encoding,
    likely_encoding_of,
    open_text,
    told_encoding,
)

SMALL = 1 << 22
"""Bytes of a text that is looked at whole."""

HEAD, TAIL = 400, 40
"""Lines of a larger one."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Sheet:
    """A sheet as it is found.

    where
        name            as a config names it; nothing where there is but one
        form            what reads this very sheet again
        cells           all text. Where the format states the names of columns, its rows under
                        these; else all lines from the first, under the numbers of the columns
        header_stated   whether it does
        complete        whether ``cells`` are all there are; else ``tail`` are the last lines
        merged          merged cells of Excel, from 0
        column_labels   what a column is
        value_labels    what a code is, by column
        hierarchies     the codes of a column in their order, each with its depth
        evidence        codebooks that were used
    """

    path: Path
    name: str
    kind: Kind
    form: Format
    cells: pl.DataFrame
    header_stated: bool = True
    complete: bool = True
    tail: pl.DataFrame = field(default_factory=pl.DataFrame)
    merged: tuple[Merged, ...] = ()
    column_labels: Mapping[str, str] = field(default_factory=dict)
    value_labels: ValueLabels = field(default_factory=dict)
    stated: Stated = field(default_factory=Stated)
    hierarchies: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    evidence: tuple[Path, ...] = ()


def open_sheets(path: Path, *, beside: Sequence[Path] = ()) -> tuple[Sheet, ...]:
    """All sheets of a file; files beside it may be its codebook."""
    refuse_no_file(path)
    if kind_of(path) != "zip":
        return tuple(_sheets(Stored(path), "", beside))
    inside = tables_of(path)
    if not inside:
        raise InputError(str(path), found="no table", expected="a zip with tables in it")
    found = []
    for member in inside:
        stored = Stored(path, member)
        found += _sheets(stored, member if len(inside) > 1 else "", beside)
    return tuple(found)


def _sheets(stored: Stored, member: str, beside: Sequence[Path]) -> list[Sheet]:
    """The sheets of a file, or of a file in a zip."""
    kind = kind_of(stored)
    book = None if stored.member else codebook_of(stored.path, beside)
    if kind == "text":
        return [_text(stored, member, book)]
    names = sheets_in(stored, kind)
    found = []
    for name in names:
        sheet = name if len(names) > 1 else ""
        full = INSIDE.join(one for one in (member, sheet) if one)
        form = Format(sheet=full)
        if kind == "excel":
            found.append(_excel(stored, full, name, form))
        else:
            found.append(_stated(stored, kind, form, read_stored(stored, kind, Format(), name)))
    return found


def _excel(stored: Stored, full: str, name: str, form: Format) -> Sheet:
    own = Format(sheet=name)
    return Sheet(
        path=stored.path,
        name=full,
        kind="excel",
        form=form,
        cells=office.grid(stored, own),
        header_stated=False,
        merged=office.merged_cells(stored, own),
    )


def _stated(
    stored: Stored, kind: Kind, form: Format, content: Content, evidence: tuple[Path, ...] = ()
) -> Sheet:
    return Sheet(
        path=stored.path,
        name=form.sheet,
        kind=kind,
        form=form,
        cells=content.frame.select(pl.all().cast(pl.String)),
        column_labels=content.column_labels,
        value_labels=content.value_labels,
        stated=content.stated,
        hierarchies=content.hierarchies,
        evidence=evidence,
    )


def _text(stored: Stored, member: str, book: Codebook | None) -> Sheet:
    if book is not None and book[1].is_needed(stored):
        form = Format(sheet=member, layout=book[0])
        content = read_laid_out(stored, form, book[1])
        return _stated(stored, "text", form, content, evidence=(book[0],))
    encoding = likely_encoding_of(stored.content(), whole=True) if stored.member else ""
    form = Format(sheet=member, encoding=told_encoding(encoding or likely_encoding(stored.path)))
    text = (
        text_in(stored, form)
        if stored.member
        else open_text(stored.path, form, too_large(stored.name), whole=False)
    )
    head, tail, complete = _lines(text)
    delimiter = _delimiter(head)
    found = text.delimiter
    cells = _cells(head, delimiter)
    sheet = Sheet(
        path=stored.path,
        name=member,
        kind="text",
        form=form if delimiter == found else replace(form, delimiter=delimiter),
        cells=cells,
        header_stated=False,
        complete=complete,
        tail=_cells(tail, delimiter),
        stated=_sdmx(cells),
    )
    if book is None:
        return sheet
    said = book[1].of(cells, [one or "" for one in cells.row(0)] if cells.height else [])
    return replace(
        sheet,
        column_labels=said.column_labels,
        value_labels=said.value_labels,
        hierarchies=said.hierarchies,
        evidence=(book[0],) if said.column_labels or said.value_labels else (),
    )


def _lines(text: TextFile) -> tuple[list[str], list[str], bool]:
    """The lines of a small text; the first and the last of a large one."""
    size = text.path.stat().st_size if text.content is None else len(text.content)
    with text._open() as file:
        if size <= SMALL:
            return file.read().splitlines(keepends=True), [], True
        head = list(islice(file, HEAD))
    with text._raw() as raw:
        raw.seek(max(size - SMALL // 4, 0))
        tail = raw.read().decode("utf-8", errors="replace").splitlines(keepends=True)
    return head, tail[1:][-TAIL:], False


def _delimiter(lines: Sequence[str]) -> str:
    """The sign that parts most lines into the same number of fields, more than one."""
    some = [line for line in lines[:HEAD] if line.strip()]
    best, most = ",", (0, 0)
    for sign in DELIMITERS:
        sizes = [len(fields) for fields in _records(some, sign)]
        wide = [size for size in sizes if size > 1]
        if wide:
            size = max(set(wide), key=lambda one: (wide.count(one), one))
            score = (wide.count(size), size)
            best, most = (sign, score) if score > most else (best, most)
    return best


def _records(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    found: list[list[str]] = []
    with suppress(csv.Error):  # a field of more than 131,072 characters
        found.extend(csv.reader(StringIO("".join(lines), newline=""), delimiter=delimiter))
    return found


def _cells(lines: Sequence[str], delimiter: str) -> pl.DataFrame:
    """Lines as rows: a record of several lines is followed by blank ones, so that all count."""
    rows: list[list[str]] = []
    reader = csv.reader(iter(lines), delimiter=delimiter)
    with suppress(csv.Error):
        for fields in reader:
            rows.append(fields)
            rows += [[]] * (reader.line_num - len(rows))
    width = max(map(len, rows), default=0)
    full = [[one.strip() or None for one in row] + [None] * (width - len(row)) for row in rows]
    schema = {str(n + 1): pl.String for n in range(width)}
    return pl.DataFrame(full, schema=schema, orient="row") if rows else pl.DataFrame(schema=schema)


_SDMX = (("DATAFLOW",), ("STRUCTURE", "STRUCTURE_ID"))
_FLAGS = ("OBS_STATUS", "OBS_FLAG", "CONF_STATUS", "OBS_CONF")


def _sdmx(cells: pl.DataFrame) -> Stated:
    """What the header of an SDMX-CSV file states: its first columns say that it is one."""
    header = [str(one or "") for one in cells.row(0)] if cells.height else []
    if "OBS_VALUE" not in header or not any(header[: len(one)] == [*one] for one in _SDMX):
        return Stated()
    return Stated(
        counts=("OBS_VALUE",),
        times=tuple(one for one in header if one == "TIME_PERIOD"),
        places=tuple(one for one in header if one in ("REF_AREA", "GEO")),
        flags=tuple(one for one in header if one in _FLAGS),
    )
