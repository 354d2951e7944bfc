"""Successive shortest paths in the network of one parent; see network.py. Loads numba."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headcount.compiled import njit

FAR = np.int64(2**62)

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


class _Work(NamedTuple):
    """What is known of each node, the heap of a search, and the nodes that it has seen."""

    excess: Array
    potential: Array
    distance: Array
    done: Array
    via: Array
    seen: Array
    heap_key: Array
    heap_node: Array


@njit(nogil=True, cache=True)
def _step(y: int, cost: int, scale: int) -> int:
    """Cost of going from y to y + 1: the L1 distance falls below the floor, rises above ceiling."""
    if y < 0:
        return -scale
    return cost if y == 0 else scale


@njit(nogil=True, cache=True)
def _lift(margin: int, aim: int, price: int) -> int:
    """Cost of one person more in a group: two parallel arcs, up to the aim and beyond it."""
    return -price if margin < aim else price


@njit(nogil=True, cache=True)
def _push(heap_key: Array, heap_node: Array, size: int, key: int, node: int) -> int:
    k = size
    while k > 0 and heap_key[(k - 1) >> 1] > key:
        heap_key[k] = heap_key[(k - 1) >> 1]
        heap_node[k] = heap_node[(k - 1) >> 1]
        k = (k - 1) >> 1
    heap_key[k] = key
    heap_node[k] = node
    return size + 1


@njit(nogil=True, cache=True)
def _pop(heap_key: Array, heap_node: Array, size: int) -> int:
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


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
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
    potential[top + 1 :] = threshold
    for k in range(groups):
        if tree.floor[k] > tree.roof[k]:
            return -1
        wanted = tree.aim[k] if tree.price[k] > 0 else margin[k]
        over = margin[k] - min(max(wanted, tree.floor[k]), tree.roof[k])
        margin[k] -= over
        excess[k] += over
        excess[up[k]] -= over
    longest = 2 * size + 2 * groups + 1
    work = _Work(
        excess,
        potential,
        np.full(count, FAR),
        np.zeros(count, np.bool_),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(longest, np.int64),
        np.empty(longest, np.int64),
    )
    paths = 0
    for s in range(count):
        while excess[s] > 0:
            end = _search(s, arcs, steps, tree, work)
            if end < 0:
                return -1
            _augment(s, end, arcs, steps, tree, work)
            paths += 1
    return paths


@njit(nogil=True, cache=True)
def _search(s: int, arcs: _Arcs, steps: RoundingSteps, tree: RoundingTree, work: _Work) -> int:
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
    found = -1
    # Written out four times: a call with this many arrays costs more than what it does.
    heap = _push(heap_key, heap_node, 0, 0, s)
    while heap > 0:
        d, u = heap_key[0], heap_node[0]
        heap = _pop(heap_key, heap_node, heap)
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
            for v in range(first, last):
                g = target[v]
                far = base + _step(y[v], cost[v], scale) - potential[g]
                if far < nearest and far < distance[g] and y[v] < most[v]:
                    if distance[g] == FAR:
                        seen[many] = g
                        many += 1
                    distance[g] = far
                    via[g] = v
                    heap = _push(heap_key, heap_node, heap, far, g)
                    if excess[g] < 0:
                        nearest = far
                    elif g < top and excess[up[g]] < 0 and margin[g] < roof[g]:
                        h = up[g]
                        far += _lift(margin[g], aim[g], price[g]) + potential[g] - potential[h]
                        if far < nearest and far < distance[h]:
                            if distance[h] == FAR:
                                seen[many] = h
                                many += 1
                            nearest = far
                            distance[h] = far
                            via[h] = 2 * size + g
                            heap = _push(heap_key, heap_node, heap, far, h)
        if u > top:
            continue
        for k in range(in_start[u], in_start[u + 1]):
            v = incoming[k]
            if y[v] > least[v]:
                i = source[v]
                far = base - _step(y[v] - 1, cost[v], scale) - potential[i]
                if far < nearest and far < distance[i]:
                    if distance[i] == FAR:
                        seen[many] = i
                        many += 1
                    distance[i] = far
                    via[i] = size + v
                    heap = _push(heap_key, heap_node, heap, far, i)
                    if excess[i] < 0:
                        nearest = far
        if u < top and margin[u] < roof[u]:
            g = up[u]
            far = base + _lift(margin[u], aim[u], price[u]) - potential[g]
            if far < nearest and far < distance[g]:
                if distance[g] == FAR:
                    seen[many] = g
                    many += 1
                distance[g] = far
                via[g] = 2 * size + u
                heap = _push(heap_key, heap_node, heap, far, g)
                if excess[g] < 0:
                    nearest = far
        for k in range(down_start[u], down_start[u + 1]):
            g = down[k]
            far = base - _lift(margin[g] - 1, aim[g], price[g]) - potential[g]
            if far < nearest and far < distance[g] and margin[g] > floor[g]:
                if distance[g] == FAR:
                    seen[many] = g
                    many += 1
                distance[g] = far
                via[g] = 2 * size + groups + g
                heap = _push(heap_key, heap_node, heap, far, g)
                if excess[g] < 0:
                    nearest = far
    for k in range(many):
        distance[seen[k]] = FAR
        done[seen[k]] = False
    return found


@njit(nogil=True, cache=True)
def _augment(
    s: int, end: int, arcs: _Arcs, steps: RoundingSteps, tree: RoundingTree, work: _Work
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
                room = most[a] - y[a] if scale == 0 else 1
                u = source[a]
                if send:
                    y[a] += amount
            elif a < 2 * size:
                a -= size
                room = y[a] - least[a] if scale == 0 else 1
                u = target[a]
                if send:
                    y[a] -= amount
            elif a < 2 * size + groups:
                a -= 2 * size
                room = roof[a] - margin[a] if price[a] == 0 else 1
                u = a
                if send:
                    margin[a] += amount
            else:
                a -= 2 * size + groups
                room = margin[a] - floor[a] if price[a] == 0 else 1
                u = up[a]
                if send:
                    margin[a] -= amount
            if not send:
                amount = min(amount, room)
    excess[s] -= amount
    excess[end] += amount
