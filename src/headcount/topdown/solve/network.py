"""Controlled rounding as a network problem: greedy, then successive shortest paths on integers.

Hand-written because a general solver spends 50 times longer, most of it on building the model.

The network of one parent: an entry (a kept cell) sends what its floors leave over through its
variables into the children; inside a child the flow climbs the forest of bounded groups, each arc
of which carries the group's margin and holds its bounds, to a common top, or first to the total
that the child has together with others.

    entry i --y[i, c], cost--> smallest bounded group of cell i in child c --> ... --> top

The greedy answer takes the cheapest steps of each entry. It is optimal for the network without
bounds, and cell thresholds are potentials that prove it; clipping the margins to their bounds
keeps the proof and leaves excesses and shortages, which shortest paths then cancel
(Ahuja, Magnanti and Orlin 1993, Network Flows, sections 9.7 and 11).

Rounding to rounded targets has the same network. Every group of the pass's queries has an arc with
two slopes,

    cost of its margin m = K |m - aim|,   aim = sum of floors + round half even (sum of fractions)

and every variable the cost of its own distance, plus its tie break (1 - 2 frac). K is larger than
all tie breaks of the parent together, so that they only choose among the nearest roundings.
"""

from __future__ import annotations

import numpy as np

from headcount.compiled import ZERO, kernel, njit
from headcount.topdown.solve._paths import FAR, Array, RoundingSteps, RoundingTree, repair
from headcount.topdown.solve.batch import BatchArrays, ChainForest, Nesting

SCALE = 2**30
"""A cost of 1: costs are integers, so that no path is preferred because of a float's last bit."""

WHOLE = 1e-6
"""A value this close to an integer is that integer: 2.9999999 has the floor 3."""

TIE = 2**20
"""A tie break of 1, in rounding to targets."""

GREEDY, REPAIRED, IMPOSSIBLE = 0, 1, 2


@kernel
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


@njit
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


@njit
def _climb(value: Array, y: Array, tree: RoundingTree) -> None:
    """Add whole parts and steps of all variables to the margins of the groups that hold them."""
    top = len(tree.up)
    for v in range(len(y)):
        t = tree.home[v]
        while t < top:
            tree.margin[t] += value[v] + y[v]
            t = tree.up[t]


@njit
def _out_of_bounds(tree: RoundingTree) -> bool:
    """Whether some group is not where it may or should be."""
    out = False
    for k in range(len(tree.margin)):
        out = out or tree.margin[k] < tree.floor[k] or tree.margin[k] > tree.roof[k]
        out = out or (tree.price[k] > 0 and tree.margin[k] != tree.aim[k])
    return out


@njit
def _plant(
    p: int, b: BatchArrays, above: Array, leaf: Array, column: Array, low: Array, high: Array
) -> RoundingTree:
    """The variables of parent p and its forest, with margins of 0 and no aims.

    A group in which a child can have nobody, and need not have anybody, is left out unless a bound
    is below 0.

    where
        above, leaf   the forest of groups of cells, the same in every child; the smallest group
                      of each of the parent's entries
        column        of each group in low and high (children of the batch, columns); -1 for none
    """
    e0, e1 = b.cell_start[p], b.cell_start[p + 1]
    v0, v1 = b.var_start[e0], b.var_start[e1]
    kids, n_kids, nodes = b.child_start[p], b.child_start[p + 1] - b.child_start[p], len(above)
    number = np.full(n_kids * nodes, -1, np.int64)
    for e in range(e0, e1):
        for v in range(b.var_start[e], b.var_start[e + 1]):
            _need(b.var_child[v] - kids, leaf[e - e0] + ZERO, above, number)
    for t in range(nodes):
        for c in range(n_kids if column[t] >= 0 else 0):
            # Below 0 nobody can go either, but a search looks there, and so chooses among ties.
            if low[kids + c, column[t]] != 0 or high[kids + c, column[t]] < 0:
                _need(c, t, above, number)
    needed = np.flatnonzero(number == 0)
    for k in range(len(needed)):
        number[needed[k]] = k
    root, groups = _joint_roots(p, b, len(needed))
    kind = np.full(groups, -1, np.int64)
    up, floor = np.full(groups, groups, np.int64), np.full(groups, -FAR)
    roof = np.full(groups, FAR)
    for k in range(len(needed)):
        c, t = needed[k] // nodes, needed[k] % nodes
        kind[k] = t
        if above[t] >= 0:
            up[k] = number[c * nodes + above[t]]
        elif root[c] >= 0:
            up[k] = root[c]
        if column[t] >= 0:
            floor[k], roof[k] = low[kids + c, column[t]], high[kids + c, column[t]]
    for c in range(n_kids):
        if root[c] >= 0:
            floor[root[c]] = roof[root[c]] = b.joint_total[b.joint[kids + c]]
    entry, home = np.empty(v1 - v0, np.int64), np.empty(v1 - v0, np.int64)
    for e in range(e0, e1):
        for v in range(b.var_start[e], b.var_start[e + 1]):
            c = b.var_child[v] - kids
            entry[v - v0] = e - e0
            if leaf[e - e0] >= 0:
                home[v - v0] = number[c * nodes + leaf[e - e0]]
            else:
                home[v - v0] = root[c] if root[c] >= 0 else groups
    start, none = b.var_start[e0 : e1 + 1] - v0, np.zeros(groups, np.int64)
    return RoundingTree(
        e0, e1, v0, v1, start, entry, home, kind, up, none.copy(), floor, roof, none.copy(), none
    )


