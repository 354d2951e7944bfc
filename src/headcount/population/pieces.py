"""A table in pieces that are read one by one, so that it need not fit into memory; its digest.

A piece is a range of the file, not its content: row groups of Parquet, bytes of text. Other files
are one piece: sheets, files of statistics programs, and text that must be unpacked or decoded.

The digest of a file's records is the same however they are ordered, named or chosen from. It is for
the ledger, which must know data again under another view of them. It is no signature: whoever
changes one byte of one record, or adds a column, has another digest.

    digest = SHA-256(number of records, sum over records of mix(sum over fields of hash(field)))

where hash gives two 64-bit words (BLAKE2b), mix is the finaliser of splitmix64 (Steele, Lea and
Flood, 2014), and sums are modulo 2^64, so that neither order of records nor of columns matters.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.errors import InputError
from headcount.population.formats.kinds import too_large
from headcount.population.tables import (
    Additions,
    AnyTable,
    Rows,
    all_texts,
    is_plain,
    parquet_file,
    present,
    read_rows,
    refuse_no_file,
    refuse_no_permission,
    refuse_other_types,
    sound_frame,
    text_columns,
    text_rows,
    trimmed,
    undamaged,
    way_of,
)
from headcount.population.text_files import PLAIN, Format, open_text
from headcount.processes import gib

ROWS = 1 << 20
"""Rows that are read at once."""

TEXT = 1 << 26
"""Bytes of text that are read at once."""

LONGEST_RECORD = 1 << 30
"""Bytes without an end of a record, after which a text is taken for no table."""


class TablePiece(Protocol):
    """A part of a table; it can be pickled unless the table is in memory."""

    def batches(
        self, columns: Sequence[str], optional: set[str], *, together: bool, numbers: Sequence[str]
    ) -> Iterator[Rows]:
        """The rows of the piece, some at a time.

        With ``together`` equal rows are one, but for columns of ``numbers``, which are compared by
        their values.
        """

    def texts(self) -> Iterator[Iterable[pl.Series]]:
        """Every column as text, some rows at a time; columns of lists are left out."""


@dataclass(frozen=True)
class WholeTable:
    """All of a table."""

    path: AnyTable
    form: Format

    def batches(
        self, columns: Sequence[str], optional: set[str], *, together: bool, numbers: Sequence[str]
    ) -> Iterator[Rows]:
        """The rows, at once."""
        rows = read_rows(self.path, columns, optional=optional, form=self.form)
        yield rows.together(numbers=numbers) if together else rows

    def texts(self) -> Iterator[Iterable[pl.Series]]:
        """Every column, one after the other."""
        assert isinstance(self.path, Path)
        yield text_columns(self.path, self.form)


@dataclass(frozen=True)
class RowGroups:
    """Row groups of a Parquet file; ``first`` is the position of their first row in the file."""

    path: Path
    form: Format
    groups: range
    first: int

    def batches(
        self, columns: Sequence[str], optional: set[str], *, together: bool, numbers: Sequence[str]
    ) -> Iterator[Rows]:
        """The rows; texts are grouped by the dictionaries in which Parquet has them."""
        from pyarrow import types

        name = str(self.path)
        with parquet_file(self.path) as file:
            schema = file.schema_arrow
        wanted = present(name, columns, optional, schema.names)
        refuse_other_types(name, schema, wanted)
        texts = [one for one in wanted if types.is_string(schema.field(one).type)]
        at = self.first
        for frame in self._frames(wanted, texts if together else None):
            stop = at + frame.height
            rows = Rows(self.path, self.form, frame, pl.int_range(at, stop, eager=True))
            if together:
                rows = rows.together(numbers=numbers)
                rows = replace(rows, frame=rows.frame.with_columns(pl.col(texts).cast(pl.String)))
            yield replace(rows, frame=trimmed(rows.frame))
            at = stop

    def _frames(
        self, columns: Sequence[str], dictionaries: Sequence[str] | None
    ) -> Iterator[pl.DataFrame]:
        """Columns as they are in the file, some rows at a time."""
        from pyarrow import Table

        name = str(self.path)
        options = {"read_dictionary": dictionaries, "buffer_size": 1 << 22}
        with parquet_file(self.path, **options) as file:
            read = file.iter_batches(ROWS, row_groups=list(self.groups), columns=list(columns))
            while (batch := undamaged(name, lambda: next(read, None))) is not None:
                yield sound_frame(name, Table.from_batches([batch]), columns)

    def texts(self) -> Iterator[Iterable[pl.Series]]:
        """Every column, some rows at a time."""
        with parquet_file(self.path) as file:
            plain = [one.name for one in file.schema_arrow if is_plain(one.type)]
        for frame in self._frames(plain, None):
            yield (column.cast(pl.String) for column in frame)


@dataclass(frozen=True)
class TextRange:
    """Whole records of a text file, from one byte to another."""

    path: Path
    form: Format
    start: int
    stop: int
    first: int

    def batches(
        self, columns: Sequence[str], optional: set[str], *, together: bool, numbers: Sequence[str]
    ) -> Iterator[Rows]:
        """The rows, at once."""
        text = open_text(self.path, self.form, too_large(str(self.path)), whole=False)
        part = (self.start, self.stop)
        rows = text_rows(text, columns, optional, self.form, part=part, first=self.first)
        yield rows.together(numbers=numbers) if together else rows

    def texts(self) -> Iterator[Iterable[pl.Series]]:
        """Every column."""
        text = open_text(self.path, self.form, too_large(str(self.path)), whole=False)
        yield all_texts(text, part=(self.start, self.stop))


@dataclass(frozen=True)
class _WithMore:
    """A piece of a table with columns that other tables add; its digest is that of its own."""

    piece: TablePiece
    more: Additions

    def batches(
        self, columns: Sequence[str], optional: set[str], *, together: bool, numbers: Sequence[str]
    ) -> Iterator[Rows]:
        """The rows of the piece with what the other tables say of them."""
        own = self.more.own(columns)
        for rows in self.piece.batches(own, optional, together=together, numbers=numbers):
            yield self.more.added(rows, columns, optional)

    def texts(self) -> Iterator[Iterable[pl.Series]]:
        """Every column of the piece itself."""
        return self.piece.texts()


def pieces_of(path: AnyTable, form: Format) -> Sequence[TablePiece]:
    """The pieces of a table, in the order of its rows; a small one is one piece."""
    if form.beside:
        more = Additions.of(path, form)
        return [_WithMore(piece, more) for piece in pieces_of(path, more.form)]
    if isinstance(path, Path):
        refuse_no_file(path)
        how = way_of(path, form)
        if how == "parquet":
            return _row_groups(path, form) or [WholeTable(path, form)]
        if how == "text" and path.stat().st_size > TEXT and not form.fill_down:
            return _text_ranges(path, form) or [WholeTable(path, form)]
    return [WholeTable(path, form)]


def _row_groups(path: Path, form: Format) -> Sequence[TablePiece]:
    """Row groups with up to ``ROWS`` rows together; nothing if all have no more than that."""
    refuse_no_permission(path)
    with parquet_file(path) as file:
        sizes = [file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)]
    if sum(sizes) <= ROWS:
        return []
    pieces, begin, first, rows = [], 0, 0, 0
    for number, size in enumerate(sizes):
        if rows and rows + size > ROWS:
            pieces.append(RowGroups(path, form, range(begin, number), first))
            begin, first, rows = number, first + rows, 0
        rows += size
    return [*pieces, RowGroups(path, form, range(begin, len(sizes)), first)]


def _text_ranges(path: Path, form: Format) -> Sequence[TablePiece]:
    """Ranges of about ``TEXT`` bytes; nothing if the text must be unpacked or decoded."""
    from headcount.population.text_files import last_cut

    text = open_text(path, form, too_large(str(path)), whole=False)
    if text.content is not None:
        return []
    size = path.stat().st_size if text.end is None else text.end
    start, first = text.begin, 0 if text.cut else -1 - text.lines_before_header()
    pieces, length = [], TEXT
    with path.open("rb") as file:
        while start + length < size:
            file.seek(start)
            some = np.frombuffer(file.read(min(length, size - start)), dtype=np.uint8)
            mark = len(BOM_UTF8) if not start and bytes(some[:3]) == BOM_UTF8 else 0
            cut, records = last_cut(some[mark:], ord(text.delimiter))
            if not cut:
                if length >= LONGEST_RECORD:
                    raise InputError(
                        str(path),
                        place=f"byte {start:,} and after",
                        found=f"no end of a record within {gib(length)}",
                        expected="lines of a table (is there a quotation mark that none closes?)",
                    )
                length *= 2
                continue
            stop = start + mark + cut
            pieces.append(TextRange(path, form, start, stop, max(first, 0)))
            start, first, length = stop, first + records, TEXT
    return [*pieces, TextRange(path, form, start, size, max(first, 0))]


WordPairs = NDArray[np.uint64]
"""Two 64-bit words for each record: 2 x records."""

_NOTHING = "\0nothing"  # an empty field, as no file can write it


def table_digest(path: Path, form: Format = PLAIN) -> str:
    """The digest of the rows of a table, over all of its columns; some rows at a time."""
    batches = (batch for piece in pieces_of(path, form) for batch in piece.texts())
    return records_digest(_of_columns(columns) for columns in batches)


def _of_columns(columns: Iterable[pl.Series]) -> WordPairs:
    """Two words for each row, from all of its columns."""
    total: WordPairs | None = None
    for column in columns:
        words = _fields(column)
        total = words if total is None else total + words
    return np.empty((2, 0), dtype=np.uint64) if total is None else total


def records_digest(parts: Iterator[WordPairs]) -> str:
    """The digest of records of which each has two words, given some at a time."""
    total, records = np.zeros(2, dtype=np.uint64), 0
    for part in parts:
        records += part.shape[1]
        # Each word is mixed with the other: a record is more than the sum of its fields.
        total += np.stack([mixed(part[0] ^ mixed(part[1])), mixed(part[1] ^ mixed(part[0]))]).sum(
            axis=1, dtype=np.uint64
        )
    return sha256(f"records 1:{records}:{total[0]:016x}{total[1]:016x}".encode()).hexdigest()


def _fields(column: pl.Series) -> WordPairs:
    """Two words for each value of a column; where values repeat, each is hashed once."""
    values = column.fill_null(_NOTHING).alias("value")
    known = values.unique()
    if 2 * len(known) > len(values):
        return _hashes(values).T
    numbered = known.to_frame().with_row_index("number")
    at = values.to_frame().join(numbered, on="value", how="left", maintain_order="left")["number"]
    words: WordPairs = _hashes(known)[at.to_numpy()].T
    return words


def _hashes(values: pl.Series) -> WordPairs:
    hashed = (blake2b(one.encode(), digest_size=16).digest() for one in values)
    return np.frombuffer(b"".join(hashed), dtype="<u8").reshape(-1, 2)


def mixed(words: WordPairs) -> WordPairs:
    """The finaliser of splitmix64: a permutation of 64-bit words."""
    word = words + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: WordPairs = word ^ (word >> np.uint64(31))
    return result
