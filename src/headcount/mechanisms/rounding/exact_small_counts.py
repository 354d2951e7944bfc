"""Small count rounding at its best: the smallest sum of squared changes, by integer programmes.

    minimise    sum_j (X'a - X'y)_j^2
    subject to  a_i = y_i, or the multiple of b below or above it, for small inner cells; else y_i
                cells of S rounded:  those that are part of a published 0 < X'y <= m
                X'a_j > m, or a multiple of b
                |sum a - sum y| <= b / 2

where all is named as in ``small_counts``. Rounding every small inner cell meets all of that, so
there always is an answer. A square of whole numbers is the largest of the lines through
neighbouring points of it,

    d^2 = max over k >= 0 of (2 k + 1) |d| - k (k + 1)

so a linear programme with enough lines has the same optimum: as many as its largest change asks
for. For tables of some hundreds of cells; it tells how good the greedy answer is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.mechanisms.rounding.known_cells import known_cells
from headcount.mechanisms.rounding.small_counts import SmallCounts, check, must_round
from headcount.solve.mip import Program, SolverError, minimise

LINES = 2
"""Lines under each square to begin with: exact for changes of so many."""


def round_small_counts_exactly(counts: Ints, sums: Any, settings: SmallCounts) -> Ints:
    """The changed inner cells with the smallest sum of squared changes of published counts."""
    check(counts, sums)
    inner = sums.tocsr().astype(np.int64)
    forced = must_round(counts, inner, settings)
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
                "small count rounding: found that HiGHS sees no answer, expected one: "
                "all small cells may be rounded"
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
