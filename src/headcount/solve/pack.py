"""One parent's problem without what is already decided, in local arrays. Loads numba."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

FEASIBLE, INFEASIBLE = 0, 1
SCATTERED, ABSENT = -1, -2

Packed = tuple[
    int,  # FEASIBLE or INFEASIBLE
    NDArray[np.int64],  # source[v]: the batch's variable
    NDArray[np.int64],  # start[e]: first variable of each free entry
    NDArray[np.float64],  # total[e]
    NDArray[np.float64],  # answer[v]
    NDArray[np.int32],  # slot[f, v]
    NDArray[np.int64],  # run[f, e]
    NDArray[np.float64],  # slots[0:4]: weight, margin, low, high of each slot
]


@njit(nogil=True, cache=True)
def is_open(
    child: int,
    cell: int,
    family_start: NDArray[np.int64],
    group: NDArray[np.int32],
    bounded: NDArray[np.bool_],
    high: NDArray[np.int64],
) -> bool:
    """Whether no bound forces this cell of this child to be empty."""
    for f in range(bounded.size):
        if bounded[f] and high[child, family_start[f] + group[f, cell]] <= 0:
            return False
    return True


@njit(nogil=True, cache=True)
def decide(
    p: int,
    cell_start: NDArray[np.int64],
    cell: NDArray[np.int32],
    total: NDArray[np.int64],
    var_start: NDArray[np.int64],
    var_child: NDArray[np.int32],
    family_start: NDArray[np.int64],
    group: NDArray[np.int32],
    bounded: NDArray[np.bool_],
    high: NDArray[np.int64],
    is_root: bool,
    x: NDArray[np.float64],
) -> tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Set x where one answer is possible; list the variables and entries that are left.

    Nothing is left to choose in an entry with total 0 or with one open child.
    """
    first, last = cell_start[p], cell_start[p + 1]
    source = np.empty(var_start[last] - var_start[first], np.int64)
    start = np.empty(last - first + 1, np.int64)
    totals = np.empty(last - first)
    kept, entries = 0, 0
    for e in range(first, last):
        begin = kept
        for v in range(var_start[e], var_start[e + 1]):
            x[v] = 0.0
            if is_open(var_child[v], cell[e], family_start, group, bounded, high):
                source[kept] = v
                kept += 1
        if is_root:
            start[entries], totals[entries] = begin, 0.0
            entries += 1
            continue
        if total[e] > 0 and kept > begin + 1:
            start[entries], totals[entries] = begin, total[e]
            entries += 1
            continue
        if total[e] < 0 or (total[e] > 0 and kept == begin):
            return INFEASIBLE, source[:0], start[:1], totals[:0]
        if total[e] > 0:
            x[source[begin]] = total[e]
        kept = begin
    start[entries] = kept
    return FEASIBLE, source[:kept], start[: entries + 1], totals[:entries]


@njit(nogil=True, cache=True)
def reach(
    p: int,
    cell_start: NDArray[np.int64],
    cell: NDArray[np.int32],
    total: NDArray[np.int64],
    child_start: NDArray[np.int64],
    var_start: NDArray[np.int64],
    var_child: NDArray[np.int32],
    family_start: NDArray[np.int64],
    group: NDArray[np.int32],
    source: NDArray[np.int64],
    x: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """For each (group, child): what is decided there, how much more it could hold, and how often.

    The rows are the groups of all families together, the columns the parent's children. The
    third array counts the free variables.
    """
    kids = child_start[p]
    shape = (family_start[-1], child_start[p + 1] - kids)
    decided, room, count = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int64)
    at = 0
    for e in range(cell_start[p], cell_start[p + 1]):
        for v in range(var_start[e], var_start[e + 1]):
            free = at < source.size and source[at] == v
            if free:
                at += 1
            elif x[v] == 0.0:
                continue
            c = var_child[v] - kids
            for f in range(group.shape[0]):
                s = family_start[f] + group[f, cell[e]]
                if free:
                    room[s, c] += total[e]
                    count[s, c] += 1
                else:
                    decided[s, c] += x[v]
    return decided, room, count


