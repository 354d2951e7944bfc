"""The compiled loops of least squares: a semismooth Newton method on the dual. Loads numba.

A parent's free problem, after division by the detailed weight, is

    minimise  1/2 sum_v (x_v - answer_v)^2 + sum_s r_s/2 (z_s - margin_s)^2
    over      x >= 0, sum of x over entry e = total_e,  low <= z <= high,  Q x = z

where s runs over the slots (a group of a family in one child) and Q sums variables into slots.
With a price nu_s for every row of Q x = z the minimum over x and z has a closed form:

    x_e = projection of (answer - Q'nu) onto {x >= 0, sum x = total_e}     (entry by entry)
    z_s = margin_s + nu_s / r_s, clipped to [low_s, high_s]

and the concave dual has the gradient F(nu) = Q x - z. F is piecewise linear, so Newton's method
on it ends after finitely many pieces; every iterate keeps x >= 0 and the sums by construction.
The generalised Jacobian is

    -dF = D + Q (A - sum over e of A 1_e 1_e' A / 1_e'A 1_e) Q'

with A the indicator of x > 0 and D = 1/r where z is not clipped, else 0. Entries and slots just
outside (within a few delta, which follows the residual) count in part: far fewer steps.

Li, Sun, Toh (2018), A highly efficient semismooth Newton augmented Lagrangian method;
Condat (2016), Fast projection onto the simplex.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

# Sums may be reordered to use wide registers; infinities and NaN keep their meaning.
FAST = {"reassoc", "contract", "arcp", "nsz"}


@njit(nogil=True, cache=True, fastmath=FAST, inline="never")
def gather(e: int, b: int, n: int, slot: Slots, run: Ints, values: Vector, out: Vector) -> None:
    """Set out = Q' values for the n variables of entry e, which begin at b."""
    for k in range(n):
        out[k] = 0.0
    for f in range(run.shape[0]):
        first = run[f, e]
        if first >= 0:
            for k in range(n):
                out[k] += values[first + k]
        elif first == -1:
            for k in range(n):
                out[k] += values[slot[f, b + k]]


@njit(nogil=True, cache=True, fastmath=FAST, inline="never")
def scatter(e: int, b: int, n: int, slot: Slots, run: Ints, part: Vector, out: Vector) -> None:
    """Add Q part to out for the n variables of entry e, which begin at b."""
    for f in range(run.shape[0]):
        first = run[f, e]
        if first >= 0:
            for k in range(n):
                out[first + k] += part[k]
        elif first == -1:
            for k in range(n):
                out[slot[f, b + k]] += part[k]


@njit(nogil=True, cache=True, fastmath=FAST, inline="never")
def threshold(t: Vector, n: int, total: float, tau: float) -> float:
    """The tau with sum of max(t - tau, 0) = total > 0, by Newton's method from a guess.

    The sum is convex and falls in tau, so after one step every iterate lies left of the answer
    and moves right; it stops when the active set no longer changes.
    """
    before = -1
    for _ in range(n + 3):
        above, active = 0.0, 0
        for k in range(n):
            if t[k] > tau:
                above += t[k]
                active += 1
        if active == 0:
            top = t[0]
            for k in range(n):
                top = max(top, t[k])
            tau = top - total
            before = -1
            continue
        tau = (above - total) / active
        if active == before:
            break
        before = active
    return tau


@njit(nogil=True, cache=True, fastmath=FAST, inline="never")
def primal(
    nu: Vector,
    start: Ints,
    total: Vector,
    answer: Vector,
    slot: Slots,
    run: Ints,
    is_root: bool,
    tau: Vector,
    u: Vector,
    sums: Vector,
    work: Vector,
) -> tuple[float, float]:
    """Find x = max(u, 0) for prices nu, and sums = Q x; its dual value and that value's size."""
    value, size = 0.0, 0.0
    for s in range(sums.size):
        sums[s] = 0.0
    for e in range(total.size):
        b, n = start[e], start[e + 1] - start[e]
        gather(e, b, n, slot, run, nu, work)
        for k in range(n):
            work[k] = answer[b + k] - work[k]
        if not is_root:
            tau[e] = threshold(work, n, total[e], tau[e])
        shift = tau[e]
        here = 0.0
        for k in range(n):
            t = work[k]
            u[b + k] = t - shift
            x = max(t - shift, 0.0)
            here += x * (0.5 * x - t)
            work[k] = x
        value += here
        size += abs(here)
        scatter(e, b, n, slot, run, work, sums)
    return value, size


