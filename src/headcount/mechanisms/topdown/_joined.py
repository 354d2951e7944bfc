"""All counts of a level as one table: mapped, where there is a place for files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from headcount.mechanisms.topdown.parts import Estimates
from headcount.storage import Storage
from headcount.tabulate.counts import sparse_counts

if TYPE_CHECKING:
    from scipy.sparse import csr_array

UNITS_AT_ONCE = 1 << 16
"""Units whose counts are in memory at once."""


def joined(
    estimates: Estimates, level: str, units: int, cells: int, *, workspace: Storage | None
) -> csr_array[Any, tuple[int, int]]:
    """The counts of a finished level, units x cells."""
    if workspace is None:
        return estimates.rows(level, range(units)).matrix(cells)
    sizes = []
    with workspace.scratch() as cell, workspace.scratch() as value:
        for first in range(0, units, UNITS_AT_ONCE):
            rows = estimates.rows(level, range(first, min(first + UNITS_AT_ONCE, units)))
            sizes.append(np.diff(rows.start))
            cell.write(np.ascontiguousarray(rows.cell, dtype=np.int32).data)
            value.write(np.ascontiguousarray(rows.value, dtype=np.int64).data)
        start = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
        return sparse_counts(start, _mapped(cell, np.int32), _mapped(value, np.int64), cells=cells)


def _mapped(file: BinaryIO, kind: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """All numbers in a file, as pages of it, which stay when its name goes.

    Whoever changes one changes a copy.
    """
    file.flush()
    if not file.tell():
        return np.zeros(0, dtype=kind)  # nothing cannot be mapped
    return np.asarray(np.memmap(file, dtype=kind, mode="c"))
