"""Intervals for any count, from published measurements alone.

How they are worked out: ``topdown/place_estimates.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from headcount.config.estimate import load_estimate
from headcount.errors import ConfigError, InputError, RunError
from headcount.files import take_name, temporary_beside
from headcount.geography.spine import NamedArea
from headcount.release import CountsRelease
from headcount.release.publication import MEASUREMENTS
from headcount.release.store import MANIFEST, check_files, read_stored, release_folder
from headcount.schema import load_schema
from headcount.topdown.from_measurements import PublishedStart, start_from
from headcount.topdown.place_estimates import interval_pieces

if TYPE_CHECKING:
    import polars as pl


def published_start(source: Path) -> tuple[PublishedStart, CountsRelease | None]:
    """Published measurements, and the release beside them if there is one."""
    if source.suffix == ".toml":
        config = load_estimate(source)
        asked, made = config.measurements, config.run.out / "release"
        beside = asked.folder.parent
        if (beside / MANIFEST).is_file() and beside.resolve() != made.resolve():
            check_files(beside)  # a release: its files are as they were written
        schema = None if asked.schema is None else load_schema(asked.schema)
        start = start_from(asked.folder, config.mechanism, schema=schema, levels=asked.levels)
        return start, _release(made, start)
    folder = source
    if (source / MANIFEST).is_file() or (source / "release" / MANIFEST).is_file():
        folder = release_folder(source) / MEASUREMENTS
        if not folder.is_dir():
            raise RunError(
                f"{folder.parent}: found a release without measurements, expected one of topdown "
                f"made with publish = [{MEASUREMENTS!r}], or an estimate's config (.toml)"
            )
    if not folder.is_dir():
        raise RunError(
            f"{source}: found no folder, expected a run, a release, measurements, or an estimate's "
            f"config (.toml)"
        )
    start = start_from(folder)
    return start, _release(folder.parent, start)


def _release(folder: Path, start: PublishedStart) -> CountsRelease | None:
    """The release in a folder, checked; None where there is none.

    It must be made from these measurements, or published with them: then they are in its folder,
    and its manifest has them.
    """
    if not (folder / MANIFEST).is_file():
        return None
    found, receipt, files = read_stored(folder)
    measured = start.measurements
    made_from = receipt.get("made_from", {}).get("measurements")
    inside = measured.folder.resolve() == (folder / MEASUREMENTS).resolve()
    beside = inside and any(name.startswith(f"{MEASUREMENTS}/") for name in files)
    if made_from != measured.digest and (made_from is not None or not beside):
        said = "without them" if made_from is None else f"from those with digest {made_from}"
        raise RunError(
            f"{folder}: found a release that was made {said}, expected one of the measurements in "
            f"{measured.folder}, or measurements in a folder apart from it"
        )
    return found if isinstance(found, CountsRelease) else None


def intervals(
    release: PublishedStart | Path | str,
    areas: str | Sequence[NamedArea],
    query: str,
    confidence: Fraction | str | float = "9/10",
) -> pl.DataFrame:
    """Intervals of a query's answers in every published unit of a level, or in some areas.

    where
        release      with its measurements: a run, the folder of a release or of measurements, the
                     config of an estimate, or what ``start_from`` read
        areas        the name of a level, or unions of units of one level each, with names:
                     ``[("north", "county", ("001", "003"))]``
        query        of the mechanism, by name
        confidence   the share of cases in which an interval holds the true count

    Columns: place, the attributes of the query, estimate, deviation, low, high, known ("exact" for
    what is published exactly, "zero" where nobody can be counted), and released: the counts that
    the folder has, which must be made from these measurements or published with them.
    """
    import polars as pl

    start, beside = release, None
    if not isinstance(start, PublishedStart | Path | str):
        raise ConfigError(
            "intervals",
            place="release",
            found=type(start).__name__,
            expected="a run or folder with its measurements, or what start_from read",
        )
    if not isinstance(start, PublishedStart):
        start, beside = published_start(Path(start))
    pieces = interval_pieces(start, areas, query, confidence=confidence, release=beside)
    return pl.concat(pieces)


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
