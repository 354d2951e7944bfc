"""Rounding of each cell by itself: sums of rounded cells are not the rounded sums.

A count n is k b + r with 0 <= r < b, where b is the base. It becomes

    random, fixed   k b with probability 1 - r/b, (k + 1) b with probability r/b:
                    mean n, variance r (b - r)
    nearest         the nearer multiple of b, the upper one of two that are as near
    midpoint        ceil(n/b) b - floor(b/2), and 0 for 0: about the middle of what it may have been

``random`` draws anew for each cell of each table, and can be averaged away by whoever gets the
same count again; ``fixed`` takes its chance from the key of the cell's people, so that the same
people are always rounded alike. A multiple of b stays as it is, with ``midpoint`` only 0 does.

Statistics New Zealand (base 3), Statistics Canada (base 5): Fellegi 1975, "Controlled random
rounding", Survey Methodology 1(2). Midpoint: OpenSAFELY, "Updated disclosure control guidance".

Chances are exact, from words of 64 bits. A value v = n w stands between two multiples of the base,

    v = k b + f b,   f = R / d,   d = q b,   n p = k d + R,   0 <= R < d

where
    n      a count
    w      its weight p / q in lowest terms, 1 where everybody was counted
    k      how many whole bases there are
    f      how far v is on the way to the next multiple, and the probability of going up
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints
from headcount.errors import ConfigError, InputError
from headcount.noise.source import Words
from headcount.release.changed import ChangeTable, Off
from headcount.tabulate.published import TableCells

WORD = 1 << 64


@dataclass(frozen=True, eq=False, repr=False)
class _Parts:
    """Values as multiples of the base and what is left; each different count is worked out once.

    where
        value_of     for each cell, in the shape of the counts, the position of its count below
        lower        k b of each different count
        remainders   R of each different count
        denominator  d
    """

    value_of: Ints
    lower: Ints
    remainders: Sequence[int]
    denominator: int


def parts(counts: Ints, *, base: int, weight: Fraction = Fraction(1)) -> _Parts:
    """Every count times its weight, in multiples of the base; exact for numbers of any size."""
    different, value_of = np.unique(counts, return_inverse=True)
    denominator = weight.denominator * base
    pairs = [divmod(n * weight.numerator, denominator) for n in different.tolist()]
    return _Parts(
        value_of=value_of.reshape(counts.shape),
        lower=np.array([k * base for k, _ in pairs], dtype=np.int64),
        remainders=[r for _, r in pairs],
        denominator=denominator,
    )


def up_by_chance(found: _Parts, words: Words, *, start: int = 0) -> Flags:
    """Which cells go up: cell i by word start + i, with probability exactly f.

    The word is the first 64 binary digits of a uniform number U, and the cell goes up if U < f.
    Where the digits of f begin with the very same 64, the words that extend this one decide.
    """
    cuts, rests = [], []
    for remainder in found.remainders:
        cut, rest = divmod(remainder << 64, found.denominator)
        cuts.append(cut)
        rests.append(rest)
    cut_of = np.array(cuts, dtype=np.uint64)
    value_of = found.value_of.ravel()
    up = np.empty(len(value_of), dtype=bool)
    done = 0
    for some in words.run(start, len(value_of)):
        here = value_of[done : done + len(some)]
        up[done : done + len(some)] = some < cut_of[here]
        for tie in np.flatnonzero(some == cut_of[here]):
            more = words.extension(start + done + int(tie))
            up[done + tie] = _below(rests[here[tie]], found.denominator, more)
        done += len(some)
    return up.reshape(found.value_of.shape)


def _below(rest: int, denominator: int, extension: Iterator[int]) -> bool:
    """Whether a uniform number with these words as digits is below rest / denominator."""
    while rest:
        cut, rest = divmod(rest << 64, denominator)
        word = next(extension)
        if word != cut:
            return word < cut
    return False


def _up_by_keys(found: _Parts, keys: NDArray[np.uint64]) -> Flags:
    """Which cells go up: those with key d < R 2^64, so that the same key always does the same.

    Of the 2^64 keys a whole number lets a cell go up: its probability is f to within 2^-64.
    """
    if found.denominator > WORD:
        raise ConfigError(
            "rounding",
            place="weight",
            found=f"a base times a denominator of {found.denominator}",
            expected="at most 2^64, the number of keys",
        )
    cuts = [-(-(remainder << 64) // found.denominator) for remainder in found.remainders]
    return np.asarray(keys < np.array(cuts, dtype=np.uint64)[found.value_of], dtype=bool)


class How(StrEnum):
    """Which of the two multiples a count becomes."""

    RANDOM = "random"
    FIXED = "fixed"
    NEAREST = "nearest"
    MIDPOINT = "midpoint"


BY_CHANCE = (How.RANDOM, How.FIXED)
"""The rules that are no function of the count alone."""


@dataclass(frozen=True, kw_only=True)
class CellRule:
    """How cells are rounded.

    where
        base        b, 2 or more
        how         see the module
        small_only  only counts below the base are rounded (small cell adjustment, United Kingdom
                    2001): inner cells are, and margins added up from them again
        weight      what a person of a sample stands for; n x weight is rounded
    """

    base: int
    how: How = How.RANDOM
    small_only: bool = False
    weight: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        check_base(self.base)
        if self.weight <= 0:
            raise ConfigError(
                "rounding", place="weight", found=str(self.weight), expected="more than 0"
            )
        if self.small_only and self.how == How.MIDPOINT:
            raise ConfigError(
                "rounding",
                place="small_only",
                found="with how = 'midpoint', by which small counts do not become multiples",
                expected="how = 'random', 'fixed' or 'nearest'",
            )
        if self.small_only and self.weight != 1:
            raise ConfigError(
                "rounding",
                place="small_only",
                found=f"a weight of {self.weight}, by which larger counts are not whole",
                expected="counts of everybody",
            )


def check_base(base: int) -> None:
    """Refuse a base by which nothing is rounded."""
    if base < 2:
        raise ConfigError("rounding", place="base", found=str(base), expected="2 or more")


def check_counts(counts: Ints) -> None:
    """Refuse what is no count; the message gives none."""
    if not np.issubdtype(counts.dtype, np.integer):
        raise InputError("rounding", found=f"counts of type {counts.dtype}", expected="integers")
    if counts.size and counts.min() < 0:
        raise InputError("rounding", found="a count below 0", expected="0 or more")


def round_cells(
    counts: Ints,
    rule: CellRule,
    *,
    words: Words | None = None,
    start: int = 0,
    keys: NDArray[np.uint64] | None = None,
) -> Ints:
    """Every count rounded by itself.

    where
        words   for ``random``: words of a stream, one a cell from number ``start`` on
        keys    for ``fixed``: the key of each cell
    """
    check_counts(counts)
    found = parts(counts, base=rule.base, weight=rule.weight)
    lower = found.lower[found.value_of]
    if rule.how == How.MIDPOINT:
        more = np.array([r > 0 for r in found.remainders], dtype=bool)[found.value_of]
        return np.where(counts > 0, lower + more * rule.base - rule.base // 2, 0)
    rounded = lower + _up(found, rule.how, words, start, keys) * rule.base
    if rule.small_only:
        return np.where(counts < rule.base, rounded, counts)
    return np.asarray(rounded, dtype=np.int64)


def _up(
    found: _Parts,
    how: How,
    words: Words | None,
    start: int,
    keys: NDArray[np.uint64] | None,
) -> Flags:
    if how == How.RANDOM:
        if words is None:
            raise TypeError("round_cells: how = 'random' needs words")
        return up_by_chance(found, words, start=start)
    if how == How.FIXED:
        if keys is None or keys.shape != found.value_of.shape:
            raise TypeError("round_cells: how = 'fixed' needs a key for each cell")
        return _up_by_keys(found, keys)
    over = [2 * r >= found.denominator for r in found.remainders]
    return np.array(over, dtype=bool)[found.value_of]


def withheld(counts: Ints, *, below: int, zeros: bool = True) -> Flags:
    """Which cells are withheld: true counts below a threshold.

    where
        zeros   whether counts of 0 are withheld too. As long as they are published, a withheld
                cell tells that somebody is there

    With ``below = 10`` and counts rounded to the nearest 5 this is the "10-5 rule" of the Office
    for National Statistics, which withholds zeros.
    """
    check_threshold(below)
    check_counts(counts)
    small = counts < below
    return small if zeros else small & (counts > 0)


def small_areas(people: Ints, *, below: int) -> Flags:
    """Areas with fewer people than so many: nothing but their number is published of them.

    Statistics Canada: 40, or 100 for areas that a user has drawn, and 250 for tables of income.
    """
    check_threshold(below)
    check_counts(people)
    return np.asarray(people < below, dtype=bool)


def check_threshold(below: int) -> None:
    """Refuse a threshold that nothing can be below."""
    if below < 0:
        raise ConfigError("rounding", place="below", found=str(below), expected="0 or more")


def changes(rule: CellRule, count: int) -> dict[int, float]:
    """Change -> probability of one count of everybody; see the module."""
    if rule.how in BY_CHANCE:
        down, up = -(count % rule.base), -count % rule.base
        return {up: -down / rule.base, down: 1 + down / rule.base}
    return {int(round_cells(np.array([count]), rule)[0]) - count: 1.0}


def off_by(rule: CellRule) -> Off:
    """How far a value may be from the count behind it: what the changes of all counts say."""
    if rule.weight != 1:
        return Off()  # of a sample nothing is known
    each = replace(rule, small_only=False)  # of totals, which are sums, nothing more is said
    counts = range(2 * rule.base)  # from the base on changes are the same in turn
    pairs = [(n, change) for n in counts for change, p in changes(each, n).items() if p]
    multiples = all((n + change) % rule.base == 0 for n, change in pairs)
    return Off(
        down=max(change for _, change in pairs),
        up=max(-change for _, change in pairs),
        zero_hides=max(n for n, change in pairs if n + change == 0),
        multiples_of=rule.base if multiples and not rule.small_only else 1,
        exact_above=rule.base if rule.small_only else None,
        sums=rule.small_only,
    )


def change_table(rule: CellRule) -> ChangeTable:
    """The chances of every change: from the base on, or one later, they are the same in turn."""
    first = int(changes(rule, 0) != changes(rule, rule.base))
    rows = [changes(rule, n) for n in range(rule.base + first)]
    return ChangeTable.of(rows, cycle=rule.base)


def sums_of_detail(cells: TableCells) -> Any:
    """The 0/1 matrix (detailed cells x cells) that adds detail up; None if that gives other sums.

    A detailed cell is part of another if they have people in common.
    """
    from scipy.sparse import csr_array

    detail = cells.matrix[:, cells.inner]
    part = csr_array((detail.T @ cells.matrix) > 0).astype(np.int64)
    return part if (detail @ part != cells.matrix).nnz == 0 else None
