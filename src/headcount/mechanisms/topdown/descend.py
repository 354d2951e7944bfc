"""The descent: the root alone, then level by level every parent's children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.engines import Engine
from headcount.geography import Geography
from headcount.mechanisms.topdown._estimate import (
    SparseRows,
    Step,
    Triples,
    estimate,
    gather,
    least_squares_of,
    refuse_broken,
    refuse_broken_rounding,
    rescue,
    round_solved,
)
from headcount.mechanisms.topdown._level import MeasuredLevel, prepare_level
from headcount.mechanisms.topdown._parents import ParentChunk, Parents, build_problem, chunks
from headcount.mechanisms.topdown._room import Room
from headcount.mechanisms.topdown._room_plan import Planner
from headcount.mechanisms.topdown.measure import Measurements
from headcount.mechanisms.topdown.restrict import Restrictions, refuse_release_outside
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.progress import Progress, silent
from headcount.schema import Schema
from headcount.tabulate import Query
from headcount.tabulate.counts import adder

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_LARGEST = {"largest violation"}


class LevelStore(Protocol):
    """Where finished levels are kept, so that a crashed run need not do them again."""

    def load(self, level: str) -> tuple[SparseRows, dict[str, float]] | None:
        """A finished level, or None."""

    def save(self, level: str, rows: SparseRows, notes: dict[str, float]) -> None:
        """Keep a finished level, whole or not at all."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Integer counts of every level (sparse, units x cells), and what happened at each."""

    tables: Mapping[str, csr_array[Any, tuple[int, int]]]
    notes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def descend(
    *,
    schema: Schema,
    geography: Geography,
    settings: TopDownSettings,
    measurements: Measurements,
    restrictions: Restrictions,
    engine: Engine,
    progress: Progress = silent,
    finished: LevelStore | None = None,
    seconds: dict[str, float] | None = None,
) -> Descent:
    """Estimate every level from the top down; levels that ``finished`` holds are taken from it.

    ``seconds`` gets the time that each level took here; a level taken from ``finished`` has none.
    """
    rows: dict[str, SparseRows] = {}
    notes: dict[str, dict[str, float]] = {}

    @cache
    def level_of(name: str) -> MeasuredLevel:
        return prepare_level(
            name,
            schema=schema,
            geography=geography,
            settings=settings,
            measurements=measurements,
            restrictions=restrictions[name],
        )

    planner = Planner(schema=schema, geography=geography, restrictions=restrictions)
    room = Room(planner=planner, measurements=measurements, level=level_of)
    for depth, name in enumerate(geography.levels):
        if finished is not None and (kept := finished.load(name)) is not None:
            rows[name], notes[name] = kept
            continue
        began = perf_counter()
        level = level_of(name)
        if depth == 0:
            step = _root(schema, level, measurements, room)
        else:
            parents = Parents(
                above=rows[geography.levels[depth - 1]],
                child_first=_child_first(geography, depth),
                codes=geography.units[depth - 1],
                level=level,
                measurements=measurements,
                possible=schema.possible,
                keep=kept_margin(schema, settings),
            )
            step = _children(parents, chunks(geography, name), engine, progress, room)
        rows[name], notes[name] = step.rows, step.notes
        refuse_broken(rows[name], level, geography.units[depth])
        if finished is not None:
            finished.save(name, rows[name], notes[name])
        if seconds is not None:
            seconds[name] = round(seconds.get(name, 0.0) + perf_counter() - began, 1)
    tables = _summed_from_leaf(geography, rows, schema.size)
    refuse_release_outside(restrictions, tables, schema=schema, geography=geography)
    return Descent(tables, notes)


def _root(schema: Schema, level: MeasuredLevel, measurements: Measurements, room: Room) -> Step:
    """The whole has no parent: every possible cell may be non-zero, and no sum is given."""
    cell = np.flatnonzero(schema.possible).astype(np.int32)
    everything = SparseRows(np.array([0, len(cell)]), cell, np.zeros(len(cell), dtype=np.int64))
    only, first = np.zeros(1, dtype=np.int64), np.array([0, 1])
    problem = build_problem(everything, only, first, level, measurements)
    batch = replace(problem.batch, is_root=True)
    solved = least_squares_of(batch)
    counts, stuck, notes, broken = round_solved(batch, solved)
    refuse_broken_rounding(broken, np.array([level.name]))
    found: Triples = problem.unit, problem.cell, counts
    moved = 0
    if len(stuck):
        found, moved = room.whole(problem.cell, solved.x)
    notes |= {"room made": len(stuck), "moved to make room": moved}
    return Step(gather([found], range(1)), notes)


