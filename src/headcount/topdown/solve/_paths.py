"""Min-cost flow by successive shortest paths, in the network of one parent; see network.py.

Arcs have capacities, and costs that rise with the flow; a path is found by Dijkstra's algorithm on
costs reduced by potentials (Ahuja, Magnanti and Orlin 1993, Network Flows, section 9.7).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headcount.compiled import ZERO, inlined, njit

FAR = np.int64(2**62)
PATIENCE = 6
"""Arcs that searches look at, for each there is, until potentials are set anew.

It takes part in which of several equally good roundings is found.
"""

Array = Any  # numba compiles for the dtypes that batch.py names; annotations would not be read


class RoundingSteps(NamedTuple):
    """The steps y of a parent's variables, how far each may go, and what one upward costs.

    With ``scale`` 0 all steps are free and of any length.
    """

    y: Array
    least: Array
    most: Array
    cost: Array
    scale: int


class RoundingTree(NamedTuple):
    """A parent's variables and the forest of groups that they flow through.

    Nodes are the groups child by child, then the totals of several children together, then the
    top, whose number is the number of groups.

    where
        e0, e1, v0, v1        its entries and variables in the batch
        start, entry          where each entry's variables begin; the entry of each variable
        home, up              the smallest group that holds each variable; the next above each group
        kind                  each group's number in the forest of groups of cells, -1 for totals
                              of several children
        margin, floor, roof   sums and bounds of the groups
        aim, price            the sum that a group should have, and what one person away costs
    """

    e0: int
    e1: int
    v0: int
    v1: int
    start: Array
    entry: Array
    home: Array
    kind: Array
    up: Array
    margin: Array
    floor: Array
    roof: Array
    aim: Array
    price: Array


class _Arcs(NamedTuple):
    """The network: ends of the variables' arcs, and groups by what they hang from."""

    top: int
    is_root: bool
    start: Array
    source: Array
    target: Array
    in_start: Array
    incoming: Array
    up: Array
    down_start: Array
    down: Array


class _Search(NamedTuple):
    """What is known of each node, the heap of a search, and the nodes that it has seen."""

    excess: Array
    potential: Array
    distance: Array
    done: Array
    via: Array
    seen: Array
    heap_key: Array
    heap_node: Array


@njit
def step(y: int, cost: int, scale: int) -> int:
    """Cost of going from y to y + 1: the L1 distance falls below the floor, rises above ceiling."""
    if y < 0:
        return -scale
    return cost if y == 0 else scale


@njit
def lift(margin: int, aim: int, price: int) -> int:
    """Cost of one person more in a group: two parallel arcs, up to the aim and beyond it."""
    return -price if margin < aim else price


@njit
def push(heap_key: Array, heap_node: Array, size: int, key: int, node: int) -> int:
    k = size
    while k > 0 and heap_key[(k - 1) >> 1] > key:
        heap_key[k] = heap_key[(k - 1) >> 1]
        heap_node[k] = heap_node[(k - 1) >> 1]
        k = (k - 1) >> 1
    heap_key[k] = key
    heap_node[k] = node
    return size + 1


@njit
def pop(heap_key: Array, heap_node: Array, size: int) -> int:
    """Remove the first of the heap, which the caller has read."""
    size -= 1
    key, node = heap_key[size], heap_node[size]
    k = 0
    while True:
        c = 2 * k + 1
        if c >= size:
            break
        if c + 1 < size and heap_key[c + 1] < heap_key[c]:
            c += 1
        if heap_key[c] >= key:
            break
        heap_key[k] = heap_key[c]
        heap_node[k] = heap_node[c]
        k = c
    heap_key[k] = key
    heap_node[k] = node
    return size


@inlined
def _relax(node: int, far: int, work: _Search, many: int, heap: int) -> tuple[int, int]:
    """Note a nearer way to a node; how many nodes were seen, and the size of the heap.

    Put into the searches: a call with this many arrays would cost more than what it does.
    """
    if work.distance[node] == FAR:
        work.seen[many] = node
        many += 1
    work.distance[node] = far
    return many, push(work.heap_key, work.heap_node, heap, far, node)


