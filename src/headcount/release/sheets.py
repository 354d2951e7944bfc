"""The tables of a release as files: what is in each, and how it is written piece by piece.

The data dictionary beside them is a descriptor by the Data Package standard, version 1
(https://specs.frictionlessdata.io): programs that know it read the tables with codes as text and
levels in their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from io import BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from headcount.fields import in_plain_numbers
from headcount.files import whole_files
from headcount.geography.geography import Geography
from headcount.processes import Progress, silent
from headcount.release.layout import (
    AREAS,
    COUNT,
    UNITS,
    FileFormat,
    FileLayout,
    LevelTable,
    MarginNames,
    code_names,
    counted_rows,
    marginal,
    only_counted,
    published_stem,
    refuse_clash,
    stem_of,
    tidy_frame,
    units_frame,
    wide_frame,
)
from headcount.release.published import (
    FLAG,
    PUBLISHED,
    WITHHELD,
    PublishedCells,
    cell_columns,
    published_frame,
)
from headcount.release.release import CountsRelease, Release, TablesRelease
from headcount.schema import Schema
from headcount.tabulate.counts import Query

if TYPE_CHECKING:
    import pyarrow as pa

DICTIONARY = "datapackage.json"

_MEDIA = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "txt": "text/plain",
}

_BESIDES = {
    "microdata": "Records of people, made from the protected counts.",
    "mdf": "Records of people, housing units or living quarters, in layouts of the Census Bureau.",
    "measurements": "Noisy answers, before they were made to add up, and what is kept exactly or "
    "within bounds.",
}


def described(
    files: Sequence[tuple[str, Sheet | None]],
    *,
    mechanism: str,
    promises: Sequence[str],
    facts: Mapping[str, tuple[int, str]],
    geography: Mapping[str, Any],
) -> dict[str, Any]:
    """The descriptor of a release.

    where
        files      name of each file, and the table in it; None where it is described elsewhere
        promises   the sentences of the guarantee
        facts      bytes and SHA-256 of each file
        geography  the places of the tables and those that were measured, as in the receipt
    """
    names: set[str] = set()
    return {
        "profile": "data-package",
        "name": "release",
        "title": f"Protected counts by {in_plain_numbers(mechanism)}",
        "description": "\n".join([*promises, *_places_in_words(geography)]),
        **({"geography": dict(geography)} if geography else {}),
        "resources": [_resource(name, sheet, *facts[name], names) for name, sheet in files],
    }


def _places_in_words(geography: Mapping[str, Any]) -> list[str]:
    """Both geographies in a sentence each, where they differ."""
    if "measured" not in geography:
        return []

    def sizes(which: str) -> str:
        return ", ".join(f"{level} {n:,}" for level, n in geography[which]["units"].items())

    return [
        f"Tables have the places of tabulation (units of each level: {sizes('published')}).",
        f"Noise was put on units of another tree over the same leaves, the spine "
        f"({sizes('measured')}).",
    ]


def _resource(
    path: str, sheet: Sheet | None, size: int, digest: str, names: set[str]
) -> dict[str, Any]:
    ending = path.rsplit(".", 1)[-1]
    resource: dict[str, Any] = {
        "name": _identifier(path, names),
        "path": path,
        "format": ending,
        "mediatype": _MEDIA.get(ending, "application/octet-stream"),
    }
    if ending != "parquet":  # of which frictionless counts no bytes: the manifest has its digest
        resource |= {"bytes": size, "hash": f"sha256:{digest}"}
    if sheet is None:
        return {**resource, "description": _BESIDES.get(path.split("/")[0], "")}
    if ending == "csv":
        resource |= {"profile": "tabular-data-resource", "encoding": "utf-8"}
    # A code may be the empty text: only where counts are withheld is nothing a missing value.
    missing = [] if all(field.required for field in sheet.fields) else [""]
    return {
        **resource,
        "description": sheet.words,
        "schema": {
            "fields": [_field(field) for field in sheet.fields],
            "primaryKey": list(sheet.key),
            "missingValues": missing,
        },
    }


def _field(field: _SheetField) -> dict[str, Any]:
    constraints: dict[str, Any] = {"required": True} if field.required else {}
    if field.levels:
        constraints["enum"] = list(field.levels)
    return {
        "name": field.name,
        "type": field.type,
        "description": field.words,
        **({"constraints": constraints} if constraints else {}),
    }


def _identifier(path: str, taken: set[str]) -> str:
    """A name as the standard wants it: small letters, digits, and ``.-_``; each once."""
    plain = re.sub(r"[^a-z0-9._-]+", "-", path.lower()).strip("-") or "table"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name)
    return name


COUNTS_AT_ONCE, ROWS_AT_ONCE = 1 << 24, 1 << 20
"""Counts, and rows of counts that are not 0, made and written together: they bound the memory."""


DICTIONARY_BYTES = 1 << 26
"""Codes of one piece, each held once: all of them fit, so that rows are numbers."""


@dataclass(frozen=True, kw_only=True)
class _SheetField:
    """A column of a table, as the data dictionary describes it."""

    name: str
    type: str
    words: str
    levels: tuple[str, ...] = ()
    required: bool = True


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Sheet:
    """One table of a release: a file in each format.

    where
        stem     the files' name, without its ending
        words    what is in it
        fields   its columns, in order
        key      the columns that tell its rows apart
        pieces   makes its rows, some at a time
        formats  of its files whatever those of the release are; none where they are these
    """

    stem: str
    words: str
    fields: tuple[_SheetField, ...]
    key: tuple[str, ...]
    pieces: Callable[[], Iterator[SheetRows]]
    formats: tuple[FileFormat, ...] = ()

    def write(self, folder: Path, formats: tuple[FileFormat, ...]) -> list[str]:
        """Write the files, whole or not at all; their names."""
        formats = self.formats or formats
        names = [f"{self.stem}.{one}" for one in formats]
        with whole_files(*(folder / name for name in names)) as streams, ExitStack() as stack:
            writers = [
                stack.enter_context(_WRITERS[one](stream))
                for one, stream in zip(formats, streams, strict=True)
            ]
            for frame in self.pieces():
                for write in writers:
                    write(frame)
        return names


SheetRows: TypeAlias = "pl.DataFrame | pa.Table"
WriteFrame = Callable[[SheetRows], None]


@contextmanager
def _csv(stream: BufferedWriter) -> Iterator[WriteFrame]:
    """Text between quotes, so that codes are not taken for numbers."""
    header = True

    def write(rows: SheetRows) -> None:
        nonlocal header
        frame = rows if isinstance(rows, pl.DataFrame) else pl.DataFrame(rows)
        frame.write_csv(stream, include_header=header, quote_style="non_numeric")
        header = False

    yield write


@contextmanager
def _parquet(stream: BufferedWriter) -> Iterator[WriteFrame]:
    """Row groups of one file; without the Arrow schema readers see plain text."""
    import pyarrow.parquet as pq

    writer: pq.ParquetWriter | None = None
    with ExitStack() as stack:

        def write(rows: SheetRows) -> None:
            nonlocal writer
            table = rows.to_arrow() if isinstance(rows, pl.DataFrame) else rows
            if writer is None:
                options: dict[str, Any] = {"compression": "zstd", "store_schema": False}
                options["dictionary_pagesize_limit"] = DICTIONARY_BYTES
                writer = stack.enter_context(pq.ParquetWriter(stream, table.schema, **options))
            writer.write_table(table)

        yield write


_WRITERS: dict[FileFormat, Callable[[BufferedWriter], AbstractContextManager[WriteFrame]]] = {
    "parquet": _parquet,
    "csv": _csv,
}


@singledispatch
def sheets_of(release: Release, layout: FileLayout, progress: Progress = silent) -> Iterator[Sheet]:
    """The tables of a kind of release."""
    raise NotImplementedError(f"{type(release).__name__} has no form on disk")


@sheets_of.register
def _(release: CountsRelease, layout: FileLayout, progress: Progress = silent) -> Iterator[Sheet]:
    levels = release.geography.levels
    for level in progress(levels, what="writing levels", total=len(levels)):
        table = release.table(level)
        added = "" if level in release.tables else f", those of each {release.geography.leaf} added"
        yield _counts(release, level, table, layout.tidy, added=added)
        for margin in layout.margins:
            yield _counts(release, level, table, layout.tidy, margin=margin, added=added)
    if layout.tidy or long_levels(release):
        yield _units(release)


def long_levels(release: CountsRelease) -> list[str]:
    """Levels with a row for each count that is not zero: 63 races by years are 20,000 columns."""
    return [level for level, one in release.tables.items() if only_counted(release.schema, one)]


def _counts(
    release: CountsRelease,
    level: str,
    table: LevelTable,
    tidy: bool,
    *,
    margin: MarginNames | None = None,
    added: str = "",
) -> Sheet:
    schema = release.schema
    if margin is not None:
        table = table @ Query("margin", margin).matrix(schema)
        schema = marginal(schema, margin)
    tidy = tidy or only_counted(schema, table)
    rows = "a row for each count" if tidy else "a row for each unit"
    if only_counted(schema, table):
        rows = "a row for each count that is not 0"
    by = "all attributes" if margin is None else " and ".join(margin) or "no attribute: the total"
    counts = _tidy_fields(schema, table, release.counted) if tidy else _cell_fields(schema, table)
    return Sheet(
        stem=stem_of(level, margin),
        words=f"Protected counts of each {level} by {by}{added}; {rows}.",
        fields=(*_code_fields(release.geography, level), *counts),
        key=(level, *schema.names) if tidy else (level,),
        pieces=partial(_pieces, release.geography, level, schema, table, tidy),
    )


def _pieces(
    geography: Geography, level: str, schema: Schema, table: LevelTable, tidy: bool
) -> Iterator[SheetRows]:
    height = geography.size(level)
    if only_counted(schema, table):
        refuse_clash(code_names(geography, level), [*schema.names, COUNT], "column")
        step = max(1, ROWS_AT_ONCE * height // max(1, table.nnz))  # type: ignore[union-attr]
        for units in _runs(height, step):
            some = table[units.start : units.stop]
            yield counted_rows(geography, level, units, schema, some)
        return
    form = tidy_frame if tidy else wide_frame
    for units in _runs(height, max(1, COUNTS_AT_ONCE * height // max(1, table.size))):
        codes = units_frame(geography, level, units)
        yield form(codes, schema, table[units.start : units.stop])


def _runs(total: int, step: int) -> Iterator[range]:
    return (range(start, min(start + step, total)) for start in range(0, total, step))


def _code_fields(geography: Geography, level: str) -> tuple[_SheetField, ...]:
    return tuple(
        _SheetField(name=one, type="string", words=f"code of the {one}")
        for one in code_names(geography, level)
    )


def _number(table: LevelTable) -> str:
    return "integer" if np.issubdtype(table.dtype, np.integer) else "number"


def _cell_fields(schema: Schema, table: LevelTable) -> Iterator[_SheetField]:
    for cell in np.flatnonzero(schema.possible):
        where = np.unravel_index(cell, schema.shape) if schema.names else ()
        levels = [a.levels[i] for a, i in zip(schema.attributes, where, strict=True)]
        words = ", ".join(f"{n} {level}" for n, level in zip(schema.names, levels, strict=True))
        yield _SheetField(
            name=schema.cell_names[cell], type=_number(table), words=words or "everybody"
        )


def _tidy_fields(schema: Schema, table: LevelTable, counted: str) -> Iterator[_SheetField]:
    for one in schema.attributes:
        yield _SheetField(name=one.name, type="string", words=one.name, levels=one.levels)
    yield _SheetField(name=COUNT, type=_number(table), words=f"protected count of {counted}")


def _units(release: Release) -> Sheet:
    geography, leaf = release.geography, release.geography.leaf

    def pieces() -> Iterator[SheetRows]:
        for units in _runs(geography.size(leaf), ROWS_AT_ONCE):
            yield units_frame(geography, leaf, units)

    return Sheet(
        stem=UNITS,
        words=f"Every {leaf}, with the places that it lies in.",
        fields=_code_fields(geography, leaf),
        key=(leaf,),
        pieces=pieces,
    )


@sheets_of.register
def _(release: TablesRelease, layout: FileLayout, progress: Progress = silent) -> Iterator[Sheet]:
    yield _units(release)
    if release.areas:
        yield replace(_units(release), stem=AREAS, formats=("csv",))
    tables = release.published
    for one in progress(tables, what="writing tables", total=len(tables)):
        yield _published(one, release)


def _published(one: PublishedCells, release: TablesRelease) -> Sheet:
    """A table with withheld cells, in the columns that ``published_frame`` gives it."""
    cells = one.cells
    counted = f"count of {release.counted}{'' if one.off is None else ', changed: not exact'}"
    unit = _SheetField(name="unit", type="string", words=f"code of the {one.level}")
    fields: tuple[_SheetField, ...] = (
        _SheetField(name="cell", type="string", words="groups of the table's axes"),
        _SheetField(name="value", type="integer", words=counted, required=False),
        _SheetField(name="published", type="boolean", words="whether the count is published"),
    )
    if cells.table.is_own:
        axes = cell_columns(cells)
        fields = (
            *(
                _SheetField(
                    name=name, type="string", words=name, levels=tuple(dict.fromkeys(labels))
                )
                for name, labels in axes.items()
            ),
            _SheetField(name=COUNT, type="integer", words=counted, required=False),
            _SheetField(name=FLAG, type="string", words="its state", levels=(PUBLISHED, WITHHELD)),
        )
    key = ("unit", *(cell_columns(cells) if cells.table.is_own else ("cell",)))
    return Sheet(
        stem=published_stem(one.name, one.level),
        words=f"Table {one.name}, {cells.table.title}, of each {one.level}; a row for each cell.",
        fields=(unit, *fields),
        key=key,
        pieces=lambda: iter([published_frame(one, release.geography)]),
    )
