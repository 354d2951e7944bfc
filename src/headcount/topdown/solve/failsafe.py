"""The failsafe for an infeasible parent: keep its margin, relax its cells as little as can be.

The failsafe of the 2018 end-to-end test. A parent that has no feasible answer gives up its cells
but keeps the margin over the attributes that the caller names; cells that were 0 reopen where
that margin is positive. With P the parent's counts and x those of its children,

    1.  D* = min  D(x) = sum over cells |P[c] - sum over children x[c, j]|
        subject to  the kept margin of the children's sum = the parent's; all bounds; x >= 0
    2.  the least squares answer with D(x) <= D* + 1 and the same constraints
    3.  rounding: 1 and 2 again for the steps y in {0, 1} above the floor of x, with integer
        slacks and sum (1 - 2 frac) y in place of the squares

In passes, 2 is solved for the queries of one pass after another, within a band around what was
found before, and so is 3 with the distances to the rounded targets of each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.solve.mip import Program, SolverError, minimise
from headcount.topdown.solve.batch import Batch, Violation, violations
from headcount.topdown.solve.integer_programs import (
    Constraints,
    bound_rows,
    joint_rows,
    round_one_to_targets,
    rounding_program,
    stack,
)
from headcount.topdown.solve.leastsquares import (
    Programme,
    Status,
    programme,
    solve_clarabel,
    solve_piqp,
)
from headcount.topdown.solve.network import SCALE
from headcount.topdown.solve.passes import FitPass, fitting, hold
from headcount.topdown.solve.rounding import RoundPass, margin_counts

REFINEMENTS = 5
EXACT = 1e-6
"""How far an estimate may break a constraint, in persons."""

SLACK = 1.0
"""How much more than the least change the second stage may spend."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Rescued:
    """Answers of parents that needed the failsafe.

    counts    int64[V]
    x         float64[V]   the estimate before rounding
    moved     float64[P]   least L1 change of the parent's cells, D*
    widened   bool[P]      rounding had to go one step beyond floor and ceiling
    broken    violations of bounds and of the kept margin; must be empty
    """

    counts: Ints
    x: Floats
    moved: Floats
    widened: Flags
    broken: tuple[Violation, ...]

    @property
    def used(self) -> int:
        """How many parents were rescued: the failsafe count of the receipt."""
        return len(self.moved)


def rescue(
    batch: Batch,
    *,
    keep: Ints32,
    fit: Sequence[FitPass] = (),
    rounds: Sequence[RoundPass] = (),
) -> _Rescued:
    """Take every parent of a batch, its cells reopened, through the failsafe.

    ``keep`` numbers, for each schema cell, the kept margin that it belongs to; ``fit`` and
    ``rounds`` are the passes of the estimate and of rounding. Raises SolverError, which names the
    parent, when there is no answer even so.
    """
    x, moved = np.zeros(len(batch.answer)), np.zeros(batch.parents)
    counts = np.zeros(len(batch.answer), dtype=np.int64)
    widened = np.zeros(batch.parents, dtype=bool)
    for p, one in enumerate(batch):
        part = slice(*batch.var_start[batch.cell_start[p : p + 2]])
        x[part], moved[p] = estimate(one, keep=keep, fit=fit)
        counts[part], widened[p] = round_kept(one, x[part], keep=keep, rounds=rounds)
    broken = tuple(violations(batch, counts, keep=keep))
    return _Rescued(counts=counts, x=x, moved=moved, widened=widened, broken=broken)


def estimate(batch: Batch, *, keep: Ints32, fit: Sequence[FitPass] = ()) -> tuple[Floats, float]:
    """Least squares of one parent that change its cells by at most D* + 1; and D*."""
    least = _least_change(batch, keep=keep)
    if not fit:
        return _least_squares(batch, keep=keep, allowed=least + SLACK), least
    now, x = batch, np.zeros(len(batch.answer))
    for one in fit:
        now = fitting(now, batch, one)
        x = _least_squares(now, keep=keep, allowed=least + SLACK)
        now = hold(now, one, x, np.ones(1, dtype=bool))
    return x, least


def round_kept(
    batch: Batch, x: Floats, *, keep: Ints32, rounds: Sequence[RoundPass] = ()
) -> tuple[Ints, bool]:
    """Round one parent's estimate, the parent's change again within 1 of the least; widened?"""
    for wide in (0, 1):
        counts = _round_within(batch, np.maximum(x, 0.0), rounds, keep=keep, wide=wide)
        if counts is not None:
            return counts, wide > 0
    raise SolverError(f"failsafe: parent {batch.parent[0]}: found no rounding, expected one")


