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

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.compiled import inlined, kernel, njit
from headcount.topdown.solve._newton import (
    IMPOSSIBLE,
    SOLVED,
    STUCK,
    held_slots,
    in_band,
    newton,
    primal,
)
from headcount.topdown.solve._pack import (
    FEASIBLE,
    HIGH,
    LOW,
    MARGIN,
    PROXIMAL_FAMILY,
    STAND_IN,
    WEIGHT,
    Free,
    pack,
)
from headcount.topdown.solve.batch import NO_BOUND, Batch, BatchArrays, map_parents, violation


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


SMOOTHING = (0.5, 0.1, 0.0, 5.0)
NEWTON_LIMIT = 200
PROXIMAL_LIMIT = 500  # Newton steps of all rounds together
PROXIMAL_MOVE = 1e-6
# Most answers in a band around an earlier one end at its edge, where a large weight finds them in
# few steps; for what is left inside it falls from round to round, and the tolerance is squared.
BAND_WEIGHT, BAND_FALL, BAND_LOOSE = 1.0, 0.1, 0.1
# The rows of a table of bands: a slot's own weight and answer (0 where it has none), and the weight
# that pulls it, 0 for a slot that is not pulled, towards a centre.
OWN_WEIGHT, OWN_ANSWER, PULL, CENTRE = 0, 1, 2, 3


@njit
def _recentre(
    nu: Floats, u: Floats, free: Free, soft: bool, centre: Floats, bands: Floats
) -> float:
    """Move the centres of the stand-in terms to the last answer; the largest move.

    A weight of 0 has no closed form, so a small one stands in, centred on the last answer:
    the proximal point method (Rockafellar 1976), whose limit is an answer to the true problem.
    """
    move = 0.0
    if soft:
        for v in range(u.size):
            if free.stand_in[v] > 0.0:
                change = max(u[v], 0.0) - centre[v]
                move = max(move, abs(change))
                centre[v] += change
                free.target[v] += free.stand_in[v] * change
    slots = free.slots
    for s in range(slots.shape[1]):
        pulled = bands[PULL, s] > 0.0
        if pulled or (slots[STAND_IN, s] > 0.0 and slots[LOW, s] < slots[HIGH, s]):
            z = slots[MARGIN, s] + nu[s] / slots[WEIGHT, s]
            z = min(max(z, slots[LOW, s]), slots[HIGH, s])
            move = max(move, abs(z - (bands[CENTRE, s] if pulled else slots[MARGIN, s])))
            slots[MARGIN, s] = z
            if pulled:
                pull(slots, bands, s, z, max(BAND_FALL * bands[PULL, s], PROXIMAL_FAMILY))
    return move


@njit
def pull(slots: Floats, bands: Floats, s: int, centre: float, weight: float) -> None:
    """Pull a slot towards a centre: r (z - y)^2 + w (z - c)^2 is one square and a constant."""
    bands[PULL, s], bands[CENTRE, s] = weight, centre
    both = bands[OWN_WEIGHT, s] + weight
    own = bands[OWN_WEIGHT, s] * bands[OWN_ANSWER, s]
    slots[WEIGHT, s], slots[MARGIN, s] = both, (own + weight * centre) / both


@njit
def level_prices(nu: Floats, slots: Floats, bands: Floats) -> None:
    """Take from all prices in bands what those inside have too much, in the mean.

    Bands are around all groups of a family, and the sums of entries are given, so that the same
    price more on each of them changes no count. Inside a band the price ends at r (z - y), with
    r the slot's own weight and y its answer, which is 0 for most: this is nearer. It is for what
    ``_recentre`` has just moved; a large weight of its own holds the price of a slot where it is.
    """
    total, many = 0.0, 0
    for s in range(slots.shape[1]):
        if not in_band(slots, s):
            continue
        z = bands[CENTRE, s]
        if bands[PULL, s] == 0.0:
            z = slots[MARGIN, s] + nu[s] / slots[WEIGHT, s]
        if slots[LOW, s] < z < slots[HIGH, s]:
            if bands[PULL, s] == 0.0:
                return
            total += nu[s] - bands[OWN_WEIGHT, s] * (z - bands[OWN_ANSWER, s])
            many += 1
    for s in range(slots.shape[1]):
        if many > 0 and in_band(slots, s):
            nu[s] -= total / many


