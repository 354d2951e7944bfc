"""How exact the best linear estimates (GLS) are of areas, and of single answers in single units.

Errors of siblings hang together, and so do those of cousins. With G_j what an area, which is any
union of leaves, takes of unit j (1 for a leaf in the area, 0 for one outside), from the leaves up

    G_p = sum over children j of A_j' G_j
    covariance += sum over j of (G_j - G_p)' S_j (G_j - G_p)

and at the whole covariance += G' V G, where A, S and V are those of tree.py: given its parents,
each level adds what its own answers leave open, and what it takes of its parents is passed up. Only
units that the area has a part of are looked at one by one, and their siblings class by class.

V of a unit depends on its class and on all units above it, and the variance of an answer on the
atoms that it counts (components.py): answers that count alike have the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.topdown.linear.components import Component, Components
from headcount.topdown.linear.matrices import (
    NOTHING,
    refuse_beyond_memory,
    spanned,
    without_rounding,
)
from headcount.topdown.linear.tree import ComponentErrors, NoiseTree, alike, given_parent

AREAS_AT_ONCE = 1000
"""Areas that are worked out together: each is looked at with all siblings of its parts."""


@dataclass(frozen=True, eq=False)
class AreaErrors:
    """The errors of the best linear estimates of some areas.

    where
        used    the components of the queries that are asked about
        parts   for each of them the covariance of each area, and what is unknown: areas with a
                basis of it
    """

    components: Components
    used: tuple[Component, ...]
    parts: tuple[tuple[Floats, Mapping[int, Floats]], ...]

    @classmethod
    def of(
        cls, tree: NoiseTree, components: Components, members: Members, queries: Iterable[str]
    ) -> AreaErrors:
        """Those of unions of leaves, for answers to some queries."""
        asked = list(queries)
        used = tuple(
            one
            for one in components.every
            if any(components.precision(query, one).any() for query in asked)
        )
        errors = (ComponentErrors(tree, components, one) for one in used)
        return cls(components, used, tuple(_areas(one, tree, members) for one in errors))

    def mean_variance(self, query: str) -> Floats:
        """The mean variance of a query's answers about each area; infinite if some are unknown."""
        spreads = [self.components.spread(query, one) for one in self.used]
        found = np.zeros(len(self.parts[0][0]))
        for spread, (covariance, _) in zip(spreads, self.parts, strict=True):
            own, sizes = (
                np.einsum("ij,nij->n", one, those)
                for one, those in ((spread, covariance), (np.abs(spread), np.abs(covariance)))
            )
            found += without_rounding(own, sizes)
        return self._unless_unknown(found, spreads)

    def variance(self, query: str, answer: Iterable[int]) -> Floats:
        """The variance of one answer about each area.

        It is named by the group that it asks for of each attribute.
        """
        answer = tuple(answer)
        rows = [self.components.of_answer(query, answer, one) for one in self.used]
        found = np.zeros(len(self.parts[0][0]))
        for (evens, contrasts), (covariance, _) in zip(rows, self.parts, strict=True):
            own, sizes = (
                np.einsum("i,nij,j->n", row, those, row)
                for row, those in ((evens, covariance), (np.abs(evens), np.abs(covariance)))
            )
            found += contrasts * without_rounding(own, sizes)
        touching = [evens[None, :] * (contrasts > 0) for evens, contrasts in rows]
        return self._unless_unknown(found, touching)

    def _unless_unknown(self, variance: Floats, rows: Sequence[Floats]) -> Floats:
        """Variances, infinite where rows on the components touch what is unknown."""
        for own, (_, unknown) in zip(rows, self.parts, strict=True):
            for area, basis in unknown.items():
                if np.abs(own @ basis).max(initial=0.0) > NOTHING * np.abs(own).max(initial=0.0):
                    variance[area] = inf
        return variance


@dataclass(frozen=True, eq=False)
class Members:
    """Which leaves each area has: pairs, sorted by area.

    where
        areas   how many areas there are
        area    of each pair
        leaf    of each pair
    """

    areas: int
    area: Ints
    leaf: Ints

    @classmethod
    def one(cls, inside: Flags) -> Members:
        """A single area of the leaves that are ``inside``."""
        leaf = np.flatnonzero(inside)
        return cls(1, np.zeros(len(leaf), dtype=np.int64), leaf)

    @classmethod
    def parts(cls, of_leaf: Ints, areas: int) -> Members:
        """Areas without a leaf in common, from the area of every leaf; -1 for none."""
        order = np.argsort(of_leaf, kind="stable")
        order = order[np.searchsorted(of_leaf[order], 0) :]
        return cls(areas, of_leaf[order], order)

    def pieces(self, many: int) -> Iterator[Members]:
        """A few areas after others."""
        for first in range(0, self.areas, many):
            areas = min(many, self.areas - first)
            start, end = np.searchsorted(self.area, (first, first + areas))
            yield Members(areas, self.area[start:end] - first, self.leaf[start:end])


