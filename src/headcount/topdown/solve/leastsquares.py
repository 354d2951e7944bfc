"""Constrained least squares for every parent of a level, and how each of them ended.

Newton's method on the dual (``_newton``); what it cannot settle, which is rare, is written as a
general quadratic programme for PIQP and Clarabel, which are the oracles of the tests, too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Floats, Ints, Ints32
from headcount.topdown.solve._kernel import solve_parents
from headcount.topdown.solve._newton import IMPOSSIBLE, STUCK
from headcount.topdown.solve.batch import NO_BOUND, Batch, map_parents, violation


class Status(IntEnum):
    """How a problem ended."""

    SOLVED = 0
    FAILED = 1
    INFEASIBLE = 2


class Solver(IntEnum):
    """Which solver gave the answer."""

    NEWTON = 0
    PIQP = 1
    CLARABEL = 2
    NONE = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class _SolverOutcome:
    """One line for each parent of a batch.

    status      as in Status; without SOLVED the parent's part of the answer means nothing
    solver      as in Solver
    attempts    starts of the Newton method (0: nothing was left to choose)
    steps       Newton steps of all attempts together
    conjugate   conjugate gradient steps of all attempts together
    violation   the largest violation of any constraint, in persons
    """

    status: NDArray[np.int8]
    solver: NDArray[np.int8]
    attempts: Ints32
    steps: Ints32
    conjugate: Ints32
    violation: Floats

    @property
    def unsolved(self) -> Ints:
        """The parents (by position in the batch) that have no answer."""
        return np.flatnonzero(self.status != Status.SOLVED)

    def summary(self) -> dict[str, int | float]:
        """The counts that a receipt records for a level."""
        solved = self.status == Status.SOLVED
        return {
            "parents": len(self.status),
            "solved": int(solved.sum()),
            "infeasible": int((self.status == Status.INFEASIBLE).sum()),
            "failed": int((self.status == Status.FAILED).sum()),
            "nothing to choose": int((solved & (self.attempts == 0)).sum()),
            "retried": int((self.attempts > 1).sum()),
            "by PIQP": int((solved & (self.solver == Solver.PIQP)).sum()),
            "by Clarabel": int((solved & (self.solver == Solver.CLARABEL)).sum()),
            "Newton steps": int(self.steps.sum()),
            "largest violation": float(self.violation[solved].max(initial=0.0)),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Solved:
    """The estimates x, float64[V] in the batch's order, and how each parent ended."""

    x: Floats
    outcome: _SolverOutcome


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
    counts, worst = np.zeros((batch.parents, 4), np.int32), np.zeros(batch.parents)
    x = np.zeros(len(batch.answer))
    start, low, high = _bounds(batch)
    arrays = batch.arrays._replace(bound_start=start, low=low, high=high)
    begin = np.zeros(0) if near is None else near
    arguments = arrays, np.diff(start) > 0, tolerance, begin, x, counts, worst
    map_parents(
        lambda some: solve_parents(some, *arguments),
        batch,
        np.arange(batch.parents),
        threads=threads or os.cpu_count() or 1,
    )
    return _finish(batch, x, counts, worst)


def _bounds(batch: Batch) -> tuple[Ints, Floats, Floats]:
    """Where each family's bounds begin, and the bounds: those of families that have any."""
    if not batch.band:
        return batch.bound_start, batch.low.astype(np.float64), batch.high.astype(np.float64)
    sizes = np.zeros(len(batch.group) + 1, np.int64)
    sizes[batch.limited + 1] = np.diff(batch.family_start)[batch.limited]
    return np.cumsum(sizes), *batch.limits(batch.limited)


