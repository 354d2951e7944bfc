"""Rounding of one parent as an integer program, and the constraints as sparse rows for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.solve.mip import Program, minimise
from headcount.topdown.solve.batch import NO_BOUND, Batch
from headcount.topdown.solve.nesting import bound_column, bounded_columns, rank_of


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


def entry_of(batch: Batch) -> Ints:
    """The entry of each variable."""
    return np.repeat(np.arange(len(batch.cell)), np.diff(batch.var_start))


def sum_rows(batch: Batch) -> Constraints:
    """Children sum to their parent, entry by entry; no rows at the root."""
    from scipy.sparse import csr_array

    entries = 0 if batch.is_root else len(batch.cell)
    variables = len(batch.var_child)
    used = np.arange(variables if entries else 0)
    where = (entry_of(batch)[: len(used)], used)
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
    slot = rank[bound_column(batch.group, batch.bound_start)][:, batch.cell[entry_of(batch)]]
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

    from headcount.topdown.solve.network import SCALE

    rows = stack(sum_rows(batch), bound_rows(batch), joint_rows(batch))
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
