"""All counts of a level as one table: mapped, where there is a place for files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Ints
from headcount.files import POSIX
from headcount.mapped import append, mapped
from headcount.storage import Storage
from headcount.tabulate.counts import sparse_counts
from headcount.topdown._estimate import SparseRows
from headcount.topdown.parts import Estimates

if TYPE_CHECKING:
    from scipy.sparse import csr_array

UNITS_AT_ONCE = 1 << 16
"""Units whose counts are in memory at once."""


def joined(
    estimates: Estimates, level: str, units: int, cells: int, *, workspace: Storage | None
) -> csr_array[Any, tuple[int, int]]:
    """The counts of a finished level, units x cells."""
    if workspace is None or not POSIX:  # elsewhere a file that is mapped cannot go
        return estimates.rows(level, range(units)).matrix(cells)
    pieces = (
        estimates.rows(level, range(first, min(first + UNITS_AT_ONCE, units)))
        for first in range(0, units, UNITS_AT_ONCE)
    )
    return _mapped(pieces, cells, workspace)


def reordered(
    table: csr_array[Any, tuple[int, int]], order: Ints, *, workspace: Storage | None
) -> csr_array[Any, tuple[int, int]]:
    """The rows of a table in another order: row ``order[k]`` becomes row k."""
    if workspace is None or not POSIX:
        return table[order]
    some = (
        table[order[first : first + UNITS_AT_ONCE]] for first in range(0, len(order), UNITS_AT_ONCE)
    )
    pieces = (SparseRows(one.indptr, one.indices, one.data) for one in some)
    return _mapped(pieces, table.shape[1], workspace)


def _mapped(
    pieces: Iterable[SparseRows], cells: int, workspace: Storage
) -> csr_array[Any, tuple[int, int]]:
    """Rows of units after each other as one table, whose pages are those of files."""
    sizes = []
    with workspace.scratch() as cell, workspace.scratch() as value:
        for rows in pieces:
            sizes.append(np.diff(rows.start))
            append(cell, rows.cell, np.int32)
            append(value, rows.value, np.int64)
        start = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
        return sparse_counts(start, mapped(cell, np.int32), mapped(value, np.int64), cells=cells)
