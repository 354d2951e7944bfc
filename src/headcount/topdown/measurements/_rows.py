"""Where the answer of each unit stands: the row of every unit and query, and reading by ranges.

Files are looked through once, without their answers: names, units, shapes and how many numbers
each row group has. From then on a range of units is read from the row groups that hold it, so a
level is never in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.geography.geography import find_units
from headcount.storage import Storage, StoredNumbers, store_numbers
from headcount.topdown.measurements.form import opened, refuse_other_columns, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

GEOCODE, NAME, SHAPE, VALUE = "geocode", "query_name", "query_shape", "value"
MISSING = -(1 << 62)
"""What stands for a number that is missing, while numbers are read."""

RowKey: TypeAlias = str | tuple[str, str]
"""What tells the rows of a unit apart: the query, and of constraints the sign."""


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of one table of a level.

    where
        files        the parts
        group_file   for each row group the number of its file, and ``group_in`` its number there
        group_start  the first row of each row group, counted over all files, and the end
        rows         for each kind of row, and each unit: 1 + the number of its row, 0 for none
        sizes        how many numbers a row of each kind has
    """

    files: tuple[Path, ...]
    group_file: Ints
    group_in: Ints
    group_start: Ints
    rows: Mapping[RowKey, Ints | StoredNumbers]
    sizes: Mapping[RowKey, int]

    def there(self, key: RowKey, units: range) -> Flags:
        """Which of some units have a row of a kind."""
        return np.asarray(self.rows[key][units.start : units.stop] > 0)

    def numbers(self, key: RowKey, units: range, *, missing: int | None = None) -> Ints:
        """The numbers in the rows of some units; 0 for units without a row.

        A number that is not there is ``missing``, or refused.
        """
        size = self.sizes[key]
        found = np.zeros((len(units), size), dtype=np.int64)
        for unit, rows, path in self._taken(key, units, VALUE):
            found[unit] = _numbers(rows, size, path, str(key), missing)
        return found

    def floats(self, key: RowKey, units: range, column: str) -> Floats:
        """A column of the rows of some units; NaN for units without a row."""
        import pyarrow as pa

        found = np.full(len(units), np.nan)
        for unit, rows, _ in self._taken(key, units, column):
            found[unit] = rows.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return found

    def _taken(self, key: RowKey, units: range, column: str) -> Any:
        """Positions among the units, their values of a column, and the file: by row groups."""
        import pyarrow as pa

        number = np.asarray(self.rows[key][units.start : units.stop]).astype(np.int64) - 1
        unit = np.flatnonzero(number >= 0)
        group = np.searchsorted(self.group_start, number[unit], side="right") - 1
        for one in np.unique(group):
            own = unit[group == one]
            path = self.files[self.group_file[one]]
            with opened(path) as file:
                table = rows_of(file, path, int(self.group_in[one]), [column])
            rows = table[column].combine_chunks()
            yield own, rows.take(pa.array(number[own] - self.group_start[one])), path


def _numbers(rows: Any, size: int, path: Path, what: str, missing: int | None) -> Ints:
    """Lists of numbers as an array; lists of another length, or of no whole numbers, refused."""
    import pyarrow as pa
    import pyarrow.compute as pc  # slow to load

    lengths = pc.list_value_length(rows).fill_null(0).to_numpy()
    if (lengths != size).any():
        raise InputError(
            str(path),
            place=f"column {VALUE!r}, query {what}",
            found=f"a list of {int(lengths[lengths != size][0])} numbers",
            expected=f"{size}, as the query's shape says",
        )
    flat = rows.flatten()
    if flat.null_count and missing is None:
        raise InputError(
            str(path),
            place=f"column {VALUE!r}, query {what}",
            found="an answer that is missing",
            expected="a whole number for each group",
        )
    try:
        whole = flat.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise InputError(
            str(path), place=f"column {VALUE!r}", found=str(error), expected="whole numbers"
        ) from None
    if missing is not None:
        whole = whole.fill_null(missing)
    return np.asarray(whole.to_numpy()).reshape(len(rows), size)


