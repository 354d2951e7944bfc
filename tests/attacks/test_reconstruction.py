"""Reconstruction: records that agree with the tables, and variability that is exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from headcount.attacks._leaves import _leaf_problem
from headcount.attacks._problem import Effort, farthest, solve
from headcount.attacks._structure import build_structure
from headcount.attacks.intervals import UNKNOWN
from headcount.attacks.knowledge import Knowledge, KnownTable, between, exact
from headcount.attacks.reconstruction import reconstruct
from headcount.engines import LocalEngine
from headcount.errors import ConfigError, InputError
from headcount.schema import Schema, load_schema
from headcount.tabulate.published import supported, tables
from tests.attacks.small_blocks import (
    PAIRS,
    SMALL,
    TINY,
    consistent,
    flat,
    hold,
    knowledge,
    table,
    zeros_hide,
)
from tests.solve.test_worker import busy
from tests.support.persons import agreement, block_people, knowledge_of

FINE = load_schema("persons-2010")
NO_SEARCH = Effort(nodes=0)


def some_people(most: int) -> st.SearchStrategy[list[int]]:
    """Counts over the eight cells of TINY."""
    chosen = st.lists(st.integers(0, 7), max_size=most)
    return chosen.map(lambda cells: np.bincount(np.array(cells, int), minlength=8).tolist())


def check_against_every_file(
    held: tuple[KnownTable, ...], schema: Schema, people: range, effort: Effort
):
    """Compare each block's outcome with all histograms that agree with the tables."""
    blocks = held[0].low.shape[0]
    found = reconstruct(Knowledge(schema, flat(blocks), held), effort=effort)
    records = found.matrix.toarray()
    fold = np.eye(found.class_of.max() + 1, dtype=np.int64)[found.class_of]
    for block in range(blocks):
        every = consistent(held, block, people, schema.size)
        histograms = np.unique(every @ fold, axis=0)
        mine = records[block] @ fold
        assert (histograms == mine).all(axis=1).any()
        assert found.proven[block]
        n = mine.sum()
        farthest = np.abs(histograms - mine).sum(axis=1).max()
        nobody = np.inf if farthest else 0.0
        expected = 100 * farthest / (2 * n) if n else nobody
        assert found.variability[block] == pytest.approx(expected)


@pytest.mark.parametrize("effort", [Effort(), NO_SEARCH], ids=["search", "solver"])
@given(counts=some_people(7))
@settings(max_examples=25, deadline=None)
def test_variability_is_that_of_all_consistent_files(effort: Effort, counts: list[int]):
    held = hold(csr_array([counts]), TINY, PAIRS)
    check_against_every_file(held, TINY, range(sum(counts), sum(counts) + 1), effort)


@pytest.mark.parametrize("effort", [Effort(), NO_SEARCH], ids=["search", "solver"])
@given(counts=some_people(7), hidden=st.integers(1, 2))
@settings(max_examples=15, deadline=None)
def test_variability_with_small_counts_published_as_zero(
    effort: Effort, counts: list[int], hidden: int
):
    held = []
    for one in PAIRS:
        cells = one.on(TINY)
        values = one.of(csr_array([counts]), TINY).toarray()
        spared = np.array([label == ("total", "total") for label in cells.labels])
        shown = np.where((values <= hidden) & ~spared, 0, values)
        held.append(zeros_hide(cells, shown, level="block", most=hidden))
    check_against_every_file(tuple(held), TINY, range(sum(counts), sum(counts) + 1), effort)


