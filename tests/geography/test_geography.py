"""Geographies: trees as arrays, and how they are built from tables."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import InputError
from headcount.geography import Geography, regular
from headcount.geography.geography import (
    CodeColumns,
    GeographySource,
    Prefixes,
    build_geography,
    place_rows,
)
from headcount.testing.strategies import geographies

NONE = np.empty(0, dtype=np.int32)


def tree(units, parents) -> Geography:
    levels = ("whole", "state", "county")[: len(units)]
    arrays = [np.array(p, dtype=np.int32) for p in parents]
    return Geography(levels, tuple(np.array(u) for u in units), tuple(arrays))


def test_a_regular_tree():
    geography = regular(children=3, depth=2)
    assert geography.levels == ("whole", "level_1", "level_2")
    assert geography.leaf == "level_2"
    assert geography.size("level_2") == 9
    assert geography.units[2][:4].tolist() == ["0.0", "0.1", "0.2", "1.0"]
    assert geography.path("level_2", 4) == ("1", "1.1")
    assert geography.unit_numbers["2.2"] == 8
    assert repr(geography) == "<Geography whole 1, level_1 3, level_2 9>"


def test_a_digest_of_places_tells_codes_parents_and_levels_apart():
    one = tree([["w"], ["a", "b"], ["1", "2", "3"]], [[], [0, 0], [0, 0, 1]])
    assert one.description()["units"] == {"whole": 1, "state": 2, "county": 3}
    others = [
        tree([["w"], ["a", "b"], ["1", "2", "3"]], [[], [0, 0], [0, 1, 1]]),
        tree([["w"], ["a", "b"], ["1", "2", "4"]], [[], [0, 0], [0, 0, 1]]),
        tree([["w"], ["a", "b"], ["2", "1", "3"]], [[], [0, 0], [0, 0, 1]]),
        Geography(("whole", "state", "tract"), one.units, one.parents),
    ]
    digests = {place.description()["sha256"] for place in (one, *others)}
    assert len(digests) == 5
    wide = replace(one, units=tuple(codes.astype("<U9") for codes in one.units))
    assert wide.digest == one.digest


@given(geographies())
def test_ancestors_follow_the_parents_one_by_one(geography):
    for top, level in enumerate(geography.levels):
        for unit in range(geography.size(geography.leaf)):
            at = unit
            for depth in range(len(geography.levels) - 1, top, -1):
                at = int(geography.parents[depth][at])
            assert geography.ancestors(level)[unit] == at


@given(geographies())
def test_children_stand_together_from_their_start(geography):
    for depth, level in enumerate(geography.levels[:-1]):
        start = geography.children_start(level)
        for parent in range(geography.size(level)):
            children = np.flatnonzero(geography.parents[depth + 1] == parent)
            stop = start[parent] + len(children)
            assert children.tolist() == list(range(int(start[parent]), int(stop)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Geography((), (), ()), r"found levels \[\], expected distinct level names"),
        (
            lambda: Geography(("a", "a"), (np.array(["x"]),) * 2, (NONE,) * 2),
            r"found levels \['a', 'a'\], expected distinct level names",
        ),
        (
            lambda: Geography(("a", "b"), (np.array(["x"]),), (NONE,)),
            "found 1 unit arrays and 1 parent arrays, expected one of each for the 2 levels",
        ),
        (lambda: tree([["x", "y"]], [[]]), "level 'whole': found 2 units, expected one: the whole"),
        (
            lambda: tree([["w"], ["x", "x"]], [[], [0, 0]]),
            "level 'state', unit 'x': found the unit twice, expected each unit once",
        ),
        (
            lambda: tree([["w"], ["x", "y"]], [[], [0]]),
            "found a parent array that does not fit .* expected one parent for each of 2 units",
        ),
        (lambda: tree([["w"], ["x"]], [[], [1]]), "found a parent array that does not fit"),
        (
            lambda: tree([["w"], ["x", "y"], ["a"]], [[], [0, 0], [0]]),
            "level 'county': found a parent array .* and a child for each parent",
        ),
        (
            lambda: tree([["w"], ["x", "y"], ["a", "b"]], [[], [0, 0], [1, 0]]),
            "level 'county': found children of one parent that are not next to each other",
        ),
        (
            lambda: regular(children=2, depth=1).depth("x"),
            r"found level 'x', expected one of 'whole', 'level_1'",
        ),
        (
            lambda: regular(children=2, depth=2).ancestors("level_2", of="level_1"),
            "found level 'level_2', expected a level at or above 'level_1'",
        ),
        (
            lambda: Prefixes(column="c", prefixes=(("a", 3), ("b", 2))),
            r"prefixes: found lengths \[3, 2\], expected lengths that grow",
        ),
        (lambda: Prefixes(column="c", prefixes=()), r"found lengths \[\], expected lengths"),
        (lambda: Prefixes(column="c", prefixes=(("a", 0),)), "from 1 to 255"),
        (lambda: Prefixes(column="c", prefixes=(("a", 10**18),)), "from 1 to 255"),
        (lambda: CodeColumns(columns=(), root=""), "found a level without a name"),
    ],
)
def test_a_bad_geography_says_what_is_wrong(make, message):
    with pytest.raises(InputError, match=message):
        make()


COLUMNS = CodeColumns(columns=("state", "county"), root="nation")


def test_without_columns_everybody_is_in_the_whole():
    table = pl.DataFrame({"sex": ["f", "m"]})
    geography, unit = build_geography(table, CodeColumns(columns=()), name="t")
    assert (geography.levels, geography.units[0].tolist()) == (("whole",), ["whole"])
    assert unit.tolist() == [0, 0]


def test_code_columns_make_a_tree_and_place_the_rows():
    table = pl.DataFrame({"state": ["2", "1", "2", "1"], "county": ["c", "b", "a", "b"]})
    geography, unit = build_geography(table, COLUMNS, name="t")
    assert geography.levels == ("nation", "state", "county")
    assert [codes.tolist() for codes in geography.units] == [
        ["nation"],
        ["1", "2"],
        ["b", "a", "c"],
    ]
    assert [parent.tolist() for parent in geography.parents] == [[], [0, 0], [0, 1, 1]]
    assert unit.tolist() == [2, 0, 1, 0]


def test_local_codes_are_known_by_their_path():
    table = pl.DataFrame({"state": [1, 2, 2], "county": [7, 7, 8]})
    source = CodeColumns(columns=("state", "county"), local_codes=True)
    geography, unit = build_geography(table, source, name="t")
    assert geography.units[2].tolist() == ["1/7", "2/7", "2/8"]
    assert unit.tolist() == [0, 1, 2]


def test_local_codes_that_hold_a_slash_are_never_merged():
    table = pl.DataFrame({"state": ["a", "a/b"], "county": ["b/c", "c"]})
    source = CodeColumns(columns=("state", "county"), local_codes=True)
    with pytest.raises(InputError, match="unit 'a/b/c': found two parents, 'a' and 'a/b'"):
        build_geography(table, source, name="t")


def test_prefixes_make_a_tree():
    table = pl.DataFrame({"block": ["44007", "44009", "09001"]})
    source = Prefixes(column="block", prefixes=(("state", 2), ("county", 5)))
    geography, unit = build_geography(table, source, name="t")
    assert [codes.tolist() for codes in geography.units[1:]] == [
        ["09", "44"],
        ["09001", "44007", "44009"],
    ]
    assert unit.tolist() == [1, 2, 0]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("ab"), st.sampled_from("abc")),
        min_size=1,
        max_size=20,
    )
)
def test_prefixes_columns_and_local_codes_agree_with_brute_force(rows):
    table = pl.DataFrame(
        {
            "one": [a for a, _, _ in rows],
            "two": [a + b for a, b, _ in rows],
            "three": [a + b + c for a, b, c in rows],
            "second": [b for _, b, _ in rows],
            "third": [c for _, _, c in rows],
        }
    )
    sources: list[GeographySource] = [
        Prefixes(column="three", prefixes=(("one", 1), ("two", 2), ("three", 3))),
        CodeColumns(columns=("one", "two", "three")),
        CodeColumns(columns=("one", "second", "third"), local_codes=True),
    ]
    for source in sources:
        geography, unit = build_geography(table, source, name="t")
        for depth in (1, 2, 3):
            known = sorted({"".join(row[:depth]) for row in rows})
            assert [code.replace("/", "") for code in geography.units[depth].tolist()] == known
            ancestor = geography.ancestors(geography.levels[depth])[unit]
            assert [known[number] for number in ancestor] == ["".join(row[:depth]) for row in rows]
            for code, parent in zip(known, geography.parents[depth], strict=True):
                above = geography.units[depth - 1][parent].replace("/", "")
                assert above == (code[:-1] if depth > 1 else "whole")


@pytest.mark.parametrize(
    ("table", "distinct", "message"),
    [
        ({"state": ["1"]}, False, r"t: column 'county': found columns \['state'\], expected the"),
        ({"state": [], "county": []}, False, "t: found no rows, expected at least one"),
        (
            {"state": ["1", None], "county": ["a", "b"]},
            False,
            "t: column 'state', row 2: found nothing, expected a code of at least 1 character",
        ),
        ({"state": ["1", "1"], "county": ["a", ""]}, False, "column 'county', row 2: found ''"),
        (
            {"state": ["1", "2"], "county": ["a", "a"]},
            False,
            "t: level 'county', unit 'a': found two parents, '1' and '2', expected one parent "
            r"\(or local_codes = true if codes repeat between parents; of places that do not nest",
        ),
        (  # also where each leaf must stand once, this is the better thing to say
            {"state": ["1", "2"], "county": ["a", "a"]},
            True,
            "unit 'a': found two parents",
        ),
        (
            {"state": ["1", "1", "1"], "county": ["a", "b", "a"]},
            True,
            "t: row 3: found a second row for county 'a', expected one row for",
        ),
    ],
)
def test_a_table_that_makes_no_tree_says_why(table, distinct, message):
    with pytest.raises(InputError, match=message):
        build_geography(pl.DataFrame(table), COLUMNS, name="t", distinct=distinct)


def test_a_code_too_short_for_its_prefixes():
    source = Prefixes(column="c", prefixes=(("state", 2), ("county", 5)))
    with pytest.raises(
        InputError, match="column 'c', row 2: found '440', expected a code of at lea"
    ):
        build_geography(pl.DataFrame({"c": ["44007", "440"]}), source, name="t")


def test_a_row_outside_the_geography():
    with pytest.raises(
        InputError, match="t: row 2: found unit '5', expected one of the 4 units of level 'level_1'"
    ):
        place_rows(pl.Series(["3", "5"]), regular(children=4, depth=1), name="t")
