"""Leaf units solved one by one: bounds, propagation, search, solver, and how certain they are.

Each leaf is an integer problem in counts, not in persons: one unknown for each combination of
attributes that the tables tell apart and that no published zero rules out. Propagation settles
most leaves; small rests are searched; what remains goes to a solver. See ``_structure``,
``_problem`` and ``variability``; ``_joint`` solves the leaves of one larger unit together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headcount.arrays import Ints
from headcount.attacks._conflict import (
    CellChange,
    Sums,
    least_change,
    moves,
    nearest,
    side_by_side,
    table_weights,
)
from headcount.attacks._problem import Settled, settle
from headcount.attacks._structure import Layout, Structure
from headcount.attacks.knowledge import Knowledge
from headcount.attacks.variability import SOLVER, Effort, SolvedLeaf, farthest, solve

REPORT, LEAST_CHANGE = "report", "least-change"
NO_METHOD = "none"
NONE = np.empty(0, dtype=np.int64)


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

    def add(self, unit: int, cells: Ints, x: Ints | None) -> None:
        """Keep the records of one leaf."""
        if x is not None:
            some = np.flatnonzero(x)
            self.unit.append(np.full(len(some), unit, dtype=np.int64))
            self.cell.append(cells[some])
            self.count.append(x[some])


def solve_leaves(plan: Task, units: Ints) -> LeafOutcomes:
    """Leaves one by one: bounds, propagation, search, solver, variability."""
    layout, cell_of = plan.structure.layouts[0], plan.structure.cell_of
    low, high, agree = layout.bounds(units)
    piece, cells, problems = LeafOutcomes(), [], []
    for i in range(len(units)):
        alive, settled = leaf_problem(layout, low[i], high[i]) if agree[i] else (None, None)
        cells.append(alive)
        problems.append(settled)
    solved = _solve_some(problems, plan.effort)
    for i, unit in enumerate(units):
        if solved[i].x is None and solved[i].proven:
            fixed, found, least = fix_leaf(plan, int(unit))
            piece.moves += found
            solved[i] = SolvedLeaf(None, NO_METHOD, least)
            if plan.on_conflict == LEAST_CHANGE:
                first, last, _ = layout.rows_of(*fixed)
                cells[i], problems[i] = leaf_problem(layout, first[0], last[0])
                again = _solve_some([problems[i]], plan.effort)[0]
                solved[i] = SolvedLeaf(again.x, again.method, again.proven and least)
            piece.conflict.append(True)
            piece.nearest.append(not layout.valued)
        else:
            piece.conflict.append(False)
            solved[i], near = _nearest_in_leaf(plan, int(unit), cells[i], problems[i], solved[i])
            piece.nearest.append(near)
        keep = cells[i]
        piece.add(int(unit), cell_of[keep] if keep is not None else cell_of[:0], solved[i].x)
    record_variability(plan, piece, cells, problems, solved)
    return piece


def _nearest_in_leaf(
    plan: Task, unit: int, classes: Ints | None, settled: Settled | None, found: SolvedLeaf
) -> tuple[SolvedLeaf, bool]:
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
    return SolvedLeaf(fix.x[0, classes], SOLVER, found.proven), fix.proven


def leaf_problem(layout: Layout, low: Ints, high: Ints) -> tuple[Ints, Settled | None]:
    """The classes of a leaf that may hold someone, and their problem after propagation."""
    from headcount.attacks import _kernels as kernels

    keep = np.ones(len(layout.row_of), dtype=bool)
    kernels.alive(layout.row_of, high, keep)
    classes = np.flatnonzero(keep)
    return classes, settle(layout.row_of[classes], low, high)


def _solve_some(problems: Sequence[Settled | None], effort: Effort) -> list[SolvedLeaf]:
    """Solutions of the problems that have not already been shown to have none."""
    asked = [settled for settled in problems if settled is not None]
    answers = iter(solve(asked, effort))
    nothing = SolvedLeaf(None, NO_METHOD, True)
    return [nothing if settled is None else next(answers) for settled in problems]


def record_variability(
    plan: Task,
    piece: LeafOutcomes,
    classes: Sequence[Ints | None],
    problems: Sequence[Settled | None],
    solved: Sequence[SolvedLeaf],
) -> None:
    """Add method, proof, variability and certain records of each leaf to the piece."""
    chosen = [
        (settled, one.x)
        for settled, one in zip(problems, solved, strict=True)
        if settled is not None and one.x is not None
    ]
    if plan.variability:
        values = farthest([s for s, _ in chosen], [x for _, x in chosen], plan.effort)
    else:
        values = [(-1, True, "")] * len(chosen)
    answers = iter(values)
    for number, (settled, one) in enumerate(zip(problems, solved, strict=True)):
        if settled is None or one.x is None:
            piece.sure.append((NONE, NONE))
            piece.method.append(NO_METHOD)
            piece.proven.append(one.proven)
            piece.variability.append(float("nan"))
            continue
        distance, proven, _ = next(answers)
        # Open counts stand at their lower ends; without another solution all records are certain.
        least = one.x if proven and distance == 0 else settled.x
        kinds = classes[number]
        if kinds is None or piece.conflict[number]:
            piece.sure.append((NONE, NONE))
        else:
            piece.sure.append((kinds[least > 0], least[least > 0]))
        people = int(one.x.sum())
        nobody = float("inf") if distance else 0.0  # certain only if nobody can be there
        percent = 100 * distance / (2 * people) if people else nobody
        piece.method.append(one.method)
        piece.proven.append(proven and one.proven)
        piece.variability.append(percent if plan.variability else float("nan"))


def fix_leaf(plan: Task, unit: int) -> tuple[tuple[Ints, Ints], list[CellChange], bool]:
    """The least change of a leaf's tables: new ends of cells, the moves, and if it is proven."""
    layout, cell_of = plan.structure.layouts[0], plan.structure.cell_of
    tables = layout.held
    first, last = layout.published(np.array([unit]))
    sums = Sums(side_by_side(tables, cell_of), leaves=1)
    weight = table_weights(tables, plan.weights)
    fix = least_change(sums, first[0], last[0], weight=weight, steps=plan.steps_to_fix)
    geography = plan.knowledge.geography
    name = str(geography.units[geography.depth(geography.leaf)][unit])
    found = moves(tables, name, first[0], last[0], fix.by)
    return (fix.low[None], fix.high[None]), found, fix.proven
