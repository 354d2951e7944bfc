"""A tree of places with its noise, and covariances of its best linear estimates (GLS).

Two leaves are equivalent if their noise is the same; two units above, if their noise is and they
have as many children of each class. Equivalent units have the same errors. A nation of eight
million blocks has some hundred classes of block groups, so what depends on classes alone is worked
out once for each.

With own precision H_u and children j, from the leaves up (all matrices on one component):

    C_u = sum over j of S_j,    S_u = (C_u^-1 + H_u)^-1,    at a leaf S_u = H_u^-1

and from the whole down

    A_j = S_j C_p^-1,    V_j = A_j V_p A_j' + (I - A_j) S_j (I - A_j)' + A_j (C_p - S_j) A_j'

where
    S_u   the covariance of the estimate from answers in u and below
    V_u   that of the estimate from all answers; at the whole V = S
    p     the parent of j

A release of TopDown is made on the way down alone: no unit sees an answer from below it. Its errors
are V with S_u = H_u^-1 in every unit (``descending``), before counts are made whole and not
negative.

The estimates themselves go the same way. A query may be exact at a level, and a unit may have no
answers: see matrices.py. S and C depend on a unit's class alone, and V, which is linear in that of
the parent, is averaged over the units of a class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.topdown.linear.components import Component, Components
from headcount.topdown.linear.matrices import (
    NOTHING,
    Known,
    complement,
    largest,
    nothing_known,
    pseudo_inverse,
    refuse_beyond_memory,
    spanned,
    symmetric,
    without_rounding,
)

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
class _UnitClasses:
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
    def classes(self) -> tuple[_UnitClasses, ...]:
        """The classes of every level, from the whole down."""
        found = [self._leaves()]
        for depth in range(len(self.parents) - 2, -1, -1):
            found.insert(0, self._above(depth, found[0]))
        return tuple(found)

    def _noise(self, depth: int) -> Ints:
        own = self.levels[depth].of_unit
        return np.zeros(self.units(depth), dtype=np.int64) if own is None else own.astype(np.int64)

    def _leaves(self) -> _UnitClasses:
        leaf = len(self.parents) - 1
        of_unit = self._noise(leaf)
        alike = self.levels[leaf].of_unit is None
        units = np.array([self.units(leaf)]) if alike else np.bincount(of_unit)
        noise, none = np.flatnonzero(units), np.zeros(0, dtype=np.int64)
        if len(noise) < len(units):
            of_unit = np.searchsorted(noise, of_unit)
        return _UnitClasses(of_unit, noise, units[noise], none, none, none, none)

    def _above(self, depth: int, below: _UnitClasses) -> _UnitClasses:
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
        return _UnitClasses(
            of_unit,
            noise[some],
            times,
            parent,
            pairs % many,
            number,
            np.searchsorted(parent, np.arange(len(some))),
        )


def _same(noise: Ints, below: _UnitClasses, start: Ints) -> tuple[Ints, Ints, Ints]:
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


def _of_sum(classes: _UnitClasses, below: Floats) -> Floats:
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


EQUAL = 9
"""Matrices of counts of cells that agree in so many decimals are equal."""
NEARLY_ALL = 0.999
"""A child with more of its parent's C is looked at by itself: differences would lose digits."""


class _Directions:
    """Sets of unknown directions of one component, each with a number; number 0 is none."""

    def __init__(self, size: int) -> None:
        self.bases: list[Floats] = [np.zeros((size, 0))]

    def number(self, basis: Floats) -> int:
        """The number of what some orthonormal directions span."""
        projector = basis @ basis.T
        for number, one in enumerate(self.bases):
            if one.shape == basis.shape and np.allclose(one @ one.T, projector, atol=1e-9):
                return number
        self.bases.append(basis)
        return len(self.bases) - 1

    def together(self, numbers: Sequence[int] | Ints) -> int:
        """The number of what several of them span."""
        return self.number(spanned(np.hstack([self.bases[k] for k in numbers])))


@dataclass(frozen=True, eq=False)
class _LevelKnown:
    """What the answers of units and of those below say, for each class, on one component.

    where
        covariance   S
        unknown      the number of its unknown directions
        children     C, summed over children; none at the leaf
        below        how many children have each number of unknown directions
        together     the number of what these span
    """

    covariance: Floats
    unknown: Ints
    children: Floats
    below: Ints
    together: Ints