@njit(nogil=True, cache=True, fastmath=FAST, inline="never")
def residual(nu: Vector, slots: Vector, sums: Vector, out: Vector) -> tuple[float, float, float]:
    """Set out = F = Q x - z; the slots' part of the dual value, its size, and max |F|."""
    value, size, worst = 0.0, 0.0, 0.0
    for s in range(nu.size - 1):
        r, y = slots[0, s], slots[1, s]
        z = min(max(y + nu[s] / r, slots[2, s]), slots[3, s])
        here = 0.5 * r * (z - y) * (z - y) - nu[s] * z
        value += here
        size += abs(here)
        out[s] = sums[s] - z
        worst = max(worst, abs(out[s]))
    return value, size, worst


@njit(nogil=True, cache=True, fastmath=FAST, inline="never")
def soften(
    nu: Vector,
    slots: Vector,
    start: Ints,
    u: Vector,
    slot: Slots,
    run: Ints,
    delta: float,
    is_root: bool,
    a: Vector,
    mass: Vector,
    d: Vector,
    diagonal: Vector,
    work: Vector,
) -> None:
    """The Jacobian's A, the sums of A over entries, D, and the diagonal of all together."""
    square, edge = delta * delta, -3.0 * delta
    for s in range(nu.size - 1):
        r = slots[0, s]
        free = slots[1, s] + nu[s] / r
        out = max(max(slots[2, s] - free, free - slots[3, s]), 0.0)
        d[s] = (1.0 if out == 0.0 else square / (square + 5.0 * out * out)) / r
        if out > 3.0 * delta:
            d[s] = 0.0
        diagonal[s] = d[s]
    diagonal[nu.size - 1] = 0.0
    for e in range(mass.size):
        b, n = start[e], start[e + 1] - start[e]
        here = 0.0
        for k in range(n):
            v = u[b + k]
            part = square / (square + 5.0 * v * v) if v > edge else 0.0
            a[b + k] = 1.0 if v > 0.0 else part
            here += a[b + k]
        mass[e] = 0.0 if is_root else 1.0 / here
        for k in range(n):
            work[k] = a[b + k] * (1.0 - a[b + k] * mass[e])
        scatter(e, b, n, slot, run, work, diagonal)


@njit(nogil=True, cache=True, fastmath=FAST, inline="never")
def multiply(
    v: Vector,
    start: Ints,
    slot: Slots,
    run: Ints,
    a: Vector,
    mass: Vector,
    d: Vector,
    shift: float,
    out: Vector,
    work: Vector,
) -> float:
    """Set out = (Jacobian + shift) v; returns v . out."""
    for s in range(v.size - 1):
        out[s] = (d[s] + shift) * v[s]
    for e in range(mass.size):
        b, n = start[e], start[e + 1] - start[e]
        gather(e, b, n, slot, run, v, work)
        mean = 0.0
        for k in range(n):
            mean += a[b + k] * work[k]
        mean *= mass[e]
        for k in range(n):
            work[k] = a[b + k] * (work[k] - mean)
        scatter(e, b, n, slot, run, work, out)
    dot = 0.0
    for s in range(v.size - 1):
        dot += v[s] * out[s]
    return dot


