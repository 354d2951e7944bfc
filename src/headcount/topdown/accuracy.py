"""How exact TopDown's answers will be, from its settings and the list of units alone.

Three standard deviations stand side by side, of the same noisy answers: that of an answer as it is
drawn; that of the answer pooled with those of the levels below (linear/noise_tree.py); and that of
the best linear estimate from all answers (linear/tree.py), which no unbiased linear estimate can
beat. A release has none of the three exactly: its counts are whole and never negative, which makes
small counts more exact than any of them and biases them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.geography.spine import NamedArea
from headcount.mechanisms import ExpectedError
from headcount.schema import Schema
from headcount.tabulate import CELLS, every_cell
from headcount.topdown.answers import Classes, Planned
from headcount.topdown.linear.components import Components
from headcount.topdown.linear.noise_tree import (
    JointTotalsTree,
    LevelNoise,
    NoiseTree,
    lowest_gaining,
    own_weights,
    pooled_weights,
)
from headcount.topdown.linear.tree import level_variances
from headcount.topdown.linear.variances import AreaErrors, Members
from headcount.topdown.restrict import joint_groups
from headcount.topdown.settings import TopDownSettings

if TYPE_CHECKING:
    from headcount.topdown.design import TopDownDesign

EXACT = 1e-6
"""A smaller standard deviation of an estimate is a rounding error of 0."""
WITHIN = 1.959964
"""Of a normal law, 19 of 20 values are within so many standard deviations."""


@dataclass(frozen=True, eq=False)
class ExpectedErrors:
    """What the answers of some settings tell of a tree of places.

    where
        tree        the noise of every unit
        together    the same, with what units of a spine have exactly together
        components  of the cells, under the queries
        lowest      the depth of the lowest level that is worth pooling
        filled      levels and queries that pooling answers from below, if they have no share
    """

    geography: Geography
    tree: NoiseTree
    together: JointTotalsTree
    components: Components
    lowest: int
    filled: frozenset[tuple[str, str]]

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
            tree,
            noise,
            together_tree(settings, noise, tree, groups),
            components,
            lowest,
            frozenset(filled_from_below(settings, tree, components.answers)),
        )

    def by_level(self) -> tuple[ExpectedError, ...]:
        """Every level and query."""
        joined = self.together.tree
        best = level_variances(joined, self.components, list(self.components.answers))
        found = []
        for depth, level in enumerate(self.geography.levels):
            kinds, at = self.tree.classes[depth], self.together.depth(depth)
            for query, answers in self.components.answers.items():
                own, pooled = self._own(query, depth), self._pooled(query, depth)
                found.append(
                    ExpectedError(
                        level=level,
                        query=query,
                        units=self.tree.units(depth),
                        answers=answers,
                        own=_deviation(own, kinds.units),
                        pooled=_deviation(pooled, kinds.units),
                        best=(deviation := _best(best[at, query])),
                        within=WITHIN * deviation,
                    )
                )
        return tuple(found)

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

    def of_areas(
        self, areas: Sequence[NamedArea], published: Geography
    ) -> tuple[ExpectedError, ...]:
        """Every query of some areas, by codes of published units."""
        return tuple(
            one
            for name, level, codes in areas
            for one in self.of_area(name, *_units(self.geography, published, name, level, codes))
        )

    def of_area(self, name: str, level: str, units: Ints) -> tuple[ExpectedError, ...]:
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
                ExpectedError(
                    level=name,
                    query=query,
                    units=int(inside.sum()),
                    answers=answers,
                    own=sqrt(len(units)) * _deviation(own[kinds], once),
                    pooled=sqrt(len(units)) * _deviation(pooled[kinds], once),
                    best=(deviation := _best(area.mean_variance(query)[0])),
                    within=WITHIN * deviation,
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