@dataclass(frozen=True, eq=False)
class _Gains:
    """What children make of their parent's estimate, for links that are alike.

    where
        links    positions of links between classes
        gain     A
        shared   the part N_j N_j' K^+ of it, of children that are unknown along some directions
        stays    a basis of what stays unknown of the child whatever is known of the parent
    """

    links: Ints
    gain: Floats
    shared: Floats
    stays: Floats


class ComponentErrors:
    """The errors of the best linear estimate on one component of the cells.

    ``descending`` those of the estimate that looks at no answer from below.
    """

    def __init__(
        self,
        tree: NoiseTree,
        components: Components,
        component: Component,
        *,
        descending: bool = False,
    ) -> None:
        self._tree, self.size, self._descending = tree, component.size, descending
        self._component, self._components = component, components
        # S, C and its inverse of each class, and what each link gains.
        held = sum(3 * len(one.noise) + len(one.parent) for one in tree.classes)
        many = sum(len(one.noise) for one in tree.classes)
        refuse_beyond_memory(held, self.size, of=f"{many:,} classes of units")
        self._directions = _Directions(self.size)
        self._link_gains: dict[int, Floats] = {}
        self._inverses: dict[int, Floats] = {}
        below: _LevelKnown | None = None
        self.levels: list[_LevelKnown] = []
        for depth in reversed(range(len(tree.levels))):
            below = self._joined(depth, below)
            self.levels.insert(0, below)

    def basis(self, number: int) -> Floats:
        """The unknown directions of a number."""
        return self._directions.bases[number]

    def precisions(self, level: LevelNoise) -> list[Floats]:
        """H of each class of units."""
        return [
            sum(
                (w * self._components.precision(q, self._component) for q, w in one.items()),
                start=np.zeros((self.size, self.size)),
            )
            for one in level.weights
        ]

    def _exact(self, level: LevelNoise) -> Floats:
        """A basis of what is known without noise."""
        known = [self._components.precision(q, self._component) for q in level.exact]
        return spanned(np.hstack([np.zeros((self.size, 1)), *known]))

    def _joined(self, depth: int, below: _LevelKnown | None) -> _LevelKnown:
        """A level's classes, from those of the level below."""
        classes, size = self._tree.classes[depth], self.size
        many = len(classes.noise)
        if below is None:
            children = np.zeros((many, size, size))
            numbers = np.zeros((many, 1), dtype=np.int64)
            together = np.full(many, self._directions.number(np.eye(size)))
        else:
            children, numbers, together = self._summed(classes, below)
        level = self._tree.levels[depth]
        precisions, exact = self.precisions(level), self._exact(level)
        covariance = np.empty((many, size, size))
        unknown = np.empty(many, dtype=np.int64)
        for (noise, number), own in alike(classes.noise, together):
            own_alone = below is None or self._descending
            before = self._below(children[own], number, leaf=own_alone)
            after = before.with_exact(exact).with_answers(precisions[noise])
            covariance[own] = after.covariance
            unknown[own] = self._directions.number(after.unknown)
        return _LevelKnown(covariance, unknown, children, numbers, together)

    def _below(self, children: Floats, number: int, *, leaf: bool) -> Known:
        """What units' children say of them together."""
        if leaf:
            return nothing_known(self.size, len(children))
        unknown = self.basis(number)
        known = complement(unknown)
        if not number:  # nearly always
            return Known(children, known, unknown)
        return Known(known.T @ children @ known, known, unknown)

    def _summed(self, classes: _UnitClasses, below: _LevelKnown) -> tuple[Floats, Ints, Ints]:
        """Sums over children, how many have which unknown directions, and what these span."""
        adding = _by_link(classes, classes.times, len(below.unknown))
        children = _times(adding, below.covariance)
        flags = below.unknown[:, None] == np.arange(len(self._directions.bases))
        numbers = np.asarray(adding @ flags.astype(np.int64))
        together = np.zeros(len(classes.first), dtype=np.int64)
        if below.unknown.any():
            patterns, which = np.unique(numbers > 0, axis=0, return_inverse=True)
            spans = [self._directions.together(np.flatnonzero(one)) for one in patterns]
            together = np.array(spans, dtype=np.int64)[which.reshape(-1)]
        return children, numbers, together

    def _around(self, depth: int) -> tuple[_UnitClasses, _LevelKnown, _LevelKnown]:
        """The classes above a level, with their links to its own; what is known of both levels."""
        return self._tree.classes[depth - 1], self.levels[depth], self.levels[depth - 1]

    def gains(self, depth: int) -> Iterator[_Gains]:
        """The gains of a level's units, for the links of the level above.

        Where children are unknown along some directions,

            A_j = S_j R C_R^-1 R' + N_j N_j' K^+ (I - C R C_R^-1 R'),   K = sum over j of N_j N_j'

        where N_j is a basis of what is unknown in j, R one of what is known in every child, and C_R
        is C there. What one child alone does not know is known from the parent and the others.
        """
        classes, here, above = self._around(depth)
        inverse = self._inverse(depth - 1)
        unknown, times = here.unknown[classes.child], above.below[classes.parent]
        for (number, *many), own in alike(unknown, *times.T[1:]):
            parent, basis = classes.parent[own], self.basis(number)
            gain = here.covariance[classes.child[own]] @ inverse[parent]
            shared, stays = np.zeros((self.size, self.size)), basis
            if number:
                bases = [self.basis(k) for k in range(1, len(many) + 1)]
                parts = (t * one @ one.T for t, one in zip(many, bases, strict=True))
                sums = sum(parts, start=shared)
                shared = basis @ basis.T @ pseudo_inverse(symmetric(sums), scale=largest(sums))
                gain = gain + shared @ (
                    np.eye(self.size) - above.children[parent] @ inverse[parent]
                )
                values, vectors = np.linalg.eigh(symmetric(basis.T @ shared @ basis))
                stays = basis @ vectors[:, values < 1 - NOTHING]
            yield _Gains(own, gain, shared, stays)

    def link_gains(self, depth: int) -> Floats:
        """A of every link to a level's classes."""
        if depth not in self._link_gains:
            links = len(self._tree.classes[depth - 1].parent)
            found = np.empty((links, self.size, self.size))
            for one in self.gains(depth):
                found[one.links] = one.gain
            self._link_gains[depth] = found
        return self._link_gains[depth]

    def links(self, depth: int, units: Ints) -> Ints:
        """The link of some units at a depth to their parents."""
        links = self._tree.classes[depth - 1]
        parent = links.of_unit[self._tree.parents[depth][units]]
        child = self._tree.classes[depth].of_unit[units]
        return links.link(parent, child, len(self.levels[depth].unknown))

    def unknown_of(self, depth: int, links: Ints, above: Ints) -> Ints:
        """The number of what is unknown of some units, by their links, from that of parents."""
        group = np.empty(len(self._tree.classes[depth - 1].parent), dtype=np.int64)
        gains = list(self.gains(depth))
        for number, one in enumerate(gains):
            group[one.links] = number
        found = np.empty(len(links), dtype=np.int64)
        for (number, before), own in alike(group[links], above):
            unsure = [gains[number].stays, gains[number].shared @ self.basis(before)]
            found[own] = self._directions.number(spanned(np.hstack(unsure)))
        return found

    def _inverse(self, depth: int) -> Floats:
        """R C_R^-1 R' of each class at a depth."""
        if depth not in self._inverses:
            self._inverses[depth] = self._inverted(self.levels[depth])
        return self._inverses[depth]

    def _inverted(self, level: _LevelKnown) -> Floats:
        inverse = np.empty_like(level.children)
        for (number,), own in alike(level.together):
            if not number and len(own) == len(inverse):  # nearly always
                return pseudo_inverse(level.children, scale=largest(level.children))
            known, children = complement(self.basis(number)), level.children[own]
            inside = pseudo_inverse(known.T @ children @ known, scale=largest(children))
            inverse[own] = known @ inside @ known.T
        return inverse

    def down(self) -> Iterator[tuple[int, Floats, Ints]]:
        """Each depth with the mean V of every class, and the number of what is unknown of some."""
        covariance, unknown = self.levels[0].covariance, self.levels[0].unknown
        yield 0, covariance, unknown
        for depth in range(1, len(self.levels)):
            covariance, unknown = self._given_parents(depth, covariance, unknown)
            yield depth, covariance, unknown

    def _given_parents(self, depth: int, above: Floats, unknown_above: Ints) -> tuple[Floats, Ints]:
        """The mean V of a level's classes, from that of their parents' classes.

        Of children that are known in every direction it is

            S_j mean(C_p^-1 V_p C_p^-1) S_j + mean(I - S_j C_p^-1) S_j

        over their parents. Where one child is nearly all of C_p the second mean would be a
        difference of equals, and has its own form (``given_parent``), link by link.
        """
        classes, here = self._tree.classes[depth - 1], self.levels[depth]
        own_units = self._tree.classes[depth].units
        share = classes.units[classes.parent] * classes.times / own_units[classes.child]
        unknown = np.zeros(len(own_units), dtype=np.int64)
        apart = self._nearly_alone(depth) | (here.unknown[classes.child] > 0)
        inverse, s = self._inverse(depth - 1), here.covariance
        mean = _by_link(classes, np.where(apart, 0.0, share), len(own_units)).T
        shares = mean @ np.ones(len(inverse))
        covariance = s @ _times(mean, inverse @ above @ inverse - inverse) @ s
        covariance += shares[:, None, None] * s
        if apart.any():
            self._add_apart(depth, np.where(apart, share, 0.0), above, covariance)
        for one in self.gains(depth) if here.unknown.any() else ():
            parent, child = classes.parent[one.links], classes.child[one.links]
            if here.unknown[child[0]]:
                self._add_unsure(one, parent, child, unknown_above, unknown)
        return covariance, unknown

    def _add_apart(self, depth: int, share: Floats, above: Floats, covariance: Floats) -> None:
        """Add V of some children, link by link: those that have a share."""
        classes, here = self._tree.classes[depth - 1], self.levels[depth]
        links = np.flatnonzero(share)
        parent, child = classes.parent[links], classes.child[links]
        own, others = here.covariance[child], self.others(depth, links)
        if here.unknown.any():
            gain = self.link_gains(depth)[links]
        else:
            gain = own @ self._inverse(depth - 1)[parent]
        given = given_parent(above[parent], others, own, gain)
        np.add.at(covariance, child, share[links, None, None] * given)

    def _add_unsure(
        self, one: _Gains, parent: Ints, child: Ints, unknown_above: Ints, unknown: Ints
    ) -> None:
        """Add what stays unknown of children that are unknown along some directions."""
        for (number, before), own in alike(unknown_above[parent], unknown[child]):
            # Along what is unknown of the parent a gain has its second part only.
            unsure = [self.basis(before), one.stays, one.shared @ self.basis(number)]
            unknown[child[own]] = self._directions.number(spanned(np.hstack(unsure)))

    def others(self, depth: int, links: Ints) -> Floats:
        """For some links to a level's classes the sum of S over the child's siblings, C_p - S_j.

        Where one child is far less exact than its siblings the difference would lose what they
        are: there it is added up anew.
        """
        classes, here, above = self._around(depth)
        own = here.covariance[classes.child[links]]
        found: Floats = above.children[classes.parent[links]] - own
        alone = np.flatnonzero(self._nearly_alone(depth)[links])
        if len(alone):
            which, link = classes.links(classes.parent[links[alone]])
            times = classes.times[link] - (link == links[alone[which]])
            parts = here.covariance[classes.child[link]] * times[:, None, None]
            first = np.searchsorted(which, np.arange(len(alone)))
            found[alone] = np.add.reduceat(parts, first, axis=0)
        return found

    def _nearly_alone(self, depth: int) -> Flags:
        """For each link whether the child has nearly all of C_p on some coordinate."""
        classes, here, above = self._around(depth)
        own, whole = (np.einsum("nii->ni", one) for one in (here.covariance, above.children))
        few = (NEARLY_ALL * whole < own.max(axis=0)).any(axis=1)  # no child has more than that
        found: Flags = (classes.times == 1) & few[classes.parent]
        some = np.flatnonzero(found)
        most = own[classes.child[some]] > NEARLY_ALL * whole[classes.parent[some]]
        found[some] = most.any(axis=1)
        return found

    def mean_variances(self, spreads: Floats, covariance: Floats, unknown: Ints) -> Floats:
        """trace(spread V) of each class and spread; infinite where that depends on what is unknown.

        where
            spreads   one for each query: queries x size x size
        """
        flat, own = (one.reshape(len(one), -1) for one in (spreads, covariance))
        found = without_rounding(own @ flat.T, np.abs(own) @ np.abs(flat).T)
        for (number,), some in alike(unknown):
            touched = np.abs(spreads @ self.basis(number)).max(axis=(1, 2), initial=0.0)
            lost = touched > NOTHING * np.abs(flat).max(axis=1)
            found[np.ix_(some, np.flatnonzero(lost))] = np.inf
        return found


