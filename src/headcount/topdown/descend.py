"""The descent: the root alone, then level by level every parent's children.

A piece of work, wherever it runs, measures, estimates and writes one part. What is sent to other
processes is a range of parents, and where the files are. Whoever works on it opens the truth and
the key, in ``Measurements`` alone; the estimate is a pure function of what that gives out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Flags, Ints, Ints32
from headcount.engines import Engine
from headcount.errors import RunError
from headcount.geography import Geography
from headcount.processes import Progress, silent
from headcount.release.layout import stem_of
from headcount.schema import Schema
from headcount.storage import Storage, StoredNumbers, store_numbers
from headcount.tabulate import Counts, Query
from headcount.tabulate.counts import add_up
from headcount.topdown._estimate import (
    BrokenConstraint,
    LevelPlan,
    NodeWork,
    broken_bound,
    broken_rounding,
    estimate,
    piece,
    pose,
    prepare_level,
    reopened,
    rescue,
    round_solved,
)
from headcount.topdown._repair import Repair, RepairPlanner
from headcount.topdown.answers import Answers
from headcount.topdown.measure import TRUTH
from headcount.topdown.parts import (
    Estimates,
    LevelPart,
    LevelParts,
    ParentChunk,
    PartsInMemory,
    SparseRows,
    Triples,
    chunks,
    gather,
    joined,
    reordered,
)
from headcount.topdown.restrict import JointTotals, Restrictions, refuse_release_outside
from headcount.topdown.settings import TopDownSettings

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class _PieceOutcome:
    """What comes back of a piece of work: what happened, and parents without an answer.

    ``broken`` is a constraint that was not kept. It is found before anything is written.
    """

    notes: dict[str, float]
    stuck: tuple[int, ...]
    broken: BrokenConstraint | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class _LevelTask:
    """The children of one level: where to read all that is needed, and where to write them.

    where
        above          name of the level above, whose estimates are finished
        child_first    first child of every parent, and the end
        measurements   noisy answers, which may open files where they are asked
        keep           the margin each cell belongs to in the failsafe; None for no failsafe
        possible       the cells that are no structural zeros: only these may reopen
    """

    level: LevelPlan
    above: str
    child_first: Ints | StoredNumbers
    estimates: Estimates
    parts: LevelParts
    measurements: Answers
    possible: Flags
    keep: Ints32 | None = None

    def estimate(self, chunk: ParentChunk) -> _PieceOutcome:
        """Estimate, round, check and write the children of some parents, unless that is done."""
        part = self.parts.load(self.level.name, chunk.children)
        if part is None:
            step = estimate(self._measured(chunk))
            broken = broken_rounding(step.broken)
            if broken is None and not len(step.stuck):
                broken = broken_bound(step.rows, chunk.children, self.level)
            if broken is not None:
                return _PieceOutcome(step.notes, (), broken)
            part = LevelPart(step.rows, step.notes, step.stuck)
            self.parts.save(self.level.name, chunk.children, part)
        return _PieceOutcome(part.notes, tuple(part.stuck.tolist()))

    def rescue(self, parent: int) -> tuple[Triples, bool] | None:
        """The children of a parent without an answer, by the failsafe."""
        if self.keep is None:
            raise AssertionError("no failsafe is set")
        above = self.estimates.rows(self.above, range(parent, parent + 1))
        kids = self.child_first[parent : parent + 2]
        work = reopened(above, kids, self.level, keep=self.keep, possible=self.possible)
        # Drawn only now: nobody could know before which empty cells would reopen.
        answered = self.measurements.answered(self.level, work.problem)
        return rescue(replace(work, problem=answered))

    def _measured(self, chunk: ParentChunk) -> NodeWork:
        """The problems of a piece with their noisy answers."""
        above = self.estimates.rows(self.above, chunk.parents)
        own = self.child_first[chunk.parents.start : chunk.parents.stop + 1]
        work = piece(above, chunk, own, self.level)
        if work.problem is None:
            return work
        answered = self.measurements.answered(self.level, work.problem)
        return replace(work, problem=answered)


_LARGEST = {"largest violation"}


@dataclass(frozen=True, eq=False)
class Descent:
    """Integer counts of every level (sparse, units x cells), and what happened at each.

    ``said`` is what a receipt says of the answers that they are from.
    """

    tables: Mapping[str, csr_array[Any, tuple[int, int]]]
    notes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)


def descend(
    *,
    schema: Schema,
    geography: Geography,
    settings: TopDownSettings,
    measurements: Answers,
    restrictions: Restrictions,
    engine: Engine,
    progress: Progress = silent,
    parts: LevelParts | None = None,
    workspace: Storage | None = None,
    joint: Mapping[str, JointTotals] = MappingProxyType({}),
    seconds: dict[str, float] | None = None,
) -> Descent:
    """Estimate every level from the top down; parts that are there already are taken as they are.

    The finished leaf is mapped from a file in ``workspace``, if there is one, and so is where
    children are. ``joint`` has totals that units of a level have together. ``seconds`` gets the
    time that each level took measurements.
    """
    parts = parts if parts is not None else PartsInMemory()
    estimates = Estimates(parts)
    notes: dict[str, dict[str, float]] = {}

    @cache
    def level_of(name: str) -> LevelPlan:
        plan = prepare_level(
            name,
            schema=schema,
            settings=settings,
            planned=measurements.planned,
            restrictions=restrictions[name],
            of_unit=measurements.classes.get(name),
            joint=joint.get(name),
        )
        return measurements.weighted(plan)

    planner = RepairPlanner(
        schema=schema, geography=geography, restrictions=restrictions, joint=joint
    )
    repair = Repair(planner=planner, measurements=measurements, level=level_of)
    for depth, name in enumerate(geography.levels):
        began = perf_counter()
        if depth == 0:
            notes[name] = _root(schema, level_of(name), parts, estimates, repair)
        else:
            task = _LevelTask(
                level=level_of(name),
                above=geography.levels[depth - 1],
                child_first=_child_first(geography, depth, workspace),
                estimates=estimates,
                parts=parts,
                measurements=measurements,
                possible=schema.possible,
                keep=_kept_margin(schema, settings),
            )
            notes[name] = _children(task, chunks(geography, name), engine, progress, repair)
        if seconds is not None:
            seconds[name] = round(seconds.get(name, 0.0) + perf_counter() - began, 1)
    leaf = geography.leaf
    whole = joined(estimates, leaf, geography.size(leaf), schema.size, workspace=workspace)
    tables = _summed_from_leaf(geography, whole)
    refuse_release_outside(restrictions, tables, schema=schema, geography=geography)
    return Descent(tables, notes, measurements.said())


def _root(
    schema: Schema, level: LevelPlan, parts: LevelParts, estimates: Estimates, repair: Repair
) -> dict[str, float]:
    """The whole has no parent: every possible cell may be non-zero, and no sum is given."""
    whole = range(1)
    estimates.finish(level.name, [whole])
    if (done := parts.load(level.name, whole)) is not None:
        return done.notes
    cell = np.flatnonzero(schema.possible).astype(np.int32)
    everything = SparseRows(np.array([0, len(cell)]), cell, np.zeros(len(cell), dtype=np.int64))
    problem = repair.measurements.answered(level, pose(everything, np.array([0, 1]), level))
    batch = replace(problem.batch, is_root=True)
    solved = level.passes.fitted(batch)
    counts, stuck, notes, broken = round_solved(batch, solved, level.passes)
    codes = np.array([level.name])
    if (rounding := broken_rounding(broken)) is not None:
        raise rounding.error(level.name, codes, codes)
    found: Triples = problem.unit, problem.cell, counts
    moved = 0
    if len(stuck):
        found, moved = repair.whole(problem.cell, solved.x)
    notes |= {"room made": len(stuck), "moved to make room": moved}
    rows = gather([found], whole)
    if (bound := broken_bound(rows, whole, level)) is not None:
        raise bound.error(level.name, codes, codes)
    parts.save(level.name, whole, LevelPart(rows, notes))
    return notes


def _children(
    task: _LevelTask,
    families: list[ParentChunk],
    engine: Engine,
    progress: Progress,
    repair: Repair,
) -> dict[str, float]:
    """Every child of a level: all parents, then those that cannot be met once more."""
    name, pieces = task.level.name, [chunk.children for chunk in families]
    depth = repair.planner.geography.depth(name)
    above, codes = repair.planner.geography.units[depth - 1 : depth + 1]
    outcomes = []
    for one in progress(engine.map(task.estimate, families), what=name, total=len(families)):
        if one.broken is not None:
            raise one.broken.error(name, above, codes)
        outcomes.append(one)
    task.estimates.finish(name, pieces)
    notes = _add_notes([one.notes for one in outcomes])
    stuck = [parent for one in outcomes for parent in one.stuck]
    if not stuck:
        return notes
    whole = range(len(codes))
    mend = task.parts.load(name, whole, mends=True)
    if mend is None:
        mend = _mended(task, stuck, engine, repair)
        task.parts.save(name, whole, mend, mends=True)
    task.estimates.finish(name, pieces, mend)
    for units in pieces:
        if np.diff(np.searchsorted(mend.mended, [units.start, units.stop]))[0]:
            broken = broken_bound(task.estimates.rows(name, units), units, task.level)
            if broken is not None:
                raise broken.error(name, above, codes)
    return _add_notes([notes, mend.notes])


def _mended(task: _LevelTask, stuck: list[int], engine: Engine, repair: Repair) -> LevelPart:
    """Counts for the children of parents without an answer, and of all that must move for them."""
    rescued, wider = _rescued(task, stuck, engine)
    parents = range(repair.planner.geography.size(task.above))
    above = task.estimates.rows(task.above, parents).matrix(repair.planner.schema.size)
    rescued = repair.kept(task.level.name, above, rescued)
    left = [parent for parent in stuck if parent not in rescued]
    notes: dict[str, float] = {
        "failsafe": len(rescued),
        "failsafe rounded wider": sum(wider[parent] for parent in rescued),
        "room made": len(left),
    }
    if left:
        made, moved = repair.make(task.level.name, left, repair.summed(above, rescued))
        rescued |= made
        notes["moved to make room"] = moved
    mended = [np.arange(*task.child_first[parent : parent + 2]) for parent in sorted(rescued)]
    rows = gather(list(rescued.values()), range(repair.planner.geography.size(task.level.name)))
    return LevelPart(rows, notes, mended=np.concatenate(mended))


def _rescued(
    task: _LevelTask, stuck: list[int], engine: Engine
) -> tuple[dict[int, Triples], dict[int, bool]]:
    """Stuck parents' children by the failsafe, if one is set and finds any; and which are wide."""
    if task.keep is None:
        return {}, {}
    found = zip(stuck, engine.map(task.rescue, stuck), strict=True)
    made = {parent: one for parent, one in found if one is not None}
    return {p: one[0] for p, one in made.items()}, {p: one[1] for p, one in made.items()}


