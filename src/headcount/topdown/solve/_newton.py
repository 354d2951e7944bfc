"""Newton's method on the dual of least squares, with a line search; see ``_ssn``. Loads numba."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Floats
from headcount.compiled import njit
from headcount.topdown.solve._held import Held, held_direction
from headcount.topdown.solve._ssn import (
    Free,
    Jacobian,
    direction,
    dot,
    primal,
    residual,
    soften_cells,
    soften_slots,
)

SOLVED, STUCK, IMPOSSIBLE = 0, 1, 2
# The most that delta falls in a step, and how loosely the first steps are solved. With better
# guided conjugate gradients, where answers are held, both can be less.
NOT_HELD, HELD = (0.5, 0.3), (0.25, 0.2)


@njit
def newton(
    nu: Floats,
    free: Free,
    held: Held,
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
    jacobian = Jacobian(
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
        if held.bands.size > 0:
            conjugate += held_direction(
                f, held, jacobian, rows, pairs, shift, relative, step, cg, work
            )
        else:
            conjugate += direction(f, jacobian, rows, pairs, shift, relative, step, cg, work)
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
