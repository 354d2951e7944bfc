"""A tree of places with its noise: units in equivalence classes, joint totals, pooled answers.

Two leaves are equivalent if their noise is the same; two units above, if their noise is and they
have as many children of each class. Equivalent units have the same errors. A nation of eight
million blocks has some hundred classes of block groups, so what depends on classes alone is worked
out once for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headcount.arrays import Floats, Ints, Ints32

LEAST_GAIN = 0.01
"""A level takes part if it makes the standard deviation of some answer above smaller by this."""
MOST_ANSWERS = 1 << 26
"""Leaves take part only if they have no more answers together: all of these would be drawn."""


@dataclass(frozen=True, eq=False)
class LevelNoise:
    """The noise of a level's answers.

    where
        weights   for each class of noise, 1 / variance of each query that is measured there
        of_unit   the class of noise of each unit; None where all are of the first
        exact     queries whose answers are known without noise
    """

    weights: tuple[Mapping[str, float], ...]
    of_unit: Ints | None = None
    exact: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class UnitClasses:
    """The equivalence classes of units at one level.

    where
        of_unit   the class of each unit
        noise     the class of noise of each class
        units     how many units each class has
        parent, child, times   which classes have children of which, and how many: sorted by parent
        first     position of the first of these for each class; nothing at the leaf
    """

    of_unit: Ints
    noise: Ints
    units: Ints
    parent: Ints
    child: Ints
    times: Ints
    first: Ints

    def link(self, parent: Ints, child: Ints, many: int) -> Ints:
        """The position of the link between a parent's class and a child's, one of ``many``."""
        return np.searchsorted(self.parent * many + self.child, parent * many + child)

    def links(self, classes: Ints) -> tuple[Ints, Ints]:
        """For some classes, one after the other: which of them, and the positions of its links."""
        ends = np.append(self.first, len(self.parent))
        sizes = ends[classes + 1] - ends[classes]
        which = np.repeat(np.arange(len(classes)), sizes)
        start = np.cumsum(sizes) - sizes
        return which, np.arange(len(which)) - start[which] + ends[classes][which]


@dataclass(frozen=True, eq=False)
class NoiseTree:
    """Places with their noise, from the whole to the leaf.

    where
        parents   for each level the position of each unit's parent; empty for the whole
        levels    the noise of each
    """

    parents: Sequence[Ints32]
    levels: Sequence[LevelNoise]

    def units(self, depth: int) -> int:
        """How many units a level has."""
        return len(self.parents[depth]) if depth else 1

    @cached_property
    def classes(self) -> tuple[UnitClasses, ...]:
        """The classes of every level, from the whole down."""
        found = [self._leaves()]
        for depth in range(len(self.parents) - 2, -1, -1):
            found.insert(0, self._above(depth, found[0]))
        return tuple(found)

    def _noise(self, depth: int) -> Ints:
        own = self.levels[depth].of_unit
        return np.zeros(self.units(depth), dtype=np.int64) if own is None else own.astype(np.int64)

    def _leaves(self) -> UnitClasses:
        leaf = len(self.parents) - 1
        of_unit = self._noise(leaf)
        alike = self.levels[leaf].of_unit is None
        units = np.array([self.units(leaf)]) if alike else np.bincount(of_unit)
        noise, none = np.flatnonzero(units), np.zeros(0, dtype=np.int64)
        if len(noise) < len(units):
            of_unit = np.searchsorted(noise, of_unit)
        return UnitClasses(of_unit, noise, units[noise], none, none, none, none)

    def _above(self, depth: int, below: UnitClasses) -> UnitClasses:
        parents, units = self.parents[depth + 1], self.units(depth)
        # Numbers of one type: otherwise all parents would be copied.
        start = np.searchsorted(parents, np.arange(units + 1, dtype=parents.dtype))
        noise = self._noise(depth)
        some, of_unit, times = _same(noise, below, start)
        sizes = start[some + 1] - start[some]
        which = np.repeat(np.arange(len(some)), sizes)
        begin = np.cumsum(sizes) - sizes
        children = np.arange(len(which)) - begin[which] + start[some][which]
        many = len(below.units)
        pairs, number = np.unique(which * many + below.of_unit[children], return_counts=True)
        parent = pairs // many
        return UnitClasses(
            of_unit,
            noise[some],
            times,
            parent,
            pairs % many,
            number,
            np.searchsorted(parent, np.arange(len(some))),
        )


def _same(noise: Ints, below: UnitClasses, start: Ints) -> tuple[Ints, Ints, Ints]:
    """Units with the same noise and children: one of each class, each unit's class, and how many.

    Each class of child has random numbers of 64 bits; the same sum of them, the same children.

    where
        start   position of each unit's first child, and the end
    """
    chance = np.random.default_rng(len(below.units))
    mark = chance.integers(1, 2**63, size=len(below.units), dtype=np.uint64)
    of_noise = chance.integers(1, 2**63, size=int(noise.max()) + 1, dtype=np.uint64)
    if len(mark) == 1:
        sums = mark[0] * np.diff(start).astype(np.uint64)
    else:
        sums = np.add.reduceat(mark[below.of_unit], start[:-1])
    sums += of_noise[noise]
    _, some, of_unit, times = np.unique(
        sums, return_index=True, return_inverse=True, return_counts=True
    )
    return some, of_unit, times


@dataclass(frozen=True, eq=False)
class JointTotalsTree:
    """A tree in which siblings with an exact joint total are children of a unit in between.

    The optimised spine has a state in two parts whose total alone is exact. With the state itself
    between the nation and its parts, unmeasured but for its exact total, the tree says the same,
    and least squares on it use that total like any other. Parts of one state stand side by side
    then, so units below change their places.

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
    ) -> JointTotalsTree:
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
    ) -> JointTotalsTree:
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


