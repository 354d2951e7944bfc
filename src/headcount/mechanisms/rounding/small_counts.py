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

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.compiled import kernel, njit
from headcount.errors import ConfigError, HeadcountError, InputError
from headcount.mechanisms.rounding.cells import check_base, check_counts
from headcount.solve.mip import Program, SolverError, minimise
from headcount.tabulate import Counts
from headcount.tabulate.published import TableCells

ACCURACY = 1e-12
NOTHING = 1e-6
LONGEST = 20_000
"""Iterations of least squares before it is given up."""
PATIENCE = 100
"""Exchanges beyond one for each raised cell, as in the peer."""
LINES = 2
"""Lines under each square to begin with: exact for changes of so many."""


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

    chosen, now = _must_round(counts, inner, settings), counts
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


def _must_round(counts: Ints, inner: Any, settings: SmallCounts) -> Flags:
    """Step 1: small cells that are part of a sum that is small before anything is rounded."""
    published = inner.T @ counts
    first = (published > 0) & (published <= settings.most)
    shown = np.asarray(inner @ first > 0, dtype=bool)
    return settings.small(counts) & (settings.all_inner | shown)


def _round_some(
    now: Ints, exact: Ints, inner: Any, chosen: Flags, *, base: int, rank: Ints
) -> Ints:
    """Round the chosen cells, greedily."""

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


def known_cells(inner: Any, counts: Ints) -> Flags:
    """Which cells are identified by the sums of these counts (scipy CSR, cells x sums).

    A sum of 0 makes its cells known to be 0, and a sum with one cell left unknown makes that cell
    known. Of the others cell i is known if it is a linear combination of the sums, that is if no
    change d of the cells with X'd = 0 has d_i other than 0. A random change tells for all cells at
    once: with g random, its part within the null space of X',

        d = g - X x,   x = argmin |X x - g|

    has d_i = 0 for a known cell, and for another one with probability 0. It is found by sparse
    least squares, to about ACCURACY; what is smaller than NOTHING counts as 0. So a cell that is
    hardly free is taken for known, never the other way round. All of that is repeated until no more
    cell is found.

    Fong and Saunders 2011, "LSMR: an iterative algorithm for sparse least-squares problems", SIAM
    Journal on Scientific Computing 33(5). The R package finds the same cells by their leverage, the
    diagonal of the projection on the columns of X.
    """
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
                "small count rounding: which cells the published sums give away is not known after "
                f"{LONGEST:,} iterations. known = false leaves the check out."
            )
        change = change - matrix @ solved[0]
    return np.asarray(change)


@njit
def _shift(
    cell: int, by: int, start: Ints, sums: Ints, first: Ints, cells: Ints, gain: Ints
) -> None:
    """Add to the gain of every cell that shares a sum with this one, once for each sum."""
    for s in range(start[cell], start[cell + 1]):
        for k in range(first[sums[s]], first[sums[s] + 1]):
            gain[cells[k]] += by


@kernel(work=lambda *given: (2 * given[-1] + PATIENCE) * len(given[4]))
def choose(
    start: Ints,
    sums: Ints,
    first: Ints,
    cells: Ints,
    gain: Ints,
    rank: Ints,
    base: int,
    wanted: int,
) -> Flags:
    """Which cells to raise by the base, ``wanted`` of them.

    where
        start, sums    for each cell the sums that it is part of
        first, cells   for each sum its cells
        gain           for each cell what its sums lack together; changed
        rank           of cells with the same gain that with the lowest rank goes first; changed

    The cell with the largest gain is raised, again and again. Then the raised cell with the
    smallest gain is lowered and the best one raised, until the smallest gain is that of the cell
    that was raised last. A lowered cell becomes the first of its equals, and so does a raised one.
    """
    up = np.zeros(len(gain), dtype=np.bool_)
    if wanted == len(gain):
        return ~up
    ahead, raised, last = 0, 0, -1
    for _ in range(2 * wanted + PATIENCE):
        if raised == wanted:
            low = -1
            for i in range(len(gain)):
                if up[i] and (
                    low < 0 or gain[i] < gain[low] or (gain[i] == gain[low] and rank[i] < rank[low])
                ):
                    low = i
            if low == last:
                break
            up[low] = False
            raised -= 1
            ahead -= 1
            rank[low] = ahead
            _shift(low, base, start, sums, first, cells, gain)
        best = -1
        for i in range(len(gain)):
            if not up[i] and (
                best < 0 or gain[i] > gain[best] or (gain[i] == gain[best] and rank[i] < rank[best])
            ):
                best = i
        up[best] = True
        raised += 1
        ahead -= 1
        rank[best] = ahead
        last = best
        _shift(best, -base, start, sums, first, cells, gain)
    return up


def round_small_counts_exactly(counts: Ints, sums: Any, settings: SmallCounts) -> Ints:
    """The changed inner cells with the smallest sum of squared changes, by integer programmes.

        minimise    sum_j (X'a - X'y)_j^2
        subject to  a_i = y_i, or the multiple of b below or above it, for small inner cells
                    a_i = y_i for the others
                    cells of S rounded:  those that are part of a published 0 < X'y <= m
                    X'a_j > m, or a multiple of b
                    |sum a - sum y| <= b / 2

    Rounding every small inner cell meets all of that, so there always is an answer. A square of
    whole numbers is the largest of the lines through neighbouring points of it,

        d^2 = max over k >= 0 of (2 k + 1) |d| - k (k + 1)

    so a linear programme with enough lines has the same optimum: as many as its largest change asks
    for. For tables of some hundreds of cells; it tells how good the greedy answer is.
    """
    check(counts, sums)
    inner = sums.tocsr().astype(np.int64)
    forced = _must_round(counts, inner, settings)
    while True:
        now = _best(counts, inner, settings, forced)
        leaked = settings.small(now) & settings.known
        if leaked.any():
            leaked &= known_cells(inner, now)
        if not leaked.any():
            return now
        forced |= leaked


