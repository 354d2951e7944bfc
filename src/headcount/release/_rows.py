"""Long tables read in pieces: rows of counts become sparse counts whose pages are mapped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Ints, Ints32
from headcount.errors import RunError
from headcount.geography import Geography
from headcount.mapped import append, mapped, scratch_file
from headcount.release.frames import COUNT, LevelTable
from headcount.schema import Schema
from headcount.tabulate.counts import sparse_counts

if TYPE_CHECKING:
    import pyarrow as pa

OLDER_COUNT = "count"
"""What older versions called the column of counts."""


def read_rows(path: Path, level: str, schema: Schema, geography: Geography) -> LevelTable:
    """The sparse table of a Parquet file with a row for each count that is not zero.

    Rows are in the order of units, as they were written; a row group is in memory at a time.
    """
    import pyarrow.parquet as pq

    with (
        pq.ParquetFile(path, read_dictionary=[level, *schema.names]) as file,
        scratch_file() as cells,
        scratch_file() as values,
    ):
        count = COUNT if COUNT in file.schema_arrow.names else OLDER_COUNT
        kind = file.schema_arrow.field(count).type.to_pandas_dtype()
        held = np.zeros(geography.size(level), dtype=np.int64)
        places = _Places(geography.units[geography.depth(level)], path)
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, columns=[level, *schema.names, count])
            for batch in rows.to_batches():
                unit = places.of(batch.column(level))
                first, last = (int(unit[0]), int(unit[-1])) if len(unit) else (0, -1)
                held[first : last + 1] += np.bincount(unit - first)
                append(cells, _cell(batch, schema), np.int32)
                append(values, batch.column(count).to_numpy(), kind)
        start = np.concatenate([[0], np.cumsum(held)])
        found = mapped(cells, np.int32), mapped(values, kind)
    return sparse_counts(start, *found, cells=schema.size)


def _cell(batch: pa.RecordBatch, schema: Schema) -> Ints:
    """The number of each row's cell."""
    cell = np.zeros(batch.num_rows, dtype=np.int64)
    for attribute in schema.attributes:
        column = batch.column(attribute.name)
        number = np.array([attribute.index(name) for name in column.dictionary.to_pylist()])
        cell = cell * attribute.size + number[column.indices.to_numpy()]
    return cell


class _Places:
    """Numbers of units by their codes, in files that have them in the order of the tree."""

    def __init__(self, codes: NDArray[np.str_], path: Path) -> None:
        self._codes, self._path, self._from = codes, path, 0

    def of(self, column: pa.DictionaryArray) -> Ints:
        """The number of each row's unit: none is before the last one of the rows before."""
        # A list of codes may have those of other rows too.
        used, which = np.unique(column.indices.to_numpy(), return_inverse=True)
        number: Ints = self._found(column.dictionary.take(used))[which]
        if len(number):
            if number[0] < self._from or (np.diff(number) < 0).any():
                raise RunError(
                    f"{self._path}: found units out of the order of the tree, expected them as "
                    "they were written"
                )
            self._from = int(number[-1])
        return number

    def _found(self, wanted: pa.Array) -> Ints:
        """Look each code up among the next ones, and among more while one is not there."""
        import pyarrow as pa
        import pyarrow.compute as pc

        width = 2 * len(wanted) + 1
        while True:
            last = self._from + width
            near = pa.array(self._codes[self._from : last], pa.string())
            found = pc.index_in(wanted, value_set=near)
            if not found.null_count:
                return np.asarray(found.to_numpy()).astype(np.int64) + self._from
            if last >= len(self._codes):
                missing = wanted.filter(found.is_null())[0].as_py()
                raise RunError(
                    f"{self._path}: found unit {missing!r} where it cannot be, expected units in "
                    "the order of the tree"
                )
            width *= 4


def geography_in_order(levels: Sequence[str], columns: Iterable[pl.Series]) -> Geography:
    """The geography in the order in which it was written: rows of tables stay where they are.

    ``columns`` has the codes of each level below the first, a code for each leaf. Leaves of one
    unit stand together, so that a unit is a run of equal codes.
    """
    units, parents = [np.array([levels[0]])], [np.empty(0, dtype=np.int32)]
    above: Ints32 | None = None  # the number of each leaf's unit at the level above
    for codes in columns:
        number = codes.rle_id().to_numpy().astype(np.int32)
        first = np.flatnonzero(np.diff(number, prepend=-1))
        units.append(codes.gather(first).to_numpy().astype(np.str_))
        of_first = np.zeros(len(first), dtype=np.int32) if above is None else above[first]
        parents.append(of_first)
        above = number
    return Geography(tuple(levels), tuple(units), tuple(parents))
