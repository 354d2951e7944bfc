"""Swapping people one by one: one area against a pool, or every area of a population.

After Christ, Radway & Bellovin (2022, 4.2). round(rate x n) of the n rows of an area are marked,
uniques first (a row is unique if nobody else in its area has the same tuple of attributes: all
swapped ones, unless some are named), then the rest at random. Each marked row changes places with
a row outside its area: all attributes are exchanged but those that are kept (tenure).

Nobody is swapped twice. In a pool anybody may be the partner. When every area is swapped, marked
rows are paired with marked rows, so that the rate is exact in each area: at most one row is left
over if the number of marked rows is odd, and more only if one area has over half of them. Rows
without a partner are counted as unswappable and stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Codes, Flags, Ints
from headcount.errors import InputError
from headcount.mechanisms.swapping.keys import share
from headcount.schema.schema import combine
from headcount_papers.person_swapping.similar import (
    Buckets,
    PartnerRule,
    Places,
    draw_partners,
    fill_buckets,
    frequency_order,
    pair_areas,
    places,
)

KEEP = ("tenure",)
"""What stays with the place and not with the person."""

ROUNDS = 8
"""How often each area is visited when every area is swapped."""

LARGE = 1 / 8
"""Share of the rows left above which an area is visited before the others."""


@dataclass(frozen=True, kw_only=True)
class _PersonSwapReport:
    """What a swap did, counted in rows of the swapped areas; for the curator only.

    where
        widened   (steps by which k had to grow, rows) for every swapped row, 0 steps included
    """

    people: int
    marked: int
    swapped: int
    uniques: int
    uniques_swapped: int
    unswappable: int
    widened: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Swap:
    """Who changes places with whom: provenance, for scoring only, never part of a release.

    where
        rows       positions of swapped rows
        partners   the position of each one's partner: in the pool, or in the same table when
                   every area is swapped (then each pair stands here once)
    """

    rows: Ints
    partners: Ints
    report: _PersonSwapReport

    def origin(self, people: int) -> Ints:
        """For each row of one table, whose record it holds after every area was swapped."""
        origin = np.arange(people, dtype=np.int64)
        origin[self.rows], origin[self.partners] = self.partners, self.rows
        return origin


@dataclass(frozen=True, eq=False, repr=False)
class Pool:
    """People who may be partners, indexed by what the kind of swapping compares."""

    codes: Codes
    likeness: PartnerRule
    places: Places
    buckets: Buckets

    @classmethod
    def of(cls, codes: Codes, likeness: PartnerRule, *, area: Codes | None = None) -> Pool:
        """Index a table; an order of frequency that is not given is that of pool and area."""
        rows = _check_rows("pool", codes)
        likeness = _with_order(likeness, *([codes] if area is None else [area, codes]))
        where = places(codes, likeness, rows=rows)
        return cls(codes, likeness, where, _buckets(where))

    @property
    def size(self) -> int:
        """People in the pool."""
        return len(self.places.age)


def swap_area(
    area: Codes,
    pool: Pool,
    *,
    rate: Fraction | str | int,
    rng: np.random.Generator,
    keep: Sequence[str] = KEEP,
    uniques_first: bool = True,
    unique_by: Sequence[str] | None = None,
) -> Swap:
    """Choose partners in the pool for round(rate x n) of the n rows of one area.

    ``unique_by`` names the attributes on which a row must be alone to go first; by default all
    that are swapped. The rows of the result stand in the order in which they were marked, so that
    the first round(r x n) of them are a swap at any lower rate r.
    """
    exact = share(rate, "rate")
    rows = _check_rows("area", area)
    if set(area) != set(pool.codes):
        raise InputError(
            "area",
            found=f"attributes {sorted(area)}",
            expected=f"those of the pool, {sorted(pool.codes)}",
        )
    if not pool.size and round(exact * rows):
        raise InputError("pool", found="nobody outside the area", expected="at least one person")
    where = places(area, pool.likeness, rows=rows)
    here = np.zeros(rows, dtype=np.int64)
    unique, marked = _marked(area, here, exact, rng, keep, uniques_first, unique_by)
    partners = _draw(where, marked.rows, pool, rng)
    found = partners >= 0
    chosen, partners = marked.rows[found], partners[found]
    needed = where.needed(pool.places, chosen, partners)
    report = _report(unique, marked, chosen, needed, pool.likeness)
    return Swap(chosen, partners, report)


def swap_everywhere(
    codes: Codes,
    area: NDArray[np.integer],
    likeness: PartnerRule,
    *,
    rate: Fraction | str | int,
    rng: np.random.Generator,
    keep: Sequence[str] = KEEP,
    uniques_first: bool = True,
    unique_by: Sequence[str] | None = None,
) -> Swap:
    """Choose partners in other areas for round(rate x n) of the n rows of every area."""
    exact = share(rate, "rate")
    rows = _check_rows("population", codes, expected=len(area))
    unique, marked = _marked(codes, area, exact, rng, keep, uniques_first, unique_by)
    if len(marked.rows) and (area == area[0]).all():
        raise InputError("swapping", found="nobody outside the area", expected="two or more areas")
    likeness = _with_order(likeness, codes)
    where = places(codes, likeness, rows=rows)
    partner = _pair(where, marked, likeness, rng)
    one = np.flatnonzero(partner > np.arange(len(partner)))  # each pair once
    chosen, partners = marked.rows[one], marked.rows[partner[one]]
    needed = where.needed(where, chosen, partners)
    both = np.concatenate([chosen, partners])
    report = _report(unique, marked, both, np.tile(needed, 2), likeness)
    return Swap(chosen, partners, report)


def _marked(
    codes: Codes,
    area: NDArray[np.integer],
    rate: Fraction,
    rng: np.random.Generator,
    keep: Sequence[str],
    uniques_first: bool,
    unique_by: Sequence[str] | None = None,
) -> tuple[Flags, _Marked]:
    names = sorted(set(codes) - set(keep)) if unique_by is None else unique_by
    for name in names:
        if name not in codes:
            raise InputError(
                "swapping",
                place="unique_by",
                found=f"no attribute {name!r}",
                expected=f"some of {sorted(codes)}",
            )
    swapped = [codes[name] for name in names]
    unique = unique_rows(area, combine(swapped, rows=len(area)))
    return unique, mark(area, unique, rate=rate, rng=rng, uniques_first=uniques_first)


def _with_order(likeness: PartnerRule, *tables: Codes) -> PartnerRule:
    if likeness.kind != "similar" or likeness.order is not None:
        return likeness
    if any(name not in table for table in tables for name in ("race", "hispanic")):
        return likeness  # the missing key is reported where it is needed
    return replace(likeness, order=frequency_order(*tables))


def _buckets(where: Places) -> Buckets:
    ages, sexes, ranks, levels = (int(axis.max(initial=0)) + 1 for axis in where)
    bucket = (where.age * sexes + where.sex) * ranks + where.rank
    filled = fill_buckets(bucket, ages * sexes * ranks)
    return Buckets((ages, sexes, ranks, levels), where.more, bucket, *filled)


def _draw(where: Places, rows: Ints, pool: Pool, rng: np.random.Generator) -> Ints:
    chance = rng.random(len(rows))
    partners: Ints = draw_partners(where.of(rows), pool.likeness.k, chance, pool.buckets.copy())
    return partners


def _pair(where: Places, marked: _Marked, likeness: PartnerRule, rng: np.random.Generator) -> Ints:
    """Partners among the marked, by their position there; -1 for those left over."""
    rows = marked.rows
    here = where.of(rows)
    area = np.repeat(np.arange(len(marked.first) - 1), np.diff(marked.first))
    visits, chance = _visits(area, rng), rng.random(len(rows))
    partner: Ints = pair_areas(visits, area, marked.first, here, likeness.k, chance, _buckets(here))
    _pair_left_over(partner, marked.first, rng)
    return partner


def _visits(area: Ints, rng: np.random.Generator) -> Ints:
    """The order in which rows look for a partner: rounds of areas at random, a few rows of each.

    Whoever comes late finds few left, and partners less alike. With every area in every round no
    area has worse partners than another because of its code. But an area with many of the rows
    would be left alone in the end, because the others are paired with each other too: some of its
    rows come before the rounds.
    """
    people = np.bincount(area)
    turn = rng.random((ROUNDS, len(people)))
    when = rng.integers(0, ROUNDS, len(area))
    sooner = np.zeros(len(area), dtype=np.int64)
    if ahead := _ahead(people, rng):
        shuffled = np.lexsort((rng.random(len(area)), area))
        start = np.cumsum(people) - people
        for number, (one, rows) in enumerate(ahead):
            sooner[shuffled[start[one] : start[one] + rows]] = number - len(ahead)
            start[one] += rows
    ordinary = sooner == 0
    late = np.where(ordinary, when, 0)
    return np.lexsort((area, np.where(ordinary, turn[when, area], 0.0), late, sooner))


def _ahead(people: Ints, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Areas whose rows come before the rounds, in turn, with the number of rows each time.

    It is the turn of the area with most rows left, as long as these are more than LARGE of all
    left; of equal ones one at random. Its partners are reckoned to come from all other areas alike.
    """
    left = people.astype(np.float64)
    step = max(left.sum() / (4 * ROUNDS), 1.0)
    turns: list[tuple[int, int]] = []
    while (most := left.max(initial=0)) > LARGE * left.sum():
        one = int(rng.choice(np.flatnonzero(left == most)))
        others = left.sum() - most
        rows = int(min(step, most, others))
        if not rows:
            break
        turns.append((one, rows))
        left *= 1 - rows / others
        left[one] = most - rows
    return turns


