"""Leaves of one larger unit solved together: block tables and tract tables at once.

The unknowns are finer than the blocks' own (single years of age), because the tract's tables tell
more apart. Variability stays a matter of each block: over what its own tables tell apart, with the
tract's tables as upper limits. That is looser than all tables at once: variability may come out
larger than the true maximum, never smaller, and where it is 0 no other solution exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headcount.arrays import Ends, Flags, Floats, Ints, Ints32
from headcount.attacks._conflict import (
    Fix,
    Sums,
    least_change,
    moves,
    nearest,
    side_by_side,
    table_weights,
)
from headcount.attacks._leaves import (
    LEAST_CHANGE,
    NO_METHOD,
    LeafOutcomes,
    Task,
    record_variability,
)
from headcount.attacks._problem import Settled, settle
from headcount.attacks._structure import Layout, Structure, build_structure
from headcount.attacks.variability import SOLVER, SolvedLeaf, solve
from headcount.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Limits:
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
    limits: tuple[Limits, ...]

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
        leaves      their numbers
        published   ends of their own tables
        upper       ends of the tables of each level above
        places      the units of each level above, and the position of each leaf's unit among them
    """

    leaves: Ints
    published: Ends
    upper: Sequence[Ends]
    places: Sequence[tuple[Ints, Ints]]


def solve_together(joint: Joint, unit: int) -> LeafOutcomes:
    """All leaves under one unit of the level."""
    plan = joint.plan
    geography = plan.knowledge.geography
    leaves = np.flatnonzero(geography.ancestors(joint.level) == unit)
    places = [_places(joint, level, leaves) for level in joint.levels]
    published = joint.fine.layouts[0].published(leaves)
    upper = [
        layout.published(units)
        for layout, (units, _) in zip(joint.fine.layouts[1:], places, strict=True)
    ]
    given = _Given(leaves, published, upper, places)
    piece = LeafOutcomes(conflict=[False] * len(leaves))
    x, classes = _solve(joint, given)
    near = not any(layout.valued for layout in joint.fine.layouts)
    if x.x is None and x.proven:
        x, classes = _after_fix(joint, piece, given)
    elif x.x is not None and not near:
        x, near = _nearest(joint, given, x.x, classes)
    piece.nearest = [near] * len(leaves)
    _records(joint, piece, given, x, classes)
    return piece


def _places(joint: Joint, level: str, leaves: Ints) -> tuple[Ints, Ints]:
    """Units of a level above the leaves, and the position of each leaf's unit among them."""
    above = joint.plan.knowledge.geography.ancestors(level)[leaves]
    units, position = np.unique(above, return_inverse=True)
    return units.astype(np.int64), position


def _solve(joint: Joint, given: _Given) -> tuple[SolvedLeaf, list[Ints]]:
    """One solution for all leaves, each leaf's part of it after the other."""
    every = (given.published, *given.upper)
    ends = [layout.rows_of(*one) for layout, one in zip(joint.fine.layouts, every, strict=True)]
    if not all(agree.all() for _, _, agree in ends):
        return SolvedLeaf(None, NO_METHOD, True), []
    classes, rows = _unknowns(joint, ends, given.places)
    low = np.concatenate([low.reshape(-1) for low, _, _ in ends])
    high = np.concatenate([high.reshape(-1) for _, high, _ in ends])
    settled = settle(rows, low, high)
    if settled is None:
        return SolvedLeaf(None, NO_METHOD, True), classes
    return solve([settled], joint.plan.effort)[0], classes


def _unknowns(
    joint: Joint,
    ends: Sequence[tuple[Ints, Ints, Flags]],
    places: Sequence[tuple[Ints, Ints]],
) -> tuple[list[Ints], Ints32]:
    """Classes of each leaf that may hold someone, and the rows of all of them in one numbering."""
    from headcount.attacks import _kernels as kernels

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
    joint: Joint,
    piece: LeafOutcomes,
    given: _Given,
    found: SolvedLeaf,
    classes: Sequence[Ints],
) -> None:
    """Records of each leaf, and its variability over what its own tables tell apart."""
    plan, leaves = joint.plan, given.leaves
    if found.x is None:
        nothing = [None] * len(leaves)
        record_variability(plan, piece, nothing, nothing, [found] * len(leaves))
        return
    split = np.split(found.x, np.cumsum([len(one) for one in classes])[:-1])
    coarse = plan.structure.class_of[joint.fine.cell_of]
    problems: list[Settled | None] = []
    solved, kinds = [], []
    low, high, _ = plan.structure.layouts[0].rows_of(*given.published)
    above = [
        limits.sums @ np.minimum(layout.rows_of(*one)[1], 1 << 40).T
        for limits, layout, one in zip(
            joint.limits, joint.fine.layouts[1:], given.upper, strict=True
        )
    ]
    for i, leaf in enumerate(leaves):
        piece.add(int(leaf), joint.fine.cell_of[classes[i]], split[i])
        limit = [
            most[:, position[i]] for most, (_, position) in zip(above, given.places, strict=True)
        ]
        alive, settled = _limited_problem(plan, joint.limits, low[i], high[i], limit)
        histogram = np.bincount(coarse[classes[i]], weights=split[i], minlength=coarse.max() + 1)
        problems.append(settled)
        kinds.append(alive)
        solved.append(SolvedLeaf(histogram[alive].astype(np.int64), found.method, found.proven))
    record_variability(plan, piece, kinds, problems, solved)