@njit
def own_answers(slots: Floats) -> Floats:
    """A table of bands with the weights and answers that slots have of their own."""
    bands = np.zeros((4, slots.shape[1]))
    for s in range(slots.shape[1]):
        if slots[STAND_IN, s] == 0.0:
            bands[OWN_WEIGHT, s], bands[OWN_ANSWER, s] = slots[WEIGHT, s], slots[MARGIN, s]
    return bands


@njit
def start_bands(slots: Floats, bands: Floats) -> bool:
    """Pull answers in a band that have no large weight of their own; whether there are any."""
    found = False
    for s in range(slots.shape[1]):
        if in_band(slots, s) and bands[OWN_WEIGHT, s] < BAND_WEIGHT:
            c = slots[MARGIN, s] if slots[STAND_IN, s] > 0.0 else bands[OWN_ANSWER, s]
            pull(slots, bands, s, min(max(c, slots[LOW, s]), slots[HIGH, s]), BAND_WEIGHT)
            found = True
    return found


@njit
def start_centres(free: Free) -> bool:
    """The first centres of stand-in slots: the sums without any price. Whether there are any."""
    slots = free.slots
    n = slots.shape[1]
    some = False
    for s in range(n):
        some = some or (slots[STAND_IN, s] > 0.0 and slots[LOW, s] < slots[HIGH, s])
    if not some:
        return False
    v = free.target.size
    sums = np.empty(n)
    primal(np.zeros(n), free, np.zeros(free.total.size), np.empty(v), sums, np.empty(v))
    for s in range(n):
        if slots[STAND_IN, s] > 0.0:
            slots[MARGIN, s] = min(max(sums[s], slots[LOW, s]), slots[HIGH, s])
    return True


@njit
def highest(free: Free) -> float:
    """More than the objective of any answer: each square at the worse end of its range."""
    weight, target, slots, start = free.weight, free.target, free.slots, free.start
    bound, most, capacity = 0.0, np.empty(target.size), np.zeros(slots.shape[1])
    for e in range(free.total.size):
        for v in range(start[e], start[e + 1]):
            most[v] = free.total[e]
            bound += max((0.5 * weight[v] * most[v] - target[v]) * most[v], 0.0)
    for i in range(free.who.size):
        capacity[free.where[i]] += most[free.who[i]]
    for s in range(slots.shape[1]):
        low, high = max(slots[LOW, s], 0.0), min(slots[HIGH, s], capacity[s])
        worst = max(abs(low - slots[MARGIN, s]), abs(high - slots[MARGIN, s]))
        bound += 0.5 * slots[WEIGHT, s] * worst * worst
    return bound


@njit
def settle(free: Free, u: Floats, least: float, x: Floats) -> None:
    """Write max(u, 0) into x; what is below ``least`` goes to the entry's largest count."""
    start, source = free.start, free.source
    for e in range(start.size - 1):
        lost, top = 0.0, start[e]
        for v in range(start[e], start[e + 1]):
            here = max(u[v], 0.0)
            if here < least:
                lost += here
                here = 0.0
            x[source[v]] = here
            if u[v] > u[top]:
                top = v
        if x[source[top]] > 0.0:
            x[source[top]] += lost


