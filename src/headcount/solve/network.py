"""Controlled rounding as a network problem: greedy, then successive shortest paths on integers.

Hand-written because a general solver spends 50 times longer, most of it on building the model.

The network of one parent: an entry (a kept cell) sends what its floors leave over through its
variables into the children; inside a child the flow climbs the forest of bounded groups, each arc
of which carries the group's margin and holds its bounds, to a common top.

    entry i --y[i, c], cost--> smallest bounded group of cell i in child c --> ... --> top

The greedy answer takes the cheapest steps of each entry. It is optimal for the network without
bounds, and cell thresholds are potentials that prove it; clipping the margins to their bounds
keeps the proof and leaves excesses and shortages, which shortest paths then cancel
(Ahuja, Magnanti and Orlin 1993, Network Flows, sections 9.7 and 11).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headcount.compiled import njit
from headcount.solve._nesting import Nesting
from headcount.solve._paths import FAR, Array, RoundingSteps, RoundingTree, repair
from headcount.solve.batch import BatchArrays

SCALE = 2**30
"""A cost of 1: costs are integers, so that no path is preferred because of a float's last bit."""

WHOLE = 1e-6
"""A value this close to an integer is that integer: 2.9999999 has the floor 3."""

GREEDY, REPAIRED, IMPOSSIBLE = 0, 1, 2


@njit(nogil=True, cache=True)
def split(x: Array, whole: Array, cost: Array) -> None:
    """Part x into floor and the cost (1 - 2 frac) of one more; only an integer costs SCALE."""
    for v in range(len(x)):
        nearest = np.rint(x[v])
        if abs(x[v] - nearest) <= WHOLE:
            whole[v] = np.int64(nearest)
            cost[v] = SCALE
        else:
            floor = np.floor(x[v])
            whole[v] = np.int64(floor)
            cost[v] = np.int64(np.rint((1.0 - 2.0 * (x[v] - floor)) * SCALE))


@njit(nogil=True, cache=True)
def _greedy(residual: int, cost: Array, y: Array, low: Array, high: Array, key: Array) -> int:
    """Take the cheapest steps of one entry; returns the cost of the dearest step, its threshold.

    y, a view of the entry's variables, is zero on entry. A residual that the ranges cannot take
    is left over: the caller compares the sums.
    """
    count = len(y)
    if residual > 0:
        for k in range(count):
            key[k] = ((cost[k] + SCALE) << 31) | k
        order = key[:count]
        order.sort()
        threshold = -SCALE
        for k in range(min(residual, count)):
            j = order[k] & (2**31 - 1)
            y[j] = 1
            threshold = cost[j]
        left = residual - min(residual, count)
        for j in range(count):
            more = min(left, high[j] - 1)
            if more > 0:
                y[j] += more
                left -= more
                threshold = SCALE
        return threshold
    left = -residual
    for j in range(count):
        less = min(left, -low[j])
        if less > 0:
            y[j] -= less
            left -= less
    if residual < 0:
        return -SCALE
    cheapest = SCALE
    for j in range(count):
        cheapest = min(cheapest, cost[j])
    return cheapest


@njit(nogil=True, cache=True)
def _climb(value: Array, y: Array, tree: RoundingTree) -> None:
    """Add whole parts and steps of all variables to the margins of the groups that hold them."""
    nodes = len(tree.above)
    for v in range(len(y)):
        t = tree.home[tree.entry[v]]
        while t >= 0:
            tree.margin[tree.child[v] * nodes + t] += value[v] + y[v]
            t = tree.above[t]


@njit(nogil=True, cache=True)
def _out_of_bounds(tree: RoundingTree) -> bool:
    out = False
    for k in range(len(tree.margin)):
        out = out or tree.margin[k] < tree.floor[k] or tree.margin[k] > tree.roof[k]
    return out


@njit(nogil=True, cache=True)
def _bounds(first: int, last: int, column: Array, low: Array, high: Array) -> Any:
    """Bounds of the forest's nodes, child by child, in one row."""
    nodes = len(column)
    floor = np.empty((last - first) * nodes, np.int64)
    roof = np.empty((last - first) * nodes, np.int64)
    for c in range(first, last):
        for t in range(nodes):
            floor[(c - first) * nodes + t] = low[c, column[t]]
            roof[(c - first) * nodes + t] = high[c, column[t]]
    return floor, roof


@njit(nogil=True, cache=True)
def _tree(p: int, b: BatchArrays, forest: Nesting) -> RoundingTree:
    """The variables of parent p, and its part of the forest with margins of 0."""
    e0, e1 = b.cell_start[p], b.cell_start[p + 1]
    v0, v1 = b.var_start[e0], b.var_start[e1]
    entry = np.empty(v1 - v0, np.int64)
    child = np.empty(v1 - v0, np.int64)
    for e in range(e0, e1):
        for v in range(b.var_start[e], b.var_start[e + 1]):
            entry[v - v0] = e - e0
            child[v - v0] = b.var_child[v] - b.child_start[p]
    start, home = b.var_start[e0 : e1 + 1] - v0, forest.leaf[b.cell[e0:e1]]
    floor, roof = _bounds(b.child_start[p], b.child_start[p + 1], forest.column, b.low, b.high)
    margin = np.zeros(len(floor), np.int64)
    return RoundingTree(
        e0, e1, v0, v1, start, entry, child, home, forest.above, margin, floor, roof
    )


