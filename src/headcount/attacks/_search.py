"""Small problems by exhaustive search with propagation: less work than starting a solver.

Import late: this loads numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headcount.arrays import Ints
from headcount.attacks._kernels import propagate
from headcount.compiled import kernel, njit

NONE, FOUND, GAVE_UP = 0, 1, 2


def _all_nodes(ptr: Ints, idx: Ints, *given: Any) -> int:
    """The work if every node that may be looked at is, and all rows of it a few times."""
    return 5 * len(idx) * int(given[-1])


@njit
def _narrowest(lo: Ints, hi: Ints) -> int:
    """The open unknown with the fewest values, -1 if all are settled."""
    best = -1
    width = 0
    for v in range(len(lo)):
        room = hi[v] - lo[v]
        if room > 0 and (best < 0 or room < width):
            best, width = v, room
            if room == 1:
                break
    return best


@njit
def _most(lo: Ints, hi: Ints, start: Ints, fixed: bool) -> int:
    """No solution within these bounds is further from the start than this (L1 distance)."""
    down = 0
    up = 0
    either = 0
    for v in range(len(lo)):
        d = max(0, start[v] - lo[v])
        u = max(0, hi[v] - start[v])
        down += d
        up += u
        either += max(d, u)
    return min(either, 2 * min(down, up)) if fixed else either


@kernel(work=_all_nodes)
def first_solution(
    ptr: Ints, idx: Ints, rlo: Ints, rhi: Ints, lo: Ints, hi: Ints, nodes: int
) -> Any:
    """Any solution: (FOUND, x), (NONE, _) if there is none, or (GAVE_UP, _) after many nodes."""
    n = len(lo)
    los = np.empty((n + 1, n), dtype=np.int64)
    his = np.empty((n + 1, n), dtype=np.int64)
    branch = np.empty(n + 1, dtype=np.int64)
    value = np.empty(n + 1, dtype=np.int64)
    los[0], his[0] = lo, hi
    if not propagate(ptr, idx, rlo, rhi, los[0], his[0]):
        return NONE, los[0]
    depth = 0
    while True:
        v = _narrowest(los[depth], his[depth])
        if v < 0:
            return FOUND, los[depth]
        branch[depth] = v
        value[depth] = los[depth, v]
        while True:
            v = branch[depth]
            if value[depth] > his[depth, v]:
                depth -= 1
                if depth < 0:
                    return NONE, los[0]
                continue
            nodes -= 1
            if nodes < 0:
                return GAVE_UP, los[0]
            los[depth + 1], his[depth + 1] = los[depth], his[depth]
            los[depth + 1, v] = value[depth]
            his[depth + 1, v] = value[depth]
            value[depth] += 1
            if propagate(ptr, idx, rlo, rhi, los[depth + 1], his[depth + 1]):
                depth += 1
                break


@kernel(work=_all_nodes)
def farthest_solution(
    ptr: Ints,
    idx: Ints,
    rlo: Ints,
    rhi: Ints,
    lo: Ints,
    hi: Ints,
    start: Ints,
    fixed: bool,
    nodes: int,
) -> Any:
    """The largest L1 distance of a solution from ``start``, and whether it is proven.

    ``fixed`` says that all solutions have the same total, which halves the range of the bound.
    """
    n = len(lo)
    los = np.empty((n + 1, n), dtype=np.int64)
    his = np.empty((n + 1, n), dtype=np.int64)
    branch = np.empty(n + 1, dtype=np.int64)
    tried = np.empty(n + 1, dtype=np.int64)
    los[0], his[0] = lo, hi
    best = 0
    if not propagate(ptr, idx, rlo, rhi, los[0], his[0]):
        return best, False  # the start itself is no solution
    limit = _most(los[0], his[0], start, fixed)
    depth = 0
    while True:
        v = _narrowest(los[depth], his[depth])
        if v < 0:
            distance = 0
            for u in range(n):
                distance += abs(los[depth, u] - start[u])
            best = max(best, distance)
            if best >= limit:
                return best, True
            depth -= 1
        else:
            branch[depth] = v
            tried[depth] = 0
        while True:
            if depth < 0:
                return best, True
            v = branch[depth]
            low, high = los[depth, v], his[depth, v]
            if tried[depth] > high - low:
                depth -= 1
                continue
            nodes -= 1
            if nodes < 0:
                return best, False
            rising = start[v] - low >= high - start[v]
            value = low + tried[depth] if rising else high - tried[depth]
            tried[depth] += 1
            los[depth + 1], his[depth + 1] = los[depth], his[depth]
            los[depth + 1, v] = value
            his[depth + 1, v] = value
            if propagate(ptr, idx, rlo, rhi, los[depth + 1], his[depth + 1]) and (
                _most(los[depth + 1], his[depth + 1], start, fixed) > best
            ):
                depth += 1
                break
