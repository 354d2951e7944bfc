"""The compiled loops of least squares: a semismooth Newton method on the dual. Loads numba.

A parent's free problem, after division by the detailed weight, is

    minimise  sum_v w_v/2 x_v^2 - b_v x_v + sum_s r_s/2 (z_s - margin_s)^2
    over      x >= 0, sum of x over entry e = total_e,  low <= z <= high,  Q x = z

where s runs over the slots (a group of a family in one child) and Q sums variables into slots.
With a price nu_s for every row of Q x = z the minimum over x and z has a closed form:

    x_v = max(b_v - (Q'nu)_v - tau_e, 0) / w_v,  with tau_e such that the entry's sum is total_e
    z_s = margin_s + nu_s / r_s, clipped to [low_s, high_s]

and the concave dual has the gradient F(nu) = Q x - z. F is piecewise linear, so Newton's method
on it ends after finitely many pieces; every iterate keeps x >= 0 and the sums by construction.
The generalised Jacobian is

    -dF = D + Q (A - sum over e of A 1_e 1_e' A / 1_e'A 1_e) Q'

with A = 1/w where x > 0, else 0, and D = 1/r where z is not clipped, else 0. Entries and slots just
outside (within a few delta, which follows the residual) count in part: far fewer steps.

Why by hand: a nation has hundreds of thousands of these problems, small and alike. A general solver
builds and factorises each one anew; here the entries' sums are kept in closed form, only prices of
slots are unknown, and a parent costs a few Newton steps. ``make bench NAME=topdown-solve`` sets it
beside PIQP and OSQP; PIQP and Clarabel stay behind it for what it cannot settle.

Li, Sun, Toh (2018), A highly efficient semismooth Newton augmented Lagrangian method;
Condat (2016), Fast projection onto the simplex.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Floats
from headcount.compiled import ZERO, njit
from headcount.topdown.solve._reduce import Slots

Starts = NDArray[np.uint64]  # unsigned, as are slots: no test for negative indices in the loops

PROJECTION_LIMIT, CONJUGATE_LIMIT = 1000, 500


class Free(NamedTuple):
    """A parent's free problem in the words of the head of this module.

    where
        source       the batch's variable behind each v
        start        entry e has the variables start[e] : start[e + 1]
        total        total_e
        weight       w_v, and ``give`` = 1 / w_v
        target       b_v
        stand_in     the part of w_v that only stands in for a weight of 0
        who, where   the pairs (variable, slot) of which Q is made
        slots        a table of the slots; see ``_reduce``
    """

    source: NDArray[np.int64]
    start: Starts
    total: Floats
    weight: Floats
    give: Floats
    target: Floats
    stand_in: Floats
    who: Slots
    where: Slots
    slots: Floats
    is_root: bool


class Jacobian(NamedTuple):
    """The generalised Jacobian without the zeros of A.

    where
        a, row, mass   a[row[i]] : a[row[i + 1]] is the i-th row of A, mass[i] one over its sum
        active         the pairs (place in a, slot)
        d, diagonal    D, and the diagonal of the whole
    """

    a: Floats
    row: Starts
    mass: Floats
    active: Slots
    d: Floats
    diagonal: Floats


@njit
def dot(a: Floats, b: Floats) -> float:
    """Sum of a b, term by term: the order in which a library adds depends on the processor."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@njit
def gather(who: Slots, where: Slots, pairs: int, values: Floats, out: Floats) -> None:
    """Add Q' values to out, Q given by its first pairs (variable, slot)."""
    for i in range(pairs):
        out[who[i]] += values[where[i]]


@njit
def scatter(who: Slots, where: Slots, pairs: int, part: Floats, out: Floats) -> None:
    """Add Q part to out, Q given by its first pairs (variable, slot)."""
    for i in range(pairs):
        out[where[i]] += part[who[i]]


@njit
def threshold(
    t: Floats, give: Floats, first: np.uint64, last: np.uint64, total: float, tau: float
) -> float:
    """The tau with sum of give * max(t - tau, 0) = total > 0 over t[first:last], from a guess.

    Newton's method: the sum is convex and falls in tau, so after one step every iterate lies left
    of the answer and moves right; it stops when the active set no longer changes, or when
    rounding would move it back.
    """
    before, floor = -1.0, -np.inf
    for _ in range(PROJECTION_LIMIT):
        above, active = 0.0, 0.0
        for k in range(first, last):
            if t[k] > tau:
                above += give[k] * t[k]
                active += give[k]
        if active == 0.0:
            top, share = t[first], give[first]
            for k in range(first, last):
                if t[k] > top:
                    top, share = t[k], give[k]
            # One ulp of a large t can be more than a small total.
            tau = min(top - total / share, np.nextafter(top, -np.inf))
            before, floor = -1.0, -np.inf
            continue
        tau = (above - total) / active
        if active == before or tau <= floor:
            break
        before, floor = active, tau
    return tau


@njit
def primal(
    nu: Floats, free: Free, tau: Floats, u: Floats, sums: Floats, work: Floats
) -> tuple[float, float]:
    """Find x = max(u, 0) for prices nu, and sums = Q x; its dual value and that value's size."""
    start, total, give, target, who, where = (
        free.start,
        free.total,
        free.give,
        free.target,
        free.who,
        free.where,
    )
    work[:] = 0.0
    gather(who, where, who.size, nu, work)
    for v in range(u.size):
        work[v] = target[v] - work[v]
    value, size = 0.0, 0.0
    for e in range(total.size):
        first, last = start[e], start[e + 1]
        if not free.is_root:
            tau[e] = threshold(work, give, first, last, total[e], tau[e])
        shift, here = tau[e], 0.0
        for v in range(first, last):
            t = work[v]
            u[v] = give[v] * (t - shift)
            x = max(u[v], 0.0)
            # w x / 2 - t, with w x = t - shift wherever x > 0
            here -= x * 0.5 * (t + shift)
            work[v] = x
        value += here
        size += abs(here)
    sums[:] = 0.0
    scatter(who, where, who.size, work, sums)
    return value, size


