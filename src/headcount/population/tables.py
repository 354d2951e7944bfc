"""The one place where a table is read, from a file or from memory; what cannot be is an InputError.

Parquet goes through Arrow's reader, which reports a damaged file as an error and counts its rows
before they take memory; polars panics on some damage, and stops the process on other. Tables in
memory are whatever speaks Arrow (polars, pandas, pyarrow, DuckDB), and are read like a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import polars as pl

from headcount.errors import InputError, Problems, by_row, did_you_mean, near_name, one_of
from headcount.population.formats.content import EXACT
from headcount.population.formats.kinds import (
    KNOWN,
    damaged,
    kind_of,
    refuse_too_many,
    too_large,
)
from headcount.population.formats.whole import header_in, read_whole
from headcount.population.text_files import (
    PLAIN,
    Beside,
    Format,
    TextFile,
    not_utf8,
    open_text,
)
from headcount.schema.schema import is_pattern

if TYPE_CHECKING:
    from pyarrow import DataType, Table
    from pyarrow import Schema as ArrowSchema
    from pyarrow.parquet import ParquetFile

STREAM = "__arrow_c_stream__"
TABLE = (
    "a path, or a data frame of polars, pandas, pyarrow or DuckDB (anything with the Arrow stream "
    "interface)"
)


@dataclass(frozen=True, eq=False, repr=False)
class FrameTable:
    """A table in memory. Its name stands for a file in messages; it has no ending and no lines.

    ``of`` are the rows of a file that it holds, if somebody has read them: they are called as there
    """

    frame: pl.DataFrame
    name: str = "data frame"
    of: Rows | None = None
    suffix = ""
    suffixes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


AnyTable = Path | FrameTable
"""Where a table is: in a file, or in memory."""


def table_of(data: object, *, name: str = "") -> AnyTable:
    """A path, or a frame as a table; anything else is an error that says what can be read."""
    if isinstance(data, FrameTable):
        return data
    if isinstance(data, str | Path):
        return Path(data).expanduser()
    named = name or "data frame"
    if isinstance(data, pl.LazyFrame):
        raise InputError(
            named, found="a LazyFrame, which is not read yet", expected="data.collect()"
        )
    if isinstance(data, type) or not hasattr(data, STREAM):
        raise InputError(named, found=f"a {type(data).__name__}", expected=TABLE)
    return FrameTable(_plain(_arrow(data, named)), named)


def _arrow(data: object, name: str) -> pl.DataFrame:
    """The frame behind an Arrow stream; an index that pandas numbers itself is no column."""
    if isinstance(data, pl.DataFrame):
        return data
    import pyarrow as pa

    streamed: Any = data
    try:
        table = pa.table(streamed)
        frame = pl.from_arrow(table)
    except (pa.ArrowException, pl.exceptions.PolarsError, ValueError, TypeError) as error:
        first, *_ = str(error).splitlines() or [type(error).__name__]
        raise InputError(
            name, found=f"a {type(data).__name__} that cannot be read ({first})", expected=TABLE
        ) from None
    assert isinstance(frame, pl.DataFrame)
    return frame.drop([one for one in frame.columns if one.startswith("__index_level_")])


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Whole numbers that a gap made fractional (pandas) are whole again: 44007.0 is code 44007."""
    return frame.with_columns(
        near.cast(pl.Int64)
        for near in (one.fill_nan(None) for one in frame if one.dtype.is_float())
        if ((near == near.round()) & (near.abs() < EXACT)).fill_null(True).all()
    )


T = TypeVar("T")

MANY = 10_000
"""Rows by which is judged how often rows are equal."""

