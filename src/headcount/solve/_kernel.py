"""Least squares of one parent after another, compiled. Loads numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.compiled import njit
from headcount.solve._pack import FEASIBLE, pack
from headcount.solve._reduce import HIGH, LOW, MARGIN, STAND_IN, WEIGHT
from headcount.solve._ssn import IMPOSSIBLE, SOLVED, STUCK, newton, primal

SMOOTHING = (0.5, 0.1, 0.0, 5.0)
NEWTON_LIMIT = 200
PROXIMAL_LIMIT = 500  # Newton steps of all rounds together
PROXIMAL_MOVE = 1e-6


@njit(nogil=True, cache=True)
def recentre(
    nu: Floats,
    u: Floats,
    slots: Floats,
    soft: bool,
    centre: Floats,
    target: Floats,
) -> float:
    """Move the centres of the stand-in terms to the last answer; the largest move.

    A weight of 0 has no closed form, so a small one stands in, centred on the last answer:
    the proximal point method (Rockafellar 1976), whose limit is an answer to the true problem.
    """
    move = 0.0
    if soft:
        for v in range(u.size):
            change = max(u[v], 0.0) - centre[v]
            move = max(move, abs(change))
            centre[v] += change
            target[v] += change
    for s in range(slots.shape[1]):
        if slots[STAND_IN, s] > 0.0 and slots[LOW, s] < slots[HIGH, s]:
            z = slots[MARGIN, s] + nu[s] / slots[WEIGHT, s]
            z = min(max(z, slots[LOW, s]), slots[HIGH, s])
            move = max(move, abs(z - slots[MARGIN, s]))
            slots[MARGIN, s] = z
    return move


@njit(nogil=True, cache=True)
def start_centres(
    start: NDArray[np.uint64],
    total: Floats,
    give: Floats,
    target: Floats,
    slots: Floats,
    who: NDArray[np.uint32],
    where: NDArray[np.uint32],
    is_root: bool,
) -> bool:
    """The first centres of stand-in slots: the sums without any price. Whether there are any."""
    n = slots.shape[1]
    some = False
    for s in range(n):
        some = some or (slots[STAND_IN, s] > 0.0 and slots[LOW, s] < slots[HIGH, s])
    if not some:
        return False
    nu, sums, u = np.zeros(n), np.empty(n), np.empty(target.size)
    primal(
        nu,
        start,
        total,
        give,
        target,
        who,
        where,
        is_root,
        np.zeros(total.size),
        u,
        sums,
        np.empty(target.size),
    )
    for s in range(n):
        if slots[STAND_IN, s] > 0.0:
            slots[MARGIN, s] = min(max(sums[s], slots[LOW, s]), slots[HIGH, s])
    return True


@njit(nogil=True, cache=True)
def highest(
    start: NDArray[np.uint64],
    total: Floats,
    weight: Floats,
    target: Floats,
    who: NDArray[np.uint32],
    where: NDArray[np.uint32],
    slots: Floats,
) -> float:
    """More than the objective of any answer: each square at the worse end of its range."""
    bound, most, room = 0.0, np.empty(target.size), np.zeros(slots.shape[1])
    for e in range(total.size):
        for v in range(start[e], start[e + 1]):
            most[v] = total[e]
            bound += max((0.5 * weight[v] * most[v] - target[v]) * most[v], 0.0)
    for i in range(who.size):
        room[where[i]] += most[who[i]]
    for s in range(slots.shape[1]):
        low, high = max(slots[LOW, s], 0.0), min(slots[HIGH, s], room[s])
        worst = max(abs(low - slots[MARGIN, s]), abs(high - slots[MARGIN, s]))
        bound += 0.5 * slots[WEIGHT, s] * worst * worst
    return bound


@njit(nogil=True, cache=True)
def settle(
    start: NDArray[np.uint64],
    source: Ints,
    u: Floats,
    least: float,
    x: Floats,
) -> None:
    """Write max(u, 0) into x; what is below ``least`` goes to the entry's largest count."""
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


@njit(nogil=True, cache=True)
def largest_violation(
    p: int,
    cell_start: Ints,
    cell: Ints32,
    total: Ints,
    child_start: Ints,
    var_start: Ints,
    var_child: Ints32,
    family_start: Ints,
    group: Ints32,
    bounded: Flags,
    low: Ints,
    high: Ints,
    no_bound: int,
    is_root: bool,
    x: Floats,
) -> float:
    """How far parent p's part of x is from its constraints, from the batch itself."""
    worst, kids = 0.0, child_start[p]
    for e in range(cell_start[p], cell_start[p + 1]):
        sum_x = 0.0
        for v in range(var_start[e], var_start[e + 1]):
            sum_x += x[v]
            worst = max(worst, -x[v])
        if not is_root:
            worst = max(worst, abs(sum_x - total[e]))
    for f in range(bounded.size):
        if not bounded[f]:
            continue
        column = family_start[f]
        sums = np.zeros((child_start[p + 1] - kids, family_start[f + 1] - column))
        for e in range(cell_start[p], cell_start[p + 1]):
            for v in range(var_start[e], var_start[e + 1]):
                sums[var_child[v] - kids, group[f, cell[e]]] += x[v]
        for c in range(sums.shape[0]):
            for g in range(sums.shape[1]):
                if low[kids + c, column + g] > -no_bound:
                    worst = max(worst, low[kids + c, column + g] - sums[c, g])
                if high[kids + c, column + g] < no_bound:
                    worst = max(worst, sums[c, g] - high[kids + c, column + g])
    return worst


