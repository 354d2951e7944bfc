"""Answers pooled with those of the levels below before the descent (linear/tree.py).

From the lowest level that takes part upwards, every answer is joined with the sum of its
children's, by inverse variance. That looks at noisy answers only, so it costs no
privacy; and then TopDown goes on as ever, with better answers and the weights that they deserve.

Sums go over children in the order of the tree, whole families at a time, so that no piece of work
and no engine changes a bit of them.

Which answers are pooled, and with which weights, is planned before any is drawn. Where totals are
fitted first (``passes``), the total is the best linear one from all pooled answers of its unit,
since nothing else is fitted beside it:

    t = 1' P^-1 (sum over q of w*_q Q_q' y*_q),   variance 1' P^-1 1
    P = sum over q of w*_q Q_q' Q_q

A query without a share at a level is answered there by the sum of its children's answers, if each
of them has one; but not where passes say what is fitted, and not where its answer is exact anyway.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from time import perf_counter
from typing import NamedTuple

import numpy as np

from headcount.arrays import Floats, Ints, Ints32
from headcount.errors import RunError
from headcount.files import POSIX, append, from_json, mapped, scratch_file
from headcount.geography import Geography
from headcount.mechanisms import Context
from headcount.release.layout import stem_of
from headcount.schema import Schema
from headcount.storage import Storage, StoredFloats, store_floats
from headcount.tabulate import CELLS, every_cell
from headcount.topdown._estimate import LevelPlan
from headcount.topdown.accuracy import components_of, filled_from_below, noise_tree
from headcount.topdown.answers import Answers, Classes, Picker, Planned
from headcount.topdown.linear.components import Components
from headcount.topdown.linear.matrices import largest, pseudo_inverse
from headcount.topdown.linear.tree import (
    NoiseTree,
    lowest_gaining,
    own_weights,
    pooled_weights,
)
from headcount.topdown.settings import PlannedNoise, TopDownSettings

BEST_TOTAL = "best total"
"""The column of totals that are fitted before anything else."""
TELLING = 5e-4
"""At the lowest level, answers that tell less of the total than this part of the others are not
drawn for it: 2,016 cells in a block group would be, for 0.04 % of its precision."""


@dataclass(frozen=True, eq=False)
class _PooledLevel:
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

    levels: Mapping[str, _PooledLevel]
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
) -> Iterator[_PooledLevel]:
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
        yield _PooledLevel(
            name=level,
            below=tree.levels[depth + 1] if depth < lowest else "",
            of_unit=noise.classes[depth].of_unit.astype(np.int32),
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
    settings: TopDownSettings, tree: Geography, levels: Sequence[_PooledLevel], planned: Planned
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


_log = logging.getLogger(__name__)

POOLED = "pooled"
"""The folder of pooled answers in a run's workspace."""
SECONDS = "answers pooled"
"""How long pooling took, beside the levels of the descent."""
NUMBERS_AT_ONCE = 1 << 22
"""Answers of children that one piece of work reads."""


class _PooledFiles:
    """Pooled answers of a run in its workspace: a file for each piece of work, and a note of it.

    A resumed run takes those that are there. They have noisy answers and nothing of the truth, and
    would come out the same again: so a damaged file is reported and made anew, and so is one of
    another run, since ``made_from`` names data, noise and settings.
    """

    def __init__(self, workspace: Storage, run: int, *, made_from: bytes) -> None:
        self.storage = workspace.below(f"{POOLED}-{run}")
        self._made_from = sha256(made_from).hexdigest()

    def load(self, level: str, units: range) -> StoredFloats | None:
        """The pooled answers of exactly these units, if they are there and sound."""
        name = self._name(level, units)
        try:
            noted = from_json(self.storage.read(f"{name}.json").to_pybytes())
            digests = bytes.fromhex(noted["digests"])
            rows = StoredFloats(self.storage, name, noted["kind"], tuple(noted["shape"]), digests)
            if noted["made_from"] != self._made_from or len(rows) != len(units):
                raise ValueError("it was made from other data, or with other noise or settings")
            rows[:]  # each block has its digest
        except FileNotFoundError:
            return None
        # A damaged note fails in whatever way the reader happens to stumble.
        except (OSError, ValueError, KeyError, TypeError, RunError) as error:
            where = f"{self.storage.folder}/{name}"
            _log.warning("%s cannot be used (%s): its answers are pooled again", where, error)
            return None
        return rows

    def save(self, level: str, units: range, rows: Floats) -> StoredFloats:
        """Write the pooled answers of some units, then that they are there."""
        name = self._name(level, units)
        stored = store_floats(self.storage, name, rows)
        noted = {"made_from": self._made_from, "kind": stored.kind, "shape": stored.shape}
        noted["digests"] = stored.digests.hex()
        self.storage.put(f"{name}.json", json.dumps(noted).encode())
        return stored

    def _name(self, level: str, units: range) -> str:
        return f"{stem_of(level)}/{units.start}-{units.stop}"


