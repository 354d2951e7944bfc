"""Arrays of numpy as arrays of arrow.

``pyarrow.array`` does the same, but loads pandas wherever that is installed, which takes longer
than many a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_numbers(values: NDArray[Any]) -> pa.Array:
    """Integers or floats; no copy is made of those that lie side by side."""
    import pyarrow as pa

    kept = np.ascontiguousarray(values)
    assert kept.dtype.kind in "iuf", kept.dtype  # arrow packs booleans into bits
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(kept.dtype), len(kept), [None, pa.py_buffer(kept)]
    )


def arrow_texts(values: NDArray[np.str_] | Sequence[str]) -> pa.StringArray:
    """Texts."""
    import polars as pl
    import pyarrow as pa

    return pl.Series(values, dtype=pl.String).to_arrow().cast(pa.string())
