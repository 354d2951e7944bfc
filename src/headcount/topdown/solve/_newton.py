"""The compiled loops of least squares: a semismooth Newton method on the dual.

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

Newton's steps are solved by conjugate gradients. Where answers are held in bands around those of an
earlier pass, two things make the diagonal alone a poor preconditioner (J the Jacobian):

    the same price more on all bands   moves no count: J Z = D Z for Z = 1 on bands, 0 elsewhere,
                                       and D is 0 at their edges
    a band and its parts               slots of a heavy query inside it are nearly fixed, so that
                                       the price of the band repeats theirs

Both have a closed form: the preconditioner solves each band with its parts (an arrow matrix) and
adds Z (Z'JZ)^-1 Z'. Near the answer a quarter of the steps is left.

Why by hand: a nation has hundreds of thousands of these problems, small and alike. A general solver
builds and factorises each one anew; here the entries' sums are kept in closed form, only prices of
slots are unknown, and a parent costs a few Newton steps. ``make bench NAME=topdown-solve`` sets it
beside PIQP and OSQP; PIQP and Clarabel stay behind it for what it cannot settle.

Li, Sun, Toh (2018), A highly efficient semismooth Newton augmented Lagrangian method;
Condat (2016), Fast projection onto the simplex; Saad (2003), Iterative methods for sparse linear
systems, sections 9.2 and 14.2; Nicolaides (1987), Deflation of conjugate gradients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.compiled import ZERO, njit
from headcount.topdown.solve._pack import HIGH, LOW, WEIGHT, Free, Slots, Starts

SOLVED, STUCK, IMPOSSIBLE = 0, 1, 2
# The most that delta falls in a step, and how loosely the first steps are solved. With better
# guided conjugate gradients, where answers are held, both can be less.
NOT_HELD, HELD = (0.5, 0.3), (0.25, 0.2)
PROJECTION_LIMIT, CONJUGATE_LIMIT = 1000, 500
LEAST_EVEN = 1e-6
"""Z'JZ counts as no less than this part of the bands' diagonal: else steps have any length."""


class _Jacobian(NamedTuple):
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


class _Held(NamedTuple):
    """The slots with a band, and slots that are parts of one.

    where
        bands       the slots with a band
        part, of    slots that lie in a band, no two of which share a variable, and their bands
    """

    bands: Ints
    part: Ints
    of: Ints


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
def soften_slots(nu: Floats, slots: Floats, delta: float, jacobian: _Jacobian) -> None:
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
    free: Free, u: Floats, delta: float, jacobian: _Jacobian, work: Floats
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
    jacobian: _Jacobian,
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
def in_band(slots: Floats, s: int) -> bool:
    """Whether a slot has a band: bounds are whole persons apart, and only a band is narrower."""
    return bool(0.0 < slots[HIGH, s] - slots[LOW, s] < 1.0)


@njit
def held_slots(free: Free) -> _Held:
    """The bands, and as their parts the slots of the query with the most weight."""
    slots, who, where = free.slots, free.who, free.where
    n = slots.shape[1]
    banded = np.zeros(n, np.bool_)
    for s in range(n):
        banded[s] = in_band(slots, s)
    bands = np.flatnonzero(banded)
    if bands.size == 0:
        return _Held(bands, bands, bands)
    band = np.full(free.target.size, -1)
    for i in range(who.size):
        if banded[where[i]]:
            band[who[i]] = where[i]
    holder, most, first = np.full(n, -1), 0.0, 0
    while first < who.size:
        holders, weight, last = np.full(n, -1), 0.0, first
        # A query's pairs go by variable, and those of the next one begin anew.
        while last < who.size and (last == first or who[last] > who[last - 1]):
            s, t = where[last], band[who[last]]
            if not banded[s]:
                holders[s] = t if holders[s] == -1 or holders[s] == t else -2
                weight += slots[WEIGHT, s]
            last += 1
        if weight > most:
            holder, most = holders, weight
        first = last
    part = np.flatnonzero(holder >= 0)
    return _Held(bands, part, holder[part])


@njit
def pivots(held: _Held, jacobian: _Jacobian, shift: float, out: Floats) -> None:
    """One over the diagonal; of a band, one over what is left of it when its parts are solved.

    With a the diagonal without D, that is d + (a - the a of its parts) + sum of a d / (a + d) over
    its parts.
    """
    d, diagonal = jacobian.d, jacobian.diagonal
    for s in range(d.size):
        out[s] = diagonal[s] + shift
    for k in range(held.part.size):
        s = held.part[k]
        out[held.of[k]] -= diagonal[s] - d[s]
    for s in held.bands:
        out[s] = max(out[s], d[s] + shift)
    for k in range(held.part.size):
        s = held.part[k]
        out[held.of[k]] += (diagonal[s] - d[s]) * (d[s] + shift) / (diagonal[s] + shift)
    for s in range(d.size):
        out[s] = 1.0 / out[s]


@njit
def even_prices(
    held: _Held,
    jacobian: _Jacobian,
    rows: int,
    pairs: int,
    shift: float,
    cg: Floats,
    work: Floats,
) -> Floats:
    """Z on the bands, over the root of Z'JZ: 1 at edges, less where D holds a price near 0."""
    if held.bands.size == 0:
        return np.empty(0)
    image, along, inverse = cg[2], cg[1], cg[3]
    along[:] = 0.0
    total = 0.0
    for s in held.bands:
        along[s] = 1.0 - jacobian.d[s] * inverse[s]
        total += jacobian.diagonal[s] + shift
    size = multiply(along, jacobian, rows, pairs, shift, image, work)
    even: Floats = along[held.bands] / np.sqrt(max(size, LEAST_EVEN * total))
    return even


