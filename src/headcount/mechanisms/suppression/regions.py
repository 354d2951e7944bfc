"""Cutting a large table into regions: groups of sibling units, all above them held still.

A move inside a region leaves every cell outside as it is, so it is a move of the whole table too:
regions can be protected one by one, and none undoes what another did.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headcount.mechanisms.suppression.moves import Ints
from headcount.tabulate.additive import Additive, depths

Flags = NDArray[np.bool_]
FEWEST = 4  # siblings in a region, if there are as many: fewer leave no choice


def regions(additive: Additive, open_cells: Flags, *, cells: int) -> Iterator[Ints]:
    """Units of each region, of about ``cells`` cells that may be withheld.

    Units near the top whose regions would be far larger are in none: see ``around``.
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


def around(
    additive: Additive, values: Ints, open_cells: Flags, target: int, *, kin: int, up: int
) -> Ints:
    """Units around one cell: ancestors, some of their other children, and some of those below.

    At each unit ``kin`` children are taken: those with the largest counts of the cell in question
    and those with the smallest, since moves need room in some and belong to few in others. The
    ancestor ``up`` levels above is held still; if there is none, nothing is.
    """
    parent = additive.parent
    chain = [int(additive.unit[target])]
    while parent[chain[-1]] >= 0 and len(chain) <= up:
        chain.append(int(parent[chain[-1]]))
    held = chain.pop() if len(chain) > up else -1
    weight: NDArray[np.float64] = np.bincount(
        additive.unit, weights=np.where(open_cells, np.log1p(values), 0), minlength=len(parent)
    ).astype(np.float64)
    first, child = _children(parent)
    found = set(chain)
    if held < 0:
        found |= set(np.flatnonzero(parent < 0).tolist())
        pending = sorted(found)
    else:
        found |= set(_pick(child[first[held] : first[held + 1]], weight, kin))
        pending = sorted(found)
    while pending:
        unit = pending.pop()
        kids = child[first[unit] : first[unit + 1]]
        named = _kids_of_cell(additive, values, target, kids) if unit == chain[0] else []
        for one in [*named, *_pick(kids, weight, kin)]:
            if one not in found:
                found.add(one)
                pending.append(one)
    return np.array(sorted(found))


def _pick(units: Ints, weight: NDArray[np.float64], kin: int) -> list[int]:
    """The units with the most in their cells."""
    order = units[np.argsort(-weight[units], kind="stable")]
    return [int(one) for one in order[:kin]]


def _kids_of_cell(additive: Additive, values: Ints, target: int, kids: Ints) -> list[int]:
    """Child units in which the target is not empty, the fullest first."""
    parts = np.concatenate(
        [np.empty(0, dtype=np.int64)]
        + [
            additive.part[additive.start[k] : additive.start[k + 1]]
            for k in np.flatnonzero(additive.total == target)
        ]
    )
    parts = parts[(values[parts] > 0) & np.isin(additive.unit[parts], kids)]
    return [int(additive.unit[one]) for one in parts[np.argsort(-values[parts])][:8]]


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
