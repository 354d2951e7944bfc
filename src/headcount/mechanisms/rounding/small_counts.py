"""Small count rounding: inner cells change so that no published sum is small, and all still add up.

Published counts are sums X'y of inner cells y. Those of 1 to b - 1 shall not be published; so some
inner cells become multiples of b, and every table is counted from the changed cells:

    1. S = inner cells y <= m that are no multiple of b and part of a published 0 < X'y <= m
    2. each cell of S becomes its multiple of b below or above; so many go up that the total of all
       inner cells is as near to the true one as it can be, and those that keep X'y close
    3. published counts may have become small: again with X'y of 1 to m that are no multiples of b
    4. an inner cell that the published sums give away and that is still small is rounded too

where
    b   base
    m   largest count that is rounded, b - 1 or more
    X   inner cells x published sums, of zeros and ones

Choosing is greedy: from all cells of S below, raise the one whose sums lack most, X_S (X'y - X'a),
then exchange one raised cell for another while the one that was raised last is not the first to go.
Ties go in a random order. Langsrud and Heldal 2018, "An algorithm for small count rounding of
tabular data", Privacy in Statistical Databases; the R package ``SmallCountRounding``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.errors import ConfigError, InputError
from headcount.mechanisms.rounding.cells import check_base, check_counts
from headcount.mechanisms.rounding.known_cells import known_cells


@dataclass(frozen=True, kw_only=True)
class SmallCounts:
    """What counts as small.

    where
        base          b, 2 or more
        largest       m; b - 1 if not given
        all_inner     round every small inner cell, whatever it contributes to
        repeat        step 3; without it small counts may be left
        known         step 4
    """

    base: int = 3
    largest: int | None = None
    all_inner: bool = False
    repeat: bool = True
    known: bool = True

    def __post_init__(self) -> None:
        check_base(self.base)
        if self.largest is not None and self.largest < self.base - 1:
            raise ConfigError(
                "small count rounding",
                place="largest",
                found=str(self.largest),
                expected=f"{self.base - 1} or more: counts below the base are small",
            )

    @property
    def most(self) -> int:
        """The largest count that is rounded, m."""
        return self.base - 1 if self.largest is None else self.largest

    def small(self, counts: Ints) -> Flags:
        """Counts that would be small if they were published."""
        return np.asarray((counts <= self.most) & (counts % self.base > 0), dtype=bool)


def round_small_counts(counts: Ints, sums: Any, settings: SmallCounts, *, rank: Ints) -> Ints:
    """The changed inner cells.

    where
        counts   inner cells
        sums     inner cells x published sums (scipy sparse, zeros and ones)
        rank     for each inner cell its place in a random order, which decides ties
    """
    check(counts, sums)
    inner = sums.tocsr().astype(np.int64)

    chosen, now = must_round(counts, inner, settings), counts
    while True:
        if chosen.any():
            now = _round_some(now, counts, inner, chosen, base=settings.base, rank=rank)
        chosen = np.zeros(len(counts), dtype=bool)
        if settings.repeat:
            chosen = settings.small(now) & (inner @ settings.small(inner.T @ now) > 0)
        if settings.known and not chosen.any():
            chosen = settings.small(now) & known_cells(inner, now)
        if not chosen.any():
            return now


def check(counts: Ints, sums: Any) -> None:
    """Refuse counts and sums that do not belong together."""
    check_counts(counts)
    if counts.shape != (sums.shape[0],):
        raise InputError(
            "small count rounding",
            found=f"{counts.shape} counts and sums of {sums.shape[0]} cells",
            expected="a count for each cell",
        )
    if sums.nnz and not np.all(sums.data == 1):
        raise InputError(
            "small count rounding",
            found="a cell that counts other than once in a sum",
            expected="each cell once or not at all",
        )


def must_round(counts: Ints, inner: Any, settings: SmallCounts) -> Flags:
    """Step 1: small cells that are part of a sum that is small before anything is rounded."""
    published = inner.T @ counts
    first = (published > 0) & (published <= settings.most)
    shown = np.asarray(inner @ first > 0, dtype=bool)
    return settings.small(counts) & (settings.all_inner | shown)


def _round_some(
    now: Ints, exact: Ints, inner: Any, chosen: Flags, *, base: int, rank: Ints
) -> Ints:
    """Round the chosen cells, greedily."""
    from headcount.mechanisms.rounding._raise import choose

    cells = np.flatnonzero(chosen)
    floor = now.copy()
    floor[cells] -= now[cells] % base
    lacking = Fraction(int(exact.sum()) - int(floor.sum()), base)
    wanted = min(max(round(lacking), 0), len(cells))
    by_cell = inner[cells]
    size = np.bincount(by_cell.indices, minlength=inner.shape[1])
    # a sum of all of them moves all gains alike; one of a single cell, only that one's
    by_cell = by_cell[:, (size > 0) & (size < len(cells))]
    by_sum = by_cell.tocsc()
    lack = (inner.T @ (exact - floor))[(size > 0) & (size < len(cells))]
    up = choose(
        by_cell.indptr.astype(np.int64),
        by_cell.indices.astype(np.int64),
        by_sum.indptr.astype(np.int64),
        by_sum.indices.astype(np.int64),
        np.asarray(by_cell @ lack, dtype=np.int64),
        np.argsort(np.argsort(rank[cells])).astype(np.int64),
        base,
        wanted,
    )
    floor[cells[up]] += base
    return floor