def _finish(batch: Batch, x: Floats, counts: Ints32, worst: Floats) -> Solved:
    """Hand what is stuck to a general solver."""
    status = np.where(counts[:, 0] == IMPOSSIBLE, Status.INFEASIBLE, Status.SOLVED)
    solver = np.where(counts[:, 0] == IMPOSSIBLE, Solver.NONE, Solver.NEWTON)
    first = batch.var_start[batch.cell_start]
    for p in np.flatnonzero(counts[:, 0] == STUCK):
        found = _solve_general(batch.one(int(p)))
        status[p], solver[p], x[first[p] : first[p + 1]], worst[p] = found
    for p in np.flatnonzero(status != Status.SOLVED):
        x[first[p] : first[p + 1]], worst[p] = 0.0, np.inf
    outcome = _SolverOutcome(
        status=status.astype(np.int8),
        solver=solver.astype(np.int8),
        attempts=counts[:, 1],
        steps=counts[:, 2],
        conjugate=counts[:, 3],
        violation=worst,
    )
    return Solved(x=x, outcome=outcome)


@dataclass(frozen=True, eq=False, kw_only=True)
class Programme:
    """Minimise 1/2 v'Pv + q'v subject to A v = b and low <= v <= high, with v = (x, z).

    z holds the marginals that are measured or bounded and the joint totals, tied to x by rows
    Q x - z = 0: far sparser than putting the marginals' squares on x. P is diagonal.
    """

    curvature: Floats
    linear: Floats
    matrix: Any  # scipy.sparse.csc_matrix
    equal: Floats
    low: Floats
    high: Floats
    variables: int


def programme(batch: Batch) -> Programme:
    """The programme of a batch (of one parent, as a rule)."""
    from scipy.sparse import coo_matrix, csc_matrix, hstack, identity, vstack

    n = len(batch.answer)
    kids, width = batch.margin.shape
    weight = np.repeat(batch.family_weight, np.diff(batch.family_start), axis=1)
    lows, highs = batch.limits()
    bounded = (lows > -NO_BOUND) | (highs < NO_BOUND)
    used = np.flatnonzero((bounded | (weight > 0)).ravel())
    number = np.full(kids * width, -1)
    number[used] = np.arange(len(used))

    entry, child = batch.entry, batch.var_child.astype(np.int64)
    rows, columns = [], []
    for f, first in enumerate(batch.family_start[:-1]):
        row = number[child * width + first + batch.group[f, batch.cell[entry]]]
        rows.append(row[row >= 0])
        columns.append(np.flatnonzero(row >= 0))
    joint, of_joint = _joint_totals(batch)
    rows.append(len(used) + of_joint[of_joint >= 0])
    columns.append(np.flatnonzero(of_joint >= 0))
    tied = len(used) + len(joint)
    row_of = np.concatenate([np.empty(0, np.int64), *rows])
    column_of = np.concatenate([np.empty(0, np.int64), *columns])
    ties = coo_matrix((np.ones(len(row_of)), (row_of, column_of)), (tied, n))
    matrix = hstack([ties, -identity(tied)])
    equal = np.zeros(tied)
    if not batch.is_root:
        sums = coo_matrix((np.ones(n), (entry, np.arange(n))), (len(batch.cell), n + tied))
        matrix = vstack([matrix, sums])
        equal = np.concatenate([equal, batch.total.astype(float)])

    w, detail = weight.ravel()[used], batch.weight[batch.var_child]
    margin = np.where(w > 0, batch.margin.ravel()[used], 0.0)
    answer = np.where(detail > 0, batch.answer, 0.0)
    low, high = lows.ravel()[used], highs.ravel()[used]
    none = np.zeros(len(joint))
    return Programme(
        curvature=2 * np.concatenate([detail, w, none]),
        linear=-2 * np.concatenate([detail * answer, w * margin, none]),
        matrix=csc_matrix(matrix),
        equal=equal,
        low=np.concatenate([np.zeros(n), np.where(low > -NO_BOUND, low, -np.inf), joint]),
        high=np.concatenate([np.full(n, np.inf), np.where(high < NO_BOUND, high, np.inf), joint]),
        variables=n,
    )


def _joint_totals(batch: Batch) -> tuple[Floats, Ints]:
    """The joint totals of the batch's children, and for each variable which it counts in, or -1."""
    if not len(batch.joint):
        return np.zeros(0), np.full(len(batch.var_child), -1)
    present, number = np.unique(batch.joint, return_inverse=True)
    none = int(np.sum(present < 0))  # -1 sorts first
    return batch.joint_total[present[none:]].astype(float), (number - none)[batch.var_child]