@njit
def _by_target(count: int, target: Array) -> Any:
    """Indices grouped by target 0 ... count - 1, as starts and a list."""
    start = np.zeros(count + 1, np.int64)
    for v in range(len(target)):
        start[target[v] + 1] += 1
    for k in range(count):
        start[k + 1] += start[k]
    fill = start[:count].copy()
    order = np.empty(len(target), np.int64)
    for v in range(len(target)):
        order[fill[target[v]]] = v
        fill[target[v]] += 1
    return start, order


@njit
def _first_potentials(
    arcs: _Arcs, steps: RoundingSteps, tree: RoundingTree, excess: Array, potential: Array
) -> bool:
    """Move groups to their aims, or into their bounds; whether bounds leave anything to choose.

    A group stays away from its aim where potentials prove that nothing is nearer. From the
    smallest groups up, [low, high] is where a group's potential may be, given its variables and
    the groups within it; 0 is always in it. The potentials are then chosen from the top down.
    """
    groups, up, margin, aim, price = len(arcs.up), arcs.up, tree.margin, tree.aim, tree.price
    low, high = np.full(groups + 1, -FAR), np.full(groups + 1, FAR)
    for v in range(len(steps.y)):
        g, y, of = arcs.target[v], steps.y[v], potential[arcs.source[v]]
        if y > steps.least[v]:
            low[g] = max(low[g], of + step(y - 1, steps.cost[v], steps.scale))
        if y < steps.most[v]:
            high[g] = min(high[g], of + step(y, steps.cost[v], steps.scale))
    for k in range(groups - 1, -1, -1):
        floor, roof = tree.floor[k], tree.roof[k]
        if floor > roof:
            return False
        least = low[k] + lift(margin[k] - 1, aim[k], price[k]) if margin[k] > floor else -FAR
        most = high[k] + lift(margin[k], aim[k], price[k]) if margin[k] < roof else FAR
        if least > 0 or most < 0 or margin[k] < floor or margin[k] > roof:
            wanted = aim[k] if price[k] > 0 else margin[k]
            over = margin[k] - min(max(wanted, floor), roof)
            margin[k] -= over
            excess[k] += over
            excess[up[k]] -= over
            least = low[k] + lift(margin[k] - 1, aim[k], price[k]) if margin[k] > floor else -FAR
            most = high[k] + lift(margin[k], aim[k], price[k]) if margin[k] < roof else FAR
        low[up[k]], high[up[k]] = max(low[up[k]], least), min(high[up[k]], most)
    for k in range(groups):
        least, most = low[k], high[k]
        if margin[k] < tree.roof[k]:
            least = max(least, potential[up[k]] - lift(margin[k], aim[k], price[k]))
        if margin[k] > tree.floor[k]:
            most = min(most, potential[up[k]] - lift(margin[k] - 1, aim[k], price[k]))
        potential[k] = min(max(0, least), most)
    return True


