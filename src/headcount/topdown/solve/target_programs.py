"""Rounding of one parent to rounded targets as a programme for HiGHS: what crosses, and oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.solve.mip import Program, minimise
from headcount.topdown.solve._chain import Partition
from headcount.topdown.solve.batch import Batch
from headcount.topdown.solve.general_rounding import entry_of, rounding_program


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
    row = batch.var_child.astype(np.int64) * groups + group[batch.cell[entry_of(batch)]]
    shape = (int(batch.child_start[-1]) * groups, len(batch.var_child))
    return csr_array((np.ones(len(row)), (row, np.arange(len(row)))), shape=shape)
