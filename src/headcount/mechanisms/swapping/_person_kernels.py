"""Drawing partners, compiled. Loads numba.

People stand in buckets (age, sex, rank). The living members of bucket b are
members[start[b]] to members[start[b] + left[b]]; whoever is taken is moved behind them.
"""

from __future__ import annotations

import numpy as np

from headcount.arrays import Floats, Ints, Ints32
from headcount.compiled import njit


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def take(row: int, b: int, start: Ints32, left: Ints32, members: Ints32, place: Ints32) -> None:
    """Move a row behind the living members of its bucket."""
    last = start[b] + left[b] - 1
    here, other = place[row], members[last]
    members[here], members[last] = other, row
    place[other], place[row] = here, last
    left[b] -= 1


@njit(nogil=True, cache=True)
def choose(
    age: int,
    sex: int,
    rank: int,
    k: int,
    chance: float,
    sizes: tuple[int, int, int],
    start: Ints32,
    left: Ints32,
    members: Ints32,
) -> int:
    """One of the living within k, or of the nearest living; -1 if nobody lives."""
    ages, sexes, ranks = sizes
    farthest = max(ages + age, ranks + rank, 1)
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
                    total += left[b]
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
                if target < left[b]:
                    return int(members[start[b] + target])
                target -= left[b]
    return -1


@njit(nogil=True, cache=True)
def draw_partners(
    age: Ints,
    sex: Ints,
    rank: Ints,
    k: int,
    chance: Floats,
    sizes: tuple[int, int, int],
    bucket: Ints,
    start: Ints32,
    left: Ints32,
    members: Ints32,
    place: Ints32,
) -> Ints:
    """A partner in the pool for each row, nobody twice; -1 when the pool is used up."""
    partner = np.full(age.size, -1, dtype=np.int64)
    for i in range(age.size):
        found = choose(age[i], sex[i], rank[i], k, chance[i], sizes, start, left, members)
        if found < 0:
            break
        partner[i] = found
        take(found, bucket[found], start, left, members, place)
    return partner


@njit(nogil=True, cache=True)
def pair_areas(
    visits: Ints,
    area: Ints,
    first: Ints,
    age: Ints,
    sex: Ints,
    rank: Ints,
    k: int,
    chance: Floats,
    sizes: tuple[int, int, int],
    bucket: Ints,
    start: Ints32,
    left: Ints32,
    members: Ints32,
    place: Ints32,
) -> Ints:
    """Pair rows in the order of ``visits`` with rows of other areas.

    Rows first[a] to first[a + 1] are those of area a. Where neighbours in ``visits`` are of one
    area, its unpaired rows leave the buckets before the first and come back after the last, so
    partners are always outside it. Rows that find nobody keep -1.
    """
    partner = np.full(age.size, -1, dtype=np.int64)
    living = age.size
    at = 0
    while at < visits.size:
        own = area[visits[at]]
        for row in range(first[own], first[own + 1]):
            if partner[row] < 0:
                take(row, bucket[row], start, left, members, place)
                living -= 1
        while at < visits.size and area[visits[at]] == own:
            row = visits[at]
            at += 1
            if partner[row] >= 0 or living == 0:
                continue
            found = choose(
                age[row], sex[row], rank[row], k, chance[row], sizes, start, left, members
            )
            partner[row], partner[found] = found, row
            take(found, bucket[found], start, left, members, place)
            living -= 1
        for row in range(first[own], first[own + 1]):
            if partner[row] < 0:
                put_back(row, bucket[row], start, left, members, place)
                living += 1
    return partner


@njit(nogil=True, cache=True)
def put_back(row: int, b: int, start: Ints32, left: Ints32, members: Ints32, place: Ints32) -> None:
    """Move a row that was taken to the end of the living members of its bucket."""
    last = start[b] + left[b]
    here, other = place[row], members[last]
    members[here], members[last] = other, row
    place[other], place[row] = here, last
    left[b] += 1
