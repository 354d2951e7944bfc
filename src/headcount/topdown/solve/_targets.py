"""Rounding to rounded targets in the network of one parent after another. Loads numba.

The network is that of network.py. Every group of the pass's queries has an arc with two slopes,

    cost of its margin m = K |m - aim|,   aim = sum of floors + round half even (sum of fractions)

and every variable the cost of its own distance, plus its tie break (1 - 2 frac). K is larger than
all tie breaks of the parent together, so that they only choose among the nearest roundings.
"""

from __future__ import annotations

import numpy as np

from headcount.compiled import kernel, njit
from headcount.topdown.solve._chain import ChainForest
from headcount.topdown.solve._paths import repair
from headcount.topdown.solve._residual import Array, RoundingSteps, RoundingTree
from headcount.topdown.solve.batch import BatchArrays
from headcount.topdown.solve.network import (
    GREEDY,
    IMPOSSIBLE,
    REPAIRED,
    climb,
    out_of_bounds,
    plant,
)

TIE = 2**20
"""A tie break of 1."""


@njit
def _used_groups(p: int, b: BatchArrays, forest: ChainForest, number: Array) -> Array:
    """The groups that hold an entry of parent p, holders first; number[group] is their place."""
    found = np.empty(len(forest.above), np.int64)
    many = 0
    for e in range(b.cell_start[p], b.cell_start[p + 1]):
        t = forest.leaf[b.cell[e]]
        while t >= 0 and number[t] < 0:
            number[t] = 0
            found[many] = t
            many += 1
            t = forest.above[t]
    found = np.sort(found[:many])
    for k in range(many):
        number[found[k]] = k
    return found


@njit
def _kept_groups(
    p: int, b: BatchArrays, forest: ChainForest, number: Array, fold: bool
) -> tuple[Array, Array]:
    """The groups of parent p that need a node, holders first, and how many queries have each.

    With ``fold`` a group without bounds needs none if it holds one entry, or all of it is one
    group with a node: its distance is theirs and counts there. number[group] is a group's place.
    """
    used = _used_groups(p, b, forest, number)
    above, entries = np.full(len(used), -1, np.int64), np.zeros(len(used), np.int64)
    for k in range(len(used)):
        if forest.above[used[k]] >= 0:
            above[k] = number[forest.above[used[k]]]
    for e in range(b.cell_start[p], b.cell_start[p + 1]):
        k = number[forest.leaf[b.cell[e]]] if forest.leaf[b.cell[e]] >= 0 else -1
        while k >= 0:
            entries[k] += 1
            k = above[k]
    kept, queries = np.zeros(len(used), np.bool_), forest.queries[used]
    for k in range(len(used) - 1, -1, -1):
        kept[k] = kept[k] or not fold or entries[k] > 1 or forest.column[used[k]] >= 0
        if kept[k] and above[k] >= 0:
            kept[above[k]] = True
    for k in range(len(used) if fold else 0):
        h = above[k]
        if kept[k] and h >= 0 and entries[h] == entries[k] and forest.column[used[h]] < 0:
            kept[h] = False
            queries[k] += queries[h]
    number[used] = -1
    groups = used[kept]
    for k in range(len(groups)):
        number[groups[k]] = k
    return groups, queries[kept]


@njit
def _forest_of(
    p: int, b: BatchArrays, forest: ChainForest, number: Array, fold: bool
) -> tuple[Array, Array, Array, RoundingTree]:
    """The groups that parent p needs and their queries, how often entries count, and the tree.

    ``number`` is left as it was: -1.
    """
    groups, queries = _kept_groups(p, b, forest, number, fold)
    e0, e1 = b.cell_start[p], b.cell_start[p + 1]
    times, leaf = np.full(e1 - e0, forest.by_cell, np.int64), np.full(e1 - e0, -1, np.int64)
    for e in range(e0, e1):
        t = forest.leaf[b.cell[e]]
        while t >= 0 and number[t] < 0:
            times[e - e0] += forest.queries[t]
            t = forest.above[t]
        if t >= 0:
            leaf[e - e0] = number[t]
    above = np.full(len(groups), -1, np.int64)
    for k in range(len(groups)):
        t = forest.above[groups[k]]
        while t >= 0 and number[t] < 0:
            t = forest.above[t]
        if t >= 0:
            above[k] = number[t]
    number[groups] = -1
    tree = plant(p, b, above, leaf, forest.column[groups], forest.low, forest.high)
    return groups, queries, times, tree


@njit
def _empty_groups_allowed(p: int, b: BatchArrays, forest: ChainForest, groups: Array) -> bool:
    """Whether no group without a cell of this parent must have somebody."""
    seen = np.zeros(forest.low.shape[1], np.bool_)
    for k in range(len(groups)):
        if forest.column[groups[k]] >= 0:
            seen[forest.column[groups[k]]] = True
    for c in range(b.child_start[p], b.child_start[p + 1]):
        for s in range(len(seen)):
            if not seen[s] and (forest.low[c, s] > 0 or forest.high[c, s] < 0):
                return False
    return True


