"""Drawing partners from buckets, compiled. Loads numba."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Floats, Ints, Ints32
from headcount.compiled import kernel, njit
from headcount.mechanisms.swapping.similar import Buckets, Places


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
def fitting_member(b: int, target: int, own: Ints, k: int, buckets: Buckets) -> int:
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
                    return fitting_member(b, target, own, k, buckets)
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
                put_back(row, buckets)
                living += 1
    return partner


@njit
def put_back(row: int, buckets: Buckets) -> None:
    """Move a row that was taken to the end of the living members of its bucket."""
    start, left, members, place = buckets.start, buckets.left, buckets.members, buckets.place
    b = buckets.bucket[row]
    last = start[b] + left[b]
    here, other = place[row], members[last]
    members[here], members[last] = other, row
    place[other], place[row] = here, last
    left[b] += 1
