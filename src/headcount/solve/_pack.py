"""One parent's problem without what is already decided, in local arrays. Loads numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.compiled import njit
from headcount.solve._reduce import (
    COUNT,
    HIGH,
    LOW,
    MARGIN,
    STAND_IN,
    WEIGHT,
    absorb,
    merge,
    renumber,
)

FEASIBLE, INFEASIBLE = 0, 1


@njit(nogil=True, cache=True)
def is_open(
    child: int, cell: int, family_start: Ints, group: Ints32, bounded: Flags, high: Ints
) -> bool:
    """Whether no bound forces this cell of this child to be empty."""
    for f in range(bounded.size):
        if bounded[f] and high[child, family_start[f] + group[f, cell]] <= 0:
            return False
    return True


@njit(nogil=True, cache=True)
def decide(
    p: int,
    cell_start: Ints,
    cell: Ints32,
    total: Ints,
    var_start: Ints,
    var_child: Ints32,
    family_start: Ints,
    group: Ints32,
    bounded: Flags,
    high: Ints,
    is_root: bool,
    x: Floats,
) -> tuple[int, Ints, Ints, Ints, Ints, Ints]:
    """Set x where one answer is possible; list what is left.

    Nothing is left to choose in an entry with total 0 or with one open child. Returns whether
    some answer is possible at all; the free variables; where each free entry's begin; the free
    entries; the variables that were set to more than 0, and their entries.
    """
    first, last = cell_start[p], cell_start[p + 1]
    source = np.empty(var_start[last] - var_start[first], np.int64)
    start, entry = np.empty(last - first + 1, np.int64), np.empty(last - first, np.int64)
    fixed, fixed_entry = np.empty(last - first, np.int64), np.empty(last - first, np.int64)
    kept, entries, n_fixed, status = 0, 0, 0, FEASIBLE
    for e in range(first, last):
        begin = kept
        for v in range(var_start[e], var_start[e + 1]):
            x[v] = 0.0
            if is_open(var_child[v], cell[e], family_start, group, bounded, high):
                source[kept] = v
                kept += 1
        choices = kept - begin
        if choices > 0 and (is_root or (total[e] > 0 and choices > 1)):
            start[entries], entry[entries] = begin, e
            entries += 1
            continue
        kept = begin
        if is_root or total[e] == 0:
            continue
        if total[e] < 0 or choices == 0:
            status = INFEASIBLE
            continue
        x[source[begin]] = total[e]
        fixed[n_fixed], fixed_entry[n_fixed] = source[begin], e
        n_fixed += 1
    start[entries] = kept
    return (
        status,
        source[:kept],
        start[: entries + 1],
        entry[:entries],
        fixed[:n_fixed],
        fixed_entry[:n_fixed],
    )


@njit(nogil=True, cache=True)
def number_slots(
    width: int,
    group: Ints32,
    cell: Ints32,
    total: Ints,
    child: NDArray[np.uint32],
    start: Ints,
    entry: Ints,
    fixed_child: Ints,
    fixed_entry: Ints,
    number: Ints32,
    slot: NDArray[np.uint32],
    place: Ints,
    room: Floats,
    decided: Floats,
    count: Floats,
    used: int,
) -> int:
    """Number one family's slots in the order in which they are met, from ``used``; the new end.

    number[place] is the slot at place = child * width + group, or -1. Of each slot: how many free
    variables it has, how much they could hold at most, and how much is decided already.
    """
    number[:] = -1
    for e in range(entry.size):
        g = group[cell[entry[e]]]
        most = total[entry[e]]
        for v in range(start[e], start[e + 1]):
            at = child[v] * width + g
            s = number[at]
            if s < 0:
                s = number[at] = used
                place[s], room[s], decided[s], count[s] = at, 0.0, 0.0, 0.0
                used += 1
            slot[v] = s
            room[s] += most
            count[s] += 1.0
    for k in range(fixed_child.size):
        at = fixed_child[k] * width + group[cell[fixed_entry[k]]]
        s = number[at]
        if s < 0:
            s = number[at] = used
            place[s], room[s], decided[s], count[s] = at, 0.0, 0.0, 0.0
            used += 1
        decided[s] += total[fixed_entry[k]]
    return used


@njit(nogil=True, cache=True)
def bound_slots(
    kids: int,
    n_kids: int,
    column: int,
    width: int,
    low: Ints,
    high: Ints,
    no_bound: int,
    is_root: bool,
    number: Ints32,
    room: Floats,
    decided: Floats,
    table: Floats,
) -> int:
    """The bounds of one family's slots, less what is decided; whether they can be met at all.

    A bound that cannot bind becomes infinite.
    """
    for c in range(n_kids):
        for g in range(width):
            s = number[c * width + g]
            lo, hi = low[kids + c, column + g], high[kids + c, column + g]
            have = decided[s] if s >= 0 else 0.0
            most = room[s] if s >= 0 else 0.0
            if is_root and s >= 0:
                most = np.inf
            if (lo > -no_bound and lo > hi) or hi < have or (lo > -no_bound and lo > most + have):
                return INFEASIBLE
            if s >= 0:
                if lo > have:
                    table[LOW, s] = lo - have
                if hi < no_bound and hi < most + have:
                    table[HIGH, s] = hi - have
    return FEASIBLE


@njit(nogil=True, cache=True)
def pack(
    p: int,
    cell_start: Ints,
    cell: Ints32,
    total: Ints,
    child_start: Ints,
    var_start: Ints,
    var_child: Ints32,
    answer: Floats,
    family_start: Ints,
    group: Ints32,
    ratio: Floats,
    stand_in: Flags,
    bounded: Flags,
    margin: Floats,
    low: Ints,
    high: Ints,
    no_bound: int,
    is_root: bool,
    x: Floats,
) -> tuple[
    int,
    Ints,
    NDArray[np.uint64],
    Floats,
    Floats,
    Floats,
    NDArray[np.uint32],
    NDArray[np.uint32],
    Floats,
]:
    """The free part of parent p's problem; what is decided goes straight into x.

    Returns the status; the batch's variable behind each free one; where each free entry's
    variables begin; its total; each variable's weight and weight times target; the pairs
    (variable, slot) of which the sums are made; the table of slots.
    """
    kids, n_kids = child_start[p], child_start[p + 1] - child_start[p]
    status, source, start, entry, fixed, fixed_entry = decide(
        p,
        cell_start,
        cell,
        total,
        var_start,
        var_child,
        family_start,
        group,
        bounded,
        high,
        is_root,
        x,
    )
    n_families, n = ratio.size, source.size
    child, fixed_child = (var_child[source] - kids).astype(np.uint32), var_child[fixed] - kids
    slot = np.empty((n_families, n), np.uint32)
    table = np.empty((6, n_families * (n + fixed.size)))
    place = np.empty(table.shape[1], np.int64)
    room, decided = np.empty(table.shape[1]), np.empty(table.shape[1])
    used = 0
    for f in range(n_families):
        column, before = family_start[f], used
        width = family_start[f + 1] - column
        number = np.empty(width * n_kids, np.int32)
        used = number_slots(
            width,
            group[f],
            cell,
            total,
            child,
            start,
            entry,
            fixed_child,
            fixed_entry,
            number,
            slot[f],
            place,
            room,
            decided,
            table[COUNT],
            used,
        )
        for s in range(before, used):
            c, g = kids + place[s] // width, column + place[s] % width
            table[WEIGHT, s] = ratio[f]
            table[MARGIN, s] = 0.0 if stand_in[f] else margin[c, g] - decided[s]
            table[LOW, s], table[HIGH, s], table[STAND_IN, s] = -np.inf, np.inf, stand_in[f]
        if bounded[f]:
            found = bound_slots(
                kids,
                n_kids,
                column,
                width,
                low,
                high,
                no_bound,
                is_root,
                number,
                room,
                decided,
                table,
            )
            status = max(status, found)
    weight, target = np.ones(source.size), answer[source]
    kept = absorb(slot, table[:, :used], weight, target)
    merge(slot, table[:, :used], kept)
    who, where, table = renumber(slot, table[:, :used], kept)
    totals = total[entry].astype(np.float64)
    return status, source, start.astype(np.uint64), totals, weight, target, who, where, table
