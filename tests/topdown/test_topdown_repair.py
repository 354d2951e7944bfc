"""Feasibility repair: random tables of bounds, and the least move beside brute force."""

from __future__ import annotations

import sys
from itertools import product
from queue import SimpleQueue

import numpy as np
import pytest

from headcount.errors import ConfigError, RunError
from headcount.release.layout import stem_of
from headcount.schema import Attribute, Schema
from headcount.solve import worker
from headcount.storage import storage_at
from headcount.tabulate import Query
from headcount.tabulate import counts as tabulate_counts
from headcount.topdown import _repair as making
from headcount.topdown import _repair as room_plan
from headcount.topdown._repair import WHOLE, Repair, RepairPlanner, refuse_too_wide
from headcount.topdown.choices import TableBounds
from headcount.topdown.parts import PartFiles
from headcount.topdown.restrict import JointTotals, Restriction
from tests.support import drawn_bounds
from tests.topdown.small import (
    AGE,
    KIND,
    STATE_TOTAL,
    TOTAL,
    Ints,
    answers,
    dense,
    pure,
    run,
    settings,
    tree,
    village,
)

PAIR = Schema((Attribute("a", ("0", "1")),))
BY_A = Query("a", ("a",))
KINDS = ("home", "school", "nursing")
BROKEN_BY_FAILSAFE = 3
"""A case in which the failsafe's answer breaks a bound of a unit above it."""


def test_random_tables_of_bounds_that_check_passes_complete(tmp_path):
    """``make extreme`` runs many more."""
    seen, wrong = drawn_bounds.run_cases(range(40), tmp_path)
    assert wrong == []
    assert seen["completed"] == 40
    assert seen["room"] > 0
    assert seen["crossing"] > 5


def test_a_broken_bound_of_a_release_is_seen(tmp_path):
    """The look at a release that judges it can fail."""
    case = drawn_bounds.draw_case(0, tmp_path)
    truth = case.counts.dense()
    assert drawn_bounds.keeps(case, truth)
    assert not drawn_bounds.keeps(case, truth + 1_000_000)
    assert not drawn_bounds.keeps(case, truth - 1_000_000)


@pytest.mark.parametrize("number", [3, 10, 27, 37, 58])
def test_if_every_solver_fails_people_are_dealt_out(number, tmp_path, monkeypatch):
    def fails(batch, passes):
        counts = np.zeros(len(batch.answer), dtype=np.int64)
        return counts, np.arange(batch.parents), {}, ()

    monkeypatch.setattr(making, "solve_batch", fails)
    case = drawn_bounds.draw_case(number, tmp_path)
    outcome = run(case.mechanism, case.counts, seed=number)
    assert any(made for what, made in outcome.notes.items() if what.endswith("room made"))
    assert drawn_bounds.keeps(case, dense(outcome)[case.counts.geography.leaf])


def test_a_failsafe_that_breaks_a_bound_above_is_not_kept(tmp_path, monkeypatch):
    """It keeps a margin of the parent, not what the parent's own bounds are about."""
    case = drawn_bounds.draw_case(BROKEN_BY_FAILSAFE, tmp_path)
    outcome = run(case.mechanism, case.counts, seed=BROKEN_BY_FAILSAFE)
    assert drawn_bounds.keeps(case, dense(outcome)[case.counts.geography.leaf])
    monkeypatch.setattr(Repair, "kept", lambda _, level, above, rescued: rescued)
    with pytest.raises(RunError, match="broken by the sum of its leaves, expected it kept"):
        run(case.mechanism, case.counts, seed=BROKEN_BY_FAILSAFE)


