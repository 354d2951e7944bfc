"""Answers pooled with those of the levels below before the descent (accuracy/pooled.py).

From the lowest level that takes part upwards, every answer is joined with the sum of its
children's, by inverse variance. That looks at noisy answers only, so it costs no privacy; and then
TopDown goes on as ever, with better answers and the weights that they deserve.

Where totals are fitted first (``passes``), the total is the best linear one from all pooled answers
of its unit, since nothing else is fitted beside it:

    t = 1' P^-1 (sum over q of w*_q Q_q' y*_q),   variance 1' P^-1 1
    P = sum over q of w*_q Q_q' Q_q

Sums go over children in the order of the tree, whole families at a time, so that no piece of work
and no engine changes a bit of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from headcount.accuracy.components import Components
from headcount.accuracy.kinds import NoiseTree
from headcount.accuracy.known import largest, pseudo_inverse
from headcount.accuracy.pooled import lowest_gaining, own_weights, pooled_weights
from headcount.arrays import Floats, Ints, Ints32
from headcount.engines import Engine
from headcount.files import removing
from headcount.geography import Geography
from headcount.mechanisms.topdown._estimate import NodeProblem
from headcount.mechanisms.topdown._level import LevelPlan
from headcount.mechanisms.topdown.accuracy import components_of, noise_tree
from headcount.mechanisms.topdown.answers import (
    Answers,
    AnswerSource,
    Classes,
    Planned,
    with_answers,
)
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.release.layout import stem_of
from headcount.schema import Schema
from headcount.storage import Storage
from headcount.storage.numbers import StoredNumbers, store_numbers
from headcount.tabulate import CELLS, every_cell

POOLED = "pooled"
"""The folder of pooled answers in a run's workspace."""
NUMBERS_AT_ONCE = 1 << 22
"""Answers of children that one piece of work reads."""
BEST_TOTAL = "best total"
"""The column of totals that are fitted before anything else."""


@dataclass(frozen=True, eq=False)
class PooledLevel:
    """How the answers of one level are pooled: known without any answer.

    where
        name       of the level
        below      that of the level whose answers are joined with its own; "" for the lowest
        of_unit    the kind of each unit
        own        w of each query, by kind
        weight     w* of each query, by kind
        direction  P^-1 1 of each kind, where totals are fitted first; then the total is the best
        columns    where each query's answers stand in a row of pooled ones, and the best total
    """

    name: str
    below: str
    of_unit: Ints32
    own: Mapping[str, Floats]
    weight: Mapping[str, Floats]
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
        evens    each cell on the component of evens (accuracy/components.py)
    """

    levels: Mapping[str, PooledLevel]
    lowest: str
    groups: Mapping[str, Ints]
    sizes: Mapping[str, int]
    totals: frozenset[str]
    evens: Floats

    @classmethod
    def of(
        cls,
        settings: TopDownSettings,
        schema: Schema,
        tree: Geography,
        *,
        answers: Answers,
        published: Geography,
    ) -> PoolPlan:
        """That of TopDown's settings, completed ones, on the tree that is measured."""
        noise = noise_tree(
            settings, tree, planned=answers.planned, classes=answers.classes, published=published
        )
        queries = [every_cell(schema), *settings.marginals]
        sizes = {query.name: query.size(schema) for query in queries}
        lowest = lowest_gaining(noise, sizes)
        if settings.pool_from:
            lowest = tree.depth(settings.pool_from)
        totals = frozenset(query.name for query in settings.marginals if not query.by)
        fitted = ((level, set(passes.fit[0])) for level, passes in settings.passes if passes.fit)
        first = {level for level, own in fitted if own <= totals}
        levels = _pooled_levels(settings, schema, tree, noise, lowest, first)
        return cls(
            levels={one.name: one for one in levels},
            lowest=tree.levels[lowest] if lowest else "",
            groups={query.name: query.groups(schema) for query in queries},
            sizes=sizes,
            totals=totals,
            evens=components_of(settings, schema).even_cells(),
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
    components = components_of(settings, schema)
    sizes = {CELLS: schema.size} | {one.name: one.size(schema) for one in settings.marginals}
    pooled = {query: pooled_weights(noise, query, lowest) for query in sizes}
    for depth, level in enumerate(tree.levels[: lowest + 1]):
        if depth == lowest and (not lowest or level not in first):
            continue
        weight = {query: own[depth] for query, own in pooled.items() if own[depth].any()}
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
            direction=_direction(components, weight) if level in first else None,
            columns=columns,
        )


