"""The node function: parents' estimates and their children's answers become the children's counts.

It is pure, and is given all that it needs: noisy answers, bounds and estimates, as plain arrays.
Neither the truth nor a key is among them, and this module cannot import what measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints, Ints8, Ints32
from headcount.compiled import kernel, njit
from headcount.errors import RunError
from headcount.schema import Schema
from headcount.tabulate import CELLS, Query
from headcount.topdown.choices import rounding_passes
from headcount.topdown.parts import ParentChunk, SparseRows, Triples, gather
from headcount.topdown.restrict import JointTotals, Restriction, binding_groups
from headcount.topdown.settings import PlannedNoise, TopDownSettings
from headcount.topdown.solve.batch import Batch, Nesting, Violation, bound_column, forest_of

if TYPE_CHECKING:
    from headcount.topdown.solve.leastsquares import Solved
    from headcount.topdown.solve.passes import FitPass
    from headcount.topdown.solve.rounding import Rounded, RoundPass


@dataclass(frozen=True, eq=False)
class _PassPlan:
    """The passes of a level; without any, least squares over all answers and rounding by cells.

    One thread each, because engines run pieces side by side.
    """

    fit: tuple[FitPass, ...] = ()
    round: tuple[RoundPass, ...] = ()

    def fitted(self, batch: Batch) -> Solved:
        """Least squares, pass by pass."""
        if not self.fit:
            from headcount.topdown.solve.leastsquares import least_squares

            return least_squares(batch, threads=1)
        from headcount.topdown.solve.passes import fit_passes

        return fit_passes(batch, self.fit, threads=1)

    def rounded(self, batch: Batch, x: Floats) -> Rounded:
        """Whole persons, pass by pass."""
        from headcount.topdown.solve.rounding import round_batch, round_passes

        if not self.round:
            return round_batch(batch, x, threads=1)
        rounded, _ = round_passes(batch, x, self.round, threads=1)
        return rounded


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelPlan:
    """What the problems of a level have in common; no answers.

    Families are the queries measured or bounded at this level; see ``solve.batch.Batch``. Which
    bounds can bind in some unit, and how these nest, is decided here for the whole level: it must
    not matter which units a piece of work holds.

    where
        limits   the bounds of the bounded families, in the order of the families
        weight   of the detailed answers; 0 where they are not measured
        classes  where units have shares of their own: the weights of each, cells first, and which
                 of them each unit has
        passes   what is fitted and rounded first
        joint    totals that units have together
    """

    name: str
    families: tuple[str, ...]
    family_start: Ints
    group: Ints32
    family_weight: Floats
    bound_start: Ints
    limits: tuple[Restriction, ...]
    forest: Nesting
    weight: float
    passes: _PassPlan
    classes: tuple[Floats, Ints8 | Ints32] | None = None
    joint: JointTotals | None = None

    @property
    def column(self) -> Ints32:
        """For each bounded family and cell, the column of the bounds on the cell's group."""
        bounded = np.diff(self.bound_start) > 0
        return bound_column(self.group, self.bound_start)[bounded].astype(np.int32)

    def bounds_of(self, units: Ints) -> tuple[Ints, Ints]:
        """Lower and upper bounds of some units, one column for each group of bounded families."""
        shape = (len(units), int(self.bound_start[-1]))
        low, high = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
        at = 0
        for one in self.limits:
            own = slice(at, at + one.low.shape[1])
            low[:, own], high[:, own] = one.low[units], one.high[units]
            at = own.stop
        return low, high

    def weights_of(self, units: Ints) -> tuple[Floats, Floats]:
        """The weights of the cells, and of the families, in some units."""
        if self.classes is None:
            return np.full(len(units), self.weight), np.tile(self.family_weight, (len(units), 1))
        weights, of_unit = self.classes
        own = weights[of_unit[units]]
        return np.ascontiguousarray(own[:, 0]), np.ascontiguousarray(own[:, 1:])

    def with_one_more(self) -> tuple[Floats, Ints8 | Ints32] | None:
        """The classes, with one family more that is not measured."""
        if self.classes is None:
            return None
        weights, of_unit = self.classes
        return np.pad(weights, ((0, 0), (0, 1))), of_unit

    def family_of(self, column: int) -> str:
        """The family that owns a column of bounds, for errors."""
        return self.families[int(np.searchsorted(self.bound_start, column, side="right")) - 1]


