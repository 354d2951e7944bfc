"""Tiny tables of which every rounding can be tried."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from scipy.sparse import csr_array, hstack

from headcount.mechanisms.rounding.small_counts import SmallCounts

PEER = np.array([[6, 0, 1, 3, 4], [1, 2, 3, 1, 2], [0, 1, 1, 0, 2]])
"""The peer's example ``exPSD``: three rows, five columns."""


def margins(shape: Sequence[int], sets: Sequence[Sequence[int]]):
    """Cells of a table x the cells of its margins over these sets of axes."""
    at = np.indices(shape).reshape(len(shape), -1)
    cells = at.shape[1]
    blocks = []
    for kept in sets:
        sizes = [shape[axis] for axis in kept]
        column = (
            np.ravel_multi_index([at[axis] for axis in kept], sizes)
            if kept
            else np.zeros(cells, dtype=np.int64)
        )
        ones = np.ones(cells, dtype=np.int64)
        blocks.append(
            csr_array((ones, (np.arange(cells), column)), shape=(cells, int(np.prod(sizes))))
        )
    return hstack(blocks, format="csr")


TOTAL_ROWS_COLUMNS: list[tuple[int, ...]] = [(), (0,), (1,)]


def squares(counts, rounded, sums) -> int:
    return int(((sums.T @ (rounded - counts)) ** 2).sum())


def best_by_trying(counts, sums, settings: SmallCounts) -> int:
    """The smallest sum of squares that ``exact_small_counts`` promises, without known cells."""
    matrix, base, most = sums.toarray(), settings.base, settings.most
    before = matrix.T @ counts
    ways = []
    for y, row in zip(counts.tolist(), matrix, strict=True):
        if y > most or y % base == 0:
            ways.append([y])
            continue
        both = [y - y % base, y - y % base + base]
        forced = any(0 < p <= most for p in before[row > 0])
        ways.append(both if forced else [y, *both])
    best = None
    for tried in product(*ways):
        after = matrix.T @ np.array(tried)
        fits = all(p > most or p % base == 0 for p in after.tolist())
        if fits and 2 * abs(sum(tried) - int(counts.sum())) <= base:
            size = int(((after - before) ** 2).sum())
            best = size if best is None else min(best, size)
    assert best is not None
    return best
