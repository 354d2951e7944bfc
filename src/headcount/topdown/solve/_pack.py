"""One parent's least squares in local arrays: without what is decided, and with few slots.

A slot is a group of a family in one child. Most need no price of their own: those of one variable,
and those with the same variables as another. Most children have no group quarters; there a cell of
the marginal over everything but the type is one variable, and the total is the same sum as the
households. Without these the problem is many times smaller and far better conditioned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.compiled import ZERO, njit
from headcount.topdown.solve.batch import NO_BOUND, BatchArrays

# The rows of a table of slots: the slot's weight and noisy answer, its bounds, whether the weight
# only stands in for 0, its number of variables.
WEIGHT, MARGIN, LOW, HIGH, STAND_IN, COUNT = 0, 1, 2, 3, 4, 5

Slots = NDArray[np.uint32]
Starts = NDArray[np.uint64]  # unsigned, as are slots: no test for negative indices in the loops

FEASIBLE, INFEASIBLE = 0, 1
PROXIMAL_FAMILY = 1e-3
PROXIMAL_DETAIL = 1e-2


class Free(NamedTuple):
    """A parent's free problem in the words of ``_newton``.

    where
        source       the batch's variable behind each v
        start        entry e has the variables start[e] : start[e + 1]
        total        total_e
        weight       w_v, and ``give`` = 1 / w_v
        target       b_v
        stand_in     the part of w_v that only stands in for a weight of 0
        who, where   the pairs (variable, slot) of which Q is made
        slots        a table of the slots, with the rows above
    """

    source: NDArray[np.int64]
    start: Starts
    total: Floats
    weight: Floats
    give: Floats
    target: Floats
    stand_in: Floats
    who: Slots
    where: Slots
    slots: Floats
    is_root: bool


class _Choices(NamedTuple):
    """What of a parent is left to choose, and what is decided.

    where
        source               the free variables
        start                where each free entry's begin
        entry                the free entries
        fixed, fixed_entry   the variables that were set to more than 0, and their entries
    """

    source: Ints
    start: Ints
    entry: Ints
    fixed: Ints
    fixed_entry: Ints


class _FoundSlots(NamedTuple):
    """Slots as they are met: child and group of each, what it could hold, what is decided."""

    place: Ints
    capacity: Floats
    decided: Floats
    table: Floats


@njit
def is_open(child: int, cell: int, b: BatchArrays, bounded: Flags) -> bool:
    """Whether no bound forces this cell of this child to be empty."""
    for f in range(bounded.size):
        if bounded[f] and b.high[child, b.bound_start[f] + b.group[f, cell]] <= 0:
            return False
    return True


@njit
def decide(p: int, b: BatchArrays, bounded: Flags, x: Floats) -> tuple[int, _Choices]:
    """Set x where one answer is possible; list what is left.

    Nothing is left to choose in an entry with total 0 or with one open child. Returns whether
    some answer is possible at all, and the choices.
    """
    first, last = b.cell_start[p], b.cell_start[p + 1]
    source = np.empty(b.var_start[last] - b.var_start[first], np.int64)
    start, entry = np.empty(last - first + 1, np.int64), np.empty(last - first, np.int64)
    fixed, fixed_entry = np.empty(last - first, np.int64), np.empty(last - first, np.int64)
    kept, entries, n_fixed, status = 0, 0, 0, FEASIBLE
    for e in range(first, last):
        begin = kept
        for v in range(b.var_start[e], b.var_start[e + 1]):
            x[v] = 0.0
            if is_open(b.var_child[v], b.cell[e], b, bounded):
                source[kept] = v
                kept += 1
        choices = kept - begin
        if choices > 0 and (b.is_root or (b.total[e] > 0 and choices > 1)):
            start[entries], entry[entries] = begin, e
            entries += 1
            continue
        kept = begin
        if b.is_root or b.total[e] == 0:
            continue
        if b.total[e] < 0 or choices == 0:
            status = INFEASIBLE
            continue
        x[source[begin]] = b.total[e]
        fixed[n_fixed], fixed_entry[n_fixed] = source[begin], e
        n_fixed += 1
    start[entries] = kept
    return status, _Choices(
        source[:kept], start[: entries + 1], entry[:entries], fixed[:n_fixed], fixed_entry[:n_fixed]
    )


@njit
def _number_slots(
    width: int,
    group: Ints32,
    b: BatchArrays,
    kids: int,
    choices: _Choices,
    number: Ints32,
    slot: Slots,
    found: _FoundSlots,
    used: int,
) -> int:
    """Number one family's slots in the order in which they are met, from ``used``; the new end.

    number[place] is the slot at place = child * width + group, or -1. Of each slot: how many free
    variables it has, how much they could hold at most, and how much is decided already.
    """
    place, capacity, decided, count = found.place, found.capacity, found.decided, found.table[COUNT]
    start, entry = choices.start, choices.entry
    number[:] = -1
    for e in range(entry.size):
        g = group[b.cell[entry[e]]]
        most = b.total[entry[e]]
        for v in range(start[e], start[e + 1]):
            at = (b.var_child[choices.source[v]] - kids) * width + g
            s = number[at]
            if s < 0:
                s = number[at] = used
                place[s], capacity[s], decided[s], count[s] = at, 0.0, 0.0, 0.0
                used += 1
            slot[v] = s
            capacity[s] += most
            count[s] += 1.0
    for k in range(choices.fixed.size):
        e = choices.fixed_entry[k]
        at = (b.var_child[choices.fixed[k]] - kids) * width + group[b.cell[e]]
        s = number[at]
        if s < 0:
            s = number[at] = used
            place[s], capacity[s], decided[s], count[s] = at, 0.0, 0.0, 0.0
            used += 1
        decided[s] += b.total[e]
    return used


@njit
def _bound_slots(
    p: int, column: int, width: int, b: BatchArrays, number: Ints32, found: _FoundSlots
) -> int:
    """The bounds of one family's slots, less what is decided; whether they can be met at all.

    A bound that cannot bind becomes infinite.
    """
    kids, table = b.child_start[p], found.table
    for c in range(b.child_start[p + 1] - kids):
        for g in range(width):
            s = number[c * width + g]
            lo, hi = b.low[kids + c, column + g], b.high[kids + c, column + g]
            have = found.decided[s] if s >= 0 else 0.0
            most = found.capacity[s] if s >= 0 else 0.0
            if b.is_root and s >= 0:
                most = np.inf
            if (lo > -NO_BOUND and lo > hi) or hi < have or (lo > -NO_BOUND and lo > most + have):
                return INFEASIBLE
            if s >= 0:
                if lo > have:
                    table[LOW, s] = lo - have
                if hi < NO_BOUND and hi < most + have:
                    table[HIGH, s] = hi - have
    return FEASIBLE


@njit
def _joint_slots(
    p: int, b: BatchArrays, choices: _Choices, slot: Slots, found: _FoundSlots, used: int
) -> tuple[int, int]:
    """Slots for the totals of several children together; the new end, and whether they can be met.

    A child of no group gets a slot of its own without weight or bound, which is dropped later.
    """
    kids, n_kids = b.child_start[p], b.child_start[p + 1] - b.child_start[p]
    table, first = found.table, np.empty(n_kids, np.int64)
    for c in range(n_kids):
        first[c] = c
        for other in range(c):
            if b.joint[kids + c] >= 0 and b.joint[kids + c] == b.joint[kids + other]:
                first[c] = first[other]
                break
        s = used + c
        found.capacity[s], found.decided[s], table[COUNT, s] = 0.0, 0.0, 0.0
        table[WEIGHT, s], table[MARGIN, s], table[STAND_IN, s] = PROXIMAL_FAMILY, 0.0, 1.0
        table[LOW, s], table[HIGH, s] = -np.inf, np.inf
    for e in range(choices.entry.size):
        for v in range(choices.start[e], choices.start[e + 1]):
            s = used + first[b.var_child[choices.source[v]] - kids]
            slot[v] = s
            found.capacity[s] += np.inf if b.is_root else b.total[choices.entry[e]]
            table[COUNT, s] += 1.0
    for k in range(choices.fixed.size):
        s = used + first[b.var_child[choices.fixed[k]] - kids]
        found.decided[s] += b.total[choices.fixed_entry[k]]
    status = FEASIBLE
    for c in range(n_kids):
        s, j = used + c, b.joint[kids + c]
        if j >= 0 and first[c] == c:
            left = b.joint_total[j] - found.decided[s]
            if left < 0.0 or left > found.capacity[s]:
                status = INFEASIBLE
            table[MARGIN, s] = table[LOW, s] = table[HIGH, s] = left
    return used + n_kids, status


@njit
def _unit_weight(p: int, b: BatchArrays) -> tuple[float, float]:
    """The weight that counts as 1 in parent p's problem, and what stands in for a detail's 0.

    The largest weight of a child's detail; where no detail is measured, a small part of the
    smallest weight of a family. Only the parent's own children are asked, so that its answer
    does not depend on its neighbours in the batch.
    """
    least, most, family = np.inf, 0.0, np.inf
    for c in range(b.child_start[p], b.child_start[p + 1]):
        if b.weight[c] > 0.0:
            least, most = min(least, b.weight[c]), max(most, b.weight[c])
        for f in range(b.family_weight.shape[1]):
            if b.family_weight[c, f] > 0.0:
                family = min(family, b.family_weight[c, f])
    if most > 0.0:
        return most, PROXIMAL_DETAIL * least / most
    return (PROXIMAL_DETAIL * family if family < np.inf else 1.0), 1.0


@njit
def _absorb(slot: Slots, table: Floats, weight: Floats, target: Floats) -> Flags:
    """Put each measured, unbounded slot of one variable into that variable's own square.

        (x - a)^2 + r (x - y)^2 = (1 + r) (x - (a + r y) / (1 + r))^2 + constant

    Afterwards ``target`` is weight times target. Returns which slots are still needed: those
    with free variables, and a weight or a bound.
    """
    kept = np.empty(table.shape[1], np.bool_)
    for s in range(kept.size):
        free = table[LOW, s] == -np.inf and table[HIGH, s] == np.inf
        kept[s] = table[COUNT, s] > 0.0 and not (free and table[STAND_IN, s] > 0.0)
    for f in range(slot.shape[0]):
        for v in range(weight.size):
            s = slot[f, v]
            if (
                kept[s]
                and table[COUNT, s] == 1.0
                and table[LOW, s] == -np.inf
                and table[HIGH, s] == np.inf
            ):
                weight[v] += table[WEIGHT, s]
                target[v] += table[WEIGHT, s] * table[MARGIN, s]
                kept[s] = False
    return kept


@njit
def merge(slot: Slots, table: Floats, kept: Flags) -> None:
    """Make one slot of two that hold the same variables: squares add up, bounds intersect."""
    partner = np.empty(kept.size, np.int64)
    for f in range(slot.shape[0]):
        for g in range(f + 1, slot.shape[0]):
            for v in range(slot.shape[1]):
                partner[slot[f, v]] = slot[g, v]
            for v in range(slot.shape[1]):
                if partner[slot[f, v]] != slot[g, v]:
                    partner[slot[f, v]] = -1
            for v in range(slot.shape[1]):
                s, t = slot[f, v], partner[slot[f, v]]
                if t >= 0 and kept[s] and kept[t] and table[COUNT, s] == table[COUNT, t]:
                    join(table, s, t)
                    kept[s] = False


@njit
def join(table: Floats, s: int, t: int) -> None:
    """Add slot s to slot t; a stand-in weight gives way to a true one."""
    table[LOW, t] = max(table[LOW, t], table[LOW, s])
    table[HIGH, t] = min(table[HIGH, t], table[HIGH, s])
    if table[STAND_IN, s] > 0.0:
        return
    if table[STAND_IN, t] > 0.0:
        table[STAND_IN, t], table[WEIGHT, t] = 0.0, table[WEIGHT, s]
        table[MARGIN, t] = table[MARGIN, s]
        return
    both = table[WEIGHT, t] + table[WEIGHT, s]
    sum_y = table[WEIGHT, t] * table[MARGIN, t] + table[WEIGHT, s] * table[MARGIN, s]
    table[WEIGHT, t], table[MARGIN, t] = both, sum_y / both


@njit
def renumber(slot: Slots, table: Floats, kept: Flags) -> tuple[Slots, Slots, Floats]:
    """The kept slots numbered from 0: Q as pairs (variable, slot), and the table."""
    number = np.empty(kept.size, np.uint32)
    n = 0
    for s in range(kept.size):
        if kept[s]:
            number[s] = n
            n += 1
    out = np.empty((table.shape[0], n))
    for s in range(kept.size):
        if kept[s]:
            for row in range(out.shape[0]):  # a slice takes five times as long to compile
                out[row, number[s]] = table[row, s]
    who, where = np.empty(slot.size, np.uint32), np.empty(slot.size, np.uint32)
    pairs = 0
    for f in range(slot.shape[0]):
        for v in range(slot.shape[1]):
            if kept[slot[f, v]]:
                who[pairs], where[pairs] = v, number[slot[f, v]]
                pairs += 1
    return who[:pairs], where[:pairs], out


@njit
def pack(p: int, b: BatchArrays, bounded: Flags, x: Floats) -> tuple[int, Free]:
    """The free part of parent p's problem, with its status; the decided goes straight into x."""
    kids, n_kids = b.child_start[p], b.child_start[p + 1] - b.child_start[p]
    status, choices = decide(p, b, bounded, x)
    source = choices.source
    n_families, n, joint = bounded.size, source.size, b.joint.size > 0
    slot = np.empty((n_families + joint, n), np.uint32)
    table = np.empty((6, n_families * (n + choices.fixed.size) + (n_kids if joint else 0)))
    most = table.shape[1]
    found = _FoundSlots(np.empty(most, np.int64), np.empty(most), np.empty(most), table)
    one, soft = _unit_weight(p, b)
    used = ZERO
    for f in range(n_families):
        column, before = b.family_start[f], used
        width = b.family_start[f + 1] - column
        number = np.empty(width * n_kids, np.int32)
        used = _number_slots(width, b.group[f], b, kids, choices, number, slot[f], found, used)
        for s in range(before, used):
            c, g = kids + found.place[s] // width, column + found.place[s] % width
            stand_in = b.family_weight[c, f] == 0.0
            table[WEIGHT, s] = PROXIMAL_FAMILY if stand_in else b.family_weight[c, f] / one
            table[MARGIN, s] = 0.0 if stand_in else b.margin[c, g] - found.decided[s]
            table[LOW, s], table[HIGH, s], table[STAND_IN, s] = -np.inf, np.inf, stand_in
        if bounded[f]:
            status = max(status, _bound_slots(p, b.bound_start[f], width, b, number, found))
    if joint:
        used, met = _joint_slots(p, b, choices, slot[n_families], found, used)
        status = max(status, met)
    weight, target, stand_ins = np.empty(n), np.empty(n), np.zeros(n)
    for v in range(n):
        own = b.weight[b.var_child[source[v]]] / one
        if own == 0.0:
            weight[v] = stand_ins[v] = soft
            target[v] = 0.0
        else:
            weight[v], target[v] = own, own * b.answer[source[v]]
    kept = _absorb(slot, table[:, :used], weight, target)
    merge(slot, table[:, :used], kept)
    who, where, slots = renumber(slot, table[:, :used], kept)
    total, start = b.total[choices.entry].astype(np.float64), choices.start.astype(np.uint64)
    return status, Free(
        source, start, total, weight, 1.0 / weight, target, stand_ins, who, where, slots, b.is_root
    )