@njit(nogil=True, cache=True)
def round_parents(
    parents: Array,
    b: BatchArrays,
    forest: Nesting,
    whole: Array,
    cost: Array,
    wide: int,
    counts: Array,
    status: Array,
    repairs: Array,
) -> None:
    """Round the given parents; fills counts, and status and repairs at the parents' places.

    A variable moves from its floor by y in {0, 1}, or {-1, 0, 1} if it is an integer already (a
    solver may leave it a hair below or above); ``wide`` more either way when that cannot be done.
    """
    for p in parents:
        tree = _tree(p, b, forest)
        e0, e1, v0, v1 = tree.e0, tree.e1, tree.v0, tree.v1
        base, price = whole[v0:v1], cost[v0:v1]
        size = v1 - v0
        y = np.zeros(size, np.int64)
        least = np.empty(size, np.int64)
        most = np.full(size, 1 + wide, np.int64)
        for v in range(size):
            least[v] = -min(base[v], wide + (1 if price[v] == SCALE else 0))
        potential = np.zeros(e1 - e0, np.int64)
        key = np.empty(b.child_start[p + 1] - b.child_start[p], np.int64)
        possible = True
        for e in range(e0, e1):
            i, j = b.var_start[e] - v0, b.var_start[e + 1] - v0
            if b.is_root:
                for v in range(i, j):
                    y[v] = 1 if price[v] < 0 else 0
                continue
            residual = b.total[e] - base[i:j].sum()
            potential[e - e0] = -_greedy(residual, price[i:j], y[i:j], least[i:j], most[i:j], key)
            possible = possible and y[i:j].sum() == residual
        if not possible:
            status[p] = IMPOSSIBLE
            continue
        _climb(base, y, tree)
        status[p] = GREEDY
        if _out_of_bounds(tree):
            repairs[p] = repair(
                RoundingSteps(y, least, most, price, SCALE), tree, potential, b.is_root
            )
            status[p] = REPAIRED if repairs[p] >= 0 else IMPOSSIBLE
        if status[p] != IMPOSSIBLE:
            for v in range(size):
                counts[v0 + v] = base[v] + y[v]


@njit(nogil=True, cache=True)
def can_share(parents: Array, b: BatchArrays, forest: Nesting, possible: Array) -> None:
    """Can each parent's counts be shared within the bounds of the forest at all: a flow test."""
    for p in parents:
        tree = _tree(p, b, forest)
        e0, e1, v0, size = tree.e0, tree.e1, tree.v0, tree.v1 - tree.v0
        nodes = len(tree.above)
        y = np.zeros(size, np.int64)
        most = np.empty(size, np.int64)
        possible[p] = True
        for e in range(e0, e1):
            i, j = b.var_start[e] - v0, b.var_start[e + 1] - v0
            most[i:j] = FAR if b.is_root else b.total[e]
            if b.is_root:
                continue
            left = _hand_out(b.total[e], y[i:j], tree.child[i:j], tree.home[e - e0], tree)
            if left > 0 and i == j:
                possible[p] = False
            elif left > 0:
                y[i] += left
                t = tree.home[e - e0]
                while t >= 0:
                    tree.margin[tree.child[i] * nodes + t] += left
                    t = tree.above[t]
        if possible[p] and _out_of_bounds(tree):
            none = np.zeros(size, np.int64)
            steps = RoundingSteps(y, none, most, none, 0)
            possible[p] = repair(steps, tree, np.zeros(e1 - e0, np.int64), b.is_root) >= 0


@njit(nogil=True, cache=True)
def _hand_out(left: int, y: Array, child: Array, home: int, tree: RoundingTree) -> int:
    """Give one entry's count first to groups below their bound, then where there is room."""
    above, margin, floor, roof = tree.above, tree.margin, tree.floor, tree.roof
    nodes = len(above)
    for need in (True, False):
        for j in range(len(y)):
            if left == 0:
                return 0
            give = left
            t = home
            if need:
                give = 0
                while t >= 0:
                    give = max(give, floor[child[j] * nodes + t] - margin[child[j] * nodes + t])
                    t = above[t]
                give = min(give, left)
                t = home
            while t >= 0:
                give = min(give, roof[child[j] * nodes + t] - margin[child[j] * nodes + t])
                t = above[t]
            if give > 0:
                y[j] += give
                left -= give
                t = home
                while t >= 0:
                    margin[child[j] * nodes + t] += give
                    t = above[t]
    return left