def prepare_level(
    level: str,
    *,
    schema: Schema,
    settings: TopDownSettings,
    planned: Mapping[tuple[str, str], PlannedNoise],
    restrictions: tuple[Restriction, ...],
    of_unit: Ints8 | None = None,
    joint: JointTotals | None = None,
) -> LevelPlan:
    """Set the queries that are measured at a level beside those that are bounded.

    ``of_unit`` is the number of the share that each unit has, where these differ; ``joint`` has
    totals of several units together.
    """
    bounds = {one.query.name: one for one in restrictions}
    queries: dict[str, Query] = {
        q.name: q for q in settings.marginals if (level, q.name) in planned
    }
    weight = [planned[level, name].weight for name in queries]
    queries |= {name: one.query for name, one in bounds.items()}
    sizes = np.array([query.size(schema) for query in queries.values()], dtype=np.int64)
    bounded = np.array([name in bounds for name in queries], dtype=bool)
    group = np.array([query.groups(schema) for query in queries.values()], dtype=np.int32)
    group = group.reshape(len(queries), schema.size)
    limits = tuple(bounds[name] for name in queries if name in bounds)
    bound_start = _starts(np.where(bounded, sizes, 0))
    binds = [binding_groups(one) for one in limits]
    binding = np.flatnonzero(np.concatenate([np.zeros(0, dtype=bool), *binds]))
    detail = planned.get((level, CELLS))
    classes = None
    if of_unit is not None:
        asked = [planned.get((level, name)) for name in (CELLS, *queries)]
        classes = class_weights(asked), of_unit
    return LevelPlan(
        name=level,
        families=tuple(queries),
        family_start=_starts(sizes),
        group=group,
        family_weight=np.array(weight + [0.0] * (len(queries) - len(weight))),
        bound_start=bound_start,
        limits=limits,
        forest=forest_of(binding, group=group, bound_start=bound_start),
        weight=detail.weight if detail is not None else 0.0,
        passes=_passes(settings, level, families=tuple(queries), schema=schema),
        classes=classes,
        joint=joint,
    )


def _passes(
    settings: TopDownSettings, level: str, *, families: Sequence[str], schema: Schema
) -> _PassPlan:
    """The passes of a level, with queries by their place in its problems, or as partitions."""
    from headcount.topdown.solve.passes import FitPass

    if (chosen := dict(settings.passes).get(level)) is None:
        return _PassPlan()
    fit = (
        FitPass(
            families=tuple(families.index(query) for query in one if query != CELLS),
            detail=CELLS in one,
            within=float(chosen.within),
        )
        for one in chosen.fit
    )
    return _PassPlan(tuple(fit), rounding_passes(settings, chosen, schema))


def class_weights(asked: Sequence[PlannedNoise | None]) -> Floats:
    """For each share that units have, the weights of some queries; 0 where not measured."""
    number = max((len(one.classes) for one in asked if one is not None), default=1)
    weights = np.zeros((number, len(asked)))
    for column, one in enumerate(asked):
        for row, noise in enumerate(one.classes if one is not None else ()):
            weights[row, column] = 0.0 if noise is None else noise.weight
    return weights


