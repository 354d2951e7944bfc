"""Constrained least squares for every parent of a level."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Floats, Ints, Ints32
from headcount.topdown.solve.batch import Batch
from headcount.topdown.solve.outcome import Solver, SolverOutcome, Status


@dataclass(frozen=True, eq=False, kw_only=True)
class Solved:
    """The estimates x, float64[V] in the batch's order, and how each parent ended."""

    x: Floats
    outcome: SolverOutcome


def least_squares(
    batch: Batch,
    *,
    tolerance: float = 1e-7,
    threads: int | None = None,
    near: Floats | None = None,
) -> Solved:
    """Minimise the batch's objective for every parent; threads None takes all cores.

    Each parent is solved on its own, so the answer does not depend on the number of threads.
    x >= 0 and the parents' sums hold by construction, bounds to ``tolerance``; values below 1e-7
    are set to 0 (to the benefit of the entry's largest). A parent on which the Newton method
    fails goes to PIQP, then Clarabel; one that nobody solves is FAILED or INFEASIBLE in the
    outcome, and its part of x is 0.

    With a weight of 0 on the detail or on a bounded family a small proximal weight stands in and
    is iterated away: the objective agrees with a general solver's to about 1e-7 relative. With
    detail weight 0 the minimum need not be unique: the answer is one near ``near`` (float64[V]), or
    near even shares.
    """
    from headcount.topdown.solve._kernel import solve_parents

    counts, violation = np.zeros((batch.parents, 4), np.int32), np.zeros(batch.parents)
    x = np.zeros(len(batch.answer))
    start, low, high = _bounds(batch)
    arrays = batch.arrays._replace(bound_start=start, low=low, high=high)
    begin = np.zeros(0) if near is None else near
    arguments = arrays, np.diff(start) > 0, tolerance, begin, x, counts, violation
    workers = threads or os.cpu_count() or 1
    if workers == 1 or batch.parents <= 1:
        solve_parents(np.arange(batch.parents), *arguments)
    else:
        with ThreadPoolExecutor(workers) as pool:
            for task in [pool.submit(solve_parents, c, *arguments) for c in _chunks(batch)]:
                task.result()
    return _finish(batch, x, counts, violation)


def _bounds(batch: Batch) -> tuple[Ints, Floats, Floats]:
    """Where each family's bounds begin, and the bounds: those of families that have any."""
    if not batch.band:
        return batch.bound_start, batch.low.astype(np.float64), batch.high.astype(np.float64)
    sizes = np.zeros(len(batch.group) + 1, np.int64)
    sizes[batch.limited + 1] = np.diff(batch.family_start)[batch.limited]
    return np.cumsum(sizes), *batch.limits(batch.limited)


def _chunks(batch: Batch) -> Iterator[Ints]:
    """Lists of parents of about equal work, the largest parents first."""
    size = np.diff(batch.var_start[batch.cell_start])
    order = np.argsort(-size, kind="stable")
    done = np.cumsum(size[order])
    piece = max(int(done[-1]) // 64, 1)
    yield from np.split(order, np.flatnonzero(np.diff(done // piece)) + 1)


def _finish(
    batch: Batch,
    x: Floats,
    counts: Ints32,
    violation: Floats,
) -> Solved:
    """Hand what is stuck to a general solver."""
    from headcount.topdown.solve._newton import IMPOSSIBLE, STUCK
    from headcount.topdown.solve.general import solve_general

    status = np.where(counts[:, 0] == IMPOSSIBLE, Status.INFEASIBLE, Status.SOLVED)
    solver = np.where(counts[:, 0] == IMPOSSIBLE, Solver.NONE, Solver.NEWTON)
    first = batch.var_start[batch.cell_start]
    for p in np.flatnonzero(counts[:, 0] == STUCK):
        status[p], solver[p], x[first[p] : first[p + 1]], violation[p] = solve_general(
            batch.one(int(p))
        )
    for p in np.flatnonzero(status != Status.SOLVED):
        x[first[p] : first[p + 1]], violation[p] = 0.0, np.inf
    outcome = SolverOutcome(
        status=status.astype(np.int8),
        solver=solver.astype(np.int8),
        attempts=counts[:, 1],
        steps=counts[:, 2],
        conjugate=counts[:, 3],
        violation=violation,
    )
    return Solved(x=x, outcome=outcome)
