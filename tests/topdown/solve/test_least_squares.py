from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headcount.topdown.solve import leastsquares
from headcount.topdown.solve import leastsquares as kernel
from headcount.topdown.solve._newton import STUCK
from headcount.topdown.solve.batch import Batch, margins, violation
from headcount.topdown.solve.leastsquares import (
    Solver,
    Status,
    least_squares,
    programme,
    solve_clarabel,
    solve_piqp,
)
from tests.support.dense import Margin, from_dense, side_by_side, to_dense
from tests.support.problems import SETTINGS, problem
from tests.support.solver_answers import objective
from tests.topdown.solve.least_squares_cases import random_case, reference


def solve(batch: Batch) -> np.ndarray:
    solved = least_squares(batch, threads=1)
    assert (solved.outcome.status == Status.SOLVED).all()
    assert (solved.outcome.violation <= 1e-6).all()
    assert np.allclose(solved.outcome.violation, violation(batch, solved.x), atol=1e-9)
    return solved.x


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_no_worse_than_clarabel_and_feasible(seed):
    batch = random_case(seed).batch
    x = solve(batch)
    best = reference(batch)
    assert objective(batch, x).sum() <= best + 1e-6 * (best + 1e-3)


@pytest.mark.parametrize("name", SETTINGS)
def test_real_shapes_against_clarabel(name):
    batch = problem(name, seed=7, children=6)
    best = reference(batch)
    x = solve(batch)
    assert objective(batch, x)[0] <= best * (1 + 1e-8)
    assert np.all((x == 0) | (x >= 1e-7))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
@example(2719285)  # on which the Newton method gives up, with weights from 0.02 to 1,500
def test_children_may_have_weights_of_their_own_or_none(seed):
    batch, rng = random_case(seed).batch, np.random.default_rng(seed)
    own = rng.choice([0.0, 0.2, 1.0, 30.0], batch.family_weight.shape)
    batch = replace(
        batch,
        weight=rng.choice([0.0, 0.1, 1.0, 7.0], len(batch.weight)),
        family_weight=batch.family_weight * own,
    )
    best = reference(batch)
    assert objective(batch, solve(batch)).sum() <= best + 1e-6 * (best + 1e-3)


def test_a_child_with_a_larger_weight_moves_less():
    batch = from_dense([[10.0, 20.0, 30.0]], weight=[1.0, 2.0, 4.0], total=[67])
    assert solve(batch) == pytest.approx([14, 22, 31])  # shares of 7 as 1 : 1/2 : 1/4


def test_a_child_without_measurement_takes_what_the_others_leave():
    family = Margin(group=[0, 0], weight=[5.0, 5.0, 0.0], margin=[[7.0, 3.0, 99.0]])
    batch = from_dense(
        [[4.0, 1.0, 50.0], [3.0, 2.0, 50.0]],
        weight=[1.0, 1.0, 0.0],
        total=[9, 8],
        families=[family],
    )
    assert solve(batch) == pytest.approx([4, 1, 4, 3, 2, 3], abs=1e-5)


def test_the_general_solvers_agree_with_each_other():
    batch = problem("n=192, epsilon 1", seed=1, children=5)
    task = programme(batch)
    for status, x in (solve_piqp(task), solve_clarabel(task)):
        assert status is Status.SOLVED
        assert objective(batch, x)[0] == pytest.approx(reference(batch), rel=1e-7)


def test_without_families_it_is_the_projection_onto_each_sum():
    rng = np.random.default_rng(3)
    answer, total = rng.normal(5, 10, (6, 7)), rng.integers(1, 40, 6)
    x = to_dense(b := from_dense(answer, weight=0.3, total=total), solve(b), n=6)
    for row, noisy, t in zip(x, answer, total, strict=True):
        down = np.sort(noisy)[::-1]
        levels = (np.cumsum(down) - t) / np.arange(1, 8)
        assert row == pytest.approx(np.maximum(noisy - levels[down > levels][-1], 0), abs=1e-9)


def test_without_binding_bounds_the_surplus_is_shared_evenly():
    answer = np.array([[10.0, 20.0, 33.0]])
    x = solve(from_dense(answer, weight=2.0, total=[60]))
    assert x == pytest.approx([9, 19, 32])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 12),
    st.floats(-20, 20),
    st.floats(-20, 20),
    st.integers(0, 12),
    st.integers(0, 12),
    st.sampled_from([0.0, 0.5, 9.0]),
)
def test_two_children_by_brute_force(total, first, second, low, extra, weight):
    low, high = min(low, total), min(low, total) + extra
    family = Margin(
        group=[0],
        weight=weight,
        margin=[[first + 1, second - 3]],
        low=[[low, 0]],
        high=[[high, total]],
    )
    batch = from_dense([[first, second]], weight=1.0, total=[total], families=[family])
    grid = np.linspace(low, min(high, total), 20_001)
    pairs = np.stack([grid, total - grid])
    cost = ((pairs - [[first], [second]]) ** 2).sum(axis=0)
    cost += weight * ((pairs - [[first + 1], [second - 3]]) ** 2).sum(axis=0)
    assert solve(batch)[0] == pytest.approx(grid[cost.argmin()], abs=1e-3)


