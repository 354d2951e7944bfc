"""One sheet of a file of any format but plain text and Parquet, which are read in pieces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from headcount.errors import InputError, one_of
from headcount.population.formats import cubes, layouts, office, r, summary
from headcount.population.formats.content import Content, as_text
from headcount.population.formats.kinds import (
    DAMAGE,
    KNOWN,
    Kind,
    Stored,
    damaged,
    kind_of,
    members,
    too_large,
)
from headcount.population.text_files import Format, TextFile, distinct, text_of
from headcount.processes import memory_limit

_POLARS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)

INSIDE = ": "
"""Between a file of a zip and a sheet in it."""


def read_whole(path: Path, form: Format) -> Content:
    """The table of a sheet with what its format states."""
    stored, sheet = locate(path, form.sheet)
    if form.layout is not None:
        return layouts.read_laid_out(stored, form, layouts.read_layout(form.layout))
    return read_stored(stored, kind_of(stored), form, sheet)


def locate(path: Path, sheet: str) -> tuple[Stored, str]:
    """The file that a sheet is in, and its name there; in a zip the first word says the file."""
    if kind_of(path) != "zip":
        return Stored(path), sheet
    known = tables_of(path)
    inside = [one for one in known if sheet == one or sheet.startswith(one + INSIDE)]
    if sheet and not inside and len(known) == 1:
        return Stored(path, known[0]), sheet
    if not known or (sheet and not inside):
        expected = one_of(known) if known else "a zip with tables in it"
        raise InputError(
            str(path), place="sheet", found=repr(sheet) if sheet else "no table", expected=expected
        )
    member = max(inside, key=len) if sheet else known[0]
    return Stored(path, member), sheet.removeprefix(member).removeprefix(INSIDE)


def tables_of(path: Path) -> list[str]:
    """The files of a zip that may hold tables: those with a known ending that is no codebook's."""
    own = [one for one in members(path) if one.lower().endswith(KNOWN)]
    return [one for one in own if not one.lower().endswith(("_codebook.txt", "readme.txt", ".zip"))]


def read_stored(stored: Stored, kind: Kind, form: Format, sheet: str) -> Content:
    """The table of a sheet of a file, or of a file in a zip."""
    if kind == "excel":
        return office.read_excel(stored, _with(form, sheet))
    if kind in ("stata", "spss", "sas"):
        return office.read_statistics(stored, kind)
    if kind == "px":
        return cubes.read_px(stored)
    if kind == "json-stat":
        return cubes.read_json_stat(stored, sheet)
    if kind == "r":
        return r.read_r(stored, sheet)
    if kind == "summary":
        return summary.read_summary(stored, sheet)
    if kind in ("arrow", "parquet"):
        return _arrow(stored, kind)
    if kind == "text":
        return _text(stored, form)
    raise InputError(stored.name, found="a zip in a zip", expected="a table")


def _with(form: Format, sheet: str) -> Format:
    return form if form.sheet == sheet else replace(form, sheet=sheet)


def sheets_in(stored: Stored, kind: Kind) -> list[str]:
    """The names of the sheets of a file, as its format calls them; "" for the only one."""
    if kind == "excel":
        return office.sheet_names(stored)
    if kind == "r":
        return list(r.tables(stored))
    if kind == "json-stat":
        return list(cubes.datasets(stored))
    if kind == "summary":
        return summary.levels(stored)
    return [""]


def names_in(path: Path, form: Format) -> list[str]:
    """The sheets of a file that somebody must choose from; none of them adds up to another."""
    kind = kind_of(path)
    if form.layout is not None or kind in ("text", "parquet", "summary"):
        return []
    if kind != "zip":
        return sheets_in(Stored(path), kind)
    found = []
    for member in (inside := tables_of(path)):
        stored = Stored(path, member)
        names = sheets_in(stored, kind_of(stored))
        several = names if len(names) > 1 else [""]
        own = member if len(inside) > 1 else ""
        found += [INSIDE.join(one for one in (own, name) if one) for name in several]
    return found


def header_in(path: Path, form: Format) -> list[str]:
    """The names of the columns of a sheet, as they are written."""
    stored, _ = locate(path, form.sheet)
    kind = kind_of(stored)
    if kind in ("stata", "spss", "sas") and form.layout is None:
        return office.statistics_header(stored, kind)
    return list(read_whole(path, form).header)


def text_in(stored: Stored, form: Format) -> TextFile:
    """A text in a zip."""
    return text_of(stored.content(), stored.path, form, too_large(stored.name))


def _text(stored: Stored, form: Format) -> Content:
    text = text_in(stored, form)
    try:
        frame = text.scan().collect()
    except _POLARS as error:
        raise damaged(stored.name, error) from None
    return Content(frame=frame, header=text.header)


def _arrow(stored: Stored, kind: Kind) -> Content:
    """Arrow's file, its stream, or the first Feather; Parquet where it stands in a zip."""
    import pyarrow as pa
    from pyarrow import feather, ipc, parquet

    raw = pa.BufferReader(stored.content())
    try:
        if kind == "parquet":
            table = parquet.read_table(raw)
        elif stored.start().startswith(b"FEA1"):
            table = feather.read_table(raw)
        else:
            stream = stored.start().startswith(b"\xff")
            batches = ipc.open_stream(raw) if stream else _file_batches(ipc.open_file(raw))
            table = _within_memory(batches, stored.name)
        table.validate(full=True)
        names = [one.name for one in table.schema]
        table = table.rename_columns([f"{n}" for n in range(len(names))])
        frame = pl.from_arrow(table)
    except (
        pa.ArrowException,
        *DAMAGE,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
    ) as error:
        raise damaged(stored.name, error) from None
    assert isinstance(frame, pl.DataFrame)
    flat = [one for one in frame if not one.dtype.is_nested()]
    kept = [names[int(one.name)] for one in flat]
    made = [as_text(one, stored.name).alias(n) for one, n in zip(flat, distinct(kept), strict=True)]
    return Content(frame=pl.DataFrame(made), header=kept)


def _file_batches(reader: object) -> object:
    return (reader.get_batch(n) for n in range(reader.num_record_batches))  # type: ignore[attr-defined]


def _within_memory(batches: object, name: str) -> object:
    """The batches of a table as far as they fit into memory: what is packed may be larger."""
    import pyarrow as pa

    found, size, most = [], 0, memory_limit() // 4
    for one in batches:  # type: ignore[attr-defined]
        found.append(one)
        size += one.nbytes
        if size > most:
            raise too_large(name)(size, 4 * size)
    return pa.Table.from_batches(found) if found else pa.table({})
