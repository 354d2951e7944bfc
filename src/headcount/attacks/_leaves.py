"""Reconstruction of leaf units one by one, or jointly with the tables of a larger unit.

Each leaf is an integer problem in counts, not in persons: one unknown for each combination of
attributes that the tables distinguish (a class, see ``_structure``) and that no published zero
rules out. It is settled, searched or solved as ``_problem`` says; tables that contradict each other
are mended by ``_conflict``.

Together, block tables and tract tables at once, the unknowns are finer than the blocks' own (single
years of age), because the tract's tables distinguish more. Variability stays a matter of each
block: over what its own tables distinguish, with the tract's tables as upper limits. That is looser
than all tables at once: variability may come out larger than the true maximum, never smaller, and
where it is 0 no other solution exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from headcount.arrays import Ends, Flags, Floats, Ints, Ints32
from headcount.attacks import _kernels as kernels
from headcount.attacks._conflict import (
    CellChange,
    Fix,
    Sums,
    least_change,
    moves,
    nearest,
    side_by_side,
    table_weights,
)
from headcount.attacks._problem import (
    NO_METHOD,
    SOLVER,
    Effort,
    Settled,
    Solved,
    farthest,
    settle,
    solve,
)
from headcount.attacks._structure import Layout, Structure, build_structure
from headcount.attacks.intervals import UNKNOWN
from headcount.attacks.knowledge import Knowledge
from headcount.errors import ConfigError

REPORT, LEAST_CHANGE = "report", "least-change"
NONE = np.empty(0, dtype=np.int64)
IMPOSSIBLE = Solved(None, True, NO_METHOD)


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """What every piece of work needs to know."""

    knowledge: Knowledge
    structure: Structure
    variability: bool
    on_conflict: str
    effort: Effort
    weights: Mapping[str, float] | None
    steps_to_fix: int


@dataclass(eq=False)
class LeafOutcomes:
    """The outcome of some leaves, in order."""

    unit: list[Ints] = field(default_factory=list)
    cell: list[Ints] = field(default_factory=list)
    count: list[Ints] = field(default_factory=list)
    method: list[str] = field(default_factory=list)
    proven: list[bool] = field(default_factory=list)
    variability: list[float] = field(default_factory=list)
    conflict: list[bool] = field(default_factory=list)
    nearest: list[bool] = field(default_factory=list)
    moves: list[CellChange] = field(default_factory=list)
    sure: list[tuple[Ints, Ints]] = field(default_factory=list)

    def add(self, unit: int, cells: Ints, x: Ints) -> None:
        """Keep the records of one leaf."""
        some = np.flatnonzero(x)
        self.unit.append(np.full(len(some), unit, dtype=np.int64))
        self.cell.append(cells[some])
        self.count.append(x[some])

    def measure(
        self, plan: Task, classes: Ints, settled: Settled | None, found: Solved, conflict: bool
    ) -> None:
        """Keep method, proof, variability and certain records of one leaf.

        Where tables contradict each other nothing is certain: another change may be as small.
        """
        if settled is None or found.x is None:
            self.sure.append((NONE, NONE))
            self.method.append(NO_METHOD)
            self.proven.append(found.proven)
            self.variability.append(float("nan"))
            return
        distance, proven = -1, True
        if plan.variability:
            distance, proven = farthest(settled, found.x, plan.effort)
        # Open counts stand at their lower ends; without another solution all records are certain.
        least = found.x if proven and distance == 0 else settled.x
        some = least > 0
        self.sure.append((NONE, NONE) if conflict else (classes[some], least[some]))
        people = int(found.x.sum())
        nobody = float("inf") if distance else 0.0  # certain only if nobody can be there
        percent = 100 * distance / (2 * people) if people else nobody
        self.method.append(found.method)
        self.proven.append(proven and found.proven)
        self.variability.append(percent if plan.variability else float("nan"))


def solve_leaves(plan: Task, units: Ints) -> LeafOutcomes:
    """Leaves one by one: bounds, propagation, search, solver, variability."""
    layout, cell_of = plan.structure.layouts[0], plan.structure.cell_of
    low, high, agree = layout.bounds(units)
    piece = LeafOutcomes()
    for i, unit in enumerate(units.tolist()):
        classes, settled, found = NONE, None, IMPOSSIBLE
        if agree[i]:
            classes, settled, found = _solve_leaf(plan, low[i], high[i])
        conflict, near = found.x is None and found.proven, not layout.valued
        if conflict:
            fix = _fix_leaf(plan, unit, piece)
            found = Solved(None, fix.proven, NO_METHOD)
            if plan.on_conflict == LEAST_CHANGE:
                first, last, _ = layout.rows_of(fix.low[None], fix.high[None])
                classes, settled, again = _solve_leaf(plan, first[0], last[0])
                found = Solved(again.x, again.proven and fix.proven, again.method)
        else:
            found, near = _nearest_in_leaf(plan, unit, classes, settled, found)
        if found.x is not None:
            piece.add(unit, cell_of[classes], found.x)
        piece.conflict.append(conflict)
        piece.nearest.append(near)
        piece.measure(plan, classes, settled, found, conflict)
    return piece


def _solve_leaf(plan: Task, low: Ints, high: Ints) -> tuple[Ints, Settled | None, Solved]:
    """The classes that may hold someone, their problem after propagation, and a solution."""
    classes, settled = _leaf_problem(plan.structure.layouts[0], low, high)
    return classes, settled, IMPOSSIBLE if settled is None else solve(settled, plan.effort)


def _leaf_problem(layout: Layout, low: Ints, high: Ints) -> tuple[Ints, Settled | None]:
    """The classes of a leaf that may hold someone, and their problem after propagation."""
    keep = np.ones(len(layout.row_of), dtype=bool)
    kernels.alive(layout.row_of, high, keep)
    classes = np.flatnonzero(keep)
    return classes, settle(layout.row_of[classes], low, high)


def _nearest_in_leaf(
    plan: Task, unit: int, classes: Ints, settled: Settled | None, found: Solved
) -> tuple[Solved, bool]:
    """Where there is a choice, the solution nearest to published numbers, and if that is proven."""
    layout, cell_of = plan.structure.layouts[0], plan.structure.cell_of
    if not layout.valued or found.x is None or settled is None or not settled.open:
        return found, True
    start = np.zeros((1, len(cell_of)), dtype=np.int64)
    start[0, classes] = found.x
    low, high = layout.enforced(*layout.published(np.array([unit])))
    fix = nearest(
        Sums(side_by_side(layout.held, cell_of), leaves=1),
        (low[0], high[0]),
        layout.likeliest(np.array([unit]))[0],
        weight=table_weights(layout.held, plan.weights),
        start=start,
        steps=plan.effort.steps,
    )
    return Solved(fix.x[0, classes], found.proven, SOLVER), fix.proven


def _fix_leaf(plan: Task, unit: int, piece: LeafOutcomes) -> Fix:
    """The least change of a leaf's tables; the moves are added to the piece."""
    layout, geography = plan.structure.layouts[0], plan.knowledge.geography
    (first,), (last,) = layout.published(np.array([unit]))
    sums = Sums(side_by_side(layout.held, plan.structure.cell_of), leaves=1)
    weight = table_weights(layout.held, plan.weights)
    fix = least_change(sums, first, last, weight=weight, steps=plan.steps_to_fix)
    name = str(geography.units[geography.depth(geography.leaf)][unit])
    piece.moves += moves(layout.held, name, first, last, fix.by)
    return fix


