"""Is there any answer: the flow test and HiGHS against every possible answer."""

from __future__ import annotations

import numpy as np
from hypothesis import event, given, settings

from headcount.topdown.solve.batch import NO_BOUND, Violation
from headcount.topdown.solve.integer_programs import clashes
from tests.support.dense import Margin, from_dense, side_by_side
from tests.support.problems import problem
from tests.topdown.solve.tiny import CROSS, NESTED, bounds_hold, every_share, problems

FREE = int(NO_BOUND)


@settings(max_examples=150)
@given(problems(families=NESTED, top=2))
def test_the_flow_test_agrees_with_trying_every_answer(drawn):
    batch, _ = drawn
    possible = bounds_hold(batch, every_share(batch)).any()
    event(f"possible: {possible}")
    assert (not clashes(batch)) == possible


@settings(max_examples=40)
@given(problems(families=(CROSS, *NESTED), top=2))
def test_highs_agrees_with_trying_every_answer_when_bounds_overlap(drawn):
    batch, _ = drawn
    assert (not clashes(batch)) == bounds_hold(batch, every_share(batch)).any()


def parent_of(low=None, high=None, total=(3, 2)):
    family = Margin(group=[0, 1], low=low, high=high)
    return from_dense(np.zeros((2, 2)), weight=1.0, total=total, families=[family], parent=41)


def test_the_lower_bound_that_cannot_be_met_is_named():
    (found,) = clashes(parent_of(low=[[1, 1], [0, 3]]))
    assert found == Violation(kind="low", parent=41, index=0, child=1, family=0, group=1)


def test_the_upper_bound_that_cannot_be_met_is_named():
    found = clashes(parent_of(high=[[1, 1], [9, 9]]))
    assert {(v.kind, v.group) for v in found} == {("high", 0)}


def test_bounds_upside_down_are_named():
    (found,) = clashes(parent_of(low=[[2, 0], [0, 0]], high=[[1, 9], [9, 9]]))
    assert (found.child, found.family, found.group) == (0, 0, 0)


def test_a_count_that_no_child_may_hold_is_named():
    batch = from_dense(
        np.zeros((2, 2)), weight=1.0, total=[3, 2], opened=[[False, False], [True, True]]
    )
    (found,) = clashes(batch)
    assert (found.kind, found.cell) == ("sum", 0)


def test_the_infeasible_parent_among_many_is_named_with_its_child():
    batch = side_by_side([parent_of(low=[[1, 1], [0, 0]])] * 3 + [parent_of(low=[[2, 2], [0, 0]])])
    for threads in (1, 2):
        found = clashes(batch, threads=threads)
        assert {(v.index, v.kind, v.group) for v in found} == {(3, "low", 0)}
        assert {v.child for v in found} <= {6, 7}


def test_no_message_holds_a_count():
    (found,) = clashes(parent_of(low=[[0, 0], [0, 77]], total=(3, 55)))
    assert str(found) == "parent 41: child 1: lower bound of group 1 of family 0 not kept"


def test_an_odd_cycle_is_feasible_in_fractions_only():
    families = [
        Margin(group=(np.arange(3) == k).astype(int), low=[[1], [-FREE]], high=[[1], [FREE]])
        for k in range(3)
    ]
    batch = from_dense(np.zeros((3, 1)), weight=1.0, total=None, families=families)
    assert clashes(batch)


def test_real_shapes_are_feasible_until_a_total_is_changed():
    batch = problem("49 states, totals fixed", seed=3, children=6)
    assert clashes(batch) == []
    batch.high[2, -1] += 1
    batch.low[2, -1] += 1
    found = clashes(batch)
    assert found
    assert all(v.parent == batch.parent[0] for v in found)


def test_the_root_can_hold_anything_within_consistent_bounds():
    def root(low):
        families = [
            Margin(group=[0, 0, 0], low=[[7]], high=[[7]]),
            Margin(group=[0, 1, 1], low=low),
        ]
        return from_dense(np.zeros((3, 1)), weight=1.0, total=None, families=families)

    assert clashes(root([[3], [4]])) == []
    assert clashes(root([[4], [4]]))
