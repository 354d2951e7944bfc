"""How exact the best linear estimates of areas are: any unions of units.

Errors of siblings hang together, and so do those of cousins. With G_j what the area takes of unit j
(1 for a leaf in the area, 0 for one outside), from the leaves up

    G_p = sum over children j of A_j' G_j
    covariance += sum over j of (G_j - G_p)' S_j (G_j - G_p)

and at the whole covariance += G' V G, where A, S and V are those of tree.py: given its parents,
each level adds what its own answers leave open, and what it takes of its parents is passed up. Only
units that the area has a part of are looked at one by one, and their siblings kind by kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.topdown.linear.components import Component, Components
from headcount.topdown.linear.kinds import NoiseTree
from headcount.topdown.linear.known import NOTHING, spanned, without_rounding
from headcount.topdown.linear.limits import refuse_beyond_memory
from headcount.topdown.linear.tree import ComponentErrors, alike

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
    """Units that areas have a part of: which area, the unit's kind, what is taken of it, and how
    many units are the same in all of this. Sorted by area.
    """

    area: Ints
    kind: Ints
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
        kinds = self._tree.kinds[depth]
        parent = self._parents(depth, members.leaf)
        above = self._tree.units(depth - 1) if depth else 1
        many = len(kinds.units)
        pairs, times = np.unique(
            (members.area * above + parent) * many + kinds.of_unit[members.leaf], return_counts=True
        )
        unit, kind = pairs // many, pairs % many
        taken = np.tile(np.eye(self._errors.size), (len(pairs), 1, 1))
        parts = _Parts(unit // above, kind, taken, times)
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
        links, gain = self._tree.kinds[depth - 1], self._errors.link_gains(depth)
        pairs, which = np.unique(parent, return_inverse=True)
        area, number = np.divmod(pairs, self._tree.units(depth - 1))
        kinds = links.of_unit[number]
        at = links.link(kinds[which], parts.kind, len(self._errors.levels[depth].unknown))
        turned = parts.times[:, None, None] * (gain[at].swapaxes(-1, -2) @ parts.taken)
        passed = np.zeros((len(pairs), self._errors.size, self._errors.size))
        np.add.at(passed, which, turned)
        left = parts.taken - passed[which]
        self._add(depth, _Parts(parts.area, parts.kind, left, parts.times))
        owner, link = links.links(kinds)
        rest = links.times[link]
        order = np.searchsorted(owner * len(links.parent) + link, which * len(links.parent) + at)
        np.subtract.at(rest, order, parts.times)
        some = np.flatnonzero(rest)
        owner, link = owner[some], link[some]
        self._add(depth, _Parts(area[owner], links.child[link], passed[owner], rest[some]))
        return number, _Parts(area, kinds, passed, np.ones(len(number), dtype=np.int64))

    def _add(self, depth: int, parts: _Parts) -> None:
        """G' S G of some units, and what is unknown of them."""
        if not len(parts.area):
            return
        level, back = self._errors.levels[depth], parts.taken.swapaxes(-1, -2)
        found = parts.times[:, None, None] * (back @ level.covariance[parts.kind] @ parts.taken)
        first = np.flatnonzero(np.diff(parts.area, prepend=-1))
        self._covariance[parts.area[first]] += np.add.reduceat(found, first, axis=0)
        for (number,), own in alike(level.unknown[parts.kind]):
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
