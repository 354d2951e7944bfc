"""How the tables of a release are laid out: rows, columns, files, formats, totals and margins."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Floats, Ints
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.fields import Named, Pairs
from headcount.geography import Geography
from headcount.population.text_files import PLAIN, Format
from headcount.processes import gib, memory_limit
from headcount.release.published import (
    FLAG,
    TOTAL_LABEL,
    PublishedCells,
    cell_columns,
    cell_names,
    flags,
)
from headcount.schema import Schema
from headcount.schema.schema import is_pattern

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_array


Dense = Ints | Floats
LevelTable: TypeAlias = "Ints | Floats | csr_array[Any, tuple[int, int]]"

COUNT = "n"
"""The column of counts of a tidy table."""

MOST_COLUMNS, MOST_COUNTS = 256, 1 << 24
"""Cells, and units x cells, of a table with a row for each unit; beyond that a sparse table has a
row for each count that is not zero."""


def arrow_numbers(values: NDArray[Any]) -> pa.Array:
    """Integers or floats for arrow; no copy is made of those that lie side by side.

    ``pyarrow.array`` does the same, but loads pandas wherever that is installed, which takes longer
    than many a run.
    """
    import pyarrow as pa

    kept = np.ascontiguousarray(values)
    assert kept.dtype.kind in "iuf", kept.dtype  # arrow packs booleans into bits
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(kept.dtype), len(kept), [None, pa.py_buffer(kept)]
    )


def _arrow_texts(values: NDArray[np.str_] | Sequence[str]) -> pa.StringArray:
    """Texts for arrow."""
    import polars as pl
    import pyarrow as pa

    return pl.Series(values, dtype=pl.String).to_arrow().cast(pa.string())


def is_large(schema: Schema, units: int) -> bool:
    """Whether a table of so many units is too wide, or too large, to list counts of 0."""
    return schema.size > MOST_COLUMNS or schema.size * units > MOST_COUNTS


def code_names(geography: Geography, level: str) -> tuple[str, ...]:
    """The columns of codes in the tables of a level, from the top to the unit."""
    depth = geography.depth(level)
    return (level,) if depth == 0 else geography.levels[1 : depth + 1]


def _code_columns(geography: Geography, level: str, units: range) -> dict[str, pa.DictionaryArray]:
    """Codes of some units of a level from the top to the unit, each code held once.

    Units are in the order of the tree, so those above a run of units are a run as well.
    """
    import pyarrow as pa

    columns = {}
    for name in code_names(geography, level):
        of_unit = geography.ancestors(name, of=level, units=units)
        first, last = (int(of_unit[0]), int(of_unit[-1]) + 1) if len(of_unit) else (0, 0)
        codes = _arrow_texts(geography.units[geography.depth(name)][first:last])
        columns[name] = pa.DictionaryArray.from_arrays(arrow_numbers(of_unit - first), codes)
    return columns


def units_frame(geography: Geography, level: str, units: range | None = None) -> pl.DataFrame:
    """The units of a level, or some of them: their codes from the top to the unit, as text."""
    units = range(geography.size(level)) if units is None else units
    return pl.DataFrame(
        {
            name: pl.from_arrow(column.dictionary_decode())
            for name, column in _code_columns(geography, level, units).items()
        }
    )


def counted_rows(
    geography: Geography, level: str, units: range, schema: Schema, table: LevelTable
) -> pa.Table:
    """Counts of some units that are not 0, as ``tidy_frame`` has them, for the writer of Parquet.

    ``table`` is of these units alone. Codes and levels are numbers into lists of them.
    """
    import pyarrow as pa

    entries = table.tocoo()  # type: ignore[union-attr]
    rows = arrow_numbers(entries.row)
    columns = {
        name: column.take(rows) for name, column in _code_columns(geography, level, units).items()
    }
    codes = np.unravel_index(entries.col, schema.shape) if schema.names else ()
    for attribute, code in zip(schema.attributes, codes, strict=True):
        number, levels = arrow_numbers(code.astype(np.int32)), _arrow_texts(attribute.levels)
        columns[attribute.name] = pa.DictionaryArray.from_arrays(number, levels)
    return pa.table(columns | {COUNT: arrow_numbers(entries.data)})


def wide_frame(units: pl.DataFrame, schema: Schema, table: LevelTable) -> pl.DataFrame:
    """Some units as a wide table: the codes from the top to the unit, then one column per cell."""
    full = dense(table)
    cells = {name: full[:, i] for i, name in enumerate(schema.cell_names) if schema.possible[i]}
    return units.with_columns(pl.Series(name, column) for name, column in cells.items())


def tidy_frame(units: pl.DataFrame, schema: Schema, table: LevelTable) -> pl.DataFrame:
    """Some units as a tidy table: codes of the unit, each attribute by its level, and ``n``.

    Every possible count has its row, zeros included; but of a large sparse table (``is_large``: 63
    races by single years are 20,000 cells) only counts that are not zero.
    """
    refuse_clash(units.columns, [*schema.names, COUNT], "column")
    unit, cell, value = _entries(table, schema)
    codes = np.unravel_index(cell, schema.shape) if schema.names else ()
    rows: pl.DataFrame = units[unit]
    return rows.with_columns(
        *(
            pl.Series(attribute.name, attribute.levels, dtype=pl.Enum(attribute.levels))[code]
            for attribute, code in zip(schema.attributes, codes, strict=True)
        ),
        pl.Series(COUNT, value),
    )


def refuse_clash(levels: Sequence[str], names: Sequence[str], what: str) -> None:
    """Refuse a geography level that has the name of another column."""
    if clash := sorted(set(levels) & set(names)):
        raise InputError(
            "release",
            place=f"column {clash[0]!r}",
            found=f"a geography level and a {what} of that name",
            expected="distinct names",
        )


def only_counted(schema: Schema, table: LevelTable) -> bool:
    """Whether a table has rows for counts other than zero alone."""
    return not isinstance(table, np.ndarray) and is_large(schema, table.shape[0])


def _entries(table: LevelTable, schema: Schema) -> tuple[Ints, Ints, Any]:
    """Unit, cell and value of every count that has a row of its own."""
    if only_counted(schema, table):
        entries = table.tocoo()  # type: ignore[union-attr]
        return entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data
    full, cells = dense(table), np.flatnonzero(schema.possible)
    unit = np.repeat(np.arange(len(full)), len(cells))
    return unit, np.tile(cells, len(full)), full[:, cells].ravel()


def dense(table: LevelTable) -> Dense:
    """The counts as a full array; refused where that would be larger than memory."""
    if isinstance(table, np.ndarray):
        return table
    needed = table.shape[0] * table.shape[1] * table.dtype.itemsize
    if needed > (limit := memory_limit()):
        raise InputError(
            "release",
            found=f"{table.shape[0]:,} units x {table.shape[1]:,} cells, which take {gib(needed)} "
            f"as a full array, with {gib(limit)} of memory",
            expected="the sparse table, release.table(level), or some units of it",
        )
    return np.asarray(table.toarray())


def tables_frame(
    geography: Geography, level: str, tables: Sequence[PublishedCells], *, tidy: bool
) -> pl.DataFrame:
    """Published tables at a level; a withheld count is missing.

    Tidy: ``table``, codes of the unit, ``cell``, ``n`` and whether it is ``published``; of tables
    of a user's own each attribute in place of the cell, and a ``flag``. Else a row for each unit
    and a column for each cell of each table.
    """
    units = units_frame(geography, level)
    if not tidy:
        columns = {
            f"{one.name}: {name}": pl.Series(one.value[:, i]).set(
                pl.Series(one.withheld[:, i]), None
            )
            for one in tables
            for i, name in enumerate(cell_names(one.cells))
        }
        return units.with_columns(**columns)
    if all(one.cells.table.is_own for one in tables):
        return _tidy_own(units, tables)
    return pl.concat([_tidy_table(units, one) for one in tables])


def _tidy_own(units: pl.DataFrame, tables: Sequence[PublishedCells]) -> pl.DataFrame:
    """Tables of a user's own one below the other: by an attribute that one lacks it is a total."""
    found = []
    for one in tables:
        rows = units[np.repeat(np.arange(units.height), one.cells.size)]
        groups = {name: labels * units.height for name, labels in cell_columns(one.cells).items()}
        found.append(
            rows.select(
                pl.lit(one.name).alias("table"),
                pl.all(),
                *(pl.Series(name, labels, dtype=pl.String) for name, labels in groups.items()),
                pl.Series(COUNT, one.value.ravel(), dtype=pl.Int64).set(
                    pl.Series(one.withheld.ravel()), None
                ),
                pl.Series(FLAG, flags(one), dtype=pl.String),
            )
        )
    joined = pl.concat(found, how="diagonal")
    names = dict.fromkeys(axis.role for one in tables for axis in one.cells.axes)
    return joined.select(
        "table", *units.columns, *(pl.col(one).fill_null(TOTAL_LABEL) for one in names), COUNT, FLAG
    )


