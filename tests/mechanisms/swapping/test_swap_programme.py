"""Swaps of small towns beside the best that there could be, and wrong ones that are found out."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from tests.mechanisms.swapping.programme import (
    at_risk_and_pairs,
    examine,
    judge,
    most,
    some_mechanism,
    some_town,
)

FAULTS = ("misfit", "left", "fewer", "idle", "missed")


def test_nothing_better_is_found():
    found = {seed: examine(seed) for seed in range(1000, 1060)}
    at_fault = {
        seed: [fault for fault in FAULTS if getattr(verdict, fault)]
        for seed, verdict in found.items()
    }
    assert {seed: faults for seed, faults in at_fault.items() if faults} == {}
    kinds = [(one.at_risk, one.scarce, one.short) for one in found.values()]
    assert min(sum(each) for each in zip(*kinds, strict=True)) > 5


def with_a_lone_pair_at_risk():
    """A population, its settings and a swap at rate 1/2 that serves those at risk."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        town = some_town(rng)
        mechanism = replace(
            some_mechanism(rng), rate=Fraction(1, 2), rate_is_floor=False, size_noise=None
        )
        risky, edges = at_risk_and_pairs(town, mechanism)
        partner = mechanism.swap(town, rng).partner if len(edges) > 20 else np.array([])
        idle = [h for h, p in enumerate(partner) if p > h and not {h, int(p)} & risky]
        served = [h for h, p in enumerate(partner) if p >= 0 and h in risky]
        if idle and served:
            return town, mechanism, partner, served[0], idle[0]
    raise AssertionError("no such population")


def test_wrong_swaps_are_found_out():
    town, mechanism, partner, served, idle = with_a_lone_pair_at_risk()
    right = judge(town, mechanism, partner)
    assert not any(getattr(right, fault) for fault in FAULTS)
    left = partner.copy()
    left[[served, partner[served]]] = -1
    found = judge(town, mechanism, left)
    assert found.left
    assert found.fewer
    assert found.idle
    assert found.missed
    short = partner.copy()
    short[[idle, partner[idle]]] = -1
    found = judge(town, mechanism, short)
    assert found.missed
    assert not found.left
    wrong = partner.copy()
    here = np.flatnonzero(town.block == town.block[served])
    if len(here) == 1:
        town = replace(town, block=np.where(partner == served, town.block[served], town.block))
    else:
        wrong[[served, here[here != served][0]]] = [here[here != served][0], served]
    assert judge(town, mechanism, wrong).misfit


def test_the_programme_on_a_path_and_a_triangle():
    path, triangle = [(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 2), (0, 2)]
    assert most(path, 4) == 2
    assert most(path, 4, pairs=1) == 1
    assert most(path, 4, must={0, 3}) == 2
    assert most(path, 4, must={0, 3}, pairs=1) == -1
    assert most(path, 4, value=[0, 3, 0]) == 3
    assert most(triangle, 3) == 1
    assert most(triangle, 3, must={0, 1, 2}) == -1
    assert most([], 3, must={0}) == -1
    assert most([], 3) == 0
