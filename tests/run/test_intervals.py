"""Intervals from published measurements alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from headcount.errors import ConfigError, InputError
from headcount.release import CountsRelease
from headcount.run.intervals import intervals
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import Counts
from headcount.topdown.from_measurements import (
    PublishedStart,
    estimate_from,
    start_from,
)
from headcount.topdown.linear import estimate
from headcount.topdown.mechanism import TopDown
from headcount.topdown.place_estimates import ends, interval_pieces
from tests.topdown import test_topdown_spine as spine
from tests.topdown.small import (
    OCCUPIED,
    VILLAGE,
    add_up,
    bounded,
    counts_of,
    tree,
    village,
    zcdp,
)
from tests.topdown.test_topdown_from_measurements import published

SCHEMA = Schema(
    (Attribute("sex", ("f", "m")), Attribute("age", ("young", "old", "oldest"))),
    (impossible({"sex": ["m"], "age": ["oldest"]}),),
)
PLACES = tree(("county", [4]), ("block", [30, 50, 70, 50]))
QUERIES: dict[str, dict[str, Any]] = {
    "total": {"by": (), "share": "0.2"},
    "age by sex": {"by": ("age", "sex"), "share": "0.3"},
    "cells": {"share": "0.5"},
}


def topdown(**keys: Any) -> TopDown:
    """A loss at which answers are off by 5 and more."""
    return TopDown(**{"rho": "1/40", "unit": "add-remove", "queries": QUERIES, **keys})


def people(seed: int = 0) -> Counts:
    counts = np.random.default_rng(seed).poisson(40, size=(200, SCHEMA.size)) * SCHEMA.possible
    return counts_of(counts, PLACES, schema=SCHEMA)


def truth(counts: Counts, level: str, query: str) -> Any:
    asked = {one.name: one for one in topdown().marginals}
    dense = counts.at(level).dense()
    return dense if query == "cells" else dense @ asked[query].matrix(SCHEMA).toarray()


def beside(start: PublishedStart, level: str, query: str, release: CountsRelease) -> pl.DataFrame:
    """Intervals with released counts, which need not be in a folder."""
    return pl.concat(interval_pieces(start, level, query, release=release))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("measurements")
    published(topdown(), people(), place)
    return place


def test_nine_of_ten_intervals_hold_the_true_count(tmp_path: Path) -> None:
    inside: dict[str, list[bool]] = {}
    for seed in range(4):
        counts, place = people(seed), tmp_path / str(seed)
        place.mkdir()
        published(topdown(), counts, place, seed=seed)
        start = start_from(place)
        for query in ("total", "age by sex", "cells"):
            found = intervals(start, "block", query)
            possible = (truth(people(9), "block", query) > 0).any(axis=0)
            known = np.tile(possible, 200)
            true = truth(counts, "block", query).reshape(-1)
            held = (found["low"].to_numpy() <= true) & (true <= found["high"].to_numpy())
            inside.setdefault(query, []).extend(held[known].tolist())
            assert found.filter(pl.lit(~known))["high"].to_list() == [0.0] * int((~known).sum())
    for query, held_at in inside.items():
        assert 0.87 < np.mean(held_at) < 0.93, query  # 800 totals: 2.8 standard errors


def test_half_of_the_narrow_ones_hold_it_and_wide_ones_are_wider(folder: Path) -> None:
    narrow, wide = (
        intervals(folder, "block", "total", confidence=share) for share in ("1/2", "0.99")
    )
    true = truth(people(), "block", "total").reshape(-1)
    held = (narrow["low"].to_numpy() <= true) & (true <= narrow["high"].to_numpy())
    assert 0.35 < held.mean() < 0.65
    assert (wide["high"] > narrow["high"]).all()
    assert narrow["estimate"].to_list() == wide["estimate"].to_list()


def test_answers_are_named_in_the_order_of_their_query(folder: Path) -> None:
    found = intervals(folder, "county", "age by sex")
    assert found.columns[:3] == ["place", "age", "sex"]
    assert found.columns[3:] == ["estimate", "deviation", "low", "high", "known"]
    first = found.filter(pl.col("place") == "county2").drop("place")
    true = truth(people(), "county", "age by sex")[2]
    assert first["age"].to_list() == ["young", "young", "old", "old", "oldest", "oldest"]
    assert (
        np.abs(first["estimate"].to_numpy() - true).max() < 6 * first["deviation"].to_numpy().max()
    )


def test_an_area_of_all_blocks_of_a_county_has_the_countys_interval(folder: Path) -> None:
    blocks = tuple(f"block{k}" for k in range(30, 80))
    area = intervals(folder, [("middle", "block", blocks)], "total")
    county = intervals(folder, "county", "total").filter(pl.col("place") == "county1")
    assert area["place"].to_list() == ["middle"]
    for column in ("estimate", "deviation"):
        assert area[column][0] == pytest.approx(county[column][0])


def test_an_invariant_has_no_interval(tmp_path: Path) -> None:
    mechanism = topdown(
        unit="change-one",
        levels={"county": "1/2", "block": "1/2"},
        level_queries={"county": {"cells": 1}},
        invariant=[{"query": "total", "level": "county"}],
    )
    published(mechanism, people(), tmp_path)
    found = intervals(tmp_path, "county", "total")
    true = truth(people(), "county", "total").reshape(-1)
    assert found["low"].to_list() == found["high"].to_list() == true.tolist()
    assert found["deviation"].to_numpy().max() < 1e-6


def test_along_a_spine_published_units_are_unions_of_leaves(tmp_path: Path) -> None:
    """And what is exact of two parts together is exact of the state."""
    counts = spine.people()
    outcome = published(spine.along(zcdp("1/20")), counts, tmp_path)
    start, place = start_from(tmp_path), spine.PLACE
    states = intervals(start, "state", "total")
    true = add_up(place, counts.dense(), "state").sum(axis=1)
    assert states["place"].to_list() == place.units[1].tolist()
    assert states["low"].to_list() == states["high"].to_list() == true.tolist()
    assert states["known"].to_list() == ["exact", "exact"]
    leaves = beside(start, "leaf", "kind", estimate_from(start))
    towns = beside(start, "town", "kind", estimate_from(start))
    of_leaf = dict(zip(place.units[-1].tolist(), place.ancestors("town").tolist(), strict=True))
    sums = leaves.with_columns(town=pl.col("place").replace_strict(of_leaf)).group_by(
        "town", "kind", maintain_order=True
    )
    added = sums.agg(pl.col("estimate", "released").sum()).sort("town", maintain_order=True)
    assert towns["estimate"].to_list() == pytest.approx(added["estimate"].to_list(), abs=1e-9)
    made = outcome.dense("town")[0].reshape(place.size("town"), 3, 2).sum(axis=2)
    assert towns["released"].to_list() == made.reshape(-1).tolist() == added["released"].to_list()
    codes = [str(leaf) for leaf, town in of_leaf.items() if town == 1]
    area = intervals(start, [("second", "leaf", tuple(codes))], "kind")
    assert area["deviation"].to_list() == pytest.approx(towns["deviation"].to_list()[3:6])


def test_only_children_of_a_spine_have_intervals_though_nothing_was_measured_of_them(
    tmp_path: Path,
) -> None:
    mechanism = spine.along(zcdp("1/8"), invariants=(), bypass="whole")
    published(mechanism, spine.people(), tmp_path)
    start = start_from(tmp_path)
    assert (start.answers.classes["leaf"] == 0).any()
    leaves = intervals(start, "leaf", "cells")
    possible = leaves.filter(pl.col("known") == "")
    assert possible["deviation"].is_not_null().all()
    whole = intervals(start, "whole", "cells")
    by_cell = leaves.group_by("kind", "age", maintain_order=True).agg(pl.col("estimate").sum())
    assert whole["estimate"].to_list() == pytest.approx(by_cell["estimate"].to_list(), abs=1e-9)


def test_what_is_exact_of_parts_together_makes_their_estimates_more_exact(tmp_path: Path) -> None:
    deviations = []
    for number, exact in enumerate([(spine.TOTAL,), ()]):
        folder = tmp_path / str(number)
        published(spine.along(zcdp("1/20"), invariants=exact), spine.people(), folder)
        deviations.append(intervals(folder, "leaf", "total")["deviation"].to_numpy())
    assert (deviations[0] < deviations[1] - 0.01).all()


def test_where_there_is_no_facility_a_count_is_known_to_be_0(tmp_path: Path) -> None:
    published(bounded(zcdp("1/20")), village(), tmp_path)
    found = intervals(tmp_path, "leaf", "kind")
    zero = found.filter(pl.col("known") == "zero")
    assert [known == "zero" for known in found["known"]] == (OCCUPIED == 0).reshape(-1).tolist()
    assert not zero.select("estimate", "deviation", "low", "high").to_numpy().any()
    leaves = tuple(VILLAGE.units[-1][[4, 6]].tolist())  # neither has a school or a nursing home
    area = intervals(tmp_path, [("two", "leaf", leaves)], "kind")
    assert area["known"].to_list() == ["", "zero", "zero"]


def test_of_what_the_answers_do_not_tell_nothing_is_said_but_that_it_is_not_negative(
    tmp_path: Path,
) -> None:
    queries = {"total": {"by": (), "share": 1}, "age by sex": {"by": ("age", "sex")}}
    published(topdown(queries=queries), people(), tmp_path)
    found = intervals(tmp_path, "county", "age by sex")
    told = found.filter(pl.col("known") != "zero")
    assert told["low"].to_list() == [0] * len(told)
    assert told.select("estimate", "deviation", "high").null_count().row(0) == (len(told),) * 3


def test_intervals_come_in_pieces_of_a_few_places(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = intervals(folder, "block", "age by sex")
    monkeypatch.setattr(estimate, "NUMBERS_AT_ONCE", 60)
    pieces = list(interval_pieces(start_from(folder), "block", "age by sex"))
    assert max(map(len, pieces)) == 60
    assert pl.concat(pieces)["estimate"].to_list() == pytest.approx(whole["estimate"].to_list())
    assert pl.concat(pieces).drop("estimate").equals(whole.drop("estimate"))


def test_released_counts_stand_beside(folder: Path) -> None:
    start = start_from(folder)
    release = estimate_from(start)
    found = beside(start, "block", "total", release)
    people = release.at("block").sum(axis=1)
    assert found["released"].to_list() == people.tolist()
    codes, areas = release.geography.units[-1].tolist(), ((7, 3, 150), (199, 3))
    named = [(str(k), "block", tuple(codes[one] for one in own)) for k, own in enumerate(areas)]
    found = pl.concat(interval_pieces(start, named, "total", release=release))
    assert found["released"].to_list() == [people[list(own)].sum() for own in areas]


def test_a_release_in_memory_has_no_measurements(folder: Path) -> None:
    release: Any = estimate_from(start_from(folder))
    with pytest.raises(ConfigError) as refused:
        intervals(release, "block", "total")
    assert "release: found CountsRelease, expected a run or folder" in str(refused.value)


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        (
            Attribute("colour", ("m", "f")),
            "found counts by colour (m, f), age (young, old, oldest)",
        ),
        (Attribute("sex", ("m", "f")), "found counts by sex (m, f)"),
        (Attribute("sex", ("f", "m", "x")), "found counts by sex (f, m, x)"),
    ],
)
def test_a_release_by_other_attributes_is_refused(
    folder: Path, attribute: Attribute, said: str
) -> None:
    schema = Schema((attribute, SCHEMA.attributes[1]))
    start, shape = start_from(folder), (200, schema.size)
    release = estimate_from(start)
    matrix = counts_of(np.ones(shape, dtype=np.int64), PLACES, schema=schema)
    tables = {level: matrix.at(level).matrix for level in PLACES.levels}
    other = replace(release, domain=replace(release.domain, schema=schema), tables=tables)
    with pytest.raises(InputError) as refused:
        beside(start, "block", "total", other)
    assert said in str(refused.value)
    assert "expected counts by sex (f, m), age (young, old, oldest)" in str(refused.value)


def test_intervals_are_cut_at_0_and_rounded_inwards() -> None:
    estimate, deviation = np.array([5.3, -9.0, 1.0, 3.4, 7.0]), np.array([2.0, 1.0, 3.0, 0.1, 0.0])
    low, high = ends(estimate, deviation, 1.0)
    assert low.tolist() == [4, 0, 0, 3, 7]
    assert high.tolist() == [7, 0, 4, 3, 7]
    low, high = ends(np.array([4.0]), np.array([np.inf]), 1.0)
    assert (low.tolist(), high.tolist()) == ([0.0], [np.inf])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("block", "income"), "query: found 'income'"),
        (([], "total"), "found no level and no areas"),
        (("block", "total", 1), "expected a share between 0 and 1"),
        (("block", "total", "-1/2"), "expected a share between"),
        (
            ("block", "total", None),
            "confidence: found None, expected a share between 0 and 1",
        ),
    ],
)
def test_what_is_asked_for_unclearly_is_refused(
    folder: Path, asked: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        intervals(folder, *asked)
    assert message in str(refused.value)


def test_an_area_with_unknown_units_is_refused(folder: Path) -> None:
    with pytest.raises(InputError) as refused:
        intervals(folder, [("north", "block", ("block1", "nowhere"))], "total")
    assert "area 'north': found block 'nowhere'" in str(refused.value)


def _without_variances(place: Path) -> None:
    for path in place.glob("county.parquet/DPQuery/*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns(["variance"]), path)


def _mixed(place: Path) -> None:
    other = place.with_name("other")
    published(topdown(), people(1), other, seed=2)
    shutil.rmtree(place / "county.parquet")
    shutil.copytree(other / "county.parquet", place / "county.parquet")


def _without_a_level(place: Path) -> None:
    shutil.rmtree(place / "county.parquet")


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (_without_variances, "column 'variance': found columns"),
        (_mixed, "expected the files of one run: each run has noise of its own"),
        (_without_a_level, "level 'county': found no folder for it among"),
    ],
)
def test_measurements_that_do_not_belong_together_are_refused(
    tmp_path: Path, damaged: Callable[[Path], None], message: str
) -> None:
    place = tmp_path / "one"
    published(topdown(), people(), place)
    damaged(place)
    with pytest.raises(InputError) as refused:
        intervals(place, "block", "total")
    assert message in str(refused.value)
