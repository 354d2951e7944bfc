"""Bounds of a user's own: read, added up, refused; and contradictions beside brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headcount.errors import ConfigError, InputError, TruthError
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Attribute, Schema, load_schema
from headcount.solve.mip import SolverError
from headcount.tabulate import Query
from headcount.topdown._bounds import _read_bounds
from headcount.topdown._tighten import STEPS, contradiction
from headcount.topdown.choices import Grouping, Invariant, QuartersBounds, RecodedQuery, TableBounds
from headcount.topdown.mechanism import TopDown
from headcount.topdown.restrict import Restriction, exact_statements, restrict
from headcount.topdown.solve.batch import NO_BOUND
from tests.topdown.small import (
    AGE,
    KIND,
    PEOPLE,
    SCHEMA,
    TOTAL,
    VILLAGE,
    add_up,
    answers,
    by_level,
    counts_of,
    dense,
    pure,
    run,
    settings,
    tree,
    village,
)

COUNTIES = VILLAGE.units[2].tolist()
SCHOOLED = RecodedQuery(
    "schooled",
    ("schooled",),
    (Grouping("schooled", "kind", (("no", ("home", "nursing")), ("yes", ("school",)))),),
)


def rows_of(low=lambda *_: 0, high=lambda *_: "") -> list[str]:
    """A table by age of every county."""
    return [
        f"{county},{age},{low(c, a)},{high(c, a)}"
        for c, county in enumerate(COUNTIES)
        for a, age in enumerate(("minor", "adult"))
    ]


def table(folder, rows, *, header="county,age,low,high", name="ages.csv", **other) -> TableBounds:
    (folder / name).write_text("\n".join([header, *rows]) + "\n")
    chosen: dict[str, Any] = {"query": "age", "level": "county", "public": True} | other
    return TableBounds(file=folder / name, **chosen)


def read(bounds, query=AGE):
    return _read_bounds(bounds, query, SCHEMA, VILLAGE)


def test_rows_in_any_order_become_units_by_groups(tmp_path):
    rows = rows_of(low=lambda c, a: 10 * c + a, high=lambda c, a: "" if c == a else 50 + c)
    low, high = read(table(tmp_path, rows[::-1]))
    assert low.tolist() == [[0, 1], [10, 11], [20, 21]]
    free = int(NO_BOUND)
    assert high.tolist() == [[free, 50], [51, free], [52, 52]]


def test_parquet_and_numbers_work_as_well(tmp_path):
    import polars as pl

    ages = {"county": COUNTIES * 2, "age": ["minor"] * 3 + ["adult"] * 3}
    frame = pl.DataFrame(ages | {"low": [1, 2, 3, 4, 5, None], "high": [9.0] * 6})
    frame.write_parquet(tmp_path / "ages.parquet")
    file = tmp_path / "ages.parquet"
    bounds = TableBounds(query="age", level="county", file=file, public=True)
    low, high = _read_bounds(bounds, AGE, SCHEMA, VILLAGE)
    assert low.tolist() == [[1, 4], [2, 5], [3, 0]]
    assert (high == 9).all()


def test_a_recoded_query_has_its_groups_as_levels(tmp_path):
    rows = [f"{county},{group},1,7" for county in COUNTIES for group in ("yes", "no")]
    bounds = table(tmp_path, rows, header="county,schooled,low,high", query="schooled")
    low, high = read(bounds, SCHOOLED)
    assert low.tolist() == [[1, 1]] * 3
    assert (high == 7).all()
    assert SCHOOLED.groups(SCHEMA).tolist() == [0, 0, 1, 1, 0, 0]


def test_impossible_groups_may_be_left_out_and_hold_nobody(tmp_path):
    both = Query("both", ("kind", "age"))
    cells = [(k, a) for k, a in product(("home", "school", "nursing"), ("minor", "adult"))]
    rows = [f"{c},{k},{a},0,99" for c in COUNTIES for k, a in cells if (k, a) != cells[4]]
    low, high = read(table(tmp_path, rows, header="county,kind,age,low,high"), both)
    assert (high[:, 4] == 0).all()
    assert (high[:, [0, 1, 2, 3, 5]] == 99).all()
    assert not low.any()


WRONG = {
    "an unknown unit": (
        ["moon,minor,0,1"],
        r"column 'county', line 8: found level 'moon', expected one",
    ),
    "an unknown group": (
        ["county0,old,0,1"],
        r"column 'age', line 8: found level 'old', expected one of",
    ),
    "no unit": ([",minor,0,1"], r"column 'county', line 8: found nothing"),
    "a second row": (["county0,minor,0,1"], r"line 8: found a second row for its unit and group"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_row_is_named(tmp_path, what):
    more, message = WRONG[what]
    with pytest.raises(InputError, match=rf"ages\.csv: {message}"):
        read(table(tmp_path, rows_of() + more))


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (5, 4, r"line 2: found low above high, expected low at most high"),
        (-1, 4, r"column 'low', line 2: found '-1', expected a whole number from 0 to 2\^40"),
        (0, 1.5, r"column 'high', line 2: found '1.5', expected a whole number"),
        ("x", 4, r"column 'low', line 2: found 'x', expected a whole number"),
        ("nan", 4, r"column 'low', line 2: found 'nan', expected a whole number"),
        (0, 2**41, r"column 'high', line 2: found '2199023255552', expected a whole number"),
    ],
)
def test_a_wrong_bound_is_named(tmp_path, low, high, message):
    with pytest.raises(InputError, match=message):
        read(table(tmp_path, rows_of(low=lambda *_: low, high=lambda *_: high)))


def test_a_missing_row_column_or_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"county 'county2', group \(adult\): found no row"):
        read(table(tmp_path, rows_of()[:-1]))
    with pytest.raises(InputError, match=r"column 'high': found no such column"):
        read(table(tmp_path, ["county0,minor,1"], header="county,age,low"))
    with pytest.raises(InputError, match=r"none\.csv: found no such file"):
        read(TableBounds(query="age", level="county", file=Path("none.csv"), public=True))
    with pytest.raises(InputError, match="found level 'moon'"):
        restrict(
            settings(None, bounds=(table(tmp_path, rows_of(), level="moon"),)),
            by_level(village()),
        )


def test_a_column_with_two_meanings_is_refused(tmp_path):
    schema = Schema((Attribute("low", ("a", "b")),))
    bounds = table(tmp_path, ["county0,a,0,1"], query="low")
    with pytest.raises(InputError, match=r"column 'low': found two columns of that name"):
        _read_bounds(bounds, Query("low", ("low",)), schema, VILLAGE)


def test_a_changed_table_is_refused(tmp_path):
    bounds = table(tmp_path, rows_of())
    pinned = bounds.bound_to_files()
    read(pinned)
    table(tmp_path, rows_of(low=lambda *_: 1))
    with pytest.raises(InputError, match=r"ages\.csv: found different content, expected sha256"):
        read(pinned)


def truth_by_county():
    return answers(add_up(VILLAGE, PEOPLE, "county"), AGE)


def around(folder, *, slack=1, **other) -> TableBounds:
    """Bounds around the true number of each age in each county."""
    truth = truth_by_county()
    return table(
        folder,
        rows_of(low=lambda c, a: truth[c, a], high=lambda c, a: truth[c, a] + slack),
        **other,
    )


def test_bounds_add_up_above_their_level_and_say_nothing_below(tmp_path):
    made = restrict(settings(None, bounds=(around(tmp_path),)), by_level(village()))
    for level, units in (("county", [1, 1, 1]), ("state", [2, 1]), ("whole", [3])):
        (one,) = made[level]
        truth = answers(add_up(VILLAGE, PEOPLE, level), AGE)
        assert np.array_equal(one.low, truth)
        assert np.array_equal(one.high - truth, np.array(units)[:, None] * [1, 1])
    assert made["leaf"] == ()


def test_a_sum_with_a_free_part_is_free(tmp_path):
    rows = rows_of(high=lambda c, a: "" if (c, a) == (1, 0) else 99)
    made = restrict(settings(None, bounds=(table(tmp_path, rows),)), by_level(village()))
    (state,) = made["state"]
    free = int(NO_BOUND)
    assert state.high[:].tolist() == [[free, 198], [99, 99]]


def test_releases_keep_the_bounds_of_a_table(tmp_path):
    mechanism = settings(pure("1/10"), bounds=(around(tmp_path),))
    truth, seen = truth_by_county(), set()
    for seed in range(8):
        made = answers(dense(run(mechanism, village(), seed=seed))["county"], AGE)
        assert ((made >= truth) & (made <= truth + 1)).all()
        seen.add(made.tobytes())
    assert len(seen) > 1
    free = answers(dense(run(settings(pure("1/10")), village()))["county"], AGE)
    assert not ((free >= truth) & (free <= truth + 1)).all()  # the bounds did something


def test_tables_stand_beside_quarters(tmp_path):
    quarters = QuartersBounds(query="kind", caps=(9, 99, 99), total_level="state")
    mechanism = settings(
        pure("1/2"),
        invariants=(Invariant(query="total", level="state"),),
        bounds=(quarters, around(tmp_path)),
        failsafe_over=("kind",),
    )
    truth = truth_by_county()
    made = dense(run(mechanism, village(), seed=2))
    county = answers(made["county"], AGE)
    assert ((county >= truth) & (county <= truth + 1)).all()
    assert made["state"].sum(axis=1).tolist() == add_up(VILLAGE, PEOPLE, "state").sum(1).tolist()
    public, own = exact_statements(mechanism)[1:], around(tmp_path, public=False)
    assert public[0].startswith("the number of living quarters")
    assert (
        public[1] == "that 'age' of every county is within the bounds of a public table (ages.csv)"
    )
    assert exact_statements(settings(None, bounds=(own,))) == (
        "the bounds on 'age' of every county, worked out from confidential data (ages.csv)",
    )


def test_repr_says_the_table_and_not_where_it_lies(tmp_path):
    bounds = around(tmp_path, sha256="ab")
    assert str(tmp_path) not in repr(bounds)
    again = eval(repr(bounds), {"TableBounds": TableBounds})
    assert again == replace(bounds, file=Path("ages.csv"))
    query = eval(repr(SCHOOLED), {"RecodedQuery": RecodedQuery, "Grouping": Grouping})
    assert query == SCHOOLED


def test_a_table_that_fixes_the_number_of_people_needs_change_one(tmp_path):
    loss = pure(1, UnitOfPrivacy.ADD_REMOVE)
    exact = settings(loss, bounds=(around(tmp_path, slack=0),))
    with pytest.raises(ConfigError, match="bounds on 'age': found bounds that fix how many people"):
        exact.on(village().domain).check(village())
    settings(loss, bounds=(around(tmp_path),)).on(village().domain).check(village())


def two_tables(folder, where: set[int]) -> tuple[TableBounds, TableBounds]:
    """At least as many by age, at most as many by kind, in some counties; room in the others.

    A person more passes the first table, a person less the second, and none both.
    """
    by_age, by_kind = truth_by_county(), add_up(VILLAGE, answers(PEOPLE, KIND), "county")
    kinds = [
        f"{county},{kind},{max(by_kind[c, k] - 1, 0)},{by_kind[c, k] + (c not in where)}"
        for c, county in enumerate(COUNTIES)
        for k, kind in enumerate(("home", "school", "nursing"))
    ]
    ages = rows_of(
        low=lambda c, a: max(by_age[c, a] - (c not in where), 0),
        high=lambda c, a: by_age[c, a] + 1,
    )
    header = "county,kind,low,high"
    return (
        table(folder, ages),
        table(folder, kinds, header=header, name="kinds.csv", query="kind"),
    )


def test_tables_that_fix_the_people_of_one_county_need_change_one(tmp_path):
    """Others have neighbours; nobody in that county has."""
    loss = pure(1, UnitOfPrivacy.ADD_REMOVE)
    tables = two_tables(tmp_path, {1})
    for one in tables:  # each alone leaves room for a neighbour
        settings(loss, bounds=(one,)).on(village().domain).check(village())
    with pytest.raises(ConfigError) as refused:
        settings(loss, bounds=tables).on(village().domain).check(village())
    said = str(refused.value)
    assert said.startswith(
        "topdown: bounds on 'age', 'kind': found bounds that fix how many people"
    )
    assert "are in county 'county1', with unit 'add-remove', expected 'change-one'" in said
    settings(pure(1), bounds=tables).on(village().domain).check(village())
    settings(loss, bounds=two_tables(tmp_path, set())).on(village().domain).check(village())


def test_a_group_that_a_table_fixes_needs_change_one(tmp_path):
    """Minors of one county have no neighbour, though adults everywhere are free."""
    loss, truth = pure(1, UnitOfPrivacy.ADD_REMOVE), truth_by_county()

    def minors(slack: int, **other) -> TableBounds:
        held = rows_of(
            low=lambda c, a: truth[c, a] if (c, a) == (1, 0) else 0,
            high=lambda c, a: truth[c, a] + slack if (c, a) == (1, 0) else "",
        )
        return table(tmp_path, held, **other)

    assert truth[1, 0] > 0
    message = (
        "topdown: bounds on 'age': found bounds that fix how many people of one group of 'age' "
        "are in county 'county1', with unit 'add-remove', expected 'change-one', or bounds that "
        "leave room for a person more or less"
    )
    for public, kind in ((True, ConfigError), (False, TruthError)):  # the latter is not shown
        with pytest.raises(kind) as refused:
            settings(loss, bounds=(minors(0, public=public),)).on(village().domain).check(village())
        assert str(refused.value) == message
    settings(pure(1), bounds=(minors(0),)).on(village().domain).check(village())
    settings(loss, bounds=(minors(1),)).on(village().domain).check(village())


def test_a_group_of_the_whole_is_fixed_by_its_parts_and_one_of_nobody_may_be(tmp_path):
    loss, truth = pure(1, UnitOfPrivacy.ADD_REMOVE), truth_by_county()
    lows = table(tmp_path, rows_of(low=lambda c, a: truth[c, a] if a == 0 else 0))
    whole = [f"whole,minor,,{truth[:, 0].sum()}", "whole,adult,,"]
    highs = table(tmp_path, whole, header="whole,age,low,high", name="whole.csv", level="whole")
    for one in (lows, highs):
        settings(loss, bounds=(one,)).on(village().domain).check(village())
    with pytest.raises(ConfigError, match="people of one group of 'age' are in whole 'whole'"):
        settings(loss, bounds=(lows, highs)).on(village().domain).check(village())
    empty = PEOPLE.copy()
    empty[:, [0, 2]] = 0  # no minors anywhere
    nobody = table(tmp_path, rows_of(high=lambda c, a: 0 if a == 0 else ""))
    settings(loss, bounds=(nobody,)).on(counts_of(empty, VILLAGE).domain).check(
        counts_of(empty, VILLAGE)
    )


def test_living_quarters_fix_a_group_only_where_each_holds_exactly_one():
    """Nursing homes, of which there are none, hold nobody, and let nobody down."""
    loss = pure(1, UnitOfPrivacy.ADD_REMOVE)
    people = np.tile([0, 3, 0, 1, 0, 0], (7, 1))  # by kind and age
    counts = counts_of(people, VILLAGE, occupied=np.tile([2, 1, 0], (7, 1)))

    def schools(most: int) -> TopDown:
        return settings(loss, bounds=(QuartersBounds(query="kind", caps=(9, most, 9)),))

    schools(2).on(counts.domain).check(counts)
    with pytest.raises(TruthError, match="fix how many people of one group of 'kind' are in whole"):
        schools(1).on(counts.domain).check(counts)


def test_bounds_that_miss_the_truth_are_refused_without_a_count(tmp_path):
    truth = truth_by_county()
    rows = rows_of(high=lambda c, a: truth[c, a] - (c == 1))
    with pytest.raises(TruthError) as error:
        settings(None, bounds=(table(tmp_path, rows),)).on(village().domain).check(village())
    assert str(error.value) == (
        "topdown: level 'county', unit 'county1', bound on 'age' (minor): found a true count "
        "outside the bound, expected bounds that the data meet"
    )


def test_bounds_that_leave_an_exact_total_no_room_are_called_a_contradiction(tmp_path):
    mechanism = settings(
        None,
        invariants=(Invariant(query="total", level="state"),),
        bounds=(table(tmp_path, rows_of(high=lambda *_: 1)),),
    )
    with pytest.raises(
        TruthError, match=r"no counts can meet \(in conflict: the bound on"
    ) as error:
        mechanism.on(village().domain).check(village())
    message = str(error.value)
    assert "expected bounds that some counts meet" in message
    assert not any(str(n) in message for n in add_up(VILLAGE, PEOPLE, "state").sum(axis=1))


def test_data_are_refused_even_if_a_contradiction_takes_too_long_to_find(tmp_path, monkeypatch):
    asked = []

    def late(_, *, steps):
        asked.append(steps)
        raise SolverError("given up")

    monkeypatch.setattr("headcount.topdown.solve.integer_programs.minimise", late)
    mechanism = settings(
        None,
        invariants=(Invariant(query="total", level="state"),),
        bounds=(table(tmp_path, rows_of(high=lambda *_: 1)),),
    )
    with pytest.raises(TruthError, match="found a true count outside the bound"):
        mechanism.on(village().domain).check(village())
    assert asked == [STEPS]


# Contradictions: is there any answer at all? By trying them all.

PAIR = tree(("leaf", [2]))
TWO = Schema((Attribute("kind", ("a", "b")), Attribute("age", ("x", "y"))))
QUERIES = (Query("kind", ("kind",)), Query("age", ("age",)), Query("total"))


def some_answer(restrictions, most: int) -> bool:
    every = np.array(list(product(range(most + 1), repeat=8))).reshape(-1, 2, 4)
    fits = np.ones(len(every), dtype=bool)
    for level, people in (("leaf", every), ("whole", every.sum(axis=1, keepdims=True))):
        for one in restrictions[level]:
            have = people @ one.query.matrix(TWO).toarray()
            fits &= ((have >= one.low) & (have <= one.high)).all(axis=(1, 2))
    return bool(fits.any())


def test_contradictions_beside_brute_force():
    chance, found = np.random.default_rng(3), {True: 0, False: 0}
    for _ in range(60):
        made: dict[str, Any] = {}
        for level, units in (("leaf", 2), ("whole", 1)):
            chosen = chance.permutation(3)[: chance.integers(1, 3)]
            made[level] = []
            for query in (QUERIES[k] for k in chosen):
                shape = (units, query.size(TWO))
                low = chance.integers(0, 3, size=shape)
                high = low + chance.integers(0, 2, size=shape)
                high = np.where(chance.random(shape) < 0.3, NO_BOUND, high)
                made[level].append(Restriction(query, low, high))
        feasible = some_answer(made, most=3)
        clash = contradiction(made, [("leaf", 0)], schema=TWO, geography=PAIR)
        assert bool(clash) != feasible, (made, clash)
        found[feasible] += 1
    assert min(found.values()) > 5


def test_the_whole_alone_can_contradict_itself():
    alone = tree()
    made = {
        "whole": (
            Restriction(QUERIES[0], np.array([[2, 2]]), np.full((1, 2), NO_BOUND)),
            Restriction(QUERIES[2], np.array([[3]]), np.array([[3]])),
        )
    }
    clash = contradiction(made, [("whole", 0)], schema=TWO, geography=alone)
    assert len(clash) >= 1
    assert all("of whole 'whole'" in one for one in clash)


def test_unions_of_many_types_are_refused_before_they_are_made():
    """Each type more doubles them: 40 types have a million million."""
    QuartersBounds(query="kind", caps=(9,) * 40, total_level="state")
    QuartersBounds(query="kind", caps=(9,) * 10, total_level="state", unions=True)
    with pytest.raises(ConfigError, match="found unions of 40 types, expected unions of at most"):
        QuartersBounds(query="kind", caps=(9,) * 40, total_level="state", unions=True)


def test_a_schema_must_rule_out_what_the_settings_rule_out():
    from tests.topdown.small import counts_of

    place = tree(("state", [1]))
    nobody = settings(None, queries=(TOTAL,), query_shares=(("cells", 1),), nurse_nva_0=True)
    for name, refused in (("e2e-2018", True), ("e2e-2018-nurse", False)):
        counts = counts_of(np.zeros((1, 192)), place, schema=load_schema(name))
        if refused:
            with pytest.raises(ConfigError, match=r"allows hhgq in .'elderly_or_poor'., voting_"):
                nobody.on(counts.domain).check(counts)
        else:
            nobody.on(counts.domain).check(counts)