@given(counts=some_people(4))
@settings(max_examples=15, deadline=None)
def test_variability_where_even_the_total_is_rounded(counts: list[int]):
    held = []
    for one in PAIRS[:2]:
        values = one.of(csr_array([counts]), TINY).toarray()
        held.append(between(one.on(TINY), values // 2 * 2, values // 2 * 2 + 1, level="block"))
    check_against_every_file(tuple(held), TINY, range(6), Effort())


def test_a_table_withheld_says_nothing():
    counts = csr_array(np.array([[1, 0, 0, 0, 0, 0, 0, 2]]))
    held = hold(counts, TINY, PAIRS)
    withheld = (*held[:2], held[2].withheld(np.array([True])))
    assert not withheld[2].exact
    check_against_every_file(withheld, TINY, range(3, 4), Effort())


def test_without_any_number_nobody_is_found_and_nothing_is_proven():
    held = hold(csr_array(np.ones((1, 8), dtype=int)), TINY, PAIRS)
    none = tuple(one.withheld(np.array([True])) for one in held)
    found = reconstruct(Knowledge(TINY, flat(1), none))
    assert found.people.tolist() == [0]
    assert not found.proven[0]
    assert held[0].withheld(np.array([True])).bounds(np.array([0]))[1].min() == UNKNOWN


def test_redistricting_tables_are_solved_by_algebra_alone():
    people = block_people(FINE, blocks=40, seed=3)
    found = reconstruct(knowledge_of(people, ("pl94-171",)))
    assert set(found.method) == {"algebra"}
    assert (found.variability == 0).all()
    assert agreement(people, found)[1] == 1
    assert found.class_of.max() + 1 == 2 * 63 * 2  # voting age, race, origin: no more, no less


@pytest.mark.parametrize("effort", [Effort(), NO_SEARCH], ids=["search", "solver"])
def test_records_agree_with_every_table_and_certain_blocks_are_right(effort: Effort):
    people = block_people(FINE, blocks=40, seed=4)
    held = knowledge_of(people, ("sf1",), joint=False)
    found = reconstruct(held, effort=effort)
    for one in held.tables:
        made = one.cells.table.of(found.matrix, FINE)
        assert (made != one.low).nnz == 0, one
    assert found.proven.all()
    certain = found.variability == 0
    assert 0.2 < certain.mean() < 0.95
    _, binned, missed = agreement(people, found)
    assert not missed[certain].any()
    assert 0.85 < binned < 1
    truth_is_near = missed <= found.variability / 100 * 2 * people.sizes + 1e-9
    assert truth_is_near.all()


def test_search_and_solver_agree_where_the_records_are_certain():
    people = block_people(FINE, blocks=30, seed=6)
    held = knowledge_of(people, ("sf1",), joint=False)
    one, other = reconstruct(held), reconstruct(held, effort=NO_SEARCH)
    assert set(one.method) <= {"algebra", "search", "solver"}
    assert "search" not in other.method
    assert ((one.variability == 0) == (other.variability == 0)).all()
    # From another start the largest distance is at most twice as far.
    assert (one.variability <= 2 * other.variability + 1e-9).all()
    assert (other.variability <= 2 * one.variability + 1e-9).all()


def test_search_and_highs_find_the_same_distances():
    people = block_people(FINE, blocks=25, seed=7)
    held = knowledge_of(people, ("sf1",), joint=False)
    layout = build_structure(FINE, [held.tables]).layouts[0]
    low, high, _ = layout.bounds(np.arange(25))
    problems = [_leaf_problem(layout, low[i], high[i])[1] for i in range(25)]
    open_ones = [p for p in problems if p is not None and p.open]
    assert len(open_ones) > 5
    for one in open_ones:
        solved = solve(one, NO_SEARCH)
        assert solved.x is not None
        assert solved.method == "solver"
        assert farthest(one, solved.x, Effort()) == farthest(one, solved.x, NO_SEARCH)


def test_a_limit_of_steps_is_said_and_never_silent():
    people = block_people(FINE, blocks=30, seed=11)
    held = knowledge_of(people, ("sf1",), joint=False)
    found = reconstruct(held, effort=Effort(nodes=0, steps=0))
    cut = ~found.proven
    assert cut.any()
    assert not found.conflict.any()
    assert (found.method[~np.isfinite(found.variability)] == "none").all()
    assert found.proven[found.method == "algebra"].all()


def test_the_same_steps_find_the_same_on_a_busy_machine():
    people = block_people(FINE, blocks=12, seed=11)
    held = knowledge_of(people, ("sf1",), joint=False)
    effort = Effort(nodes=0, steps=1)
    alone = reconstruct(held, effort=effort)
    with busy(4):
        beside = reconstruct(held, effort=effort)
    assert 0 < alone.proven.sum() < len(alone.proven)  # the limit was met by some
    for name in ("unit", "cell", "count", "method", "proven", "variability"):
        np.testing.assert_array_equal(getattr(beside, name), getattr(alone, name))


def test_classes_follow_the_tables():
    people = block_people(FINE, blocks=5, seed=1)
    held = knowledge_of(people, ("sf1",), joint=False)
    found = reconstruct(held, variability=False)
    assert found.class_of.max() + 1 == 2 * 38 * 63 * 2
    assert np.isnan(found.variability).all()
    coarse = load_schema("sex-age38-race7-hispanic")
    cells, _ = supported((t for t in tables("sf1").values() if t.lowest == "block"), coarse)
    empty = np.zeros((1, coarse.size), dtype=int)
    some = tuple(exact(c, c.table.of(empty, coarse), level="block") for c in cells)
    found = reconstruct(Knowledge(coarse, flat(1), some))
    assert found.class_of.tolist() == list(range(1064))
    assert found.variability.tolist() == [0]  # nobody lives there, and that is certain


def test_structural_zeros_hold_nobody():
    schema = Schema(
        TINY.attributes,
        ((("voting_age", ("under_18",)), ("hispanic", ("hispanic",))),),
    )
    counts = csr_array(np.array([[1, 0, 1, 1, 0, 0, 2, 0]]))
    found = reconstruct(knowledge(counts, schema, PAIRS[:2]))
    assert (found.class_of == -1).sum() == 2
    assert not found.matrix.toarray()[0, ~schema.possible].any()


def test_an_engine_changes_nothing():
    people = block_people(FINE, blocks=150, seed=2)
    held = knowledge_of(people, ("sf1",), joint=False)
    one, other = reconstruct(held), reconstruct(held, engine=LocalEngine(workers=2))
    assert (one.matrix != other.matrix).nnz == 0
    assert one.variability.tolist() == other.variability.tolist()


def test_tables_above_are_named_when_they_are_not_used():
    people = block_people(FINE, blocks=3, seed=2)
    found = reconstruct(knowledge_of(people, ("sf1",)))
    assert "PCT12O at 'tract'" in found.unused
    assert len(found.unused) == 16


def test_seven_groups_with_redistricting_and_age_tables():
    rng = np.random.default_rng(0)
    counts = csr_array(rng.poisson(0.2, (10, SMALL.size)))
    own = (
        table("R", race="seven"),
        table("AR", age="voting-age", race="seven"),
        table("HR", hispanic="hispanic", race="seven"),
        table("AH", universe=(("race", "seven/white"),), age="voting-age", hispanic="hispanic"),
    )
    found = reconstruct(knowledge(counts, SMALL, own))
    for one in own:
        made, true = one.of(found.matrix, SMALL), one.of(counts, SMALL)
        assert (made != true).nnz == 0
    assert found.proven.all()


def shape_of(rows: int) -> Knowledge:
    return Knowledge(TINY, flat(2), (exact(PAIRS[0].on(TINY), np.zeros((rows, 9)), level="block"),))


def bad_range() -> KnownTable:
    return between(PAIRS[0].on(TINY), np.ones((1, 9)), np.zeros((1, 9)), level="block")


def other_schema() -> Knowledge:
    held = exact(table("H", hispanic="hispanic").on(SMALL), np.zeros((1, 3)), level="block")
    return Knowledge(TINY, flat(1), (held,))


def tract_only() -> Knowledge:
    return Knowledge(TINY, flat(1), (exact(PAIRS[0].on(TINY), np.zeros((1, 9)), level="tract"),))


ONES = csr_array(np.ones((1, 8), dtype=int))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: shape_of(3), r"table SA at 'block': found shape \(3, 9\), expected \(2, 9\)"),
        (bad_range, "table SA: found an upper bound below the lower one, expected low <= high"),
        (other_schema, "table H at 'block': found a schema of 28 cells, expected 8 cells"),
        (lambda: reconstruct(tract_only()), "found no table at 'block', expected at least one"),
        (
            lambda: reconstruct(knowledge(ONES, TINY, PAIRS), on_conflict="cry"),
            "on_conflict: found 'cry', expected 'report' or 'least-change'",
        ),
        (
            lambda: reconstruct(knowledge(ONES, TINY, PAIRS), together="tract"),
            "together at 'tract': found no table above the leaf, expected at least one",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(make, message: str):
    with pytest.raises((ConfigError, InputError), match=message):
        make()


def test_a_repr_says_no_count():
    held = knowledge(ONES, TINY, PAIRS)
    assert repr(held).startswith("<Knowledge: 3 tables")
    assert repr(held.tables[0]) == "<Held SA at 'block': exact>"
    assert repr(held.tables[0].withheld(np.array([True]))) == "<Held SA at 'block': ranges>"
    assert repr(reconstruct(held)).startswith("<Reconstruction: ")
