"""Tables in memory: whatever speaks Arrow (polars, pandas, pyarrow, DuckDB), read like a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from headcount.errors import InputError
from headcount.population.office_files import EXACT

STREAM = "__arrow_c_stream__"
TABLE = (
    "a path, or a data frame of polars, pandas, pyarrow or DuckDB (anything with the Arrow stream "
    "interface)"
)


@dataclass(frozen=True, eq=False, repr=False)
class FrameTable:
    """A table in memory. Its name stands for a file in messages; it has no ending and no lines."""

    frame: pl.DataFrame
    name: str = "data frame"
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