@njit
def residual(nu: Floats, slots: Floats, sums: Floats, out: Floats) -> tuple[float, float, float]:
    """Set out = F = Q x - z; the slots' part of the dual value, its size, and max |F|."""
    value, size, worst = 0.0, 0.0, 0.0
    weight, margin, low, high = slots[0], slots[1], slots[2], slots[3]
    for s in range(out.size):
        r, y, price = weight[s], margin[s], nu[s]
        z = min(max(y + price / r, low[s]), high[s])
        here = 0.5 * r * (z - y) * (z - y) - price * z
        value += here
        size += abs(here)
        out[s] = sums[s] - z
        worst = max(worst, abs(out[s]))
    return value, size, worst


@njit
def soften_slots(nu: Floats, slots: Floats, delta: float, jacobian: Jacobian) -> None:
    """The Jacobian's D: 1/r where z is not clipped, less where it is clipped by a few delta."""
    square = delta * delta
    weight, margin, low, high = slots[0], slots[1], slots[2], slots[3]
    d, diagonal = jacobian.d, jacobian.diagonal
    for s in range(d.size):
        free = margin[s] + nu[s] / weight[s]
        out = max(max(low[s] - free, free - high[s]), 0.0)
        part = square / (square + 5.0 * out * out) if out < 3.0 * delta else 0.0
        d[s] = (1.0 if out == 0.0 else part) / weight[s]
        diagonal[s] = d[s]


@njit
def soften_cells(
    free: Free, u: Floats, delta: float, jacobian: Jacobian, work: Floats
) -> tuple[int, int]:
    """The Jacobian's A without its zeros, row by row; how many rows and pairs are left.

    An entry with one active variable contributes nothing.
    """
    start, give, is_root = free.start, free.give, free.is_root
    a, row, mass, active = jacobian.a, jacobian.row, jacobian.mass, jacobian.active
    gone = np.uint32(0xFFFFFFFF)
    place = np.empty(u.size, np.uint32)
    square, edge = delta * delta, -3.0 * delta
    rows, kept = 0, np.uint64(0)
    one = np.uint64(1)
    for e in range(start.size - 1):
        begin, sum_a = kept, 0.0
        for v in range(start[e], start[e + 1]):
            here = u[v]
            if here > 0.0:
                a[kept] = give[v]
            elif here > edge:
                a[kept] = give[v] * square / (square + 5.0 * here * here)
            else:
                place[v] = gone
                continue
            sum_a += a[kept]
            place[v] = kept
            kept += one
        if kept <= begin + one and not is_root:
            place[start[e] : start[e + 1]] = gone
            kept = begin
            continue
        row[rows] = begin
        mass[rows] = 0.0 if is_root else 1.0 / sum_a
        for j in range(begin, kept):
            work[j] = a[j] * (1.0 - a[j] * mass[rows])
        rows += 1
    row[rows] = kept
    pairs = ZERO
    for i in range(free.who.size):
        j = place[free.who[i]]
        if j != gone:
            active[0, pairs], active[1, pairs] = j, free.where[i]
            pairs += 1
    scatter(active[0], active[1], pairs, work, jacobian.diagonal)
    return rows, pairs


@njit
def multiply(
    v: Floats,
    jacobian: Jacobian,
    rows: int,
    pairs: int,
    shift: float,
    out: Floats,
    work: Floats,
) -> float:
    """Set out = (Jacobian + shift) v; returns v . out."""
    a, row, mass, active, d, _ = jacobian
    for s in range(d.size):
        out[s] = (d[s] + shift) * v[s]
    work[: row[rows]] = 0.0
    gather(active[0], active[1], pairs, v, work)
    for e in range(rows):
        mean = 0.0
        for j in range(row[e], row[e + 1]):
            mean += a[j] * work[j]
        mean *= mass[e]
        for j in range(row[e], row[e + 1]):
            work[j] = a[j] * (work[j] - mean)
    scatter(active[0], active[1], pairs, work, out)
    return dot(v, out)


@njit
def direction(
    f: Floats,
    jacobian: Jacobian,
    rows: int,
    pairs: int,
    shift: float,
    tolerance: float,
    step: Floats,
    cg: Floats,
    work: Floats,
) -> int:
    """Solve (Jacobian + shift) step = f by conjugate gradients with the diagonal; returns steps."""
    n = f.size
    rest, along, image, inverse = cg[0], cg[1], cg[2], cg[3]
    rho = 0.0
    for s in range(n):
        step[s] = 0.0
        rest[s] = f[s]
        inverse[s] = 1.0 / (jacobian.diagonal[s] + shift)
        along[s] = f[s] * inverse[s]
        rho += f[s] * along[s]
    goal = tolerance * tolerance * rho
    for i in range(CONJUGATE_LIMIT):
        if rho <= goal:
            return i
        curvature = multiply(along, jacobian, rows, pairs, shift, image, work)
        if not curvature > 0.0:
            return i
        alpha = rho / curvature
        new = 0.0
        for s in range(n):
            step[s] += alpha * along[s]
            rest[s] -= alpha * image[s]
            new += rest[s] * rest[s] * inverse[s]
        beta = new / rho
        for s in range(n):
            along[s] = rest[s] * inverse[s] + beta * along[s]
        rho = new
    return CONJUGATE_LIMIT
