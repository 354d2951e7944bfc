"""Names of the array types that every room uses, and arrays as pages of files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

Ints: TypeAlias = NDArray[np.int64]
Ints32: TypeAlias = NDArray[np.int32]
Ints8: TypeAlias = NDArray[np.int8]
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = Mapping[str, NDArray[np.integer]]
"""Level numbers of attributes by name, one for each row."""
Ends: TypeAlias = tuple[Ints, Ints]
"""Lower and upper bounds of the same things."""


ON_DISK = Path("/var/tmp")
"""Where temporary files are on a disk. The usual folder may be in memory, which they save."""


def scratch_file() -> AbstractContextManager[BinaryIO]:
    """A file without a name, which goes however this process ends: in TMPDIR, or else on a disk."""
    chosen = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    usable = not chosen and os.access(ON_DISK, os.W_OK | os.X_OK)
    return TemporaryFile(dir=ON_DISK if usable else None)


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