_BLANK = "\0blank"  # a column that no file can have


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows of a file, and where they stand in it.

    where
        frame      the columns that were asked for
        at         the position of each row in the file; None if all are there
        left_out   how many rows are not, by reason: for the curator's eyes
        times      how many rows of the file each stands for, where equal ones stand together
    """

    path: AnyTable
    form: Format
    frame: pl.DataFrame
    at: pl.Series | None = None
    left_out: tuple[tuple[str, int], ...] = ()
    times: pl.Series | None = None

    @property
    def name(self) -> str:
        """The file, for errors."""
        return str(self.path)

    @property
    def number(self) -> int:
        """How many rows of the file these are."""
        return self.frame.height if self.times is None else int(self.times.sum())

    @property
    def positions(self) -> pl.Series:
        """Where in the file each row stands, the first of equal ones."""
        return pl.int_range(self.frame.height, eager=True) if self.at is None else self.at

    @property
    def kept(self) -> AnyTable:
        """What to read them from again: from memory where all are text, as in the file."""
        if isinstance(self.path, FrameTable) or way_of(self.path, self.form) != "text":
            return self.path
        return FrameTable(self.frame, self.name, self)

    def position(self, row: int) -> int:
        """Where in the file a row stands."""
        return row if self.at is None else int(self.at[row])

    def where(self, rows: Sequence[int]) -> list[str]:
        """What the file calls these rows: the line, the row of the sheet, or the number."""
        return rows_named(self.path, self.form, [self.position(row) for row in rows])

    def problems(self) -> Problems:
        """What is wrong with these rows, still to be found."""
        return Problems(self.name, partial(rows_named, self.path, self.form), self.position)

    def only(self, wanted: pl.Series, *, without: str) -> Rows:
        """The rows that are wanted; ``without`` names the others."""
        if wanted.all():
            return self
        kept = replace(
            self,
            frame=self.frame.filter(wanted),
            at=self.positions.filter(wanted),
            times=None if self.times is None else self.times.filter(wanted),
        )
        if not without:
            return kept
        return replace(kept, left_out=(*self.left_out, (without, self.number - kept.number)))

    def together(self, *, numbers: Sequence[str] = ()) -> Rows:
        """The same with equal rows as one, the first of them: what is said of one holds for all.

        Where most of some rows differ they stay as they are, as nothing is saved. Fractions are
        compared as they are written, but in columns of ``numbers``.
        """
        some = self.frame.head(MANY)
        if 2 * some.n_unique() > some.height == MANY:
            return self
        written = [o.name for o in self.frame if o.dtype.is_float() and o.name not in numbers]
        given = self.frame.with_columns(pl.col(written).cast(pl.String))  # 0.0 is not -0.0
        found = (
            given.with_columns(self.positions.alias("\0row"))
            .group_by(given.columns)
            .agg(pl.len().cast(pl.Int64).alias("\0times"), pl.col("\0row").min())
        )
        return replace(
            self, frame=found.select(given.columns), at=found["\0row"], times=found["\0times"]
        )


def rows_named(path: AnyTable, form: Format, rows: Sequence[int]) -> list[str]:
    """What a file calls its rows, given by their positions: a line, a row of a sheet, a number."""
    if isinstance(path, FrameTable) and path.of is not None:
        return path.of.where(rows)
    if isinstance(path, FrameTable) or not path.is_file():  # a data frame goes by a name
        return by_row(rows)
    kind = kind_of(path)
    if kind == "text" and form.layout is None:
        return open_text(path, form, too_large(str(path)), whole=False).lines(rows)
    if kind == "excel":
        above = form.lines_above + form.heading_lines + form.lines_after_heading
        return [f"row {row + above + 1}" for row in rows]
    return by_row(rows)


def read_table(
    path: Path,
    columns: Sequence[str],
    *,
    optional: set[str] | None = None,
    form: Format = PLAIN,
) -> pl.DataFrame:
    """Read the named columns; a missing file, an unreadable one or a missing column is an error."""
    return read_rows(path, columns, optional=optional, form=form).frame


def read_rows(
    path: AnyTable,
    columns: Sequence[str],
    *,
    optional: set[str] | None = None,
    form: Format = PLAIN,
) -> Rows:
    """Read the named columns, with the places of the rows; wholly blank rows are no rows."""
    wanted, may_lack = list(dict.fromkeys(columns)), optional or set()
    if form.beside:
        more = Additions.of(path, form)
        rows = read_rows(path, more.own(wanted), optional=may_lack, form=more.form)
        return more.added(rows, wanted, may_lack)
    if isinstance(path, FrameTable):
        rows = _read_frame(path, wanted, may_lack, form)
    else:
        refuse_no_file(path)
        how = way_of(path, form)
        if how == "text":
            rows = _read_text(path, wanted, may_lack, form)
        elif how == "parquet":
            refuse_no_permission(path)
            rows = Rows(path, form, _read_parquet(path, wanted, may_lack))
        else:
            rows = _read_other(path, wanted, may_lack, form)
    if rows.frame.is_empty():
        raise InputError(rows.name, found="no rows", expected="at least one")
    return replace(rows, frame=trimmed(rows.frame))


def way_of(path: Path, form: Format) -> Literal["text", "parquet", "other"]:
    """Whether a file is read as text or as Parquet, in pieces, or in another way."""
    kind = kind_of(path)
    if form.layout is not None or kind not in ("text", "parquet"):
        return "other"
    return "text" if kind == "text" else "parquet"


def trimmed(frame: pl.DataFrame) -> pl.DataFrame:
    """The same without blanks around texts: "Kwale  " is the place Kwale, and "  " is nothing."""
    for one in frame.get_columns():  # one by one, and few need it: no second copy of a large table
        if one.dtype == pl.String and one.str.contains(r"^\s|\s$|^$").any():
            frame = frame.with_columns(one.str.strip_chars().replace("", None))
    return frame


def read_parquet(path: Path) -> pl.DataFrame:
    """Read every column of a Parquet file."""
    refuse_no_file(path)
    return _read_parquet(path, None, set())


def text_columns(path: Path, form: Format = PLAIN) -> Iterator[pl.Series]:
    """Every column of a table as text, one after the other; columns of lists are left out."""
    from pyarrow.parquet import ParquetFile

    how = way_of(path, form)
    if how == "text":
        yield from all_texts(open_text(path, form, too_large(str(path))))
    elif how == "other":
        yield from read_whole(path, form).frame
    else:
        with ParquetFile(path) as file:
            header = [one.name for one in file.schema_arrow if is_plain(one.type)]
        for column in header:
            yield _read_parquet(path, [column], set())[column].cast(pl.String)


def header_of(path: AnyTable, form: Format = PLAIN) -> list[str]:
    """The names of a file's columns, as they are written."""
    if isinstance(path, FrameTable):
        return path.frame.columns
    refuse_no_file(path)
    if form.beside:
        return Additions.of(path, form).header
    how = way_of(path, form)
    if how == "text":
        return list(open_text(path, form, too_large(str(path)), whole=False).header)
    if how == "other":
        return header_in(path, form)
    return list(parquet_file(path).schema_arrow.names)