def _pair_left_over(partner: Ints, first: Ints, rng: np.random.Generator) -> None:
    """Those left over are of one area: give two of them the two of a pair from elsewhere.

    With this no more rows stay unpaired than must: when no such pair is left, every pair has one
    row of that area.
    """
    alone = np.flatnonzero(partner < 0)
    if len(alone) < 2:
        return
    own = int(np.searchsorted(first, alone[0], side="right")) - 1
    lower = np.flatnonzero(partner > np.arange(len(partner)))
    inside = (first[own] <= lower) & (lower < first[own + 1])
    mate = partner[lower]
    inside |= (first[own] <= mate) & (mate < first[own + 1])
    pairs = lower[~inside]
    broken = rng.choice(pairs, size=min(len(pairs), len(alone) // 2), replace=False)
    for one, (here, there) in zip(broken, alone[: 2 * len(broken)].reshape(-1, 2), strict=True):
        other = partner[one]
        partner[here], partner[one] = one, here
        partner[there], partner[other] = other, there


def _report(
    unique: Flags, marked: _Marked, swapped: Ints, needed: Ints, likeness: PartnerRule
) -> _PersonSwapReport:
    steps, rows = np.unique(np.maximum(needed - likeness.k, 0), return_counts=True)
    return _PersonSwapReport(
        people=len(unique),
        marked=len(marked.rows),
        swapped=len(swapped),
        uniques=int(unique.sum()),
        uniques_swapped=int(unique[swapped].sum()),
        unswappable=len(marked.rows) - len(swapped),
        widened=tuple(zip(steps.tolist(), rows.tolist(), strict=True)),
    )


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
class _Marked:
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
) -> _Marked:
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
    return _Marked(order[np.repeat(start, quota) + within], first)


def exact_shares(people: Ints, rate: Fraction) -> Ints:
    """round(rate x n) for each n, in exact arithmetic."""
    sizes, which = np.unique(people, return_inverse=True)
    shares = np.array([round(rate * int(n)) for n in sizes], dtype=np.int64)
    return shares[which] if len(sizes) else np.zeros(0, dtype=np.int64)


def _check_rows(source: str, codes: Codes, *, expected: int | None = None) -> int:
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