@njit
def _lower_potentials(arcs: _Arcs, steps: RoundingSteps, tree: RoundingTree, work: _Search) -> None:
    """Lower potentials by how far each node is from the nearest shortage.

    Dijkstra on reduced costs from all shortages, against the arcs, until all excesses are reached.
    Potentials less distances are potentials as well (Ahuja, Magnanti and Orlin, section 9.3), and
    an excess has then a shortest path of length 0: a search finds it without looking around, unless
    others have taken its shortage.
    """
    top, is_root, start, source, target, in_start, incoming, up, down_start, down = arcs
    y, least, most, cost, scale = steps
    margin, floor, roof, size = tree.margin, tree.floor, tree.roof, len(y)
    aim, price = tree.aim, tree.price
    excess, potential, distance, done, _, seen, heap_key, heap_node = work
    count = len(excess)
    heap, many, waiting, reach = ZERO, 0, 0, ZERO
    for u in range(count):
        if excess[u] < 0:
            distance[u] = 0
            seen[many] = u
            many += 1
            heap = push(heap_key, heap_node, heap, ZERO, u)
        elif excess[u] > 0:
            waiting += 1
    while heap > 0 and waiting > 0:
        h, u = heap_key[0], heap_node[0]
        heap = pop(heap_key, heap_node, heap)
        if done[u]:
            continue
        done[u] = True
        reach = h
        if excess[u] > 0:
            waiting -= 1
        base = h - potential[u]
        if u > top or (is_root and u == top):
            first = start[u - top - 1] if u > top else 0
            last = start[u - top] if u > top else size
            for v in range(first, last):
                g = target[v]
                if y[v] > least[v]:
                    far = base - step(y[v] - 1, cost[v], scale) + potential[g]
                    if far < distance[g]:
                        many, heap = _relax(g, far, work, many, heap)
        if u > top:
            continue
        for k in range(in_start[u], in_start[u + 1]):
            v = incoming[k]
            i = source[v]
            if y[v] < most[v]:
                far = base + step(y[v], cost[v], scale) + potential[i]
                if far < distance[i]:
                    many, heap = _relax(i, far, work, many, heap)
        if u < top and margin[u] > floor[u]:
            g = up[u]
            far = base - lift(margin[u] - 1, aim[u], price[u]) + potential[g]
            if far < distance[g]:
                many, heap = _relax(g, far, work, many, heap)
        for k in range(down_start[u], down_start[u + 1]):
            g = down[k]
            if margin[g] < roof[g]:
                far = base + lift(margin[g], aim[g], price[g]) + potential[g]
                if far < distance[g]:
                    many, heap = _relax(g, far, work, many, heap)
    for k in range(many):
        u = seen[k]
        if done[u]:
            potential[u] += reach - distance[u]
        distance[u] = FAR
        done[u] = False


@njit
def repair(steps: RoundingSteps, tree: RoundingTree, threshold: Array, is_root: bool) -> int:
    """Bring all margins within their bounds at least cost; returns the number of paths, or -1.

    Nodes: the groups of the forest, then the top, then the entries. At the root there are no sums
    to keep, so that the entries are one with the top. With ``scale`` 0 the search is a plain flow
    test.
    """
    margin, up, target, entry = tree.margin, tree.up, tree.home, tree.entry
    groups, entries = len(margin), len(tree.start) - 1
    top = groups
    size = len(steps.y)
    source = np.empty(size, np.int64)
    for v in range(size):
        source[v] = top if is_root else top + 1 + entry[v]
    in_start, incoming = _by_target(top + 1, target)
    down_start, down = _by_target(top + 1, up)
    arcs = _Arcs(top, is_root, tree.start, source, target, in_start, incoming, up, down_start, down)
    count = top + 1 + entries
    excess = np.zeros(count, np.int64)
    potential = np.zeros(count, np.int64)
    for e in range(entries):
        potential[top + 1 + e] = threshold[e]
    if not _first_potentials(arcs, steps, tree, excess, potential):
        return -1
    longest = 2 * size + 2 * groups + 1 + count
    work = _Search(
        excess,
        potential,
        np.full(count, FAR),
        np.zeros(count, np.bool_),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(longest, np.int64),
        np.empty(longest, np.int64),
    )
    paths, patience, aimed = 0, PATIENCE * (size + count), tree.price.any()
    left = patience
    for s in range(count):
        while excess[s] > 0:
            if aimed and left < 0:
                _lower_potentials(arcs, steps, tree, work)
                left = patience
            end, looked = _search(s, arcs, steps, tree, work)
            if end < 0:
                return -1
            left -= looked
            _augment(s, end, arcs, steps, tree, work)
            paths += 1
    return paths