@njit
def _set_aims(tree: RoundingTree, queries: Array, dear: int, whole: Array, part: Array) -> None:
    """The target of each group in the pass, and its price."""
    top = len(tree.up)
    floors, parts = np.zeros(top, np.int64), np.zeros(top)
    for v in range(len(whole)):
        t = tree.home[v]
        while t < top:
            floors[t] += whole[v]
            parts[t] += part[v]
            t = tree.up[t]
    for k in range(top):
        if tree.kind[k] >= 0 and queries[tree.kind[k]] > 0:
            tree.price[k] = dear * queries[tree.kind[k]]
            tree.aim[k] = floors[k] + np.int64(np.rint(parts[k]))


@njit
def _in_order(cost: Array) -> Array:
    """Positions from the least cost to the largest, of equal ones the first first."""
    if len(cost) > 50:
        return np.argsort(cost, kind="mergesort")
    order = np.empty(len(cost), np.int64)
    for k in range(len(cost)):
        i = k
        while i > 0 and cost[order[i - 1]] > cost[k]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = k
    return order


@njit
def _cheapest(residual: int, cost: Array, scale: int, y: Array, least: Array, most: Array) -> int:
    """Take the cheapest steps of one entry; its threshold, between those taken and the next.

    As the greedy start of network.py, for costs of any size.
    """
    if residual < 0:
        left = -residual
        for j in range(len(y)):
            less = min(left, -least[j])
            y[j] -= less
            left -= less
        return -scale
    order = _in_order(cost)
    taken = min(residual, len(y))
    for k in range(taken):
        y[order[k]] = 1
    left = residual - taken
    for j in range(len(y)):
        more = min(left, most[j] - 1)
        if more > 0:
            y[j] += more
            left -= more
    if residual > taken:
        return scale
    below = cost[order[taken - 1]] if taken > 0 else -scale
    return (below + (cost[order[taken]] if taken < len(y) else scale)) // 2


@kernel(work=lambda parents, b, *_: 100 * b.variables(parents))
def round_to_targets(
    parents: Array,
    b: BatchArrays,
    forest: ChainForest,
    x: Array,
    wide: int,
    counts: Array,
    status: Array,
    repairs: Array,
) -> None:
    """Round the given parents; fills counts, and status and repairs at the parents' places.

    A variable moves from its floor by y in {0, 1}; ``wide`` more either way if that is too little.
    """
    number = np.full(len(forest.above), -1, np.int64)
    for p in parents:
        groups, queries, times, tree = _forest_of(p, b, forest, number, wide == 0)
        e0, e1, v0, v1 = tree.e0, tree.e1, tree.v0, tree.v1
        size = v1 - v0
        dear = 4 * TIE * (size + 1)
        scale = (times.max() if len(times) else 0) * dear + TIE
        whole, part = np.empty(size, np.int64), np.empty(size)
        cost, y, least = (
            np.empty(size, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size, np.int64),
        )
        most = np.full(size, 1 + wide, np.int64)
        for v in range(size):
            whole[v] = np.int64(np.floor(x[v0 + v]))
            part[v] = x[v0 + v] - whole[v]
            own = dear if np.rint(part[v]) == 0.0 else -dear
            cost[v] = times[tree.entry[v]] * own + np.int64(np.rint((1.0 - 2.0 * part[v]) * TIE))
            least[v] = -min(whole[v], wide)
        potential = np.zeros(e1 - e0, np.int64)
        possible = _empty_groups_allowed(p, b, forest, groups)
        for e in range(e0, e1):
            i, j = b.var_start[e] - v0, b.var_start[e + 1] - v0
            if b.is_root:
                for v in range(i, j):
                    y[v] = 1 if cost[v] < 0 else 0
                continue
            rest = b.total[e] - whole[i:j].sum()
            threshold = _cheapest(rest, cost[i:j], scale, y[i:j], least[i:j], most[i:j])
            potential[e - e0] = -threshold
            possible = possible and y[i:j].sum() == rest
        status[p] = IMPOSSIBLE
        if not possible:
            continue
        _set_aims(tree, queries, dear, whole, part)
        climb(whole, y, tree)
        status[p] = GREEDY
        if out_of_bounds(tree):
            steps = RoundingSteps(y, least, most, cost, scale)
            repairs[p] = repair(steps, tree, potential, b.is_root)
            status[p] = REPAIRED if repairs[p] >= 0 else IMPOSSIBLE
        if status[p] != IMPOSSIBLE:
            for v in range(size):
                counts[v0 + v] = whole[v] + y[v]