def given_parent(above: Floats, others: Floats, own: Floats, gain: Floats) -> Floats:
    """V_j = A_j (V_p + C_p - S_j) A_j' + (I - A_j) S_j (I - A_j)': sums, in which nothing cancels.

    where
        above    V_p
        others   C_p - S_j, the sum of S over siblings
        own      S_j
        gain     A_j
    """
    rest = np.eye(gain.shape[-1]) - gain
    back, rest_back = gain.swapaxes(-1, -2), rest.swapaxes(-1, -2)
    return symmetric(gain @ (above + others) @ back + rest @ own @ rest_back)


def _by_link(classes: _UnitClasses, numbers: Floats | Ints, children: int) -> Any:
    """Numbers of links as a sparse matrix, classes x those of children; links are in its order."""
    from scipy.sparse import csr_array

    ends = np.append(classes.first, len(classes.child))
    return csr_array((numbers, classes.child, ends), shape=(len(classes.first), children))


def _times(matrix: Any, classes: Floats) -> Floats:
    """A sparse matrix times a matrix of each class."""
    found: Floats = np.asarray(matrix @ classes.reshape(len(classes), -1))
    return found.reshape(-1, *classes.shape[1:])


def alike(*columns: Ints) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """The rows that have the same numbers in every column, with these."""
    varied = [one for one in columns if len(one) and (one != one[0]).any()]
    if not varied:
        if len(columns[0]):
            yield tuple(int(one[0]) for one in columns), np.arange(len(columns[0]))
        return
    _, some, which = np.unique(
        np.stack(varied, axis=1), axis=0, return_index=True, return_inverse=True
    )
    for number, row in enumerate(some):
        own = np.flatnonzero(which.reshape(-1) == number)
        yield tuple(int(one[row]) for one in columns), own


