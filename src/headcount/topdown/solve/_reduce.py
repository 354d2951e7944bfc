"""Slots that need no price of their own: one variable's, and the same variables' twice. Numba.

Most children have no group quarters. There a cell of the marginal over everything but the type is
one variable, and the total is the same sum as the households: without these the problem is many
times smaller and far better conditioned.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats
from headcount.compiled import njit

# The rows of a table of slots (a slot is a group of a family in one child): the slot's weight and
# noisy answer, its bounds, whether the weight only stands in for 0, its number of variables.
WEIGHT, MARGIN, LOW, HIGH, STAND_IN, COUNT = 0, 1, 2, 3, 4, 5

Slots = NDArray[np.uint32]


@njit
def absorb(slot: Slots, table: Floats, weight: Floats, target: Floats) -> Flags:
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
