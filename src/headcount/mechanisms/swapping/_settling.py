"""As many pairs as there can be, from those already made: some are broken up for those left over.

From the finest level upwards, those who stand below a unit and are alone are paired across its
children. If one child has more of them than all others together, two of them take the two of a pair
that stands wholly in other children. If every level starts from the most pairs of the levels below,
no more stay alone than must (the formula of ``need``): nobody is left over in one child while
somebody in another is paired with anybody but one of that child.
"""

from __future__ import annotations

import numpy as np

from headcount.arrays import Ints
from headcount.compiled import kernel
from headcount.mechanisms.swapping._fits import Fits, forest
from headcount.mechanisms.swapping._need import alone
from headcount.mechanisms.swapping._pair_kernels import pair_groups


def settle(first: Ints, second: Ints, left: Ints, fits: Fits) -> tuple[Ints, Ints, Ints]:
    """The most pairs of the households given: those of pairs made, and those left over.

    Pairs stay where they can. Only where breaking some up is not enough is a whole group paired
    anew, nearest first.
    """
    if len(left) < 2:
        return first, second, left
    both = np.concatenate([first, second, left])
    groups, fewest = alone(both, fits)
    many = np.bincount(np.searchsorted(groups, fits.group[left]), minlength=len(groups))
    poor = np.isin(fits.group, groups[many > fewest])
    if not poor[left].any():
        return first, second, left
    kept = ~poor[first]
    rows = both[poor[both]]
    mate = np.full(len(fits.group), -1, dtype=np.int64)
    mate[first], mate[second] = second, first
    _mend(rows, mate, fits)
    worse = _still_poor(rows, mate, fits)
    mate[worse] = -1
    _mend(worse, mate, fits)
    lower = rows[mate[rows] > rows]
    return (
        np.concatenate([first[kept], lower]),
        np.concatenate([second[kept], mate[lower]]),
        np.concatenate([left[~poor[left]], rows[mate[rows] < 0]]),
    )


def _still_poor(rows: Ints, mate: Ints, fits: Fits) -> Ints:
    """Those rows in whose group more are alone than must be."""
    groups, fewest = alone(rows, fits)
    at = np.searchsorted(groups, fits.group[rows])
    many = np.bincount(at[mate[rows] < 0], minlength=len(groups))
    return rows[(many > fewest)[at]]


def _mend(rows: Ints, mate: Ints, fits: Fits) -> None:
    """Go up the trees of some rows once, and note new pairs in ``mate``."""
    trees = forest(fits, rows)
    unit = np.full(len(fits.group), -1, dtype=np.int64)
    for level in reversed(trees.levels):
        order = np.argsort(level, kind="stable")
        order = order[level[order] >= 0]  # units of one parent have neighbouring numbers
        unit[rows] = level
        below, child = rows[order], level[order]
        above = trees.parent[child]
        single = mate[below] < 0
        found = np.full(np.count_nonzero(single), -1, dtype=np.int64)
        pair_groups(above[single], child[single], found)
        joined = np.flatnonzero(found >= 0)
        mate[below[single][joined]] = below[single][found[joined]]
        _break_up(below, above, unit, trees.parent, mate)


@kernel
def _break_up(below: Ints, above: Ints, unit: Ints, parent: Ints, mate: Ints) -> None:
    """Pairs in other children give their two to two who are left over in one child.

    ``below`` are sorted by the unit ``above``; those left over there stand in one of its children.
    """
    low, rows = 0, len(below)
    alone = np.empty(rows, dtype=np.int64)
    while low < rows:
        high, many = low, 0
        while high < rows and above[high] == above[low]:
            if mate[below[high]] < 0:
                alone[many] = below[high]
                many += 1
            high += 1
        i = low
        while i < high and many > 1:
            one, other = below[i], mate[below[i]]
            i += 1
            if other < 0 or unit[other] < 0 or parent[unit[other]] != above[low]:
                continue
            if unit[one] == unit[alone[0]] or unit[other] == unit[alone[0]]:
                continue
            many -= 2
            mate[one], mate[alone[many]] = alone[many], one
            mate[other], mate[alone[many + 1]] = alone[many + 1], other
        low = high