@njit(nogil=True, cache=True)
def solve_parent(
    p: int,
    cell_start: Ints,
    cell: Ints32,
    total: Ints,
    child_start: Ints,
    var_start: Ints,
    var_child: Ints32,
    answer: Floats,
    family_start: Ints,
    group: Ints32,
    ratio: Floats,
    proximal: Flags,
    bounded: Flags,
    margin: Floats,
    low: Ints,
    high: Ints,
    no_bound: int,
    is_root: bool,
    soft: bool,
    tolerance: float,
    x: Floats,
) -> tuple[int, int, int, int]:
    """Solve parent p into x; status, attempts, Newton steps, conjugate gradient steps."""
    feasible, source, start, totals, weight, target, who, where, slots = pack(
        p,
        cell_start,
        cell,
        total,
        child_start,
        var_start,
        var_child,
        answer,
        family_start,
        group,
        ratio,
        proximal,
        bounded,
        margin,
        low,
        high,
        no_bound,
        is_root,
        x,
    )
    if feasible != FEASIBLE:
        return IMPOSSIBLE, 0, 0, 0
    if source.size == 0:
        return SOLVED, 0, 0, 0
    steps, conjugate, attempt = 0, 0, 0
    u, tau, centre = np.empty(source.size), np.zeros(totals.size), np.zeros(source.size)
    # Sums of large counts are no more exact than this.
    give = 1.0 / weight
    tolerance = max(tolerance, 1e-15 * max(totals.sum(), np.abs(give * target).max()))
    if soft:
        for e in range(totals.size):
            centre[start[e] : start[e + 1]] = totals[e] / (start[e + 1] - start[e])
        target += centre - answer[source]
    for smoothing in SMOOTHING:
        attempt += 1
        nu = np.zeros(slots.shape[1])
        stand_ins = start_centres(start, totals, give, target, slots, who, where, is_root) or soft
        left = PROXIMAL_LIMIT if stand_ins else NEWTON_LIMIT
        while left > 0:
            ceiling = (
                np.inf if is_root else highest(start, totals, weight, target, who, where, slots)
            )
            ended, n, m = newton(
                nu,
                start,
                totals,
                give,
                target,
                who,
                where,
                slots,
                is_root,
                tolerance,
                smoothing,
                left,
                ceiling,
                u,
                tau,
            )
            steps, conjugate, left = steps + n, conjugate + m, left - max(n, 1)
            if ended == IMPOSSIBLE:
                return IMPOSSIBLE, attempt, steps, conjugate
            if ended == STUCK:
                break
            if not stand_ins or recentre(nu, u, slots, soft, centre, target) <= PROXIMAL_MOVE:
                settle(start, source, u, 1e-7, x)
                return SOLVED, attempt, steps, conjugate
    return STUCK, attempt, steps, conjugate


@njit(nogil=True, cache=True)
def solve_parents(
    parents: Ints,
    cell_start: Ints,
    cell: Ints32,
    total: Ints,
    child_start: Ints,
    var_start: Ints,
    var_child: Ints32,
    answer: Floats,
    family_start: Ints,
    group: Ints32,
    ratio: Floats,
    proximal: Flags,
    bounded: Flags,
    margin: Floats,
    low: Ints,
    high: Ints,
    no_bound: int,
    is_root: bool,
    soft: bool,
    tolerance: float,
    x: Floats,
    counts: Ints32,
    violation: Floats,
) -> None:
    """Solve the listed parents; counts[p] = status, attempts, Newton steps, CG steps."""
    for p in parents:
        counts[p] = solve_parent(
            p,
            cell_start,
            cell,
            total,
            child_start,
            var_start,
            var_child,
            answer,
            family_start,
            group,
            ratio,
            proximal,
            bounded,
            margin,
            low,
            high,
            no_bound,
            is_root,
            soft,
            tolerance,
            x,
        )
        violation[p] = largest_violation(
            p,
            cell_start,
            cell,
            total,
            child_start,
            var_start,
            var_child,
            family_start,
            group,
            bounded,
            low,
            high,
            no_bound,
            is_root,
            x,
        )
