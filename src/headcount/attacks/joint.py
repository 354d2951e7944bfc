"""Leaves of one larger unit solved together: block tables and tract tables at once.

The unknowns are finer than the blocks' own (single years of age), because the tract's tables tell
more apart. Variability stays a matter of each block: over what its own tables tell apart, with the
tract's tables as upper limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.attacks.conflict import Fix, least_change, moves, table_weights
from headcount.attacks.problem import Settled, settle
from headcount.attacks.reconstruction import (
    LEAST_CHANGE,
    NO_METHOD,
    Piece,
    Plan,
    fix_leaf,
    leaf_problem,
    record_variability,
)
from headcount.attacks.structure import Layout, Structure, build_structure
from headcount.attacks.variability import Solved, solve
from headcount.errors import ConfigError

Ints = NDArray[np.int64]
Rows = NDArray[np.int32]
Bounds = tuple[Ints, Ints]


@dataclass(frozen=True, eq=False)
class Limits:
    """A larger unit's rows as upper limits on a block: sums of rows over the block's classes.

    where
        row_of      (the block's classes x families) number of the limit, -1 for none
        sums        sparse 0/1 (limits x rows of the layout)
    """

    row_of: Rows
    sums: Any


@dataclass(frozen=True, eq=False)
class Joint:
    """The plan with the finer structure: layout 0 is the leaf's, the others those of ``levels``."""

    plan: Plan
    level: str
    levels: tuple[str, ...]
    fine: Structure
    limits: tuple[Limits, ...]

    @classmethod
    def of(cls, plan: Plan, level: str) -> Joint:
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


def solve_together(joint: Joint, unit: int) -> Piece:
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
    piece = Piece(conflict=[False] * len(leaves))
    x, classes = _solve(joint, published, upper, places)
    if x.x is None and x.proven:
        x, classes = _after_fix(joint, piece, leaves, published, upper, places)
    _records(joint, piece, leaves, published, upper, places, x, classes)
    return piece


def _places(joint: Joint, level: str, leaves: Ints) -> tuple[Ints, Ints]:
    """Units of a level above the leaves, and the position of each leaf's unit among them."""
    above = joint.plan.knowledge.geography.ancestors(level)[leaves]
    units, position = np.unique(above, return_inverse=True)
    return units.astype(np.int64), position


def _solve(
    joint: Joint, published: Bounds, upper: Sequence[Bounds], places: Sequence[tuple[Ints, Ints]]
) -> tuple[Solved, list[Ints]]:
    """One solution for all leaves, each leaf's part of it after the other."""
    ends = [joint.fine.layouts[0].rows_of(*published)]
    ends += [
        layout.rows_of(*one) for layout, one in zip(joint.fine.layouts[1:], upper, strict=True)
    ]
    if not all(agree.all() for _, _, agree in ends):
        return Solved(None, NO_METHOD, True), []
    classes, rows = _unknowns(joint, ends, places)
    low = np.concatenate([low.reshape(-1) for low, _, _ in ends])
    high = np.concatenate([high.reshape(-1) for _, high, _ in ends])
    settled = settle(rows, low, high)
    if settled is None:
        return Solved(None, NO_METHOD, True), classes
    return solve([settled], joint.plan.effort)[0], classes


def _unknowns(
    joint: Joint,
    ends: Sequence[tuple[Ints, Ints, NDArray[np.bool_]]],
    places: Sequence[tuple[Ints, Ints]],
    *,
    upper: bool = True,
) -> tuple[list[Ints], Rows]:
    """Classes of each leaf that may hold someone, and the rows of all of them in one numbering."""
    from headcount.attacks import kernels

    layouts = joint.fine.layouts
    classes, rows = [], []
    for leaf in range(len(ends[0][0])):
        where = [leaf, *(int(position[leaf]) for _, position in places)]
        keep = np.ones(len(layouts[0].row_of), dtype=bool)
        for layout, (_, high, _), place in list(zip(layouts, ends, where, strict=True))[
            : None if upper else 1
        ]:
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
    piece: Piece,
    leaves: Ints,
    published: Bounds,
    upper: Sequence[Bounds],
    places: Sequence[tuple[Ints, Ints]],
    found: Solved,
    classes: Sequence[Ints],
) -> None:
    """Records of each leaf, and its variability over what its own tables tell apart."""
    plan = joint.plan
    if found.x is None:
        record_variability(plan, piece, [None] * len(leaves), [found] * len(leaves))
        return
    split = np.split(found.x, np.cumsum([len(one) for one in classes])[:-1])
    coarse = plan.structure.class_of[joint.fine.cell_of]
    problems: list[Settled | None] = []
    solved = []
    low, high, _ = plan.structure.layouts[0].rows_of(*published)
    above = [
        limits.sums @ np.minimum(layout.rows_of(*one)[1], 1 << 40).T
        for limits, layout, one in zip(joint.limits, joint.fine.layouts[1:], upper, strict=True)
    ]
    for i, leaf in enumerate(leaves):
        piece.add(int(leaf), joint.fine.cell_of[classes[i]], split[i])
        limit = [most[:, position[i]] for most, (_, position) in zip(above, places, strict=True)]
        alive, settled = _limited_problem(plan, joint.limits, low[i], high[i], limit)
        histogram = np.bincount(coarse[classes[i]], weights=split[i], minlength=coarse.max() + 1)
        problems.append(settled)
        solved.append(Solved(histogram[alive].astype(np.int64), found.method, found.proven))
    record_variability(plan, piece, problems, solved)


