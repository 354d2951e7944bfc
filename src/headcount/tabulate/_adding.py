"""Rows of sparse counts added up, compiled. Loads numba."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.compiled import kernel


@kernel
def add_rows(
    start: Ints, cell: Ints32, value: Ints, first: Ints, cells: int
) -> tuple[Ints, Ints32, Ints]:
    """Sums of the rows first[p] to first[p + 1] for every p, cells in order, zeros left out.

    Row r has the cells ``cell[start[r]:start[r+1]]``.
    """
    total, used = np.zeros(cells, np.int64), np.empty(cells, np.int64)
    out_start = np.zeros(len(first), np.int64)
    out_cell, out_value = np.empty(0, np.int32), np.empty(0, np.int64)
    for fill in (False, True):
        for p in range(len(first) - 1):
            met = 0
            for k in range(start[first[p]], start[first[p + 1]]):
                if total[cell[k]] == 0 and value[k] != 0:
                    used[met] = cell[k]
                    met += 1
                total[cell[k]] += value[k]
            if fill:
                at = out_start[p]
                for c in np.sort(used[:met]):
                    out_cell[at], out_value[at] = c, total[c]
                    at += 1
            else:
                out_start[p + 1] = out_start[p] + met
            for c in used[:met]:
                total[c] = 0
        if not fill:
            out_cell = np.empty(out_start[-1], np.int32)
            out_value = np.empty(out_start[-1], np.int64)
    return out_start, out_cell, out_value
