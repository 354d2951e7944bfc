"""Pairs within sorted groups, compiled. Loads numba."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Ints
from headcount.compiled import kernel, njit


@kernel
def pair_groups(group: Ints, place: Ints, mate: Ints) -> None:
    """As many pairs as each group allows; rows are sorted by group, then by place.

    A place with at most half of a group's n members: the member at i and the one at i + ceil(n/2)
    are never in the same place. A place with more: each of the others gets one of its members.
    Either way no pairing of the group has more pairs.
    """
    low, rows = 0, len(group)
    while low < rows:
        high, run, widest, widest_at = low, low, 0, low
        while high < rows and group[high] == group[low]:
            if place[high] != place[run]:
                run = high
            if high - run + 1 > widest:
                widest, widest_at = high - run + 1, run
            high += 1
        size = high - low
        others = size - widest
        if widest <= others:
            apart = size - size // 2
            for i in range(low, low + size // 2):
                mate[i], mate[i + apart] = i + apart, i
        else:
            for i in range(others):
                other = low + i if low + i < widest_at else low + i + widest
                mate[widest_at + i], mate[other] = other, widest_at + i
        low = high


@kernel
def take_partners(
    low: Ints, high: Ints, skip_from: Ints, skip_to: Ints, start: Ints, offered: int
) -> Ints:
    """One partner for each seeker, from ``start`` on and round again within its group.

    Rows offered are low to high for a seeker's group; those from ``skip_from`` to ``skip_to``
    are in its own place. ``free[i]`` leads to the first row at or after i that is not taken.
    """
    free = np.arange(offered + 1)
    chosen = np.full(len(low), -1, dtype=np.int64)
    for seeker in range(len(low)):
        for turn in range(2):
            at = start[seeker] if turn == 0 else low[seeker]
            end = high[seeker] if turn == 0 else start[seeker]
            at = first_free(free, at)
            if skip_from[seeker] <= at < skip_to[seeker]:
                at = first_free(free, skip_to[seeker])
            if at < end:
                chosen[seeker] = at
                free[at] = at + 1
                break
    return chosen


@njit
def first_free(free: Ints, at: int) -> int:
    """Follow the links from ``at`` to the end, and shorten them on the way."""
    end = at
    while free[end] != end:
        end = free[end]
    while free[at] != end:
        free[at], at = end, free[at]
    return end
