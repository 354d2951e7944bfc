"""Units of a tree that are alike, down to the last leaf: they have the same errors.

Two leaves are of one kind if their noise is the same; two units above, if their noise is and they
have as many children of each kind. A nation of eight million blocks has some hundred kinds of block
groups, so what depends on kinds alone is worked out once for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headcount.arrays import Ints, Ints32


@dataclass(frozen=True, eq=False)
class LevelNoise:
    """The noise of a level's answers.

    where
        weights   for each class of units, 1 / variance of each query that is measured there
        of_unit   the class of each unit; None where all are of the first
        exact     queries whose answers are known without noise
    """

    weights: tuple[Mapping[str, float], ...]
    of_unit: Ints | None = None
    exact: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Kinds:
    """The kinds of units at one level.

    where
        of_unit   the kind of each unit
        noise     the class of noise of each kind
        units     how many units each kind has
        parent, child, times   which kinds have children of which, and how many: sorted by parent
        first     position of the first of these for each kind; nothing at the leaf
    """

    of_unit: Ints
    noise: Ints
    units: Ints
    parent: Ints
    child: Ints
    times: Ints
    first: Ints

    def link(self, parent: Ints, child: Ints, many: int) -> Ints:
        """The position of the link between each parent's kind and each child's, one of ``many``."""
        return np.searchsorted(self.parent * many + self.child, parent * many + child)

    def links(self, kinds: Ints) -> tuple[Ints, Ints]:
        """For some kinds, one after the other: which of them, and the positions of its links."""
        ends = np.append(self.first, len(self.parent))
        sizes = ends[kinds + 1] - ends[kinds]
        which = np.repeat(np.arange(len(kinds)), sizes)
        start = np.cumsum(sizes) - sizes
        return which, np.arange(len(which)) - start[which] + ends[kinds][which]


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
    def kinds(self) -> tuple[Kinds, ...]:
        """The kinds of every level, from the whole down."""
        found = [self._leaves()]
        for depth in range(len(self.parents) - 2, -1, -1):
            found.insert(0, self._above(depth, found[0]))
        return tuple(found)

    def _noise(self, depth: int) -> Ints:
        own = self.levels[depth].of_unit
        return np.zeros(self.units(depth), dtype=np.int64) if own is None else own.astype(np.int64)

    def _leaves(self) -> Kinds:
        leaf = len(self.parents) - 1
        of_unit = self._noise(leaf)
        alike = self.levels[leaf].of_unit is None
        units = np.array([self.units(leaf)]) if alike else np.bincount(of_unit)
        noise, none = np.flatnonzero(units), np.zeros(0, dtype=np.int64)
        if len(noise) < len(units):
            of_unit = np.searchsorted(noise, of_unit)
        return Kinds(of_unit, noise, units[noise], none, none, none, none)

    def _above(self, depth: int, below: Kinds) -> Kinds:
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
        return Kinds(
            of_unit,
            noise[some],
            times,
            parent,
            pairs % many,
            number,
            np.searchsorted(parent, np.arange(len(some))),
        )


def _same(noise: Ints, below: Kinds, start: Ints) -> tuple[Ints, Ints, Ints]:
    """Units with the same noise and children: one of each kind, each unit's kind, and how many.

    Each kind of child has random numbers of 64 bits; the same sum of them, the same children.

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
