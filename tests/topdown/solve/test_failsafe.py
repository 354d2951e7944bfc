"""The failsafe: least change by brute force, margin kept, squares by an independent solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.solve.mip import SolverError
from headcount.topdown.solve.batch import NO_BOUND
from headcount.topdown.solve.failsafe import estimate, rescue, round_kept
from headcount.topdown.solve.integer_programs import clashes
from headcount.topdown.solve.passes import FitPass
from headcount.topdown.solve.rounding import margin_counts
from tests.support.dense import Margin, from_dense, reopen, side_by_side
from tests.support.solver_answers import objective, target_distance
from tests.topdown.solve.tiny import bounds_hold, dense, every_choice

# Six cells, type (3) x age (2); the margin by age is kept, the types are bounded.
TYPE = np.repeat(np.arange(3), 2)
AGE = np.tile(np.arange(2), 3).astype(np.int32)


def infeasible(total=(5, 4, 0, 0, 1, 0), low=((1, 1), (1, 1), (0, 1)), parent=9, seed=0):
    """Nobody in the second type, but each child must have someone there."""
    rng = np.random.default_rng(seed)
    answer = np.rint(rng.normal(2, 3, (6, 2)))
    families = [
        Margin(group=TYPE, weight=0.5, margin=np.rint(rng.normal(4, 3, (3, 2))), low=low),
        Margin(group=AGE, weight=2.0, margin=np.rint(rng.normal(5, 3, (2, 2)))),
    ]
    total = np.array(total)
    batch = from_dense(answer, weight=0.3, total=total, families=families, parent=parent)
    return batch, total, answer


def reopened(**options):
    batch, total, answer = infeasible(**options)
    return reopen(batch, keep=AGE, total=total, answer=answer)


def every_kept_answer(batch, most):
    """Every answer of two children with counts up to ``most`` and the kept margin."""
    cells = np.array(np.meshgrid(*[np.arange(most + 1)] * 6)).reshape(6, -1).T
    total = np.zeros(6, np.int64)
    total[batch.cell] = batch.total
    fits = np.ones(len(cells), bool)
    for age in (0, 1):
        fits &= cells[:, age == AGE].sum(axis=1) == total[age == AGE].sum()
    return total, cells[fits]


def brute_force_change(batch, most=6):
    """Least change: for each parent's sum with the margin, is there a way to share it?"""
    total, sums = every_kept_answer(batch, most)
    change = np.abs(sums - total).sum(axis=1)
    for k in np.argsort(change, kind="stable"):
        tables = [np.array([[a, s - a] for a in range(s + 1)]) for s in sums[k]]
        if bounds_hold(batch, every_choice(tables)).any():
            return int(change[k])
    return None


def test_the_crafted_parent_is_infeasible_and_the_failsafe_is_not():
    batch, _, _ = infeasible()
    assert {(v.kind, v.family, v.group) for v in clashes(batch)} == {("low", 0, 1)}
    wide = reopened()
    assert wide.cell.tolist() == list(range(6))
    found = rescue(wide, keep=AGE)
    assert found.used == 1
    assert found.moved[0] == pytest.approx(4.0, abs=1e-6)
    assert not found.broken
    assert not found.widened[0]
    counts = dense(wide, found.counts)
    for age in (0, 1):
        assert counts[age == AGE].sum() == wide.total[age == AGE].sum()
    assert bounds_hold(wide, counts[None])[0]
    assert np.abs(counts.sum(axis=1) - wide.total).sum() <= 5


def test_cells_reopen_only_where_the_kept_margin_is_positive():
    wide = reopened(total=(5, 0, 0, 0, 3, 0))
    assert wide.cell.tolist() == [0, 2, 4]
    assert wide.total.tolist() == [5, 0, 3]
    closed = np.ones((6, 2), bool)
    closed[2, 0] = False
    batch, total, answer = infeasible(total=(5, 0, 0, 0, 3, 0))
    wide = reopen(batch, keep=AGE, total=total, answer=answer, opened=closed)
    assert np.diff(wide.var_start).tolist() == [2, 1, 2]
    assert wide.answer[2] == answer[2, 1]


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
    st.integers(0, 2**16),
)
def test_the_change_is_the_least_that_brute_force_finds(total, low, seed):
    if sum(total) == 0:
        return
    wide = reopened(total=total, low=np.reshape(low, (3, 2)), seed=seed)
    least = brute_force_change(wide)
    if least is None:
        with pytest.raises(SolverError, match="parent 9"):
            rescue(wide, keep=AGE)
        return
    found = rescue(wide, keep=AGE)
    assert found.moved[0] == pytest.approx(least, abs=1e-6)
    assert not found.broken
    sums = np.bincount(np.repeat(wide.cell, np.diff(wide.var_start)), found.counts, 6)
    total_of = np.zeros(6)
    total_of[wide.cell] = wide.total
    assert np.abs(sums - total_of).sum() >= least


