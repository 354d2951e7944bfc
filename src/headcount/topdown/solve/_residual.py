"""The network of one parent, what a path of it costs, and a heap; see network.py. Loads numba."""

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


class Arcs(NamedTuple):
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


class Search(NamedTuple):
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


@njit
def by_target(count: int, target: Array) -> Any:
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
