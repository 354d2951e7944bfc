"""The compiled loops of the reconstruction: integers only. Import late: this loads numba.

A problem is a set of unknown counts, each between lo and hi, and rows: sums of some of them, each
between rlo and rhi, in compressed form (row r holds idx[ptr[r]:ptr[r+1]]). ``family`` numbers sets
of rows that do not overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headcount.arrays import Flags, Ints, Ints32
from headcount.attacks.knowledge import UNKNOWN
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
