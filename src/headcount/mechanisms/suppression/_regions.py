"""Cutting a large table into regions: groups of sibling units, all above them fixed.

A move inside a region leaves every cell outside as it is, so it is a move of the whole table too:
regions can be protected one by one, and none undoes what another did.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.tabulate.additive import Additive, depths

FEWEST = 4  # siblings in a region, if there are as many: fewer leave no choice
BELOW = 2  # units taken below each unit that is taken for what it has of the target


def regions(additive: Additive, open_cells: Flags, *, cells: int) -> Iterator[Ints]:
    """Units of each region, of about ``cells`` cells that may be withheld.

    Units near the top whose regions would be far larger are in none: see ``Around``.
    """
    parent = additive.parent
    own = np.bincount(additive.unit[open_cells], minlength=len(parent))
    below = _sums_below(parent, own)
    first, child = _children(parent)
    tops = np.flatnonzero(parent < 0)
    if below[tops].sum() <= cells:
        yield np.arange(len(parent))
        return
    pending = [tops]
    while pending:
        family = pending.pop()
        small = family[below[family] <= cells // 2]
        for large in family[below[family] > cells // 2]:
            pending.append(child[first[large] : first[large + 1]])
        if len(small):
            groups = min(-(-int(below[small].sum()) // cells), max(len(small) // FEWEST, 1))
            for group in np.array_split(small, groups):
                yield _subtrees(group, first, child)


class Around:
    """Units around one cell: those above it, and those elsewhere that have much of the same.

    "The same" in another unit is found by the relations between a unit and those below it: from a
    cell to the sum of which it is a part, in the unit above, and down to the other parts.
    """

    def __init__(self, additive: Additive, values: Ints) -> None:
        self.additive, self.values = additive, values
        unit, parent = additive.unit, additive.parent
        total = np.repeat(additive.total, np.diff(additive.start))
        upward = parent[unit[additive.part]] == unit[total]
        part, total = additive.part[upward], total[upward]
        self._above = np.full(additive.size, -1)
        self._above[part] = total
        # Parts of each cell, the fullest first.
        order = np.lexsort((part, -values[part], total))
        self._part = part[order]
        self._first = np.searchsorted(total[order], np.arange(additive.size + 1))

    def units(self, target: int, *, kin: int, up: int) -> Ints:
        """The units on the way ``up``, ``kin`` of their other children and some below these.

        The unit that many levels above is held still; if there is none, nothing is.
        """
        parent, unit = self.additive.parent, self.additive.unit
        found = set(self._down(target))
        cell, here = target, int(unit[target])
        for _ in range(up):
            above = int(parent[here])
            if above < 0:
                found |= {int(one) for one in np.flatnonzero(parent < 0)}
                break
            cell = int(self._above[cell]) if cell >= 0 else -1
            for other in self._parts(cell, kin) if cell >= 0 else []:
                found |= {int(unit[other]), *self._down(int(other))}
            found.add(here)
            here = above
        return np.array(sorted(found))

    def _parts(self, cell: int, most: int) -> Ints:
        first, end = self._first[cell : cell + 2]
        parts = self._part[first : min(end, first + most)]
        return np.asarray(parts[self.values[parts] > 0])

    def _down(self, cell: int) -> list[int]:
        """Units below that hold most of a cell, and its own."""
        found, level = [], [cell]
        while level:
            found += [int(self.additive.unit[one]) for one in level]
            level = [int(part) for one in level for part in self._parts(one, BELOW)]
        return found


def _sums_below(parent: Ints, own: Ints) -> Ints:
    below = own.astype(np.int64)
    depth = depths(parent)
    for level in range(int(depth.max(initial=0)), 0, -1):
        here = np.flatnonzero(depth == level)
        np.add.at(below, parent[here], below[here])
    return below


def _children(parent: Ints) -> tuple[Ints, Ints]:
    """First child of each unit in the list of children, and the list."""
    child = np.argsort(parent, kind="stable")
    child = child[parent[child] >= 0]
    return np.searchsorted(parent[child], np.arange(len(parent) + 1)).astype(np.int64), child


def _subtrees(tops: Ints, first: Ints, child: Ints) -> Ints:
    found, level = [tops], tops
    while len(level):
        level = np.concatenate([child[first[u] : first[u + 1]] for u in level])
        found.append(level)
    return np.concatenate(found)