@njit
def _need(child: int, t: int, above: Array, number: Array) -> None:
    """Mark a group of a child, and all that hold it, with 0."""
    while t >= 0 and number[child * len(above) + t] < 0:
        number[child * len(above) + t] = 0
        t = above[t]


@njit
def _joint_roots(p: int, b: BatchArrays, groups: int) -> tuple[Array, int]:
    """For each child the total that it has together with others, from ``groups`` on; the end.

    -1 for a child without one.
    """
    kids, n_kids = b.child_start[p], b.child_start[p + 1] - b.child_start[p]
    root = np.full(n_kids, -1, np.int64)
    for c in range(n_kids if len(b.joint) else 0):
        if b.joint[kids + c] < 0:
            continue
        for other in range(c):
            if b.joint[kids + other] == b.joint[kids + c]:
                root[c] = root[other]
                break
        if root[c] < 0:
            root[c] = groups
            groups += 1
    return root, groups


@kernel(work=lambda parents, b, *_: 20 * b.variables(parents))
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
        leaf = forest.leaf[b.cell[b.cell_start[p] : b.cell_start[p + 1]]]
        tree = _plant(p, b, forest.above, leaf, forest.column, b.low, b.high)
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


@kernel(work=lambda parents, b, *_: 20 * b.variables(parents))
def can_share(parents: Array, b: BatchArrays, forest: Nesting, possible: Array) -> None:
    """Can each parent's counts be shared within the bounds of the forest at all: a flow test."""
    for p in parents:
        leaf = forest.leaf[b.cell[b.cell_start[p] : b.cell_start[p + 1]]]
        tree = _plant(p, b, forest.above, leaf, forest.column, b.low, b.high)
        e0, e1, v0, size = tree.e0, tree.e1, tree.v0, tree.v1 - tree.v0
        y = np.zeros(size, np.int64)
        most = np.empty(size, np.int64)
        possible[p] = True
        for e in range(e0, e1):
            i, j = b.var_start[e] - v0, b.var_start[e + 1] - v0
            most[i:j] = FAR if b.is_root else b.total[e]
            if b.is_root:
                continue
            left = _hand_out(b.total[e], y[i:j], tree.home[i:j], tree)
            if left > 0 and i == j:
                possible[p] = False
            elif left > 0:
                y[i] += left
                t = tree.home[i]
                while t < len(tree.up):
                    tree.margin[t] += left
                    t = tree.up[t]
        if possible[p] and _out_of_bounds(tree):
            none = np.zeros(size, np.int64)
            steps = RoundingSteps(y, none, most, none, 0)
            possible[p] = repair(steps, tree, np.zeros(e1 - e0, np.int64), b.is_root) >= 0


@njit
def _hand_out(left: int, y: Array, home: Array, tree: RoundingTree) -> int:
    """Give one entry's count first to groups below their bound, then where there is room."""
    up, margin, floor, roof, top = tree.up, tree.margin, tree.floor, tree.roof, len(tree.up)
    for need in (True, False):
        for j in range(len(y)):
            if left == 0:
                return 0
            give = left
            t = home[j]
            if need:
                give = 0
                while t < top:
                    give = max(give, floor[t] - margin[t])
                    t = up[t]
                give = min(give, left)
                t = home[j]
            while t < top:
                give = min(give, roof[t] - margin[t])
                t = up[t]
            if give > 0:
                y[j] += give
                left -= give
                t = home[j]
                while t < top:
                    margin[t] += give
                    t = up[t]
    return left


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
    tree = _plant(p, b, above, leaf, forest.column[groups], forest.low, forest.high)
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

    As ``_greedy``, for costs of any size.
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
        _climb(whole, y, tree)
        status[p] = GREEDY
        if _out_of_bounds(tree):
            steps = RoundingSteps(y, least, most, cost, scale)
            repairs[p] = repair(steps, tree, potential, b.is_root)
            status[p] = REPAIRED if repairs[p] >= 0 else IMPOSSIBLE
        if status[p] != IMPOSSIBLE:
            for v in range(size):
                counts[v0 + v] = whole[v] + y[v]
