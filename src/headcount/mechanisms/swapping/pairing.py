"""Pairs, nearest first: partners share a group and stand in different places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.compiled import njit

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stage:
    """One round of pairing: who may take part, who is near whom, and who may not be paired.

    where
        group    households of one group may be paired: same key, same unit of the stage's level
        place    households in the same place may not: the unit that they have to leave
        places   number of places
        joins    whether a household takes part: being in another place is far enough for it
    """

    group: Rows
    place: Rows
    places: int
    joins: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Who changes places with whom, and who looked for a partner in vain."""

    first: Rows
    second: Rows
    unpaired: Rows

    def __len__(self) -> int:
        return len(self.first)


def choose_pairs(
    order: Rows,
    stages: Sequence[Stage],
    *,
    wanted: int,
    forced: int = 0,
    rng: np.random.Generator,
) -> Pairs:
    """Make exactly ``wanted`` pairs out of the first of ``order``, if partners can be found.

    The first 2 x wanted are paired with each other, stage by stage. Those left over take partners
    from the rest, the first of the order before the others, until there are enough pairs. Where
    even that fails, more of the order are tried. The first ``forced`` are all paired if they can
    be, even where that makes more pairs than wanted.
    """
    rank = np.empty(int(order.max(initial=-1)) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    firsts: list[Rows] = []
    seconds: list[Rows] = []
    stuck: list[Rows] = []
    made, taken = 0, 0
    waiting = order
    while len(waiting) and (made < wanted or taken < forced):
        take = max(2 * (wanted - made), forced - taken)
        tried, waiting = waiting[:take], waiting[take:]
        taken += len(tried)
        a, b, left = _pair_among(tried, stages)
        c, d = _pair_with_rest(left, waiting, stages, rng)
        best = np.argsort(rank[c])
        c, d = c[best], d[best]
        room = max(wanted - made - len(a), 0)
        keep = (np.arange(len(c)) < room) | (rank[c] < forced)
        stuck.append(left[~np.isin(left, c)])
        c, d = c[keep], d[keep]
        firsts += [a, c]
        seconds += [b, d]
        made += len(a) + len(c)
        gone = np.zeros(len(rank), dtype=bool)
        gone[c] = gone[d] = True
        waiting = waiting[~gone[waiting]]
    none = np.empty(0, dtype=np.int64)
    return Pairs(*(np.concatenate([none, *parts]) for parts in (firsts, seconds, stuck)))


def _pair_among(members: Rows, stages: Sequence[Stage]) -> tuple[Rows, Rows, Rows]:
    """Pair members with each other in each stage in turn; return pairs and who is left."""
    firsts, seconds = [members[:0]], [members[:0]]
    for stage in stages:
        joining = members[stage.joins[members]]
        if len(joining) < 2:
            continue
        group = stage.group[joining]
        place = stage.place[joining]
        order = np.argsort(group * stage.places + place, kind="stable")
        mate = np.full(len(joining), -1, dtype=np.int64)
        pair_groups(group[order], place[order], mate)
        lower = np.flatnonzero(mate > np.arange(len(mate)))
        firsts.append(joining[order[lower]])
        seconds.append(joining[order[mate[lower]]])
        out = np.zeros(len(stage.group), dtype=bool)
        out[firsts[-1]] = out[seconds[-1]] = True
        members = members[~out[members]]
    return np.concatenate(firsts), np.concatenate(seconds), members


def _pair_with_rest(
    left: Rows, rest: Rows, stages: Sequence[Stage], rng: np.random.Generator
) -> tuple[Rows, Rows]:
    """Find partners for those left over among the rest, in each stage in turn."""
    firsts, seconds = [left[:0]], [left[:0]]
    for stage in stages:
        seeking = left[stage.joins[left]]
        offered = rest[stage.joins[rest]]
        offered = offered[np.isin(stage.group[offered], stage.group[seeking])]
        if not len(seeking) or not len(offered):
            continue
        code = stage.group[offered] * stage.places + stage.place[offered]
        order = np.argsort(code, kind="stable")
        offered, code = offered[order], code[order]
        own = stage.group[seeking] * stage.places + stage.place[seeking]
        low = np.searchsorted(code, stage.group[seeking] * stage.places)
        high = np.searchsorted(code, (stage.group[seeking] + 1) * stage.places)
        skip = np.searchsorted(code, own), np.searchsorted(code, own + 1)
        # drawn from those elsewhere only: a draw that fell on the seeker's own place would always
        # go to the first row after it
        elsewhere = high - low - (skip[1] - skip[0])
        start = low + np.floor(rng.random(len(seeking)) * elsewhere).astype(np.int64)
        start += np.where(start >= skip[0], skip[1] - skip[0], 0)
        chosen = take_partners(low, high, *skip, start, len(offered))
        found = chosen >= 0
        firsts.append(seeking[found])
        seconds.append(offered[chosen[found]])
        out = np.zeros(len(stage.group), dtype=bool)
        out[firsts[-1]] = out[seconds[-1]] = True
        left, rest = left[~out[left]], rest[~out[rest]]
    return np.concatenate(firsts), np.concatenate(seconds)


@njit(cache=True, nogil=True)
def pair_groups(group: Rows, place: Rows, mate: Rows) -> None:
    """As many pairs as each group allows; rows are sorted by group, then by place.

    A place with at most half of a group's n members: the member at i and the one at i + ceil(n/2)
    are never in the same place. A place with more: each of the others gets one of its members.
    Either way no pairing of the group has more pairs.
    """
    low, rows = 0, len(group)
    while low < rows:
        high, run, widest, widest_at = low, low, 0, low
        while high < rows and group[high] == group[low]:
            if place[high] != place[run]:
                run = high
            if high - run + 1 > widest:
                widest, widest_at = high - run + 1, run
            high += 1
        size = high - low
        others = size - widest
        if widest <= others:
            apart = size - size // 2
            for i in range(low, low + size // 2):
                mate[i], mate[i + apart] = i + apart, i
        else:
            for i in range(others):
                other = low + i if low + i < widest_at else low + i + widest
                mate[widest_at + i], mate[other] = other, widest_at + i
        low = high


@njit(cache=True, nogil=True)
def take_partners(
    low: Rows, high: Rows, skip_from: Rows, skip_to: Rows, start: Rows, offered: int
) -> Rows:
    """One partner for each seeker, from ``start`` on and round again within its group.

    Rows offered are low to high for a seeker's group; those from ``skip_from`` to ``skip_to``
    are in its own place. ``free[i]`` leads to the first row at or after i that is not taken.
    """
    free = np.arange(offered + 1)
    chosen = np.full(len(low), -1, dtype=np.int64)
    for seeker in range(len(low)):
        for turn in range(2):
            at = start[seeker] if turn == 0 else low[seeker]
            end = high[seeker] if turn == 0 else start[seeker]
            at = first_free(free, at)
            if skip_from[seeker] <= at < skip_to[seeker]:
                at = first_free(free, skip_to[seeker])
            if at < end:
                chosen[seeker] = at
                free[at] = at + 1
                break
    return chosen


@njit(cache=True, nogil=True)
def first_free(free: Rows, at: int) -> int:
    """Follow the links from ``at`` to the end, and shorten them on the way."""
    end = at
    while free[end] != end:
        end = free[end]
    while free[at] != end:
        free[at], at = end, free[at]
    return end
