"""Successive shortest paths in the network of one parent; see network.py. Loads numba."""

from __future__ import annotations

import numpy as np

from headcount.compiled import ZERO, njit
from headcount.topdown.solve._potentials import look_back, settle
from headcount.topdown.solve._residual import (
    FAR,
    Arcs,
    Array,
    RoundingSteps,
    RoundingTree,
    Search,
    by_target,
    lift,
    pop,
    push,
    step,
)

PATIENCE = 6
"""Arcs that searches look at, for each there is, until potentials are set anew.

It takes part in which of several equally good roundings is found.
"""


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
    in_start, incoming = by_target(top + 1, target)
    down_start, down = by_target(top + 1, up)
    arcs = Arcs(top, is_root, tree.start, source, target, in_start, incoming, up, down_start, down)
    count = top + 1 + entries
    excess = np.zeros(count, np.int64)
    potential = np.zeros(count, np.int64)
    for e in range(entries):
        potential[top + 1 + e] = threshold[e]
    if not settle(arcs, steps, tree, excess, potential):
        return -1
    longest = 2 * size + 2 * groups + 1 + count
    work = Search(
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
                look_back(arcs, steps, tree, work)
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
    s: int, arcs: Arcs, steps: RoundingSteps, tree: RoundingTree, work: Search
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
    # Written out four times: a call with this many arrays costs more than what it does.
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
                    if distance[g] == FAR:
                        seen[many] = g
                        many += 1
                    distance[g] = far
                    via[g] = v
                    heap = push(heap_key, heap_node, heap, far, g)
                    if excess[g] < 0:
                        nearest = far
                    elif g < top and excess[up[g]] < 0 and margin[g] < roof[g]:
                        h = up[g]
                        far += lift(margin[g], aim[g], price[g]) + potential[g] - potential[h]
                        if far < nearest and far < distance[h]:
                            if distance[h] == FAR:
                                seen[many] = h
                                many += 1
                            nearest = far
                            distance[h] = far
                            via[h] = 2 * size + g
                            heap = push(heap_key, heap_node, heap, far, h)
        if u > top:
            continue
        looked += 4 + in_start[u + 1] - in_start[u] + down_start[u + 1] - down_start[u]
        for k in range(in_start[u], in_start[u + 1]):
            v = incoming[k]
            if y[v] > least[v]:
                i = source[v]
                far = base - step(y[v] - 1, cost[v], scale) - potential[i]
                if far < nearest and far < distance[i]:
                    if distance[i] == FAR:
                        seen[many] = i
                        many += 1
                    distance[i] = far
                    via[i] = size + v
                    heap = push(heap_key, heap_node, heap, far, i)
                    if excess[i] < 0:
                        nearest = far
        if u < top and margin[u] < roof[u]:
            g = up[u]
            far = base + lift(margin[u], aim[u], price[u]) - potential[g]
            if far < nearest and far < distance[g]:
                if distance[g] == FAR:
                    seen[many] = g
                    many += 1
                distance[g] = far
                via[g] = 2 * size + u
                heap = push(heap_key, heap_node, heap, far, g)
                if excess[g] < 0:
                    nearest = far
        for k in range(down_start[u], down_start[u + 1]):
            g = down[k]
            far = base - lift(margin[g] - 1, aim[g], price[g]) - potential[g]
            if far < nearest and far < distance[g] and margin[g] > floor[g]:
                if distance[g] == FAR:
                    seen[many] = g
                    many += 1
                distance[g] = far
                via[g] = 2 * size + groups + g
                heap = push(heap_key, heap_node, heap, far, g)
                if excess[g] < 0:
                    nearest = far
    for k in range(many):
        distance[seen[k]] = FAR
        done[seen[k]] = False
    return found, looked


@njit
def _augment(
    s: int, end: int, arcs: Arcs, steps: RoundingSteps, tree: RoundingTree, work: Search
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
