"""Parents that cannot be met: the failsafe in a whole run, and errors without it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from headcount.errors import InputError
from headcount.solve.mip import SolverError
from headcount.storage import storage_at
from headcount.topdown import descend as descending
from headcount.topdown.choices import QuartersBounds
from headcount.topdown.descend import _LevelTask
from headcount.topdown.parts import PartFiles
from headcount.topdown.restrict import restrict
from headcount.topdown.solve import failsafe
from tests.topdown.small import (
    AGE,
    OCCUPIED,
    PEOPLE,
    SCHEMA,
    VILLAGE,
    add_up,
    answers,
    bounded,
    by_level,
    counts_of,
    dense,
    pure,
    run,
    tree,
    village,
)

TIGHT = QuartersBounds(query="kind", caps=(4, 15, 6), total_level="state")
"""Full homes: what a state's total leaves room for, its leaves often cannot hold."""

FEW = pure("1/20")
NEEDED = 0
"""A seed with which a state of the village cannot be met."""


def rescued(tmp_path, seed, **other):
    """A run with what was estimated before leaves were summed up."""
    mechanism = bounded(FEW, bounds=(TIGHT,), **other)
    outcome = run(mechanism, village(), seed=seed, workspace=storage_at(tmp_path / str(seed)))
    kept = PartFiles(storage_at(tmp_path / str(seed)), 0)
    estimated = {}
    for level in VILLAGE.levels:
        rows = kept.level(level)
        assert rows is not None
        table = np.zeros((rows.units, SCHEMA.size), dtype=np.int64)
        for unit in range(rows.units):
            own = slice(rows.start[unit], rows.start[unit + 1])
            table[unit, rows.cell[own]] = rows.value[own]
        estimated[level] = table
    return outcome, estimated


def calls(outcome):
    return {level: outcome.notes.get(f"{level}: failsafe", 0) for level in VILLAGE.levels}


def test_a_parent_that_cannot_be_met_keeps_its_margin_and_every_bound(tmp_path):
    used = dict.fromkeys(VILLAGE.levels, 0)
    restrictions = restrict(bounded(FEW, bounds=(TIGHT,)), by_level(village()))
    for seed in range(12):
        outcome, estimated = rescued(tmp_path, seed)
        made = dense(outcome)
        for level, count in calls(outcome).items():
            used[level] += int(count)
        for depth in range(1, 4):
            level, above = VILLAGE.levels[depth], VILLAGE.levels[depth - 1]
            parent = VILLAGE.parents[depth]
            broken = 0
            for p in range(len(estimated[above])):
                children = estimated[level][parent == p].sum(axis=0)
                before = estimated[above][p]
                assert np.array_equal(answers(children[None], AGE), answers(before[None], AGE))
                broken += not np.array_equal(children, before)
            # Only a parent that went through the failsafe may differ, and it is counted.
            assert broken == calls(outcome)[level]
        for level in VILLAGE.levels:
            # What is published at any level is the sum of the leaves.
            assert np.array_equal(made[level], add_up(VILLAGE, made["leaf"], level))
            for one in restrictions[level]:
                got = answers(made[level], one.query)
                assert ((one.low <= got) & (got <= one.high)).all()
        assert not made["leaf"][:, ~SCHEMA.possible].any()
    assert used["county"] > 0  # of state 0, with two counties, or of the only child of state 1
    assert used["whole"] == 0


def test_an_only_child_that_may_not_copy_goes_through_the_failsafe():
    """One line of units: what the state's bound allows is too much for the leaf's."""
    line = tree(("state", [1]), ("leaf", [1]))
    counts = counts_of(PEOPLE[:1], line, occupied=OCCUPIED[:1])
    times = 0
    for seed in range(12):
        mechanism = bounded(pure(2), bounds=(TIGHT,))
        outcome = run(mechanism, counts, seed=seed)
        leaf = dense(outcome)["leaf"][0]
        assert leaf.sum() == PEOPLE[0].sum()
        assert leaf[:2].sum() <= 4 * OCCUPIED[0, 0]
        assert leaf[2:4].sum() <= 15 * OCCUPIED[0, 1]
        times += int(outcome.notes["leaf: failsafe"])
        assert outcome.notes["leaf: failsafe"] != outcome.notes["leaf: only children"]
        if outcome.notes["leaf: failsafe"]:
            strict = bounded(pure(2), bounds=(TIGHT,), failsafe_over=())
            alone = run(strict, counts, seed=seed)
            assert alone.notes["leaf: failsafe"] == 0
            assert alone.notes["leaf: room made"] == 1
    assert 0 < times < 12


