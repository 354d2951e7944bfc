"""Least squares of one parent after another, compiled. Loads numba."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from headcount.solve.pack import FEASIBLE, pack
from headcount.solve.ssn import newton, primal

SOLVED, STUCK, IMPOSSIBLE = 0, 1, 2
SMOOTHING = (0.5, 0.1, 0.0, 5.0)
NEWTON_LIMIT = 200
PROXIMAL_LIMIT = 50
PROXIMAL_MOVE = 1e-6


@njit(nogil=True, cache=True)
def recentre(
    nu: NDArray[np.float64],
    u: NDArray[np.float64],
    slots: NDArray[np.float64],
    slot: NDArray[np.int32],
    proximal: NDArray[np.bool_],
    soft: bool,
    answer: NDArray[np.float64],
) -> float:
    """Move the centres of the proximal terms to the last answer; the largest move.

    A weight of 0 has no closed form, so a small one stands in, centred on the last answer:
    the proximal point method (Rockafellar 1976), whose limit is an answer to the true problem.
    """
    move = 0.0
    if soft:
        for v in range(u.size):
            x = max(u[v], 0.0)
            move = max(move, abs(x - answer[v]))
            answer[v] = x
    for f in range(proximal.size):
        if not proximal[f]:
            continue
        for v in range(u.size):
            s = slot[f, v]
            if s < nu.size - 1 and slots[2, s] < slots[3, s]:
                z = min(max(slots[1, s] + nu[s] / slots[0, s], slots[2, s]), slots[3, s])
                move = max(move, abs(z - slots[1, s]))
                slots[1, s] = z
    return move


@njit(nogil=True, cache=True)
def start_centres(
    start: NDArray[np.int64],
    total: NDArray[np.float64],
    slots: NDArray[np.float64],
    slot: NDArray[np.int32],
    run: NDArray[np.int64],
    proximal: NDArray[np.bool_],
    soft: bool,
    is_root: bool,
    answer: NDArray[np.float64],
) -> bool:
    """The first centres: an even share for each variable, its sums for the groups.

    Returns whether there is any centre at all.
    """
    if soft:
        for e in range(total.size):
            for v in range(start[e], start[e + 1]):
                answer[v] = total[e] / (start[e + 1] - start[e])
    if not proximal.any():
        return soft
    n = slots.shape[1]
    nu, sums, u = np.zeros(n + 1), np.empty(n + 1), np.empty(answer.size)
    primal(
        nu, start, total, answer, slot, run, is_root, np.zeros(total.size), u, sums,
        np.empty(answer.size),
    )  # fmt: skip
    some = soft
    for f in range(proximal.size):
        for v in range(answer.size):
            s = slot[f, v]
            if proximal[f] and s < n and slots[2, s] < slots[3, s]:
                slots[1, s] = min(max(sums[s], slots[2, s]), slots[3, s])
                some = True
    return some


@njit(nogil=True, cache=True)
def settle(
    start: NDArray[np.int64],
    source: NDArray[np.int64],
    u: NDArray[np.float64],
    least: float,
    x: NDArray[np.float64],
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
def solve_parent(
    p: int,
    cell_start: NDArray[np.int64],
    cell: NDArray[np.int32],
    total: NDArray[np.int64],
    child_start: NDArray[np.int64],
    var_start: NDArray[np.int64],
    var_child: NDArray[np.int32],
    answer: NDArray[np.float64],
    family_start: NDArray[np.int64],
    group: NDArray[np.int32],
    ratio: NDArray[np.float64],
    proximal: NDArray[np.bool_],
    bounded: NDArray[np.bool_],
    margin: NDArray[np.float64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    no_bound: int,
    is_root: bool,
    soft: bool,
    tolerance: float,
    x: NDArray[np.float64],
) -> tuple[int, int, int, int]:
    """Solve parent p into x; status, attempts, Newton steps, conjugate gradient steps."""
    feasible, source, start, totals, y, slot, run, slots = pack(
        p, cell_start, cell, total, child_start, var_start, var_child, answer, family_start, group,
        ratio, proximal, bounded, margin, low, high, no_bound, is_root, x,
    )  # fmt: skip
    if feasible != FEASIBLE:
        return IMPOSSIBLE, 0, 0, 0
    if source.size == 0:
        return SOLVED, 0, 0, 0
    steps, conjugate, attempt = 0, 0, 0
    u, tau = np.empty(source.size), np.zeros(totals.size)
    # Sums of large counts are no more exact than this.
    tolerance = max(tolerance, 1e-15 * max(totals.sum(), np.abs(y).max()))
    for smoothing in SMOOTHING:
        attempt += 1
        nu = np.zeros(slots.shape[1] + 1)
        rounds = PROXIMAL_LIMIT
        if not start_centres(start, totals, slots, slot, run, proximal, soft, is_root, y):
            rounds = 1
        for _round in range(rounds):
            done, n, m, _ = newton(
                nu, start, totals, y, slot, run, slots, is_root, tolerance, smoothing,
                NEWTON_LIMIT, u, tau,
            )  # fmt: skip
            steps, conjugate = steps + n, conjugate + m
            if not done:
                break
            if rounds > 1:
                done = recentre(nu, u, slots, slot, proximal, soft, y) <= PROXIMAL_MOVE
            if done:
                settle(start, source, u, 1e-7, x)
                return SOLVED, attempt, steps, conjugate
    return STUCK, attempt, steps, conjugate


@njit(nogil=True, cache=True)
def solve_parents(
    parents: NDArray[np.int64],
    cell_start: NDArray[np.int64],
    cell: NDArray[np.int32],
    total: NDArray[np.int64],
    child_start: NDArray[np.int64],
    var_start: NDArray[np.int64],
    var_child: NDArray[np.int32],
    answer: NDArray[np.float64],
    family_start: NDArray[np.int64],
    group: NDArray[np.int32],
    ratio: NDArray[np.float64],
    proximal: NDArray[np.bool_],
    bounded: NDArray[np.bool_],
    margin: NDArray[np.float64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    no_bound: int,
    is_root: bool,
    soft: bool,
    tolerance: float,
    x: NDArray[np.float64],
    counts: NDArray[np.int32],
) -> None:
    """Solve the listed parents; counts[p] = status, attempts, Newton steps, CG steps."""
    for p in parents:
        counts[p] = solve_parent(
            p, cell_start, cell, total, child_start, var_start, var_child, answer, family_start,
            group, ratio, proximal, bounded, margin, low, high, no_bound, is_root, soft, tolerance,
            x,
        )  # fmt: skip
