"""Maximum matching by need, then nearest first: who is at risk comes before the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.compiled import kernel, njit
from headcount.mechanisms.swapping._need import (
    Fits,
    alone,
    couples_for,
    forest,
    partners_for,
    serve,
)


@dataclass(frozen=True, eq=False)
class Stage:
    """One round of pairing: who may take part, who is near whom, and who may not be paired.

    where
        group    households of one group may be paired: same key, same unit of the stage's level
        place    households in the same place may not: the unit that they have to leave
        places   number of places
        joins    whether a household takes part: being in another place is far enough for it
    """

    group: Ints
    place: Ints
    places: int
    joins: Flags


@dataclass(frozen=True, eq=False)
class SwapPairs:
    """Who changes places with whom, and who looked for a partner in vain."""

    first: Ints
    second: Ints
    unpaired: Ints

    def __len__(self) -> int:
        return len(self.first)

    def __add__(self, more: SwapPairs) -> SwapPairs:
        return SwapPairs(
            np.concatenate([self.first, more.first]),
            np.concatenate([self.second, more.second]),
            np.concatenate([self.unpaired, more.unpaired]),
        )


def choose_pairs(
    order: Ints,
    fits: Fits,
    stages: Sequence[Stage],
    *,
    wanted: int,
    at_risk: int = 0,
    all_at_risk: bool = False,
    rng: np.random.Generator,
) -> SwapPairs:
    """Exactly ``wanted`` pairs, or as many as there can be; the first ``at_risk`` come first.

    1. As many of those at risk are served as pairs that fit can hold, with (unless
       ``all_at_risk``) no more pairs than are wanted; of such choices the first in the order. They
       are paired with each other as far as they can be, the rest of them with others.
    2. The others follow in their order until there are enough pairs.
    3. If there are still too few, pairs are broken up to make two of one, nobody served being
       left out, until there are enough or no more can be.

    ``stages`` say who is preferred as a partner, nearest first; the last of them are all that fit.
    """
    risky, others = order[:at_risk], order[at_risk:]
    served = _pair_by_need(
        risky, others, fits, stages, pairs=-1 if all_at_risk else wanted, rng=rng
    )
    gone = np.zeros(len(fits.group), dtype=bool)
    gone[served.first] = gone[served.second] = True
    more = _pair_in_order(
        others[~gone[others]], stages, wanted=max(wanted - len(served), 0), rng=rng
    )
    pairs = served + more
    if len(pairs) < wanted:
        pairs = _complete(pairs, others, fits, wanted=wanted)
    return pairs


def _pair_by_need(
    risky: Ints,
    others: Ints,
    fits: Fits,
    stages: Sequence[Stage],
    *,
    pairs: int,
    rng: np.random.Generator,
) -> SwapPairs:
    """Serve those at risk: with each other, with others near by, and at last with any that help."""
    if not len(risky):
        return SwapPairs(risky, risky, risky)
    served = serve(risky, fits, pairs=pairs)
    first, second, left = settle(*_pair_among(served.rows, stages), fits)
    one, other = _pair_with_rest(left, others, stages, rng)
    left = left[~np.isin(left, one)]
    first, second = np.concatenate([first, one]), np.concatenate([second, other])
    if len(left):
        paired = np.concatenate([first, second, left])
        wanting = np.isin(fits.group, fits.group[left])
        free = wanting.copy()
        free[paired] = False
        helping = partners_for(paired[wanting[paired]], others[free[others]], fits)
        first, second, left = settle(first, second, np.concatenate([left, helping]), fits)
        assert not len(left), "whoever is served has a partner"
    return SwapPairs(first, second, served.hopeless)


def _pair_in_order(
    order: Ints, stages: Sequence[Stage], *, wanted: int, rng: np.random.Generator
) -> SwapPairs:
    """Make ``wanted`` pairs out of the first of ``order``, so far as partners are found.

    The first 2 x wanted are paired with each other, stage by stage. Those left over take partners
    from the rest, the first of the order before the others, until there are enough pairs. Where
    even that fails, more of the order are tried.
    """
    rank = np.empty(int(order.max(initial=-1)) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    firsts: list[Ints] = []
    seconds: list[Ints] = []
    stuck: list[Ints] = []
    made = 0
    waiting = order
    while len(waiting) and made < wanted:
        take = 2 * (wanted - made)
        tried, waiting = waiting[:take], waiting[take:]
        a, b, left = _pair_among(tried, stages)
        c, d = _pair_with_rest(left, waiting, stages, rng)
        best = np.argsort(rank[c])
        c, d = c[best], d[best]
        stuck.append(left[~np.isin(left, c)])
        room = wanted - made - len(a)
        c, d = c[:room], d[:room]
        firsts += [a, c]
        seconds += [b, d]
        made += len(a) + len(c)
        gone = np.zeros(len(rank), dtype=bool)
        gone[c] = gone[d] = True
        waiting = waiting[~gone[waiting]]
    none = np.empty(0, dtype=np.int64)
    return SwapPairs(*(np.concatenate([none, *parts]) for parts in (firsts, seconds, stuck)))


def _complete(pairs: SwapPairs, others: Ints, fits: Fits, *, wanted: int) -> SwapPairs:
    """Two more of a group where one of its pairs can be broken up for them."""
    paired = np.concatenate([pairs.first, pairs.second])
    single = np.ones(len(fits.group), dtype=bool)
    single[paired] = False
    alone = others[single[others]]
    groups, many = np.unique(fits.group[alone], return_counts=True)
    some = np.isin(fits.group, groups[many > 1])
    rows = paired[some[paired]]
    added = couples_for(rows, alone[some[alone]], fits, pairs=wanted - len(pairs))
    if not len(added):
        return pairs
    first, second, left = settle(pairs.first, pairs.second, added, fits)
    assert not len(left), "whoever is added has a partner"
    unpaired = pairs.unpaired[~np.isin(pairs.unpaired, added)]
    return SwapPairs(first, second, unpaired)


def _pair_among(members: Ints, stages: Sequence[Stage]) -> tuple[Ints, Ints, Ints]:
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
    left: Ints, rest: Ints, stages: Sequence[Stage], rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Find partners for those left over among the rest, in each stage in turn."""
    firsts, seconds = [left[:0]], [left[:0]]
    for stage in stages:
        seeking = left[stage.joins[left]]
        if not len(seeking):
            continue
        offered = rest[stage.joins[rest]]
        offered = offered[np.isin(stage.group[offered], stage.group[seeking])]
        if not len(offered):
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