def solve_piqp(problem: Programme, *, tolerance: float = 1e-9) -> tuple[Status, Floats]:
    """The answer of PIQP, an interior point method with proximal terms."""
    import piqp
    from scipy.sparse import csc_matrix, diags

    scale = max(problem.curvature.max(initial=0.0), 1e-300)
    solver = piqp.SparseSolver()
    solver.settings.eps_abs = tolerance
    solver.settings.eps_rel = tolerance
    solver.setup(
        P=csc_matrix(diags(problem.curvature / scale)),
        c=problem.linear / scale,
        A=problem.matrix,
        b=problem.equal,
        x_l=problem.low,
        x_u=problem.high,
    )
    found = solver.solve()
    status = {
        piqp.PIQP_SOLVED: Status.SOLVED,
        piqp.PIQP_PRIMAL_INFEASIBLE: Status.INFEASIBLE,
    }.get(found, Status.FAILED)
    return status, np.array(solver.result.x)[: problem.variables]


def solve_clarabel(problem: Programme, *, tolerance: float = 1e-9) -> tuple[Status, Floats]:
    """The answer of Clarabel, an interior point method."""
    import clarabel
    from scipy.sparse import csc_matrix, diags, identity, vstack

    scale = max(problem.curvature.max(initial=0.0), 1e-300)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    eye = csc_matrix(identity(len(problem.low)))
    fixed = problem.low == problem.high
    below, above = np.isfinite(problem.low) & ~fixed, np.isfinite(problem.high) & ~fixed
    rows = csc_matrix(vstack([problem.matrix, eye[fixed], -eye[below], eye[above]]))
    rhs = np.concatenate(
        [problem.equal, problem.low[fixed], -problem.low[below], problem.high[above]]
    )
    cones = [
        clarabel.ZeroConeT(len(problem.equal) + int(fixed.sum())),
        clarabel.NonnegativeConeT(int(below.sum() + above.sum())),
    ]
    found = clarabel.DefaultSolver(
        csc_matrix(diags(problem.curvature / scale)),
        problem.linear / scale,
        rows,
        rhs,
        cones,
        settings,
    ).solve()
    status = {
        "Solved": Status.SOLVED,
        "AlmostSolved": Status.SOLVED,
        "PrimalInfeasible": Status.INFEASIBLE,
        "AlmostPrimalInfeasible": Status.INFEASIBLE,
    }.get(str(found.status), Status.FAILED)
    return status, np.array(found.x)[: problem.variables]


def _solve_general(batch: Batch, *, allowed: float = 1e-6) -> tuple[Status, Solver, Floats, float]:
    """One parent by PIQP, then Clarabel: the first answer whose violation is at most ``allowed``.

    Interior points are a little off every constraint; the answer is put back on x >= 0 and the
    parent's sums before it is judged. Where weights are far apart only the strict tolerance is near
    enough to the optimum; it cannot always be reached.
    """
    problem = programme(batch)
    status = Status.FAILED
    for solver, solve, tolerance in (
        (Solver.PIQP, solve_piqp, 1e-11),
        (Solver.PIQP, solve_piqp, 1e-9),
        (Solver.CLARABEL, solve_clarabel, 1e-9),
    ):
        found, x = solve(problem, tolerance=tolerance)
        if found is Status.SOLVED and np.isfinite(x).all():
            x = _onto_sums(batch, x)
            worst = float(violation(batch, x).max(initial=0.0))
            if worst <= allowed:
                return Status.SOLVED, solver, x, worst
        elif found is Status.INFEASIBLE:
            status = Status.INFEASIBLE
    return status, Solver.NONE, np.zeros(problem.variables), np.inf


def _onto_sums(batch: Batch, x: Floats, least: float = 1e-7) -> Floats:
    x = np.where(x < least, 0.0, x)
    if batch.is_root:
        return x
    for e in range(len(batch.cell)):
        part = x[batch.var_start[e] : batch.var_start[e + 1]]
        if len(part):
            part[part.argmax()] += batch.total[e] - part.sum()
    return x
