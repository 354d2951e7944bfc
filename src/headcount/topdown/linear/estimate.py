"""Generalised least squares over a tree of noisy measurements: best linear unbiased estimates.

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
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from types import TracebackType

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.files import scratch_file
from headcount.tabulate import Query
from headcount.topdown.linear.components import Component, Components
from headcount.topdown.linear.matrices import (
    complement,
    largest,
    least_moves,
    pseudo_inverse,
    spanned,
)
from headcount.topdown.linear.tree import ComponentErrors, NoiseTree, alike

IN_MEMORY = 1 << 23
"""Numbers that are left in memory: 64 MiB."""


class _KeptRows:
    """Rows of numbers of one width, each 0 until it is written: in memory, or in a file if many."""

    def __init__(self, rows: int, width: int) -> None:
        self._width = width
        self._few: Floats | None = None
        if rows * width <= IN_MEMORY:
            self._few = np.zeros((rows, width))
        else:
            self._context = scratch_file()
            self._file = self._context.__enter__()
            self._file.truncate(rows * width * 8)

    def __enter__(self) -> _KeptRows:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._few is None:
            self._context.__exit__(kind, error, trace)

    def __getitem__(self, rows: range) -> Floats:
        if self._few is not None:
            return self._few[rows.start : rows.stop]
        self._file.seek(rows.start * self._width * 8)
        read = self._file.read(len(rows) * self._width * 8)
        return np.frombuffer(read, dtype=np.float64).reshape(len(rows), self._width)

    def __setitem__(self, rows: range, values: Floats) -> None:
        if self._few is not None:
            self._few[rows.start : rows.stop] = values
            return
        self._file.seek(rows.start * self._width * 8)
        self._file.write(np.ascontiguousarray(values, dtype=np.float64).data)


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
        """Each component with its coordinates, on which it has its basis: copies x these."""
        index, axes = np.arange(prod(self.sizes)).reshape(self.sizes), self.components.axes
        for component in self.components.every:
            own = [
                np.arange(len(axis.sizes), size) if contrast else np.arange(len(axis.sizes))
                for axis, size, contrast in zip(axes, self.sizes, component.contrasts, strict=True)
            ]
            if not all(map(len, own)):
                continue
            evens = [k for k, contrast in enumerate(component.contrasts) if not contrast]
            contrasts = [k for k, contrast in enumerate(component.contrasts) if contrast]
            part = index[np.ix_(*own)].transpose(*contrasts, *evens)
            part = part.reshape(-1, len(component.possible))
            # The contrasts of some atoms are those of other components: what is possible differs.
            atoms = np.ix_(*(axes[k].of_contrast for k in contrasts))
            shape = [len(axes[k].sizes) for k in contrasts]
            of_copy = np.arange(prod(shape)).reshape(shape)[atoms].reshape(-1)
            possible = self.components.with_contrasts(component.contrasts)[of_copy]
            same = (possible == np.array(component.possible)).all(axis=1)
            yield component, part[np.ix_(same, np.array(component.possible))]


class BestEstimates:
    """The wanted query's best linear estimates, unit by unit, with a few units in memory at a time.

    Answers are read twice at the leaf and once above it. What goes up from the levels above the
    leaf is put in files without a name where it is large.

    where
        answered   gives the answers of every query that has a weight at a depth, and the true ones
                   of those that are exact there
    """

    def __init__(self, tree: NoiseTree, coordinates: Coordinates, answered: Answered) -> None:
        self._tree, self._coordinates, self._answered = tree, coordinates, answered
        self._width = prod(coordinates.sizes)
        components = coordinates.components
        self._parts = [
            (part, one.basis, _Estimator(tree, components, one))
            for one, part in coordinates.parts()
        ]

    def at(self, depth: int) -> Iterator[tuple[range, Floats]]:
        """Some units of a depth after others, with their estimates: units x answers."""
        with ExitStack() as files:
            ups, sums = self._ups(depth, files)
            down: _KeptRows | None = None
            for level in range(depth):
                down = self._down(level, ups, sums, down, files)
            for units in self._pieces(depth):
                up = self._up(depth, units, ups)[0] if self._is_leaf(depth) else ups[depth][units]
                found = self._given_parent(depth, units, up, down)
                yield units, self._coordinates.answers(found)

    def _is_leaf(self, depth: int) -> bool:
        return depth == len(self._tree.levels) - 1

    def _pieces(self, depth: int) -> Iterator[range]:
        """Ranges of units of which all answers and coordinates are in memory together."""
        level = self._tree.levels[depth]
        asked = [*level.exact, *(query for one in level.weights for query in one)]
        answers = [self._coordinates.components.answers[query] for query in asked]
        step = max(1, NUMBERS_AT_ONCE // max([self._width, *answers]))
        for first in range(0, self._tree.units(depth), step):
            yield range(first, min(first + step, self._tree.units(depth)))

    def _ups(self, depth: int, files: ExitStack) -> tuple[list[_KeptRows], list[_KeptRows]]:
        """From the leaves up: x of every level above them, and the sums over children."""
        above = len(self._tree.levels) - 1
        ups = [
            files.enter_context(_KeptRows(self._tree.units(at), self._width)) for at in range(above)
        ]
        sums = [
            files.enter_context(_KeptRows(self._tree.units(at), self._width)) for at in range(depth)
        ]
        for at in reversed(range(above)):
            for units in self._pieces(at):
                ups[at][units], before = self._up(at, units, ups)
                if at < depth:
                    sums[at][units] = before
        return ups, sums

    def _up(self, depth: int, units: range, ups: list[_KeptRows]) -> tuple[Floats, Floats]:
        """X of some units, and the sum of their children's."""
        before = self._summed(depth, units, ups)
        right, exact = self._right_sides(depth, units)
        found = np.zeros_like(before)  # 0 where nobody can be counted
        for part, basis, estimator in self._parts:
            known = {query: one[:, part] @ basis for query, one in exact.items()}
            own = estimator.with_answers(
                depth, units, before[:, part] @ basis, right[:, part] @ basis, known
            )
            found[:, part] += own @ basis.T
        return found, before

    def _summed(self, depth: int, units: range, ups: list[_KeptRows]) -> Floats:
        """The sum of the children's x for some units; leaves have none."""
        found = np.zeros((len(units), self._width))
        if self._is_leaf(depth):
            return found
        parents = self._tree.parents[depth + 1]
        first, last = np.searchsorted(parents, (units.start, units.stop)).tolist()
        step = max(1, NUMBERS_AT_ONCE // self._width)
        leaf = self._is_leaf(depth + 1)
        for start in range(first, last, step):
            some = range(start, min(start + step, last))
            below = self._up(depth + 1, some, ups)[0] if leaf else ups[depth + 1][some]
            own = parents[some.start : some.stop]
            begin = np.flatnonzero(np.diff(own, prepend=-1))
            found[own[begin] - units.start] += np.add.reduceat(below, begin, axis=0)
        return found

    def _right_sides(self, depth: int, units: range) -> tuple[Floats, dict[str, Floats]]:
        """Z of some units, and what is exact of them."""
        level = self._tree.levels[depth]
        some = slice(units.start, units.stop)
        noise = (
            np.zeros(len(units), dtype=np.int64) if level.of_unit is None else level.of_unit[some]
        )
        found = np.zeros((len(units), self._width))
        for query in dict.fromkeys(name for one in level.weights for name in one):
            weight = np.array([one.get(query, 0.0) for one in level.weights])[noise]
            found += weight[:, None] * self._projected(depth, query, units)
        return found, {query: self._projected(depth, query, units) for query in level.exact}

    def _projected(self, depth: int, query: str, units: range) -> Floats:
        return self._coordinates.projected(query, self._answered(depth, query, units))

    def _down(
        self,
        depth: int,
        ups: list[_KeptRows],
        sums: list[_KeptRows],
        above: _KeptRows | None,
        files: ExitStack,
    ) -> _KeptRows:
        """Of every unit of a depth: its estimate from all answers, less its children's sum."""
        found = files.enter_context(_KeptRows(self._tree.units(depth), self._width))
        for units in self._pieces(depth):
            found[units] = (
                self._given_parent(depth, units, ups[depth][units], above) - sums[depth][units]
            )
        return found

    def _given_parent(
        self, depth: int, units: range, up: Floats, above: _KeptRows | None
    ) -> Floats:
        """The estimates of some units, from theirs going up and what is left open of parents."""
        if above is None:
            return up
        parent = self._tree.parents[depth][units.start : units.stop]
        first, last = int(parent[0]), int(parent[-1]) + 1
        open_ = above[range(first, last)][parent - first]
        found = up.copy()
        for part, basis, estimator in self._parts:
            found[:, part] += estimator.moved(depth, units, open_[:, part] @ basis) @ basis.T
        return found


class _Estimator:
    """Estimates on one component: units x copies x size."""

    def __init__(self, tree: NoiseTree, components: Components, component: Component) -> None:
        self._errors, self._tree = ComponentErrors(tree, components, component), tree
        self._components, self._component = components, component

    def moved(self, depth: int, units: range, open_: Floats) -> Floats:
        """A of some units times what is left open of their parents."""
        links = self._errors.links(depth, np.arange(units.start, units.stop))
        gain = self._errors.link_gains(depth)[links]
        if self._errors.size == 1:
            return gain * open_
        return np.asarray(np.einsum("uij,ucj->uci", gain, open_))

    def with_answers(
        self,
        depth: int,
        units: range,
        before: Floats,
        right: Floats,
        exact: Mapping[str, Floats],
    ) -> Floats:
        """X of some units at a depth, from the sum of their children's."""
        level, classes = self._tree.levels[depth], self._tree.classes[depth]
        known, found = self._errors.levels[depth], np.empty_like(right)
        precisions = self._errors.precisions(level)
        of_unit = classes.of_unit[units.start : units.stop]
        for (number, noise), own in alike(known.together[of_unit], classes.noise[of_unit]):
            unknown = self._errors.basis(number)
            start = self._start(
                before[own],
                {q: one[own] for q, one in exact.items()},
                unknown,
                known.children[of_unit[own]],
            )
            left = right[own] - start @ precisions[noise]
            s = known.covariance[of_unit[own]]
            found[own] = start + (
                s * left if len(unknown) == 1 else np.einsum("uij,ucj->uci", s, left)
            )
        return found

    def _start(
        self, before: Floats, exact: Mapping[str, Floats], unknown: Floats, children: Floats
    ) -> Floats:
        """p: what children say where they know, moved to what is exact.

        p = x0 + (C + t N N') E (E' (C + t N N') E)^+ (e - E' x0),   t beyond all bounds

        Sums of what is exact that say nothing of unknown directions (E Z, where Z'E'N = 0) move it
        by C alone; then what is left of e - E'x0 is in the span of E'N, and N takes it up.
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
        of_unknown = basis.T @ unknown
        apart = basis @ complement(spanned(of_unknown))
        covariance = known @ known.T @ children @ known @ known.T
        of_sums = covariance @ apart
        inverse = pseudo_inverse(apart.T @ of_sums, scale=largest(covariance))
        rest = (target - start @ basis) @ (basis.T @ apart)
        start = start + np.einsum("uij,ucj->uci", of_sums @ inverse, rest)
        moved: Floats = start + (target - start @ basis) @ least_moves(of_unknown).T @ unknown.T
        return moved
