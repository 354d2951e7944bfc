"""Who may change places with whom, as a forest: one tree of units for each group of alike ones.

A household *stands at* the unit that it has to leave. Two of one group fit each other if neither
lives in the unit that the other has to leave, which is so exactly if the one unit does not contain
the other. So the units of a tree say all: who stands below one child of a unit fits everybody below
its other children, and nobody who stands at the unit itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Ints


@dataclass(frozen=True, eq=False)
class Fits:
    """What a pair must have in common, and what each of them has to leave.

    where
        group    partners are of one group: same key, same unit that nobody leaves
        places   from the coarsest level: the unit in which each household lives
        sizes    the number of units of each of these levels
        depth    for each household which of the levels it has to leave, 0 for the coarsest
    """

    group: Ints
    places: tuple[Ints, ...]
    sizes: tuple[int, ...]
    depth: Ints


@dataclass(frozen=True, eq=False)
class Forest:
    """The units at which some households stand, those above them, and a root for each group.

    where
        node     for each of the households its unit
        root     for each of them the root of its tree
        parent   for each unit the one above it, itself for a root; parents have lower numbers
        groups   for each root its group
        levels   for each level the unit of each household, -1 for those who stand above it
    """

    node: Ints
    root: Ints
    parent: Ints
    groups: Ints
    levels: tuple[Ints, ...]


def forest(fits: Fits, rows: Ints) -> Forest:
    """The trees of some households."""
    groups, root = np.unique(fits.group[rows], return_inverse=True)
    root = root.astype(np.int64)
    node, above = root.copy(), root
    parents = [np.arange(len(groups))]
    levels, first = [], len(groups)
    for depth, (place, size) in enumerate(zip(fits.places, fits.sizes, strict=True)):
        below = np.flatnonzero(fits.depth[rows] >= depth)
        code = above[below] * size + place[rows[below]]
        units, at = np.unique(code, return_inverse=True)
        here = np.full(len(rows), -1, dtype=np.int64)
        here[below] = first + at
        parents.append(units // size)
        node[below] = here[below]
        above = here
        levels.append(here)
        first += len(units)
    return Forest(node, root, np.concatenate(parents), groups, tuple(levels))
