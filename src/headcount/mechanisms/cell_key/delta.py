"""What one changed count tells about one person: the exact delta of a single cell.

No epsilon bounds what a release with cell keys tells: changes are bounded and used again. Of one
cell alone the law is known, so for neighbouring counts n and n + 1

    delta(epsilon) = max( sum_j max(0, P_n(j) - e^epsilon P_(n+1)(j)),
                          sum_j max(0, P_(n+1)(j) - e^epsilon P_n(j)) )

where
    P_n(j)   probability that a count of n is published as j

is how much more likely some answer can be under one than e^epsilon times under the other. It does
not compose: other tables with the same people are changed by the same word, not independently.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

from headcount.mechanisms.cell_key.perturbation import ChangeLaw


def published_law(rows: Sequence[ChangeLaw], count: int, *, cycle: int = 1) -> dict[int, Fraction]:
    """Published count -> probability; counts beyond the rows use the last ``cycle`` in turn."""
    start = len(rows) - cycle
    row = rows[count if count < start else start + (count - start) % cycle]
    return {count + v: p for v, p in row.probabilities.items() if p}


def delta_between(
    one: Mapping[int, Fraction], other: Mapping[int, Fraction], *, epsilon: float
) -> float:
    """The larger of both directions, of two laws."""

    def excess(p: Mapping[int, Fraction], q: Mapping[int, Fraction]) -> float:
        factor = Fraction(math.exp(epsilon))
        over = (p[j] - factor * q.get(j, Fraction()) for j in p)
        return float(sum((x for x in over if x > 0), Fraction()))

    return max(excess(one, other), excess(other, one))


def cell_deltas(rows: Sequence[ChangeLaw], *, epsilon: float, cycle: int = 1) -> list[float]:
    """The delta between counts n and n + 1 for n = 0, 1, ..., until rows come again."""
    laws = [published_law(rows, n, cycle=cycle) for n in range(len(rows) + 1)]
    return [delta_between(one, other, epsilon=epsilon) for one, other in pairwise(laws)]