def _limited_problem(
    plan: Task, limits: Sequence[Limits], low: Ints, high: Ints, most: Sequence[Ints]
) -> tuple[Ints, Settled]:
    """A leaf's own problem with the larger units' rows as upper limits."""
    from headcount.attacks import _kernels as kernels

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


def _limits(layout: Layout, coarse: Ints) -> Limits:
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
    return Limits(np.stack(columns, axis=1), csr_array((ones, where), shape=(start, layout.size)))


def _all_sums(joint: Joint, given: _Given) -> Sums:
    """The cells of the leaves' tables, then of those above."""
    cells = [side_by_side(layout.held, joint.fine.cell_of) for layout in joint.fine.layouts]
    above = [
        (matrix, position, len(units))
        for matrix, (units, position) in zip(cells[1:], given.places, strict=True)
    ]
    return Sums(cells[0], len(given.leaves), tuple(above))


def _all_weights(joint: Joint, given: _Given) -> Floats:
    layouts = joint.fine.layouts
    return np.concatenate(
        [
            np.tile(table_weights(layout.held, joint.plan.weights), len(low))
            for layout, (low, _) in zip(layouts, [given.published, *given.upper], strict=True)
        ]
    )


def _nearest(
    joint: Joint, given: _Given, x: Ints, classes: Sequence[Ints]
) -> tuple[SolvedLeaf, bool]:
    """The solution nearest to the published numbers of all tables, and whether that is proven."""
    layouts = joint.fine.layouts
    units = [given.leaves, *(units for units, _ in given.places)]
    values = [layout.likeliest(own).reshape(-1) for layout, own in zip(layouts, units, strict=True)]
    ends = [
        layout.enforced(*one)
        for layout, one in zip(layouts, [given.published, *given.upper], strict=True)
    ]
    start = np.zeros((len(given.leaves), len(joint.fine.cell_of)), dtype=np.int64)
    leaf = np.repeat(np.arange(len(classes)), [len(own) for own in classes])
    kind = np.concatenate(classes)
    start[leaf, kind] = x
    fix = nearest(
        _all_sums(joint, given),
        (
            np.concatenate([low.reshape(-1) for low, _ in ends]),
            np.concatenate([high.reshape(-1) for _, high in ends]),
        ),
        np.concatenate(values),
        weight=_all_weights(joint, given),
        start=start,
        steps=joint.plan.effort.steps,
    )
    return SolvedLeaf(fix.x[leaf, kind], SOLVER, True), fix.proven


def _after_fix(
    joint: Joint,
    piece: LeafOutcomes,
    given: _Given,
) -> tuple[SolvedLeaf, list[Ints]]:
    """Find the least change of all tables at once, those of the leaves and those above.

    Changes what is published in place, and solves again if asked to.
    """
    plan = joint.plan
    every = [given.published, *given.upper]
    fix = least_change(
        _all_sums(joint, given),
        np.concatenate([low.reshape(-1) for low, _ in every]),
        np.concatenate([high.reshape(-1) for _, high in every]),
        weight=_all_weights(joint, given),
        steps=plan.steps_to_fix,
    )
    _move(joint, piece, given, fix)
    if plan.on_conflict != LEAST_CHANGE:
        return SolvedLeaf(None, NO_METHOD, fix.proven), []
    solved, classes = _solve(joint, given)
    return SolvedLeaf(solved.x, solved.method, solved.proven and fix.proven), classes


def _move(
    joint: Joint,
    piece: LeafOutcomes,
    given: _Given,
    fix: Fix,
) -> None:
    """Name the moves, and make them. A change above the leaves is in conflict with all of them."""
    geography = joint.plan.knowledge.geography
    levels = [geography.leaf, *joint.levels]
    units_of = [given.leaves, *(units for units, _ in given.places)]
    start = 0
    for layout, (first, last), level, units in zip(
        joint.fine.layouts, [given.published, *given.upper], levels, units_of, strict=True
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