def _child_first(
    geography: Geography, depth: int, workspace: Storage | None
) -> Ints | StoredNumbers:
    """The first child of every parent, and the end; in a file where there is a place for one."""
    level, units = geography.levels[depth - 1], len(geography.units[depth])
    first = np.append(geography.children_start(level), units).astype(np.int64)
    if workspace is None:
        return first
    name = f"{stem_of(level)}/children"
    return store_numbers(workspace.below(TRUTH), name, [first], least=0, most=units)


def _kept_margin(schema: Schema, settings: TopDownSettings) -> Ints32 | None:
    """The margin each cell belongs to when the attributes of the failsafe are summed over."""
    if not settings.failsafe_over:
        return None
    kept = tuple(name for name in schema.names if name not in settings.failsafe_over)
    return Query("kept", kept).groups(schema).astype(np.int32)


def _summed_from_leaf(
    geography: Geography, leaf: csr_array[Any, tuple[int, int]]
) -> dict[str, csr_array[Any, tuple[int, int]]]:
    """Every level as the sum of its leaves: after a failsafe a parent is what its children say."""
    tables = {geography.leaf: leaf}
    for depth in range(len(geography.levels) - 1, 0, -1):
        level, below = geography.levels[depth - 1], geography.levels[depth]
        tables[level] = add_up(tables[below], geography, level, of=below)
    return tables