@dataclass(frozen=True, eq=False)
class _Limits:
    """A larger unit's rows as upper limits on a block: sums of rows over the block's classes.

    where
        row_of      (the block's classes x families) number of the limit, -1 for none
        sums        sparse 0/1 (limits x rows of the layout)
    """

    row_of: Ints32
    sums: Any


@dataclass(frozen=True, eq=False)
class Joint:
    """The plan with the finer structure: layout 0 is the leaf's, the others those of ``levels``."""

    plan: Task
    level: str
    levels: tuple[str, ...]
    fine: Structure
    limits: tuple[_Limits, ...]

    @classmethod
    def of(cls, plan: Task, level: str) -> Joint:
        """Use the tables from ``level`` down to the leaf."""
        knowledge = plan.knowledge
        geography = knowledge.geography
        between = geography.levels[geography.depth(level) : geography.depth(geography.leaf)]
        levels = tuple(one for one in between if knowledge.at(one))
        if not levels:
            raise ConfigError(
                "reconstruction",
                place=f"together at {level!r}",
                found="no table above the leaf",
                expected="at least one",
            )
        held = [knowledge.at(geography.leaf), *(knowledge.at(one) for one in levels)]
        fine = build_structure(knowledge.schema, held)
        coarse = plan.structure.class_of[fine.cell_of]
        limits = tuple(_limits(layout, coarse) for layout in fine.layouts[1:])
        return cls(plan, level, levels, fine, limits)


