"""How exact TopDown's answers and its release will be, from settings and the list of units alone.

Of a release (``released``) errors go down the tree as the descent does: a unit's count is fitted to
its own answers, pooled ones where these are pooled, and to the count of its parent
(linear/tree.py). Then each cell is rounded, which adds 1/12 each to the variance of a sum of cells.
That is true where next to no cell would come out below 0 (``FILLED``). Where tables are sparse no
linear number is right, nor a bound: cells are more exact, and sums at the top less.

Of noisy answers three standard deviations stand side by side: that of an answer as it is drawn;
that of the answer pooled with those of the levels below (linear/tree.py); and that of the
best linear estimate from all answers, which no unbiased linear estimate can beat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import erfc, inf, isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.geography.spine import NamedArea
from headcount.mechanisms import ExpectedError, LinearError
from headcount.schema import Schema
from headcount.tabulate import CELLS, Query, every_cell
from headcount.topdown.answers import Classes, Planned
from headcount.topdown.linear.components import Components
from headcount.topdown.linear.tree import (
    JointTotalsTree,
    LevelNoise,
    NoiseTree,
    level_variances,
    lowest_gaining,
    own_weights,
    pooled_weights,
)
from headcount.topdown.linear.variances import AreaErrors, Members
from headcount.topdown.restrict import joint_groups
from headcount.topdown.settings import TopDownSettings

if TYPE_CHECKING:
    from headcount.topdown.design import TopDownDesign

EXACT = 1e-6
"""A smaller standard deviation of an estimate is a rounding error of 0."""
FILLED = 3.0
"""Standard deviations of its error that a cell must hold: then next to none would be below 0."""


@dataclass(frozen=True, eq=False)
class ExpectedErrors:
    """What the answers of some settings tell of a tree of places.

    where
        tree        the noise of every unit
        together    the same, with what units of a spine have exactly together
        components  of the cells, under the queries
        lowest      the depth of the lowest level that is worth pooling
        filled      levels and queries that pooling answers from below, if they have no share
        pooled      whether a release is made from pooled answers
    """

    schema: Schema
    geography: Geography
    tree: NoiseTree
    together: JointTotalsTree
    components: Components
    lowest: int
    filled: frozenset[tuple[str, str]]
    pooled: bool

    @classmethod
    def of(cls, design: TopDownDesign) -> ExpectedErrors:
        """Of TopDown on a domain."""
        settings, schema, tree = design.settings, design.domain.schema, design.tree
        published = design.domain.geography
        noise = noise_tree(
            settings, tree, planned=design.planned, classes=design.classes, published=published
        )
        groups = joint_groups(settings, tree, published)
        return cls.from_noise(settings, schema, tree, noise, groups)

    @classmethod
    def from_noise(
        cls,
        settings: TopDownSettings,
        schema: Schema,
        tree: Geography,
        noise: NoiseTree,
        groups: Mapping[str, Ints32],
    ) -> ExpectedErrors:
        """Of completed settings on the tree that is measured, whose noise is known.

        where
            groups   for some levels the published unit of each unit: totals of these are exact
        """
        components = components_of(settings, schema)
        lowest = lowest_gaining(noise, components.answers)
        if settings.pool_from:
            lowest = tree.depth(settings.pool_from)
        return cls(
            schema,
            tree,
            noise,
            together_tree(settings, noise, tree, groups),
            components,
            lowest,
            frozenset(filled_from_below(settings, tree, components.answers)),
            settings.pool,
        )

    def by_level(self) -> tuple[LinearError, ...]:
        """Every level and query."""
        joined = self.together.tree
        best = level_variances(joined, self.components, list(self.components.answers))
        found = []
        for depth, level in enumerate(self.geography.levels):
            kinds, at = self.tree.classes[depth], self.together.depth(depth)
            for query, answers in self.components.answers.items():
                own, pooled = self._own(query, depth), self._pooled(query, depth)
                found.append(
                    LinearError(
                        level=level,
                        query=query,
                        units=self.tree.units(depth),
                        answers=answers,
                        own=_deviation(own, kinds.units),
                        pooled=_deviation(pooled, kinds.units),
                        best=_best(best[at, query]),
                    )
                )
        return tuple(found)

    def released(self, queries: Sequence[Query]) -> tuple[ExpectedError, ...]:
        """How far off the counts of a release will be, where cells are well filled."""
        components = Components.of(self.schema, queries)
        names = list(components.answers)
        variances = level_variances(self._descending, components, names, descending=True)
        possible, found, filled = int(self.schema.possible.sum()), [], 0.0
        for depth, level in enumerate(self.geography.levels):
            cell = variances[depth, CELLS]
            filled = max(filled, FILLED * sqrt(cell))
            rounding = _rounded(cell) - cell if isfinite(cell) else 0.0
            for query in names:
                answers, variance = components.countable[query], variances[depth, query]
                if _best(variance):
                    variance = max(variance + rounding * possible / answers, 0.0)
                found.append(
                    ExpectedError(
                        level=level,
                        query=query,
                        units=self.tree.units(depth),
                        answers=answers,
                        rmse=_best(variance),
                        filled=filled if _best(variance) else 0.0,
                    )
                )
        return tuple(found)

    @cached_property
    def _descending(self) -> NoiseTree:
        """What the descent sees: pooled answers, and what is exact there or at a level below."""
        levels: list[LevelNoise] = []
        exact: tuple[str, ...] = ()
        for depth in reversed(range(len(self.tree.levels))):
            level, classes = self.tree.levels[depth], self.tree.classes[depth]
            exact = tuple(dict.fromkeys((*exact, *level.exact)))
            weights, of_unit = level.weights, level.of_unit
            if self.pooled and depth <= self.lowest:
                each = {query: self._pooled(query, depth) for query in self.components.answers}
                weights = tuple(
                    {query: float(those[one]) for query, those in each.items() if those[one]}
                    for one in range(len(classes.units))
                )
                of_unit = classes.of_unit
            levels.insert(0, LevelNoise(weights, of_unit, exact))
        return NoiseTree(self.tree.parents, levels)

    def _own(self, query: str, depth: int) -> Floats:
        """1 / variance of answers as they are drawn, in each kind of unit of a level."""
        return own_weights(self.tree, query, depth)

    def _pooled(self, query: str, depth: int) -> Floats:
        """The same of pooled answers."""
        own = self._own(query, depth)
        if depth > self.lowest:
            return own
        if query not in self._pooled_weights:
            self._pooled_weights[query] = pooled_weights(self.tree, query, self.lowest)
        if own.any() or (self.geography.levels[depth], query) in self.filled:
            return self._pooled_weights[query][depth]
        return own

    @cached_property
    def _pooled_weights(self) -> dict[str, list[Floats]]:
        """Those that were asked for before."""
        return {}

    def of_areas(self, areas: Sequence[NamedArea], published: Geography) -> tuple[LinearError, ...]:
        """Every query of some areas, by codes of published units."""
        return tuple(
            one
            for name, level, codes in areas
            for one in self.of_area(name, *_units(self.geography, published, name, level, codes))
        )

    def of_area(self, name: str, level: str, units: Ints) -> tuple[LinearError, ...]:
        """Every query of an area, which is a union of units of one level of the measured tree.

        ``own`` and ``pooled`` are of the sum of these units' answers.
        """
        inside: Flags = np.isin(self.geography.ancestors(level), units)
        members = Members.one(inside[self.together.places[-1]])
        area = AreaErrors.of(self.together.tree, self.components, members, self.components.answers)
        depth = self.geography.depth(level)
        kinds = self.tree.classes[depth].of_unit[units]
        once = np.ones(len(units), dtype=np.int64)
        found = []
        for query, answers in self.components.answers.items():
            own, pooled = self._own(query, depth), self._pooled(query, depth)
            found.append(
                LinearError(
                    level=name,
                    query=query,
                    units=int(inside.sum()),
                    answers=answers,
                    own=sqrt(len(units)) * _deviation(own[kinds], once),
                    pooled=sqrt(len(units)) * _deviation(pooled[kinds], once),
                    best=_best(area.mean_variance(query)[0]),
                )
            )
        return tuple(found)


def _units(
    tree: Geography, published: Geography, name: str, level: str, codes: Sequence[str]
) -> tuple[str, Ints]:
    """The units of an area in the tree that is measured, and their level.

    Along a spine these are leaves: units above them may be there in parts.
    """
    if not codes:
        raise InputError(
            "plan", place=f"area {name!r}", found="no units", expected=f"codes of {level!r}"
        )
    number = published.find(level, np.array(codes))
    if (number < 0).any():
        raise InputError(
            "plan",
            place=f"area {name!r}",
            found=f"{level} {codes[int(np.flatnonzero(number < 0)[0])]!r}",
            expected=f"codes of units of {level!r}",
        )
    if tree is published:
        return level, np.unique(number).astype(np.int64)
    inside = np.isin(published.ancestors(level), number)[published.along_spine]
    return tree.leaf, np.flatnonzero(inside)


def _deviation(weights: Floats, units: Ints) -> float:
    """The standard deviation of an answer in a mean unit; infinite where some have none."""
    with np.errstate(divide="ignore"):
        return sqrt(float(np.average(1 / weights, weights=units))) if len(units) else inf


def _rounded(variance: float) -> float:
    """The variance of a normal error that is rounded to a whole number: 1/12 more, if not small.

    E round(e)^2 = sum over k = 0, 1, ... of (2 k + 1) Pr[|e| > k + 1/2]
    """
    if variance > 4:
        return variance + 1 / 12
    scale = sqrt(2 * variance)
    return sum((2 * k + 1) * erfc((k + 0.5) / scale) for k in range(20)) if scale else 0.0


def _best(variance: float) -> float:
    """The standard deviation of an estimate; 0 for what is exact but for rounding."""
    found = sqrt(variance)
    return found if found > EXACT else 0.0


def filled_from_below(
    settings: TopDownSettings, tree: Geography, queries: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Levels and queries that pooled answers of the levels below answer, if they have no share.

    Not where passes say what is fitted, and not where the answer is exact anyway.
    """
    fitted = {level for level, passes in settings.passes if passes.fit}
    exact: dict[str, int] = {}
    for one in settings.invariant:  # exact there, and so at every level above
        exact[one.query] = max(exact.get(one.query, -1), tree.depth(one.level))
    for level in tree.levels:
        for query in () if level in fitted else queries:
            if tree.depth(level) > exact.get(query, -1):
                yield level, query


