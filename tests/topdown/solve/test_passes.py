"""Least squares in passes: against Clarabel pass by pass, and on problems solved by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import HeadcountError
from headcount.topdown.solve import leastsquares
from headcount.topdown.solve.batch import NO_BOUND, margins, violation, violations
from headcount.topdown.solve.leastsquares import (
    Solver,
    Status,
    least_squares,
    programme,
    solve_clarabel,
    solve_piqp,
)
from headcount.topdown.solve.passes import FitPass, coarsen, shares_by_totals
from headcount.topdown.solve.rounding import round_batch
from tests.support.dense import Margin, from_dense, side_by_side, to_dense
from tests.support.pass_problems import TOTALS_FIRST, pass_problem
from tests.support.solver_answers import objective, solve_passes
from tests.topdown.solve.least_squares_cases import random_case, reference


def fitting(batch, one):
    """The batch of one pass: the weights of its families alone."""
    chosen = np.isin(np.arange(len(batch.group)), one.families)
    weight = batch.weight if one.detail else np.zeros_like(batch.weight)
    return replace(batch, weight=weight, family_weight=batch.family_weight * chosen)


def holding(batch, answers, within=0.1):
    """The batch with its first column held around some answers."""
    answers = answers[:, None]
    return replace(batch, band={0: np.stack([answers - within, answers + within])})


def close(ours, best):
    return ours <= best + 1e-6 * (best + 1e-3) and best <= ours + 1e-6 * (ours + 1e-3)


@pytest.mark.parametrize("seed", range(40))
def test_every_pass_has_the_optimum_that_clarabel_finds(seed):
    batch = pass_problem(seed).batch
    solved, (first, last) = solve_passes(batch, TOTALS_FIRST, threads=1)
    assert solved.outcome.status[0] == Status.SOLVED
    assert violation(batch, solved.x)[0] <= 1e-6
    early, late = fitting(batch, TOTALS_FIRST[0]), fitting(batch, TOTALS_FIRST[1])
    cost = (batch.family_weight[:, 0] * (first[:, 0] - batch.margin[:, 0]) ** 2).sum()
    assert close(cost, reference(early))
    assert np.abs(last[:, 0] - first[:, 0]).max() <= 0.1 + 1e-6
    assert close(objective(late, solved.x)[0], reference(holding(late, first[:, 0])))


def test_one_pass_with_everything_is_plain_least_squares_to_the_bit():
    batch = pass_problem(1).batch
    plain = least_squares(batch, threads=1)
    everything = FitPass(families=tuple(range(5)), detail=True)
    for passes in ((), (everything,)):
        solved, _ = solve_passes(batch, passes, threads=1)
        assert np.array_equal(solved.x, plain.x)
        assert np.array_equal(solved.outcome.steps, plain.outcome.steps)


def test_totals_first_are_what_the_totals_alone_say():
    """Three children, one cell: the detail says otherwise, and may move a total by 0.1 only."""
    total = Margin(group=[0], weight=0.01, margin=[[10.0, 20.0, 30.0]])
    batch = from_dense([[40.0, 10.0, 10.0]], weight=100.0, total=[60], families=[total])
    solved, (first, last) = solve_passes(
        batch, (FitPass(families=(0,)), FitPass(detail=True)), threads=1
    )
    assert first[:, 0] == pytest.approx([10, 20, 30], abs=1e-5)
    assert last[:, 0] == pytest.approx([10.1, 19.95, 29.95], abs=0.051)
    assert last[0, 0] == pytest.approx(10.1, abs=1e-5)
    assert solved.x == pytest.approx(last[:, 0])
    assert least_squares(batch, threads=1).x[0] > 39


def test_a_parent_that_one_pass_cannot_solve_has_no_answer():
    good = from_dense(
        [[4.0, 5.0]],
        weight=1.0,
        total=[9],
        families=[Margin(group=[0], weight=1.0, margin=[[4, 5]])],
    )
    bad = replace(good, low=np.full((2, 1), 7))
    passes = (FitPass(families=(0,)), FitPass(detail=True))
    solved, _ = solve_passes(side_by_side([good, bad, good]), passes, threads=1)
    assert solved.outcome.status.tolist() == [Status.SOLVED, Status.INFEASIBLE, Status.SOLVED]
    assert solved.outcome.solver[1] == Solver.NONE
    assert solved.x == pytest.approx([4, 5, 0, 0, 4, 5], abs=1e-5)


def test_the_answer_of_a_parent_does_not_depend_on_its_neighbours():
    problems = [pass_problem(seed).batch for seed in range(30)]
    problems = [one for one in problems if not len(one.joint)][:6]
    together, _ = solve_passes(side_by_side(problems), TOTALS_FIRST, threads=2)
    alone = [solve_passes(one, TOTALS_FIRST, threads=1)[0].x for one in problems]
    assert np.array_equal(together.x, np.concatenate(alone))


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ((FitPass(families=(0,)), FitPass(families=(0,))), "found family 0 in two passes"),
        ((FitPass(families=(9,)),), "found family 9, expected one of 0 to 1"),
        ((FitPass(families=(1,)),), "found family 1 in a pass, expected a measured one"),
        ((FitPass(detail=True), FitPass(families=(0,))), "found detail in an early pass"),
        ((FitPass(families=(0,), within=0.0),), "found answers held within 0.0, expected more"),
    ],
)
def test_passes_that_make_no_plan_are_refused(passes, message):
    families = [
        Margin(group=[0], weight=1.0, margin=[[4, 5]]),
        Margin(group=[0], high=[[9, 9]]),
    ]
    batch = from_dense([[4.0, 5.0]], weight=1.0, total=[9], families=families)
    with pytest.raises(HeadcountError, match=message):
        solve_passes(batch, passes)


def test_cells_that_a_pass_cannot_tell_apart_are_taken_together():
    batch = fitting(pass_problem(3).batch, TOTALS_FIRST[0])
    small = coarsen(batch)
    assert len(small.batch.cell) <= 3  # the three types, which are bounded
    assert small.batch.total.sum() == batch.total.sum()
    x = least_squares(small.batch, threads=1).x
    spread = small.spread(x)
    assert violation(batch, spread)[0] <= 1e-6
    assert objective(batch, spread)[0] == pytest.approx(objective(small.batch, x)[0])
    opened = np.ones((4, 2), bool)
    opened[3, 1] = False
    mixed = from_dense(np.zeros((4, 2)), weight=0.0, total=[1, 2, 3, 4], opened=opened)
    assert coarsen(mixed).batch.total.tolist() == [6, 4]


@pytest.mark.parametrize("seed", range(12))
def test_a_pass_over_totals_begins_at_the_totals_nearest_to_the_noisy_ones(seed):
    """By the conditions of the optimum: among those not 0, weight x distance is one number."""
    batch = fitting(pass_problem(seed).batch, TOTALS_FIRST[0])
    near = shares_by_totals(batch)
    assert near is not None
    entry = np.repeat(np.arange(len(batch.cell)), np.diff(batch.var_start))
    assert np.bincount(entry, near) == pytest.approx(batch.total)
    assert (near >= 0).all()
    people = np.bincount(batch.var_child, near)
    together = batch.joint if len(batch.joint) else np.zeros(len(people), int)
    pull = batch.family_weight[:, 0] * (people - batch.margin[:, 0])
    for j in np.unique(together):
        own = together == j
        if len(batch.joint):
            assert people[own].sum() == pytest.approx(batch.joint_total[j])
        some = own & (people > 1e-6)
        assert pull[some] == pytest.approx(pull[some][0])
        assert (pull[own] >= pull[some][0] - 1e-6).all()


def test_only_a_pass_over_all_totals_has_such_a_beginning():
    batch = pass_problem(3).batch
    assert shares_by_totals(batch) is None
    early = fitting(batch, TOTALS_FIRST[0])
    assert shares_by_totals(replace(early, is_root=True)) is None
    unmeasured = early.family_weight.copy()
    unmeasured[0] = 0.0
    assert shares_by_totals(replace(early, family_weight=unmeasured)) is None


# real bands


def test_a_real_band_is_kept_by_every_solver_and_a_bound_stays():
    problem = pass_problem(5)
    people = problem.truth.sum(axis=0).astype(float)
    people[:2] += 0.25, -0.25
    batch = holding(problem.batch, people, within=0.05)
    ours = least_squares(batch, threads=1)
    assert ours.outcome.solver[0] == Solver.NEWTON
    for solve in (solve_clarabel, solve_piqp):
        status, x = solve(programme(batch))
        if status is Status.SOLVED:
            assert violation(batch, x)[0] <= 1e-5
            assert objective(batch, ours.x)[0] <= objective(batch, x)[0] * (1 + 1e-6)
    assert violation(batch, ours.x)[0] <= 1e-6


@pytest.mark.parametrize(
    ("centres", "stands_in", "after"),
    [
        ([10.0, 20.1, 30.05], 1.0, [2.0, -4.0, 0.0]),
        ([10.05, 20.1, 30.05], 1.0, [1.0, -5.0, -1.0]),
        ([10.0, 20.1, 30.0], 1.0, [3.0, -3.0, 1.0]),
        ([7.05, 20.1, 30.05], 0.0, [3.0, -3.0, 1.0]),  # 10.05 by a weight and price of its own
    ],
    ids=["one inside", "two inside", "none inside", "one with a weight"],
)
def test_prices_inside_bands_are_brought_to_0_by_one_price_on_all(centres, stands_in, after):
    low, ones = np.array([10.0, 20.0, 30.0]), np.ones(3)
    slots = np.stack([ones, np.array(centres), low, low + 0.1, ones, ones])
    pulled = np.array([stands_in, 1.0, 1.0])
    nu = np.array([3.0, -3.0, 1.0])
    leastsquares.level_prices(nu, slots, np.stack([0 * ones, 0 * ones, pulled, np.array(centres)]))
    assert nu.tolist() == after


def test_rounding_does_not_know_bands():
    batch = from_dense([[1.5, 1.5]], weight=1.0, total=[3], families=[Margin(group=[0])])
    banded = holding(batch, np.array([1.5, 1.5]))
    x = least_squares(banded, threads=1).x
    assert violation(banded, x)[0] <= 1e-6
    assert round_batch(banded, x).counts.tolist() == round_batch(batch, x).counts.tolist()


# totals of several children together


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_joint_totals_have_the_optimum_that_clarabel_finds(seed):
    case, rng = random_case(seed), np.random.default_rng(seed)
    kids = case.truth.shape[1]
    joint = rng.integers(-1, 2, kids)
    people = case.truth.sum(axis=0)
    total = [int(people[joint == j].sum()) for j in (0, 1)]
    batch = replace(case.batch, joint=np.array(joint, np.int32), joint_total=np.array(total))
    solved = least_squares(batch, threads=1)
    assert solved.outcome.status[0] == Status.SOLVED
    assert violation(batch, solved.x)[0] <= 1e-6
    assert solved.outcome.violation[0] == pytest.approx(violation(batch, solved.x)[0], abs=1e-9)
    best = reference(batch)
    assert objective(batch, solved.x)[0] <= best + 1e-6 * (best + 1e-3)


def test_a_pair_shares_its_exact_total():
    batch = from_dense(
        [[10.0, 20.0, 33.0]], weight=1.0, total=[60], joint=[0, 0, -1], joint_total=[34]
    )
    assert least_squares(batch, threads=1).x == pytest.approx([12, 22, 26])
    impossible = replace(batch, joint_total=np.array([61]))
    assert least_squares(impossible, threads=1).outcome.status.tolist() == [Status.INFEASIBLE]


# more than one outer pass


def freeze(batch, counts, families):
    """The batch with some families fixed at the integers that an earlier round has given them."""
    (low, high), found = batch.bounds_by_group(), margins(batch, counts)
    for f in families:
        own = slice(batch.family_start[f], batch.family_start[f + 1])
        low[:, own] = high[:, own] = np.rint(found[:, own]).astype(np.int64)
    return replace(batch, low=low, high=high, bound_start=batch.family_start, forest=None)


def test_two_outer_passes_with_a_protected_table_as_an_equality():
    """Outer pass one settles the types in whole persons; pass two adds detail below them.

    A table that was published before (adults by child) is an equality in both.
    """
    rng = np.random.default_rng(4)
    truth = rng.poisson(9, (8, 3))
    by_type, by_age = np.arange(8) // 4, np.arange(8) % 2
    adults = np.stack([truth[by_age == a].sum(axis=0) for a in (0, 1)])
    types = np.stack([truth[by_type == t].sum(axis=0) for t in (0, 1)])
    batch = from_dense(
        truth + rng.normal(0, 3, truth.shape),
        weight=0.1,
        total=truth.sum(axis=1),
        families=[
            Margin(group=by_type, weight=0.5, margin=types + rng.normal(0, 2, types.shape)),
            Margin(group=by_age, low=adults, high=adults),
        ],
    )
    first, _ = solve_passes(batch, (FitPass(families=(0,)),), threads=1)
    settled = round_batch(batch, first.x)
    assert not violations(batch, settled.counts)
    frozen = freeze(batch, settled.counts, (0,))
    achieved = margins(batch, settled.counts)[:, :2]
    assert (frozen.low[:, :2] == achieved).all()
    assert (batch.low[:, :2] == -NO_BOUND).all()
    second, _ = solve_passes(frozen, (FitPass(detail=True),), threads=1)
    final = round_batch(frozen, second.x)
    assert not final.broken
    assert (margins(batch, final.counts)[:, :2] == achieved).all()
    dense = to_dense(batch, final.counts, n=8)
    assert (np.stack([dense[by_age == a].sum(axis=0) for a in (0, 1)]) == adults).all()
    assert not np.array_equal(final.counts, settled.counts)
