"""Inner cells that published sums give away.

A sum of 0 makes its cells known to be 0, and a sum with one cell left unknown makes that cell
known. Of the others cell i is known if it is a linear combination of the sums, that is if no change
d of the cells with X'd = 0 has d_i other than 0. A random change tells for all cells at once: with
g random, its part within the null space of X',

    d = g - X x,   x = argmin |X x - g|

has d_i = 0 for a known cell, and for another one with probability 0. It is found by sparse least
squares, to about ACCURACY; what is smaller than NOTHING counts as 0. So a cell that is hardly free
is taken for known, never the other way round. All of that is repeated until no more cell is found.

where
    X   inner cells x published sums, of zeros and ones

Fong and Saunders 2011, "LSMR: an iterative algorithm for sparse least-squares problems", SIAM
Journal on Scientific Computing 33(5). The R package finds the same cells by their leverage, the
diagonal of the projection on the columns of X.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import HeadcountError

ACCURACY = 1e-12
NOTHING = 1e-6
LONGEST = 20_000
"""Iterations of least squares before it is given up."""


def known_cells(inner: Any, counts: Ints) -> Flags:
    """Which cells can be worked out from the sums of these counts (scipy CSR, cells x sums)."""
    known = np.zeros(len(counts), dtype=bool)
    while True:
        known = _by_subtraction(inner, counts, known)
        left = np.flatnonzero(~known)
        rest = inner[left]
        rest = rest[:, np.bincount(rest.indices, minlength=rest.shape[1]) > 0]
        if not len(left) or not rest.shape[1]:
            return known
        more = left[np.abs(_free_change(rest)) < NOTHING]
        if not len(more):
            return known
        known[more] = True


def _by_subtraction(inner: Any, counts: Ints, known: Flags) -> Flags:
    """Cells in sums of which nothing, or nobody but one cell, is left without the known ones."""
    by_sum = inner.T.tocsr()
    while True:
        unknown = by_sum @ (~known).astype(np.int64)
        left = by_sum @ np.where(known, 0, counts)
        found = known | (inner @ ((unknown == 1) | (left == 0)) > 0)
        if np.array_equal(found, known):
            return known
        known = found


def _free_change(rest: Any) -> Floats:
    """A random change of the cells that leaves every sum as it is."""
    from scipy.sparse.linalg import lsmr

    matrix = rest.astype(np.float64)
    # The seed may be fixed: it decides which of all free changes is looked at, not what is known.
    change = np.random.Generator(np.random.PCG64(1)).standard_normal(matrix.shape[0])
    for _ in range(2):  # the second takes away what the first left behind by rounding
        solved = lsmr(matrix, change, atol=ACCURACY, btol=ACCURACY, conlim=0.0, maxiter=LONGEST)
        if solved[1] == 7:
            raise HeadcountError(
                "small count rounding: which cells the published sums give away: found no answer "
                f"after {LONGEST:,} iterations, expected one (known = false leaves the check out)"
            )
        change = change - matrix @ solved[0]
    return np.asarray(change)
