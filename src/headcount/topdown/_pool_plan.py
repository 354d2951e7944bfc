"""Which answers are pooled with those of the levels below, and with which weights: no answer yet.

Where totals are fitted first (``passes``), the total is the best linear one from all pooled answers
of its unit, since nothing else is fitted beside it:

    t = 1' P^-1 (sum over q of w*_q Q_q' y*_q),   variance 1' P^-1 1
    P = sum over q of w*_q Q_q' Q_q

A query without a share at a level is answered there by the sum of its children's answers, if each
of them has one; but not where passes say what is fitted, and not where its answer is exact anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from headcount.arrays import Floats, Ints, Ints32
from headcount.geography import Geography
from headcount.mechanisms import SCALAR, Pooling
from headcount.schema import Schema
from headcount.tabulate import CELLS, every_cell
from headcount.topdown.accuracy import components_of, filled_from_below, noise_tree
from headcount.topdown.answers import Classes, Planned, unit_classes
from headcount.topdown.linear.components import Components
from headcount.topdown.linear.kinds import NoiseTree
from headcount.topdown.linear.known import largest, pseudo_inverse
from headcount.topdown.linear.pooled import lowest_gaining, own_weights, pooled_weights
from headcount.topdown.planned import PlannedNoise, planned_noise
from headcount.topdown.settings import TopDownSettings

BEST_TOTAL = "best total"
"""The column of totals that are fitted before anything else."""
TELLING = 5e-4
"""At the lowest level, answers that tell less of the total than this part of the others are not
drawn for it: 2,016 cells in a block group would be, for 0.04 % of its precision."""


@dataclass(frozen=True, eq=False)
class PooledLevel:
    """How the answers of one level are pooled: known without any answer.

    where
        name       of the level
        below      that of the level whose answers are joined with its own; "" for the lowest
        of_unit    the kind of each unit
        own        w of each query, by kind
        weight     w* of each query, by kind
        made_from  the queries whose answers a row is made from
        direction  P^-1 1 of each kind, where totals are fitted first; then the total is the best
        columns    where each query's answers stand in a row of pooled ones, and the best total
    """

    name: str
    below: str
    of_unit: Ints32
    own: Mapping[str, Floats]
    weight: Mapping[str, Floats]
    made_from: tuple[str, ...]
    direction: Floats | None
    columns: Mapping[str, slice]


@dataclass(frozen=True, eq=False)
class PoolPlan:
    """Which answers are pooled, and with which weights.

    where
        levels   those whose answers are not as they were drawn, from the whole down
        lowest   the lowest level that takes part; "" if none does
        groups   for each query the number of the answer that counts each cell
        sizes    how many answers each query has
        totals   queries that ask for the total
        more     queries that have no share at a level, and are answered there by those below
        evens    each cell on the evens (linear/components.py), if totals are fitted first
    """

    levels: Mapping[str, PooledLevel]
    lowest: str
    groups: Mapping[str, Ints]
    sizes: Mapping[str, int]
    totals: frozenset[str]
    more: Planned
    evens: Floats

    @classmethod
    def of(
        cls,
        settings: TopDownSettings,
        schema: Schema,
        tree: Geography,
        *,
        planned: Planned,
        classes: Classes,
        published: Geography,
    ) -> PoolPlan:
        """That of TopDown's settings, completed ones, on the tree that is measured."""
        noise = noise_tree(settings, tree, planned=planned, classes=classes, published=published)
        queries = [every_cell(schema), *settings.marginals]
        sizes = {query.name: query.size(schema) for query in queries}
        lowest = lowest_gaining(noise, sizes)
        if settings.pool_from:
            lowest = tree.depth(settings.pool_from)
        totals = frozenset(query.name for query in settings.marginals if not query.by)
        fitted = ((level, set(passes.fit[0])) for level, passes in settings.passes if passes.fit)
        first = {level for level, own in fitted if own <= totals}
        levels = list(_pooled_levels(settings, schema, tree, noise, lowest, first))
        return cls(
            levels={one.name: one for one in levels},
            lowest=tree.levels[lowest] if lowest else "",
            groups={query.name: query.groups(schema) for query in queries},
            sizes=sizes,
            totals=totals,
            more=dict(_more(settings, tree, levels, planned)),
            evens=_components(settings, schema).even_cells() if first else np.zeros((0, 0)),
        )

    @property
    def from_words(self) -> str:
        """From where answers are pooled, in words."""
        return f"from {self.lowest} up" if self.lowest else "none: no level gains 1 %"

    def drawn(self, tree: Geography) -> int:
        """How many answers are drawn to pool them: all of every level that takes part."""
        depth = tree.depth(self.lowest) if self.lowest else -1
        units = sum(tree.size(level) for level in tree.levels[: depth + 1])
        return units * sum(self.sizes.values())

    def numbers(self, tree: Geography) -> int:
        """How many pooled answers there are: in files, of as many floats."""
        return sum(
            tree.size(one.name) * max((own.stop for own in one.columns.values()), default=0)
            for one in self.levels.values()
        )

    def class_weights(self, level: str, queries: Sequence[str]) -> tuple[Floats, Ints32]:
        """For each kind of unit the weights of some queries, and each unit's kind."""
        own = self.levels[level]
        nothing = np.zeros(len(next(iter(own.weight.values()))))
        asked = [own.weight.get(query, nothing) for query in queries]
        if own.direction is not None:
            variance = own.direction @ self.evens.sum(axis=0)
            best = np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 0)
            pairs = zip(queries, asked, strict=True)
            asked = [best if query in self.totals else weight for query, weight in pairs]
        return np.stack(asked, axis=1), own.of_unit

    def best_totals(self, level: str, units: range, answers: Mapping[str, Floats]) -> Floats:
        """The best linear total of some units from their answers to every query."""
        own = self.levels[level]
        assert own.direction is not None
        kind, found = own.of_unit[units.start : units.stop], np.zeros(len(units))
        for query, values in answers.items():
            rows = np.zeros((self.sizes[query], self.evens.shape[1]))
            np.add.at(rows, self.groups[query], self.evens)
            projected = np.einsum("ug,gk->uk", values, rows)
            found += own.weight[query][kind] * np.einsum("uk,uk->u", projected, own.direction[kind])
        return found


