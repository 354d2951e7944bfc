"""Feasibility of a parent's constraints; in an infeasible one, those in conflict."""

from __future__ import annotations

import numpy as np

from headcount.solve.mip import Program, SolverError, minimise
from headcount.topdown.solve.batch import Batch, map_parents
from headcount.topdown.solve.check import Violation
from headcount.topdown.solve.integer_programs import bound_rows, joint_rows, stack, sum_rows
from headcount.topdown.solve.nesting import locate, nesting
from headcount.topdown.solve.network import can_share

DEAR = 1000.0
"""Breaking a parent's sum costs so much more than breaking a bound: the bounds get named."""


def clashes(batch: Batch, *, threads: int = 1, steps: int = 500_000) -> list[Violation]:
    """Constraints that no non-negative integer answer keeps; empty if every parent has one.

    Nested bounds are tested by a flow through the network of network.py. An infeasible parent,
    and every parent with overlapping bounds, goes to HiGHS, which breaks as little as possible:

        minimise  sum of slacks   subject to   sums and bounds of the batch, with slacks

    and the constraints with a slack are the ones named. A parent that takes HiGHS more than so many
    ``steps`` raises SolverError.
    """
    forest = nesting(batch)
    possible = np.zeros(batch.parents, dtype=np.bool_)
    map_parents(
        lambda some: can_share(some, batch.arrays, forest, possible),
        batch,
        np.arange(batch.parents),
        threads=threads,
    )
    suspects = np.flatnonzero(~possible) if forest.nested else np.arange(batch.parents)
    named = (_least_broken(batch, int(p), not forest.nested, steps) for p in suspects)
    return [found for those in named for found in those]


def _least_broken(batch: Batch, p: int, integer: bool, steps: int) -> list[Violation]:
    """The constraints of parent p that break when as little as possible breaks."""
    from scipy.sparse import eye_array, hstack

    if upside_down := _upside_down(batch, p):
        return upside_down
    one = batch.one(p)
    rows = stack(sum_rows(one), bound_rows(one), joint_rows(one))
    size, variables = len(rows.low), len(one.var_child)
    is_sum, is_joint = rows.label[:, 0] == -1, rows.label[:, 0] == -2
    price = np.where(is_sum, DEAR, 1.0)
    found = minimise(
        Program(
            cost=np.concatenate([np.zeros(variables), price, price]),
            low=np.zeros(variables + 2 * size),
            high=np.full(variables + 2 * size, np.inf),
            matrix=hstack([rows.matrix, eye_array(size), -eye_array(size)], format="csc"),
            row_low=rows.low,
            row_high=rows.high,
            integer=integer,
        ),
        steps=steps,
    )
    if found is None:
        raise SolverError("HiGHS has no answer to a problem with slacks, which always has one")
    under, over = found[variables:].reshape(2, size) > 1e-6
    named = []
    for k in np.flatnonzero(under | over):
        kind = "low" if under[k] else "high"
        kind = "sum" if is_sum[k] else ("joint" if is_joint[k] else kind)
        named.append(_violation(batch, p, kind, *rows.label[k]))
    return named


def _upside_down(batch: Batch, p: int) -> list[Violation]:
    children = range(batch.child_start[p], batch.child_start[p + 1])
    return [
        _violation(batch, p, "low", int(c - batch.child_start[p]), int(column))
        for c in children
        for column in np.flatnonzero(batch.low[c] > batch.high[c])
    ]


def _violation(batch: Batch, p: int, kind: str, child: int, place: int) -> Violation:
    parent = int(batch.parent[p])
    if kind == "sum":
        cell = int(batch.cell[batch.cell_start[p] + place])
        return Violation(kind=kind, parent=parent, index=p, cell=cell)
    if kind == "joint":
        number = int(batch.child_start[p] + place)
        return Violation(kind=kind, parent=parent, index=p, child=number)
    family, group = locate(batch, int(place))
    number = int(batch.child_start[p] + child)
    return Violation(kind=kind, parent=parent, index=p, child=number, family=family, group=group)