def settle(first: Ints, second: Ints, left: Ints, fits: Fits) -> tuple[Ints, Ints, Ints]:
    """The most pairs of the households given: those of pairs made, and those left over.

    From the finest level upwards, those who stand below a unit and are alone are paired across its
    children. If one child has more of them than all others together, two of them take the two of a
    pair that stands wholly in other children. If every level starts from the most pairs of the
    levels below, no more stay alone than must (the formula of ``_need``): nobody is left over in
    one child while somebody in another is paired with anybody but one of that child.

    Pairs stay where they can. Only where breaking some up is not enough is a whole group paired
    anew, nearest first.
    """
    if len(left) < 2:
        return first, second, left
    both = np.concatenate([first, second, left])
    groups, fewest = alone(both, fits)
    many = np.bincount(np.searchsorted(groups, fits.group[left]), minlength=len(groups))
    poor = np.isin(fits.group, groups[many > fewest])
    if not poor[left].any():
        return first, second, left
    kept = ~poor[first]
    rows = both[poor[both]]
    mate = np.full(len(fits.group), -1, dtype=np.int64)
    mate[first], mate[second] = second, first
    _mend(rows, mate, fits)
    worse = _still_poor(rows, mate, fits)
    mate[worse] = -1
    _mend(worse, mate, fits)
    lower = rows[mate[rows] > rows]
    return (
        np.concatenate([first[kept], lower]),
        np.concatenate([second[kept], mate[lower]]),
        np.concatenate([left[~poor[left]], rows[mate[rows] < 0]]),
    )


def _still_poor(rows: Ints, mate: Ints, fits: Fits) -> Ints:
    """Those rows in whose group more are alone than must be."""
    groups, fewest = alone(rows, fits)
    at = np.searchsorted(groups, fits.group[rows])
    many = np.bincount(at[mate[rows] < 0], minlength=len(groups))
    return rows[(many > fewest)[at]]


def _mend(rows: Ints, mate: Ints, fits: Fits) -> None:
    """Go up the trees of some rows once, and note new pairs in ``mate``."""
    trees = forest(fits, rows)
    unit = np.full(len(fits.group), -1, dtype=np.int64)
    for level in reversed(trees.levels):
        order = np.argsort(level, kind="stable")
        order = order[level[order] >= 0]  # units of one parent have neighbouring numbers
        unit[rows] = level
        below, child = rows[order], level[order]
        above = trees.parent[child]
        single = mate[below] < 0
        found = np.full(np.count_nonzero(single), -1, dtype=np.int64)
        pair_groups(above[single], child[single], found)
        joined = np.flatnonzero(found >= 0)
        mate[below[single][joined]] = below[single][found[joined]]
        _break_up(below, above, unit, trees.parent, mate)


@kernel
def _break_up(below: Ints, above: Ints, unit: Ints, parent: Ints, mate: Ints) -> None:
    """Pairs in other children give their two to two who are left over in one child.

    ``below`` are sorted by the unit ``above``; those left over there stand in one of its children.
    """
    low, rows = 0, len(below)
    alone = np.empty(rows, dtype=np.int64)
    while low < rows:
        high, many = low, 0
        while high < rows and above[high] == above[low]:
            if mate[below[high]] < 0:
                alone[many] = below[high]
                many += 1
            high += 1
        i = low
        while i < high and many > 1:
            one, other = below[i], mate[below[i]]
            i += 1
            if other < 0 or unit[other] < 0 or parent[unit[other]] != above[low]:
                continue
            if unit[one] == unit[alone[0]] or unit[other] == unit[alone[0]]:
                continue
            many -= 2
            mate[one], mate[alone[many]] = alone[many], one
            mate[other], mate[alone[many + 1]] = alone[many + 1], other
        low = high


@kernel
def pair_groups(group: Ints, place: Ints, mate: Ints) -> None:
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


@kernel
def take_partners(
    low: Ints, high: Ints, skip_from: Ints, skip_to: Ints, start: Ints, offered: int
) -> Ints:
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


@njit
def first_free(free: Ints, at: int) -> int:
    """Follow the links from ``at`` to the end, and shorten them on the way."""
    end = at
    while free[end] != end:
        end = free[end]
    while free[at] != end:
        free[at], at = end, free[at]
    return end
