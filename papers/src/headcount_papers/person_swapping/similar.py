"""Candidate partners for person swapping: random, pseudo-random and k-similar.

One distance serves all three (Christ, Radway & Bellovin 2022, 4.2):

    d(x, y) = max(|age_x - age_y|, [sex_x != sex_y], |rank_x - rank_y|, |level_x - level_y|, ...)

where
    rank    position of a person's race-by-Hispanic code in the order of frequency
    level   of each further attribute in which similar swapping asks for likeness; none by default

A partner is drawn uniformly from those with d <= k; if there are none, k grows by one until there
are. So sex is kept at k = 0 and free from k = 1. *Similar* swapping compares all three;
*pseudo-random* swapping compares age and sex with k = 0, which gives the same or the nearest age
and sex, whatever the race; *random* swapping compares nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from headcount.arrays import Codes, Floats, Ints, Ints32
from headcount.compiled import kernel, njit
from headcount.errors import ConfigError, InputError

Kind = Literal["random", "pseudo-random", "similar"]
KEYS: dict[str, tuple[str, ...]] = {
    "random": (),
    "pseudo-random": ("age", "sex"),
    "similar": ("age", "sex", "race", "hispanic"),
}
"""The attributes that each kind of swapping compares."""

CODES = 126
"""63 races, each Hispanic or not."""


@dataclass(frozen=True, kw_only=True)
class PartnerRule:
    """How alike partners must be: the kind of swapping, its k and the order of frequency.

    where
        order   race-by-Hispanic codes, 2 race + Hispanic, most frequent first
        alike   further attributes whose levels may differ by k at most
    """

    kind: Kind = "similar"
    k: int = 0
    order: tuple[int, ...] | None = None
    alike: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            known = " or ".join(get_args(Kind))
            raise ConfigError("swapping", place="kind", found=repr(self.kind), expected=known)
        if type(self.k) is not int or self.k < 0:
            raise ConfigError(
                "swapping", place="k", found=repr(self.k), expected="a whole number, 0 or more"
            )
        if self.k and self.kind != "similar":
            raise ConfigError(
                "swapping", place="k", found=f"{self.k} with {self.kind}", expected="0"
            )
        if self.alike and self.kind != "similar":
            raise ConfigError(
                "swapping", place="alike", found=f"attributes with {self.kind}", expected="none"
            )
        if self.order is not None and len(set(self.order)) != len(self.order):
            raise ConfigError(
                "swapping", place="order", found="a code twice", expected="each code once"
            )


class Places(NamedTuple):
    """Where rows stand: the coordinates that the distance compares.

    where
        more   levels of further attributes, rows x attributes
    """

    age: Ints
    sex: Ints
    rank: Ints
    more: Ints

    def of(self, rows: Ints) -> Places:
        """Where some of them stand."""
        return Places(*(axis[rows] for axis in self))

    def needed(self, other: Places, rows: Ints, partners: Ints) -> Ints:
        """The distance of each of some rows from its partner, a row of ``other``."""
        age = np.abs(self.age[rows] - other.age[partners])
        rank = np.abs(self.rank[rows] - other.rank[partners])
        differ = self.sex[rows] != other.sex[partners]
        levels = np.abs(self.more[rows] - other.more[partners]).max(axis=1, initial=0)
        farther: Ints = np.maximum(np.maximum(age, rank), np.maximum(differ, levels))
        return farther


class Buckets(NamedTuple):
    """People in buckets (age, sex, rank).

    The living members of bucket b are members[start[b]] to members[start[b] + left[b]]; whoever is
    taken is moved behind them. ``sizes`` are the numbers of ages, sexes, ranks and of levels of
    further attributes (``more``, rows x attributes, compared person by person), ``bucket`` is that
    of each row and ``place`` its position among the members.
    """

    sizes: tuple[int, int, int, int]
    more: Ints
    bucket: Ints
    start: Ints32
    left: Ints32
    members: Ints32
    place: Ints32

    def copy(self) -> Buckets:
        """The same, to take people from: an index serves many swaps."""
        parts = (self.left.copy(), self.members.copy(), self.place.copy())
        return Buckets(self.sizes, self.more, self.bucket, self.start, *parts)


def frequency_order(*tables: Codes, codes: int = CODES) -> tuple[int, ...]:
    """Race-by-Hispanic codes of some tables together, most frequent first, ties by code.

    Codes below ``codes`` that nobody has stand at the end.
    """
    joint = np.concatenate([_joint(table) for table in tables])
    count = np.bincount(joint, minlength=codes)
    return tuple(np.argsort(-count, kind="stable").tolist())


def places(codes: Codes, likeness: PartnerRule, *, rows: int) -> Places:
    """The coordinates of each row; those that the kind of swapping does not compare are 0."""
    compared = (*KEYS[likeness.kind], *likeness.alike)
    for name in compared:
        if name not in codes:
            raise InputError(
                "swapping",
                place=f"{likeness.kind} swapping",
                found=f"no attribute {name!r}",
                expected=f"all of {', '.join(compared)}",
            )
    nowhere = np.zeros(rows, dtype=np.int64)
    more = np.zeros((rows, len(likeness.alike)), dtype=np.int64)
    for number, name in enumerate(likeness.alike):
        more[:, number] = codes[name]
    if likeness.kind == "random":
        return Places(nowhere, nowhere, nowhere, more)
    age, sex = (codes[name].astype(np.int64) for name in ("age", "sex"))
    if likeness.kind == "pseudo-random":
        return Places(age, sex, nowhere, more)
    assert likeness.order is not None
    return Places(age, sex, _ranks(_joint(codes), likeness.order), more)


def _ranks(joint: Ints, order: Sequence[int]) -> Ints:
    rank_of = np.full(max(int(joint.max(initial=0)), *order, 0) + 1, -1, dtype=np.int64)
    rank_of[list(order)] = np.arange(len(order))
    ranks = rank_of[joint]
    if (ranks < 0).any():
        missing = int(joint[ranks < 0][0])
        raise InputError(
            "swapping",
            place="order",
            found=f"no race-by-Hispanic code {missing}",
            expected="every code that somebody has",
        )
    return ranks


def _joint(codes: Codes) -> Ints:
    hispanic = codes["hispanic"]
    if hispanic.max(initial=0) > 1:
        raise InputError("swapping", place="hispanic", found="a code above 1", expected="0 or 1")
    return codes["race"].astype(np.int64) * 2 + hispanic


@kernel
def fill_buckets(bucket: Ints, buckets: int) -> tuple[Ints32, Ints32, Ints32, Ints32]:
    """Start and size of each bucket, its members, and each row's position among them."""
    left = np.zeros(buckets, dtype=np.int32)
    for b in bucket:
        left[b] += 1
    start = np.zeros(buckets, dtype=np.int32)
    for b in range(1, buckets):
        start[b] = start[b - 1] + left[b - 1]
    members = np.empty(bucket.size, dtype=np.int32)
    place = np.empty(bucket.size, dtype=np.int32)
    used = start.copy()
    for row in range(bucket.size):
        b = bucket[row]
        members[used[b]] = row
        place[row] = used[b]
        used[b] += 1
    return start, left, members, place