def test_without_a_failsafe_room_is_made():
    mechanism = bounded(FEW, bounds=(TIGHT,), failsafe_over=())
    outcome = run(mechanism, village(), seed=NEEDED)
    assert calls(outcome)["county"] == 0
    assert int(outcome.notes["county: room made"]) > 0
    for level, those in restrict(mechanism, by_level(village())).items():
        for one in those:
            got = answers(dense(outcome)[level], one.query)
            assert ((one.low <= got) & (got <= one.high)).all()


def test_room_is_made_where_even_the_failsafe_fails(monkeypatch, tmp_path):
    def hopeless(*_, **__):
        raise SolverError("nothing")

    assert calls(rescued(tmp_path, NEEDED)[0])["county"]
    monkeypatch.setattr(failsafe, "rescue", hopeless)
    outcome = run(bounded(FEW, bounds=(TIGHT,)), village(), seed=NEEDED)
    assert calls(outcome)["county"] == 0
    assert int(outcome.notes["county: room made"]) > 0


def test_structural_zeros_do_not_reopen(monkeypatch):
    """And would, if the failsafe opened every cell whose margin is positive."""
    mechanism = bounded(FEW, bounds=(TIGHT,))
    minors_in_nursing = SCHEMA.cell(kind="nursing", age="minor")

    def found(seeds) -> int:
        return sum(
            int(dense(run(mechanism, village(), seed=seed))["leaf"][:, minors_in_nursing].sum())
            for seed in seeds
        )

    assert found(range(12)) == 0

    def careless(**named):
        return _LevelTask(**(named | {"possible": np.ones(SCHEMA.size, dtype=bool)}))

    monkeypatch.setattr(descending, "_LevelTask", careless)
    assert found(range(12)) > 0


def test_an_unknown_attribute_of_the_failsafe_is_refused_before_the_run():
    with pytest.raises(InputError, match="found attribute 'kin', expected one of 'kind', 'age'"):
        bounded(FEW, failsafe_over=("kin",)).on(village().domain).check(village())


def test_the_least_change_is_the_least(tmp_path):
    """One parent with two leaves, small enough to try every pair of leaves."""
    pair = tree(("state", [1]), ("leaf", [2]))
    occupied = np.array([[1, 1, 0], [1, 0, 0]])
    people = np.array([[0, 1, 1, 2, 0, 0], [1, 1, 0, 0, 0, 0]])
    counts = counts_of(people, pair, occupied=occupied)
    caps = QuartersBounds(query="kind", caps=(2, 4, 1), total_level="state")
    mechanism = bounded(FEW, bounds=(caps,))
    times = 0
    for seed in range(40):
        outcome = run(mechanism, counts, seed=seed, workspace=storage_at(tmp_path / str(seed)))
        if not outcome.notes["leaf: failsafe"]:
            continue
        times += 1
        found = PartFiles(storage_at(tmp_path / str(seed)), 0).level("state")
        assert found is not None
        state = np.zeros(6, dtype=np.int64)
        state[found.cell] = found.value
        made = dense(outcome)["leaf"]
        changed = np.abs(state - made.sum(axis=0)).sum()
        assert changed <= _least_change(state, occupied, np.array(caps.caps)) + 2
    assert times > 3


def _least_change(state, occupied, caps) -> int:
    """The least L1 change over every way to fill the two leaves that keeps the ages."""
    ages = answers(state[None], AGE)[0]
    rows = []
    for leaf in range(2):
        low, high = occupied[leaf], occupied[leaf] * caps
        ranges = [range(int(high[k // 2]) + 1) for k in range(4)] + [range(1)] * 2
        every = np.array(list(product(*ranges)))
        by_kind = every.reshape(-1, 3, 2).sum(axis=2)
        rows.append(every[((low <= by_kind) & (by_kind <= high)).all(axis=1)])
    both = (rows[0][:, None] + rows[1][None]).reshape(-1, 6)
    both = both[(both[:, [0, 2, 4]].sum(axis=1) == ages[0]) & (both.sum(axis=1) == state.sum())]
    return int(np.abs(both - state).sum(axis=1).min())


def test_a_failsafe_that_rounds_wider_is_counted(monkeypatch):
    from headcount.topdown.solve import failsafe

    round_kept = failsafe.round_kept

    def wider(batch, x, **named):
        return round_kept(batch, x, **named)[0], True

    monkeypatch.setattr(failsafe, "round_kept", wider)
    notes = run(bounded(FEW, bounds=(TIGHT,)), village()).notes
    used = sum(int(v) for name, v in notes.items() if name.endswith(": failsafe"))
    assert used > 0
    assert (
        sum(int(v) for name, v in notes.items() if name.endswith("failsafe rounded wider")) == used
    )
