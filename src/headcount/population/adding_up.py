"""Detects additive columns and rows in a table of counts: totals, and people counted twice.

Columns are compared in all rows at once by one number each, a sum of their entries with random
weights modulo 2^64. Such numbers add up where the columns do, and else all but never.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from math import log10

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints

Marks = NDArray[np.uint64]

SURE = 4.0
"""Digits that must agree by more than chance, before a sum counts as one."""

SURE_LEVELS = 2.7
"""The same of levels of place: of a hundred tables one has such sums by chance."""

NEARLY, MOSTLY = 0.01, 0.5
"""A sum is nearly one if it is off by no more than 1 % in all rows, or holds in half of them."""

MOST_FAMILIES, MOST_STEMS = 6, 40
"""How often the same people may be counted one beside the other, and names of such families."""

FEWEST_PAIRS = 8
"""Counts that are at most their partners, before that is more than chance."""

OLDEST = 130
SEXES = {"m", "f", "male", "female", "males", "females", "men", "women", "man", "woman", "w", "h"}

_AGE = re.compile(
    r"(?<![a-z\d])\d{1,3}(?!\d)|minor|adult|child|under|over|plus|young|old|senior|elderly|u18|o18"
)
_YOUNGER = {"minor", "minors", "child", "children", "young", "u18", "under18", "kids"}
_OLDER = {"adult", "adults", "o18", "over18", "old"}


@dataclass(frozen=True)
class NearSum:
    """A column that is nearly the sum of others.

    where
        total     the column
        parts     those that it nearly adds up
        wrong     the rows in which it does not
        off       by how much, in the first of them
    """

    total: int
    parts: tuple[int, ...]
    wrong: Ints
    off: int


@dataclass(frozen=True)
class Family:
    """Columns whose names share a part, by their numbers."""

    name: str
    columns: tuple[int, ...]


def digits(counts: Ints) -> float:
    """How many digits of evidence numbers carry that agree."""
    return float(np.log10(1.0 + np.abs(counts)).sum())


def runs_that_add_up(counts: Ints) -> list[tuple[int, tuple[int, ...]]]:
    """Columns (of rows x columns) that in every row are the sum of those next to them.

    Totals of totals are found too: what a total adds up is one item of the next. Totals may stand
    before their parts or after them; at least two of the parts are not empty.
    """
    ways = sums_in_order(marks_of(counts), counts.max(axis=0, initial=0) > 0)
    chance = log10(max(counts.shape[1], 1))
    sure = [found for found in ways if sum(digits(counts[:, k]) - chance for k in found) >= SURE]
    best = max(sure, key=len, default={})
    return [(k, tuple(parts)) for k, parts in best.items()]


def marks_of(counts: Ints) -> Marks:
    """One number for each column, which add up where the columns do in every row."""
    weights = np.random.default_rng(30).integers(1, 1 << 63, len(counts), dtype=np.uint64)
    marks: Marks = (counts.astype(np.uint64) * weights[:, None]).sum(axis=0, dtype=np.uint64)
    return marks


def sums_in_order(marks: Marks, filled: Flags) -> list[dict[int, list[int]]]:
    """Items that are sums of those after them, at any depth; then of those before them."""
    ways = []
    forward = range(len(marks))
    for order in (reversed(forward), forward):
        found: dict[int, list[int]] = {}
        items = np.zeros(len(marks), dtype=np.int64)  # the nearest last
        held = 0
        for k in order:
            if filled[k] and held:
                near = items[:held][::-1]
                hits = np.flatnonzero(np.cumsum(marks[near]) == marks[k])
                own = next((near[: h + 1] for h in hits if filled[near[: h + 1]].sum() > 1), None)
                if own is not None:
                    found[k] = own.tolist()
                    held -= len(own)
            items[held] = k
            held += 1
        ways.append(found)
    return ways


def nearly_sums(counts: Ints, *, among: Sequence[int] = ()) -> Iterator[NearSum]:
    """Columns that are nearly the sum of all others, or of a run that begins beside them."""
    number = counts.shape[1]
    for k in among or range(number):
        after, before = list(range(k + 1, number)), list(range(k - 1, -1, -1))
        for side in (before + after, after, before):
            if (found := _nearest(counts, k, side)) is not None:
                yield found
                break


def _nearest(counts: Ints, k: int, side: Sequence[int]) -> NearSum | None:
    """The first columns of a side whose sum is nearly a column, if there are any."""
    own = counts[:, k]
    filled = own > 0
    if len(side) < 2 or not filled.any():
        return None
    sums = np.cumsum(counts[:, list(side)], axis=1)[:, 1:]
    off = np.abs(sums[filled] - own[filled, None])
    holds = (off == 0).mean(axis=0)
    near = (off <= NEARLY * own[filled, None]).all(axis=0)
    # Small numbers are near each other by chance, and equal to each other too.
    few = digits(own[filled]) - log10(len(side)) < SURE
    likely = np.flatnonzero((holds >= MOSTLY) | (near & (holds > 0)) | (near & (len(own) >= 3)))
    if few or not len(likely):
        return None
    # A part that is nearly all of the sum is no sign of a total.
    for at in sorted(likely.tolist(), key=lambda at: -float(holds[at])):
        parts = list(side[: at + 2])
        shares = counts[:, parts].sum(axis=0)
        if len(parts) >= 2 and shares.max() <= 0.98 * shares.sum():
            wrong = np.flatnonzero(sums[:, at] != own)
            first = int(own[wrong[0]] - sums[wrong[0], at]) if len(wrong) else 0
            return NearSum(k, tuple(parts), wrong, first)
    return None


def equal_families(counts: Ints, *, sure: float = SURE) -> list[tuple[int, ...]]:
    """Runs of columns with the same sum in every row: the same people so often, and no total."""
    sums = np.cumsum(counts, axis=1)
    whole = sums[:, -1]
    if digits(whole) < sure:
        return []
    for times in range(MOST_FAMILIES, 1, -1):
        cuts = [(times * sums == share * whole[:, None]).all(axis=0) for share in range(1, times)]
        if counts.shape[1] > times + 1 and all(cut.any() for cut in cuts):
            ends = [0, *(int(np.flatnonzero(cut)[0]) + 1 for cut in cuts), counts.shape[1]]
            return [tuple(range(a, b)) for a, b in pairwise(ends)]
    return []


def levels_below_each_other(counts: Ints) -> int:
    """How many levels of place stand in one column, where the largest row is the whole of each.

    ``counts`` has a row for each place. Of many people about the same is enough; of few the sums of
    all columns must be the same.
    """
    people, sums = counts.sum(axis=1), counts.sum(axis=0)
    if len(people) < 5:
        return 1
    top = counts[int(people.argmax())]
    largest, whole = int(top.sum()), int(people.sum())
    for levels in range(2, MOST_FAMILIES + 1):
        about = abs(whole - levels * largest) <= largest // 200
        if about and log10(1 + largest) >= SURE:
            return levels
        if (sums == levels * top).all() and digits(top) >= SURE_LEVELS:
            return levels
    return 1


def families_within(counts: Ints, keys: Sequence[Sequence[str]]) -> tuple[Family, Family] | None:
    """Two families of columns, each count of the first at most its partner in the second.

    ``keys`` has the levels of each column, or the parts of its name; partners differ in one of
    them. Levels that part people, as the two sexes do, are no families.
    """
    filled = counts.max(axis=0, initial=0) > 0
    for at in range(max(map(len, keys), default=0)):
        families: dict[str, dict[tuple[str, ...], int]] = {}
        for k, key in enumerate(keys):
            if len(key) > max(at, 1) and filled[k]:
                families.setdefault(key[at], {})[(*key[:at], *key[at + 1 :])] = k
        several = [name for name, own in families.items() if len(own) > 1]
        if is_partition(tuple(families)) or len(several) > MOST_STEMS:
            continue
        for part, whole in permutations(several, 2):
            rests, others = families[part], families[whole]
            if rests.keys() <= others.keys():
                small = Family(part, tuple(rests.values()))
                large = Family(whole, tuple(others[rest] for rest in rests))
                if _is_within(counts, small, large):
                    return small, large
    return None


def _is_within(counts: Ints, part: Family, whole: Family) -> bool:
    """Whether counts are at most their partners; a few rows tell it of most that are not."""
    for rows in (slice(0, 100), slice(None)):
        small, large = counts[rows, list(part.columns)], counts[rows, list(whole.columns)]
        if (small > large).any():
            return False
    return int((large > 0).sum()) >= FEWEST_PAIRS


def parts_of_names(names: Sequence[str]) -> set[tuple[tuple[str, ...], ...]]:
    """Names of columns taken apart at a sign: at all of them, at the first, at the last."""
    return {
        tuple(tuple(cut(name, sign, number)) for name in names)
        for sign in "_ .-:/"
        if sum(sign in name for name in names) > 1
        for cut, number in ((str.split, -1), (str.split, 1), (str.rsplit, 1))
    }


def sort_of(levels: Sequence[str]) -> str:
    """What levels look like: "sex", "age" or any other "group"."""
    plain = [level.casefold() for level in levels]
    if set(plain) <= SEXES:
        return "sex"
    years = sorted(one for one in map(ages_of, plain) if one[0] >= 0)
    twice = sum(after[0] <= before[1] for before, after in pairwise(years))  # codes, not ages
    aged = all(_AGE.search(level) for level in plain) and 2 * twice <= len(plain)
    return "age" if aged else "group"


def is_partition(levels: Sequence[str]) -> bool:
    """Whether levels are all there can be: both sexes, or all ages."""
    plain = [level.casefold() for level in levels]
    sort = sort_of(plain)
    if sort != "age":
        return sort == "sex" and len(plain) == 2
    if len(plain) == 2 and any(one in _OLDER for one in plain):
        return any(one in _YOUNGER for one in plain)
    ranges = sorted(map(ages_of, plain))
    joined = all(low == before + 1 for (_, before), (low, _) in pairwise(ranges))
    return joined and ranges[0][0] == 0 and ranges[-1][1] >= OLDEST


def ages_of(level: str) -> tuple[int, int]:
    """The first and last year of a group of ages; (-1, -1) of what is none."""
    numbers = [int(one) for one in re.findall(r"\d+", level)]
    if re.search(r"under|below|less|<|^u\d|unter|moins|menos", level) and len(numbers) == 1:
        return 0, numbers[0] - 1
    if len(numbers) == 1 and re.search(r"\+|plus|over|older|more|>|above|^o\d|over", level):
        return numbers[0], OLDEST
    if len(numbers) == 2 and numbers[0] <= numbers[1]:
        return numbers[0], numbers[1]
    return (numbers[0], numbers[0]) if len(numbers) == 1 else (-1, -1)
