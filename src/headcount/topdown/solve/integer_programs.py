"""Rounding of one parent as an integer program, for HiGHS: where bounds or queries cross.

The constraints are sparse rows, which the failsafe and the search for contradictions use, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.solve.mip import Program, SolverError, minimise
from headcount.topdown.solve.batch import (
    NO_BOUND,
    Batch,
    Partition,
    Violation,
    bound_column,
    bounded_columns,
    locate,
    map_parents,
    nesting,
    rank_of,
)
from headcount.topdown.solve.network import SCALE, can_share


@dataclass(frozen=True, eq=False, kw_only=True)
class Constraints:
    """Rows low <= A x <= high over the variables of a batch.

    ``label`` holds (child, column) of each row that is a child's bound, (-1, entry) of a sum over
    children, (-2, child) of a total of that child and others.
    """

    matrix: Any  # scipy's csr_array ships no types
    low: Floats
    high: Floats
    label: Ints


def _sum_rows(batch: Batch) -> Constraints:
    """Children sum to their parent, entry by entry; no rows at the root."""
    from scipy.sparse import csr_array

    entries = 0 if batch.is_root else len(batch.cell)
    variables = len(batch.var_child)
    used = np.arange(variables if entries else 0)
    where = (batch.entry[: len(used)], used)
    total = batch.total[:entries].astype(np.float64)
    return Constraints(
        matrix=csr_array((np.ones(len(used)), where), shape=(entries, variables)),
        low=total,
        high=total,
        label=np.stack([np.full(entries, -1), np.arange(entries)], axis=1),
    )


def bound_rows(batch: Batch) -> Constraints:
    """The bounds of every child on every bounded group."""
    from scipy.sparse import csr_array

    columns = bounded_columns(batch)
    children = int(batch.child_start[-1])
    rank = rank_of(columns, int(batch.bound_start[-1]))
    slot = rank[bound_column(batch.group, batch.bound_start)][:, batch.cell[batch.entry]]
    family, variable = np.nonzero(slot >= 0)
    row = batch.var_child[variable] * len(columns) + slot[family, variable]
    shape = (children * len(columns), len(batch.var_child))
    low = batch.low[:, columns].ravel().astype(np.float64)
    high = batch.high[:, columns].ravel().astype(np.float64)
    return Constraints(
        matrix=csr_array((np.ones(len(row)), (row, variable)), shape=shape),
        low=np.where(low > 0, low, -np.inf),
        high=np.where(high < float(NO_BOUND), high, np.inf),
        label=np.stack(
            [np.repeat(np.arange(children), len(columns)), np.tile(columns, children)], axis=1
        ),
    )


def joint_rows(batch: Batch) -> Constraints:
    """The totals that several children have together; labels (-2, first child)."""
    from scipy.sparse import csr_array

    present, first = np.unique(batch.joint, return_index=True)
    present, first = present[present >= 0], first[present >= 0]
    number = np.full(len(batch.joint_total) + 1, -1)
    number[present] = np.arange(len(present))
    row = np.full(len(batch.var_child), -1)
    if len(batch.joint):
        row = number[batch.joint[batch.var_child]]
    used = np.flatnonzero(row >= 0)
    total = batch.joint_total[present].astype(np.float64)
    shape = (len(present), len(batch.var_child))
    return Constraints(
        matrix=csr_array((np.ones(len(used)), (row[used], used)), shape=shape),
        low=total,
        high=total,
        label=np.stack([np.full(len(present), -2), first], axis=1),
    )


def stack(*parts: Constraints) -> Constraints:
    """Several sets of rows, one below the other."""
    from scipy.sparse import vstack

    return Constraints(
        matrix=vstack([part.matrix for part in parts], format="csr"),
        low=np.concatenate([part.low for part in parts]),
        high=np.concatenate([part.high for part in parts]),
        label=np.concatenate([part.label for part in parts]),
    )


def rounding_program(batch: Batch, whole: Ints, cost: Ints, *, wide: int = 0) -> Program:
    """Rounding of one parent with its variables in three parts, y = up + far up - down.

        minimise  sum (1 - 2 frac) up + far up + down
        up in {0, 1}, 0 <= far up <= wide, 0 <= down <= wide (one more for an integer) and <= floor

    where the sums and bounds are lowered by the floors' margins.
    """
    from scipy.sparse import hstack

    rows = stack(_sum_rows(batch), bound_rows(batch), joint_rows(batch))
    moved = rows.matrix @ whole
    ones = np.ones(len(whole))
    down = np.minimum(whole, wide + (cost == SCALE))
    return Program(
        cost=np.concatenate([cost / SCALE, ones, ones]),
        low=np.zeros(3 * len(whole)),
        high=np.concatenate([ones, wide * ones, down.astype(np.float64)]),
        matrix=hstack([rows.matrix, rows.matrix, -rows.matrix], format="csc"),
        row_low=rows.low - moved,
        row_high=rows.high - moved,
        integer=True,
    )


def round_one(batch: Batch, whole: Ints, cost: Ints, *, wide: int = 0) -> Ints | None:
    """Round one parent by HiGHS; None if there is no rounding in this range."""
    steps = minimise(rounding_program(batch, whole, cost, wide=wide))
    if steps is None:
        return None
    up, far, down = steps.astype(np.int64).reshape(3, len(whole))
    return whole + up + far - down


def target_program(
    batch: Batch,
    x: Floats,
    queries: Sequence[Partition],
    held: Sequence[tuple[Partition, Ints]] = (),
    *,
    wide: int = 0,
) -> Program:
    """The programme of one pass over (up, far up, down, over, under), y = up + far up - down.

        minimise  sum of over and under
        subject to  Q y - over + under = round half even (Q frac),  Q' y = what earlier passes gave

    and to the sums and bounds of ``rounding_program``.
    """
    from scipy.sparse import block_array, csr_array, eye_array, hstack, vstack

    whole = np.floor(x).astype(np.int64)
    steps = rounding_program(batch, whole, np.zeros(len(x), np.int64), wide=wide)
    steps.high[2 * len(x) :] = np.minimum(whole, wide)
    empty = csr_array((0, len(x)))
    aims = vstack([empty, *(_query_rows(batch, one) for one in queries)], format="csr")
    kept = vstack([empty, *(_query_rows(batch, one) for one, _ in held)], format="csr")
    target = np.rint(aims @ (x - whole))
    given = np.concatenate([np.zeros(0), *(table.ravel() for _, table in held)]) - kept @ whole
    size, count = len(steps.cost), len(target)
    by_part = hstack([aims, aims, -aims])
    rows = vstack([steps.matrix, hstack([kept, kept, -kept])])
    eye = eye_array(count)
    return Program(
        cost=np.concatenate([np.zeros(size), np.ones(2 * count)]),
        low=np.concatenate([steps.low, np.zeros(2 * count)]),
        high=np.concatenate([steps.high, np.full(2 * count, np.inf)]),
        matrix=block_array([[rows, None, None], [by_part, -eye, eye]], format="csc"),
        row_low=np.concatenate([steps.row_low, given, target]),
        row_high=np.concatenate([steps.row_high, given, target]),
        integer=True,
    )


def round_one_to_targets(
    batch: Batch,
    x: Floats,
    queries: Sequence[Partition],
    held: Sequence[tuple[Partition, Ints]],
    *,
    wide: int = 0,
    also: Callable[[Program], Program] = lambda program: program,
) -> Ints | None:
    """Round one parent by HiGHS, first to the targets, then by 1 - 2 frac; None if none fits.

    ``also`` may add rows to the programme, and columns behind its own that cost nothing.
    """
    from scipy.sparse import csr_array, vstack

    program = also(target_program(batch, x, queries, held, wide=wide))
    nearest = minimise(program)
    if nearest is None:
        return None
    best = float(np.rint(program.cost @ nearest))
    ties, whole = np.zeros(len(program.cost)), np.floor(x)
    ties[: 3 * len(x)] = np.concatenate([1 - 2 * (x - whole), np.ones(2 * len(x))])
    found = minimise(
        replace(
            program,
            cost=ties,
            matrix=vstack([program.matrix, csr_array(program.cost[None])], format="csc"),
            row_low=np.append(program.row_low, -np.inf),
            row_high=np.append(program.row_high, best),
        )
    )
    chosen = nearest if found is None else found
    up, far, down = chosen[: 3 * len(x)].astype(np.int64).reshape(3, len(x))
    return whole.astype(np.int64) + up + far - down


def _query_rows(batch: Batch, group: Partition) -> Any:
    """One row for each child and group: the sum of its variables."""
    from scipy.sparse import csr_array

    groups = int(group.max()) + 1
    row = batch.var_child.astype(np.int64) * groups + group[batch.cell[batch.entry]]
    shape = (int(batch.child_start[-1]) * groups, len(batch.var_child))
    return csr_array((np.ones(len(row)), (row, np.arange(len(row)))), shape=shape)


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
    rows = stack(_sum_rows(one), bound_rows(one), joint_rows(one))
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