def test_bounds_that_leave_one_answer_return_it():
    rng = np.random.default_rng(5)
    truth = rng.poisson(3, (4, 5))
    families = [
        Margin(group=range(4), low=truth, high=truth),
        Margin(group=[0] * 4, low=truth.sum(0, keepdims=True), high=truth.sum(0, keepdims=True)),
    ]
    batch = from_dense(
        rng.normal(0, 9, truth.shape), weight=1.0, total=truth.sum(1), families=families
    )
    assert to_dense(batch, solve(batch), n=4) == pytest.approx(truth, abs=1e-6)


def test_a_batch_without_parents():
    batch = problem("n=192, epsilon 1", seed=0, children=3)
    none = replace(
        batch,
        parent=batch.parent[:0],
        cell_start=np.zeros(1, int),
        cell=batch.cell[:0],
        total=batch.total[:0],
        child_start=np.zeros(1, int),
        var_start=np.zeros(1, int),
        var_child=batch.var_child[:0],
        answer=batch.answer[:0],
        weight=batch.weight[:0],
        family_weight=batch.family_weight[:0],
        margin=batch.margin[:0],
        low=batch.low[:0],
        high=batch.high[:0],
    )
    solved = least_squares(none)
    assert len(solved.x) == len(solved.outcome.status) == 0
    assert solved.outcome.summary()["largest violation"] == 0


def test_nothing_to_choose_costs_no_solve():
    one_child = from_dense([[3.5], [7.0]], weight=1.0, total=[4, 9])
    masked = from_dense(
        [[1.0, 2.0], [5.0, 5.0]], weight=1.0, total=[4, 9], opened=[[True, False], [False, True]]
    )
    no_facility = from_dense(
        [[1.0, 2.0], [5.0, 5.0]],
        weight=1.0,
        total=[4, 9],
        families=[Margin(group=[0, 0], weight=2.0, margin=[[1, 1]], high=[[0, 20]])],
    )
    empty = from_dense([[3.5, 1.0]], weight=1.0, total=[0])
    for batch, expected in (
        (one_child, [4, 9]),
        (masked, [4, 9]),
        (no_facility, [0, 4, 0, 9]),
        (empty, []),
    ):
        solved = least_squares(batch, threads=1)
        assert solved.x.tolist() == expected
        assert solved.outcome.attempts.tolist() == [0]
        assert solved.outcome.status.tolist() == [Status.SOLVED]


def test_entries_of_total_zero_that_were_kept_stay_empty():
    batch = from_dense([[1.0, 2.0], [3.0, 4.0]], weight=1.0, total=[5, 1])
    batch = replace(batch, total=np.array([5, 0]))
    assert solve(batch) == pytest.approx([2, 3, 0, 0])


def test_the_root_has_no_sums_to_keep():
    families = [
        Margin(group=[0, 0, 0], low=[[10]], high=[[10]]),
        Margin(group=[0, 1, 1], weight=4.0, margin=[[3], [9]]),
    ]
    batch = from_dense([[-2.0], [4.0], [6.0]], weight=1.0, total=None, families=families)
    x = solve(batch)
    assert x.sum() == pytest.approx(10, abs=1e-7)
    assert objective(batch, x)[0] == pytest.approx(reference(batch), rel=1e-8)