def components_of(settings: TopDownSettings, schema: Schema) -> Components:
    """The components of the cells under all queries of completed settings."""
    return Components.of(schema, [every_cell(schema), *settings.marginals])


def noise_tree(
    settings: TopDownSettings,
    geography: Geography,
    *,
    planned: Planned,
    classes: Classes,
    published: Geography,
) -> NoiseTree:
    """The noise of every answer, by level and class of units; settings are completed ones.

    What is exact of ``published`` units that a spine has in parts is exact of none of these; see
    ``together_tree``.
    """
    names: Sequence[str] = [CELLS, *(query.name for query in settings.marginals)]
    levels = []
    for level in geography.levels:
        asked = {name: planned[level, name] for name in names if (level, name) in planned}
        weights: list[dict[str, float]] = [{name: one.weight for name, one in asked.items()}]
        if level in classes:
            number = max(len(one.classes) for one in asked.values())
            weights = [
                {
                    name: noise.weight
                    for name, one in asked.items()
                    if (noise := one.classes[k]) is not None
                }
                for k in range(number)
            ]
        whole = geography.size(level) == published.size(level)
        exact = tuple(one.query for one in settings.invariant if one.level == level and whole)
        of_unit = classes[level].astype(np.int64) if level in classes else None
        levels.append(LevelNoise(tuple(weights), of_unit, exact))
    return NoiseTree(geography.parents, levels)


def together_tree(
    settings: TopDownSettings, tree: NoiseTree, geography: Geography, groups: Mapping[str, Ints32]
) -> JointTotalsTree:
    """A tree with the published units whose totals are exact, and which a spine has in parts."""
    totals = [one.query for one in settings.invariant if not settings.query(one.query).by][:1]
    exact = {geography.depth(level): (group, totals) for level, group in groups.items()}
    return JointTotalsTree.of(tree, exact)