@dataclass(frozen=True, eq=False)
class _PooledRows:
    """Pooled answers of a level: a row for each unit, the columns of ``_PooledLevel.columns``.

    where
        first    the first unit of each piece
        pieces   the rows of each, here or in a file
    """

    columns: Mapping[str, slice]
    first: Ints
    pieces: Sequence[Floats | StoredFloats]

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
            found[row - units.start : last - units.start] = piece[row - first : last - first]
            row, at = last, at + 1
        return found


@dataclass(frozen=True, eq=False)
class Pool:
    """The stage that pools answers: those of the levels that have been pooled.

    ``rows`` of a level that is not there yet are missing while those below are made.
    """

    plan: PoolPlan
    rows: Mapping[str, _PooledRows]

    def has(self, level: str, query: str) -> bool:
        """Whether the answers to a query are pooled at a level."""
        return level in self.rows and query in self.rows[level].columns

    def values(self, level: str, query: str, units: range) -> Floats:
        """Pooled answers of some units to a query."""
        rows = self.rows[level]
        return rows[units][:, rows.columns[query]]

    def picker(self, level: str, unit: Ints, drawn: Callable[[], Picker]) -> Picker:
        """What gives single answers of some units, pooled where they are."""
        if (rows := self.rows.get(level)) is None:
            return drawn()
        first = int(unit.min())
        own = rows[range(first, int(unit.max()) + 1)]

        def picked(query: str, unit: Ints, group: Ints) -> Floats | Ints:
            if BEST_TOTAL in rows.columns and query in self.plan.totals:
                group = np.zeros_like(group) + rows.columns[BEST_TOTAL].start
                return np.asarray(own[unit - first, group])
            if query not in rows.columns:  # the lowest level has its best total alone
                return drawn()(query, unit, group)
            return np.asarray(own[unit - first, rows.columns[query].start + group])

        return picked

    def weighted(self, level: LevelPlan) -> LevelPlan:
        """A level's plan with the weights that its answers have after pooling."""
        if level.name not in self.rows:
            return level
        weights, kinds = self.plan.class_weights(level.name, (CELLS, *level.families))
        measured = np.array([level.weight, *level.family_weight]) > 0
        return replace(level, classes=(weights * measured, kinds))


class _PoolPiece(NamedTuple):
    """Some units of a level whose answers are pooled together.

    where
        kids    their children, on the level below
        first   where those of each unit begin among these
    """

    units: range
    kids: range
    first: Ints


@dataclass(frozen=True, eq=False)
class _PoolTask:
    """Pools the answers of some units of a level, unless that is done.

    where
        drawn   the answers before they are pooled
        pool    those of the levels below
    """

    drawn: Answers
    pool: Pool
    level: _PooledLevel
    files: _PooledFiles | None

    def __call__(self, piece: _PoolPiece) -> Floats | StoredFloats:
        if self.files is None:
            return self._pooled(piece)
        found = self.files.load(self.level.name, piece.units)
        if found is None:
            found = self.files.save(self.level.name, piece.units, self._pooled(piece))
        return found

    def _pooled(self, piece: _PoolPiece) -> Floats:
        """The row of each unit."""
        pool, level = self.pool, self.level
        rows = pool.rows.get(level.below)
        below = None if rows is None else rows[piece.kids]  # read once for all queries
        values = {query: self._joined(query, piece, below) for query in level.made_from}
        parts = [values[query] for query in level.columns if query != BEST_TOTAL]
        if BEST_TOTAL in level.columns:
            parts.append(pool.plan.best_totals(level.name, piece.units, values)[:, None])
        return np.ascontiguousarray(np.hstack(parts))

    def _joined(self, query: str, piece: _PoolPiece, below: Floats | None) -> Floats:
        """y* of some units."""
        drawn, pool, level, units = self.drawn, self.pool, self.level, piece.units
        kind = level.of_unit[units.start : units.stop]
        weight = level.weight[query][kind][:, None]
        own = level.own[query][kind][:, None]
        found = np.zeros((len(units), pool.plan.sizes[query]))
        if own.any():
            found = own * drawn.values(level.name, query, units)
        if level.below and (weight > own).any():
            rows = pool.rows.get(level.below)
            if below is not None and rows is not None and query in rows.columns:
                values: Floats | Ints = below[:, rows.columns[query]]
            else:
                values = drawn.values(level.below, query, piece.kids)
            found += (weight - own) * np.add.reduceat(values, piece.first, axis=0)
        return np.divide(found, weight, out=found, where=weight > 0)