@dataclass(frozen=True)
class RowKind:
    """Rows of one kind: what they are called here, and the shape of their lists."""

    key: RowKey
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Numbers in a list."""
        return prod(self.shape)

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether a shape is the same; axes of one group may be there or not."""
        return [n for n in shape if n != 1] == [n for n in self.shape if n != 1]


KindOf: TypeAlias = Callable[[str, str], RowKind | None]
"""The kind of row from the query's name and, of constraints, the sign; None to pass it over."""


def index_rows(
    files: Sequence[Path],
    level: str,
    tree: Geography,
    kind_of: KindOf,
    *,
    by: str = "",
    expected: str,
    storage: Storage | None = None,
) -> TableRows:
    """Look through a table: each row is of a known kind, of a known unit, once, and in shape.

    where
        by         a further column that tells kinds apart, if there is one
        expected   what a geounit must be, for errors
        storage    where the numbers of rows are put; None to keep them here
    """
    with ExitStack() as stack:
        made = _Index(level, tree, kind_of, by, expected, storage, stack)
        made.count(files)
        for number, path in enumerate(files):
            made.look(number, path)
        return made.finished(tuple(files))


class _Index:
    """A table that is being looked through."""

    def __init__(
        self,
        level: str,
        tree: Geography,
        kind_of: KindOf,
        by: str,
        expected: str,
        storage: Storage | None,
        stack: ExitStack,
    ) -> None:
        self._level, self._tree, self._kind_of, self._by = level, tree, kind_of, by
        self._expected, self._storage, self._stack = expected, storage, stack
        self._rows: dict[RowKey, Any] = {}
        self._sizes: dict[RowKey, int] = {}
        self._groups: list[tuple[int, int, int]] = []
        self._next, self._type = 0, np.dtype(np.int64)

    def count(self, files: Sequence[Path]) -> None:
        """How many rows there are decides how many bytes the number of a row takes."""
        total = 0
        for path in files:
            with opened(path) as file:
                total += file.metadata.num_rows
        self._type = np.min_scalar_type(total + 1).newbyteorder("<")

    def look(self, number: int, path: Path) -> None:
        """Look through one file."""
        columns = [GEOCODE, NAME, SHAPE, *([self._by] if self._by else [])]
        with opened(path) as file:
            refuse_other_columns(file, path, [*columns, VALUE])
            for group in range(file.num_row_groups):
                table = rows_of(file, path, group, columns)
                self._groups.append((number, group, self._next))
                answers = self._look(table, path)
                self._refuse_other_sizes(file, path, group, answers)
                self._next += table.num_rows

    def _look(self, table: pa.Table, path: Path) -> int:
        """Note the rows of a group; how many numbers they should have."""
        geocode = pl.Series(GEOCODE, pl.from_arrow(table[GEOCODE])).cast(pl.String)
        unit = find_units(geocode, self._tree, self._level)
        self._refuse_unknown(unit, geocode, path)
        names = {NAME: pl.from_arrow(table[NAME])}
        if self._by:
            names[self._by] = pl.from_arrow(table[self._by])
        frame = pl.DataFrame(names).with_row_index("row")
        answers = 0
        for key, rows in frame.group_by(list(names), maintain_order=True):
            said = [str(one) for one in key]
            kind = self._kind_of(said[0], said[1] if self._by else "")
            if kind is None:
                answers += _count_numbers(table, rows["row"])
                continue
            at = rows["row"].to_numpy().astype(np.int64)
            _refuse_other_shapes(table, at, kind, path, said[0])
            self._put(kind, unit[at], at, path, said[0])
            answers += kind.size * len(at)
        return answers

    def _put(self, kind: RowKind, unit: Any, at: Ints, path: Path, name: str) -> None:
        slots = self._slots(kind)
        again = slots[unit] > 0
        if not again.any() and len(np.unique(unit)) != len(unit):
            again = pl.Series(unit).is_duplicated().to_numpy()
        if again.any():
            code = self._code(int(unit[np.argmax(again)]))
            raise InputError(
                str(path),
                place=f"level {self._level!r}, geounit {code!r}",
                found=f"a second row for {name!r}",
                expected="one row for each geounit and query",
            )
        slots[unit] = self._next + at + 1

    def _slots(self, kind: RowKind) -> Any:
        """The number of each unit's row: in memory, or in a file that will be put."""
        if kind.key not in self._rows:
            units = self._tree.size(self._level)
            self._sizes[kind.key] = kind.size
            if self._storage is None:
                self._rows[kind.key] = np.zeros(units, dtype=self._type)
            else:
                file = self._stack.enter_context(self._storage.scratch())
                file.truncate(units * self._type.itemsize)
                self._rows[kind.key] = np.memmap(file, self._type, mode="r+", shape=(units,))
        return self._rows[kind.key]

    def finished(self, files: tuple[Path, ...]) -> TableRows:
        """What was found."""
        rows: dict[RowKey, Ints | StoredNumbers] = dict(self._rows)
        if self._storage is not None:
            for number, (key, slots) in enumerate(self._rows.items()):
                rows[key] = store_numbers(
                    self._storage, f"rows-{number}", _pieces(slots), least=0, most=self._next
                )
        group = np.array(self._groups, dtype=np.int64).reshape(-1, 3)
        start = np.append(group[:, 2], self._next)
        return TableRows(files, group[:, 0], group[:, 1], start, rows, self._sizes)

    def _refuse_unknown(self, unit: Any, geocode: pl.Series, path: Path) -> None:
        if (wrong := np.flatnonzero(unit < 0)).size:
            raise InputError(
                str(path),
                place=f"level {self._level!r}",
                found=f"geounit {geocode[int(wrong[0])]!r}",
                expected=self._expected,
            )

    def _refuse_other_sizes(self, file: Any, path: Path, group: int, expected: int) -> None:
        """Refuse a row group with another number of numbers, which its metadata tell."""
        described = file.metadata.row_group(group)
        for column in range(described.num_columns):
            one = described.column(column)
            if one.path_in_schema.split(".")[0] == VALUE and one.num_values != expected:
                raise InputError(
                    str(path),
                    place=f"column {VALUE!r}, row group {group}",
                    found=f"{one.num_values:,} numbers in the lists of its rows",
                    expected=f"{expected:,}, as the shapes of the queries say",
                )

    def _code(self, unit: int) -> str:
        return str(self._tree.units[self._tree.depth(self._level)][unit])