def test_overlapping_union_bounds():
    truth = np.array([[5, 0, 3], [2, 2, 2], [0, 4, 1], [7, 1, 0]])
    families = [Margin(group=range(4), weight=3.0, margin=truth + 2, low=truth // 2)]
    for inside in ([0, 1], [1, 2], [0, 2], [0, 1, 2], [1, 3]):
        group = np.where(np.isin(np.arange(4), inside), 0, 1)
        held = truth[inside].sum(axis=0)
        low = np.stack([held - 1, np.zeros(3, int)])
        high = np.stack([held, np.full(3, 99)])
        families.append(Margin(group=group, low=low, high=high))
    batch = from_dense(truth * 1.7 - 1, weight=1.0, total=truth.sum(1), families=families)
    assert objective(batch, solve(batch))[0] <= reference(batch) * (1 + 1e-7)


@pytest.mark.parametrize("seed", range(8))
def test_detail_of_weight_zero(seed):
    batch = replace(problem("n=192, epsilon 1", seed=seed, children=4), weight=np.zeros(4))
    best = reference(batch)
    assert objective(batch, solve(batch))[0] <= best * (1 + 1e-6)


def test_counts_of_a_nation():
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 30_000_000, (5, 6))
    sums = truth.sum(0, keepdims=True)
    families = [Margin(group=[0] * 5, low=sums, high=sums)]
    noisy = truth + rng.normal(0, 400, truth.shape)
    batch = from_dense(noisy, weight=1e-6, total=truth.sum(1), families=families)
    x = solve(batch)
    # Without inequality that binds, the answer is the two-way adjustment of rows and columns.
    gap = truth - noisy
    fair = noisy + gap.mean(0) + gap.mean(1)[:, None] - gap.mean()
    assert to_dense(batch, x, n=5) == pytest.approx(fair, abs=1e-3)


def test_the_answer_does_not_depend_on_threads_or_neighbours():
    problems = [problem("n=192, epsilon 1", seed=s, children=4 + s) for s in range(6)]
    batch = side_by_side(problems)
    alone = np.concatenate([least_squares(each, threads=1).x for each in problems])
    for threads in (1, 2, 5):
        together = least_squares(batch, threads=threads)
        assert np.array_equal(together.x, alone)
        assert together.outcome.steps.min() > 0
    split = np.concatenate([least_squares(each).x for each in batch])
    assert np.array_equal(split, alone)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([[0, 0]], [[3, 4]]),  # 7 places for 9 persons
        ([[5, 5]], [[9, 9]]),  # 10 persons needed
        ([[6, 0]], [[5, 9]]),  # low above high
        ([[0, 0]], [[0, 0]]),  # nowhere to go
    ],
)
def test_infeasible_bounds_are_told_apart_from_failure(low, high):
    family = Margin(group=[0, 0], weight=1.0, margin=[[4, 5]], low=low, high=high)
    bad = from_dense([[1.0, 2.0], [3.0, 4.0]], weight=1.0, total=[4, 5], families=[family])
    good = replace(bad, low=np.zeros_like(bad.low), high=np.full_like(bad.high, 9))
    solved = least_squares(side_by_side([good, bad, good]), threads=1)
    assert solved.outcome.status.tolist() == [Status.SOLVED, Status.INFEASIBLE, Status.SOLVED]
    assert solved.outcome.unsolved.tolist() == [1]
    assert solved.outcome.summary()["infeasible"] == 1
    assert np.all(solved.x[4:8] == 0)


def test_one_person_too_many_in_a_large_problem():
    batch = problem("n=192, epsilon 1", seed=0, children=12)
    households = int(batch.total[batch.cell < 24].sum())
    high = batch.high.copy()
    high[:, 0] = np.diff(np.linspace(0, households - 1, 13).astype(int))
    low = np.minimum(batch.low, high)
    outcome = least_squares(replace(batch, low=low, high=high), threads=1).outcome
    assert outcome.status.tolist() == [Status.INFEASIBLE]
    assert outcome.steps[0] <= 4 * kernel.NEWTON_LIMIT


def always_stuck(parents, *arguments):
    arguments[-2][parents] = (STUCK, 4, 800, 9)


def refuse(task, **_):
    return Status.FAILED, np.zeros(task.variables)


def test_what_is_stuck_goes_to_piqp_then_clarabel_then_fails(monkeypatch):
    batch = problem("n=192, epsilon 1", seed=4, children=5)
    best = objective(batch, solve(batch))[0]
    monkeypatch.setattr(leastsquares, "solve_parents", always_stuck)
    for solver in (Solver.PIQP, Solver.CLARABEL):
        solved = least_squares(batch, threads=1)
        assert solved.outcome.solver.tolist() == [solver]
        assert solved.outcome.violation[0] == violation(batch, solved.x)[0] <= 1e-6
        assert objective(batch, solved.x)[0] == pytest.approx(best, rel=1e-6)
        monkeypatch.setattr(leastsquares, f"solve_{solver.name.lower()}", refuse)
    outcome = least_squares(batch, threads=1).outcome
    assert outcome.status.tolist() == [Status.FAILED]
    assert outcome.solver.tolist() == [Solver.NONE]
    assert outcome.violation.tolist() == [np.inf]


def test_objective_and_violation_against_dense_arithmetic():
    case = random_case(11)
    batch, rng = case.batch, np.random.default_rng(0)
    x = rng.normal(2, 3, len(batch.answer))
    dense = to_dense(batch, x, n=len(case.truth))
    cost = (batch.weight[batch.var_child] * (x - batch.answer) ** 2).sum()
    worst = max(-x.min(), 0.0)
    if not batch.is_root:
        worst = max(worst, np.abs(dense.sum(1)[batch.cell] - batch.total).max())
    for f, weight in enumerate(batch.family_weight.T):
        columns = slice(batch.family_start[f], batch.family_start[f + 1])
        have = np.zeros((columns.stop - columns.start, dense.shape[1]))
        np.add.at(have, batch.group[f], dense)
        assert margins(batch, x)[:, columns] == pytest.approx(have.T)
        cost += (weight[:, None] * (have.T - batch.margin[:, columns]) ** 2).sum()
        worst = max(worst, (batch.low[:, columns] - have.T).max())
        worst = max(worst, (have.T - batch.high[:, columns]).max())
    assert objective(batch, x)[0] == pytest.approx(cost)
    assert violation(batch, x)[0] == pytest.approx(worst)
