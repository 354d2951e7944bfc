"""Integer problems of a reconstruction, and what can be settled before any solver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Flags, Ints, Ints32
from headcount.attacks.knowledge import UNKNOWN

NO_END = UNKNOWN // 2
"""No count of people is larger. What sums tell of unknown ends is as large as these, but for a few
people."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Counts x with lo <= x <= hi whose sums over rows lie between rlo and rhi.

    where
        ptr, idx    row r is the sum of x[idx[ptr[r]:ptr[r+1]]]
        place       where each unknown stands in the problem that this one is part of
    """

    ptr: Ints
    idx: Ints
    rlo: Ints
    rhi: Ints
    lo: Ints
    hi: Ints
    place: Ints

    @property
    def endless(self) -> Flags:
        """Which unknowns have no upper end, or one that only follows from that of another."""
        return self.hi > NO_END

    @property
    def bounded(self) -> bool:
        """Whether every unknown has an upper end."""
        return not self.endless.any()

    def keeps(self, x: Ints) -> bool:
        """Whether x is a solution."""
        sums = np.add.reduceat(x[self.idx], self.ptr[:-1]) if len(self.rlo) else self.rlo
        within = (self.lo <= x).all() and (x <= self.hi).all()
        return bool(within and (self.rlo <= sums).all() and (sums <= self.rhi).all())


@dataclass(frozen=True, eq=False)
class Settled:
    """A problem after propagation: settled counts, and independent parts still open.

    where
        x       the settled counts; open ones stand at their lower end
        open    the parts, each with its ``place`` in x
        fixed   whether all solutions have the same total
    """

    x: Ints
    open: tuple[Problem, ...]
    fixed: bool


def settle(rows: Ints32, low: Ints, high: Ints) -> Settled | None:
    """Settle what bounds and sums determine, and split the rest; None if there is no solution.

    ``rows`` (unknowns x families) holds the number of each unknown's row, -1 for none; ``low``
    and ``high`` are the ends of each row.
    """
    from headcount.attacks import _kernels as kernels

    ptr, idx, rlo, rhi, fam, possible = kernels.assemble(rows, low, high)
    size = len(rows)
    lo, hi = np.zeros(size, dtype=np.int64), np.full(size, UNKNOWN, dtype=np.int64)
    if not possible or not kernels.propagate(ptr, idx, rlo, rhi, lo, hi):
        return None
    free = np.flatnonzero(lo < hi)
    if not len(free):
        return Settled(lo, (), True)
    number = np.full(size, -1, dtype=np.int64)
    number[free] = np.arange(len(free))
    fixed = _fixed(ptr, rlo, rhi, fam, size)
    ptr, idx, rlo, rhi, fam = kernels.reduce(ptr, idx, rlo, rhi, fam, lo, hi, number)
    keep, agree = kernels.implied(ptr, idx, rlo, rhi, fam, len(free))
    if not agree:
        return None
    root = kernels.components(ptr, idx, keep, len(free))
    parts = _split(ptr, idx, rlo, rhi, keep, root, lo[free], hi[free])
    return Settled(
        lo,
        tuple(Problem(*part[:-1], place=free[part[-1]]) for part in parts),
        fixed,
    )


def _fixed(ptr: Ints, rlo: Ints, rhi: Ints, fam: Ints, size: int) -> bool:
    """Whether one family of exact rows holds every unknown."""
    exact = rlo == rhi
    length = np.diff(ptr)
    held = np.bincount(fam[exact], weights=length[exact]) if exact.any() else np.zeros(1)
    return bool((held == size).any())


def _split(
    ptr: Ints,
    idx: Ints,
    rlo: Ints,
    rhi: Ints,
    keep: Flags,
    root: Ints,
    lo: Ints,
    hi: Ints,
) -> Iterator[tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints]]:
    """The independent parts: unknowns by component, with the kept rows over them."""
    kept = np.flatnonzero(keep)
    length = np.diff(ptr)
    row_root = root[idx[ptr[kept]]] if len(kept) else kept
    roots, first = np.unique(root, return_inverse=True)
    order = np.argsort(first, kind="stable")
    start = np.searchsorted(first[order], np.arange(len(roots) + 1))
    local = np.empty(len(root), dtype=np.int64)
    local[order] = np.arange(len(root)) - start[first[order]]
    row_order = np.argsort(row_root, kind="stable")
    row_start = np.searchsorted(row_root[row_order], roots)
    row_end = np.searchsorted(row_root[row_order], roots, side="right")
    for k in range(len(roots)):
        members = order[start[k] : start[k + 1]]
        rows = kept[row_order[row_start[k] : row_end[k]]]
        new_ptr = np.concatenate([[0], np.cumsum(length[rows])])
        entries = [idx[ptr[r] : ptr[r + 1]] for r in rows]
        new_idx = local[np.concatenate(entries)] if entries else np.empty(0, dtype=np.int64)
        yield new_ptr, new_idx, rlo[rows], rhi[rows], lo[members], hi[members], members