def _pieces(numbers: Any) -> Iterator[Any]:
    for first in range(0, len(numbers), 1 << 20):
        yield numbers[first : first + (1 << 20)]


def _count_numbers(table: pa.Table, rows: pl.Series) -> int:
    """How many numbers rows have that are passed over, by their own shapes."""
    import pyarrow as pa

    shapes = table[SHAPE].take(pa.array(rows.to_numpy().astype(np.int64))).to_pylist()
    return sum(prod(shape or [1]) for shape in shapes)


def _refuse_other_shapes(table: pa.Table, at: Ints, kind: RowKind, path: Path, name: str) -> None:
    """Refuse rows whose shape is not that of their query."""
    import pyarrow as pa
    import pyarrow.compute as pc

    shapes = table[SHAPE].combine_chunks().take(pa.array(at))
    first = shapes[0].as_py()
    lengths = pc.list_value_length(shapes).fill_null(-1).to_numpy()
    alike = first is not None and (lengths == len(first)).all()
    alike = (
        alike
        and (
            np.asarray(shapes.flatten().to_numpy(zero_copy_only=False)).reshape(len(at), len(first))
            == first
        ).all()
    )
    found = first
    if not alike:
        others = (one for one in shapes.to_pylist() if one is None or not kind.fits(one))
        found = next(others, first)
    if found is None or not kind.fits(found):
        raise InputError(
            str(path),
            place=f"column {SHAPE!r}, query {name!r}",
            found=f"shape {found}",
            expected=f"{list(kind.shape) or [1]}",
        )
