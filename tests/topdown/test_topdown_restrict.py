"""What a release keeps exactly or within bounds: the rules of the 2018 test, and refusals."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from scipy.sparse import csr_array

from headcount.errors import ConfigError, InputError, RunError
from headcount.schema import Attribute, Schema, load_schema
from headcount.tabulate import Query
from headcount.topdown.choices import Invariant, QuartersBounds
from headcount.topdown.restrict import (
    Restriction,
    exact_statements,
    nests,
    refuse_release_outside,
    refuse_truth_outside,
    restrict,
)
from headcount.topdown.solve.batch import NO_BOUND
from tests.topdown.small import (
    AGE,
    BOUNDS,
    KIND,
    OCCUPIED,
    PEOPLE,
    SCHEMA,
    STATE_TOTAL,
    TOTAL,
    VILLAGE,
    add_up,
    answers,
    bounded,
    by_level,
    counts_of,
    hierarchies,
    settings,
    tree,
    village,
)

E2E = load_schema("e2e-2018")
HHGQ = Query("hhgq", ("hhgq",))
CAPS = (99, *[99999] * 7)
EXAMPLE = [10, 0, 2, 0, 0, 1, 0, 0]


def e2e(occupied, people, *, total_level="state", unions=False, levels=None):
    """Restrictions by level of a place with one state (unless told otherwise)."""
    place = levels or tree(("state", [1]), ("county", [1]), ("leaf", [len(occupied)]))
    cells = np.zeros((len(occupied), E2E.size), dtype=np.int64)
    cells.reshape(len(occupied), 8, 24)[:, :, 0] = people
    mechanism = settings(
        None,
        queries=(TOTAL, HHGQ),
        query_shares=(("cells", 1),),
        invariants=(Invariant(query="total", level=total_level),) if total_level else (),
        bounds=(QuartersBounds(query="hhgq", caps=CAPS, total_level=total_level, unions=unions),),
    )
    return restrict(mechanism, by_level(counts_of(cells, place, schema=E2E, occupied=occupied)))


def only(restrictions, name):
    """The one restriction of that query."""
    (found,) = [one for one in restrictions if one.query.name == name]
    return found


def test_leaf_bounds_are_quarters_and_quarters_times_caps():
    one = only(e2e([EXAMPLE], [[400, 0, 90, 0, 0, 10, 0, 0]])["leaf"], "hhgq")
    assert one.low[:].tolist() == [EXAMPLE]
    assert one.high[:].tolist() == [[990, 0, 199998, 0, 0, 99999, 0, 0]]


def test_a_state_is_rebuilt_from_its_total():
    made = e2e([EXAMPLE], [[400, 0, 90, 0, 0, 10, 0, 0]])  # T = 500
    one = only(made["state"], "hhgq")
    assert one.low[:].tolist() == [EXAMPLE]
    assert one.high[:].tolist() == [[497, 0, 489, 0, 0, 488, 0, 0]]
    # The rebuilt bounds go up, and the county keeps the sum of its leaves.
    assert only(made["whole"], "hhgq").high[:].tolist() == one.high[:].tolist()
    assert only(made["county"], "hhgq").high[:].tolist() == [[990, 0, 199998, 0, 0, 99999, 0, 0]]


def test_a_state_with_one_type_only_has_that_type_fixed():
    made = e2e([[10, 0, 0, 0, 0, 0, 0, 0]], [[500, 0, 0, 0, 0, 0, 0, 0]])
    one = only(made["state"], "hhgq")
    assert one.low[:].tolist() == one.high[:].tolist() == [[500, 0, 0, 0, 0, 0, 0, 0]]


def test_without_a_total_level_every_bound_is_a_sum_of_leaves():
    made = e2e([EXAMPLE, EXAMPLE], [[400, 0, 90, 0, 0, 10, 0, 0]] * 2, total_level="")
    for level in ("county", "state", "whole"):
        one = only(made[level], "hhgq")
        assert one.low[:].tolist() == [[2 * u for u in EXAMPLE]]
        assert one.high[:].tolist() == [[1980, 0, 399996, 0, 0, 199998, 0, 0]]


def test_bounds_of_the_village_by_hand():
    made = restrict(bounded(None), by_level(village()))
    caps = np.array(BOUNDS.caps)
    for level in ("leaf", "county"):
        one = only(made[level], "kind")
        assert np.array_equal(one.low, add_up(VILLAGE, OCCUPIED, level))
        assert np.array_equal(one.high, add_up(VILLAGE, OCCUPIED * caps, level))
    quarters, people = add_up(VILLAGE, OCCUPIED, "state"), add_up(VILLAGE, PEOPLE, "state")
    state = only(made["state"], "kind")
    for s in range(2):
        for k in range(3):
            others = quarters[s].sum() - quarters[s, k]
            assert state.low[s, k] == (quarters[s, k] if others else people[s].sum())
            expected = people[s].sum() - others if quarters[s, k] else 0
            assert state.high[s, k] == expected
    whole = only(made["whole"], "kind")
    assert np.array_equal(whole.low, state.low[:].sum(axis=0, keepdims=True))
    assert np.array_equal(whole.high, state.high[:].sum(axis=0, keepdims=True))


def test_an_invariant_is_exact_at_its_level_and_above_and_free_below():
    made = restrict(
        settings(None, invariants=(Invariant(query="age", level="county"),)), by_level(village())
    )
    for level in ("whole", "state", "county"):
        one = only(made[level], "age")
        truth = answers(add_up(VILLAGE, PEOPLE, level), AGE)
        assert np.array_equal(one.low, truth)
        assert np.array_equal(one.high, truth)
    assert made["leaf"] == ()


def test_the_tighter_of_two_bounds_on_a_query_is_kept():
    exact = Invariant(query="kind", level="county")
    made = restrict(bounded(None, invariants=(STATE_TOTAL, exact)), by_level(village()))
    one = only(made["county"], "kind")
    assert np.array_equal(one.low, answers(add_up(VILLAGE, PEOPLE, "county"), KIND))
    assert np.array_equal(one.low, one.high)
    assert not np.array_equal(only(made["leaf"], "kind").low, only(made["leaf"], "kind").high)


def test_union_bounds_against_brute_force():
    """Low and high of a set of types: of the least and the most that its types can hold."""
    generator = np.random.default_rng(1)
    occupied = generator.choice([0, 0, 1, 3], size=(6, 3))
    people = occupied * generator.integers(1, 4, size=(6, 3))
    place = tree(("state", [2]), ("leaf", [3, 3]))
    cells = np.zeros((6, 6), dtype=np.int64)
    cells[:, [1, 3, 5]] = people
    counts = counts_of(cells, place, occupied=occupied)
    caps = (3, 5, 4)
    mechanism = settings(
        None,
        invariants=(STATE_TOTAL,),
        bounds=(QuartersBounds(query="kind", caps=caps, total_level="state", unions=True),),
    )
    made = restrict(mechanism, by_level(counts))
    levels = SCHEMA.attribute("kind").levels
    for level in place.levels:
        unions = {r.query.name: r for r in made[level] if " in " in r.query.name}
        if level == "leaf":  # there they say no more than their types do
            assert not unions
            types = only(made["leaf"], "kind")
            for pair in combinations(range(3), 2):
                own = occupied[:, pair]
                assert np.array_equal(types.low[:, pair].sum(axis=1), own.sum(axis=1))
                assert np.array_equal(
                    types.high[:][:, pair].sum(axis=1), own @ np.array(caps)[[*pair]]
                )
            continue
        assert len(unions) == 3
        for pair in combinations(range(3), 2):
            one = unions[f"kind in {[levels[k] for k in pair]}"]
            assert one.query.groups(SCHEMA).tolist() == [int(c // 2 not in pair) for c in range(6)]
            for unit in range(place.size(level)):
                inside = np.flatnonzero(place.ancestors(level) == unit)
                low, high = _union_by_hand(place, inside, list(pair), occupied, people)
                assert (one.low[:][unit, 0], one.high[:][unit, 0]) == (low, high)
                assert one.low[:][unit, 1] < -(10**15)  # the rest is free
                assert one.high[:][unit, 1] > 10**15
    refuse_truth_outside(made, by_level(counts))


def _union_by_hand(place, inside, types, occupied, people):
    low = high = 0
    for state in np.unique(place.ancestors("state")[inside]):
        leaves = place.ancestors("state") == state
        quarters, total = occupied[leaves], people[leaves].sum()
        own = quarters[:, types].sum()
        others = quarters.sum() - own
        low += total if others == 0 else own
        high += total - others if own else 0
    return low, high


@examples(max_examples=60)
@given(hierarchies())
def test_the_truth_keeps_every_bound_that_is_made_from_it(drawn):
    mechanism, counts = drawn
    mechanism.on(counts.domain).check(counts)
    made = restrict(mechanism, by_level(counts))
    for level, those in made.items():
        names = [one.query.name for one in those]
        assert len(set(names)) == len(names)
        for one in those:
            truth = answers(add_up(counts.geography, counts.dense(), level), one.query)
            assert (one.low <= truth).all()
            assert (truth <= one.high).all()


@pytest.mark.parametrize(
    ("leaf", "cell", "people", "where"),
    [
        (2, 3, 41, "level 'leaf', unit 'leaf2', bound on 'kind' (school)"),  # no school there
        (4, 1, 67, "level 'leaf', unit 'leaf4', bound on 'kind' (home)"),  # more than the cap
        (3, 5, 0, "level 'leaf', unit 'leaf3', bound on 'kind' (nursing)"),  # an empty home
    ],
)
def test_a_truth_outside_its_bounds_is_refused_without_a_count(leaf, cell, people, where):
    cells = PEOPLE.copy()
    cells[leaf, cell] = people
    with pytest.raises(InputError) as error:
        bounded(None).on(counts_of(cells, VILLAGE, occupied=OCCUPIED).domain).check(
            counts_of(cells, VILLAGE, occupied=OCCUPIED)
        )
    message = str(error.value)
    assert message == (
        f"topdown: {where}: found a true count outside the bound, expected bounds that the data "
        f"meet"
    )
    for number in (people, 41, 67, cells.sum(), int(OCCUPIED[leaf].sum())):
        assert number in (0, 1, 2, 3) or str(number) not in message


def test_a_release_outside_its_bounds_is_refused_by_unit_and_bound():
    counts = village()
    made = restrict(bounded(None), by_level(counts))
    tables = {level: counts.at(level).matrix for level in VILLAGE.levels}
    refuse_release_outside(made, tables, schema=SCHEMA, geography=VILLAGE)
    state = counts.at("state").dense()
    state[1, 1] += 1
    tables["state"] = csr_array(state)
    with pytest.raises(RunError, match=r"unit 'state1': found the bound on 'total' \(everyone\) b"):
        refuse_release_outside(made, tables, schema=SCHEMA, geography=VILLAGE)


def test_bounds_need_quarters_of_the_right_attribute_and_as_many_caps():
    with pytest.raises(ConfigError, match="found no living quarters in the data"):
        bounded(None).on(counts_of(PEOPLE, VILLAGE).domain).check(counts_of(PEOPLE, VILLAGE))
    wrong = QuartersBounds(query="kind", caps=(9, 99))
    with pytest.raises(ConfigError, match=r"found a query by \['kind'\] and 2 caps, expected"):
        bounded(None, bounds=(wrong,)).on(village().domain).check(village())
    other = QuartersBounds(query="age", caps=(9, 99, 99))
    with pytest.raises(ConfigError, match=r"expected a query by 'kind' and one cap for each of 3"):
        bounded(None, bounds=(other,)).on(village().domain).check(village())


def test_levels_of_invariants_and_bounds_must_exist():
    wrong = Invariant(query="total", level="stat")
    with pytest.raises(InputError, match="found level 'stat', expected one of"):
        settings(None, invariants=(wrong,)).on(village().domain).check(village())
    unknown = QuartersBounds(query="kind", caps=BOUNDS.caps, total_level="province")
    with pytest.raises(ConfigError, match="total_level: found 'province', expected one of"):
        bounded(None, bounds=(unknown,)).on(village().domain).check(village())
    leaf = QuartersBounds(query="kind", caps=BOUNDS.caps, total_level="leaf")
    with pytest.raises(ConfigError, match="total_level: found 'leaf', expected one of"):
        bounded(None, bounds=(leaf,)).on(village().domain).check(village())


@pytest.mark.parametrize("invariants", [(), (Invariant(query="total", level="whole"),)])
def test_bounds_from_totals_that_are_not_published_are_refused(invariants):
    with pytest.raises(ConfigError, match="found 'state' without an invariant, expected a total"):
        bounded(None, invariants=invariants).on(village().domain).check(village())


@pytest.mark.parametrize("level", ["state", "county", "leaf"])
def test_any_invariant_there_or_below_publishes_the_totals(level):
    bounded(None, invariants=(Invariant(query="age", level=level),)).on(village().domain).check(
        village()
    )


def test_what_is_exact_is_said():
    assert exact_statements(bounded(None)) == (
        "'total' of every state",
        "the number of living quarters of each type ('kind'), and of vacant ones, everywhere",
    )
    assert exact_statements(settings(None)) == ()


def test_bounds_nest_or_overlap():
    schema = Schema((Attribute("a", ("0", "1")), Attribute("b", ("0", "1"))))
    one = np.ones((1, 2), dtype=np.int64)
    by_a = Restriction(Query("a", ("a",)), one, 9 * one)
    by_b = Restriction(Query("b", ("b",)), one, 9 * one)
    total = Restriction(Query("total"), one[:, :1], one[:, :1])
    free = Restriction(Query("b", ("b",)), 0 * one, NO_BOUND * one)
    assert nests((by_a, total), schema)
    assert nests((by_a, free, total), schema)
    assert not nests((by_a, by_b), schema)
