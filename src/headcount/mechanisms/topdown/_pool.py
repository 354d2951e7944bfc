"""Answers pooled with those of the levels below before the descent (accuracy/pooled.py).

From the lowest level that takes part upwards, every answer is joined with the sum of its
children's, by inverse variance. That looks at noisy answers only, so it costs no privacy; and then
TopDown goes on as ever, with better answers and the weights that they deserve.

Where totals are fitted first (``passes``), the total is the best linear one from all pooled answers
of its unit, since nothing else is fitted beside it:

    t = 1' P^-1 (sum over q of w*_q Q_q' y*_q),   variance 1' P^-1 1,   P = sum over q of w*_q Q_q'Q_q

Sums go over children in the order of the tree, whole families at a time, so that no piece of work
and no engine changes a bit of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from headcount.accuracy.components import Components
from headcount.accuracy.kinds import NoiseTree
from headcount.accuracy.known import largest, pseudo_inverse
from headcount.accuracy.pooled import lowest_gaining, own_weights, pooled_weights
from headcount.arrays import Floats, Ints, Ints32
from headcount.engines import Engine
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
class PoolPlan:
    """Which answers are pooled, and with which weights: known without any answer.

    where
        geography     the tree that is measured
        lowest        the depth of the lowest level that takes part; 0 if none does
        totals_first  the levels that fit the total alone before other queries
        groups        for each query the number of the answer that counts each cell
        sizes         how many answers each query has
    """

    geography: Geography
    tree: NoiseTree
    components: Components
    lowest: int
    totals_first: frozenset[str]
    groups: Mapping[str, Ints]
    sizes: Mapping[str, int]

    @classmethod
    def of(
        cls, settings: TopDownSettings, schema: Schema, tree: Geography, *, published: Geography
    ) -> PoolPlan:
        """That of TopDown's settings, completed ones, on the tree that is measured."""
        components = components_of(settings, schema)
        noise = noise_tree(settings, schema, tree, published=published)
        lowest = lowest_gaining(noise, list(components.answers))
        if settings.pool_from:
            lowest = tree.depth(settings.pool_from)
        queries = [every_cell(schema), *settings.marginals]
        totals = {query.name for query in settings.marginals if not query.by}
        fitted = ((level, set(passes.fit[0])) for level, passes in settings.passes if passes.fit)
        return cls(
            geography=tree,
            tree=noise,
            components=components,
            lowest=lowest,
            totals_first=frozenset(level for level, first in fitted if first <= totals),
            groups={query.name: query.groups(schema) for query in queries},
            sizes={query.name: query.size(schema) for query in queries},
        )

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels whose answers are not as they were drawn, from the whole down."""
        own = self.geography.levels[self.lowest]
        joined = self.geography.levels[: self.lowest]
        return (*joined, own) if self.lowest and own in self.totals_first else joined

    @cached_property
    def weights(self) -> Mapping[str, Sequence[Floats]]:
        """w* of every query, for each depth by kind of unit."""
        return {query: pooled_weights(self.tree, query, self.lowest) for query in self.sizes}

    def columns(self, level: str) -> dict[str, slice]:
        """Where each query's answers stand in a row; a level that is not pooled has its total."""
        depth, at, found = self.geography.depth(level), 0, {}
        for query, size in self.sizes.items():
            if depth < self.lowest and self.weights[query][depth].any():
                found[query] = slice(at, at + size)
                at += size
        if level in self.totals_first:
            found[BEST_TOTAL] = slice(at, at + 1)
        return found

    def class_weights(self, level: str, queries: Sequence[str]) -> tuple[Floats, Ints32]:
        """For each kind of unit the weights of some queries, and each unit's kind."""
        depth = self.geography.depth(level)
        kinds = self.tree.kinds[depth]
        nothing = np.zeros(len(kinds.units))
        asked = [self.weights[query][depth] if query in self.sizes else nothing for query in queries]
        if level in self.totals_first:
            best = 1 / self._total_variance(level)[1]
            asked = [
                best if self.sizes.get(query) == 1 else own
                for query, own in zip(queries, asked, strict=True)
            ]
        return np.stack(asked, axis=1), kinds.of_unit.astype(np.int32)

    def _total_variance(self, level: str) -> tuple[Floats, Floats]:
        """P^-1 1 of each kind, on the component of evens, and 1' P^-1 1."""
        depth, evens = self.geography.depth(level), self.components.every[0]
        size = self.components.size(evens)
        precision = np.zeros((len(self.tree.kinds[depth].units), size, size))
        for query in self.sizes:
            own = self.components.precision(query, evens)
            precision += self.weights[query][depth][:, None, None] * own
        ones = self.components.even_cells().sum(axis=0)
        found = pseudo_inverse(precision, scale=largest(precision)) @ ones
        return found, found @ ones

    def best_totals(self, level: str, units: range, answers: Mapping[str, Floats]) -> Floats:
        """The best linear total of some units from their answers to every query."""
        depth, cells = self.geography.depth(level), self.components.even_cells()
        kind = self.tree.kinds[depth].of_unit[units.start : units.stop]
        direction = self._total_variance(level)[0][kind]
        found = np.zeros(len(units))
        for query, values in answers.items():
            rows = np.zeros((self.sizes[query], cells.shape[1]))
            np.add.at(rows, self.groups[query], cells)
            own = np.einsum("ug,gk,uk->u", values, rows, direction, optimize=True)
            found += self.weights[query][depth][kind] * own
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
        """The answers, in this process."""
        return replace(self, source=self.source.open())

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
        queries = (CELLS, *level.families)
        weights, kinds = self.plan.class_weights(level.name, queries)
        measured = np.array([level.weight, *level.family_weight]) > 0
        return replace(level, classes=(weights * measured, kinds))

    def answered(self, level: LevelPlan, problem: NodeProblem) -> NodeProblem:
        """The problem with its answers."""
        if (rows := self.rows.get(level.name)) is None:
            return self.own.answered(level, problem)
        some = range(int(problem.child.min()), int(problem.child.max()) + 1)
        own = rows[some]

        def answers(query: str, unit: Ints, group: Ints) -> Floats | Ints:
            if BEST_TOTAL in rows.columns and self.plan.sizes[query] == 1:
                return own[unit - some.start, rows.columns[BEST_TOTAL].start]
            if query not in rows.columns:  # the lowest level has its best total alone
                return self.own.picked(level.name, query, unit, group)
            return own[unit - some.start, rows.columns[query].start + group]

        return with_answers(
            level, problem, detail=lambda unit, cell: answers(CELLS, unit, cell), groups=answers
        )


