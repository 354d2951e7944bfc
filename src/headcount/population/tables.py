"""The one place where a table is read from Parquet or CSV; what cannot be read is an InputError.

Parquet goes through Arrow's reader, which reports a damaged file as an error and counts its rows
before they take memory; polars panics on some damage, and stops the process on other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from headcount.errors import InputError, one_of
from headcount.memory import SETTING, gib, memory_limit

if TYPE_CHECKING:
    from pyarrow import DataType
    from pyarrow.parquet import ParquetFile

ROW_BYTES, VALUE_BYTES = 64, 40
"""Memory that a row takes while it is coded, and each of its values: for the estimate."""

LARGER_AS_TEXT = 3
"""Memory that a CSV file takes, in sizes of the file."""

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78\x01", b"\x78\x9c", b"\x78\xda")
"""How gzip, zstd and zlib begin: polars would unpack such a file unasked, whatever its size."""


def read_table(
    path: Path, columns: Sequence[str], *, optional: set[str] | None = None
) -> pl.DataFrame:
    """Read the named columns; a missing file, an unreadable one or a missing column is an error."""
    name = str(path)
    readers: dict[str, Callable[[Path, Sequence[str], set[str]], pl.DataFrame]]
    readers = {".parquet": _read_parquet, ".csv": _read_csv}
    _refuse_no_file(path)
    if path.suffix not in readers:
        raise InputError(name, found=f"a file ending in {path.suffix!r}", expected=one_of(readers))
    with path.open("rb") as file:  # a file that may not be read is the system's error, not damage
        start = file.read(4)
    if path.suffix == ".csv" and start.startswith(_COMPRESSED):
        raise InputError(name, found="compressed content", expected="plain text")
    table = readers[path.suffix](path, list(dict.fromkeys(columns)), optional or set())
    if table.is_empty():
        raise InputError(name, found="no rows", expected="at least one")
    return table


def read_parquet(path: Path) -> pl.DataFrame:
    """Read every column of a Parquet file."""
    _refuse_no_file(path)
    return _read_parquet(path, None, set())


def text_columns(path: Path) -> Iterator[pl.Series]:
    """Every column of a table as text, one after the other; columns of lists are left out."""
    from pyarrow.parquet import ParquetFile

    if path.suffix == ".csv":
        header = pl.scan_csv(path, infer_schema=False).collect_schema().names()
    else:
        with ParquetFile(path) as file:
            header = [one.name for one in file.schema_arrow if _is_plain(one.type)]
    for column in header:
        if path.suffix == ".csv":  # also of a name that stands twice, which nobody asked for
            lazy = pl.scan_csv(path, infer_schema=False)
            yield lazy.select(column).collect().to_series()
        else:
            yield read_table(path, [column])[column].cast(pl.String)


def _refuse_no_file(path: Path) -> None:
    name, expected = str(path), "a .parquet or .csv file"
    if path.is_dir():
        raise InputError(name, found="a directory", expected=expected)
    if not path.is_file():
        raise InputError(name, found="no such file", expected=expected)
    if path.stat().st_size == 0:
        raise InputError(name, found="an empty file", expected="a header and at least one row")


def _read_parquet(path: Path, columns: Sequence[str] | None, optional: set[str]) -> pl.DataFrame:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    name = str(path)
    # Damage shows as whatever the reader stumbles over, an OSError among them.
    damaged = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
    try:
        file = ParquetFile(path)
        header = file.schema_arrow.names
    except damaged as error:
        raise _unreadable(name, error) from None
    with file:
        wanted = header if columns is None else _present(name, columns, optional, header)
        _refuse_other_types(name, wanted, file)
        _refuse_too_large(name, file.metadata.num_rows, len(wanted))
        try:
            table = file.read(wanted).select(wanted)
            table.validate(full=True)
            frame = pl.from_arrow(table)
        except (*damaged, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise _unreadable(name, error) from None
    assert isinstance(frame, pl.DataFrame)
    return frame


def _read_csv(path: Path, columns: Sequence[str], optional: set[str]) -> pl.DataFrame:
    name, size = str(path), path.stat().st_size
    if LARGER_AS_TEXT * size > (most := memory_limit()):
        raise InputError(
            name, found=f"a file of {gib(size)}", expected=_fitting(most, LARGER_AS_TEXT * size)
        )
    try:
        # Everything as text: codes keep their leading zeros, counts are checked digit by digit.
        lazy = pl.scan_csv(path, infer_schema=False)
        header = lazy.collect_schema().names()
        wanted = _present(name, columns, optional, header)
        for column in wanted:
            if f"{column}_duplicated_0" in header:  # polars renames them
                raise _twice(name, column)
        return lazy.select(wanted).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _unreadable(name, error) from None


def _present(
    name: str, columns: Sequence[str], optional: set[str], header: Sequence[str]
) -> list[str]:
    """The wanted columns that are there; one that is missing or twice is an error."""
    for column in columns:
        if column not in header and column not in optional:
            raise InputError(
                name, place=f"column {column!r}", found="no such column", expected=one_of(header)
            )
        if list(header).count(column) > 1:
            raise _twice(name, column)
    return [column for column in columns if column in header]


def _refuse_other_types(name: str, columns: Sequence[str], file: ParquetFile) -> None:
    for column in columns:
        kind = file.schema_arrow.field(column).type
        if not _is_plain(kind):
            raise InputError(
                name,
                place=f"column {column!r}",
                found=f"values of type {kind}",
                expected="text, numbers or dates, one in each row",
            )


def _is_plain(kind: DataType) -> bool:
    from pyarrow import types as of

    if of.is_dictionary(kind):
        return _is_plain(kind.value_type)
    texts = of.is_string(kind) or of.is_large_string(kind) or of.is_string_view(kind)
    numbers = of.is_integer(kind) or of.is_floating(kind) or of.is_decimal(kind)
    times = of.is_date(kind) or of.is_time(kind) or of.is_timestamp(kind)
    return bool(texts or numbers or times or of.is_boolean(kind) or of.is_null(kind))


def _refuse_too_large(name: str, rows: int, columns: int) -> None:
    need = rows * (ROW_BYTES + columns * VALUE_BYTES)
    if need > (most := memory_limit()):
        raise InputError(
            name,
            found=f"{rows:,} rows of {columns} columns",
            expected=_fitting(most, need),
        )


def _fitting(most: int, need: int) -> str:
    return (
        f"what fits into the {gib(most)} of memory here (this takes about {gib(need)}; if that is "
        f"too careful, set {SETTING} to the GiB that may be used)"
    )


def _twice(name: str, column: str) -> InputError:
    return InputError(name, place=f"column {column!r}", found="the column twice", expected="once")


def _unreadable(name: str, error: BaseException) -> InputError:
    first, *_ = str(error).splitlines() or [""]  # what follows is advice for programmers
    why = first or type(error).__name__
    return InputError(name, found=f"content that cannot be read ({why})", expected="a table")
