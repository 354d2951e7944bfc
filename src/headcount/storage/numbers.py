"""Whole numbers in files: rows that are read by ranges, and never need to fit in memory."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.errors import RunError
from headcount.storage.protocol import Storage


@dataclass(frozen=True)
class StoredNumbers:
    """Rows of whole numbers in one file. It says where they are, and can be sent about.

    where
        kind    how each number is written: in as few bytes as the largest needs
        shape   rows, and numbers in a row if it is a table
    """

    storage: Storage
    name: str
    kind: str
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Ints) -> Ints:
        """Some rows, one after another or by their numbers."""
        if isinstance(rows, slice):
            first, last, _ = rows.indices(len(self))
            return self._read(first, max(first, last)).astype(np.int64)
        if not len(rows):
            return np.zeros((0, *self.shape[1:]), dtype=np.int64)
        first = int(rows.min())
        return self._read(first, int(rows.max()) + 1)[rows - first].astype(np.int64)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[:], dtype=dtype)

    def _read(self, first: int, last: int) -> NDArray[Any]:
        """Rows as they are in the file: mapped pages, where it is on a disk."""
        kind = np.dtype(self.kind)
        width = kind.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        size = (last - first) * width
        found = f"{self.storage.uri}/{self.name}: found"
        try:
            data = self.storage.read(self.name, first * width, size)
        except FileNotFoundError:
            raise RunError(
                f"{found} no file on {socket.gethostname()}, expected the run's, in a place that "
                f"all machines share"
            ) from None
        if data.size != size:
            raise RunError(f"{found} {data.size} bytes of rows {first} to {last}, expected {size}")
        return np.frombuffer(data, dtype=kind).reshape(last - first, *self.shape[1:])


def store_numbers(
    storage: Storage, name: str, pieces: Iterable[NDArray[Any]], *, least: int, most: int
) -> StoredNumbers:
    """Write rows, some at a time, none of whose numbers is below ``least`` or above ``most``."""
    kind = np.min_scalar_type(most) if least >= 0 else np.dtype(np.int64)
    kind = kind.newbyteorder("<")
    rows, row = 0, ()
    with storage.scratch() as file:
        for piece in pieces:
            file.write(np.ascontiguousarray(piece, dtype=kind).data)
            rows, row = rows + len(piece), piece.shape[1:]
        storage.put(name, file)
    return StoredNumbers(storage, name, kind.str, (rows, *row))