def _direction(components: Components, weight: Mapping[str, Floats]) -> Floats:
    """P^-1 1 of each kind, on the component of evens."""
    evens = components.every[0]
    parts = (own[:, None, None] * components.precision(q, evens) for q, own in weight.items())
    precision = sum(parts, start=np.zeros(()))
    ones = components.even_cells().sum(axis=0)
    found: Floats = pseudo_inverse(precision, scale=largest(precision)) @ ones
    return found


@dataclass(frozen=True, eq=False)
class PooledRows:
    """Pooled answers of a level: a row for each unit, the columns of ``PoolPlan.columns``.

    where
        first    the first unit of each piece
        pieces   the rows of each, here or as bits in a file
    """

    columns: Mapping[str, slice]
    first: Ints
    pieces: Sequence[Floats | StoredNumbers]

    def __getitem__(self, units: range) -> Floats:
        """The rows of some units, one after another."""
        width = max((own.stop for own in self.columns.values()), default=0)
        found = np.empty((len(units), width))
        if not len(units):
            return found
        at = int(np.searchsorted(self.first, units.start, side="right")) - 1
        row = units.start
        while row < units.stop:
            first, piece = int(self.first[at]), self.pieces[at]
            last = min(units.stop, first + len(piece))
            some = piece[row - first : last - first]
            found[row - units.start : last - units.start] = (
                some.view(np.float64) if isinstance(piece, StoredNumbers) else some
            )
            row, at = last, at + 1
        return found


@dataclass(frozen=True, eq=False)
class PooledAnswers:
    """Answers of which some were pooled; elsewhere those that were drawn.

    ``rows`` of a level that is not there yet are missing while those below are made.
    """

    source: AnswerSource
    plan: PoolPlan
    rows: Mapping[str, PooledRows]

    def open(self) -> PooledAnswers:
        """Itself: what it holds opens what is elsewhere."""
        return self

    def said(self) -> dict[str, str]:
        """What a receipt says of it."""
        lowest = self.plan.lowest
        return {"answers pooled": f"from {lowest} up" if lowest else "none: no level gains 1 %"}

    @property
    def own(self) -> Answers:
        """The answers as they were drawn."""
        return self.source.open()

    @property
    def planned(self) -> Planned:
        """The noise that was drawn."""
        return self.own.planned

    @property
    def classes(self) -> Classes:
        """Which share of the loss each unit has."""
        return self.own.classes

    def values(self, level: str, query: str, units: range) -> Ints | Floats:
        """Answers of some units to a query, pooled where they are."""
        rows = self.rows.get(level)
        if rows is None or query not in rows.columns:
            return self.own.values(level, query, units)
        return rows[units][:, rows.columns[query]]

    def weighted(self, level: LevelPlan) -> LevelPlan:
        """A level's plan with the weights that its answers have after pooling."""
        if level.name not in self.rows:
            return level
        weights, kinds = self.plan.class_weights(level.name, (CELLS, *level.families))
        measured = np.array([level.weight, *level.family_weight]) > 0
        return replace(level, classes=(weights * measured, kinds))

    def picked(self, level: str, query: str, unit: Ints, group: Ints) -> Ints | Floats:
        """The answers of some (unit, answer) pairs, as they were drawn."""
        return self.own.picked(level, query, unit, group)

    def answered(self, level: LevelPlan, problem: NodeProblem) -> NodeProblem:
        """The problem with its answers."""
        if (rows := self.rows.get(level.name)) is None:
            return self.own.answered(level, problem)
        some = range(int(problem.child.min()), int(problem.child.max()) + 1)
        own = rows[some]

        def answers(query: str, unit: Ints, group: Ints) -> Floats | Ints:
            if BEST_TOTAL in rows.columns and query in self.plan.totals:
                group = np.zeros_like(group) + rows.columns[BEST_TOTAL].start
                return np.asarray(own[unit - some.start, group])
            if query not in rows.columns:  # the lowest level has its best total alone
                return self.own.picked(level.name, query, unit, group)
            return np.asarray(own[unit - some.start, rows.columns[query].start + group])

        return with_answers(
            level, problem, detail=lambda unit, cell: answers(CELLS, unit, cell), groups=answers
        )