def _tidy_table(units: pl.DataFrame, one: PublishedCells) -> pl.DataFrame:
    names = cell_names(one.cells)
    rows: pl.DataFrame = units[np.repeat(np.arange(units.height), len(names))]
    return rows.select(
        pl.lit(one.name).alias("table"),
        pl.all(),
        pl.Series("cell", names * units.height, dtype=pl.String),
        pl.Series(COUNT, one.value.ravel(), dtype=pl.Int64),
        pl.Series("published", ~one.withheld.ravel()),
    ).with_columns(pl.when("published").then(COUNT).alias(COUNT))


FileFormat = Literal["parquet", "csv"]
MarginNames = tuple[str, ...]

UNITS = "units"
"""The file of the leaf's codes, beside tables that list counts."""

AREAS = "areas"
"""The same as text, where places were made for the release."""

LONGEST_NAME = 200
"""Bytes of a file name: what file systems allow, with room for a temporary file's ending."""


@dataclass(frozen=True, kw_only=True)
class FileLayout:
    """The files of a release; each table is there in every format.

    where
        formats   of every table; headcount reads the first again
        tidy      one row for each count, not one for each unit
        margins   attributes (none: the total) by which published counts are added up besides
    """

    formats: tuple[FileFormat, ...] = ("parquet",)
    tidy: bool = False
    margins: tuple[MarginNames, ...] = ()

    def __post_init__(self) -> None:
        if not self.formats or len(set(self.formats)) < len(self.formats):
            raise ConfigError(
                "run",
                place="format",
                found=str(list(self.formats)),
                expected='"parquet", "csv" or both, each once',
            )

    def check(self, domain: Domain) -> None:
        """Refuse a domain without distinct columns or files: before noise is drawn, not after."""
        schema, geography = domain.schema, domain.geography
        refuse_clash(geography.levels, schema.cell_names, "cell")
        wide = not self.tidy and not is_large(schema, geography.size(geography.leaf))
        sums = [marginal(schema, margin) for margin in self.margins]
        _refuse_names(schema, geography, cells=[schema, *sums] if wide else [])
        if self.tidy or is_large(schema, geography.size(geography.leaf)):
            refuse_clash(geography.levels, [*schema.names, COUNT, UNITS], "column or file")
            if COUNT in schema.names:
                raise InputError(
                    "release",
                    place=f"attribute {COUNT!r}",
                    found="the name of the column of counts, in tables with a row for each count",
                    expected="another name for the attribute"
                    + (", or tidy = false" if self.tidy else ""),
                )
        stems: dict[str, str] = {}
        for each in (None, *self.margins):
            for level in geography.levels:
                _new_name(stems, level, each)

    def least_bytes(self, domain: Domain) -> int:
        """What the text of the lowest level takes at least; 0 where that depends on its counts."""
        schema, geography = domain.schema, domain.geography
        if "csv" not in self.formats or is_large(schema, geography.size(geography.leaf)):
            return 0
        counts = int(schema.possible.sum())
        codes = np.char.str_len(geography.units[-1])
        per_count = codes.sum() + 5 * len(codes) if self.tidy else 2 * len(codes)
        return counts * int(per_count)