class _Given(NamedTuple):
    """What is published of all leaves under one unit.

    where
        leaves   their numbers
        ends     of the cells of their own tables, then of the tables of each level above
        places   the units of each level above, and the position of each leaf's unit among them
    """

    leaves: Ints
    ends: Sequence[Ends]
    places: Sequence[tuple[Ints, Ints]]

    @property
    def units(self) -> list[Ints]:
        """The leaves, then the units of each level above."""
        return [self.leaves, *(units for units, _ in self.places)]


def solve_together(joint: Joint, unit: int) -> LeafOutcomes:
    """All leaves under one unit of the level."""
    layouts = joint.fine.layouts
    leaves = np.flatnonzero(joint.plan.knowledge.geography.ancestors(joint.level) == unit)
    places = [_places(joint, level, leaves) for level in joint.levels]
    every = zip(layouts, [leaves, *(units for units, _ in places)], strict=True)
    given = _Given(leaves, [layout.published(units) for layout, units in every], places)
    piece = LeafOutcomes(conflict=[False] * len(leaves))
    found, classes = _solve(joint, given)
    near = not any(layout.valued for layout in layouts)
    if found.x is None and found.proven:
        found, classes = _after_fix(joint, piece, given)
    elif found.x is not None and not near:
        found, near = _nearest(joint, given, found.x, classes)
    piece.nearest = [near] * len(leaves)
    _records(joint, piece, given, found, classes)
    return piece


def _places(joint: Joint, level: str, leaves: Ints) -> tuple[Ints, Ints]:
    """Units of a level above the leaves, and the position of each leaf's unit among them."""
    above = joint.plan.knowledge.geography.ancestors(level)[leaves]
    units, position = np.unique(above, return_inverse=True)
    return units.astype(np.int64), position


def _solve(joint: Joint, given: _Given) -> tuple[Solved, list[Ints]]:
    """One solution for all leaves, each leaf's part of it after the other."""
    ends = [
        layout.rows_of(*one) for layout, one in zip(joint.fine.layouts, given.ends, strict=True)
    ]
    if not all(agree.all() for _, _, agree in ends):
        return IMPOSSIBLE, []
    classes, rows = _unknowns(joint, ends, given.places)
    settled = settle(rows, _flat(low for low, _, _ in ends), _flat(high for _, high, _ in ends))
    return IMPOSSIBLE if settled is None else solve(settled, joint.plan.effort), classes


def _flat(parts: Iterable[Ints]) -> Ints:
    return np.concatenate([part.reshape(-1) for part in parts])


def _unknowns(
    joint: Joint,
    ends: Sequence[tuple[Ints, Ints, Flags]],
    places: Sequence[tuple[Ints, Ints]],
) -> tuple[list[Ints], Ints32]:
    """Classes of each leaf that may hold someone, and the rows of all of them in one numbering."""
    layouts = joint.fine.layouts
    classes, rows = [], []
    for leaf in range(len(ends[0][0])):
        where = [leaf, *(int(position[leaf]) for _, position in places)]
        keep = np.ones(len(layouts[0].row_of), dtype=bool)
        for layout, (_, high, _), place in zip(layouts, ends, where, strict=True):
            kernels.alive(layout.row_of, high[place], keep)
        alive = np.flatnonzero(keep)
        parts, start = [], 0
        for layout, (low, _, _), place in zip(layouts, ends, where, strict=True):
            own = layout.row_of[alive]
            parts.append(np.where(own >= 0, own + np.int32(start + place * layout.size), own))
            start += low.size
        classes.append(alive)
        rows.append(np.hstack(parts))
    return classes, np.vstack(rows).astype(np.int32)


