"""Potentials for shortest paths: at the start, and again after long searches. Loads numba."""

from __future__ import annotations

import numpy as np

from headcount.compiled import ZERO, njit
from headcount.topdown.solve._residual import (
    FAR,
    Arcs,
    Array,
    RoundingSteps,
    RoundingTree,
    Search,
    lift,
    pop,
    push,
    step,
)


@njit
def settle(
    arcs: Arcs, steps: RoundingSteps, tree: RoundingTree, excess: Array, potential: Array
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
def look_back(arcs: Arcs, steps: RoundingSteps, tree: RoundingTree, work: Search) -> None:
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
                        if distance[g] == FAR:
                            seen[many] = g
                            many += 1
                        distance[g] = far
                        heap = push(heap_key, heap_node, heap, far, g)
        if u > top:
            continue
        for k in range(in_start[u], in_start[u + 1]):
            v = incoming[k]
            i = source[v]
            if y[v] < most[v]:
                far = base + step(y[v], cost[v], scale) + potential[i]
                if far < distance[i]:
                    if distance[i] == FAR:
                        seen[many] = i
                        many += 1
                    distance[i] = far
                    heap = push(heap_key, heap_node, heap, far, i)
        if u < top and margin[u] > floor[u]:
            g = up[u]
            far = base - lift(margin[u] - 1, aim[u], price[u]) + potential[g]
            if far < distance[g]:
                if distance[g] == FAR:
                    seen[many] = g
                    many += 1
                distance[g] = far
                heap = push(heap_key, heap_node, heap, far, g)
        for k in range(down_start[u], down_start[u + 1]):
            g = down[k]
            if margin[g] < roof[g]:
                far = base + lift(margin[g], aim[g], price[g]) + potential[g]
                if far < distance[g]:
                    if distance[g] == FAR:
                        seen[many] = g
                        many += 1
                    distance[g] = far
                    heap = push(heap_key, heap_node, heap, far, g)
    for k in range(many):
        u = seen[k]
        if done[u]:
            potential[u] += reach - distance[u]
        distance[u] = FAR
        done[u] = False