@contextmanager
def answers_of_run(
    drawn: Answers,
    settings: TopDownSettings,
    schema: Schema,
    tree: Geography,
    *,
    published: Geography,
    context: Context,
    made_from: bytes = b"",
    run: int = 0,
    seconds: dict[str, float],
) -> Iterator[Answers]:
    """What a descent is given: the answers as they were drawn, or pooled if the settings say so.

    In a workspace pooled answers are files, which go once they have been used; a run that broke off
    finds them again. Without one they are in files without a name. ``seconds`` gets the time that
    it took.
    """
    if not settings.pool:
        yield drawn
        return
    began, files = perf_counter(), None
    plan = PoolPlan.of(
        settings, schema, tree, planned=drawn.planned, classes=drawn.classes, published=published
    )
    if context.workspace is not None:
        files = _PooledFiles(context.workspace, run, made_from=made_from)
    answers = pooled(drawn, plan, tree, context=context, files=files)
    seconds[SECONDS] = round(seconds.get(SECONDS, 0.0) + perf_counter() - began, 1)
    yield answers
    if files is not None:
        files.storage.remove()


def pooled(
    drawn: Answers,
    plan: PoolPlan,
    tree: Geography,
    *,
    context: Context,
    files: _PooledFiles | None = None,
) -> Answers:
    """The answers with those of the levels above pooled, from the lowest that takes part up."""
    rows: dict[str, _PooledRows] = {}
    for level in reversed(list(plan.levels.values())):
        task = _PoolTask(drawn, Pool(plan, dict(rows)), level, files)
        pieces = list(_pieces(level, tree, sum(plan.sizes.values())))
        what = f"pooled answers, {level.name}"
        made = context.progress(context.engine.map(task, pieces), what=what, total=len(pieces))
        begins = np.array([one.units.start for one in pieces], dtype=np.int64)
        kept = list(made) if files is not None or len(pieces) == 1 else _mapped(made)
        rows[level.name] = _PooledRows(level.columns, begins, kept)
    return replace(drawn, planned={**drawn.planned, **plan.more}, pool=Pool(plan, rows))


def _mapped(made: Iterable[Floats | StoredFloats]) -> list[Floats]:
    """Rows as pages of a file without a name, piece by piece: for levels without a workspace."""
    if not POSIX:  # a file that is mapped cannot go
        return [rows[:] for rows in made]
    shapes = []
    with scratch_file() as file:
        for rows in made:
            shapes.append(rows.shape)
            append(file, rows[:], np.float64)
        numbers = mapped(file, np.float64)
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    return [
        own.reshape(shape) for own, shape in zip(np.split(numbers, ends[:-1]), shapes, strict=True)
    ]


def _pieces(level: _PooledLevel, tree: Geography, answers: int) -> Iterator[_PoolPiece]:
    """Runs of units that have, with their children, not too many answers together."""
    child_first = np.zeros(tree.size(level.name) + 1, dtype=np.int64)
    if level.below:
        child_first = np.append(tree.children_start(level.name), tree.size(level.below))
    ends = np.cumsum((np.diff(child_first) + 1) * answers)
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + NUMBERS_AT_ONCE, side="right"))
        last = max(last, first + 1)
        kids = range(int(child_first[first]), int(child_first[last]))
        yield _PoolPiece(range(first, last), kids, child_first[first:last] - kids.start)
        first = last
