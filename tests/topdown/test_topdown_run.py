"""Whole runs: the truth without noise, and what every release keeps with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from headcount.errors import ConfigError, PrivacyError
from headcount.schema import Schema
from headcount.tabulate import tabulate
from headcount.testing.strategies import populations, schemas
from headcount.topdown import measure
from headcount.topdown.answers import Answers
from headcount.topdown.choices import Invariant
from headcount.topdown.restrict import restrict
from tests.topdown.small import (
    OCCUPIED,
    PEOPLE,
    SCHEMA,
    TOTAL,
    VILLAGE,
    add_up,
    answers,
    bounded,
    by_level,
    counts_of,
    dense,
    hierarchies,
    pure,
    run,
    same,
    settings,
    tree,
    village,
    zcdp,
)

LOSSES = [pure("1/10"), pure(2), zcdp("1/10"), zcdp(2)]
relaxed = examples(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@relaxed
@given(hierarchies(losses=st.none()))
def test_infinite_epsilon_returns_the_truth_at_every_level(drawn):
    mechanism, counts = drawn
    made = dense(run(mechanism, counts))
    for level in counts.geography.levels:
        assert np.array_equal(made[level], add_up(counts.geography, counts.dense(), level))


@relaxed
@given(populations(schema=schemas(max_attributes=2)))
def test_infinite_epsilon_returns_the_truth_of_any_schema(population):
    counts = tabulate(population)
    mechanism = settings(None, queries=(), query_shares=(("cells", Fraction(1)),))
    made = dense(run(mechanism, counts))
    for level in counts.geography.levels:
        assert np.array_equal(made[level], counts.at(level).dense())


def kept(mechanism, counts, outcome):
    """Everything that any release must keep."""
    place, made = counts.geography, dense(outcome)
    rescued = any(v for name, v in outcome.notes.items() if name.endswith(": failsafe"))
    for depth, level in enumerate(place.levels):
        table = made[level]
        assert table.dtype == np.int64
        assert table.min(initial=0) >= 0
        assert not table[:, ~counts.schema.possible].any()
        if depth:
            above = made[place.levels[depth - 1]]
            parent = place.parents[depth]
            for p in range(len(above)):
                children = table[parent == p]
                assert np.array_equal(children.sum(axis=0), above[p])
    for level, those in restrict(mechanism, by_level(counts)).items():
        for one in those:
            got = answers(made[level], one.query, counts.schema)
            assert (one.low <= got).all()
            assert (got <= one.high).all()
    for invariant in mechanism.invariant:
        query = mechanism.query(invariant.query)
        truth = counts.at(invariant.level).dense()
        assert np.array_equal(
            answers(made[invariant.level], query, counts.schema),
            answers(truth, query, counts.schema),
        )
    return rescued


@examples(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(hierarchies(losses=st.sampled_from(LOSSES)), st.integers(0, 5))
def test_every_release_keeps_what_it_must(drawn, seed):
    mechanism, counts = drawn
    kept(mechanism, counts, run(mechanism, counts, seed=seed))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_village_keeps_what_it_must(loss):
    for seed in range(5):
        assert not kept(bounded(loss), village(), run(bounded(loss), village(), seed=seed))
        free = settings(loss)
        assert not kept(free, village(), run(free, village(), seed=seed))


def test_children_of_a_parent_without_people_are_empty():
    """State 1 has no quarters, so nobody can live there, however large the noise."""
    occupied = OCCUPIED.copy()
    occupied[5:] = 0
    people = PEOPLE.copy()
    people[5:] = 0
    counts = counts_of(people, VILLAGE, occupied=occupied)
    outcome = run(bounded(pure("1/10")), counts)
    assert not dense(outcome)["leaf"][5:].any()
    assert outcome.notes["county: empty parents"] == 1
    assert outcome.notes["leaf: empty parents"] == 1


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_nobody_is_below_a_parent_cell_that_is_zero(loss):
    """Noise of a positive answer cannot bring back what the parent's estimate has not."""
    zeros = 0
    for seed in range(20):
        made = dense(run(settings(loss), village(), seed=seed))
        for depth in range(1, 4):
            level, above = VILLAGE.levels[depth], VILLAGE.levels[depth - 1]
            empty = made[above][VILLAGE.parents[depth]] == 0
            zeros += int(empty.sum())
            assert not made[level][empty].any()
    assert zeros > 0


def test_an_only_child_copies_its_parent_without_a_solve():
    outcome = run(bounded(pure("1/2")), village())
    made = dense(outcome)
    assert np.array_equal(made["county"][2], made["state"][1])
    assert outcome.notes["county: only children"] == 1
    assert outcome.notes["county: parents"] == 1  # the one of state 0