def _areas(
    errors: ComponentErrors, tree: NoiseTree, members: Members
) -> tuple[Floats, dict[int, Floats]]:
    """The covariance of each area on one component, and what is unknown, a few areas at a time."""
    refuse_beyond_memory(members.areas, errors.size, of=f"{members.areas:,} areas")
    found = np.zeros((members.areas, errors.size, errors.size))
    unknown: dict[int, Floats] = {}
    for number, some in enumerate(members.pieces(AREAS_AT_ONCE)):
        first = number * AREAS_AT_ONCE
        covariance, not_known = _Areas(errors, tree, some).covariance()
        found[first : first + some.areas] = covariance
        unknown |= {first + area: basis for area, basis in not_known.items()}
    return found, unknown


@dataclass(frozen=True, eq=False)
class _Parts:
    """Units that areas have a part of: which area, the unit's class, what is taken of it, and how
    many units are the same in all of this. Sorted by area.
    """

    area: Ints
    unit_class: Ints
    taken: Floats
    times: Ints


class _Areas:
    """Covariances of areas on one component, added up level by level."""

    def __init__(self, errors: ComponentErrors, tree: NoiseTree, members: Members) -> None:
        self._errors, self._tree, self._members = errors, tree, members
        self._covariance = np.zeros((members.areas, errors.size, errors.size))
        self._unknown: list[tuple[Ints, Floats]] = []

    def covariance(self) -> tuple[Floats, dict[int, Floats]]:
        """Of each area, and what is unknown of some."""
        depth, members = len(self._tree.levels) - 1, self._members
        classes = self._tree.classes[depth]
        parent = self._parents(depth, members.leaf)
        above = self._tree.units(depth - 1) if depth else 1
        many = len(classes.units)
        place = (members.area * above + parent) * many + classes.of_unit[members.leaf]
        pairs, times = np.unique(place, return_counts=True)
        unit, unit_class = pairs // many, pairs % many
        taken = np.tile(np.eye(self._errors.size), (len(pairs), 1, 1))
        parts = _Parts(unit // above, unit_class, taken, times)
        for below in range(depth, 0, -1):
            number, parts = self._passed_up(below, unit, parts)
            above = self._tree.units(below - 2) if below > 1 else 1
            unit = parts.area * above + self._parents(below - 1, number)
        self._add(0, parts)
        return self._covariance, self._not_known()

    def _parents(self, depth: int, units: Ints) -> Ints:
        if not depth:
            return np.zeros(len(units), dtype=np.int64)
        return self._tree.parents[depth][units].astype(np.int64)

    def _passed_up(self, depth: int, parent: Ints, parts: _Parts) -> tuple[Ints, _Parts]:
        """The parents of some units, and what areas take of them.

        ``parent`` is that of each unit, by area and number.
        """
        links, gain = self._tree.classes[depth - 1], self._errors.link_gains(depth)
        pairs, which = np.unique(parent, return_inverse=True)
        area, number = np.divmod(pairs, self._tree.units(depth - 1))
        classes = links.of_unit[number]
        at = links.link(classes[which], parts.unit_class, len(self._errors.levels[depth].unknown))
        turned = parts.times[:, None, None] * (gain[at].swapaxes(-1, -2) @ parts.taken)
        passed = np.zeros((len(pairs), self._errors.size, self._errors.size))
        np.add.at(passed, which, turned)
        left = parts.taken - passed[which]
        self._add(depth, _Parts(parts.area, parts.unit_class, left, parts.times))
        owner, link = links.links(classes)
        rest = links.times[link]
        order = np.searchsorted(owner * len(links.parent) + link, which * len(links.parent) + at)
        np.subtract.at(rest, order, parts.times)
        some = np.flatnonzero(rest)
        owner, link = owner[some], link[some]
        self._add(depth, _Parts(area[owner], links.child[link], passed[owner], rest[some]))
        return number, _Parts(area, classes, passed, np.ones(len(number), dtype=np.int64))

    def _add(self, depth: int, parts: _Parts) -> None:
        """G' S G of some units, and what is unknown of them."""
        if not len(parts.area):
            return
        level, back = self._errors.levels[depth], parts.taken.swapaxes(-1, -2)
        found = back @ level.covariance[parts.unit_class] @ parts.taken
        found = parts.times[:, None, None] * found
        first = np.flatnonzero(np.diff(parts.area, prepend=-1))
        self._covariance[parts.area[first]] += np.add.reduceat(found, first, axis=0)
        for (number,), own in alike(level.unknown[parts.unit_class]):
            if number:
                turned = back[own] @ self._errors.basis(number)
                some = np.abs(turned).max(axis=(1, 2)) > NOTHING
                self._unknown.append((parts.area[own][some], turned[some]))

    def _not_known(self) -> dict[int, Floats]:
        """A basis of what is unknown of each area of which something is."""
        by_area: dict[int, list[Floats]] = {}
        for areas, turned in self._unknown:
            for area, directions in zip(areas.tolist(), turned, strict=True):
                by_area.setdefault(area, []).append(directions)
        return {area: spanned(np.hstack(every)) for area, every in by_area.items()}


@dataclass(frozen=True, eq=False)
class AnswerClasses:
    """Answers of a query that have the same variance.

    where
        of_answer   the class of each answer, in the order of the attributes
        examples    an answer of each class, by the group of each attribute that it asks for
    """

    of_answer: Ints
    examples: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, components: Components, query: str) -> AnswerClasses:
        """Those of a query: the groups that it asks for, and of single levels their atoms."""
        groups = components.groups[query]
        index = np.indices([int(group.max()) + 1 for group in groups]).reshape(len(groups), -1)
        classes = [
            axis.atom[at] if len(np.unique(group)) == axis.levels else at
            for axis, group, at in zip(components.axes, groups, index, strict=True)
        ]
        if not classes:
            return cls(np.zeros(1, dtype=np.int64), ((),))
        _, some, of_answer = np.unique(
            np.stack(classes), axis=1, return_index=True, return_inverse=True
        )
        examples = tuple(tuple(int(at[one]) for at in index) for one in some)
        return cls(of_answer.reshape(-1), examples)


