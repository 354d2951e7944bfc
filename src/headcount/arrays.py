"""Names of the array types that every room uses; arrays for arrow, and as pages of files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Ints: TypeAlias = NDArray[np.int64]
Ints32: TypeAlias = NDArray[np.int32]
Ints8: TypeAlias = NDArray[np.int8]
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = Mapping[str, NDArray[np.integer]]
"""Level numbers of attributes by name, one for each row."""
Ends: TypeAlias = tuple[Ints, Ints]
"""Lower and upper bounds of the same things."""


def arrow_numbers(values: NDArray[Any]) -> pa.Array:
    """Integers or floats for arrow; no copy is made of those that lie side by side.

    ``pyarrow.array`` does the same, but loads pandas wherever that is installed, which takes longer
    than many a run.
    """
    import pyarrow as pa

    kept = np.ascontiguousarray(values)
    assert kept.dtype.kind in "iuf", kept.dtype  # arrow packs booleans into bits
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(kept.dtype), len(kept), [None, pa.py_buffer(kept)]
    )


def arrow_texts(values: NDArray[np.str_] | Sequence[str]) -> pa.StringArray:
    """Texts for arrow."""
    import polars as pl
    import pyarrow as pa

    return pl.Series(values, dtype=pl.String).to_arrow().cast(pa.string())


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