@njit(nogil=True, cache=True, fastmath=FAST, inline="never")
def direction(
    f: Vector,
    start: Ints,
    slot: Slots,
    run: Ints,
    a: Vector,
    mass: Vector,
    d: Vector,
    diagonal: Vector,
    shift: float,
    tolerance: float,
    limit: int,
    step: Vector,
    cg: NDArray[np.float64],
    work: Vector,
) -> int:
    """Solve (Jacobian + shift) step = f by conjugate gradients with the diagonal; returns steps.

    The last place of step, like that of every price vector, stands for "no slot": it stays 0.
    """
    n = f.size
    rest, along, image = cg[0], cg[1], cg[2]
    rho, goal = 0.0, 0.0
    for s in range(n):
        step[s] = 0.0
        rest[s] = f[s]
        along[s] = f[s] / (diagonal[s] + shift)
        rho += f[s] * along[s]
    step[n] = along[n] = 0.0
    goal = tolerance * tolerance * rho
    for i in range(limit):
        if rho <= goal:
            return i
        curvature = multiply(along, start, slot, run, a, mass, d, shift, image, work)
        if not curvature > 0.0:
            return i
        alpha = rho / curvature
        new = 0.0
        for s in range(n):
            step[s] += alpha * along[s]
            rest[s] -= alpha * image[s]
            new += rest[s] * rest[s] / (diagonal[s] + shift)
        beta = new / rho
        for s in range(n):
            along[s] = rest[s] / (diagonal[s] + shift) + beta * along[s]
        rho = new
    return limit


@njit(nogil=True, cache=True)
def newton(
    nu: Vector,
    start: Ints,
    total: Vector,
    answer: Vector,
    slot: Slots,
    run: Ints,
    slots: NDArray[np.float64],
    is_root: bool,
    tolerance: float,
    smoothing: float,
    limit: int,
    u: Vector,
    tau: Vector,
) -> tuple[bool, int, int, float]:
    """Maximise the dual from nu; x = max(u, 0) afterwards. Whether done, steps, CG steps, |F|."""
    n = nu.size - 1
    widest = 1
    for e in range(total.size):
        widest = max(widest, start[e + 1] - start[e])
    work, sums = np.empty(widest), np.empty(n + 1)
    f, d, diagonal = np.empty(n), np.empty(n), np.empty(n + 1)
    a, mass, cg = np.empty(u.size), np.empty(total.size), np.empty((3, n + 1))
    step, trial = np.empty(n + 1), np.empty(n + 1)

    value, size = primal(nu, start, total, answer, slot, run, is_root, tau, u, sums, work)
    more, extra, worst = residual(nu, slots, sums, f)
    value, size = value + more, size + extra
    first, delta, shift, conjugate = worst, 0.0, 1e-3, 0
    for i in range(limit):
        if worst <= tolerance:
            return True, i, conjugate, worst
        delta = smoothing * worst if worst < 1e-3 else max(smoothing * worst, 0.5 * delta)
        soften(nu, slots, start, u, slot, run, delta, is_root, a, mass, d, diagonal, work)
        relative = max(0.01, min(0.1, 10.0 * worst / (1.0 + first)))
        conjugate += direction(
            f, start, slot, run, a, mass, d, diagonal, shift, relative, 500, step, cg, work
        )
        slope = 0.0
        for s in range(n):
            slope += f[s] * step[s]
        alpha, backtracks = 1.0, 0
        while True:
            for s in range(n):
                trial[s] = nu[s] + alpha * step[s]
            trial[n] = 0.0
            new, extent = primal(
                trial, start, total, answer, slot, run, is_root, tau, u, sums, work
            )
            more, extra, worst = residual(trial, slots, sums, f)
            new, extent = new + more, extent + extra
            if new >= value + 1e-4 * alpha * slope - 1e-15 * (size + extent):
                break
            if backtracks == 30:
                break
            backtracks += 1
            after = 0.0
            for s in range(n):
                after += f[s] * step[s]
            secant = slope / (slope - after) if after < slope else 0.5
            alpha *= min(max(secant, 0.1), 0.5)
        nu[:] = trial
        value, size = new, extent
        if backtracks == 0:
            shift = max(shift * 0.1, 1e-9)
        elif backtracks >= 2:
            shift = min(shift * 8.0, 1e3)
    return worst <= tolerance, limit, conjugate, worst