def refuse_no_file(path: Path) -> None:
    """Refuse what is no file, none of a known kind, or empty."""
    name, expected = str(path), "a .parquet or .csv file, or another table"
    if path.is_dir():
        raise InputError(name, found="a directory", expected=expected)
    if not path.is_file():
        raise InputError(name, found="no such file", expected=expected + near_name(path))
    if not path.name.lower().endswith(KNOWN):
        raise InputError(
            name, found=f"a file ending in {path.suffix!r}", expected=one_of(KNOWN, most=20)
        )
    if path.stat().st_size == 0:
        raise InputError(name, found="an empty file", expected="a header and at least one row")


def _read_frame(
    table: FrameTable, columns: Sequence[str], optional: set[str], form: Format
) -> Rows:
    wanted = present(table.name, columns, optional, table.frame.columns)
    frame = table.frame.select(wanted)
    if set(frame.dtypes) != {pl.String}:  # for text pyarrow need not be loaded
        refuse_other_types(table.name, frame.head(0).to_arrow().schema)
    return Rows(table, form, frame).only(~_blank(table.frame), without="")


def refuse_no_permission(path: Path) -> None:
    """Raise the system's error about a file that may not be read, which is no damage."""
    with path.open("rb"):
        pass


def _read_text(path: Path, columns: Sequence[str], optional: set[str], form: Format) -> Rows:
    text = open_text(path, form, too_large(str(path)))
    rows = text_rows(text, [*columns, *form.fill_down], optional, form)
    if not form.fill_down:
        return rows
    filled = pl.col(form.fill_down).str.strip_chars().replace("", None).forward_fill()
    wanted = present(str(path), columns, optional, text.header)
    return replace(rows, frame=rows.frame.with_columns(filled).select(wanted))


def text_rows(
    text: TextFile,
    columns: Sequence[str],
    optional: set[str],
    form: Format,
    *,
    part: tuple[int, int] | None = None,
    first: int = 0,
) -> Rows:
    """Rows of a text file: of all, or of the records in a range of bytes, the first of them."""
    wanted = present(str(text.path), columns, optional, text.header)
    if not wanted:
        return Rows(text.path, form, pl.DataFrame())
    lazy = (text if part is None else text.part(*part)).scan()
    try:
        # All columns are parsed: only then does polars refuse rows with more fields.
        frame = lazy.select(*wanted, _all_null().alias(_BLANK)).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _damaged(text, error) from None
    at = None if part is None else pl.int_range(first, first + frame.height, eager=True)
    kept = frame.drop(_BLANK)
    rows = Rows(text.path, form, kept if part is None else trimmed(kept), at)
    return rows.only(~frame[_BLANK], without="")