@njit
def take(row: int, buckets: Buckets) -> None:
    """Move a row behind the living members of its bucket."""
    start, left, members, place = buckets.start, buckets.left, buckets.members, buckets.place
    b = buckets.bucket[row]
    last = start[b] + left[b] - 1
    here, other = place[row], members[last]
    members[here], members[last] = other, row
    place[other], place[row] = here, last
    left[b] -= 1


@njit
def alike(one: Ints, other: Ints, k: int) -> bool:
    """Whether no level differs by more than k."""
    number = 0
    while number < one.size and abs(one[number] - other[number]) <= k:
        number += 1
    return number == one.size


@njit
def fitting(b: int, own: Ints, k: int, buckets: Buckets) -> int:
    """How many of the living members of a bucket are alike in all further attributes."""
    if own.size == 0:
        return int(buckets.left[b])
    found = 0
    for place in range(buckets.start[b], buckets.start[b] + buckets.left[b]):
        found += alike(own, buckets.more[buckets.members[place]], k)
    return found


@njit
def _fitting_member(b: int, target: int, own: Ints, k: int, buckets: Buckets) -> int:
    """The member of that number among those alike."""
    place = buckets.start[b] + (target if own.size == 0 else 0)
    while own.size > 0:
        if alike(own, buckets.more[buckets.members[place]], k):
            if target == 0:
                break
            target -= 1
        place += 1
    return int(buckets.members[place])