def level_variances(
    tree: NoiseTree, components: Components, queries: Sequence[str], *, descending: bool = False
) -> Mapping[tuple[int, str], float]:
    """For each depth and query the mean variance of the answers' best linear estimates, over units.

    ``descending`` of those that a descent makes, which looks at no answer from below.

    V is averaged over units first, which is far less work.
    """
    found: dict[tuple[int, str], float] = {}
    for errors, asked, spreads in _used(tree, components, queries, descending):
        for depth, covariance, unknown in errors.down():
            units = tree.classes[depth].units
            mean = np.tensordot(units / units.sum(), covariance, axes=1)
            numbers = np.unique(unknown)  # infinite if it is so in any unit
            every = errors.mean_variances(
                spreads, np.broadcast_to(mean, (len(numbers), *mean.shape)), numbers
            )
            for query, part in zip(asked, every.max(axis=0).tolist(), strict=True):
                found[depth, query] = found.get((depth, query), 0.0) + part
    return found


def _used(
    tree: NoiseTree, components: Components, queries: Sequence[str], descending: bool = False
) -> Iterator[tuple[ComponentErrors, list[str], Floats]]:
    """Errors of components, once for equal ones; the queries that ask about them, with spreads."""
    for those in _equal(components, queries):
        asked = [query for query in queries if components.precision(query, those[0]).any()]
        if asked:
            spreads = [[components.spread(query, one) for one in those] for query in asked]
            errors = ComponentErrors(tree, components, those[0], descending=descending)
            yield errors, asked, np.array(spreads).sum(axis=1)


def _equal(components: Components, queries: Sequence[str]) -> Iterable[list[Component]]:
    """Components with the same matrices, which have the same errors."""
    found: dict[bytes, list[Component]] = {}
    for one in components.every:
        matrices = np.stack([components.precision(query, one) for query in queries])
        found.setdefault(np.round(matrices, EQUAL).tobytes(), []).append(one)
    return found.values()