def _records(
    joint: Joint, piece: LeafOutcomes, given: _Given, found: Solved, classes: Sequence[Ints]
) -> None:
    """Records of each leaf, and its variability over what its own tables distinguish."""
    plan = joint.plan
    if found.x is None:
        for conflict in piece.conflict:
            piece.measure(plan, NONE, None, found, conflict)
        return
    split = np.split(found.x, np.cumsum([len(one) for one in classes])[:-1])
    coarse = plan.structure.class_of[joint.fine.cell_of]
    low, high, _ = plan.structure.layouts[0].rows_of(*given.ends[0])
    above = [
        limits.sums @ np.minimum(layout.rows_of(*one)[1], UNKNOWN).T
        for limits, layout, one in zip(
            joint.limits, joint.fine.layouts[1:], given.ends[1:], strict=True
        )
    ]
    for i, leaf in enumerate(given.leaves.tolist()):
        piece.add(leaf, joint.fine.cell_of[classes[i]], split[i])
        limit = [
            most[:, position[i]] for most, (_, position) in zip(above, given.places, strict=True)
        ]
        alive, settled = _limited_problem(plan, joint.limits, low[i], high[i], limit)
        histogram = np.bincount(coarse[classes[i]], weights=split[i], minlength=coarse.max() + 1)
        own = Solved(histogram[alive].astype(np.int64), found.proven, found.method)
        piece.measure(plan, alive, settled, own, piece.conflict[i])


def _limited_problem(
    plan: Task, limits: Sequence[_Limits], low: Ints, high: Ints, most: Sequence[Ints]
) -> tuple[Ints, Settled]:
    """A leaf's own problem with the larger units' rows as upper limits."""
    layout = plan.structure.layouts[0]
    tables, start = [layout.row_of], layout.size
    for one, numbers in zip(limits, most, strict=True):
        tables.append(np.where(one.row_of >= 0, one.row_of + np.int32(start), one.row_of))
        start += len(numbers)
    rows = np.hstack(tables).astype(np.int32)
    highs = np.concatenate([high, *most])
    lows = np.concatenate([low, *(np.zeros_like(numbers) for numbers in most)])
    keep = np.ones(len(rows), dtype=bool)
    kernels.alive(rows, highs, keep)
    alive = np.flatnonzero(keep)
    settled = settle(rows[alive], lows, highs)
    if settled is None:
        raise AssertionError("a joint solution breaks the tables of one of its leaves")
    return alive, settled


def _limits(layout: Layout, coarse: Ints) -> _Limits:
    """Rows of a larger unit summed until each sum holds whole classes of the block, or not at all.

    Within a family, rows that touch the same classes of the block are added up. The sum limits the
    block if it holds all of those classes. That is a looser limit than row by row, so that
    variability may come out larger than with each row as a limit; zero is still zero.
    """
    from scipy.sparse import csr_array

    size = int(coarse.max()) + 1
    held = np.bincount(coarse, minlength=size)
    mark = np.random.default_rng(2).integers(0, 1 << 62, size, dtype=np.int64)
    columns, entries, start = [], [], 0
    for f in range(layout.row_of.shape[1]):
        own = layout.row_of[:, f].astype(np.int64)
        inside = own >= 0
        pairs = np.unique(np.stack([own[inside], coarse[inside]]), axis=1)
        touched = np.zeros(layout.size, dtype=np.int64)
        np.add.at(touched, pairs[0], mark[pairs[1]])  # a hash of the classes that a row touches
        _, group = np.unique(touched, return_inverse=True)
        member = np.full(size, -1, dtype=np.int32)
        member[coarse[inside]] = group[own[inside]]
        agree = (
            np.bincount(
                coarse[inside][member[coarse[inside]] == group[own[inside]]], minlength=size
            )
            == held
        )
        whole = np.ones(group.max() + 1, dtype=bool)
        np.logical_and.at(whole, group[pairs[0]], agree[pairs[1]])
        member[(member >= 0) & ~whole[np.maximum(member, 0)]] = -1
        columns.append(np.where(member >= 0, member + start, -1).astype(np.int32))
        rows = np.unique(own[inside])
        entries.append((group[rows] + start, rows))
        start += int(group.max()) + 1
    where = tuple(np.concatenate(part) for part in zip(*entries, strict=True))
    ones = np.ones(len(where[0]), dtype=np.int64)
    return _Limits(np.stack(columns, axis=1), csr_array((ones, where), shape=(start, layout.size)))