@pytest.mark.parametrize("number", [3, 37, 58])
def test_a_run_resumed_after_room_was_made_is_the_same(number, tmp_path):
    case = drawn_bounds.draw_case(number, tmp_path)
    place, space = case.counts.geography, tmp_path / "space"
    first = run(case.mechanism, case.counts, seed=number, workspace=storage_at(space))
    assert first.notes[f"{place.leaf}: room made"]
    mended = space / "run-0" / stem_of(place.leaf) / "mended.arrow"
    mended.unlink()
    assert PartFiles(storage_at(space), 0).level(place.levels[-2]) is not None
    again = run(case.mechanism, case.counts, seed=number, workspace=storage_at(space))
    assert all(np.array_equal(dense(first)[k], dense(again)[k]) for k in place.levels)
    assert again.notes == first.notes
    assert mended.is_file()


def exact(values) -> Restriction:
    numbers = np.array(values, dtype=np.int64)
    return Restriction(TOTAL, numbers, numbers)


def planner(place, restrictions, **more) -> RepairPlanner:
    return RepairPlanner(schema=PAIR, geography=place, restrictions=restrictions, **more)


@pytest.mark.parametrize("together", [False, True])
def test_the_move_is_the_least_by_brute_force(together):
    """Two states with two leaves each, two cells: every table of leaves is tried.

    Totals are exact of each leaf, or of the two leaves of the first state together.
    """
    place = tree(("state", [2]), ("leaf", [2, 2]))
    rng = np.random.default_rng(5)
    every = np.array(list(product(range(3), repeat=8))).reshape(-1, 4, 2)
    ends = {"none": 0, "moved": 0}
    for _ in range(25):
        low = rng.integers(0, 2, size=(4, 2))
        high = low + rng.integers(0, 2, size=(4, 2))
        total = rng.integers(low.sum(axis=1), high.sum(axis=1) + 1)[:, None]
        restrictions = {
            "whole": (),
            "state": (),
            "leaf": (Restriction(BY_A, low, high), *([] if together else [exact(total)])),
        }
        good = ((every >= low) & (every <= high)).all(axis=(1, 2))
        people, joint = every.sum(axis=2), {}
        if together:
            group = np.array([0, 0, 1, 2], dtype=np.int32)
            sums = np.bincount(group, total[:, 0]).astype(np.int64)
            joint = {"leaf": JointTotals(group, sums)}
            good &= people[:, 0] + people[:, 1] == sums[0]
            good &= (people[:, 2:] == sums[1:]).all(axis=1)
        else:
            good &= (people == total[:, 0]).all(axis=1)
        tree_of = planner(place, restrictions, joint=joint)
        for top in (0, WHOLE):
            now = rng.integers(0, 5, size=(2, 2))
            estimate = {0: now.sum(axis=0, keepdims=True), 1: now}
            plan = tree_of.plan(2, top, 0, estimate)
            states = every.reshape(-1, 2, 2, 2).sum(axis=2)
            far = np.abs(states - now).sum(axis=(1, 2))
            if top == WHOLE:
                far += np.abs(states.sum(axis=1) - now.sum(axis=0)).sum(axis=1)
                allowed = good
            else:
                allowed = good & (states.sum(axis=1) == now.sum(axis=0)).all(axis=1)
            if not allowed.any():
                assert plan is None
                ends["none"] += 1
                continue
            assert plan is not None
            moved = np.abs(plan.counts[1] - now).sum()
            moved += np.abs(plan.counts[0] - estimate[0]).sum() if top == WHOLE else 0
            assert moved == plan.moved == far[allowed].min()
            assert any(np.array_equal(plan.counts[2], one) for one in every[allowed])
            ends["moved"] += int(moved > 0)
    assert min(ends.values()) > 4


