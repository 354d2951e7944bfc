"""Pairing against brute force on tiny groups."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from headcount.mechanisms.swapping._need import Fits
from headcount.mechanisms.swapping._pairing import (
    Stage,
    _pair_in_order,
    _pair_with_rest,
    choose_pairs,
    pair_groups,
    take_partners,
)


def most_pairs(places: tuple[int, ...]) -> int:
    """Try every way to pair people who stand in different places."""
    best = 0
    for i, j in combinations(range(len(places)), 2):
        if places[i] != places[j]:
            rest = places[:i] + places[i + 1 : j] + places[j + 1 :]
            best = max(best, 1 + most_pairs(rest))
            if best == len(places) // 2:
                break
    return best


rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=14)


@given(rows)
def test_each_group_gets_as_many_pairs_as_it_allows(members):
    members = sorted(members)
    group = np.array([g for g, _ in members], dtype=np.int64)
    place = np.array([p for _, p in members], dtype=np.int64)
    mate = np.full(len(members), -1, dtype=np.int64)
    pair_groups(group, place, mate)
    paired = np.flatnonzero(mate >= 0)
    assert np.array_equal(mate[mate[paired]], paired)
    assert np.array_equal(group[mate[paired]], group[paired])
    assert (place[mate[paired]] != place[paired]).all()
    for g in set(group.tolist()):
        possible = most_pairs(tuple(place[group == g].tolist()))
        assert np.count_nonzero(mate[group == g] >= 0) == 2 * possible


@given(
    st.lists(st.integers(0, 3), max_size=12),
    st.lists(st.integers(0, 3), max_size=8),
    st.integers(0, 99),
)
def test_partners_are_taken_once_and_never_from_the_same_place(offered, seeking, seed):
    code = np.sort(np.array(offered, dtype=np.int64))
    own = np.array(seeking, dtype=np.int64)
    low, high = np.zeros_like(own), np.full_like(own, len(code))
    skip = np.searchsorted(code, own), np.searchsorted(code, own + 1)
    start = np.random.default_rng(seed).integers(0, max(len(code), 1), len(own))
    chosen = take_partners(low, high, *skip, start, len(code))
    taken = chosen[chosen >= 0]
    assert len(np.unique(taken)) == len(taken)
    assert (code[taken] != own[chosen >= 0]).all()
    free = np.delete(code, taken)
    for place in own[chosen < 0]:
        assert (free == place).all()  # whoever found nobody could not have


def test_partners_from_the_rest_are_drawn_uniformly():
    """30 are elsewhere: one alone in a place, 29 in another; 29 more share the seeker's place."""
    rng = np.random.default_rng(0)
    place = np.array([0] * 30 + [1] + [2] * 29)
    group, everyone = np.zeros(60, dtype=np.int64), np.ones(60, dtype=bool)
    drawn = 6000
    seen = np.zeros(60)
    for _ in range(drawn):
        stage = Stage(group, rng.permutation(3)[place], 3, everyone)
        rest = rng.permutation(np.arange(1, 60))
        seen[_pair_with_rest(np.array([0]), rest, [stage], rng)[1]] += 1
    assert seen[:30].sum() == 0
    assert chisquare(seen[30:]).pvalue > 1e-3
    late = np.concatenate([[4 * seen[30]], seen[31:]])  # as if the lone one came up more often
    assert chisquare(late).pvalue < 1e-3


def near_and_far(count: int, seed: int) -> tuple[Stage, Stage, Fits, np.ndarray]:
    """Two levels: partners in the same tract first, anywhere after that."""
    rng = np.random.default_rng(seed)
    block = rng.integers(0, 6, count)
    key = rng.integers(0, 2, count)
    everyone = np.ones(count, dtype=bool)
    near, far = Stage(key * 3 + block // 2, block, 6, everyone), Stage(key, block, 6, everyone)
    fits = Fits(key, (block,), (6,), np.zeros(count, dtype=np.int64))
    return near, far, fits, rng.permutation(count)


@given(st.integers(2, 30), st.integers(0, 10**6), st.integers(1, 15))
def test_pairs_are_exact_or_as_many_as_there_can_be(count, seed, wanted):
    near, far, fits, order = near_and_far(count, seed)
    pairs = choose_pairs(order, fits, (near, far), wanted=wanted, rng=np.random.default_rng(seed))
    both = np.concatenate([pairs.first, pairs.second])
    assert len(np.unique(both)) == len(both)
    assert not set(both.tolist()) & set(pairs.unpaired.tolist())
    assert (far.group[pairs.first] == far.group[pairs.second]).all()
    assert (far.place[pairs.first] != far.place[pairs.second]).all()
    possible = 0
    for key in (0, 1):  # one place against all others, or halves
        members = np.bincount(far.place[far.group == key], minlength=1)
        possible += min(members.sum() // 2, members.sum() - members.max())
    assert len(pairs) == min(wanted, possible)


@given(st.integers(2, 20), st.integers(0, 10**6))
def test_as_many_near_pairs_as_there_can_be_come_first(count, seed):
    near, far, fits, order = near_and_far(count, seed)
    chosen = order[: 2 * (count // 2)]
    possible = sum(
        most_pairs(tuple(near.place[chosen[near.group[chosen] == g]].tolist()))
        for g in np.unique(near.group)
    )
    wanted = count // 2
    pairs = choose_pairs(order, fits, (near, far), wanted=wanted, rng=np.random.default_rng(seed))
    together = np.count_nonzero(near.group[pairs.first] == near.group[pairs.second])
    # with everyone selected the nearest stage is paired before any other; only those who would
    # be left over break up a pair, one for each two
    plain = _pair_in_order(order, (near, far), wanted=wanted, rng=np.random.default_rng(seed))
    assert together >= possible - (len(pairs) - len(plain))


def test_those_at_risk_are_all_paired_beyond_what_is_wanted():
    near, far, fits, _ = near_and_far(30, 5)
    pairs = choose_pairs(
        np.arange(30),
        fits,
        (near, far),
        wanted=1,
        at_risk=20,
        all_at_risk=True,
        rng=np.random.default_rng(5),
    )
    both = np.concatenate([pairs.first, pairs.second])
    assert set(range(20)) <= set(both.tolist())
    assert len(pairs) > 1
    assert len(pairs.unpaired) == 0


def test_without_households_there_are_no_pairs():
    nobody = np.empty(0, dtype=np.int64)
    fits = Fits(nobody, (nobody,), (1,), nobody)
    pairs = choose_pairs(nobody, fits, (), wanted=0, rng=np.random.default_rng(0))
    assert len(pairs) == 0
    assert len(pairs.unpaired) == 0
