"""The optimised spine: blocks partitioned, shares moved up, and the same sum on every path."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import isqrt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import InputError
from headcount.geography import Geography, off_spine_distance
from headcount.geography.spine import BY_SUBDIVISION, LEVELS, UnitShares, optimised_spine

SHARES = tuple(Fraction(one, 4099) for one in (104, 1440, 447, 687, 1256, 165))
AREAS = ("9999", "9500", "8123", "0012", "4989", "5620", "7001", "9480")
IS_INSIDE = {"0012", "4989", "5620", "7001", "9480"}


def block(number: int, state="44", county=1, tract=1, **more: str) -> dict[str, str]:
    """A block by its number, with codes that have those of the places above in them."""
    above = f"{state}{county:03}{tract:06}"
    row = {
        "block": f"{above}{number:04}",
        "state": state,
        "county": above[:5],
        "tract": above,
        "area": "9999",
        "place": "00001",
        "subdivision": "00001",
        "quarters": "0000000",
    }
    return row | more


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    """Random tables of blocks: few places, so that keys repeat and units have one child or many."""
    rows = draw(
        st.lists(
            st.builds(
                block,
                st.integers(0, 99),
                state=st.sampled_from(["44", "35"]),
                county=st.integers(1, 2),
                tract=st.integers(1, 2),
                area=st.sampled_from(AREAS),
                place=st.sampled_from(["00001", "00002"]),
                subdivision=st.sampled_from(["00001", "00002"]),
                quarters=st.sampled_from(["0000000", "0100000"]),
            ),
            min_size=1,
            max_size=80,
            unique_by=lambda row: row["block"],
        )
    )
    return pl.DataFrame(rows)


def part_and_key(row: dict[str, str]) -> tuple[str, ...]:
    """What blocks of one block group have in common, written anew from the definition."""
    inside = row["area"] in IS_INSIDE
    by_subdivision = row["state"] in BY_SUBDIVISION and not inside
    return (
        str(int(inside)) + row["tract"],
        row["subdivision"] if by_subdivision else row["place"],
        row["area"] if inside else "9999",
        row["quarters"],
    )


@given(tables())
@settings(max_examples=150, deadline=None)
def test_blocks_are_partitioned_and_keep_their_codes(table: pl.DataFrame):
    spine = optimised_spine(table)
    assert sorted(spine.units[-1].tolist()) == sorted(table["block"].to_list())
    rows = {row["block"]: row for row in table.to_dicts()}
    groups: dict[str, list[str]] = {}
    for leaf, code in enumerate(spine.units[-1].tolist()):
        row = rows[code]
        part = part_and_key(row)[0][0]
        above = [part + row[one] for one in ("state", "county", "tract")]
        path = spine.path("block", leaf)
        assert list(path[:3]) == above
        groups.setdefault(path[3], []).append(code)
    by_key: dict[tuple[str, ...], list[list[str]]] = {}
    for codes in groups.values():
        (key,) = {part_and_key(rows[code]) for code in codes}
        by_key.setdefault(key, []).append(sorted(codes))
    many = pl.Series([part_and_key(row)[0] for row in rows.values()]).value_counts()
    blocks_of = dict(zip(many[:, 0].to_list(), many["count"].to_list(), strict=True))
    for key, runs in by_key.items():
        most = isqrt(blocks_of[key[0]]) + 13
        runs.sort()
        assert all(len(run) == most for run in runs[:-1])
        assert 1 <= len(runs[-1]) <= most
        together = [code for run in runs for code in run]
        assert together == sorted(together)


@given(tables(), st.sampled_from(["us", "state", "tract", "block"]))
@settings(max_examples=100, deadline=None)
def test_no_only_child_has_a_share_and_all_paths_have_one_sum(table: pl.DataFrame, highest: str):
    spine = optimised_spine(table)
    given = UnitShares(geography=spine, shares=SHARES, highest=highest)
    assert given.along_paths() == (Fraction(1), Fraction(1))
    share = {
        level: [classes[one] for one in own.tolist()]
        for level, (classes, own) in ((one, given.classes(one)) for one in LEVELS)
    }
    for depth in range(1, len(LEVELS)):
        parent = spine.parents[depth]
        alone = np.bincount(parent)[parent] == 1
        for unit, only in enumerate(alone):
            if depth > spine.depth(highest):
                assert (share[LEVELS[depth]][unit] == 0) == only
            else:
                assert share[LEVELS[depth]][unit] >= SHARES[depth]
    for leaf in range(spine.size("block")):
        units = [int(spine.ancestors(level)[leaf]) for level in LEVELS]
        along = [share[level][unit] for level, unit in zip(LEVELS, units, strict=True)]
        assert sum(along) == 1


def test_a_share_that_is_not_moved_is_seen_in_the_sum_of_its_path():
    spine = optimised_spine(pl.DataFrame([block(1), block(1, county=2), block(2, county=2)]))
    forgets = UnitShares(geography=spine, shares=SHARES, highest="us")
    forgets.__dict__["_runs"] = tuple(np.zeros_like(one) for one in forgets._runs)
    assert forgets.along_paths()[0] < 1


def test_of_a_chain_of_only_children_the_top_has_all_shares():
    spine = optimised_spine(pl.DataFrame([block(1), block(1, state="35")]))
    given = UnitShares(geography=spine, shares=SHARES, highest="us")
    classes, own = given.classes("state")
    assert [classes[one] for one in own] == [sum(SHARES[1:])] * 2
    assert given.classes("block")[1].tolist() == [0, 0]


@st.composite
def tiny_trees(draw: st.DrawFn) -> tuple[Geography, np.ndarray]:
    """A tree of at most nine units, and some of its leaves."""
    middle = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(1, 2), min_size=middle, max_size=middle))
    parent = np.repeat(np.arange(middle), sizes).astype(np.int32)
    tree = Geography(
        ("whole", "middle", "leaf"),
        (
            np.array(["w"]),
            np.array([f"m{k}" for k in range(middle)]),
            np.array([f"l{k}" for k in range(len(parent))]),
        ),
        (np.empty(0, np.int32), np.zeros(middle, np.int32), parent),
    )
    inside = draw(st.lists(st.booleans(), min_size=len(parent), max_size=len(parent)))
    return tree, np.array(inside)


@given(tiny_trees())
@settings(max_examples=40, deadline=None)
def test_the_distance_is_the_least_number_of_units_that_add_up_to_the_area(case):
    tree, inside = case
    rows = [tree.ancestors(level) == k for level in tree.levels for k in range(tree.size(level))]
    signs = np.array(list(product((-1, 0, 1), repeat=len(rows))))
    fits = np.all(signs @ np.array(rows, dtype=int) == inside, axis=1)
    assert off_spine_distance(tree, inside) == np.abs(signs[fits]).sum(axis=1).min()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([block(1), block(1)], "a second row for block .*a block is in one tract"),
        (
            [block(1), block(2) | {"county": "44002"}],
            "two parents, '044001' and '044002', expected one parent",
        ),
        ([block(1, area="4995")], "column 'area'.*found '4995', expected a code of an area"),
        ([block(1, area="12")], "column 'area'.*found '12'"),
        ([block(1, quarters="011")], "column 'quarters'.*found '011', expected seven digits"),
        ([block(1, tract=1) | {"tract": ""}], "column 'tract'.*found ''"),
    ],
)
def test_a_table_that_is_no_spine_is_refused(rows: list[dict[str, str]], message: str):
    with pytest.raises(InputError, match=message):
        optimised_spine(pl.DataFrame(rows))


def test_a_missing_column_is_named():
    with pytest.raises(InputError, match="column 'place': found columns"):
        optimised_spine(pl.DataFrame([block(1)]).drop("place"))


def test_shares_that_do_not_add_up_are_refused():
    spine = optimised_spine(pl.DataFrame([block(1)]))
    with pytest.raises(InputError, match="found 5 shares, expected 6, one for each level"):
        UnitShares(geography=spine, shares=SHARES[:5], highest="us")
    with pytest.raises(InputError, match="found shares that add up to 2, expected shares of 0"):
        UnitShares(geography=spine, shares=(Fraction(2), *[Fraction(0)] * 5), highest="us")
    with pytest.raises(InputError, match="found 3 leaves, expected 1, one for each leaf"):
        off_spine_distance(spine, np.ones(3, dtype=bool))
    with pytest.raises(InputError, match="found values of type int64, expected bool, whether each"):
        off_spine_distance(spine, np.ones(1, dtype=np.int64))