def test_bounds_too_wide_to_make_room_for_are_refused(monkeypatch):
    from tests.topdown.small import SCHEMA

    monkeypatch.setattr(room_plan, "MOST_COUNTS", 10)
    place = tree(("state", [2]), ("leaf", [2, 2]))

    def bounds(query, units, low=1, high=9):
        shape = (units, query.size(SCHEMA))
        return Restriction(query, np.full(shape, low), np.full(shape, high))

    one = {"whole": (bounds(KIND, 1, 4, 36),), "state": (bounds(KIND, 2, 2, 18),)}
    one["leaf"] = (bounds(KIND, 4),)
    refuse_too_wide(one, schema=SCHEMA, geography=place)
    two = one | {"leaf": (bounds(KIND, 4), bounds(AGE, 4))}
    with pytest.raises(ConfigError) as error:
        refuse_too_wide(two, schema=SCHEMA, geography=place)
    assert str(error.value) == (
        "topdown: bounds on 'age', 'kind' at 'leaf': found bounds of several queries at once in 20 "
        "units x groups of cells, expected at most 10, or bounds on the groups of one query: it "
        "cannot be shown that every estimate above leaves room for them"
    )
    together = JointTotals(np.zeros(4, dtype=np.int32), np.array([9]))
    with pytest.raises(ConfigError) as error:
        refuse_too_wide(one, schema=SCHEMA, geography=place, joint={"leaf": together})
    assert str(error.value).startswith(
        "topdown: spine, level 'leaf': found exact totals of several units together in 12 units x "
        "groups of cells, expected at most 10"
    )


@pytest.mark.parametrize("seed", range(9))
@pytest.mark.parametrize("failsafe", [(), ("kind",)], ids=["alone", "failsafe"])
def test_exact_totals_and_a_public_table_at_one_level(seed, failsafe, tmp_path):
    """One state has no more homes, the other no more of anything else: the whole is told so."""
    counts = village()
    truth = answers(counts.at("state").dense(), KIND)
    high = np.where([[True, False, False], [False, True, True]], truth, 10_000)
    lines = ["state,kind,low,high"]
    for name, most in zip(("state0", "state1"), high, strict=True):
        lines += [f"{name},{kind},0,{n}" for kind, n in zip(KINDS, most, strict=True)]
    (tmp_path / "kinds.csv").write_text("\n".join(lines) + "\n")
    mechanism = settings(
        pure("1/20"),
        invariants=(STATE_TOTAL,),
        bounds=(
            TableBounds(query="kind", level="state", file=tmp_path / "kinds.csv", public=True),
        ),
        failsafe_over=failsafe,
    )
    mechanism.on(counts.domain).check(counts)
    state = dense(run(mechanism, counts, seed=seed))["state"]
    assert state.sum(axis=1).tolist() == truth.sum(axis=1).tolist()
    assert (answers(state, KIND) <= high).all()


def test_a_programme_that_takes_too_long_asks_for_more_room_or_for_any_counts(monkeypatch):
    from headcount.solve import mip

    def late(program, *, nodes=0, here=False):
        if nodes < mip.ENDLESS:
            raise mip.SolverError("HiGHS ended with status 'Solution limit reached'")
        assert not program.cost.any()
        return solves(program)

    solves = mip.best_within
    monkeypatch.setattr(mip, "best_within", late)
    place = tree(("state", [2]))
    one = np.array([[1], [2]])
    tree_of = planner(place, {"whole": (), "state": (exact(one),)})
    now = {0: np.array([[5]])}
    assert tree_of.plan(1, 0, 0, now) is None
    found = tree_of.plan(1, WHOLE, 0, now)
    assert found is not None
    assert found.counts[1].tolist() == [[1], [2]]


def test_levels_are_added_up_once_and_not_for_each_ancestor(tmp_path, monkeypatch):
    """Each of two levels needs room, and finds it at the second ancestor tried."""
    pairs, whole_levels = [], []

    def adder(geography, level, *, of):
        pairs.append((level, of))
        return adds(geography, level, of=of)

    def by_atom(self, cells):
        whole_levels.append(cells.shape[0])
        return add_up(self, cells)

    adds, add_up = tabulate_counts.adder, RepairPlanner.by_atom
    monkeypatch.setattr(room_plan, "adder", adder)
    monkeypatch.setattr(RepairPlanner, "by_atom", by_atom)
    case = drawn_bounds.draw_case(37, tmp_path)
    outcome = run(case.mechanism, case.counts, seed=37)
    assert int(outcome.notes["county: room made"]) == int(outcome.notes["tract: room made"]) == 1
    assert len(pairs) == len(set(pairs)) > 0
    states, counties = (case.counts.geography.size(level) for level in ("state", "county"))
    assert whole_levels.count(states) == whole_levels.count(counties) == 1