def _least_change(batch: Batch, *, keep: Ints32) -> float:
    rows, size = _kept_rows(batch, keep), len(batch.answer)
    program = _with_change(
        Program(
            cost=np.zeros(size),
            low=np.zeros(size),
            high=np.full(size, np.inf),
            matrix=rows.matrix,
            row_low=rows.low,
            row_high=rows.high,
            integer=False,
        ),
        _cell_sums(batch),
        batch.total.astype(np.float64),
        price=1.0,
    )
    found = minimise(program)
    if found is None:
        raise SolverError(
            f"failsafe: parent {batch.parent[0]}: found bounds that no counts with its kept margin "
            "can meet, expected bounds that its parent's margin allows"
        )
    return float(found[size:].sum())


def _least_squares(batch: Batch, *, keep: Ints32, allowed: float) -> Floats:
    """The batch's objective without the parent's cells, but with its margin and D <= allowed.

    Counts of millions and a change of 1 are far apart for an interior point method, so its answer
    is refined: solve again for what is left to add to it, until it keeps every constraint.
    """
    problem, complete = _quadratic(batch, keep=keep, allowed=allowed)
    for solve in (solve_clarabel, solve_piqp):
        x, good = np.maximum(batch.answer, 0.0), None
        for _ in range(REFINEMENTS):
            at = complete(x)
            rest = replace(
                problem,
                linear=problem.linear + problem.curvature * at,
                equal=problem.equal - problem.matrix @ at,
                low=problem.low - at,
                high=problem.high - at,
            )
            status, step = solve(rest)
            if not np.isfinite(step).all():
                break
            x = np.maximum(x + step, 0.0)
            at = complete(x)
            off = np.abs(problem.matrix @ at - problem.equal).max(initial=0.0)
            out = np.maximum(problem.low - at, at - problem.high).max(initial=0.0)
            if status is Status.SOLVED and max(off, out) <= EXACT:
                good = x
            if good is not None and max(off, out) <= EXACT / 100:
                break
        if good is not None:
            return good  # with its specks: set to 0, hundreds of them would break a margin
    raise SolverError(
        f"failsafe: parent {batch.parent[0]}: found no least squares answer by Clarabel or PIQP, "
        "expected one, since the constraints can be met"
    )


def _quadratic(
    batch: Batch, *, keep: Ints32, allowed: float
) -> tuple[Programme, Callable[[Floats], Floats]]:
    """The quadratic programme of the failsafe, and how to complete counts to all its variables.

    The variables are (x, marginals, too much, too little, slack): the programme of a parent
    without sums, with three more blocks.
    """
    from scipy.sparse import block_array, csc_matrix, csr_array, eye_array

    free = programme(replace(batch, is_root=True))
    margin, target = _margin_rows(batch, keep)
    sums = _cell_sums(batch)
    ties = csr_array(free.matrix)[:, : free.variables]
    entries, extra = len(batch.cell), free.matrix.shape[1] - free.variables
    eye, ones = eye_array(entries), csr_array(np.ones((1, entries)))
    blocks = [
        [free.matrix, None, None, None],
        [_pad(margin, extra), None, None, None],
        [_pad(sums, extra), -eye, eye, None],
        [None, ones, ones, csr_array([[1.0]])],
    ]
    nothing = np.zeros(2 * entries + 1)
    problem = Programme(
        curvature=np.concatenate([free.curvature, nothing]),
        linear=np.concatenate([free.linear, nothing]),
        matrix=csc_matrix(block_array(blocks)),
        equal=np.concatenate([free.equal, target, batch.total, [allowed]]),
        low=np.concatenate([free.low, nothing]),
        high=np.concatenate([free.high, np.full(len(nothing), np.inf)]),
        variables=free.variables,
    )

    def complete(x: Floats) -> Floats:
        change = sums @ x - batch.total
        slack = max(allowed - np.abs(change).sum(), 0.0)
        parts = [x, ties @ x, np.maximum(change, 0.0), np.maximum(-change, 0.0), [slack]]
        return np.concatenate(parts)

    return problem, complete