@dataclass(frozen=True, eq=False)
class AnswerVariances:
    """The variance of each answer's best linear estimate in each unit of a depth.

    Units with the same errors are done once, and so are answers: 8 million blocks are few classes.

    where
        of_unit     the class of each unit
        of_answer   the class of each answer, in the order of the attributes
        variance    classes of units x classes of answers; infinite where the answers do not tell
    """

    of_unit: Ints
    of_answer: Ints
    variance: Floats

    @classmethod
    def of(cls, tree: NoiseTree, components: Components, query: str, depth: int) -> AnswerVariances:
        """Of a query in every unit of a depth."""
        answers, paths = AnswerClasses.of(components, query), unit_paths(tree, depth)
        found = np.zeros((len(paths[-1].units), len(answers.examples)))
        for component in components.every:
            rows = [components.of_answer(query, one, component) for one in answers.examples]
            evens = np.array([even for even, _ in rows])
            contrasts = np.array([length for _, length in rows])
            if not contrasts.any():
                continue
            errors = ComponentErrors(tree, components, component)
            covariance, unknown = _covariances(errors, tree, paths)
            own, sizes = (
                np.einsum("ck,ukl,cl->uc", row, those, row, optimize=True)
                for row, those in ((evens, covariance), (np.abs(evens), np.abs(covariance)))
            )
            found += contrasts * without_rounding(own, sizes)
            for (number,), own in alike(unknown):
                touched = np.abs(evens @ errors.basis(number)).max(axis=1, initial=0.0)
                lost = (touched > NOTHING * np.abs(evens).max(axis=1)) & (contrasts > 0)
                found[np.ix_(own, np.flatnonzero(lost))] = np.inf
        return cls(paths[-1].of_unit, answers.of_answer, found)

    def units(self, some: range) -> Floats:
        """Of some units: units x answers, by the attributes in their order."""
        return self.variance[self.of_unit[some.start : some.stop]][:, self.of_answer]


@dataclass(frozen=True, eq=False)
class _PathClasses:
    """Units of a depth that are alike, and whose ancestors are: they have the same errors.

    where
        of_unit   the class of each unit
        units     a unit of each class
    """

    of_unit: Ints
    units: Ints


def unit_paths(tree: NoiseTree, depth: int) -> list[_PathClasses]:
    """The classes of units at every depth down to one."""
    found = [_PathClasses(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))]
    for at in range(1, depth + 1):
        classes = tree.classes[at]
        pairs = found[-1].of_unit[tree.parents[at]] * len(classes.units) + classes.of_unit
        _, units, of_unit = np.unique(pairs, return_index=True, return_inverse=True)
        found.append(_PathClasses(of_unit, units))
    return found


def _covariances(
    errors: ComponentErrors, tree: NoiseTree, paths: list[_PathClasses]
) -> tuple[Floats, Ints]:
    """V of a unit of each class of the last depth, and the number of what is unknown of it."""
    many = len(paths[-1].units)
    refuse_beyond_memory(many, errors.size, of=f"{many:,} classes of units")
    covariance, unknown = errors.levels[0].covariance, errors.levels[0].unknown
    for at in range(1, len(paths)):
        units = paths[at].units
        above = paths[at - 1].of_unit[tree.parents[at][units]]
        links = errors.links(at, units)
        covariance = given_parent(
            covariance[above],
            errors.others(at, links),
            errors.levels[at].covariance[tree.classes[at].of_unit[units]],
            errors.link_gains(at)[links],
        )
        unknown = errors.unknown_of(at, links, unknown[above])
    return covariance, unknown
