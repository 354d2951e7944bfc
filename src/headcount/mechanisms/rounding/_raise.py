"""The compiled loop of small count rounding: raise cells one by one, then exchange some."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.compiled import kernel, njit

PATIENCE = 100
"""Exchanges beyond one for each raised cell, as in the peer."""


@njit
def _shift(
    cell: int, by: int, start: Ints, sums: Ints, first: Ints, cells: Ints, gain: Ints
) -> None:
    """Add to the gain of every cell that shares a sum with this one, once for each sum."""
    for s in range(start[cell], start[cell + 1]):
        for k in range(first[sums[s]], first[sums[s] + 1]):
            gain[cells[k]] += by


@kernel(work=lambda *given: (2 * given[-1] + PATIENCE) * len(given[4]))
def choose(
    start: Ints,
    sums: Ints,
    first: Ints,
    cells: Ints,
    gain: Ints,
    rank: Ints,
    base: int,
    wanted: int,
) -> Flags:
    """Which cells to raise by the base, ``wanted`` of them.

    where
        start, sums    for each cell the sums that it is part of
        first, cells   for each sum its cells
        gain           for each cell what its sums lack together; changed
        rank           of cells with the same gain that with the lowest rank goes first; changed

    The cell with the largest gain is raised, again and again. Then the raised cell with the
    smallest gain is lowered and the best one raised, until the smallest gain is that of the cell
    that was raised last. A lowered cell becomes the first of its equals, and so does a raised one.
    """
    up = np.zeros(len(gain), dtype=np.bool_)
    if wanted == len(gain):
        return ~up
    ahead, raised, last = 0, 0, -1
    for _ in range(2 * wanted + PATIENCE):
        if raised == wanted:
            low = -1
            for i in range(len(gain)):
                if up[i] and (
                    low < 0 or gain[i] < gain[low] or (gain[i] == gain[low] and rank[i] < rank[low])
                ):
                    low = i
            if low == last:
                break
            up[low] = False
            raised -= 1
            ahead -= 1
            rank[low] = ahead
            _shift(low, base, start, sums, first, cells, gain)
        best = -1
        for i in range(len(gain)):
            if not up[i] and (
                best < 0 or gain[i] > gain[best] or (gain[i] == gain[best] and rank[i] < rank[best])
            ):
                best = i
        up[best] = True
        raised += 1
        ahead -= 1
        rank[best] = ahead
        last = best
        _shift(best, -base, start, sums, first, cells, gain)
    return up