def _children(
    parents: Parents, families: list[ParentChunk], engine: Engine, progress: Progress, room: Room
) -> Step:
    """Every child of a level: all parents, then those that cannot be met once more."""
    done = engine.map(estimate, parents.works(families))
    steps = []
    for step in progress(done, what=parents.level.name, total=len(families)):
        refuse_broken_rounding(step.broken, parents.codes)
        steps.append(step)
    rows, notes = _join([step.rows for step in steps]), _add_notes([step.notes for step in steps])
    stuck = np.concatenate([step.stuck for step in steps]).tolist()
    if not stuck:
        return Step(rows, notes)
    rescued, wider = _rescued(parents, stuck, engine)
    above = parents.above.matrix(room.schema.size)
    rescued = room.kept(parents.level.name, above, rescued)
    left = [parent for parent in stuck if parent not in rescued]
    notes["failsafe"] += len(rescued)
    notes["failsafe rounded wider"] += sum(wider[parent] for parent in rescued)
    notes["room made"] += len(left)
    if left:
        made, moved = room.make(parents.level.name, left, room.summed(above, rescued))
        rescued |= made
        notes["moved to make room"] += moved
    return Step(_replaced(rows, rescued, parents.child_first), notes)


def _rescued(
    parents: Parents, stuck: list[int], engine: Engine
) -> tuple[dict[int, Triples], dict[int, bool]]:
    """Stuck parents' children by the failsafe, if one is set and finds any; and which are wide."""
    if parents.keep is None:
        return {}, {}
    # Their answers are drawn now: nobody could know before which empty cells would reopen.
    found = zip(stuck, engine.map(rescue, parents.reopened(stuck)), strict=True)
    made = {parent: one for parent, one in found if one is not None}
    return {p: one[0] for p, one in made.items()}, {p: one[1] for p, one in made.items()}


def _replaced(rows: SparseRows, made: Mapping[int, Triples], child_first: Ints) -> SparseRows:
    """Rows with other counts for the children of some parents."""
    unit = np.repeat(np.arange(rows.units), np.diff(rows.start))
    keep = np.ones(rows.units, dtype=bool)
    for parent in made:
        keep[child_first[parent] : child_first[parent + 1]] = False
    kept = keep[unit]
    pieces = [(unit[kept], rows.cell[kept].astype(np.int64), rows.value[kept]), *made.values()]
    return gather(pieces, range(rows.units))


def _child_first(geography: Geography, depth: int) -> Ints:
    first = geography.children_start(geography.levels[depth - 1])
    return np.append(first, len(geography.units[depth])).astype(np.int64)


def kept_margin(schema: Schema, settings: TopDownSettings) -> Ints32 | None:
    """The margin each cell belongs to when the attributes of the failsafe are summed over."""
    if not settings.failsafe_over:
        return None
    kept = tuple(name for name in schema.names if name not in settings.failsafe_over)
    return Query("kept", kept).groups(schema).astype(np.int32)


def _summed_from_leaf(
    geography: Geography, rows: dict[str, SparseRows], cells: int
) -> dict[str, csr_array[Any, tuple[int, int]]]:
    """Every level as the sum of its leaves: after a failsafe a parent is what its children say."""
    tables = {geography.leaf: rows[geography.leaf].matrix(cells)}
    for depth in range(len(geography.levels) - 1, 0, -1):
        level, below = geography.levels[depth - 1], geography.levels[depth]
        tables[level] = (adder(geography, level, of=below) @ tables[below]).tocsr()
    return tables


def _join(parts: list[SparseRows]) -> SparseRows:
    """Rows of consecutive chunks as one."""
    ends = np.cumsum([part.start[-1] for part in parts])
    offset = np.concatenate([[0], ends[:-1]])
    start = [part.start[:-1] + o for part, o in zip(parts, offset, strict=True)]
    return SparseRows(
        np.concatenate([*start, ends[-1:]]),
        np.concatenate([part.cell for part in parts]),
        np.concatenate([part.value for part in parts]),
    )


def _add_notes(parts: list[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            old = total.get(name, 0)
            total[name] = max(old, value) if name in _LARGEST else old + value
    return total