def _all_sums(joint: Joint, given: _Given) -> Sums:
    """The cells of the leaves' tables, then of those above."""
    cells = [side_by_side(layout.held, joint.fine.cell_of) for layout in joint.fine.layouts]
    above = [
        (matrix, position, len(units))
        for matrix, (units, position) in zip(cells[1:], given.places, strict=True)
    ]
    return Sums(cells[0], len(given.leaves), tuple(above))


def _all_weights(joint: Joint, given: _Given) -> Floats:
    return np.concatenate(
        [
            np.tile(table_weights(layout.held, joint.plan.weights), len(low))
            for layout, (low, _) in zip(joint.fine.layouts, given.ends, strict=True)
        ]
    )


def _nearest(joint: Joint, given: _Given, x: Ints, classes: Sequence[Ints]) -> tuple[Solved, bool]:
    """The solution nearest to the published numbers of all tables, and whether that is proven."""
    layouts = joint.fine.layouts
    ends = [layout.enforced(*one) for layout, one in zip(layouts, given.ends, strict=True)]
    start = np.zeros((len(given.leaves), len(joint.fine.cell_of)), dtype=np.int64)
    leaf = np.repeat(np.arange(len(classes)), [len(own) for own in classes])
    kind = np.concatenate(classes)
    start[leaf, kind] = x
    fix = nearest(
        _all_sums(joint, given),
        (_flat(low for low, _ in ends), _flat(high for _, high in ends)),
        _flat(one.likeliest(units) for one, units in zip(layouts, given.units, strict=True)),
        weight=_all_weights(joint, given),
        start=start,
        steps=joint.plan.effort.steps,
    )
    return Solved(fix.x[leaf, kind], True, SOLVER), fix.proven


def _after_fix(joint: Joint, piece: LeafOutcomes, given: _Given) -> tuple[Solved, list[Ints]]:
    """Find the least change of all tables at once, those of the leaves and those above.

    Changes what is published in place, and solves again if asked to.
    """
    fix = least_change(
        _all_sums(joint, given),
        _flat(low for low, _ in given.ends),
        _flat(high for _, high in given.ends),
        weight=_all_weights(joint, given),
        steps=joint.plan.steps_to_fix,
    )
    _move(joint, piece, given, fix)
    if joint.plan.on_conflict != LEAST_CHANGE:
        return Solved(None, fix.proven, NO_METHOD), []
    solved, classes = _solve(joint, given)
    return Solved(solved.x, solved.proven and fix.proven, solved.method), classes


def _move(joint: Joint, piece: LeafOutcomes, given: _Given, fix: Fix) -> None:
    """Name the moves, and make them. A change above the leaves is in conflict with all of them."""
    geography = joint.plan.knowledge.geography
    levels = [geography.leaf, *joint.levels]
    start = 0
    for layout, (first, last), level, units in zip(
        joint.fine.layouts, given.ends, levels, given.units, strict=True
    ):
        names = geography.units[geography.depth(level)]
        for number, unit in enumerate(units):
            part = slice(start, start + first.shape[1])
            start += first.shape[1]
            if not fix.by[part].any():
                continue
            name = str(names[unit])
            piece.moves += moves(layout.held, name, first[number], last[number], fix.by[part])
            first[number], last[number] = fix.low[part], fix.high[part]
            if level == geography.leaf:
                piece.conflict[number] = True
            else:
                piece.conflict = [True] * len(given.leaves)
