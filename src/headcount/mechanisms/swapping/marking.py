"""Which rows are swapped: exactly the share asked for in each area, uniques before the rest."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Codes, Flags, Ints
from headcount.errors import InputError
from headcount.schema.combine import combine


def unique_rows(area: NDArray[np.integer], code: Ints) -> Flags:
    """Whether each row is alone in its area with its tuple of attributes."""
    both = combine((area, code), rows=len(code))
    order = np.argsort(both, kind="stable")
    ordered = both[order]
    apart = np.ones(len(both) + 1, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=apart[1:-1])
    alone = np.empty(len(both), dtype=bool)
    alone[order] = apart[1:] & apart[:-1]
    return alone


@dataclass(frozen=True, eq=False)
class Marked:
    """Rows to be swapped, area by area, each area's uniques first.

    where
        rows    positions of marked rows
        first   rows[first[a]] to rows[first[a + 1]] are those of area a
    """

    rows: Ints
    first: Ints


def mark(
    area: NDArray[np.integer],
    unique: Flags,
    *,
    rate: Fraction,
    rng: np.random.Generator,
    uniques_first: bool = True,
) -> Marked:
    """Mark round(rate x n) of the n rows of each area: uniques first, each kind at random.

    ``uniques_first=False`` marks a simple random sample, which is the model of Theorem 1 of
    Christ, Radway & Bellovin (2022). Halves are rounded to even.
    """
    people = np.bincount(area).astype(np.int64)
    quota = exact_shares(people, rate)
    later = ~unique if uniques_first else np.zeros(len(area), dtype=bool)
    order = np.argsort(area * 2.0 + later + rng.random(len(area)), kind="stable")
    start = np.cumsum(people) - people
    first = np.concatenate([[0], np.cumsum(quota)]).astype(np.int64)
    within = np.arange(first[-1]) - np.repeat(first[:-1], quota)
    return Marked(order[np.repeat(start, quota) + within], first)


def exact_shares(people: Ints, rate: Fraction) -> Ints:
    """round(rate x n) for each n, in exact arithmetic."""
    sizes, which = np.unique(people, return_inverse=True)
    shares = np.array([round(rate * int(n)) for n in sizes], dtype=np.int64)
    return shares[which] if len(sizes) else np.zeros(0, dtype=np.int64)


def check_rows(source: str, codes: Codes, *, expected: int | None = None) -> int:
    """The number of rows of some columns; all must have the same, and no code below 0."""
    lengths = {len(column) for column in codes.values()}
    if expected is not None:
        lengths.add(expected)
    if len(lengths) != 1:
        raise InputError(source, found=f"columns of lengths {sorted(lengths)}", expected="one")
    for name, column in codes.items():
        if len(column) and column.min() < 0:
            raise InputError(source, place=name, found="a code below 0", expected="0 or more")
    return lengths.pop()
