"""Least squares of one parent after another, compiled."""

from __future__ import annotations

import numpy as np

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
from headcount.topdown.solve.batch import NO_BOUND, BatchArrays

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