@dataclass(frozen=True, eq=False)
class _PoolTask:
    """Pools the answers of some units of a level."""

    answers: PooledAnswers
    level: PooledLevel
    child_first: Ints
    storage: Storage | None

    def __call__(self, units: range) -> Floats | StoredNumbers:
        answers, level = self.answers, self.level
        below = self._below(answers, units)
        values = {query: self._joined(answers, query, units, below) for query in level.weight}
        parts = [values[query] for query in level.columns if query != BEST_TOTAL]
        if BEST_TOTAL in level.columns:
            parts.append(answers.plan.best_totals(level.name, units, values)[:, None])
        found = np.ascontiguousarray(np.hstack(parts))
        if self.storage is None:
            return found
        bits = found.view(np.int64)  # files have whole numbers: these are the bits of floats
        name = f"{stem_of(level.name)}/{units.start}"
        return store_numbers(self.storage, name, [bits], least=-1, most=1)

    def _kids(self, units: range) -> tuple[range, Ints]:
        """The children of some units, and where those of each begin among them."""
        start = self.child_first[units.start : units.stop + 1]
        return range(int(start[0]), int(start[-1])), start[:-1] - start[0]

    def _below(self, answers: PooledAnswers, units: range) -> Floats | None:
        """The rows of the units' children, read once for all queries, if they were pooled."""
        rows = answers.rows.get(self.level.below)
        return None if rows is None else rows[self._kids(units)[0]]

    def _joined(
        self, answers: PooledAnswers, query: str, units: range, below: Floats | None
    ) -> Floats:
        """y* of some units."""
        kind = self.level.of_unit[units.start : units.stop]
        weight = self.level.weight[query][kind][:, None]
        own = self.level.own[query][kind][:, None]
        found = np.zeros((len(units), answers.plan.sizes[query]))
        if own.any():
            found = own * answers.own.values(self.level.name, query, units)
        if self.level.below and (weight > own).any():
            kids, first = self._kids(units)
            rows = answers.rows.get(self.level.below)
            if below is not None and rows is not None and query in rows.columns:
                values: Floats | Ints = below[:, rows.columns[query]]
            else:
                values = answers.own.values(self.level.below, query, kids)
            found += (weight - own) * np.add.reduceat(values, first, axis=0)
        return np.divide(found, weight, out=found, where=weight > 0)


@contextmanager
def pooled(
    source: AnswerSource,
    settings: TopDownSettings,
    schema: Schema,
    tree: Geography,
    *,
    published: Geography,
    engine: Engine,
    workspace: Storage | None = None,
) -> Iterator[PooledAnswers]:
    """The answers with those of the levels above pooled, from the lowest that takes part up.

    In a workspace they are files, which go in the end.
    """
    plan = PoolPlan.of(settings, schema, tree, answers=source.open(), published=published)
    storage = None if workspace is None else workspace.below(POOLED)
    if storage is None:
        yield _pooled(source, plan, tree, engine, None)
        return
    storage.remove()  # of a run that was killed
    with removing(storage.remove, storage.uri):
        yield _pooled(source, plan, tree, engine, storage)


def _pooled(
    source: AnswerSource, plan: PoolPlan, tree: Geography, engine: Engine, storage: Storage | None
) -> PooledAnswers:
    rows: dict[str, PooledRows] = {}
    for level in reversed(list(plan.levels.values())):
        first = np.arange(tree.size(level.name) + 1)
        if level.below:
            first = np.append(tree.children_start(level.name), tree.size(level.below))
        task = _PoolTask(PooledAnswers(source, plan, dict(rows)), level, first, storage)
        ranges = list(_pieces(first, sum(plan.sizes.values())))
        begins = np.array([one.start for one in ranges], dtype=np.int64)
        rows[level.name] = PooledRows(level.columns, begins, list(engine.map(task, ranges)))
    return PooledAnswers(source, plan, rows)


def _pieces(child_first: Ints, answers: int) -> Iterator[range]:
    """Runs of units that have, with their children, not too many answers together."""
    ends = np.cumsum((np.diff(child_first) + 1) * answers)
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + NUMBERS_AT_ONCE, side="right"))
        last = max(last, first + 1)
        yield range(first, last)
        first = last
