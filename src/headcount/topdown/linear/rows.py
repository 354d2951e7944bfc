"""Rows of numbers that are put away and read again by ranges: in memory, or in a file if many."""

from __future__ import annotations

from types import TracebackType

import numpy as np

from headcount.arrays import Floats
from headcount.mapped import scratch_file

IN_MEMORY = 1 << 23
"""Numbers that are left in memory: 64 MiB."""


class KeptRows:
    """Rows of one width, each 0 until it is written."""

    def __init__(self, rows: int, width: int) -> None:
        self._width = width
        self._few: Floats | None = None
        if rows * width <= IN_MEMORY:
            self._few = np.zeros((rows, width))
        else:
            self._context = scratch_file()
            self._file = self._context.__enter__()
            self._file.truncate(rows * width * 8)

    def __enter__(self) -> KeptRows:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._few is None:
            self._context.__exit__(kind, error, trace)

    def __getitem__(self, rows: range) -> Floats:
        if self._few is not None:
            return self._few[rows.start : rows.stop]
        self._file.seek(rows.start * self._width * 8)
        read = self._file.read(len(rows) * self._width * 8)
        return np.frombuffer(read, dtype=np.float64).reshape(len(rows), self._width)

    def __setitem__(self, rows: range, values: Floats) -> None:
        if self._few is not None:
            self._few[rows.start : rows.stop] = values
            return
        self._file.seek(rows.start * self._width * 8)
        self._file.write(np.ascontiguousarray(values, dtype=np.float64).data)