Elsewhere = Literal["refuse", "leave"]
"""What is done with places that a truth does not have."""


@dataclass(frozen=True, kw_only=True)
class ForeignFiles:
    """``[release]``: how the files of somebody else's release are to be understood.

    where
        count     the column of counts of a tidy table; left out, the first of n, count, value and
                  people that there is
        columns   columns by the name that they have in the files, and what they are: a level of the
                  geography, an attribute, a cell; nothing if they are not to be read
        values    for an attribute, levels by the value that stands for them in the files
        leave_out for a column, values whose rows are not read: totals among their parts
        missing   whether a count that is not in the files is "missing", or "zero"
        elsewhere whether a place that the truth does not have is an error ("refuse"), or not
                  looked at ("leave")
        format    how text files are written
    """

    count: str = ""
    columns: Annotated[tuple[tuple[str, str], ...], Named(str)] = field(default_factory=Pairs)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    leave_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: Literal["missing", "zero"] = "missing"
    elsewhere: Elsewhere = "refuse"
    format: Format = PLAIN

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", Pairs.of(self.columns))


def _refuse_names(schema: Schema, geography: Geography, *, cells: Sequence[Schema]) -> None:
    """Refuse what no column can be called: the character 0, and what polars takes for a pattern.

    where
        cells   schemas whose cells are columns, which must have names
    """
    named = [("level of the geography", name) for name in geography.levels]
    named += [("attribute", name) for name in schema.names]
    named += [(f"level of {one.name!r}", text) for one in schema.attributes for text in one.levels]
    named += [("cell", name) for one in cells for name in one.cell_names]
    for what, text in named:
        if "\0" in text:
            found = "the character 0 in it"
        elif what == "cell" and not text:
            found = "a column without a name"
        elif is_pattern(text) and not what.startswith("level of '"):
            found = "a pattern for names of columns"
        else:
            continue
        raise InputError(
            "release",
            place=f"{what} {text!r}",
            found=found,
            expected="a name that a column can have" + ", or tidy = true" * (what == "cell"),
        )


