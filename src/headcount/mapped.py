"""Columns of numbers too large for memory, as pages of files."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray


def append(file: BinaryIO, values: NDArray[Any], kind: DTypeLike) -> None:
    """Write numbers to the end of a file."""
    file.write(np.ascontiguousarray(values, dtype=kind).data)


def mapped(file: BinaryIO, kind: DTypeLike) -> NDArray[Any]:
    """All numbers in a file, as pages of it, which stay when its name goes.

    Whoever changes one changes a copy.
    """
    file.flush()
    if not file.tell():
        return np.zeros(0, dtype=kind)  # nothing cannot be mapped
    return np.asarray(np.memmap(file, dtype=kind, mode="c"))