def _damaged(text: TextFile, error: BaseException) -> InputError:
    """What is wrong with a text file that polars cannot read."""
    if "utf-8" in str(error) and text.content is None:
        return not_utf8(text.path)
    text.refuse_longer()
    return damaged(str(text.path), error)


def all_texts(text: TextFile, *, part: tuple[int, int] | None = None) -> Iterator[pl.Series]:
    """Every column of a text file, or of a range of its bytes."""
    try:
        # Also those of a name that stands twice, which nobody asked for: polars renames them.
        yield from (text if part is None else text.part(*part)).scan().collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise damaged(str(text.path), error) from None


def _read_other(path: Path, columns: Sequence[str], optional: set[str], form: Format) -> Rows:
    refuse_no_permission(path)
    content = read_whole(path, form)
    wanted = present(str(path), columns, optional, content.header)
    frame = content.frame
    if form.fill_down:
        filled = present(str(path), form.fill_down, set(), content.header)
        frame = frame.with_columns(pl.col(filled).replace("", None).forward_fill())
    blank = (
        content.frame.select(_all_null()).to_series()
        if frame.width
        else pl.Series([], dtype=pl.Boolean)
    )
    return Rows(path, form, frame.select(wanted)).only(~blank, without="")


@dataclass(frozen=True, eq=False)
class Additions:
    """Columns that other tables add to one, by their keys.

    where
        path     the table
        form     how it is written, without what is beside it
        own_header  the columns of the table itself
        tables   what is beside it
    """

    path: AnyTable
    form: Format
    own_header: tuple[str, ...]
    tables: tuple[tuple[Beside, tuple[str, ...]], ...]

    @classmethod
    def of(cls, path: AnyTable, form: Format) -> Additions:
        """What a format says to be beside a table."""
        alone = replace(form, beside=())
        header = header_of(path, alone)
        known, found = set(header), []
        for one in form.beside:
            present(str(path), [one.key], set(), header)
            theirs = header_of(one.file, form.of_table(one))
            other_key = one.other_key or one.key
            present(str(one.file), [other_key, *one.columns], set(), theirs)
            more = one.columns or tuple(c for c in theirs if c not in known and c != other_key)
            if twice := [c for c in more if c in known]:
                raise InputError(
                    str(one.file),
                    place=f"column {twice[0]!r}",
                    found=f"a column that {path} has, too",
                    expected="columns = [...] without it",
                )
            known.update(more)
            found.append((one, more))
        return cls(path, alone, tuple(header), tuple(found))

    @property
    def header(self) -> list[str]:
        """All columns."""
        return [*self.own_header, *(name for _, more in self.tables for name in more)]

    def own(self, wanted: Sequence[str]) -> list[str]:
        """The columns that must be read from the table itself."""
        added = {name for _, more in self.tables for name in more}
        keys = [one.key for one, more in self.tables if {*more} & {*wanted}]
        return list(dict.fromkeys([*(one for one in wanted if one not in added), *keys]))

    def added(self, rows: Rows, wanted: Sequence[str], optional: set[str]) -> Rows:
        """Rows with what the other tables say of them; what they do not know is an error."""
        frame = rows.frame
        for one, more in self.tables:
            if chosen := [name for name in more if name in wanted]:
                frame = _joined(replace(rows, frame=frame), one, chosen, self.form)
        kept = present(rows.name, wanted, optional, frame.columns)
        return replace(rows, frame=frame.select(kept))


_KEY = "\0key"


def _joined(rows: Rows, beside: Beside, columns: Sequence[str], form: Format) -> pl.DataFrame:
    """The rows with columns of a table beside."""
    other_key = beside.other_key or beside.key
    said = read_rows(beside.file, [other_key, *columns], form=form.of_table(beside))
    key = said.frame[other_key].cast(pl.String).alias(_KEY)
    problems = said.problems()
    problems.add(
        (key.is_null() | ~key.is_first_distinct()).arg_true(),
        place=f"column {other_key!r}",
        found=lambda row: "no key" if key[row] is None else f"{key[row]!r} again",
        expected="each key once",
    )
    problems.refuse()
    own = rows.frame.with_columns(pl.col(beside.key).cast(pl.String).alias(_KEY))
    problems = rows.problems()
    problems.add(
        (~own[_KEY].is_in(key.implode()).fill_null(False)).arg_true(),
        place=f"column {beside.key!r}",
        found=lambda row: repr(own[_KEY][row]),
        expected=f"a key of {beside.file}",
    )
    problems.refuse()
    theirs = said.frame.select(columns).with_columns(key)
    return own.join(theirs, on=_KEY, how="left", maintain_order="left").drop(_KEY)