@njit(nogil=True, cache=True)
def number_slots(
    kids: int,
    decided: NDArray[np.float64],
    room: NDArray[np.float64],
    count: NDArray[np.int64],
    family_start: NDArray[np.int64],
    ratio: NDArray[np.float64],
    proximal: NDArray[np.bool_],
    bounded: NDArray[np.bool_],
    margin: NDArray[np.float64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    no_bound: int,
    is_root: bool,
) -> tuple[int, NDArray[np.int32], NDArray[np.float64]]:
    """Number the (group, child) pairs that matter, children together within a group.

    A pair matters if it holds a free variable and is measured or has a bound that can bind.
    Bounds and noisy answers are lowered by what is decided.
    """
    n_groups, n_kids = count.shape
    number = np.full((n_groups, n_kids), -1, np.int32)
    slots = np.empty((4, int((count > 0).sum())))
    n = 0
    for f in range(ratio.size):
        for s in range(family_start[f], family_start[f + 1]):
            for c in range(n_kids):
                lo, hi = -np.inf, np.inf
                if bounded[f]:
                    have = decided[s, c]
                    if low[kids + c, s] > -no_bound:
                        lo = low[kids + c, s] - have
                    if high[kids + c, s] < no_bound:
                        hi = high[kids + c, s] - have
                    if lo > hi or hi < 0.0 or (lo > room[s, c] and not is_root):
                        return INFEASIBLE, number, slots
                    if is_root and lo > 0.0 and count[s, c] == 0:
                        return INFEASIBLE, number, slots
                if count[s, c] == 0:
                    continue
                if proximal[f]:
                    if lo <= 0.0 and (hi == np.inf or (hi >= room[s, c] and not is_root)):
                        continue
                    slots[1, n] = 0.0
                else:
                    slots[1, n] = margin[kids + c, s] - decided[s, c]
                slots[0, n], slots[2, n], slots[3, n] = ratio[f], lo, hi
                number[s, c] = n
                n += 1
    return FEASIBLE, number, slots[:, :n].copy()


@njit(nogil=True, cache=True)
def map_slots(
    kids: int,
    entry: NDArray[np.int64],
    cell: NDArray[np.int32],
    source: NDArray[np.int64],
    start: NDArray[np.int64],
    var_child: NDArray[np.int32],
    family_start: NDArray[np.int64],
    group: NDArray[np.int32],
    number: NDArray[np.int32],
    n: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The slot of each variable in each family, and the first one where an entry's are a run.

    Slot n stands for "none". Most entries are open in neighbouring children, whose slots are
    consecutive: such a run needs no look-up.
    """
    n_families = group.shape[0]
    slot = np.empty((n_families, source.size), np.int32)
    run = np.empty((n_families, start.size - 1), np.int64)
    for f in range(n_families):
        for e in range(start.size - 1):
            s = family_start[f] + group[f, cell[entry[e]]]
            first = number[s, var_child[source[start[e]]] - kids] if start[e] < start[e + 1] else -1
            live, together = False, first >= 0
            for v in range(start[e], start[e + 1]):
                k = number[s, var_child[source[v]] - kids]
                live = live or k >= 0
                together = together and k == first + (v - start[e])
                slot[f, v] = k if k >= 0 else n
            run[f, e] = first if together else (SCATTERED if live else ABSENT)
    return slot, run


@njit(nogil=True, cache=True)
def entries_of(
    source: NDArray[np.int64],
    start: NDArray[np.int64],
    first: int,
    var_start: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The batch's entry behind each free entry (one without variables keeps the last)."""
    entry = np.empty(start.size - 1, np.int64)
    e = first
    for k in range(entry.size):
        if start[k] < start[k + 1]:
            while var_start[e + 1] <= source[start[k]]:
                e += 1
        entry[k] = e
    return entry


@njit(nogil=True, cache=True)
def pack(
    p: int,
    cell_start: NDArray[np.int64],
    cell: NDArray[np.int32],
    total: NDArray[np.int64],
    child_start: NDArray[np.int64],
    var_start: NDArray[np.int64],
    var_child: NDArray[np.int32],
    answer: NDArray[np.float64],
    family_start: NDArray[np.int64],
    group: NDArray[np.int32],
    ratio: NDArray[np.float64],
    proximal: NDArray[np.bool_],
    bounded: NDArray[np.bool_],
    margin: NDArray[np.float64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    no_bound: int,
    is_root: bool,
    x: NDArray[np.float64],
) -> Packed:
    """The free part of parent p's problem; what is decided goes straight into x."""
    kids = child_start[p]
    status, source, start, totals = decide(
        p, cell_start, cell, total, var_start, var_child, family_start, group, bounded, high,
        is_root, x,
    )  # fmt: skip
    decided, room, count = reach(
        p, cell_start, cell, total, child_start, var_start, var_child, family_start, group,
        source, x,
    )  # fmt: skip
    found, number, slots = number_slots(
        kids, decided, room, count, family_start, ratio, proximal, bounded, margin, low, high,
        no_bound, is_root,
    )  # fmt: skip
    entry = entries_of(source, start, cell_start[p], var_start)
    slot, run = map_slots(
        kids, entry, cell, source, start, var_child, family_start, group, number, slots.shape[1]
    )
    answers = answer[source]
    return max(status, found), source, start, totals, answers, slot, run, slots