@njit
def precondition(
    rest: Floats, held: _Held, jacobian: _Jacobian, inverse: Floats, even: Floats, out: Floats
) -> float:
    """Set out to the guess for J^-1 rest, by the diagonal if there are no bands; rest . out."""
    d, diagonal = jacobian.d, jacobian.diagonal
    bands, part, of = held
    for s in range(d.size):
        out[s] = rest[s] * inverse[s]
    common = 0.0
    for k in range(bands.size):
        s = bands[k]
        common += even[k] * rest[s]
        out[s] = rest[s]
    for k in range(part.size):
        s = part[k]
        out[of[k]] -= (diagonal[s] - d[s]) * out[s]
    for s in bands:
        out[s] *= inverse[s]
    for k in range(part.size):
        s = part[k]
        out[s] -= (diagonal[s] - d[s]) * inverse[s] * out[of[k]]
    for k in range(bands.size):
        out[bands[k]] += common * even[k]
    return dot(rest, out)


@njit
def direction(
    f: Floats,
    held: _Held,
    jacobian: _Jacobian,
    rows: int,
    pairs: int,
    shift: float,
    tolerance: float,
    step: Floats,
    cg: Floats,
    work: Floats,
) -> int:
    """Solve (Jacobian + shift) step = f by conjugate gradients; returns how many steps it took."""
    rest, along, image, inverse = cg[0], cg[1], cg[2], cg[3]
    pivots(held, jacobian, shift, inverse)
    even = even_prices(held, jacobian, rows, pairs, shift, cg, work)
    for s in range(f.size):
        step[s], rest[s] = 0.0, f[s]
    rho = precondition(rest, held, jacobian, inverse, even, along)
    goal = tolerance * tolerance * rho
    for i in range(CONJUGATE_LIMIT):
        if rho <= goal:
            return i
        curvature = multiply(along, jacobian, rows, pairs, shift, image, work)
        if not curvature > 0.0:
            return i
        alpha = rho / curvature
        for s in range(f.size):
            step[s] += alpha * along[s]
            rest[s] -= alpha * image[s]
        new = precondition(rest, held, jacobian, inverse, even, image)
        if held.bands.size == 0:
            # The same sum, but each term is rounded as it always was: releases have its last bits.
            new = 0.0
            for s in range(f.size):
                new += rest[s] * rest[s] * inverse[s]
        beta = new / rho
        for s in range(f.size):
            along[s] = image[s] + beta * along[s]
        rho = new
    return CONJUGATE_LIMIT


@njit
def newton(
    nu: Floats,
    free: Free,
    held: _Held,
    tolerance: float,
    smoothing: float,
    limit: int,
    ceiling: float,
    u: Floats,
    tau: Floats,
) -> tuple[int, int, int]:
    """Maximise the dual from nu; x = max(u, 0) afterwards. How it ended, steps, CG steps.

    A dual value is below that of every feasible answer. So one above ``ceiling``, which no answer
    can exceed, proves that there is none.
    """
    n = nu.size
    work, sums, f = np.empty(u.size), np.empty(n), np.empty(n)
    step, trial, cg = np.empty(n), np.empty(n), np.empty((4, n))
    jacobian = _Jacobian(
        np.empty(u.size),
        np.empty(free.start.size, np.uint64),
        np.empty(free.total.size),
        np.empty((2, free.who.size), np.uint32),
        np.empty(n),
        np.empty(n),
    )
    value, size = primal(nu, free, tau, u, sums, work)
    more, extra, worst = residual(nu, free.slots, sums, f)
    value, size = value + more, size + extra
    first, delta, shift, conjugate = worst, 0.0, 1e-3, 0
    fall, loosest = HELD if held.bands.size > 0 else NOT_HELD
    for i in range(limit):
        if worst <= tolerance:
            return SOLVED, i, conjugate
        if value - 1e-9 * size > ceiling:
            return IMPOSSIBLE, i, conjugate
        if not np.isfinite(worst):
            return STUCK, i, conjugate
        delta = smoothing * worst if worst < 1e-3 else max(smoothing * worst, fall * delta)
        soften_slots(nu, free.slots, delta, jacobian)
        rows, pairs = soften_cells(free, u, delta, jacobian, work)
        relative = max(0.03, min(loosest, 10.0 * worst / (1.0 + first)))
        conjugate += direction(f, held, jacobian, rows, pairs, shift, relative, step, cg, work)
        slope = dot(f, step)
        alpha, backtracks = 1.0, 0
        while True:
            for s in range(n):
                trial[s] = nu[s] + alpha * step[s]
            new, extent = primal(trial, free, tau, u, sums, work)
            more, extra, worst = residual(trial, free.slots, sums, f)
            new, extent = new + more, extent + extra
            enough = value + 1e-4 * alpha * slope - 1e-15 * (size + extent)
            if new >= enough or backtracks == 30:
                break
            backtracks += 1
            after = dot(f, step)
            secant = slope / (slope - after) if after < slope else 0.5
            alpha *= min(max(secant, 0.1), 0.5)
        for s in range(n):
            nu[s] = trial[s]
        value, size = new, extent
        if backtracks == 0:
            shift = max(shift * 0.1, 1e-9)
        elif backtracks >= 2:
            shift = min(shift * 8.0, 1e3)
    return SOLVED if worst <= tolerance else STUCK, limit, conjugate
