"""How exact the best linear estimate of an area is: any union of units.

Errors of siblings hang together, and so do those of cousins. With G_j what the area takes of unit j
(1 for a leaf in the area, 0 for one outside), from the leaves up

    G_p = sum over children j of A_j' G_j
    covariance += sum over j of (G_j - G_p)' S_j (G_j - G_p)

and at the whole covariance += G' V G, where A, S and V are those of tree.py: given its parents,
each level adds what its own answers leave open, and what it takes of its parents is passed up. Only
units that the area has a part of are looked at one by one, and their siblings kind by kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import numpy as np

from headcount.accuracy.components import Components
from headcount.accuracy.kinds import NoiseTree
from headcount.accuracy.known import NOTHING, spanned
from headcount.accuracy.tree import ComponentErrors, alike
from headcount.arrays import Flags, Floats, Ints


@dataclass(frozen=True, eq=False)
class AreaErrors:
    """The errors of the best linear estimate of one area.

    where
        parts   for each component the covariance, and a basis of what is unknown
    """

    components: Components
    parts: tuple[tuple[Floats, Floats], ...]

    @classmethod
    def of(cls, tree: NoiseTree, components: Components, inside: Flags) -> AreaErrors:
        """Those of the leaves that are ``inside``."""
        errors = (ComponentErrors(tree, components, one) for one in components.every)
        return cls(components, tuple(_Area(one, tree).covariance(inside) for one in errors))

    def mean_variance(self, query: str) -> float:
        """The mean variance of a query's answers about the area; infinite if some are unknown."""
        found = 0.0
        for component, (covariance, unknown) in zip(self.components.every, self.parts, strict=True):
            spread = self.components.spread(query, component)
            if _touches(spread, unknown):
                return inf
            found += float(np.sum(spread * covariance))
        return max(found, 0.0)

    def variance(self, query: str, answer: Iterable[int]) -> float:
        """The variance of one answer, named by the group that it asks for of each attribute."""
        found, answer = 0.0, tuple(answer)
        for component, (covariance, unknown) in zip(self.components.every, self.parts, strict=True):
            evens, contrasts = self.components.of_answer(query, answer, component)
            if contrasts > 0 and _touches(evens[None, :], unknown):
                return inf
            found += contrasts * float(evens @ covariance @ evens)
        return max(found, 0.0)


def _touches(rows: Floats, unknown: Floats) -> bool:
    return bool(np.abs(rows @ unknown).max(initial=0.0) > NOTHING * np.abs(rows).max(initial=0.0))


class _Area:
    """An area's covariance on one component, added up level by level."""

    def __init__(self, errors: ComponentErrors, tree: NoiseTree) -> None:
        self._errors, self._tree = errors, tree
        self._covariance = np.zeros((errors.size, errors.size))
        self._unknown = [np.zeros((errors.size, 0))]

    def covariance(self, inside: Flags) -> tuple[Floats, Floats]:
        """Of the leaves that are inside, and a basis of what is unknown."""
        if not inside.any():
            return self._covariance, self._unknown[0]
        depth = len(self._tree.levels) - 1
        units = np.flatnonzero(inside)
        parents = self._tree.parents[depth][units] if depth else np.zeros(1, dtype=np.int64)
        kind = self._tree.kinds[depth].of_unit[units]
        many = len(self._tree.kinds[depth].units)
        pairs, times = np.unique(parents.astype(np.int64) * many + kind, return_counts=True)
        parent, kind = pairs // many, pairs % many
        taken = np.tile(np.eye(self._errors.size), (len(pairs), 1, 1))
        for below in range(depth, 0, -1):
            number, passed = self._passed_up(below, parent, kind, taken, times)
            kind, taken = self._tree.kinds[below - 1].of_unit[number], passed
            above = self._tree.parents[below - 1]
            parent = above[number].astype(np.int64) if below > 1 else np.zeros(1, dtype=np.int64)
            times = np.ones(len(number), dtype=np.int64)
        self._add(0, kind, taken, times)
        return self._covariance, spanned(np.hstack(self._unknown))

    def _passed_up(
        self, depth: int, parent: Ints, kind: Ints, taken: Floats, times: Ints
    ) -> tuple[Ints, Floats]:
        """The parents of some units, and what the area takes of them.

        ``times`` says how many units each of these stands for.
        """
        links, gain = self._tree.kinds[depth - 1], self._gain(depth)
        units, which = np.unique(parent, return_inverse=True)
        kinds = self._tree.kinds[depth - 1].of_unit[units]
        at = links.link(kinds[which], kind, len(self._errors.levels[depth].unknown))
        passed = np.zeros((len(units), *taken.shape[1:]))
        np.add.at(passed, which, times[:, None, None] * (gain[at].swapaxes(-1, -2) @ taken))
        self._add(depth, kind, taken - passed[which], times)
        owner, link = links.links(kinds)
        rest = links.times[link]
        order = np.searchsorted(owner * len(links.parent) + link, which * len(links.parent) + at)
        np.subtract.at(rest, order, times)
        some = np.flatnonzero(rest)
        self._add(depth, links.child[link[some]], passed[owner[some]], rest[some])
        return units, passed

    def _gain(self, depth: int) -> Floats:
        """A of every link."""
        links = self._tree.kinds[depth - 1]
        found = np.empty((len(links.parent), self._errors.size, self._errors.size))
        for one in self._errors.gains(depth):
            found[one.links] = one.gain
        return found

    def _add(self, depth: int, kind: Ints, taken: Floats, times: Ints) -> None:
        """G' S G of some units, and what is unknown of them."""
        level = self._errors.levels[depth]
        back = taken.swapaxes(-1, -2)
        self._covariance += np.tensordot(times, back @ level.covariance[kind] @ taken, axes=1)
        for (number,), own in alike(level.unknown[kind]):
            if number:
                turned = back[own] @ self._errors.basis(number)
                self._unknown.append(np.moveaxis(turned, 0, 1).reshape(self._errors.size, -1))