def _best(counts: Ints, inner: Any, settings: SmallCounts, forced: Flags) -> Ints:
    small = np.flatnonzero(settings.small(counts))
    if not len(small):
        return counts
    lines = LINES
    while True:
        found = minimise(_program(counts, inner, settings, small, forced, lines=lines))
        if found is None:
            raise SolverError(
                "small count rounding: HiGHS says that there is no answer, and there is one: all "
                "small cells rounded"
            )
        rounded, up = found[: 2 * len(small)].astype(np.int64).reshape(2, len(small))
        now = counts.copy()
        now[small] += settings.base * up - counts[small] % settings.base * rounded
        largest = int(np.abs(inner.T @ (now - counts)).max(initial=0))
        if largest <= lines:
            return now
        lines = largest


def _program(
    counts: Ints, inner: Any, settings: SmallCounts, small: Ints, forced: Flags, *, lines: int
) -> Program:
    """Variables: rounded and up of each small cell, the square of each sum, and of each sum that
    may become small the multiple of b that it is, and whether it is larger than m instead.
    """
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    base, cells, wide = settings.base, len(small), inner.shape[1]
    rest = counts[small] % base
    on_small = inner[small].T.tocsr()  # sums x small cells
    change = hstack([-on_small.multiply(rest), base * on_small], format="csr")
    now = inner.T @ counts
    least, most = now - on_small @ rest, now + on_small @ (base - rest)
    watched = np.flatnonzero((least <= settings.most) & (most > 0) & settings.repeat)
    one, count = eye_array(len(watched)), csr_array((len(watched), wide))
    none = csr_array((len(watched), len(watched)))

    blocks: list[tuple[Any, Floats | float, Floats | float]] = [
        (_wide([eye_array(cells) * -1, eye_array(cells)], wide + 2 * len(watched)), -np.inf, 0.0),
        (
            _wide(
                [csr_array(-rest[None]), csr_array(np.full((1, cells), base))],
                wide + 2 * len(watched),
            ),
            -base / 2,
            base / 2,
        ),
    ]
    for k in range(lines):
        for sign in (1, -1):
            steep = hstack([sign * (2 * k + 1) * change, -eye_array(wide)])
            blocks.append((_wide([steep], 2 * len(watched)), -np.inf, float(k * (k + 1))))
    if len(watched):
        here, at = change[watched], now[watched].astype(np.float64)
        beyond = csr_array(np.diag(most[watched]))
        blocks += [
            (hstack([here, count, -base * one, none]), -at, np.inf),
            (hstack([here, count, -base * one, -beyond]), -np.inf, -at),
            (hstack([here, count, none, -(settings.most + 1) * one]), -at, np.inf),
        ]
    rows = [block.shape[0] for block, _, _ in blocks]
    must = forced[small].astype(np.float64)
    return Program(
        cost=np.concatenate([np.zeros(2 * cells), np.ones(wide), np.zeros(2 * len(watched))]),
        low=np.concatenate([must, np.zeros(cells + wide + 2 * len(watched))]),
        high=np.concatenate(
            [
                np.ones(2 * cells),
                np.full(wide, np.inf),
                np.full(len(watched), settings.most // base),
                np.ones(len(watched)),
            ]
        ),
        matrix=vstack([block for block, _, _ in blocks], format="csc"),
        row_low=np.concatenate(
            [np.broadcast_to(low, n) for (_, low, _), n in zip(blocks, rows, strict=True)]
        ),
        row_high=np.concatenate(
            [np.broadcast_to(high, n) for (_, _, high), n in zip(blocks, rows, strict=True)]
        ),
        integer=True,
    )


def _wide(parts: list[Any], more: int) -> Any:
    """Blocks side by side, with so many empty columns after them."""
    from scipy.sparse import csr_array, hstack

    return hstack([*parts, csr_array((parts[0].shape[0], more))])


def inner_cells(
    counts: Counts, made: Sequence[TableCells], where: Sequence[tuple[int, str]]
) -> tuple[Ints, Any, Sequence[tuple[int, int]]]:
    """What small count rounding works on, of all tables together.

    Returns the counts of the inner cells, which are the cells of the schema in the units of the
    lowest level of any table, where somebody is; the 0/1 matrix (inner cells x published cells);
    and the shape of each table in turn.
    """
    from scipy.sparse import csr_array, hstack

    geography = counts.geography
    finest = max((level for _, level in where), key=geography.depth)
    entries = counts.at(finest).matrix.tocoo()
    parts, shapes = [], []
    for number, level in where:
        cells = made[number]
        shape = (geography.size(level), cells.size)
        unit = geography.ancestors(level, of=finest)[entries.row].astype(np.int64)
        rows = csr_array(cells.matrix[entries.col])
        inside = np.repeat(np.arange(len(unit)), np.diff(rows.indptr))
        column = unit[inside] * cells.size + rows.indices
        parts.append(
            csr_array(
                (rows.data.astype(np.int64), (inside, column)),
                shape=(len(unit), shape[0] * shape[1]),
            )
        )
        shapes.append(shape)
    return np.asarray(entries.data, dtype=np.int64), hstack(parts, format="csr"), shapes


def tables_of(sums: Ints, shapes: Sequence[tuple[int, int]]) -> list[Ints]:
    """Published cells of all tables, one table after another."""
    ends = np.cumsum([units * cells for units, cells in shapes])
    parts = np.split(sums, ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
