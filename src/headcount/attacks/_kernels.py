"""The compiled loops of the reconstruction: integers only. Import late: this loads numba.

A problem is a set of unknown counts, each between lo and hi, and rows: sums of some of them, each
between rlo and rhi, in compressed form (row r holds idx[ptr[r]:ptr[r+1]]). ``family`` numbers sets
of rows that do not overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headcount.arrays import Flags, Ints, Ints32
from headcount.attacks.intervals import UNKNOWN
from headcount.compiled import kernel, njit


@kernel
def alive(row_of: Ints32, high: Ints, keep: Flags) -> None:
    """Strike out the classes that lie in a row which holds nobody."""
    for c in range(row_of.shape[0]):
        if keep[c]:
            for f in range(row_of.shape[1]):
                r = row_of[c, f]
                if r >= 0 and high[r] <= 0:
                    keep[c] = False
                    break


@kernel
def assemble(rows: Ints32, low: Ints, high: Ints) -> Any:
    """Compress rows (unknowns x families, row numbers or -1) and leave out those that say nothing.

    Returns ptr, idx, rlo, rhi, family and whether every row that must hold someone has unknowns.
    """
    size = np.zeros(len(low), dtype=np.int64)
    family = np.full(len(low), -1, dtype=np.int64)
    for v in range(rows.shape[0]):
        for f in range(rows.shape[1]):
            r = rows[v, f]
            if r >= 0 and (family[r] < 0 or family[r] == f):
                family[r] = f  # a row of two families is kept once
                size[r] += 1
    possible = True
    number = np.full(len(low), -1, dtype=np.int64)
    count = 0
    total = 0
    for r in range(len(low)):
        if size[r] == 0:
            possible = possible and low[r] <= 0
        elif low[r] > 0 or high[r] < UNKNOWN:
            number[r] = count
            count += 1
            total += size[r]
    ptr = np.zeros(count + 1, dtype=np.int64)
    rlo = np.empty(count, dtype=np.int64)
    rhi = np.empty(count, dtype=np.int64)
    fam = np.empty(count, dtype=np.int64)
    for r in range(len(low)):
        if number[r] >= 0:
            k = number[r]
            ptr[k + 1] = size[r]
            rlo[k], rhi[k], fam[k] = low[r], high[r], family[r]
    for k in range(count):
        ptr[k + 1] += ptr[k]
    idx = np.empty(total, dtype=np.int64)
    fill = ptr[:-1].copy()
    for v in range(rows.shape[0]):
        for f in range(rows.shape[1]):
            r = rows[v, f]
            if r >= 0 and number[r] >= 0 and family[r] == f:
                idx[fill[number[r]]] = v
                fill[number[r]] += 1
    return ptr, idx, rlo, rhi, fam, possible


@kernel(work=5)
def propagate(ptr: Ints, idx: Ints, rlo: Ints, rhi: Ints, lo: Ints, hi: Ints) -> bool:
    """Tighten lo and hi until no row tells more; False if some row cannot be met."""
    moved = True
    while moved:
        moved = False
        for r in range(len(rlo)):
            least = 0
            most = 0
            for k in range(ptr[r], ptr[r + 1]):
                least += lo[idx[k]]
                most += hi[idx[k]]
            if least > rhi[r] or most < rlo[r]:
                return False
            if least >= rlo[r] and most <= rhi[r]:
                continue
            up = rhi[r] - least
            down = most - rlo[r]
            for k in range(ptr[r], ptr[r + 1]):
                v = idx[k]
                room = hi[v] - lo[v]
                if room > up or room > down:
                    top = min(hi[v], lo[v] + up)
                    bottom = max(lo[v], hi[v] - down)
                    if bottom > top:
                        return False
                    lo[v], hi[v] = bottom, top
                    moved = True
                    least = 0
                    most = 0
                    for j in range(ptr[r], ptr[r + 1]):
                        least += lo[idx[j]]
                        most += hi[idx[j]]
                    up = rhi[r] - least
                    down = most - rlo[r]
    return True


@kernel
def reduce(
    ptr: Ints, idx: Ints, rlo: Ints, rhi: Ints, fam: Ints, lo: Ints, hi: Ints, free: Ints
) -> Any:
    """The problem of the unknowns still open (``free`` numbers them, -1 for settled ones).

    Rows that the bounds imply are left out.
    """
    nptr = np.zeros(len(rlo) + 1, dtype=np.int64)
    nidx = np.empty(len(idx), dtype=np.int64)
    nlo, nhi = rlo.copy(), rhi.copy()
    nfam = fam.copy()
    count = 0
    end = 0
    for r in range(len(rlo)):
        settled = 0
        least = 0
        most = 0
        start = end
        for k in range(ptr[r], ptr[r + 1]):
            v = idx[k]
            if free[v] < 0:
                settled += lo[v]
            else:
                least += lo[v]
                most += hi[v]
                nidx[end] = free[v]
                end += 1
        low, high = rlo[r] - settled, rhi[r] - settled
        if end == start or (least >= low and most <= high):
            end = start
            continue
        nlo[count], nhi[count], nfam[count] = low, high, fam[r]
        count += 1
        nptr[count] = end
    return nptr[: count + 1], nidx[:end], nlo[:count], nhi[:count], nfam[:count]


@kernel(work=10)
def implied(ptr: Ints, idx: Ints, rlo: Ints, rhi: Ints, fam: Ints, size: int) -> Any:
    """Rows that are sums of smaller rows of one family, with bounds no tighter than theirs.

    Such a row says nothing new, but it would tie unknowns together that are independent. Of rows
    over the same unknowns the first stands for all, with the tightest bounds. Returns which rows
    to keep, and whether the bounds agree. Rows are set aside for smaller ones, or for an equal one
    before them, so that no two are set aside for each other.
    """
    count = len(rlo)
    vptr, vrow = _by_unknown(ptr, idx, count, size)
    keep = np.ones(count, dtype=np.bool_)
    hits = np.zeros(count, dtype=np.int64)
    for r in range(count):
        first = idx[ptr[r]]
        for k in range(vptr[first], vptr[first + 1]):
            other = vrow[k]
            if fam[other] == fam[r]:
                continue
            parts, low, high = _cover(r, fam[other], ptr, idx, rlo, rhi, fam, vptr, vrow, hits)
            if parts == 0:
                continue
            if parts == 1:
                if other < r and keep[other]:
                    rlo[other], rhi[other] = max(low, rlo[r]), min(high, rhi[r])
                    if rlo[other] > rhi[other]:
                        return keep, False
                    keep[r] = False
                    break
                continue
            if high < rlo[r] or low > rhi[r]:
                return keep, False
            if low >= rlo[r] and high <= rhi[r]:
                keep[r] = False
                break
    return keep, True


@njit
def _cover(
    r: int,
    family: int,
    ptr: Ints,
    idx: Ints,
    rlo: Ints,
    rhi: Ints,
    fam: Ints,
    vptr: Ints,
    vrow: Ints,
    hits: Ints,
) -> Any:
    """How many rows of a family add up to row r exactly (0: they do not), and their bounds' sums.

    ``hits`` is all zero before and after.
    """
    length = ptr[r + 1] - ptr[r]
    parts, low, high, held = 0, 0, 0, 0
    for m in range(ptr[r], ptr[r + 1]):
        found = -1
        for j in range(vptr[idx[m]], vptr[idx[m] + 1]):
            if fam[vrow[j]] == family:
                found = vrow[j]
                break
        if found < 0:
            held = length + 1
        elif hits[found] == 0:
            hits[found] = 1
            parts += 1
            low += rlo[found]
            high += rhi[found]
            held += ptr[found + 1] - ptr[found]
        if held > length:
            break
    for m in range(ptr[r], ptr[r + 1]):
        for j in range(vptr[idx[m]], vptr[idx[m] + 1]):
            hits[vrow[j]] = 0
    return (parts if held == length else 0), low, high


@njit
def _by_unknown(ptr: Ints, idx: Ints, count: int, size: int) -> Any:
    """For each unknown the rows it is in."""
    vptr = np.zeros(size + 1, dtype=np.int64)
    for k in range(len(idx)):
        vptr[idx[k] + 1] += 1
    for v in range(size):
        vptr[v + 1] += vptr[v]
    vrow = np.empty(len(idx), dtype=np.int64)
    fill = vptr[:-1].copy()
    for r in range(count):
        for k in range(ptr[r], ptr[r + 1]):
            vrow[fill[idx[k]]] = r
            fill[idx[k]] += 1
    return vptr, vrow


@kernel
def components(ptr: Ints, idx: Ints, keep: Flags, size: int) -> Ints:
    """A number for each unknown: those tied by kept rows have the same, the least of them."""
    root = np.arange(size)
    for r in range(len(keep)):
        if not keep[r]:
            continue
        a = idx[ptr[r]]
        while root[a] != a:
            root[a] = root[root[a]]
            a = root[a]
        for k in range(ptr[r] + 1, ptr[r + 1]):
            b = idx[k]
            while root[b] != b:
                root[b] = root[root[b]]
                b = root[b]
            if a != b:
                root[max(a, b)] = min(a, b)
                a = min(a, b)
    for v in range(size):
        root[v] = root[root[v]]
    return root


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
