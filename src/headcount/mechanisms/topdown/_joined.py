"""All counts of a level as one table: mapped, where there is a folder for its files."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.mechanisms.topdown.parts import Estimates
from headcount.tabulate.counts import sparse_counts

if TYPE_CHECKING:
    from scipy.sparse import csr_array

UNITS_AT_ONCE = 1 << 16
"""Units whose counts are in memory at once."""


def joined(
    estimates: Estimates, level: str, units: int, cells: int, *, folder: Path | None
) -> csr_array[Any, tuple[int, int]]:
    """The counts of a finished level, units x cells."""
    if folder is None:
        return estimates.rows(level, range(units)).matrix(cells)
    folder.mkdir(parents=True, exist_ok=True)
    cell, value = _Column(folder, np.int32), _Column(folder, np.int64)
    sizes = []
    for first in range(0, units, UNITS_AT_ONCE):
        rows = estimates.rows(level, range(first, min(first + UNITS_AT_ONCE, units)))
        sizes.append(np.diff(rows.start))
        cell.add(rows.cell)
        value.add(rows.value)
    start = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    return sparse_counts(start, cell.mapped(), value.mapped(), cells=cells)


class _Column:
    """Numbers that are written to a file without a name, which goes with the last use of them."""

    def __init__(self, folder: Path, kind: type[np.signedinteger[Any]]) -> None:
        self._file, self._kind = TemporaryFile(dir=folder), kind  # noqa: SIM115

    def add(self, values: NDArray[Any]) -> None:
        """More numbers."""
        self._file.write(np.ascontiguousarray(values, dtype=self._kind).data)

    def mapped(self) -> NDArray[Any]:
        """All of them, as pages of the file; whoever changes one changes a copy."""
        self._file.flush()
        if not self._file.tell():
            return np.zeros(0, dtype=self._kind)  # nothing cannot be mapped
        return np.asarray(np.memmap(self._file, dtype=self._kind, mode="c"))
