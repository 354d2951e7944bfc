"""The best linear estimates themselves: generalised least squares over a tree of noisy answers.

From the leaves up, and then from the whole down (S, C, A are those of tree.py),

    x_u = p_u + S_u (z_u - H_u p_u),       z_u = sum over q of w_q Q_q' y_q
    x~_j = x_j + A_j (x~_p - sum over siblings i of x_i)

where
    p_u    what is known before the answers of u: the sum of its children's x, moved to exact ones
    y_q    the noisy answers of u to query q
    x~_u   the estimate from all answers; at the whole it is x

Estimates of one query need only the components of the cells that it looks at: all contrasts of the
attributes that it asks for, and of the others the evens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from headcount.accuracy.components import Component, Components
from headcount.accuracy.kinds import NoiseTree
from headcount.accuracy.known import complement, largest, pseudo_inverse, spanned
from headcount.accuracy.tree import ComponentErrors, alike
from headcount.arrays import Floats, Ints
from headcount.tabulate import Query

Answered = Callable[[int, str, range], Floats | Ints]
"""Answers of some units at a depth to a query: units x answers, in the query's own order."""
NUMBERS_AT_ONCE = 1 << 22
"""Answers that are read together."""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The part of the cells that one query looks at, in the basis of the components.

    where
        components   of the cells
        wanted       the query
        queries      every query, for the order of its answers
        names        of the attributes, in the order of the cells
    """

    components: Components
    wanted: str
    queries: Mapping[str, Query]
    names: tuple[str, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many coordinates each attribute has."""
        return tuple(
            axis.levels if self._whole(self.wanted, k) else len(axis.sizes)
            for k, axis in enumerate(self.components.axes)
        )

    def _whole(self, query: str, axis: int) -> bool:
        group = self.components.groups[query][axis]
        return len(np.unique(group)) == self.components.axes[axis].levels

    def _rows(self, query: str, axis: int) -> Floats:
        """The answers of one attribute on its coordinates: coordinates x groups."""
        group, own = self.components.groups[query][axis], self.components.axes[axis]
        found = np.zeros((self.sizes[axis], int(group.max()) + 1))
        np.add.at(found.T, group, own.basis[: self.sizes[axis]].T)
        if not self._whole(query, axis):
            found[len(own.sizes) :] = 0.0  # contrasts of a group add up to 0
        return found

    def projected(self, query: str, answers: Floats | Ints) -> Floats:
        """Q'y of each unit: units x coordinates."""
        table = self._by_attribute(query, answers.astype(np.float64))
        for axis in range(len(self.sizes)):
            turned = np.tensordot(table, self._rows(query, axis), axes=([1], [1]))
            table = turned  # the axis that was first is last now, so that all come round
        return table.reshape(len(answers), -1)

    def answers(self, coordinates: Floats) -> Floats:
        """The wanted query's answers of each unit, from its coordinates."""
        table = coordinates.reshape(-1, *self.sizes)
        for axis in range(len(self.sizes)):
            table = np.tensordot(table, self._rows(self.wanted, axis), axes=([1], [0]))
        return self.in_own_order(table.reshape(len(table), -1))

    def _order(self, query: str) -> list[int]:
        """The attributes of a query by their place among all, in its own order."""
        asked = self.queries[query].by
        names = [axis if isinstance(axis, str) else axis.source.name for axis in asked]
        return [self.names.index(name) for name in names]

    def _by_attribute(self, query: str, answers: Floats) -> Floats:
        """Answers with an axis for each attribute, in the order of the cells."""
        order = self._order(query)
        groups = [int(group.max()) + 1 for group in self.components.groups[query]]
        table = answers.reshape(-1, *(groups[axis] for axis in order))
        back = np.argsort(order).tolist()
        table = table.transpose(0, *(at + 1 for at in back))
        return table.reshape(-1, *groups)

    def in_own_order(self, answers: Floats) -> Floats:
        """Answers by the attributes in the order of the cells, put in the order of the query."""
        order = self._order(self.wanted)
        groups = [int(group.max()) + 1 for group in self.components.groups[self.wanted]]
        left = [axis for axis in range(len(groups)) if axis not in order]
        table = answers.reshape(-1, *groups)
        return table.transpose(0, *(axis + 1 for axis in [*order, *left])).reshape(len(table), -1)

    def parts(self) -> Iterator[tuple[Component, Ints]]:
        """Each component with its coordinates: copies x its size."""
        index = np.arange(prod(self.sizes)).reshape(self.sizes)
        for component in self.components.every:
            own = [
                np.arange(len(axis.sizes), size) if contrast else np.arange(len(axis.sizes))
                for axis, size, contrast in zip(
                    self.components.axes, self.sizes, component, strict=True
                )
            ]
            if not all(map(len, own)):
                continue
            part = index[np.ix_(*own)]
            evens = [k for k, contrast in enumerate(component) if not contrast]
            contrasts = [k for k, contrast in enumerate(component) if contrast]
            part = part.transpose(*contrasts, *evens)
            size = self.components.size(component)
            yield component, part.reshape(-1, size)


