"""The reconstruction attack: from published tables to person records, block by block.

Each block is an integer problem in counts, not in persons: one unknown for each combination of
attributes that the tables tell apart and that no published zero rules out. Propagation settles
most blocks; small rests are searched; what remains goes to a solver. See docs of ``structure``,
``problem`` and ``variability``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints
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
from headcount.attacks._structure import Layout, Structure, build_structure
from headcount.attacks.knowledge import Knowledge
from headcount.attacks.variability import SOLVER, Effort, SolvedLeaf, farthest, solve
from headcount.engines.protocol import Engine, InOrder
from headcount.errors import ConfigError
from headcount.geography import Geography
from headcount.schema import Schema

REPORT, LEAST_CHANGE = "report", "least-change"
BLOCKS_AT_ONCE = 128
NO_METHOD = "none"
NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Reconstruction:
    """Person records by leaf unit, and how sure they are.

    where
        unit, cell, count   the records, sparse; a cell of the schema stands for its class
        class_of            class of each cell of the schema: records are known up to it
        method              for each leaf "algebra", "search", "solver" or "none" (no records)
        proven              whether the outcome is sure: no solution is farther off than the
                            variability says, or the tables surely contradict each other. Leaf by
                            leaf the variability is then the true maximum; jointly it may be larger
                            than that (see ``joint``), and 0 is still 0
        variability         per cent of records that could be others; infinite if none were found
                            where some could be; not a number if not asked for, or without a
                            solution
        conflict            whether the tables contradict each other
        sure                sparse (leaves x classes): how many records of each class every solution
                            has at least. Found by propagation, so that there may be more; nobody
                            where tables contradict each other
        nearest             whether no other records are nearer to the published numbers, where
                            tables have such; proven, and true where there is no choice
        moves               the cells that must move in the least-change fix
        unused              tables held that the attack did not use
    """

    schema: Schema
    geography: Geography
    unit: Ints
    cell: Ints
    count: Ints
    class_of: Ints
    method: NDArray[np.str_]
    proven: Flags
    variability: Floats
    conflict: Flags
    nearest: Flags
    sure: Any
    moves: tuple[CellChange, ...] = ()
    unused: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Reconstruction: {len(self.unit):,} records' cells, {self.geography!r}>"

    @property
    def certain(self) -> Flags:
        """Leaves with one solution only, which is proven: their records, or that nobody is there.

        Not where tables contradict each other: another change may be as small.
        """
        sure: Flags = self.proven & (self.variability == 0) & ~self.conflict
        return sure

    @property
    def people(self) -> Ints:
        """Records found in each leaf."""
        return np.bincount(
            self.unit, weights=self.count, minlength=self.geography.size(self.geography.leaf)
        ).astype(np.int64)

    @property
    def matrix(self) -> Any:
        """The records as counts (leaf units x cells), sparse."""
        from scipy.sparse import coo_array

        shape = (self.geography.size(self.geography.leaf), self.schema.size)
        return coo_array((self.count, (self.unit, self.cell)), shape=shape).tocsr()


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


def reconstruct(
    knowledge: Knowledge,
    *,
    together: str | None = None,
    variability: bool = True,
    on_conflict: str = REPORT,
    effort: Effort | None = None,
    weights: Mapping[str, float] | None = None,
    steps_to_fix: int = 10_000,
    engine: Engine | None = None,
) -> Reconstruction:
    """Person records of every leaf from the tables held.

    ``together`` names a level (the tract): the leaves of each of its units are then solved
    jointly, with the tables held at levels from there down. Without it only the leaf's tables are
    used. ``on_conflict`` says what to do where tables contradict each other: "report" the least
    change that would repair them and give no records, or go on from the tables so changed.
    ``weights`` gives tables other weights than 1 in that change.
    """
    if on_conflict not in (REPORT, LEAST_CHANGE):
        raise ConfigError(
            "reconstruction",
            place="on_conflict",
            found=repr(on_conflict),
            expected=f"{REPORT!r} or {LEAST_CHANGE!r}",
        )
    geography = knowledge.geography
    leaf = geography.leaf
    if not knowledge.at(leaf):
        raise ConfigError(
            "reconstruction", found=f"no table at {leaf!r}", expected="at least one there"
        )
    structure = build_structure(knowledge.schema, [knowledge.at(leaf)])
    plan = Task(
        knowledge=knowledge,
        structure=structure,
        variability=variability,
        on_conflict=on_conflict,
        effort=effort or Effort(),
        weights=weights,
        steps_to_fix=steps_to_fix,
    )
    engine = engine or InOrder()
    if together is None or together == leaf:
        used = [leaf]
        whole = np.arange(geography.size(leaf))
        pieces = [whole[i : i + BLOCKS_AT_ONCE] for i in range(0, len(whole), BLOCKS_AT_ONCE)]
        found = list(engine.map(partial(solve_leaves, plan), pieces))
    else:
        from headcount.attacks._joint import Joint, solve_together

        joint = Joint.of(plan, together)
        used = [leaf, *joint.levels]
        units = list(range(geography.size(together)))
        found = list(engine.map(partial(solve_together, joint), units))
    unused = tuple(f"{h.name} at {h.level!r}" for h in knowledge.tables if h.level not in used)
    return _gather(knowledge, structure, found, unused)


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


def _gather(
    knowledge: Knowledge,
    structure: Structure,
    found: Sequence[LeafOutcomes],
    unused: tuple[str, ...],
) -> Reconstruction:
    def joined(name: str) -> Ints:
        parts = [part for piece in found for part in getattr(piece, name)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def listed(name: str) -> list[Any]:
        return [value for piece in found for value in getattr(piece, name)]

    return Reconstruction(
        knowledge.schema,
        knowledge.geography,
        joined("unit"),
        joined("cell"),
        joined("count"),
        structure.class_of,
        np.array(listed("method"), dtype=np.str_),
        np.array(listed("proven"), dtype=bool),
        np.array(listed("variability"), dtype=float),
        np.array(listed("conflict"), dtype=bool),
        np.array(listed("nearest"), dtype=bool),
        _certain_records(listed("sure"), int(structure.class_of.max()) + 1),
        tuple(listed("moves")),
        unused,
    )


def _certain_records(sure: Sequence[tuple[Ints, Ints]], classes: int) -> Any:
    """Sparse (leaves x classes) from the classes and counts of each leaf."""
    from scipy.sparse import coo_array

    leaf = np.repeat(np.arange(len(sure)), [len(kinds) for kinds, _ in sure])
    kinds = np.concatenate([NONE, *(kinds for kinds, _ in sure)])
    counts = np.concatenate([NONE, *(counts for _, counts in sure)])
    return coo_array((counts, (leaf, kinds)), shape=(len(sure), classes)).tocsr()