def _limited_problem(
    plan: Plan, limits: Sequence[Limits], low: Ints, high: Ints, most: Sequence[Ints]
) -> tuple[Ints, Settled]:
    """A leaf's own problem with the larger units' rows as upper limits."""
    from headcount.attacks import kernels

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
        agree = np.bincount(coarse[inside][member[coarse[inside]] == group[own[inside]]],
                            minlength=size) == held  # fmt: skip
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


def _after_fix(
    joint: Joint,
    piece: Piece,
    leaves: Ints,
    published: Bounds,
    upper: Sequence[Bounds],
    places: Sequence[tuple[Ints, Ints]],
) -> tuple[Solved, list[Ints]]:
    """Find the least change: first of each leaf's own tables, then of those above, given these.

    Changes ``published`` and ``upper`` in place, and solves again if asked to.
    """
    plan = joint.plan
    proven = True
    for i, leaf in enumerate(leaves):
        low, high, agree = plan.structure.layouts[0].rows_of(*(end[i : i + 1] for end in published))
        settled = leaf_problem(plan.structure.layouts[0], low[0], high[0])[1] if agree[0] else None
        if settled is not None and solve([settled], plan.effort)[0].x is not None:
            continue
        fixed, found, least = fix_leaf(plan, int(leaf))
        piece.moves += found
        piece.conflict[i] = True
        if fixed is None:
            return Solved(None, NO_METHOD, False), []
        proven &= least
        published[0][i], published[1][i] = fixed[0][0], fixed[1][0]
    again = _solve(joint, published, upper, places)
    if again[0].x is None and again[0].proven:
        piece.conflict = [True] * len(leaves)
        above = _fix_above(joint, piece, published, upper, places)
        if above is None:
            return Solved(None, NO_METHOD, False), []
        proven &= above
        again = _solve(joint, published, upper, places)
    if plan.on_conflict != LEAST_CHANGE:
        return Solved(None, NO_METHOD, proven), []
    solved, classes = again
    return Solved(solved.x, solved.method, solved.proven and proven), classes


def _fix_above(
    joint: Joint,
    piece: Piece,
    published: Bounds,
    upper: Sequence[Bounds],
    places: Sequence[tuple[Ints, Ints]],
) -> bool | None:
    """The least change of the tables above the leaves, the leaves' own being kept.

    Changes ``upper`` in place; returns whether the change is proven the least, None without one.
    """
    from scipy.sparse import csr_array

    from headcount.attacks import kernels

    layouts = joint.fine.layouts
    ends = [layouts[0].rows_of(*published)]
    ends += [layout.rows_of(*one) for layout, one in zip(layouts[1:], upper, strict=True)]
    classes, rows = _unknowns(joint, ends, places, upper=False)
    own = np.ascontiguousarray(rows[:, : layouts[0].row_of.shape[1]])
    ptr, idx, low, high, _, _ = kernels.assemble(own, *(end.reshape(-1) for end in ends[0][:2]))
    weights = [
        table_weights(layout.held, joint.plan.weights)
        for layout, (units, _) in zip(layouts[1:], places, strict=True)
        for _ in units
    ]
    fix = least_change(
        _adds_above(joint, classes, places),
        np.concatenate([one.reshape(-1) for one, _ in upper]),
        np.concatenate([one.reshape(-1) for _, one in upper]),
        weight=np.concatenate(weights),
        hard=csr_array((np.ones(len(idx)), idx, ptr), shape=(len(low), len(rows))),
        hard_low=low,
        hard_high=high,
        seconds=joint.plan.seconds_to_fix,
    )
    if fix is None:
        return None
    _move_above(joint, piece, upper, places, fix)
    return fix.proven


def _adds_above(joint: Joint, classes: Sequence[Ints], places: Sequence[tuple[Ints, Ints]]) -> Any:
    """Sparse (cells of the tables above, unit by unit x unknowns of all leaves)."""
    from scipy.sparse import vstack

    leaf = np.repeat(np.arange(len(classes)), [len(one) for one in classes])
    cell = joint.fine.cell_of[np.concatenate(classes)]
    adds = []
    for layout, (units, position) in zip(joint.fine.layouts[1:], places, strict=True):
        for number in range(len(units)):
            here = (position[leaf] == number).astype(np.int64)[:, None]
            adds += [held.cells.matrix[cell].multiply(here).T for held in layout.held]
    return vstack(adds, format="csc")


def _move_above(
    joint: Joint,
    piece: Piece,
    upper: Sequence[Bounds],
    places: Sequence[tuple[Ints, Ints]],
    fix: Fix,
) -> None:
    """Name the moves of the tables above, and make them."""
    geography = joint.plan.knowledge.geography
    start = 0
    for layout, (first, last), level, (units, _) in zip(
        joint.fine.layouts[1:], upper, joint.levels, places, strict=True
    ):
        names = geography.units[geography.depth(level)]
        for number, unit in enumerate(units):
            part = slice(start, start + first.shape[1])
            start += first.shape[1]
            name = str(names[unit])
            piece.moves += moves(layout.held, name, first[number], last[number], fix.by[part])
            first[number], last[number] = fix.low[part], fix.high[part]