@njit
def _search(
    s: int, arcs: _Arcs, steps: RoundingSteps, tree: RoundingTree, work: _Search
) -> tuple[int, int]:
    """Dijkstra on reduced costs from s to the nearest shortage, potentials updated; -1 if none.

    What is no nearer than a shortage already seen is not followed. Most shortages lie one arc
    above a group, so that arc is looked at together with the group: a third of the time.
    via[node] says how the node was reached: variable v forward is v, backward is size + v; the
    arc of group k upward is 2 size + k, downward 2 size + groups + k.
    """
    top, is_root, start, source, target, in_start, incoming, up, down_start, down = arcs
    y, least, most, cost, scale = steps
    margin, floor, roof, size = tree.margin, tree.floor, tree.roof, len(y)
    aim, price = tree.aim, tree.price
    excess, potential, distance, done, via, seen, heap_key, heap_node = work
    groups = len(up)
    distance[s] = 0
    seen[0] = s
    many = 1
    nearest = FAR
    found, looked = -1, 0
    heap = push(heap_key, heap_node, ZERO, ZERO, s)
    while heap > 0:
        d, u = heap_key[0], heap_node[0]
        heap = pop(heap_key, heap_node, heap)
        if done[u]:
            continue
        done[u] = True
        if excess[u] < 0:
            for k in range(many):
                if done[seen[k]]:
                    potential[seen[k]] += distance[seen[k]] - d
            found = int(u)
            break
        base = d + potential[u]
        if u > top or (is_root and u == top):
            first = start[u - top - 1] if u > top else 0
            last = start[u - top] if u > top else size
            looked += last - first
            for v in range(first, last):
                g = target[v]
                far = base + step(y[v], cost[v], scale) - potential[g]
                if far < nearest and far < distance[g] and y[v] < most[v]:
                    via[g] = v
                    many, heap = _relax(g, far, work, many, heap)
                    if excess[g] < 0:
                        nearest = far
                    elif g < top and excess[up[g]] < 0 and margin[g] < roof[g]:
                        h = up[g]
                        far += lift(margin[g], aim[g], price[g]) + potential[g] - potential[h]
                        if far < nearest and far < distance[h]:
                            nearest = far
                            via[h] = 2 * size + g
                            many, heap = _relax(h, far, work, many, heap)
        if u > top:
            continue
        looked += 4 + in_start[u + 1] - in_start[u] + down_start[u + 1] - down_start[u]
        for k in range(in_start[u], in_start[u + 1]):
            v = incoming[k]
            if y[v] > least[v]:
                i = source[v]
                far = base - step(y[v] - 1, cost[v], scale) - potential[i]
                if far < nearest and far < distance[i]:
                    via[i] = size + v
                    many, heap = _relax(i, far, work, many, heap)
                    if excess[i] < 0:
                        nearest = far
        if u < top and margin[u] < roof[u]:
            g = up[u]
            far = base + lift(margin[u], aim[u], price[u]) - potential[g]
            if far < nearest and far < distance[g]:
                via[g] = 2 * size + u
                many, heap = _relax(g, far, work, many, heap)
                if excess[g] < 0:
                    nearest = far
        for k in range(down_start[u], down_start[u + 1]):
            g = down[k]
            far = base - lift(margin[g] - 1, aim[g], price[g]) - potential[g]
            if far < nearest and far < distance[g] and margin[g] > floor[g]:
                via[g] = 2 * size + groups + g
                many, heap = _relax(g, far, work, many, heap)
                if excess[g] < 0:
                    nearest = far
    for k in range(many):
        distance[seen[k]] = FAR
        done[seen[k]] = False
    return found, looked


@njit
def _augment(
    s: int, end: int, arcs: _Arcs, steps: RoundingSteps, tree: RoundingTree, work: _Search
) -> None:
    """Send as much as fits along the path in ``via``, one person where anything is priced."""
    y, least, most, _, scale = steps
    source, target, up = arcs.source, arcs.target, arcs.up
    margin, floor, roof, size = tree.margin, tree.floor, tree.roof, len(y)
    excess, via, price = work.excess, work.via, tree.price
    groups = len(up)
    amount = min(excess[s], -excess[end])
    for send in (False, True):
        u = end
        while u != s:
            a = via[u]
            if a < size:
                capacity = most[a] - y[a] if scale == 0 else 1
                u = source[a]
                if send:
                    y[a] += amount
            elif a < 2 * size:
                a -= size
                capacity = y[a] - least[a] if scale == 0 else 1
                u = target[a]
                if send:
                    y[a] -= amount
            elif a < 2 * size + groups:
                a -= 2 * size
                capacity = roof[a] - margin[a] if price[a] == 0 else 1
                u = a
                if send:
                    margin[a] += amount
            else:
                a -= 2 * size + groups
                capacity = margin[a] - floor[a] if price[a] == 0 else 1
                u = up[a]
                if send:
                    margin[a] -= amount
            if not send:
                amount = min(amount, capacity)
    excess[s] -= amount
    excess[end] += amount
