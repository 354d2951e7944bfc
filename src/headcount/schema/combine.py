"""One number for each combination of coded columns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints

LARGEST_CODE = 1 << 62
"""Combinations are numbered below this; numbers are made dense again before they would pass it."""


def combine(columns: Iterable[NDArray[np.integer]], *, rows: int) -> Ints:
    """A number for each row, the same for exactly those rows that agree on all columns.

    Mixed radix, so that no row is compared with another; fifteen attributes with thousands of
    millions of combinations still fit. Codes are 0 or more.
    """
    code, size = np.zeros(rows, dtype=np.int64), 1
    for column in columns:
        levels = int(column.max(initial=0)) + 1
        if size * levels > LARGEST_CODE:
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
            size = int(code.max(initial=0)) + 1
        code = code * levels + column
        size *= levels
    return code