def _add_notes(parts: list[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            old = total.get(name, 0)
            total[name] = max(old, value) if name in _LARGEST else old + value
    return total


def along_spine(counts: Counts) -> Counts:
    """The same leaves under the spine, in its order."""
    order, spine, quarters = counts.geography.along_spine, counts.geography.spine, counts.quarters
    assert spine is not None
    if quarters is not None:
        quarters = replace(
            quarters,
            geography=spine,
            occupied=quarters.occupied[order],
            vacant=quarters.vacant[order],
        )
    domain = replace(counts.domain, geography=spine)
    return replace(
        counts, domain=domain, level=spine.leaf, matrix=counts.matrix[order], quarters=quarters
    )


def off_spine(
    made: Descent, geography: Geography, *, workspace: Storage | None
) -> dict[str, csr_array[Any, tuple[int, int]]]:
    """Counts of the spine's leaves in the order of the published ones, and all levels above.

    The leaf is mapped from a file in ``workspace``, if there is one.
    """
    back = np.empty_like(geography.along_spine)
    back[geography.along_spine] = np.arange(len(back))
    tables = {geography.leaf: reordered(made.tables[geography.leaf], back, workspace=workspace)}
    for depth in range(len(geography.levels) - 1, 0, -1):
        level, below = geography.levels[depth - 1], geography.levels[depth]
        tables[level] = add_up(tables[below], geography, level, of=below)
    return tables


def refuse_other_totals(
    settings: TopDownSettings, counts: Counts, tables: Mapping[str, csr_array[Any, Any]]
) -> None:
    """Check that what is published exactly is so in published places, whatever the spine's are."""
    for invariant in settings.invariant:
        query = settings.query(invariant.query).matrix(counts.schema)
        truth, released = counts.at(invariant.level).matrix, tables[invariant.level]
        wrong = abs((truth - released) @ query).sum(axis=1).nonzero()[0]
        if len(wrong):
            code = str(counts.geography.units[counts.geography.depth(invariant.level)][wrong[0]])
            raise RunError(
                f"topdown: level {invariant.level!r}, unit {code!r}: found another "
                f"{invariant.query!r} than is published exactly, expected the same"
            )