@dataclass(frozen=True, eq=False)
class _PoolTask:
    """Pools the answers of some units of a level."""

    answers: PooledAnswers
    level: str
    child_first: Ints
    storage: Storage | None

    def __call__(self, units: range) -> Floats | StoredNumbers:
        plan, open_ = self.answers.plan, self.answers.open()
        values = {query: self._joined(open_, query, units) for query in plan.sizes}
        columns = plan.columns(self.level)
        parts = [values[query] for query in columns if query != BEST_TOTAL]
        if BEST_TOTAL in columns:
            some = {query: own for query, own in values.items() if own is not None}
            parts.append(plan.best_totals(self.level, units, some)[:, None])
        found = np.hstack(parts)
        if self.storage is None:
            return found
        bits = found.view(np.int64)  # whole numbers in files: here each is the bits of a float
        name = f"{stem_of(self.level)}/{units.start}"
        return store_numbers(self.storage, name, [bits], least=-1, most=1)

    def _joined(self, answers: PooledAnswers, query: str, units: range) -> Floats | None:
        """y* of some units; None where nobody was asked."""
        plan, depth = answers.plan, answers.plan.geography.depth(self.level)
        kind = plan.tree.kinds[depth].of_unit[units.start : units.stop]
        weight = plan.weights[query][depth][kind][:, None]
        own = own_weights(plan.tree, query, depth)[kind][:, None]
        if not weight.any():
            return None
        found = np.zeros((len(units), plan.sizes[query]))
        if own.any():
            found = answers.own.values(self.level, query, units) * own
        if depth < plan.lowest and (weight > own).any():
            start = self.child_first[units.start : units.stop + 1]
            kids = range(int(start[0]), int(start[-1]))
            below = answers.values(plan.geography.levels[depth + 1], query, kids)
            sums = np.add.reduceat(below, start[:-1] - start[0], axis=0)
            found = found + (weight - own) * sums
        return np.divide(found, weight, out=np.zeros_like(found), where=weight > 0)


def pooled(
    source: AnswerSource, plan: PoolPlan, *, engine: Engine, workspace: Storage | None
) -> PooledAnswers:
    """The answers with those of the levels above pooled, from the lowest that takes part up."""
    rows: dict[str, PooledRows] = {}
    storage = None if workspace is None else workspace.below(POOLED)
    for level in reversed(plan.levels):
        depth = plan.geography.depth(level)
        first = np.zeros(plan.tree.units(depth) + 1, dtype=np.int64)
        if depth < len(plan.geography.levels) - 1:
            first = np.append(plan.geography.children_start(level), plan.tree.units(depth + 1))
        task = _PoolTask(PooledAnswers(source, plan, dict(rows)), level, first, storage)
        ranges = list(_pieces(first, sum(plan.sizes.values())))
        pieces = list(engine.map(task, ranges))
        begins = np.array([one.start for one in ranges], dtype=np.int64)
        rows[level] = PooledRows(plan.columns(level), begins, pieces)
    return PooledAnswers(source, plan, rows)


def _pieces(child_first: Ints, answers: int) -> Iterator[range]:
    """Runs of units that have, with their children, not too many answers together."""
    cost = (np.diff(child_first) + 1) * answers
    ends = np.cumsum(cost)
    first = 0
    while first < len(cost):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + NUMBERS_AT_ONCE, side="right"))
        last = max(last, first + 1)
        yield range(first, last)
        first = last
