"""Bounds that overlap: classified, and rounded by HiGHS where the nested part is not enough."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from headcount.solve.mip import Program, SolverError, minimise
from headcount.topdown.solve.batch import NO_BOUND, locate, nesting
from headcount.topdown.solve.rounding import RoundingMethod, round_batch
from tests.support.dense import Margin, from_dense
from tests.topdown.solve.test_rounding import brute_force, price
from tests.topdown.solve.tiny import (
    CELLS,
    CROSS,
    HALVES,
    SINGLES,
    WHOLE,
    dense,
    estimates,
    problems,
)

FREE = int(NO_BOUND)


def bounded(*groups, children=2):
    """A root or parent with upper bounds on every group of these partitions."""
    families = [Margin(group=g, high=np.full((int(np.max(g)) + 1, children), 5)) for g in groups]
    return from_dense(np.zeros((CELLS, children)), weight=1.0, total=[1] * 4, families=families)


def test_a_chain_of_partitions_nests():
    forest = nesting(bounded(SINGLES, HALVES, WHOLE))
    assert forest.nested
    assert forest.column.tolist() == [6, 4, 5, 0, 1, 2, 3]
    assert forest.above.tolist() == [-1, 0, 0, 1, 1, 2, 2]
    assert forest.leaf.tolist() == [3, 4, 5, 6]


def test_the_same_partition_twice_nests():
    forest = nesting(bounded(HALVES, HALVES))
    assert forest.nested
    assert forest.above.tolist() == [-1, -1, 0, 1]


def test_crossing_marginals_overlap():
    batch = bounded(HALVES, CROSS, WHOLE)
    forest = nesting(batch)
    assert not forest.nested
    assert forest.left_out.tolist() == [2, 3]
    assert [locate(batch, int(c)) for c in forest.left_out] == [(1, 0), (1, 1)]


def test_crossing_marginals_that_are_only_measured_do_not_matter():
    measured = Margin(group=CROSS, weight=2.0, margin=np.zeros((2, 2)))
    families = [Margin(group=HALVES, high=np.full((2, 2), 5)), measured]
    batch = from_dense(np.zeros((CELLS, 2)), weight=1.0, total=[1] * 4, families=families)
    assert nesting(batch).nested


def union_bounds(high):
    """Bounds on every pair of four types, as the union bounds of the 2018 code."""
    families = []
    for pair in combinations(range(CELLS), 2):
        group = np.isin(np.arange(CELLS), pair).astype(int)
        limit = np.array([[FREE] * 2, high])
        families.append(Margin(group=group, high=limit))
    return families


def test_union_bounds_overlap_and_go_to_the_mip():
    families = union_bounds([3, 9])
    batch = from_dense(np.zeros((CELLS, 2)), weight=1.0, total=[2] * 4, families=families)
    assert not nesting(batch).nested
    # the nearest integers put 2, 0, 2, 0 into the first child: a pair that crosses has 4
    x = np.array([1.6, 0.4, 0.3, 1.7, 1.6, 0.4, 0.3, 1.7])
    found = round_batch(batch, x)
    assert found.method[0] == RoundingMethod.MIP
    assert not found.broken
    assert price(x, found.counts) == brute_force(batch, x)


def test_overlapping_bounds_that_the_nested_part_keeps_need_no_mip():
    batch = from_dense(
        np.zeros((CELLS, 2)), weight=1.0, total=[2] * 4, families=union_bounds([9, 9])
    )
    found = round_batch(batch, np.array([1.9, 0.1] * 4))
    assert found.method[0] == RoundingMethod.GREEDY


def test_a_parent_without_an_answer_in_time_is_left_without_a_rounding(monkeypatch, caplog):
    def late(*_, **__):
        raise SolverError("HiGHS ended with status 'Time limit reached'")

    monkeypatch.setattr("headcount.topdown.solve.integer_programs.minimise", late)
    batch = from_dense(
        np.zeros((CELLS, 2)), weight=1.0, total=[2] * 4, families=union_bounds([3, 9])
    )
    found = round_batch(batch, np.array([1.6, 0.4, 0.3, 1.7, 1.6, 0.4, 0.3, 1.7]))
    assert found.method[0] == RoundingMethod.NONE
    assert "rounding: parent 0: HiGHS ended with status 'Time limit reached'" in caplog.text


def test_the_mip_widens_by_one_and_says_so():
    families = union_bounds([1, 9])
    batch = from_dense(np.zeros((CELLS, 2)), weight=1.0, total=[2] * 4, families=families)
    x = np.array([1.6, 0.4] * 4)
    found = round_batch(batch, x)
    assert brute_force(batch, x) is None
    assert found.widened[0]
    assert found.method[0] == RoundingMethod.MIP
    assert not found.broken
    assert price(x, found.counts) == brute_force(batch, x, wide=1)


def test_an_odd_cycle_has_no_integers_at_all():
    """Halves keep "each pair of three cells sums to 1"; no integers do."""
    families = [
        Margin(group=(np.arange(3) == k).astype(int), low=[[1], [-FREE]], high=[[1], [FREE]])
        for k in range(3)
    ]
    batch = from_dense(np.zeros((3, 1)), weight=1.0, total=None, families=families)
    found = round_batch(batch, np.full(3, 0.5))
    assert found.method[0] == RoundingMethod.NONE


@settings(max_examples=100)
@given(st.data())
def test_overlapping_bounds_have_the_optimum_that_brute_force_finds(data):
    batch, counts = data.draw(problems(families=(HALVES, CROSS), top=2, moved=False))
    x = data.draw(estimates(batch, counts))
    found = round_batch(batch, x)
    event(RoundingMethod(found.method[0]).name)
    best = brute_force(batch, x)
    assert found.widened[0] == (best is None)
    if best is None:
        best = brute_force(batch, x, wide=1)
    assert (found.method[0] == RoundingMethod.NONE) == (best is None)
    assert not found.broken
    if best is not None:
        assert abs(price(x, found.counts) - best) <= 1
        assert (dense(batch, found.counts).sum(axis=1) == counts.sum(axis=1)).all()


def test_a_solver_that_gives_up_is_an_error_and_not_a_verdict():
    rng = np.random.default_rng(1)
    from scipy.sparse import csr_array

    knapsack = Program(
        cost=-rng.uniform(1, 2, 60),
        low=np.zeros(60),
        high=np.ones(60),
        matrix=csr_array(rng.uniform(1, 2, (30, 60))),
        row_low=np.full(30, -np.inf),
        row_high=np.full(30, 40.0),
        integer=True,
    )
    with pytest.raises(SolverError, match="without an optimum or a proof"):
        minimise(knapsack, steps=0)