def _round_within(
    batch: Batch, x: Floats, rounds: Sequence[RoundPass], *, keep: Ints32, wide: int
) -> Ints | None:
    """The nearest rounding, at most ``wide`` further than floor and ceiling; None without any."""
    # The plain floor: moving integers as well could lower D* and so forbid a nearer rounding.
    whole = np.floor(x).astype(np.int64)
    cost = np.rint((1.0 - 2.0 * (x - whole)) * SCALE).astype(np.int64)
    free = replace(batch, is_root=True)
    steps = rounding_program(free, whole, cost, wide=wide)
    size = len(steps.cost)
    steps.high[2 * len(whole) :] = np.minimum(whole, wide)

    def keeping(program: Program, *, price: float = 0.0, allowed: float = np.inf) -> Program:
        return _keeping(batch, whole, program, keep=keep, price=price, allowed=allowed)

    found = minimise(keeping(replace(steps, cost=0 * steps.cost), price=1.0))
    if found is None:
        return None
    allowed = float(found[size:].sum()) + SLACK
    if not rounds:
        found = minimise(keeping(steps, allowed=allowed))
        if found is None:
            return None
        up, far, down = found[:size].astype(np.int64).reshape(3, len(whole))
        return whole + up + far - down
    held: list[tuple[Ints32, Ints]] = []
    for one in rounds:
        counts = round_one_to_targets(
            free, x, one, held, wide=wide, also=partial(keeping, allowed=allowed)
        )
        if counts is None:
            return None
        held += [(query, margin_counts(batch, query, counts)) for query in one]
    return counts


def _keeping(
    batch: Batch, whole: Ints, program: Program, *, keep: Ints32, price: float, allowed: float
) -> Program:
    """A programme of steps above the floors, which keeps the margin and changes D <= allowed."""
    from scipy.sparse import hstack, vstack

    more = program.matrix.shape[1] - 3 * len(whole)

    def by_step(rows: Any) -> Any:
        return _pad(hstack([rows, rows, -rows]), more)

    margin, target = _margin_rows(batch, keep)
    left = target - margin @ whole
    program = replace(
        program,
        matrix=vstack([program.matrix, by_step(margin)], format="csc"),
        row_low=np.concatenate([program.row_low, left]),
        row_high=np.concatenate([program.row_high, left]),
    )
    sums = _cell_sums(batch)
    missing = batch.total - sums @ whole
    return _with_change(program, by_step(sums), missing, price=price, allowed=allowed)


def _with_change(
    program: Program, sums: Any, missing: Floats, *, price: float, allowed: float = np.inf
) -> Program:
    """Two more variables a cell, too much and too little, tied to the cell's sum; D <= allowed."""
    from scipy.sparse import block_array, csr_array, eye_array

    entries = len(missing)
    ones, eye = csr_array(np.ones((1, entries))), eye_array(entries)
    matrix = block_array(
        [[program.matrix, None, None], [sums, -eye, eye], [None, ones, ones]], format="csc"
    )
    return replace(
        program,
        cost=np.concatenate([program.cost, np.full(2 * entries, price)]),
        low=np.concatenate([program.low, np.zeros(2 * entries)]),
        high=np.concatenate([program.high, np.full(2 * entries, np.inf)]),
        matrix=matrix,
        row_low=np.concatenate([program.row_low, missing, [-np.inf]]),
        row_high=np.concatenate([program.row_high, missing, [allowed]]),
    )


def _cell_sums(batch: Batch) -> Any:
    """Rows that sum each cell over the children."""
    from scipy.sparse import csr_array

    size = len(batch.var_child)
    where = (batch.entry, np.arange(size))
    return csr_array((np.ones(size), where), shape=(len(batch.cell), size))


def _margin_rows(batch: Batch, keep: Ints32) -> tuple[Any, Floats]:
    """Rows that sum each kept margin over its cells and the children, with the parent's counts."""
    from scipy.sparse import csr_array

    present, margin = np.unique(keep[batch.cell], return_inverse=True)
    size = len(batch.var_child)
    where = (margin[batch.entry], np.arange(size))
    matrix = csr_array((np.ones(size), where), shape=(len(present), size))
    target = np.zeros(len(present))
    np.add.at(target, margin, batch.total)
    return matrix, target


def _kept_rows(batch: Batch, keep: Ints32) -> Constraints:
    from scipy.sparse import vstack

    bounds = stack(bound_rows(batch), joint_rows(batch))
    margin, target = _margin_rows(batch, keep)
    return Constraints(
        matrix=vstack([bounds.matrix, margin], format="csr"),
        low=np.concatenate([bounds.low, target]),
        high=np.concatenate([bounds.high, target]),
        label=np.concatenate([bounds.label, np.full((len(target), 2), -1)]),
    )


def _pad(matrix: Any, columns: int) -> Any:
    from scipy.sparse import csr_array, hstack

    return hstack([matrix, csr_array((matrix.shape[0], columns))])