@njit
def choose(places: Places, row: int, k: int, chance: float, buckets: Buckets) -> int:
    """One of the living within k, or of the nearest living; -1 if nobody lives."""
    age, sex, rank, own = places.age[row], places.sex[row], places.rank[row], places.more[row]
    ages, sexes, ranks, levels = buckets.sizes
    farthest = max(ages + age, ranks + rank, 1)
    for level in own:
        farthest = max(farthest, levels + level)
    total, low, high, from_rank, to_rank, s0, s1 = 0, 0, 0, 0, 0, 0, 0
    while True:
        low, high = max(age - k, 0), min(age + k + 1, ages)
        from_rank, to_rank = max(rank - k, 0), min(rank + k + 1, ranks)
        s0, s1 = (min(sex, sexes), min(sex + 1, sexes)) if k == 0 else (0, sexes)
        total = 0
        for a in range(low, high):
            for s in range(s0, s1):
                line = (a * sexes + s) * ranks
                for b in range(line + from_rank, line + to_rank):
                    total += fitting(b, own, k, buckets)
        if total > 0:
            break
        if k >= farthest:
            return -1
        k += 1
    target = min(int(chance * total), total - 1)
    for a in range(low, high):
        for s in range(s0, s1):
            line = (a * sexes + s) * ranks
            for b in range(line + from_rank, line + to_rank):
                here = fitting(b, own, k, buckets)
                if target < here:
                    return _fitting_member(b, target, own, k, buckets)
                target -= here
    return -1


def _sweeps(places: Places, k: int, chance: Floats, buckets: Buckets) -> int:
    """The work if each row looks into all buckets, and at all who are in them, twice."""
    return chance.size * (40 + 4 * (buckets.start.size + buckets.more.size))


@kernel(work=_sweeps)
def draw_partners(places: Places, k: int, chance: Floats, buckets: Buckets) -> Ints:
    """A partner in the pool for each row, nobody twice; -1 when the pool is used up."""
    partner = np.full(chance.size, -1, dtype=np.int64)
    for i in range(chance.size):
        found = choose(places, i, k, chance[i], buckets)
        if found < 0:
            break
        partner[i] = found
        take(found, buckets)
    return partner


@kernel(work=lambda visits, area, first, *rest: _sweeps(*rest))
def pair_areas(
    visits: Ints,
    area: Ints,
    first: Ints,
    places: Places,
    k: int,
    chance: Floats,
    buckets: Buckets,
) -> Ints:
    """Pair rows in the order of ``visits`` with rows of other areas.

    Rows first[a] to first[a + 1] are those of area a. Where neighbours in ``visits`` are of one
    area, its unpaired rows leave the buckets before the first and come back after the last, so
    partners are always outside it. Rows that find nobody keep -1.
    """
    partner = np.full(chance.size, -1, dtype=np.int64)
    living = chance.size
    at = 0
    while at < visits.size:
        own = area[visits[at]]
        for row in range(first[own], first[own + 1]):
            if partner[row] < 0:
                take(row, buckets)
                living -= 1
        while at < visits.size and area[visits[at]] == own:
            row = visits[at]
            at += 1
            if partner[row] >= 0 or living == 0:
                continue
            found = choose(places, row, k, chance[row], buckets)
            partner[row], partner[found] = found, row
            take(found, buckets)
            living -= 1
        for row in range(first[own], first[own + 1]):
            if partner[row] < 0:
                _put_back(row, buckets)
                living += 1
    return partner


@njit
def _put_back(row: int, buckets: Buckets) -> None:
    """Move a row that was taken to the end of the living members of its bucket."""
    start, left, members, place = buckets.start, buckets.left, buckets.members, buckets.place
    b = buckets.bucket[row]
    last = start[b] + left[b]
    here, other = place[row], members[last]
    members[here], members[last] = other, row
    place[other], place[row] = here, last
    left[b] += 1