def _blank(frame: pl.DataFrame) -> pl.Series:
    """Which rows have nothing in any column."""
    return frame.select(_all_null()).to_series()


def _all_null() -> pl.Expr:
    return pl.all_horizontal(pl.all().is_null())


def _read_parquet(path: Path, columns: Sequence[str] | None, optional: set[str]) -> pl.DataFrame:
    name = str(path)
    with parquet_file(path) as file:
        header = file.schema_arrow.names
        wanted = header if columns is None else present(name, columns, optional, header)
        refuse_other_types(name, file.schema_arrow, wanted)
        refuse_too_many(name, file.metadata.num_rows, len(wanted))
        return sound_frame(name, undamaged(name, lambda: file.read(wanted)), wanted)


def sound_frame(name: str, table: Table, columns: Sequence[str]) -> pl.DataFrame:
    """Columns of a table that was read from Parquet; damage is an error."""

    def checked() -> pl.DataFrame:
        chosen = table.select(list(columns))
        chosen.validate(full=True)
        frame = pl.from_arrow(chosen)
        assert isinstance(frame, pl.DataFrame)
        return frame

    return undamaged(name, checked)


def undamaged(name: str, read: Callable[[], T]) -> T:
    """What is read of a Parquet file; whatever the reader stumbles over is damage."""
    try:
        return read()
    except _damage() as error:
        raise damaged(name, error) from None


def parquet_file(path: Path, **options: Any) -> ParquetFile:
    """A Parquet file with its schema; damage is an error."""
    from pyarrow.parquet import ParquetFile

    file = undamaged(str(path), lambda: ParquetFile(path, **options))
    undamaged(str(path), lambda: file.schema_arrow.names)  # read when it is asked for
    return file


def _damage() -> tuple[type[BaseException], ...]:
    """Damage shows as whatever the reader stumbles over, an OSError among them."""
    from pyarrow import ArrowException

    of_polars = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
    return (ArrowException, OSError, ValueError, OverflowError, MemoryError, *of_polars)


def present(
    name: str, columns: Sequence[str], optional: set[str], header: Sequence[str]
) -> list[str]:
    """The wanted columns that are there; those missing, or one that is twice, are an error."""
    columns = list(dict.fromkeys(columns))
    missing = [column for column in columns if column not in header and column not in optional]
    if missing:
        one = len(missing) == 1
        listed = ", ".join(repr(column) for column in missing[:12])
        raise InputError(
            name,
            place=f"column{'' if one else 's'} {listed}",
            found="no such column" if one else "no such columns",
            expected=did_you_mean(missing[0], header, most=12),
        )
    for column in columns:
        if is_pattern(column):
            raise InputError(
                name,
                place=f"column {column!r}",
                found="a name that stands for other columns",
                expected="another name for the column",
            )
        if list(header).count(column) > 1:
            raise InputError(
                name, place=f"column {column!r}", found="the column twice", expected="once"
            )
    return [column for column in columns if column in header]


def refuse_other_types(
    name: str, schema: ArrowSchema, columns: Sequence[str] | None = None
) -> None:
    """Refuse columns of lists and other values that are no text, number or date."""
    for column in schema.names if columns is None else columns:
        kind = schema.field(column).type
        if not is_plain(kind):
            raise InputError(
                name,
                place=f"column {column!r}",
                found=f"values of type {kind}",
                expected="text, numbers or dates, one in each row",
            )


def is_plain(kind: DataType) -> bool:
    """Whether values of a type are text, numbers or dates, one in each row."""
    from pyarrow import types as of

    if of.is_dictionary(kind):
        return is_plain(kind.value_type)
    texts = of.is_string(kind) or of.is_large_string(kind) or of.is_string_view(kind)
    numbers = of.is_integer(kind) or of.is_floating(kind) or of.is_decimal(kind)
    times = of.is_date(kind) or of.is_time(kind) or of.is_timestamp(kind)
    return bool(texts or numbers or times or of.is_boolean(kind) or of.is_null(kind))