def _starts(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class NodeProblem:
    """Problems of some parents, with or without their answers.

    where
        child        positions of the batch's children in their level
        unit, cell   of each variable
        passes       what is fitted and rounded first
    """

    batch: Batch
    child: Ints
    unit: Ints
    cell: Ints
    passes: _PassPlan


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeWork:
    """A chunk of parents.

    where
        children   their children, by position in the level
        copies     counts of only children, which are their parents'
        problem    the parents with several children; None if there are none
        stuck      positions of parents that no copy fits
        notes      what happened so far
    """

    children: range
    copies: Triples
    problem: NodeProblem | None
    stuck: Ints
    notes: dict[str, float]


@dataclass(frozen=True, eq=False)
class _Step:
    """One chunk's result: its children's counts, and what happened on the way.

    Children of ``stuck`` parents have no counts; ``broken`` should be empty.
    """

    rows: SparseRows
    notes: dict[str, float]
    stuck: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    broken: tuple[Violation, ...] = ()


def estimate(work: NodeWork) -> _Step:
    """Estimate, round and check the children of a chunk of parents."""
    pieces, stuck, notes = [work.copies], work.stuck, dict(work.notes)
    broken: tuple[Violation, ...] = ()
    if (problem := work.problem) is not None:
        counts, left, happened, broken = solve_batch(problem.batch, problem.passes)
        pieces.append((problem.unit, problem.cell, counts))
        stuck = np.concatenate([stuck, problem.batch.parent[left]])
        notes |= happened
    rows = gather(pieces, work.children)
    notes |= {"failsafe": 0, "failsafe rounded wider": 0}
    notes |= {"room made": 0, "moved to make room": 0}
    return _Step(rows, notes, stuck, broken)


@dataclass(frozen=True, eq=False)
class _Reopened:
    """A parent that could not be met, with its empty cells reopened where ``keep`` is not empty."""

    problem: NodeProblem
    keep: Ints32


def rescue(work: _Reopened) -> tuple[Triples, bool] | None:
    """A parent through the failsafe, and whether rounding went beyond floor and ceiling.

    None if even the failsafe cannot meet it.
    """
    from headcount.solve.mip import SolverError
    from headcount.topdown.solve import failsafe

    passes = work.problem.passes
    try:
        rescued = failsafe.rescue(
            work.problem.batch, keep=work.keep, fit=passes.fit, rounds=passes.round
        )
    except SolverError:
        return None
    if rescued.broken:
        return None
    return (work.problem.unit, work.problem.cell, rescued.counts), bool(rescued.widened[0])


def solve_batch(
    batch: Batch, passes: _PassPlan
) -> tuple[Ints, Ints, dict[str, float], tuple[Violation, ...]]:
    """Least squares, then rounding: the counts, the parents left without any, and what happened.

    One thread, because engines run chunks side by side. Parents without an answer have counts 0.
    """
    return round_solved(batch, passes.fitted(batch), passes)


def round_solved(
    batch: Batch, solved: Solved, passes: _PassPlan
) -> tuple[Ints, Ints, dict[str, float], tuple[Violation, ...]]:
    """See ``solve_batch``."""
    from headcount.topdown.solve.rounding import RoundingMethod

    rounded = passes.rounded(batch, solved.x)
    stuck = np.union1d(
        solved.outcome.unsolved, np.flatnonzero(rounded.method == RoundingMethod.NONE)
    )
    counts = rounded.counts.copy()
    for p in stuck:
        counts[slice(*batch.var_start[batch.cell_start[p : p + 2]])] = 0
    notes = dict(solved.outcome.summary())
    notes |= rounded.summary() | {"violations": len(rounded.broken)}
    return counts, stuck, notes, tuple(rounded.broken)


@dataclass(frozen=True)
class BrokenConstraint:
    """A constraint that counts do not keep: of the children of a parent, or of one unit."""

    unit: int
    of_children: bool
    what: str

    def error(self, level: str, above: NDArray[np.str_], codes: NDArray[np.str_]) -> RunError:
        """What stops the run; the codes of a level and of the one above it name the unit."""
        if self.of_children:
            return RunError(
                f"topdown: children of {str(above[self.unit])!r}: found a constraint broken by "
                f"rounding ({self.what}), expected every one kept"
            )
        return RunError(
            f"topdown: level {level!r}, unit {str(codes[self.unit])!r}: found the bound on "
            f"{self.what} broken, expected it kept"
        )


def broken_rounding(broken: tuple[Violation, ...]) -> BrokenConstraint | None:
    """The first constraint that rounding broke."""
    return BrokenConstraint(broken[0].parent, True, str(broken[0])) if broken else None


def broken_bound(rows: SparseRows, units: range, level: LevelPlan) -> BrokenConstraint | None:
    """Check every bound of some units of a level again, in integers, whoever solved it."""
    low, high = level.bounds_of(np.arange(units.start, units.stop))
    bad = _first_broken(rows.start, rows.cell, rows.value, level.column, low, high)
    if bad < 0:
        return None
    unit, column = divmod(int(bad), low.shape[1])
    return BrokenConstraint(units[unit], False, repr(level.family_of(column)))


def spans(start: Ints, length: Ints) -> Ints:
    """The numbers start[i], ..., start[i] + length[i] - 1 for every i, one after another."""
    ends = np.cumsum(length)
    offset = np.repeat(start - (ends - length), length)
    return np.asarray(offset + np.arange(ends[-1] if len(ends) else 0), dtype=np.int64)


def pose(
    above: SparseRows,
    child_first: Ints,
    level: LevelPlan,
    *,
    first: int = 0,
    chosen: Ints | None = None,
    limits: tuple[Ints, Ints] | None = None,
) -> NodeProblem:
    """The problems of some parents; all answers are 0 until they are measured.

    where
        above         the parents' counts
        child_first   position of each parent's first child in the level, and the end
        first         position of the first parent in its level, for errors
        chosen        which of these parents to solve; None for all
        limits        bounds of the children in place of the level's
    """
    parents = np.arange(above.units, dtype=np.int64) if chosen is None else chosen
    sizes = above.start[parents + 1] - above.start[parents]
    entries = spans(above.start[parents], sizes)
    families = child_first[parents + 1] - child_first[parents]
    child = spans(child_first[parents], families)
    cell_start = np.concatenate([[0], np.cumsum(sizes)])
    child_start = np.concatenate([[0], np.cumsum(families)])
    low, high = level.bounds_of(child) if limits is None else limits
    cell, column = above.cell[entries], level.column
    var_start = np.zeros(len(entries) + 1, dtype=np.int64)
    _count_variables(cell_start, cell, child_start, column, high, var_start)
    var_child = np.empty(var_start[-1], dtype=np.int32)
    var_cell = np.empty(var_start[-1], dtype=np.int64)
    _fill_variables(cell_start, cell, child_start, column, high, var_child, var_cell)
    weight, family_weight = level.weights_of(child)
    batch = Batch(
        parent=parents + first,
        cell_start=cell_start,
        cell=cell,
        total=above.value[entries],
        child_start=child_start,
        var_start=var_start,
        var_child=var_child,
        answer=np.zeros(len(var_child)),
        weight=weight,
        family_start=level.family_start,
        bound_start=level.bound_start,
        group=level.group,
        family_weight=family_weight,
        margin=np.zeros((len(child), int(level.family_start[-1]))),
        low=low,
        high=high,
        forest=level.forest,
        **({} if level.joint is None else level.joint.of_children(child)),
    )
    return NodeProblem(batch, child, child[var_child], var_cell, level.passes)


def piece(above: SparseRows, chunk: ParentChunk, child_first: Ints, level: LevelPlan) -> NodeWork:
    """A piece of work, its problems posed.

    An only child copies its parent, and children of an empty parent are empty: no solve. An only
    child whose bounds forbid the copy is a parent that cannot be met.

    where
        above         the counts of the piece's parents
        child_first   position of the first child of each of them, and the end
    """
    parents = np.arange(above.units, dtype=np.int64)
    kids = np.diff(child_first)
    people = np.diff(above.start) > 0
    alone, several = parents[people & (kids == 1)], parents[people & (kids > 1)]
    fits = _copy_fits(above, alone, child_first, level)
    start = chunk.parents.start
    return NodeWork(
        children=chunk.children,
        copies=_copies(above, alone[fits], child_first),
        problem=pose(above, child_first, level, first=start, chosen=several)
        if len(several)
        else None,
        stuck=alone[~fits] + start,
        notes={"only children": int(fits.sum()), "empty parents": int((~people).sum())},
    )


def reopened(
    above: SparseRows, kids: Ints, level: LevelPlan, *, keep: Ints32, possible: Flags
) -> _Reopened:
    """A parent that could not be met, for the failsafe.

    where
        above      its counts, one row
        kids       position of its first child, and the end
        keep       the margin each cell belongs to in the failsafe
        possible   the cells that are no structural zeros: only these may reopen
    """
    total = np.zeros(len(keep), dtype=np.int64)
    total[above.cell] = above.value
    margin = np.bincount(keep, weights=total)
    cell = np.flatnonzero((margin[keep] > 0) & possible).astype(np.int32)
    rows = SparseRows(np.array([0, len(cell)]), cell, total[cell])
    return _Reopened(pose(rows, kids, level), keep)


def _copy_fits(above: SparseRows, alone: Ints, child_first: Ints, level: LevelPlan) -> Flags:
    low, high = level.bounds_of(child_first[alone])
    fits: Flags = _rows_within(above.start, above.cell, above.value, alone, level.column, low, high)
    return fits


def _copies(above: SparseRows, alone: Ints, child_first: Ints) -> Triples:
    """Only children with their parent's counts."""
    sizes = above.start[alone + 1] - above.start[alone]
    entries = spans(above.start[alone], sizes)
    unit = np.repeat(child_first[alone], sizes)
    return unit, above.cell[entries].astype(np.int64), above.value[entries]


def _pairs(cell_start: Ints, cell: Ints32, child_start: Ints, column: Ints32, *_: object) -> int:
    """The work of looking at every child of each kept cell."""
    pairs = int((np.diff(cell_start) * np.diff(child_start)).sum())
    return pairs * (2 + len(column))


@kernel(work=_pairs)
def _count_variables(
    cell_start: Ints,
    cell: Ints32,
    child_start: Ints,
    column: Ints32,
    high: Ints,
    var_start: Ints,
) -> None:
    """Fill ``var_start``: how many children each kept cell may be non-zero in.

    ``column[f, cell]`` is the column of ``high`` that bounds the cell in bounded family f.
    """
    for p in range(len(cell_start) - 1):
        for e in range(cell_start[p], cell_start[p + 1]):
            open_children = 0
            for c in range(child_start[p], child_start[p + 1]):
                open_children += _is_open(column, high, c, cell[e])
            var_start[e + 1] = var_start[e] + open_children


@kernel(work=_pairs)
def _fill_variables(
    cell_start: Ints,
    cell: Ints32,
    child_start: Ints,
    column: Ints32,
    high: Ints,
    var_child: Ints32,
    var_cell: Ints,
) -> None:
    """Name the child and the cell of each variable, in the order of ``_count_variables``."""
    v = 0
    for p in range(len(cell_start) - 1):
        for e in range(cell_start[p], cell_start[p + 1]):
            for c in range(child_start[p], child_start[p + 1]):
                if _is_open(column, high, c, cell[e]):
                    var_child[v] = c
                    var_cell[v] = cell[e]
                    v += 1


@njit
def _is_open(column: Ints32, high: Ints, child: int, cell: int) -> bool:
    shut = 0
    for f in range(column.shape[0]):
        shut += high[child, column[f, cell]] == 0
    return shut == 0


@kernel
def _rows_within(
    start: Ints,
    cell: Ints32,
    value: Ints,
    row: Ints,
    column: Ints32,
    low: Ints,
    high: Ints,
) -> Flags:
    """Whether counts ``row[i]`` would keep bounds number i, for every i."""
    within = np.ones(len(row), dtype=np.bool_)
    margin = np.zeros(low.shape[1], dtype=np.int64)
    for i in range(len(row)):
        margin[:] = 0
        for k in range(start[row[i]], start[row[i] + 1]):
            for f in range(column.shape[0]):
                margin[column[f, cell[k]]] += value[k]
        for c in range(low.shape[1]):
            if margin[c] < low[i, c] or margin[c] > high[i, c]:
                within[i] = False
    return within


@kernel
def _first_broken(
    start: Ints,
    cell: Ints32,
    value: Ints,
    column: Ints32,
    low: Ints,
    high: Ints,
) -> int:
    """The first unit x column whose margin is outside its bounds, or -1."""
    families, columns = column.shape[0], low.shape[1]
    margin = np.zeros(columns, dtype=np.int64)
    for u in range(len(start) - 1):
        margin[:] = 0
        for k in range(start[u], start[u + 1]):
            for f in range(families):
                margin[column[f, cell[k]]] += value[k]
        for c in range(columns):
            if margin[c] < low[u, c] or margin[c] > high[u, c]:
                return int(u * columns + c)
    return -1
