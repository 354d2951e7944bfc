"""A sample of people as one tidy Parquet table: whoever was drawn, with a weight."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.progress import Progress, silent
from headcount.release._placement import LEAVES_AT_ONCE
from headcount.release.streamed import pieces, whole_files
from headcount.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_array

SAMPLE_FILE, WEIGHT = "sample.parquet", "weight"


def write_sample(
    counts: csr_array[Any, tuple[int, int]],
    *,
    fraction: Fraction,
    schema: Schema,
    geography: Geography,
    folder: Path,
    progress: Progress = silent,
) -> tuple[Path]:
    """One row for each person drawn: codes of the place, attributes by level, ``weight`` 1/f.

    where
        counts    weighted counts of the sample at the leaf: each a whole number of people over f

    People of one place and one cell are alike in all that is published, so how many of them were
    drawn says everything. Rows are in the order of places and cells, not of any file.
    """
    import pyarrow.parquet as pq

    refuse_weight(schema, geography)
    sample = _Sample(counts, fraction)
    table = _Table(schema, geography, weight=fraction.denominator / fraction.numerator)
    options: dict[str, Any] = {"compression": "zstd", "store_schema": False}
    with whole_files(folder / SAMPLE_FILE) as (file,):
        none = np.empty(0, dtype=np.int64)
        with pq.ParquetWriter(file, table.of(none, none).schema, **options) as writer:
            for start, stop in pieces(sample.people, "writing the sample", progress):
                writer.write_table(table.of(*sample.between(start, stop)))
    return (folder / SAMPLE_FILE,)


class _Sample:
    """Leaf and cell of each person drawn, in the order of leaves; held are numbers a leaf alone."""

    def __init__(self, counts: csr_array[Any, tuple[int, int]], fraction: Fraction) -> None:
        self._counts = counts.tocsr()
        self._share = fraction.numerator / fraction.denominator
        leaves = self._counts.shape[0]
        of_leaf = np.zeros(leaves, dtype=np.int64)
        for first in range(0, leaves, LEAVES_AT_ONCE):
            some = range(first, min(first + LEAVES_AT_ONCE, leaves))
            place, _, drawn = self._entries(some)
            np.add.at(of_leaf, place, drawn)
        self._end = np.cumsum(of_leaf)

    @property
    def people(self) -> int:
        """How many were drawn."""
        return int(self._end[-1]) if self._end.size else 0

    def between(self, start: int, stop: int) -> tuple[Ints, Ints]:
        """Leaf and cell of people number ``start`` to ``stop``."""
        first, last = np.searchsorted(self._end, [start, stop - 1], side="right")
        place, cell, drawn = self._entries(range(int(first), int(last) + 1))
        before = int(self._end[first - 1]) if first else 0
        entry = np.searchsorted(np.cumsum(drawn) + before, np.arange(start, stop), side="right")
        return place[entry], cell[entry]

    def _entries(self, leaves: range) -> tuple[Ints, Ints, Ints]:
        """Leaf, cell and people of each count of some leaves."""
        some = self._counts[leaves.start : leaves.stop]
        place = np.repeat(np.arange(leaves.start, leaves.stop), np.diff(some.indptr))
        return place, some.indices, np.rint(some.data * self._share).astype(np.int64)


def refuse_weight(schema: Schema, geography: Geography) -> None:
    """Refuse a domain whose table would have two columns of one name."""
    names = [*(geography.levels[1:] or geography.levels), *schema.names, WEIGHT]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(
            "sample of people",
            place=f"column {twice[0]!r}",
            found="two columns of that name",
            expected=f"geography levels and attributes with names of their own, none {WEIGHT!r}",
        )


class _Table:
    """Arrow tables of people; text columns are dictionaries."""

    def __init__(self, schema: Schema, geography: Geography, *, weight: float) -> None:
        self.schema, self.geography, self.weight = schema, geography, weight
        self.levels = geography.levels[1:] or geography.levels

    def of(self, leaf: Any, cell: Any) -> pa.Table:
        import pyarrow as pa

        columns: dict[str, Any] = {}
        some = range(int(leaf[0]), int(leaf[-1]) + 1) if len(leaf) else range(0)
        for level in self.levels:
            codes = self.geography.units[self.geography.depth(level)]
            unit = self.geography.ancestors(level, units=some)[leaf - some.start]
            columns[level] = pa.array(codes[unit], pa.string())
        numbers = np.unravel_index(cell, self.schema.shape) if self.schema.names else ()
        for attribute, number in zip(self.schema.attributes, numbers, strict=True):
            columns[attribute.name] = pa.DictionaryArray.from_arrays(
                pa.array(np.asarray(number, dtype=np.int32)), pa.array(list(attribute.levels))
            )
        columns[WEIGHT] = pa.array(np.full(len(leaf), self.weight))
        return pa.table(columns)