def _new_name(stems: dict[str, str], level: str, margin: MarginNames | None) -> None:
    stem = stem_of(level, margin)
    what = f"level {level!r}" if margin is None else f"margin {list(margin)} of level {level!r}"
    if len(f"{stem}.parquet".encode()) > LONGEST_NAME:
        raise InputError(
            "release",
            place=what,
            found=f"a name of {len(stem)} characters",
            expected=f"one that fits a file name of {LONGEST_NAME} bytes",
        )
    other = stems.get(stem.casefold())
    stems[stem.casefold()] = what
    if other is None:
        return
    if margin is None:
        raise InputError(
            "release",
            place=what,
            found=f"{other} too, and on Windows and macOS their files would be one",
            expected="names that differ by more than capitals",
        )
    raise ConfigError(
        "run",
        place="margins",
        found=f"one file, {stem!r}, for {other} and for {what}",
        expected="each margin once, and files with names of their own",
    )


def marginal(schema: Schema, margin: MarginNames) -> Schema:
    """The schema of a margin: some attributes, and the structural zeros that concern only them."""
    unknown = [name for name in margin if name not in schema.names]
    if unknown or len(set(margin)) < len(margin):
        raise ConfigError(
            "run",
            place="margins",
            found=f"attribute {unknown[0]!r}" if unknown else f"an attribute twice in {[*margin]}",
            expected=f"some of {list(schema.names)}, each once",
        )
    zeros = tuple(
        zero for zero in schema.structural_zeros if {name for name, _ in zero} <= {*margin}
    )
    return Schema(tuple(schema.attribute(name) for name in margin), zeros)


def stem_of(level: str, margin: MarginNames | None = None) -> str:
    """The file of a level, or of a margin of it, without its ending.

    What a file name cannot hold is written as %2F and so on. What Windows does not allow in a name
    (signs, names of devices) is written so on every system, so that a release can be copied to any.
    """
    stem = _NO_FILE_NAME.sub(_escaped, level)
    if margin is None:
        return stem
    return f"{stem}.{_NO_FILE_NAME.sub(_escaped, '-'.join(margin) or 'total')}"


_NO_FILE_NAME = re.compile(
    r'[\x00-\x1f%/\\:*?"<>|]|^\.|^(?:C(?=ON$|OM\d$)|P(?=RN$)|A(?=UX$)|N(?=UL$)|L(?=PT\d$))', re.I
)


def _escaped(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"


def published_stem(table: str, level: str) -> str:
    """The file of a published table at a level, without its ending."""
    return f"{table}@{stem_of(level)}"
