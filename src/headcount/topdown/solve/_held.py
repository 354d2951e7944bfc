"""Conjugate gradients of least squares where answers are held in bands. Loads numba.

Where totals are held, two things make the diagonal alone a poor guide (J, D as in ``_ssn``):

    the same price more on all bands   moves no count: J Z = D Z for Z = 1 on bands, 0 elsewhere,
                                       and D is 0 at their edges
    a band and its parts               slots of a heavy query inside it are nearly fixed, so that
                                       the price of the band repeats theirs

Both have a closed form: the preconditioner solves each band with its parts (an arrow matrix) and
adds Z (Z'JZ)^-1 Z'. Near the answer a quarter of the steps is left.

Saad (2003), Iterative methods for sparse linear systems, sections 9.2 and 14.2; Nicolaides (1987),
Deflation of conjugate gradients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.compiled import njit
from headcount.topdown.solve._reduce import HIGH, LOW, WEIGHT
from headcount.topdown.solve._ssn import CONJUGATE_LIMIT, Free, Jacobian, dot, multiply

LEAST_EVEN = 1e-6
"""Z'JZ counts as no less than this part of the bands' diagonal: else steps have any length."""


class Held(NamedTuple):
    """The slots with a band, and slots that are parts of one.

    where
        bands       the slots with a band
        part, of    slots that lie in a band, no two of which share a variable, and their bands
    """

    bands: Ints
    part: Ints
    of: Ints


@njit
def in_band(slots: Floats, s: int) -> bool:
    """Whether a slot has a band: bounds are whole persons apart, and only a band is narrower."""
    return bool(0.0 < slots[HIGH, s] - slots[LOW, s] < 1.0)


@njit
def held_slots(free: Free) -> Held:
    """The bands, and as their parts the slots of the query with the most weight."""
    slots, who, where = free.slots, free.who, free.where
    n = slots.shape[1]
    banded = np.zeros(n, np.bool_)
    for s in range(n):
        banded[s] = in_band(slots, s)
    bands = np.flatnonzero(banded)
    if bands.size == 0:
        return Held(bands, bands, bands)
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
    return Held(bands, part, holder[part])


@njit
def pivots(held: Held, jacobian: Jacobian, shift: float, out: Floats) -> None:
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
    held: Held,
    jacobian: Jacobian,
    rows: int,
    pairs: int,
    shift: float,
    cg: Floats,
    work: Floats,
) -> Floats:
    """Z on the bands, over the root of Z'JZ: 1 at edges, less where D holds a price near 0."""
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
    rest: Floats, held: Held, jacobian: Jacobian, inverse: Floats, even: Floats, out: Floats
) -> float:
    """Set out to the guess for J^-1 rest; returns rest . out."""
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
def held_direction(
    f: Floats,
    held: Held,
    jacobian: Jacobian,
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
        beta = new / rho
        for s in range(f.size):
            along[s] = image[s] + beta * along[s]
        rho = new
    return CONJUGATE_LIMIT
