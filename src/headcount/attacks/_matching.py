"""The compiled loop of re-identification: one-to-one, exact keys first. Loads numba: import late.

Both lists come sorted by (coarse, fine), so that one walk finds the groups of either grade, and
any number of random orders of ties costs one sort.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Floats, Ints
from headcount.compiled import kernel, njit


@njit
def _pair(
    a: Ints,
    a_start: int,
    a_stop: int,
    r: Ints,
    r_start: int,
    r_stop: int,
    draw: Floats,
    used: int,
    step: int,
    row: Ints,
    grade: NDArray[np.int8],
) -> int:
    """Pair as many as there are on the shorter side; the longer side is shuffled that far.

    Those paired end up first on either side. Every way to pair them is equally likely.
    """
    n_a, n_r = a_stop - a_start, r_stop - r_start
    pairs = min(n_a, n_r)
    for t in range(pairs):
        if n_a >= n_r:
            k = a_start + t + int(draw[used + t] * (n_a - t))
            a[a_start + t], a[k] = a[k], a[a_start + t]
        else:
            k = r_start + t + int(draw[used + t] * (n_r - t))
            r[r_start + t], r[k] = r[k], r[r_start + t]
        row[a[a_start + t]] = r[r_start + t]
        grade[a[a_start + t]] = step
    return pairs


@kernel
def match_sorted(
    a: Ints,
    a_coarse: Ints,
    a_fine: Ints,
    r: Ints,
    r_coarse: Ints,
    r_fine: Ints,
    draw: Floats,
    exact_first: bool,
    row: Ints,
    grade: NDArray[np.int8],
) -> None:
    """Match the rows ``a`` to the rows ``r``: within fine groups, then what is left of coarse ones.

    ``a`` and ``r`` hold row numbers in the sorted order and are shuffled in place. ``draw`` has a
    number in [0, 1) for each row of ``a``: one is used for each pair.
    """
    i, j, used = 0, 0, 0
    while i < len(a) and j < len(r):
        if a_coarse[i] < r_coarse[j]:
            i += 1
            continue
        if a_coarse[i] > r_coarse[j]:
            j += 1
            continue
        coarse = a_coarse[i]
        i_stop, j_stop = i, j
        while i_stop < len(a) and a_coarse[i_stop] == coarse:
            i_stop += 1
        while j_stop < len(r) and r_coarse[j_stop] == coarse:
            j_stop += 1
        i_left, j_left = i_stop, j_stop
        if exact_first:
            i_left, j_left = i, j  # those left over move to the front of their group
            p, q = i, j
            while p < i_stop or q < j_stop:
                p_fine = a_fine[p] if p < i_stop else r_fine[q]
                fine = min(p_fine, r_fine[q]) if q < j_stop else p_fine
                p_stop, q_stop = p, q
                while p_stop < i_stop and a_fine[p_stop] == fine:
                    p_stop += 1
                while q_stop < j_stop and r_fine[q_stop] == fine:
                    q_stop += 1
                pairs = _pair(a, p, p_stop, r, q, q_stop, draw, used, 1, row, grade)
                used += pairs
                for k in range(p + pairs, p_stop):
                    a[i_left] = a[k]
                    i_left += 1
                for k in range(q + pairs, q_stop):
                    r[j_left] = r[k]
                    j_left += 1
                p, q = p_stop, q_stop
        used += _pair(a, i, i_left, r, j, j_left, draw, used, 2, row, grade)
        i, j = i_stop, j_stop