def own_weights(tree: NoiseTree, query: str, depth: int) -> Floats:
    """1 / variance of a query's answers in each class of unit; 0 where it is not asked."""
    by_class = np.array([one.get(query, 0.0) for one in tree.levels[depth].weights])
    return by_class[tree.classes[depth].noise]


def pooled_weights(tree: NoiseTree, query: str, lowest: int) -> list[Floats]:
    """The weights w* of pooled answers, by class, from the whole to the ``lowest`` level.

        y*_u = (w_u y_u + b_u sum over j of y*_j) / (w_u + b_u),   w*_u = w_u + b_u
        b_u  = 1 / (sum over j of 1 / w*_j)

    where
        y_u, w_u     the answer of unit u, and 1 / its variance: 0 where it was not asked
        j            the children of u; at the lowest level that takes part y* = y and w* = w
        b_u          1 / variance of the children's sum; 0 where a child has no answer

    This is the first half of generalised least squares (tree.py) where every level splits its loss
    over queries alike, and close to it elsewhere. Hay et al. (2010), Boosting the accuracy of
    differentially private histograms through consistency.
    """
    found: list[Floats] = []
    for depth in range(lowest, -1, -1):
        own = own_weights(tree, query, depth)
        if found and query not in tree.levels[depth].exact:
            own = own + _of_sum(tree.classes[depth], found[0])
        found.insert(0, own)
    return found


def _of_sum(classes: UnitClasses, below: Floats) -> Floats:
    """1 / variance of the sum of children's answers, for each class."""
    with np.errstate(divide="ignore"):
        return 1 / np.add.reduceat(classes.times / below[classes.child], classes.first)


def lowest_gaining(tree: NoiseTree, answers: Mapping[str, int]) -> int:
    """The depth of the lowest level whose answers are worth pooling with those above; 0 if none.

    ``answers`` are the queries, each with how many answers it has in a unit. A level right above
    that has no answers of its own gains all that the one below can tell it.
    """
    leaf = len(tree.levels) - 1
    if leaf and tree.units(leaf) * sum(answers.values()) > MOST_ANSWERS:
        leaf -= 1
    for depth in range(leaf, 0, -1):
        silent = not any(own_weights(tree, query, depth - 1).any() for query in answers)
        for query in answers:
            without = pooled_weights(tree, query, depth - 1)
            pooled = pooled_weights(tree, query, depth)
            if silent and pooled[depth - 1].any():
                return depth
            for above in range(depth):
                units = tree.classes[above].units * (own_weights(tree, query, above) > 0)
                if units.any() and _gain(without[above], pooled[above], units) >= LEAST_GAIN:
                    return depth
    return 0


def _gain(without: Floats, pooled: Floats, units: Ints) -> float:
    """By how much pooling makes the standard deviation of a mean unit smaller."""
    some = units > 0
    before, after = (np.average(1 / one[some], weights=units[some]) for one in (without, pooled))
    return 1 - float(np.sqrt(after / before))
