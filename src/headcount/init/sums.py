"""What adds up in a table: columns that are sums of others, rows that are, and how surely.

Columns are compared in all rows at once by one whole number each, a sum of their entries with
random weights modulo 2^64, which adds up where the columns do. A sum counts if the digits that
agree are more than chance would make agree, among all sums that were looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log10

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.population.adding_up import Marks, digits, marks_of, sums_in_order

SURE = 6.0
"""Digits that must agree, beside those that a search among many sums makes agree by chance."""

SURE_OF_FEW = 4.0
"""The same where only as many sums are tried as there are rows, and a person is asked."""

MOSTLY = 0.98
"""The share of rows in which a sum holds, where a few are wrong."""

EIGHTHS = 4
"""Parts of the rows in which sums are looked for too, so that a wrong row hides none."""

MOST_ANYWHERE, MOST_WAYS = 24, 50
"""Columns among which all sums are looked for, and ways to add one up."""

MOST_PARTED, MOST_SWAPPED = 36, 1500
"""Rows of which all ways to part them are tried, and of which two are exchanged."""


@dataclass(frozen=True)
class Sum:
    """A column that is the sum of others.

    where
        total   the column
        parts   those that it adds up
        wrong   the rows in which it does not
    """

    total: int
    parts: tuple[int, ...]
    wrong: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Table:
    """Counts, rows x columns, and which of them are there."""

    counts: Ints
    there: Flags

    @property
    def width(self) -> int:
        """How many columns there are."""
        return int(self.counts.shape[1])

    def digits(self, column: int, rows: Flags | slice = slice(None)) -> float:
        """How many digits agree where a column does."""
        return digits(self.counts[rows, column])

    def only(self, columns: Sequence[int]) -> Table:
        """Some of the columns."""
        return Table(self.counts[:, list(columns)], self.there[:, list(columns)])

    def rows(self, wanted: Flags) -> Table:
        """Some of the rows."""
        return Table(self.counts[wanted], self.there[wanted])


def sums_of_columns(table: Table) -> list[Sum]:
    """Columns that are sums of two or more others in nearly all rows, each way to add them up.

    Of few columns all sums are found, wherever they stand; of many those of neighbours, of columns
    at a distance, and of two.
    """
    found: dict[tuple[int, frozenset[int]], Sum] = {}
    for rows in _samples(len(table.counts)):
        marks = marks_of(table.counts[rows])
        filled = table.counts[rows].max(axis=0, initial=0) > 0
        near, any_ = 2 * log10(table.width + 1), table.width * log10(2)
        for ways, chance in ((_candidates(marks, filled), near), (_anywhere(marks, filled), any_)):
            for total, parts in ways:
                key = (total, frozenset(parts))
                if key not in found and (one := _verified(table, total, parts, chance)) is not None:
                    found[key] = one
    return list(found.values())


def _samples(rows: int) -> Iterator[Flags]:
    yield np.ones(rows, dtype=bool)
    if rows >= 40:
        order = np.random.default_rng(32).permutation(rows)
        for part in np.array_split(order, 8)[:EIGHTHS]:
            wanted = np.zeros(rows, dtype=bool)
            wanted[part] = True
            yield wanted


def _verified(table: Table, total: int, parts: Sequence[int], chance: float) -> Sum | None:
    """The sum, if it holds in nearly all rows in which all of it is there.

    ``chance``: digits that agree in one of so many sums as were tried.
    """
    own, there = table.counts[:, total], table.there[:, [total, *parts]].all(axis=1)
    holds = table.counts[:, list(parts)].sum(axis=1) == own
    number = int(there.sum())
    if not number or (holds & there).sum() < MOSTLY * number:
        return None
    if table.digits(total, holds & there) < SURE + chance:
        return None
    return Sum(total, tuple(sorted(parts)), tuple(np.flatnonzero(there & ~holds).tolist()))


def _candidates(marks: Marks, filled: Flags) -> Iterator[tuple[int, list[int]]]:
    """Columns and what the marks of those near them add up, not yet verified."""
    for found in sums_in_order(marks, filled):
        yield from found.items()
    yield from _pairs(marks, filled)
    for stride in (1, 2, 3):
        for first in range(stride):
            yield from _runs(marks, filled, np.arange(first, len(marks), stride))


def _anywhere(marks: Marks, filled: Flags) -> Iterator[tuple[int, list[int]]]:
    """Columns and any others whose marks add up to theirs, if there are few."""
    some = np.flatnonzero(filled)
    if not 3 < len(some) <= MOST_ANYWHERE:
        return
    for total in some.tolist():
        others = some[some != total]
        for found in _parted(marks[others], marks[total], most=MOST_WAYS):
            if len(found) > 1:
                yield total, others[found].tolist()


def _pairs(marks: Marks, filled: Flags) -> Iterator[tuple[int, list[int]]]:
    some = np.flatnonzero(filled)
    order = some[np.argsort(marks[some])]
    sizes = marks[order]
    for a in some.tolist():
        others = some[some > a]
        wanted = marks[others] + marks[a]
        at = np.minimum(np.searchsorted(sizes, wanted), max(len(sizes) - 1, 0))
        for hit in np.flatnonzero(sizes[at] == wanted) if len(others) else ():
            yield int(order[at[hit]]), [a, int(others[hit])]


def _runs(marks: Marks, filled: Flags, columns: Ints) -> Iterator[tuple[int, list[int]]]:
    """Sums of columns that follow each other at a distance."""
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(marks[columns])])
    order = np.argsort(sums, kind="stable")
    ordered = sums[order]
    for total in np.flatnonzero(filled).tolist():
        wanted = sums + marks[total]
        at = np.minimum(np.searchsorted(ordered, wanted), len(sums) - 1)
        for start in np.flatnonzero(ordered[at] == wanted).tolist():
            run = columns[start : int(order[at[start]])]
            if filled[run].sum() > 1 and total not in run:
                yield total, run.tolist()


@dataclass(frozen=True)
class RowTotals:
    """Rows that are sums of others.

    where
        rows    which
        tried   how many looked like totals in the same way
        digits  how many digits agree
        alone   how many others no total adds up, where totals are looked for everywhere
    """

    rows: Flags
    tried: int
    digits: float
    alone: int = 0

    @property
    def number(self) -> int:
        """How many agree."""
        return int(self.rows.sum())


def totals_by_level(groups: Ints, levels: Ints, level: int, counts: Ints) -> RowTotals:
    """Rows of a level that are, in their group, the sum of all others."""
    size = int(groups.max(initial=-1)) + 1
    own = levels == level
    whole = np.bincount(groups, counts, size)
    here = np.bincount(groups[own], counts[own], size)
    others = np.bincount(groups[~own], minlength=size)
    single = np.bincount(groups[own], minlength=size) == 1
    tried = single & (others > 0)
    agree = tried & (whole == 2 * here)
    some = agree & (np.bincount(groups[~own & (counts > 0)], minlength=size) > 1)
    return RowTotals(own & agree[groups], int(tried.sum()), digits(here[some].astype(np.int64)))


def totals_of_groups(groups: Ints, counts: Ints) -> RowTotals:
    """The largest row of each group, where it is the sum of all others, whatever it is called."""
    size = int(groups.max(initial=-1)) + 1
    whole = np.bincount(groups, counts, size)
    largest = np.zeros(size)
    np.maximum.at(largest, groups, counts)
    number = np.bincount(groups[counts > 0], minlength=size)
    tried = number > 2
    agree = tried & (whole == 2 * largest)
    top = (counts == largest[groups]) & agree[groups]
    return RowTotals(top, int(tried.sum()), digits(largest[agree].astype(np.int64)))


def totals_in_order(counts: Ints) -> RowTotals:
    """Rows that are the sum of those that follow or precede them, at any depth (one column)."""
    filled = counts > 0
    marks = counts.astype(np.uint64)
    sure = 2 * log10(len(counts) + 1)
    found = [
        {k: own for k, own in way.items() if len(own) > 2 or digits(counts[k : k + 1]) > sure}
        for way in sums_in_order(marks, filled)
    ]
    best = max(found, key=len)
    rows = np.zeros(len(counts), dtype=bool)
    rows[list(best)] = True
    agree = digits(counts[rows]) - sure * len(best)
    inside = np.zeros(len(counts), dtype=bool)
    inside[[k for own in best.values() for k in own]] = True
    alone = int((filled & ~rows & ~inside).sum())
    return RowTotals(rows, len(best), max(agree, 0.0), alone)


def sum_of_two(counts: Ints) -> tuple[int, list[int]] | None:
    """A row (of rows x columns) that is the sum of two others, anywhere, in every column."""
    if len(counts) > MOST_SWAPPED:
        return None
    sure = SURE + 3 * log10(len(counts) + 1)
    for total, parts in _pairs(marks_of(counts.T), counts.max(axis=1, initial=0) > 0):
        if digits(counts[total]) >= sure:
            return total, parts
    return None


def half_of_all(counts: Ints) -> list[int]:
    """Rows (of rows x columns) that have together what all others have, in every column.

    Larger places beside those that they hold, in any order. The largest rows are tried, but for one
    that is another; of few rows all ways to part them are.
    """
    whole = counts.sum(axis=0)
    number = len(counts)
    if number < 5 or (whole % 2).any() or not whole.any():
        return []
    # Columns that follow from others, and units in which all are counted, tell nothing.
    rank = int(np.linalg.matrix_rank(counts.astype(float)))
    units = np.maximum(np.gcd.reduce(counts, axis=0), 1)
    sure = float(np.sort(np.log10(1.0 + whole / units))[-rank:].sum()) - SURE
    weights = np.random.default_rng(31).integers(1, 1 << 63, counts.shape[1], dtype=np.uint64)
    marks = (counts.astype(np.uint64) * weights).sum(axis=1, dtype=np.uint64)
    half = ((whole // 2).astype(np.uint64) * weights).sum(dtype=np.uint64)
    order = np.argsort(-counts.sum(axis=1), kind="stable")
    plain = np.flatnonzero(np.cumsum(marks[order]) == half)
    if len(plain) and sure + SURE - SURE_OF_FEW >= log10(number):
        return sorted(order[: int(plain[0]) + 1].tolist())
    likely = number <= MOST_SWAPPED and sure >= 3 * log10(number)
    if likely and (found := _largest(marks[order], half)):
        return sorted(order[list(found)].tolist())
    if number <= MOST_PARTED and sure >= number * log10(2):
        return next(_parted(marks, half), [])
    return []


def _largest(marks: Marks, wanted: np.uint64) -> set[int]:
    """The first so many with the wanted sum, but for one that is taken in, out or exchanged."""
    number = len(marks)
    missing = wanted - np.cumsum(marks)  # after the first k + 1
    nothing = np.zeros(1, dtype=np.uint64)
    swaps = np.concatenate([nothing, marks])[None, :] - np.concatenate([nothing, marks])[:, None]
    by_size = np.argsort(swaps, axis=None, kind="stable")
    ordered = swaps.ravel()[by_size]
    first = np.searchsorted(ordered, missing)
    for k in np.flatnonzero(ordered[np.minimum(first, len(ordered) - 1)] == missing).tolist():
        out, new = divmod(int(by_size[first[k]]), number + 1)
        if out <= k + 1 and (new == 0 or new > k + 1) and k + 1 < number:
            return (set(range(k + 1)) - {out - 1}) | ({new - 1} if new else set())
    return set()


def _parted(marks: Marks, wanted: np.uint64, *, most: int = 1) -> Iterator[list[int]]:
    """Some of a few numbers whose sum is the wanted one (Horowitz and Sahni, 1974)."""
    cut = len(marks) // 2
    sums = []
    for own in (marks[:cut], marks[cut:]):
        every = np.zeros(1, dtype=np.uint64)
        for one in own:
            every = np.concatenate([every, every + one])
        sums.append(every)
    order = np.argsort(sums[1], kind="stable")
    ordered = sums[1][order]
    at = np.minimum(np.searchsorted(ordered, wanted - sums[0]), len(ordered) - 1)
    for hit in np.flatnonzero(ordered[at] == wanted - sums[0])[:most].tolist():
        ways = hit | int(order[at[hit]]) << cut
        yield [k for k in range(len(marks)) if ways >> k & 1]
