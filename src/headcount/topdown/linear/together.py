"""Totals that several siblings have exactly together: they become units of a level in between.

The optimised spine has a state in two parts whose total alone is exact. With the state itself
between the nation and its parts, unmeasured but for its exact total, the tree says the same, and
least squares on it use that total like any other. Parts of one state stand side by side then, so
units below change their places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.topdown.linear.kinds import LevelNoise, NoiseTree


@dataclass(frozen=True, eq=False)
class TogetherTree:
    """A tree with levels of groups in it.

    where
        tree     with the groups
        levels   for each of its levels the depth that it had before; -1 for groups
        places   for each of its levels the place that each unit had before, or the group's number
    """

    tree: NoiseTree
    levels: tuple[int, ...]
    places: tuple[Ints, ...]

    @classmethod
    def of(
        cls, tree: NoiseTree, groups: Mapping[int, tuple[Ints32, Sequence[str]]]
    ) -> TogetherTree:
        """A tree in which units of some depths are in groups.

        where
            groups   for a depth the group of each of its units, all of whose units have the same
                     parent, and the queries that are exact of each group
        """
        if not groups:
            depths = range(len(tree.levels))
            return cls(tree, tuple(depths), tuple(np.arange(tree.units(one)) for one in depths))
        return cls._grouped(tree, groups)

    @classmethod
    def _grouped(
        cls, tree: NoiseTree, groups: Mapping[int, tuple[Ints32, Sequence[str]]]
    ) -> TogetherTree:
        parents, levels = [np.zeros(0, dtype=np.int32)], [tree.levels[0]]
        depths = [0]
        places: list[Ints] = [np.zeros(1, dtype=np.int64)]
        for depth in range(1, len(tree.levels)):
            now = np.empty(len(places[-1]), dtype=np.int64)
            now[places[-1]] = np.arange(len(now))
            parent = now[tree.parents[depth]]
            if depth in groups:
                group, exact = groups[depth]
                number, some = np.unique(group, return_index=True)
                order = np.argsort(parent[some], kind="stable")
                parents.append(parent[some][order].astype(np.int32))
                levels.append(LevelNoise(({},), exact=tuple(exact)))
                depths.append(-1)
                places.append(number[order].astype(np.int64))
                now = np.empty(int(number[-1]) + 1, dtype=np.int64)
                now[number[order]] = np.arange(len(order))
                parent = now[group]
            order = np.argsort(parent, kind="stable")
            own = tree.levels[depth]
            of_unit = None if own.of_unit is None else own.of_unit[order]
            parents.append(parent[order].astype(np.int32))
            levels.append(LevelNoise(own.weights, of_unit, own.exact))
            depths.append(depth)
            places.append(order)
        return cls(NoiseTree(parents, levels), tuple(depths), tuple(places))

    def depth(self, before: int) -> int:
        """Where a level is now."""
        return self.levels.index(before)
