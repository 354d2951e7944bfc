"""Controlled rounding by the network method: against brute force and HiGHS."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from headcount.errors import HeadcountError
from headcount.solve.mip import minimise
from headcount.topdown.solve.batch import Batch
from headcount.topdown.solve.integer_programs import rounding_program
from headcount.topdown.solve.network import SCALE, split
from headcount.topdown.solve.rounding import RoundingMethod, round_batch
from tests.support.dense import Margin, from_dense, side_by_side
from tests.support.problems import problem
from tests.topdown.solve.tiny import (
    NESTED,
    bounds_hold,
    dense,
    estimates,
    every_choice,
    problems,
    spread,
)


def parts(x):
    whole, cost = np.empty(len(x), np.int64), np.empty(len(x), np.int64)
    split(x, whole, cost)
    return whole, cost


def price(x, counts):
    """Integer cost of counts (last axis: variables): of their steps from the floors of x."""
    whole, cost = parts(x)
    step = counts - whole
    return np.where(step > 0, cost + (step - 1) * SCALE, -step * SCALE).sum(axis=-1)


def brute_force(batch: Batch, x, *, wide: int = 0):
    """The least cost over every move within the range, by trying them all; None if none fits."""
    whole, cost = parts(x)
    rows = []
    for e, total in enumerate(batch.total):
        part = slice(batch.var_start[e], batch.var_start[e + 1])
        moves = [
            range(-min(int(w), wide + int(c == SCALE)), 2 + wide)
            for w, c in zip(whole[part], cost[part], strict=True)
        ]
        every = whole[part] + np.array(list(product(*moves)))
        rows.append(every[every.sum(axis=1) == total])
    choices = every_choice(rows)
    choices = choices[bounds_hold(batch, spread(batch, choices))]
    return price(x, choices.reshape(len(choices), -1)).min() if len(choices) else None


@settings(max_examples=500)
@given(st.data())
def test_the_network_method_finds_the_optimum_that_brute_force_finds(data):
    batch, counts = data.draw(problems(families=NESTED, top=2))
    x = data.draw(estimates(batch, counts))
    found = round_batch(batch, x)
    event(f"{RoundingMethod(found.method[0]).name}, widened: {found.widened[0]}")
    best = brute_force(batch, x)
    assert found.widened[0] == (best is None)
    if best is None:
        best = brute_force(batch, x, wide=1)
        assert (found.method[0] == RoundingMethod.NONE) == (best is None)
    if best is not None:
        assert found.method[0] in (RoundingMethod.GREEDY, RoundingMethod.NETWORK)
        assert price(x, found.counts) == best
        assert bounds_hold(batch, dense(batch, found.counts)[None])[0]
    assert not found.broken


@settings(max_examples=100)
@given(st.data())
def test_an_estimate_that_keeps_its_bounds_is_always_rounded_within_floor_and_ceiling(data):
    """Network matrices have integral vertices: a mean of two answers has a rounding."""
    batch, counts = data.draw(problems(families=NESTED))
    other = counts.copy()
    for _ in range(4):  # rectangles keep the sums over children and over the cells of a group
        a, b = data.draw(st.sampled_from([(0, 1), (2, 3)]))
        c, d = data.draw(st.permutations(range(counts.shape[1])))[:2]
        step = np.zeros_like(counts)
        step[[a, b], [c, d]], step[[a, b], [d, c]] = 1, -1
        other = other + step if (other + step >= 0).all() else other
    if not bounds_hold(batch, np.stack([counts, other])).all():
        return
    share = data.draw(st.floats(0, 1))
    x = (share * counts + (1 - share) * other)[batch.cell].ravel()
    found = round_batch(batch, x)
    assert not found.widened[0]
    assert not found.broken
    assert (np.abs(found.counts - x) <= 1 + 1e-6).all()
    fractional = np.abs(x - np.rint(x)) > 1e-6
    assert (np.abs(found.counts - x)[fractional] < 1).all()


def least_squares_of(batch: Batch):
    from headcount.topdown.solve.leastsquares import least_squares

    return least_squares(batch, threads=1).x


@pytest.mark.parametrize(
    ("name", "children", "seeds"),
    [("n=192, epsilon 1", 12, 4), ("49 states, totals fixed", 8, 4), ("n=2016, blocks", 8, 2)],
)
def test_real_shapes_have_the_optimum_that_highs_finds(name, children, seeds):
    for seed in range(seeds):
        batch = problem(name, seed=seed, children=children)
        x = least_squares_of(batch)
        found = round_batch(batch, x)
        steps = minimise(rounding_program(batch, *parts(x)))
        assert steps is not None
        up, _, down = np.split(steps, 3)
        oracle = parts(x)[0] + (up - down).astype(np.int64)
        # HiGHS works on floats: equal up to its tolerance, in units of one person
        assert price(x, found.counts) <= price(x, oracle) + 1e-6 * SCALE
        assert abs(price(x, found.counts) - price(x, oracle)) <= 1e-6 * SCALE
        assert not found.broken
        assert not found.widened[0]
        if "totals" in name:
            assert found.method[0] == RoundingMethod.NETWORK
            assert found.repairs[0] > 0


def test_infeasible_shapes_are_called_so_by_both():
    """Bounds that an estimate breaks: a rounding exists for HiGHS exactly when it does for us."""
    rng = np.random.default_rng(5)
    verdicts = []
    for seed in range(25):
        batch = problem("49 states, totals fixed", seed=seed, children=3)
        x = least_squares_of(batch)
        for e in range(len(batch.cell)):  # persons moved between children, sums kept
            part = x[batch.var_start[e] : batch.var_start[e + 1]]
            if len(part) > 1:
                step = min(part[0], rng.uniform(0, 0.15 * seed))
                part[0] -= step
                part[1] += step
        steps = minimise(rounding_program(batch, *parts(x)))
        found = round_batch(batch, x)
        assert found.widened[0] == (steps is None)
        verdicts.append(steps is None)
        if steps is not None:
            cost = rounding_program(batch, *parts(x)).cost @ steps
            assert price(x, found.counts) / SCALE == pytest.approx(cost, abs=1e-6)
    assert any(verdicts)
    assert not all(verdicts)


def one_cell(x, *, total, low=None, high=None):
    children = len(x)
    family = Margin(group=np.array([0]), low=low, high=high)
    batch = from_dense(np.zeros((1, children)), weight=1.0, total=[total], families=[family])
    return batch, np.array(x, dtype=float)


def test_a_value_a_hair_below_an_integer_is_that_integer():
    batch, x = one_cell([2.9999999, 1.0000001], total=4)
    found = round_batch(batch, x)
    assert found.counts.tolist() == [3, 1]
    assert found.method[0] == RoundingMethod.GREEDY


def test_the_largest_fractions_are_raised():
    batch, x = one_cell([0.2, 0.9, 0.3, 0.6], total=2)
    assert round_batch(batch, x).counts.tolist() == [0, 1, 0, 1]


def test_a_bound_moves_the_cheapest_person():
    batch, x = one_cell([0.2, 0.9, 0.3, 0.6], total=2, high=[[9, 9, 9, 0]])
    found = round_batch(batch, x)
    assert found.counts.tolist() == [0, 1, 1, 0]
    assert found.method[0] == RoundingMethod.NETWORK
    assert found.repairs[0] == 1


def test_the_search_widens_by_one_and_says_so():
    batch, x = one_cell([1.5, 0.5], total=2, high=[[0, 9]])
    found = round_batch(batch, x)
    assert found.counts.tolist() == [0, 2]
    assert found.widened[0]
    assert found.method[0] == RoundingMethod.NETWORK
    assert not found.broken


def test_an_entry_whose_estimate_misses_its_total_widens():
    batch, x = one_cell([1.5, 1.5], total=6)
    found = round_batch(batch, x)
    assert found.counts.tolist() == [3, 3]
    assert found.widened[0]


def test_no_rounding_at_all_is_an_outcome():
    batch, x = one_cell([5.5, 0.5], total=6, high=[[0, 9]])
    found = round_batch(batch, x)
    assert found.method[0] == RoundingMethod.NONE
    assert found.widened[0]
    assert found.counts.tolist() == [-1, -1]


def test_the_root_has_no_sums_to_keep():
    family = Margin(group=np.zeros(3, int), low=[[7]], high=[[7]])
    batch = from_dense(np.zeros((3, 1)), weight=1.0, total=None, families=[family])
    found = round_batch(batch, np.array([2.2, 1.3, 2.4]))
    assert found.counts.tolist() == [2, 2, 3]
    assert found.repairs[0] == 2
    free = from_dense(np.zeros((3, 1)), weight=1.0, total=None)
    assert round_batch(free, np.array([2.2, 1.6, 2.0])).counts.tolist() == [2, 2, 2]


def test_threads_do_not_change_the_answer():
    names = [("49 states, totals fixed", seed) for seed in range(6)]
    batch = side_by_side([problem(name, seed=seed, children=4) for name, seed in names])
    x = least_squares_of(batch)
    alone = [round_batch(one, x[part]) for one, part in zip(batch, slices(batch), strict=True)]
    for threads in (1, 3):
        found = round_batch(batch, x, threads=threads)
        assert (found.counts == np.concatenate([one.counts for one in alone])).all()
        assert found.repairs.tolist() == [int(one.repairs[0]) for one in alone]
        assert not found.broken


def test_the_summary_counts_the_ways():
    names = ([0.5, 1.5], [9]), ([1.5, 0.5], [0]), ([0.9, 1.1], [0]), ([5.5, 0.5], [0])
    batches, values = [], []
    for x, high in names:
        batch, value = one_cell(x, total=round(sum(x)), high=[[*high, 9]])
        batches.append(batch)
        values.append(value)
    found = round_batch(side_by_side(batches), np.concatenate(values))
    assert found.summary() == {
        "rounded to the nearest": 1,
        "rounded by network": 2,
        "rounded by MIP": 0,
        "rounded wider": 1,
        "without a rounding": 1,
        "shortest paths": 3,
    }


def slices(batch: Batch):
    first = batch.var_start[batch.cell_start]
    return [slice(a, b) for a, b in pairwise(first)]


def test_empty_batches_and_childless_entries():
    batch = from_dense(np.zeros((2, 2)), weight=1.0, total=[0, 0])
    found = round_batch(batch, np.empty(0))
    assert found.method.tolist() == [RoundingMethod.GREEDY]
    closed = from_dense(
        np.zeros((2, 2)), weight=1.0, total=[3, 1], opened=[[True, True], [False, False]]
    )
    assert round_batch(closed, np.array([1.5, 1.5])).method.tolist() == [RoundingMethod.NONE]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_estimates_that_are_no_counts_are_refused(bad):
    batch, x = one_cell([1.0, bad], total=1)
    with pytest.raises(HeadcountError, match="negative or not finite"):
        round_batch(batch, x)
