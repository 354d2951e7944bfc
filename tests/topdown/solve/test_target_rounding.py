"""Rounding to rounded targets: against brute force and HiGHS, pass by pass."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.arrays import Ints, Ints32
from headcount.errors import HeadcountError
from headcount.solve.mip import SolverError, minimise
from headcount.topdown.solve import integer_programs
from headcount.topdown.solve.batch import NO_BOUND, nest, violations
from headcount.topdown.solve.integer_programs import clashes, round_one_to_targets, target_program
from headcount.topdown.solve.rounding import (
    RoundingMethod,
    margin_counts,
    round_batch,
    round_passes,
)
from tests.support.dense import Margin, from_dense, side_by_side
from tests.support.pass_problems import SHAPE, TOTALS_FIRST, pass_problem, rounding_passes
from tests.support.solver_answers import solve_passes, target_distance
from tests.topdown.solve.tiny import CROSS, HALVES, SINGLES, WHOLE


def chain(*groups):
    return tuple(np.array(group, np.int32) for group in groups)


def chain_gaps(seed: int) -> list[float]:
    """Our distance in each rounding pass less the least of HiGHS without integrality."""
    batch = pass_problem(seed).batch
    x = solve_passes(batch, TOTALS_FIRST, threads=1)[0].x
    passes = rounding_passes(seed)
    found, after = round_passes(batch, x, passes, network=True)
    if found.broken or found.widened.any():
        return [np.inf]
    held: list[tuple[Ints32, Ints]] = []
    gaps = []
    for one, counts in zip(passes, after, strict=True):
        program = replace(target_program(batch, x, one, held), integer=False)
        steps = minimise(program)
        least = np.inf if steps is None else float(program.cost @ steps)
        gaps.append(float(target_distance(batch, x, counts, one)[0]) - least)
        held += [(query, margin_counts(batch, query, counts)) for query in one]
    return gaps


@pytest.mark.parametrize("seed", range(30))
def test_every_pass_attains_the_optimum_of_highs_without_integrality(seed):
    assert chain_gaps(seed) == pytest.approx([0.0] * len(rounding_passes(seed)), abs=1e-6)


def every_rounding(batch, x):
    """All counts in {floor, floor + 1} that keep the constraints."""
    whole = np.floor(x).astype(np.int64)
    every = whole + np.array(list(product((0, 1), repeat=len(x))))
    return [counts for counts in every if not violations(batch, counts)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_brute_force_finds_no_nearer_rounding_and_no_better_among_ties(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, (4, 2)) + rng.choice([0.0, 0.25, 0.5, 0.7, 0.9], (4, 2))
    x[:, 1] = np.ceil(x.sum(axis=1)) - x[:, 0]
    halves = np.stack([x[:2].sum(axis=0), x[2:].sum(axis=0)])
    low, high = np.floor(halves) - (rng.random((2, 2)) < 0.5), np.ceil(halves)
    family = Margin(group=HALVES, low=np.maximum(low, 0), high=high)
    batch = from_dense(
        np.zeros((4, 2)), weight=1.0, total=np.rint(x.sum(axis=1)), families=[family]
    )
    x = x[batch.cell].ravel()
    passes = (chain(WHOLE), chain(HALVES, SINGLES, SINGLES))
    found, after = round_passes(batch, x, passes, network=True)
    left = every_rounding(batch, x)
    assert not found.broken
    for one, counts in zip(passes, after, strict=True):
        near = [int(target_distance(batch, x, c, one)[0]) for c in left]
        assert target_distance(batch, x, counts, one)[0] == min(near)
        best = [c for c, d in zip(left, near, strict=True) if d == min(near)]
        ties = [((1 - 2 * (x - np.floor(x))) * (c - np.floor(x))).sum() for c in (*best, counts)]
        assert ties[-1] == pytest.approx(min(ties), abs=1e-4)
        held = [margin_counts(batch, query, counts) for query in one]
        left = [
            c
            for c in best
            if all(
                (margin_counts(batch, query, c) == integers).all()
                for query, integers in zip(one, held, strict=True)
            )
        ]
        assert any((c == counts).all() for c in left)


def test_many_children_are_rounded_as_near_as_by_highs_and_as_well_among_ties():
    """So many paths that potentials are set anew on the way."""
    rng = np.random.default_rng(0)
    n, kids = int(np.prod(SHAPE)), 40
    total = rng.integers(1, 60, n)
    x = rng.dirichlet(np.full(kids, 0.7), n) * total[:, None]
    batch = from_dense(np.zeros((n, kids)), weight=1.0, total=total)
    x = x[batch.cell].ravel()
    held: list[tuple[Ints32, Ints]] = []
    for one in rounding_passes(0):
        found, (counts,) = round_passes(batch, x, (one,), held=held, network=True)
        best = round_one_to_targets(batch, x, one, held)
        assert best is not None
        assert not found.broken
        assert target_distance(batch, x, counts, one) == target_distance(batch, x, best, one)
        ours, ties = (((1 - 2 * (x % 1)) * (y - np.floor(x))).sum() for y in (counts, best))
        assert ours == pytest.approx(ties, abs=1e-3)
        held += [(query, margin_counts(batch, query, counts)) for query in one]
    assert found.repairs[0] > 100


def test_a_total_is_rounded_before_its_cells():
    """Four cells of 0.3 and 0.7: each cell alone goes to 0 and 1, the totals to 1 and 3."""
    batch = from_dense(np.zeros((4, 2)), weight=1.0, total=[1] * 4)
    x = np.array([0.3, 0.7] * 4)
    cells, _ = round_passes(batch, x, (chain(SINGLES),))
    assert cells.counts.tolist() == [0, 1] * 4
    totals, after = round_passes(batch, x, (chain(WHOLE), chain(SINGLES)))
    assert margin_counts(batch, WHOLE, totals.counts).ravel().tolist() == [1, 3]
    assert target_distance(batch, x, after[0], chain(WHOLE)).tolist() == [0]
    assert totals.method[0] == RoundingMethod.NETWORK


def test_half_goes_to_the_even_number():
    batch = from_dense(np.zeros((4, 2)), weight=1.0, total=[1, 1, 1, 2])
    x = np.array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0])
    found, _ = round_passes(batch, x, (chain(WHOLE),))
    # floors of 1 and 1; parts of 1.5 and 1.5 both aim at 2, and only 3 are to be had
    assert sorted(margin_counts(batch, WHOLE, found.counts).ravel().tolist()) == [2, 3]
    assert target_distance(batch, x, found.counts, chain(WHOLE)).tolist() == [1]


def test_queries_that_cross_go_to_highs_or_are_refused():
    rng = np.random.default_rng(3)
    x = rng.random((4, 3)) * 3
    x[:, 2] = np.ceil(x.sum(axis=1)) + 1 - x[:, 0] - x[:, 1]
    batch = from_dense(np.zeros((4, 3)), weight=1.0, total=np.rint(x.sum(axis=1)))
    one, x = chain(HALVES, CROSS), x.ravel()
    found, _ = round_passes(batch, x, (one,))
    assert found.method[0] == RoundingMethod.MIP
    assert not found.broken
    near = [int(target_distance(batch, x, c, one)[0]) for c in every_rounding(batch, x)]
    assert target_distance(batch, x, found.counts, one)[0] == min(near)
    with pytest.raises(HeadcountError, match="found queries in pass 2 that cross each other"):
        round_passes(batch, x, (chain(WHOLE), one), network=True)
    with pytest.raises(HeadcountError, match="found queries in pass 2 that cross"):
        round_passes(batch, x, (chain(HALVES), chain(CROSS)), network=True)
    with pytest.raises(HeadcountError, match="found no pass, expected one or more"):
        round_passes(batch, x, ())


def test_cells_in_no_bounded_group_do_not_make_queries_cross():
    assert nest([np.array([-1, 0], np.int32), np.array([0, 1], np.int32)])
    high = np.array([[NO_BOUND, NO_BOUND], [4, 4]])
    batch = from_dense(
        np.zeros((4, 2)), weight=1.0, total=[1] * 4, families=[Margin(group=HALVES, high=high)]
    )
    found, _ = round_passes(batch, np.array([0.3, 0.7] * 4), (chain(HALVES),), network=True)
    assert found.method[0] == RoundingMethod.NETWORK
    assert not found.broken


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_refinements_nest_whichever_groups_are_left_out_and_crossing_groups_do_not(data):
    cells = data.draw(st.integers(2, 12))
    numbers = st.lists(st.integers(0, 2), min_size=cells, max_size=cells)
    fine, partitions = np.zeros(cells, np.int64), []
    for _ in range(data.draw(st.integers(1, 4))):
        fine = np.unique(3 * fine + np.array(data.draw(numbers)), return_inverse=True)[1]
        many = int(fine.max()) + 1
        kept = np.array(data.draw(st.lists(st.booleans(), min_size=many, max_size=many)))
        partitions.append(np.where(kept[fine], fine, -1).astype(np.int32))
    partitions = data.draw(st.permutations(partitions))
    assert nest(partitions)
    members = [set(np.flatnonzero(one == g)) for one in partitions for g in range(one.max() + 1)]
    other = np.array(data.draw(numbers), np.int32) - 1
    more = [set(np.flatnonzero(other == g)) for g in range(other.max() + 1)]
    fits = all(not a & b or a <= b or b <= a for a in members for b in more)
    assert nest([*partitions, other]) == fits


def test_a_parent_on_which_highs_gives_up_has_no_rounding(monkeypatch, caplog):
    """Whoever asked makes room, or deals people out: a release is not lost."""

    def late(program):
        raise SolverError("HiGHS ended with status 'Time limit reached'")

    monkeypatch.setattr(integer_programs, "minimise", late)
    batch = from_dense(np.zeros((4, 2)), weight=1.0, total=[1] * 4)
    x = np.array([0.3, 0.7] * 4)
    found, _ = round_passes(batch, x, (chain(HALVES, CROSS),))
    assert found.method.tolist() == [RoundingMethod.NONE]
    assert found.counts.tolist() == [-1] * 8
    assert (
        caplog.messages == ["rounding: parent 0: HiGHS ended with status 'Time limit reached'"] * 2
    )


def test_threads_and_neighbours_do_not_change_the_answer():
    problems = [pass_problem(seed).batch for seed in range(40)]
    problems = [one for one in problems if not len(one.joint)][:8]
    batch, passes = side_by_side(problems), rounding_passes(0)
    x = solve_passes(batch, TOTALS_FIRST, threads=1)[0].x
    found = [round_passes(batch, x, passes, threads=n)[0].counts for n in (1, 3)]
    first = batch.var_start[batch.cell_start]
    alone = [
        round_passes(one, x[a:b], passes)[0].counts
        for one, a, b in zip(problems, first[:-1], first[1:], strict=True)
    ]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], np.concatenate(alone))


def test_the_root_and_what_cannot_be_rounded():
    family = Margin(group=WHOLE, low=[[7]], high=[[7]])
    root = from_dense(np.zeros((4, 1)), weight=1.0, total=None, families=[family])
    found, _ = round_passes(root, np.array([2.2, 1.3, 2.4, 0.9]), (chain(WHOLE, SINGLES),))
    assert found.counts.tolist() == [2, 1, 3, 1]
    batch = from_dense(
        np.zeros((1, 2)), weight=1.0, total=[6], families=[Margin(group=[0], high=[[3, 9]])]
    )
    wider, _ = round_passes(batch, np.array([4.5, 1.5]), (chain([0]), chain([0])))
    assert wider.counts.tolist() == [3, 3]
    assert wider.widened[0]
    none, after = round_passes(batch, np.array([5.5, 0.5]), (chain([0]), chain([0])))
    assert none.method[0] == RoundingMethod.NONE
    assert none.counts.tolist() == after[1].tolist() == [-1, -1]
    with pytest.raises(HeadcountError, match="negative or not finite"):
        round_passes(batch, np.array([np.nan, 1.0]), (chain([0]),))


def test_a_group_without_a_cell_that_must_have_somebody_has_no_rounding():
    family = Margin(group=[0, 1], low=[[0, 0], [1, 0]])
    batch = from_dense(np.zeros((2, 2)), weight=1.0, total=[3, 0], families=[family])
    found, _ = round_passes(batch, np.array([1.5, 1.5]), (chain([0, 0]),))
    assert found.method[0] == RoundingMethod.NONE


# totals of several children together


def pairs(**changes):
    batch = from_dense(
        np.zeros((2, 3)), weight=1.0, total=[4, 5], joint=[0, 0, -1], joint_total=[6]
    )
    return replace(batch, **changes)


X = np.array([1.5, 1.2, 1.3, 1.5, 1.8, 1.7])


def test_joint_totals_are_kept_by_both_ways_of_rounding():
    for found in (round_batch(pairs(), X), round_passes(pairs(), X, (chain([0, 0]),))[0]):
        assert not found.broken
        assert found.counts.reshape(2, 3)[:, :2].sum() == 6
        assert found.counts.reshape(2, 3).sum(axis=1).tolist() == [4, 5]
    crossing = from_dense(
        np.zeros((4, 3)),
        weight=1.0,
        total=[3] * 4,
        families=[Margin(group=g, high=np.full((2, 3), 5)) for g in (HALVES, CROSS)],
        joint=[0, 0, -1],
        joint_total=[7],
    )
    found, _ = round_passes(crossing, np.tile([0.9, 0.85, 1.25], 4), (chain(HALVES, CROSS),))
    assert found.method[0] == RoundingMethod.MIP
    assert not found.broken
    assert found.counts.reshape(4, 3)[:, :2].sum() == 7


def test_a_joint_total_that_is_not_kept_is_named():
    counts = np.array([2, 2, 0, 2, 2, 1])
    [broken] = violations(pairs(), counts)
    assert str(broken) == "parent 0: child 0: total together with others not kept"
    assert (broken.kind, broken.index, broken.child) == ("joint", 0, 0)
    assert not violations(pairs(joint_total=np.array([8])), counts)
    assert not clashes(pairs())
    [clash] = clashes(pairs(joint_total=np.array([10])))
    assert clash.kind == "joint"


def test_joint_totals_survive_being_put_side_by_side():
    batch = side_by_side([pairs(), pairs(joint_total=np.array([5]))])
    found = round_batch(batch, np.concatenate([X, X]))
    assert not found.broken
    by_child = margin_counts(batch, np.zeros(2, np.int32), found.counts).ravel()
    assert (by_child[:2].sum(), by_child[3:5].sum()) == (6, 5)
    assert violations(batch, round_batch(batch, np.concatenate([X, X])).counts) == []