ABORTS = (sys.executable, "-c", "import os; os.abort()")


def no_room() -> tuple[RepairPlanner, dict[int, Ints]]:
    """Totals of two states, and an estimate of the whole that leaves no room for them."""
    place = tree(("state", [2]))
    restrictions = {"whole": (), "state": (exact([[1], [2]]),)}
    return planner(place, restrictions), {0: np.array([[5]])}


def test_the_last_resort_does_without_a_worker_that_always_aborts(monkeypatch, caplog):
    monkeypatch.setattr(worker, "_idle", SimpleQueue())
    monkeypatch.setattr(worker, "COMMAND", ABORTS)
    tree_of, now = no_room()
    assert tree_of.plan(1, 0, 0, now) is None
    assert not caplog.records
    found = tree_of.plan(1, WHOLE, 0, now)
    assert found is not None
    assert found.counts[1].tolist() == [[1], [2]]
    said = "topdown: making room: the process of HiGHS ended without an answer"
    assert [one.getMessage() for one in caplog.records] == [said] * 2


@pytest.mark.parametrize("status", ["Unknown", "Infeasible"])
def test_if_no_try_of_the_last_resort_finds_counts_the_run_is_told_what_to_do(
    status, tmp_path, monkeypatch
):
    """HiGHS that loses its way, or that finds no counts where there are some."""
    asked = []

    def lost(program, **options):
        asked.append(options.get("presolve", "on"))
        return worker.SolverAnswer(status, None)

    monkeypatch.setattr(worker, "solve_apart", lost)
    monkeypatch.setattr(worker, "run_here", lost)
    case = drawn_bounds.draw_case(10, tmp_path)
    with pytest.raises(RunError) as error:
        run(case.mechanism, case.counts, seed=10)
    assert str(error.value) == (
        "topdown: level 'state': found no counts that keep every bound down to this level, "
        "expected some, since bounds that the data meet can be met: run the same command again, "
        "with more memory if solvers ran out of it, or give the run up with headcount close"
    )
    assert asked[-3:] == ["on", "on", "off"]


def test_the_receipt_says_how_far_estimates_moved(tmp_path, monkeypatch):
    """Level by level, what the plans that were found have moved."""
    plans: dict[int, int] = {}

    def plan(self, depth, top, ancestor, estimate):
        if (made := planned(self, depth, top, ancestor, estimate)) is not None:
            far = [np.abs(made.counts[d] - estimate[d]).sum() for d in estimate if d > top]
            plans[depth] = plans.get(depth, 0) + sum(far)
        return made

    planned = RepairPlanner.plan
    monkeypatch.setattr(RepairPlanner, "plan", plan)
    case = drawn_bounds.draw_case(37, tmp_path)
    notes = run(case.mechanism, case.counts, seed=37).notes
    levels = case.counts.geography.levels
    assert sorted(plans) == [2, 3]
    assert min(plans.values()) > 0
    said = [int(notes[f"{level}: moved to make room"]) for level in levels]
    assert said == [0, 0, plans[2], plans[3]]


def test_the_whole_that_moves_says_how_far():
    """Estimated one and six; wanted two or more of the first, and six in all."""
    low, high = np.array([[2, 0]]), np.array([[9, 9]])
    tree_of = planner(tree(), {"whole": (exact([[6]]), Restriction(BY_A, low, high))})
    plan = tree_of.plan(0, WHOLE, 0, {0: np.array([[1, 6]])})
    assert plan is not None
    assert plan.counts[0].tolist() == [[2, 4]]
    assert plan.moved == 3