def best_by_slsqp(wide, least, near, seed, held=None):
    """The least objective by SLSQP, the absolute values written as two variables.

    ``near`` is an answer to start around; ``held`` are totals of the two children, within 0.1.
    """
    from scipy.optimize import minimize

    size, cells = len(near), len(wide.cell)
    sums = np.kron(np.eye(cells), np.ones((1, 2)))
    margins = np.eye(2)[:, AGE] @ sums
    types = np.array(
        [
            [(TYPE[v // 2] == g) and v % 2 == c for v in range(size)]
            for g in range(3)
            for c in (0, 1)
        ]
    ).astype(float)
    low = wide.low[:, :3].T.ravel()

    def value(z):
        return float(objective(wide, np.asarray(z[:size]))[0])

    slack = slice(size, size + 2 * cells)
    start = np.concatenate(
        [near, np.maximum(sums @ near - wide.total, 0), np.maximum(wide.total - sums @ near, 0)]
    )
    rng = np.random.default_rng(seed)
    split = np.hstack([sums, -np.eye(cells), np.eye(cells)])
    kept = np.rint(margins @ near)
    rules = [
        {"type": "eq", "fun": lambda z: split @ z - wide.total},
        {"type": "eq", "fun": lambda z: margins @ z[:size] - kept},
        {"type": "ineq", "fun": lambda z: types @ z[:size] - low},
        {"type": "ineq", "fun": lambda z: least + 1 - z[slack].sum()},
    ]
    if held is not None:
        people = np.kron(np.ones((1, cells)), np.eye(2))
        rules.append({"type": "ineq", "fun": lambda z: held + 0.1 - people @ z[:size]})
        rules.append({"type": "ineq", "fun": lambda z: people @ z[:size] - held + 0.1})
    best = minimize(
        value,
        start + rng.uniform(0, 0.3, len(start)),
        bounds=[(0, None)] * len(start),
        constraints=rules,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert best.success
    assert np.abs(sums @ near - wide.total).sum() <= least + 1 + 1e-6
    return best.fun


def test_the_squares_are_least_among_answers_that_change_as_little():
    for seed in range(3):
        wide = reopened(seed=seed)
        x, least = estimate(wide, keep=AGE)
        best = best_by_slsqp(wide, least, x, seed)
        assert objective(wide, x)[0] == pytest.approx(best, rel=1e-6)


def with_totals(seed):
    """A reopened parent with the totals of its two children measured, and fitted first."""
    wide = reopened(seed=seed)
    totals = np.random.default_rng([seed, 7]).normal(5, 3, (2, 1))
    start, free = np.append(wide.family_start, wide.family_start[-1] + 1), np.full((2, 1), NO_BOUND)
    return replace(
        wide,
        group=np.concatenate([wide.group, np.zeros((1, 6), np.int32)]),
        family_start=start,
        bound_start=start,
        low=np.hstack([wide.low, -free]),
        high=np.hstack([wide.high, free]),
        family_weight=np.hstack([wide.family_weight, np.full((2, 1), 0.7)]),
        margin=np.hstack([wide.margin, totals]),
    )


TOTALS_FIRST = (FitPass(families=(2,)), FitPass(families=(0, 1), detail=True))


@pytest.mark.parametrize(("seed", "prevents"), [(0, True), (1, True), (2, False)])
def test_in_passes_the_squares_of_each_are_least_within_the_band_of_those_before(seed, prevents):
    wide = with_totals(seed)
    x, least = estimate(wide, keep=AGE, fit=TOTALS_FIRST)
    early = replace(wide, weight=0 * wide.weight, family_weight=wide.family_weight * [0, 0, 1])
    late = replace(wide, family_weight=wide.family_weight * [1, 1, 0])
    first, _ = estimate(early, keep=AGE)
    assert objective(early, first)[0] == pytest.approx(
        best_by_slsqp(early, least, x, seed), abs=1e-6
    )
    held = first.reshape(-1, 2).sum(axis=0)
    assert np.abs(x.reshape(-1, 2).sum(axis=0) - held).max() <= 0.1 + 1e-5
    best = best_by_slsqp(late, least, x, seed, held=held)
    assert objective(late, x)[0] == pytest.approx(best, rel=1e-5)
    alone, _ = estimate(wide, keep=AGE)
    assert (np.abs(alone.reshape(-1, 2).sum(axis=0) - held).max() > 0.2) is np.bool_(prevents)


def every_step(wide, x):
    """All counts in {floor, floor + 1} with the kept margin and the bounds; and their change."""
    moves = [np.floor(v) + np.arange(2) for v in x]
    every = np.array(np.meshgrid(*moves), np.int64).reshape(len(x), -1).T.reshape(-1, 6, 2)
    sums = every.sum(axis=2)
    fits = bounds_hold(wide, every)
    for age in (0, 1):
        fits &= sums[:, age == AGE].sum(axis=1) == wide.total[age == AGE].sum()
    return every[fits], np.abs(sums - wide.total).sum(axis=1)[fits]


@pytest.mark.parametrize("seed", range(3))
def test_rounding_in_passes_is_the_nearest_to_each_target_that_brute_force_finds(seed):
    wide = with_totals(seed)
    x, _ = estimate(wide, keep=AGE, fit=TOTALS_FIRST)
    rounds = ((np.zeros(6, np.int32),), (np.arange(6, dtype=np.int32),))
    found = rescue(wide, keep=AGE, fit=TOTALS_FIRST, rounds=rounds)
    assert not found.broken
    assert not found.widened[0]
    assert np.array_equal(found.x, x)
    x = np.maximum(x, 0.0)
    every, change = every_step(wide, x)
    left = [counts.ravel() for counts in every[change <= change.min() + 1]]
    for one in rounds:
        near = [int(target_distance(wide, x, counts, one)[0]) for counts in left]
        assert target_distance(wide, x, found.counts, one)[0] == min(near)
        own = [margin_counts(wide, query, found.counts) for query in one]
        left = [
            counts
            for counts, far in zip(left, near, strict=True)
            if far == min(near) and np.array_equal(margin_counts(wide, one[0], counts), own[0])
        ]
    assert any((counts == found.counts).all() for counts in left)


def test_rounding_keeps_the_least_change_and_then_the_least_distance():
    """Against every step from the floors."""
    wide = reopened(seed=2)
    x, _ = estimate(wide, keep=AGE)
    counts, widened = round_kept(wide, x, keep=AGE)
    assert not widened
    every, change = every_step(wide, x)
    every = every[change <= change.min() + 1]
    distance = np.abs(every.reshape(len(every), -1) - x).sum(axis=1).min()
    assert np.abs(counts - x).sum() == pytest.approx(distance, abs=1e-6)


def test_rounding_widens_when_floor_and_ceiling_cannot_keep_the_margin():
    wide = reopened(total=(5, 14, 0, 0, 1, 0))
    x = np.array([2, 1, 1.5, 1.5, 1, 1, 0, 0, 0, 1, 0, 0])
    counts, widened = round_kept(wide, x, keep=AGE)
    assert widened
    assert counts[[2, 3, 6, 7, 10, 11]].tolist() == [3, 3, 2, 2, 2, 2]
    with pytest.raises(SolverError, match="parent 9: found no rounding"):
        round_kept(wide, np.full(len(x), 20.5), keep=AGE)


def test_several_parents_are_counted():
    both = side_by_side([reopened(parent=9), reopened(parent=12, seed=4)])
    found = rescue(both, keep=AGE)
    assert found.used == 2
    assert not found.broken
    assert (found.counts[: len(found.counts) // 2] == rescue(both.one(0), keep=AGE).counts).all()


def test_bounds_beyond_the_margin_are_an_error_with_the_parent():
    wide = reopened(low=((9, 9), (9, 9), (9, 9)))
    with pytest.raises(SolverError, match="parent 9: found bounds that no counts"):
        rescue(wide, keep=AGE)