def test_a_place_with_one_level_or_one_line_of_units():
    people = PEOPLE[:1]
    alone = run(settings(pure(1)), counts_of(people, tree()))
    assert dense(alone)["whole"].shape == (1, 6)
    line = tree(("a", [1]), ("b", [1]))
    made = dense(run(settings(pure(1)), counts_of(people, line)))
    assert np.array_equal(made["whole"], made["a"])
    assert np.array_equal(made["whole"], made["b"])


def test_a_country_of_nobody():
    nobody = np.zeros_like(PEOPLE)
    counts = counts_of(nobody, VILLAGE, occupied=np.zeros_like(OCCUPIED))
    outcome = run(bounded(pure(1), report_epsilon=Fraction(1, 10)), counts)
    assert not dense(outcome)["leaf"].any()
    assert np.isfinite(outcome.notes["distance to the truth, share of people"])


def test_cells_need_not_be_measured():
    mechanism = settings(pure(1), query_shares=(("kind", Fraction(1, 2)), ("age", Fraction(1, 2))))
    kept(mechanism, village(), run(mechanism, village()))
    only_cells = settings(pure(1), queries=(), query_shares=(("cells", Fraction(1)),))
    kept(only_cells, village(), run(only_cells, village()))


def test_levels_need_not_be_measured():
    half = Fraction(1, 2)
    mechanism = bounded(pure(1), level_shares=(("whole", half), ("leaf", half)))
    kept(mechanism, village(), run(mechanism, village()))


def test_a_schema_without_attributes():
    counts = counts_of(np.array([[5], [0], [2]]), tree(("a", [3])), schema=Schema())
    mechanism = settings(
        pure(1),
        queries=(TOTAL,),
        query_shares=(("cells", Fraction(1)),),
        level_shares=(("a", Fraction(1)),),
        invariants=(Invariant(query="total", level="whole"),),
    )
    made = dense(run(mechanism, counts))
    assert made["a"].sum() == made["whole"][0, 0] == 7
    # One cell of one unit: no changed record moves it, and without it nothing is known.
    with pytest.raises(PrivacyError, match=r"'cells' at 'whole': .* sensitivity 0"):
        run(replace(mechanism, levels="equal"), counts)
    with pytest.raises(ConfigError, match="level shares: 'whole': found no share, and no invar"):
        run(replace(mechanism, invariant=()), counts)


@dataclass
class Fixed:
    """Measurements of one population, handed to the descent of another."""

    answers: Answers


def test_the_estimate_depends_on_the_truth_only_through_noisy_answers(monkeypatch):
    """Another truth, with other empty cells, and the same noisy answers: the same release.

    Nothing is restricted here, so nothing else of the truth is known.
    """
    from headcount.topdown import mechanism as room

    mechanism = settings(pure(1))
    answered = measure.Measurements(by_level(village()), mechanism, _noise(), run=0).answers
    expected = dense(run(mechanism, village()))
    monkeypatch.setattr(room, "Measurements", lambda *_, **__: Fixed(answered))
    generator = np.random.default_rng(3)
    for _ in range(3):
        other = generator.permutation(PEOPLE.ravel()).reshape(PEOPLE.shape) * SCHEMA.possible
        assert not np.array_equal(other == 0, PEOPLE == 0)
        assert same(dense(run(mechanism, counts_of(other, VILLAGE))), expected)


def test_with_bounds_only_the_published_numbers_matter_besides(monkeypatch):
    """People move between ages in each leaf: totals and quarters stay, and so does the release."""
    from headcount.topdown import mechanism as room

    mechanism = bounded(pure(1))
    answered = measure.Measurements(by_level(village()), mechanism, _noise(), run=0).answers
    expected = dense(run(mechanism, village()))
    monkeypatch.setattr(room, "Measurements", lambda *_, **__: Fixed(answered))
    other = PEOPLE.copy()
    other[:, [0, 1]] = other[:, [1, 0]]
    other[:, 3], other[:, 2] = other[:, 2] + other[:, 3], 0
    assert same(
        dense(run(mechanism, counts_of(other, VILLAGE, occupied=OCCUPIED))),
        expected,
    )


def test_a_positive_answer_on_a_truly_empty_cell_can_become_people():
    """The support is the estimate's: cells that are empty in truth fill up, at every level."""
    filled = dict.fromkeys(VILLAGE.levels, 0)
    for seed in range(20):
        for level, table in dense(run(settings(pure(1)), village(), seed=seed)).items():
            truth = add_up(VILLAGE, PEOPLE, level)
            filled[level] += int((table[truth == 0] > 0).sum())
    # At the top no possible cell is empty in truth.
    assert all(count > 0 for level, count in filled.items() if level != "whole")


def _noise():
    from tests.topdown.small import keyed

    return keyed(1)
