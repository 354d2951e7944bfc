"""``headcount errors --level``: a table of intervals in a file, written as it is made.

Post-processing of what is published: no data, no key and no ledger are opened, and nothing is
spent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from headcount.errors import ConfigError, InputError
from headcount.files import take_name, temporary_beside
from headcount.geography.spine import NamedArea
from headcount.run._published import published_start
from headcount.run.intervals import interval_pieces

if TYPE_CHECKING:
    import polars as pl

FORMATS = (".csv", ".parquet")
SHOWN = 40
"""Rows that are shown of a table, at most."""


@dataclass
class IntervalFacts:
    """What a table of intervals has, counted while it is made.

    where
        rows       intervals, with those of exact counts and of known zeros
        exact      counts that are published exactly
        zero       counts that are known to be 0
        unknown    counts that the answers do not tell
        released   released counts beside intervals that are neither exact nor known zeros
        inside     how many of these are inside
        first      the first few rows
    """

    rows: int = 0
    exact: int = 0
    zero: int = 0
    unknown: int = 0
    released: int = 0
    inside: int = 0
    first: list[pl.DataFrame] = field(default_factory=list)

    def add(self, piece: pl.DataFrame) -> None:
        """Count a piece of the table."""
        import polars as pl

        if self.rows < SHOWN:
            self.first.append(piece.head(SHOWN - self.rows))
        self.rows += len(piece)
        self.exact += int((piece["known"] == "exact").sum())
        self.zero += int((piece["known"] == "zero").sum())
        self.unknown += piece["deviation"].null_count()
        if "released" in piece.columns:
            noisy = piece.filter((pl.col("known") == "") & pl.col("high").is_not_null())
            inside = pl.col("released").is_between(pl.col("low"), pl.col("high"))
            self.released += len(noisy)
            self.inside += int(noisy.select(inside.sum()).item())

    def sentences(self) -> list[str]:
        """What a reader of the table should know."""
        said = [f"{self.rows:,} counts"]
        if self.exact:
            said.append(f"{self.exact:,} are published exactly: both ends are the count")
        if self.zero:
            said.append(
                f"{self.zero:,} are known to be 0 (nobody can be counted there) and shown as 0 to "
                "0; estimates of other counts use structural zeros, but not what is known to be 0 "
                "in single places only"
            )
        if self.unknown:
            said.append(f"{self.unknown:,} cannot be estimated from the noisy answers: no high end")
        if self.released:
            share = 100 * self.inside / self.released
            said.append(
                f"of {self.released:,} released counts {share:.1f} % are inside their interval, "
                "which is not centred on them"
            )
        return said


def write_intervals(
    source: Path,
    query: str,
    *,
    out: Path | None = None,
    level: str = "",
    areas: Sequence[NamedArea] = (),
    areas_file: Path | None = None,
    confidence: Fraction | str | float = "9/10",
) -> IntervalFacts:
    """Intervals of a level or of areas, in a CSV or Parquet file that appears when it is whole.

    where
        source       a run, the folder of a release, a folder of measurements, or the config of
                     ``headcount estimate``
        out          the file; None to count only
        areas_file   a table of areas: their names, and codes of units in a column named as their
                     level
    """
    if out is not None and out.suffix not in FORMATS:
        raise InputError(
            str(out), found=f"the ending {out.suffix!r}", expected=" or ".join(FORMATS)
        )
    if areas_file is not None:
        areas = [*areas, *_read_areas(areas_file)]
    if level and areas:
        raise ConfigError("intervals", found="a level and areas", expected="one or the other")
    start, release = published_start(source)
    pieces = interval_pieces(start, level or areas, query, confidence=confidence, release=release)
    facts = IntervalFacts()
    if out is None:
        for piece in pieces:
            facts.add(piece)
        return facts
    with temporary_beside(out) as stream:
        _write(_counted(pieces, facts), stream, out.suffix)
        take_name(stream, out)
    return facts


def _read_areas(path: Path) -> list[NamedArea]:
    """Areas from a table with a row for each unit: ``area``, and a column named as its level."""
    import polars as pl

    try:
        if path.suffix == ".parquet":
            table = pl.read_parquet(path, glob=False).cast(pl.String)
        else:
            table = pl.read_csv(path, infer_schema=False, glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise InputError(
            str(path),
            found=f"what cannot be read: {str(error).splitlines()[0]}",
            expected="a CSV or Parquet file of areas",
        ) from None
    if len(table.columns) != 2 or table.columns[0] != "area":
        raise InputError(
            str(path),
            found=f"the columns {', '.join(table.columns)}",
            expected="two: area, and one named as a level, with codes of its units",
        )
    level = table.columns[1]
    if table.null_count().sum_horizontal()[0] or table.is_empty():
        raise InputError(
            str(path),
            found="no rows" if table.is_empty() else "rows without a name or a code",
            expected=f"a name and the code of a {level} in every row",
        )
    units = table.group_by("area", maintain_order=True).agg(level)
    return [(str(name), level, tuple(codes)) for name, codes in units.iter_rows()]


def _counted(pieces: Iterator[pl.DataFrame], facts: IntervalFacts) -> Iterator[pl.DataFrame]:
    for piece in pieces:
        facts.add(piece)
        yield piece


def _write(pieces: Iterator[pl.DataFrame], stream: BinaryIO, kind: str) -> None:
    """Piece after piece, so that no table needs to fit in memory."""
    if kind == ".csv":
        for number, piece in enumerate(pieces):
            piece.write_csv(stream, include_header=number == 0)
        return
    import pyarrow.parquet as pq

    writer: Any = None
    for piece in pieces:
        table = piece.to_arrow()
        if writer is None:
            writer = pq.ParquetWriter(stream, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