def _pooled_levels(
    settings: TopDownSettings,
    schema: Schema,
    tree: Geography,
    noise: NoiseTree,
    lowest: int,
    first: set[str],
) -> Iterator[PooledLevel]:
    """The levels whose answers are not as they were drawn; ``first`` fit the total alone first."""
    components = _components(settings, schema)
    sizes = {CELLS: schema.size} | {one.name: one.size(schema) for one in settings.marginals}
    pooled = {query: pooled_weights(noise, query, lowest) for query in sizes}
    for depth, level in enumerate(tree.levels[: lowest + 1]):
        if depth == lowest and (not lowest or level not in first):
            continue
        weight = {query: own[depth] for query, own in pooled.items() if own[depth].any()}
        made_from = weight if depth < lowest else _telling(weight, sizes)
        at, columns = 0, {}
        for query in weight if depth < lowest else ():
            columns[query] = slice(at, at + sizes[query])
            at += sizes[query]
        if level in first:
            columns[BEST_TOTAL] = slice(at, at + 1)
        yield PooledLevel(
            name=level,
            below=tree.levels[depth + 1] if depth < lowest else "",
            of_unit=noise.kinds[depth].of_unit.astype(np.int32),
            own={query: own_weights(noise, query, depth) for query in weight},
            weight=weight,
            made_from=tuple(made_from),
            direction=_direction(components, made_from) if level in first else None,
            columns=columns,
        )


def _components(settings: TopDownSettings, schema: Schema) -> Components:
    """Of all cells: answers of structural zeros, which are 0, are weighed like any others."""
    return components_of(settings, Schema(schema.attributes))


def _telling(weight: Mapping[str, Floats], sizes: Mapping[str, int]) -> Mapping[str, Floats]:
    """The queries that tell something of the total: the sum of n answers has n times the variance.

    In some kind of unit, that is, whose total then has these alone.
    """
    told = {query: own / sizes[query] for query, own in weight.items()}
    every = sum(told.values(), start=np.zeros(()))
    return {query: weight[query] for query, own in told.items() if (own > TELLING * every).any()}


def _direction(components: Components, weight: Mapping[str, Floats]) -> Floats:
    """P^-1 1 of each kind, on the evens."""
    parts = (own[:, None, None] * components.even_precision(q) for q, own in weight.items())
    precision = sum(parts, start=np.zeros(()))
    ones = components.even_cells().sum(axis=0)
    found: Floats = pseudo_inverse(precision, scale=largest(precision)) @ ones
    return found


def _more(
    settings: TopDownSettings, tree: Geography, levels: Sequence[PooledLevel], planned: Planned
) -> Iterator[tuple[tuple[str, str], PlannedNoise]]:
    """Queries without a share at a level that are answered there by the levels below."""
    queries = [CELLS, *(query.name for query in settings.marginals)]
    filled = set(filled_from_below(settings, tree, queries))
    for level in levels:
        for query, weight in level.weight.items() if level.below else ():
            if (level.name, query) in filled and (level.name, query) not in planned:
                columns = level.columns[query]
                entries = tree.size(level.name) * (columns.stop - columns.start)
                noise = PlannedNoise(law=None, weight=float(weight.max()), entries=entries)
                yield (level.name, query), noise


def pooling_of(settings: TopDownSettings, schema: Schema, geography: Geography) -> Pooling:
    """What pooling takes, known from settings and places alone; worked out once for each."""
    known = _KNOWN.setdefault(geography, {})
    if (settings, schema) not in known:
        known[settings, schema] = _pooling_of(settings, schema, geography)
    return known[settings, schema]


_KNOWN: WeakKeyDictionary[Geography, dict[tuple[TopDownSettings, Schema], Pooling]]
_KNOWN = WeakKeyDictionary()
"""What was worked out of places that are still there: a check and its limits ask for the same."""


def _pooling_of(settings: TopDownSettings, schema: Schema, geography: Geography) -> Pooling:
    tree = settings.tree(geography)
    settings = settings.completed(schema, tree)
    plan = PoolPlan.of(
        settings,
        schema,
        tree,
        planned=planned_noise(settings, schema, tree),
        classes=unit_classes(settings, tree),
        published=geography,
    )
    return Pooling(
        answers=plan.drawn(tree), bytes=plan.numbers(tree) * SCALAR, words=plan.from_words
    )