def best_estimates(
    tree: NoiseTree, coordinates: Coordinates, answered: Answered, *, depth: int
) -> Floats:
    """The wanted query's best linear estimates in every unit of a depth: units x answers.

    ``answered`` gives the answers of every query that has a weight at a depth, and the true ones of
    those that are exact there.
    """
    projected = [_right_sides(tree, coordinates, answered, at) for at in range(len(tree.levels))]
    exact = [
        {query: _projected(tree, coordinates, answered, at, query) for query in level.exact}
        for at, level in enumerate(tree.levels)
    ]
    found = np.zeros((tree.units(depth), prod(coordinates.sizes)))
    for component, part in coordinates.parts():
        errors = ComponentErrors(tree, coordinates.components, component)
        estimator = _Estimator(errors, tree, coordinates.components, component)
        right = [one[:, part] for one in projected]
        known = [{q: one[:, part] for q, one in those.items()} for those in exact]
        found[:, part] = estimator.estimated(right, known, depth)
    return coordinates.answers(found)


def _right_sides(
    tree: NoiseTree, coordinates: Coordinates, answered: Answered, depth: int
) -> Floats:
    """Z of every unit at a depth: units x coordinates."""
    level, units = tree.levels[depth], tree.units(depth)
    found = np.zeros((units, prod(coordinates.sizes)))
    kind = np.zeros(units, dtype=np.int64) if level.of_unit is None else level.of_unit
    for query in dict.fromkeys(name for one in level.weights for name in one):
        weight = np.array([one.get(query, 0.0) for one in level.weights])[kind]
        found += weight[:, None] * _projected(tree, coordinates, answered, depth, query)
    return found


def _projected(
    tree: NoiseTree, coordinates: Coordinates, answered: Answered, depth: int, query: str
) -> Floats:
    """Q'y of every unit at a depth, read some units at a time: few coordinates remain of each."""
    units = tree.units(depth)
    found = np.empty((units, prod(coordinates.sizes)))
    step = max(1, NUMBERS_AT_ONCE // coordinates.components.answers[query])
    for first in range(0, units, step):
        some = range(first, min(first + step, units))
        found[first : some.stop] = coordinates.projected(query, answered(depth, query, some))
    return found


class _Estimator:
    """Estimates on one component: units x copies x size."""

    def __init__(
        self, errors: ComponentErrors, tree: NoiseTree, components: Components, component: Component
    ) -> None:
        self._errors, self._tree = errors, tree
        self._components, self._component = components, component

    def estimated(self, right: list[Floats], exact: list[dict[str, Floats]], depth: int) -> Floats:
        """From all answers, at a depth."""
        up: list[Floats] = []
        sums: list[Floats] = []
        for at in reversed(range(len(right))):
            before = np.zeros_like(right[at])
            if up:
                first = np.searchsorted(self._tree.parents[at + 1], np.arange(len(before)))
                before = np.add.reduceat(up[0], first, axis=0)
            up.insert(0, self._with_answers(at, before, right[at], exact[at]))
            sums.insert(0, before)
        found = up[0]
        for at in range(1, depth + 1):
            parent = self._tree.parents[at]
            open_ = (found - sums[at - 1])[parent]
            found = up[at] + np.einsum("uij,ucj->uci", self._errors.unit_gains(at), open_)
        return found

    def _with_answers(
        self, depth: int, before: Floats, right: Floats, exact: Mapping[str, Floats]
    ) -> Floats:
        """X of every unit at a depth, from the sum of its children's."""
        level, kinds = self._tree.levels[depth], self._tree.kinds[depth]
        known, found = self._errors.levels[depth], np.empty_like(right)
        precisions = self._errors.precisions(level)
        of_unit = kinds.of_unit
        for (number, noise), own in alike(known.together[of_unit], kinds.noise[of_unit]):
            unknown = self._errors.basis(number)
            start = self._start(
                before[own],
                {q: one[own] for q, one in exact.items()},
                unknown,
                known.children[of_unit[own]],
            )
            left = right[own] - start @ precisions[noise]
            s = known.covariance[of_unit[own]]
            found[own] = start + np.einsum("uij,ucj->uci", s, left)
        return found

    def _start(
        self, before: Floats, exact: Mapping[str, Floats], unknown: Floats, children: Floats
    ) -> Floats:
        """p: what children say where they know, moved to what is exact.

        p = x0 + (C + t N N') E (E' (C + t N N') E)^+ (e - E' x0),   t beyond all bounds
        """
        known = complement(unknown)
        start = before @ known @ known.T
        if not exact:
            return start
        parts = {q: self._components.precision(q, self._component) for q in exact}
        basis = spanned(np.hstack([np.zeros((len(unknown), 1)), *parts.values()]))
        if not basis.size:
            return start
        # Exact answers of a query are Q'y = Q'Q x: all of them at once, on their common basis.
        stacked = np.hstack([part @ basis for part in parts.values()])  # size x (e of each)
        values = np.concatenate([one @ basis for one in exact.values()], axis=-1)
        solve = np.linalg.pinv(basis.T @ stacked)  # from stacked answers to E'x
        target = values @ solve
        along = unknown @ (unknown.T @ basis)
        first = pseudo_inverse(basis.T @ along, scale=np.ones(()))
        start = start + (target - start @ basis) @ first.T @ along.T
        rest = target - start @ basis
        covariance = known @ known.T @ children @ known @ known.T
        of_sums = covariance @ basis
        inverse = pseudo_inverse(basis.T @ of_sums, scale=largest(covariance))
        gain = of_sums @ inverse
        moved: Floats = start + np.einsum("uij,ucj->uci", gain, rest)
        return moved
