"""The tables of a release as files: what is in each, and how it is written piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, singledispatch
from io import BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from headcount.geography.geography import Geography
from headcount.progress import Progress, silent
from headcount.release.frames import (
    COUNT,
    LevelTable,
    code_names,
    counted_rows,
    only_counted,
    refuse_clash,
    tidy_frame,
    units_frame,
    wide_frame,
)
from headcount.release.layout import (
    UNITS,
    FileFormat,
    FileLayout,
    MarginNames,
    marginal,
    published_stem,
    stem_of,
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
from headcount.release.streamed import whole_files
from headcount.schema import Schema
from headcount.tabulate.query import Query

COUNTS_AT_ONCE, ROWS_AT_ONCE = 1 << 24, 1 << 20
"""Counts, and rows of counts that are not 0, made and written together: they bound the memory."""


DICTIONARY_BYTES = 1 << 26
"""Codes of one piece, each held once: all of them fit, so that rows are numbers."""

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class SheetField:
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
    """

    stem: str
    words: str
    fields: tuple[SheetField, ...]
    key: tuple[str, ...]
    pieces: Callable[[], Iterator[SheetRows]]

    def write(self, folder: Path, formats: tuple[FileFormat, ...]) -> list[str]:
        """Write the files, whole or not at all; their names."""
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


def _code_fields(geography: Geography, level: str) -> tuple[SheetField, ...]:
    return tuple(
        SheetField(name=one, type="string", words=f"code of the {one}")
        for one in code_names(geography, level)
    )


def _number(table: LevelTable) -> str:
    return "integer" if np.issubdtype(table.dtype, np.integer) else "number"


def _cell_fields(schema: Schema, table: LevelTable) -> Iterator[SheetField]:
    for cell in np.flatnonzero(schema.possible):
        where = np.unravel_index(cell, schema.shape) if schema.names else ()
        levels = [a.levels[i] for a, i in zip(schema.attributes, where, strict=True)]
        words = ", ".join(f"{n} {level}" for n, level in zip(schema.names, levels, strict=True))
        yield SheetField(
            name=schema.cell_names[cell], type=_number(table), words=words or "everybody"
        )


def _tidy_fields(schema: Schema, table: LevelTable, counted: str) -> Iterator[SheetField]:
    for one in schema.attributes:
        yield SheetField(name=one.name, type="string", words=one.name, levels=one.levels)
    yield SheetField(name=COUNT, type=_number(table), words=f"protected count of {counted}")


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
    tables = release.published
    for one in progress(tables, what="writing tables", total=len(tables)):
        yield _published(one, release)


def _published(one: PublishedCells, release: TablesRelease) -> Sheet:
    """A table with withheld cells, in the columns that ``published_frame`` gives it."""
    cells = one.cells
    counted = f"count of {release.counted}{'' if one.off is None else ', changed: not exact'}"
    unit = SheetField(name="unit", type="string", words=f"code of the {one.level}")
    fields: tuple[SheetField, ...] = (
        SheetField(name="cell", type="string", words="groups of the table's axes"),
        SheetField(name="value", type="integer", words=counted, required=False),
        SheetField(name="published", type="boolean", words="whether the count is published"),
    )
    if cells.table.is_own:
        axes = cell_columns(cells)
        fields = (
            *(
                SheetField(
                    name=name, type="string", words=name, levels=tuple(dict.fromkeys(labels))
                )
                for name, labels in axes.items()
            ),
            SheetField(name=COUNT, type="integer", words=counted, required=False),
            SheetField(name=FLAG, type="string", words="its state", levels=(PUBLISHED, WITHHELD)),
        )
    key = ("unit", *(cell_columns(cells) if cells.table.is_own else ("cell",)))
    return Sheet(
        stem=published_stem(one.name, one.level),
        words=f"Table {one.name}, {cells.table.title}, of each {one.level}; a row for each cell.",
        fields=(unit, *fields),
        key=key,
        pieces=lambda: iter([published_frame(one, release.geography)]),
    )
