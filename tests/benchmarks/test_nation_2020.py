"""The made-up nation of 2020: its shape, and a release of a thousandth of it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from benchmarks import nation_2020 as bench
from benchmarks.nation_people import LEVELS, nation_2020
from benchmarks.product_2020 import preset_2020
from headcount.errors import ConfigError
from headcount.topdown import descend as _task
from headcount.topdown._estimate import estimate

SHARE = 0.001


@pytest.fixture(scope="module")
def counts():
    return nation_2020(SHARE, seed=1)


def test_places_and_people_are_in_proportion(counts):
    sizes = [counts.geography.size(level) for level in LEVELS]
    assert sizes == [1, 2, 3, 84, 240, 8_100]
    assert int(counts.matrix.sum()) == pytest.approx(331_000, rel=0.01)
    assert (counts.totals() > 0).mean() == pytest.approx(5.9 / 8.1, abs=0.02)
    groups = counts.at("block_group").matrix
    assert 30 < groups.nnz / groups.shape[0] < 60


def test_the_same_seed_is_the_same_nation_and_another_is_not(counts):
    again, other = nation_2020(SHARE, seed=1), nation_2020(SHARE, seed=2)
    assert np.array_equal(again.matrix.indices, counts.matrix.indices)
    assert np.array_equal(again.matrix.data, counts.matrix.data)
    assert not np.array_equal(other.matrix.indptr, counts.matrix.indptr)


def test_people_live_where_there_are_quarters(counts):
    assert counts.quarters is not None
    by_type = np.zeros((8_100, 8), dtype=np.int64)
    unit = np.repeat(np.arange(8_100), np.diff(counts.matrix.indptr))
    np.add.at(by_type, (unit, counts.matrix.indices // 252), counts.matrix.data)
    assert (by_type >= counts.quarters.occupied).all()
    assert ((by_type > 0) == (counts.quarters.occupied > 0)).all()


def test_a_thousandth_of_the_nation_is_released_and_rechecked():
    ran = bench.run_nation(SHARE)
    assert ran["constraints"][0] > 8_100 * 16
    assert ran["constraints"][1] == 0
    assert set(ran["stages"]) >= {"check", "protect", "write the release"}
    readings = {one.what.strip(): one for one in [*bench._described(ran), *bench._stages(ran)]}
    assert readings["cells in use in a mean block_group"].note == "2020: about 40"
    assert readings["people"].value == ran["people"]
    assert readings["constraints broken"].passed
    ten = ran | {"people": 10 * ran["people"], "peak": 20 * ran["peak"]}
    ten["units"] = {"block": 100 * ran["units"]["block"]}
    slopes = {one.what: one for one in bench._slopes([ran, ten])}
    assert slopes["slope of CPU in people"].value == 0
    assert slopes["slope of memory in people"].value == pytest.approx(1.301, abs=1e-3)
    assert not slopes["slope of memory in people"].passed
    assert slopes["slope of memory in leaves"].value == pytest.approx(1.301 / 2, abs=1e-3)
    assert 0 < readings["peak anonymous memory"].value < 4


def test_a_county_is_one_problem_with_the_variables_that_its_solver_has(monkeypatch):
    solved = []

    def watched(work):
        if work.problem is not None:
            solved.append(work.problem.batch.var_start[-1])
        return estimate(work)

    monkeypatch.setattr(_task, "estimate", watched)
    monkeypatch.setattr(bench, "run_nation", lambda _share: None)  # no need to be warm
    readings = {one.what.strip(): one for one in bench.run_county(12)}
    assert readings["one county: tracts of one problem"].value == 12
    assert readings["variables after reduction"].value == max(solved)
    assert readings["constraints broken"].passed


def test_one_pass_on_the_tree_as_it_is_has_the_shares_of_the_preset():
    preset, plain = preset_2020(), bench.topdown_2020()
    assert plain.level_queries == preset.level_queries
    assert plain.levels == preset.levels
    assert (plain.passes, plain.spine, plain.bypass) == ((), False, "")
    fewer = dict(bench.topdown_2020(LEVELS[:4]).level_shares or ())
    assert sum(fewer.values()) == 1
    assert fewer["state"] / fewer["tract"] == Fraction(1440, 687)


@pytest.mark.parametrize("passes", [1, 2])
def test_the_preset_runs_along_a_spine_and_keeps_every_constraint(passes):
    ran = bench.run_nation(SHARE, workers=1, passes=passes)
    assert ran["constraints"][0] > 8_100 * 16
    assert ran["constraints"][1] == 0
    leaves, bypassed, uneven = ran["paths"]
    assert (leaves, uneven) == (8_100, 0)
    assert bypassed > 100
    readings = {one.what.strip(): one for one in bench.beside_one_pass(ran, ran, plain=1.0)}
    assert readings["beside one pass"].value == 1
    assert readings["beside one pass"].at_most is None  # less than 1 % is too little to tell
    assert ran["records"][0] == (ran["people"] if passes == 2 else 0)  # lines, all of them checked
    assert readings["lines of people that are not there"].passed == (passes == 2)
    assert all(one.passed for one in list(readings.values())[:-1])
    whole = {
        one.what.strip(): one for one in bench.beside_one_pass(ran, ran | {"share": 1}, plain=1.0)
    }
    assert whole["beside one pass"].at_most == 1.3


def test_the_smallest_nation_is_compared_with_no_smaller_one(monkeypatch):
    ran = {"share": 0.001, "stages": {}, "peak": 1.0, "units": {}, "used": {}, "people": 1}
    ran |= {"populated": 1, "levels": {}, "constraints": [1, 0], "bytes": 1, "digest": "a"}
    ran |= {"stages": {"protect": [1.0, 1.0]}, "paths": [1, 0, 0], "records": [1, 0.1, 0.1]}
    made = []

    def apart(work, *given, **_options):
        made.append((work, *given))
        return ran if work is bench.run_nation else []

    monkeypatch.setattr(bench, "apart", apart)
    readings = bench.measure(share=bench.SMALLEST, county=3)
    nation = bench.run_nation, 0.001
    assert made == [nation, nation, nation, (bench.run_county, 3)]  # one pass and two on a spine
    assert readings
    assert not [one for one in readings if one.what.startswith("slope")]


@pytest.mark.parametrize("share", [0, 1.5, -1, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ConfigError, match=r"--share: found .*, expected the part of the nation"):
        bench.measure(share=share)