@njit
def _largest_violation(p: int, b: BatchArrays, bounded: Flags, x: Floats) -> float:
    """How far parent p's part of x is from its constraints, from the batch itself."""
    worst, kids = 0.0, b.child_start[p]
    for e in range(b.cell_start[p], b.cell_start[p + 1]):
        sum_x = 0.0
        for v in range(b.var_start[e], b.var_start[e + 1]):
            sum_x += x[v]
            worst = max(worst, -x[v])
        if not b.is_root:
            worst = max(worst, abs(sum_x - b.total[e]))
    for f in range(bounded.size):
        if not bounded[f]:
            continue
        column = b.bound_start[f]
        sums = np.zeros((b.child_start[p + 1] - kids, b.bound_start[f + 1] - column))
        for e in range(b.cell_start[p], b.cell_start[p + 1]):
            for v in range(b.var_start[e], b.var_start[e + 1]):
                sums[b.var_child[v] - kids, b.group[f, b.cell[e]]] += x[v]
        for c in range(sums.shape[0]):
            for g in range(sums.shape[1]):
                low, high = b.low[kids + c, column + g], b.high[kids + c, column + g]
                if low > -NO_BOUND:
                    worst = max(worst, low - sums[c, g])
                if high < NO_BOUND:
                    worst = max(worst, sums[c, g] - high)
    if b.joint.size > 0:
        people = np.zeros(b.joint_total.size)
        for e in range(b.cell_start[p], b.cell_start[p + 1]):
            for v in range(b.var_start[e], b.var_start[e + 1]):
                j = b.joint[b.var_child[v]]
                if j >= 0:
                    people[j] += x[v]
        for c in range(kids, b.child_start[p + 1]):
            j = b.joint[c]
            if j >= 0:
                worst = max(worst, abs(people[j] - b.joint_total[j]))
    return worst


@inlined
def _solve_parent(
    p: int, b: BatchArrays, bounded: Flags, tolerance: float, begin: Floats, x: Floats
) -> tuple[int, int, int, int]:
    """Solve parent p into x; status, attempts, Newton steps, conjugate gradient steps.

    ``begin`` is where detail that is not measured begins; without any, at even shares.
    """
    feasible, free = pack(p, b, bounded, x)
    source, start, totals = free.source, free.start, free.total
    if feasible != FEASIBLE:
        return IMPOSSIBLE, 0, 0, 0
    if source.size == 0:
        return SOLVED, 0, 0, 0
    steps, conjugate, attempt = 0, 0, 0
    u, tau, centre = np.empty(source.size), np.zeros(totals.size), np.zeros(source.size)
    # Sums of large counts are no more exact than this.
    tolerance = max(tolerance, 1e-15 * max(totals.sum(), np.abs(free.give * free.target).max()))
    soft = free.stand_in.max() > 0.0
    if soft:
        for e in range(totals.size):
            centre[start[e] : start[e + 1]] = totals[e] / (start[e + 1] - start[e])
        for v in range(source.size):
            if begin.size > 0:
                centre[v] = begin[source[v]]
            free.target[v] += free.stand_in[v] * centre[v]
    bands, held = own_answers(free.slots), held_slots(free)
    for smoothing in SMOOTHING:
        attempt += 1
        nu = np.zeros(free.slots.shape[1])
        stand_ins = start_centres(free) or soft
        banded = start_bands(free.slots, bands)
        stand_ins = stand_ins or banded
        left = PROXIMAL_LIMIT if stand_ins else NEWTON_LIMIT
        loose = BAND_LOOSE if banded else 0.0
        while left > 0:
            ceiling = np.inf if b.is_root else highest(free)
            ended, n, m = newton(
                nu, free, held, max(tolerance, loose), smoothing, left, ceiling, u, tau
            )
            steps, conjugate, left = steps + n, conjugate + m, left - max(n, 1)
            if ended == IMPOSSIBLE:
                return IMPOSSIBLE, attempt, steps, conjugate
            if ended == STUCK:
                break
            near = not stand_ins or _recentre(nu, u, free, soft, centre, bands) <= PROXIMAL_MOVE
            near, loose = near and loose <= tolerance, loose * loose
            if near:
                settle(free, u, 1e-7, x)
                return SOLVED, attempt, steps, conjugate
            if banded and not b.is_root:
                level_prices(nu, free.slots, bands)
    return STUCK, attempt, steps, conjugate


@kernel(work=lambda parents, b, *_: 250 * b.variables(parents))
def solve_parents(
    parents: Ints,
    b: BatchArrays,
    bounded: Flags,
    tolerance: float,
    begin: Floats,
    x: Floats,
    counts: Ints32,
    violation: Floats,
) -> None:
    """Solve the listed parents; counts[p] = status, attempts, Newton steps, CG steps."""
    for p in parents:
        ended, attempts, steps, conjugate = _solve_parent(p, b, bounded, tolerance, begin, x)
        counts[p, 0], counts[p, 1], counts[p, 2], counts[p, 3] = ended, attempts, steps, conjugate
        violation[p] = _largest_violation(p, b, bounded, x)
