"""Totals beside their own answers: which units count, when a check fails, and one small nation."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.nation_people import nation_2020
from benchmarks.nation_spine import along_made_up_spine, bypassed_units, paths_beside_1
from benchmarks.own_totals import TotalsError, one_pass_must_fail, own_totals, totals_errors
from benchmarks.product_2020 import one_pass, preset_2020
from benchmarks.recheck import recheck_2020
from headcount.geography import Geography
from headcount.geography.spine import UnitShares
from headcount.mechanisms import protect
from headcount.tabulate import Tabulated
from headcount.tabulate.counts import every_level

SHARE = 0.001


@pytest.fixture(scope="module")
def counts():
    return along_made_up_spine(nation_2020(SHARE, seed=1), seed=1)


def shares_along(spine: Geography) -> UnitShares:
    found = preset_2020().unit_shares(spine)
    assert found is not None
    return found


def test_the_errors_of_totals_answers_are_those_of_2020(counts):
    found = own_totals(preset_2020(), counts.schema, counts.geography)
    assert [(one.level, round(one.sd, 2)) for one in found] == [
        ("county", 2.17),
        ("tract", 2.47),
        ("block_group", 1.75),
    ]


def test_units_with_a_moved_share_do_not_count(counts):
    place, preset = counts.geography, preset_2020()
    shares = shares_along(place.spine)
    for one in own_totals(preset, counts.schema, place):
        depth = place.spine.depth(one.level)
        own = shares.classes(one.level)[0][1]
        assert own == dict(preset.level_shares or ())[one.level]
        children = np.bincount(place.spine.parents[depth + 1])
        siblings = np.bincount(place.spine.parents[depth])[place.spine.parents[depth]]
        assert (one.ours == ((children > 1) & (siblings > 1))).all()
        assert one.ours.any()


def test_errors_of_leaves_are_added_up_along_the_spine(counts):
    place = counts.geography
    error = np.random.default_rng(1).integers(-3, 4, place.size("block"))
    for one in own_totals(preset_2020(), counts.schema, place):
        along = error[place.along_spine]
        sums = np.bincount(place.spine.ancestors(one.level), along)[one.ours]
        assert one.added_up(error).tolist() == sums.tolist()


def test_a_tenth_or_what_chance_explains_is_allowed():
    many = TotalsError("tract", 2.19, 2.0, units=1_000, runs=4)
    assert many.kept
    assert many.reading().passed
    assert not TotalsError("tract", 2.21, 2.0, units=1_000, runs=4).kept
    few = TotalsError("county", 2.4, 2.0, units=20, runs=4)
    assert few.allowed == pytest.approx(2.5 / 160**0.5)
    assert not few.kept
    assert TotalsError("county", 2.38, 2.0, units=20, runs=4).kept
    assert not TotalsError("tract", 1.5, 2.0, units=1_000, runs=4).reading().passed


def test_one_pass_that_is_as_near_everywhere_is_a_fault():
    near, far = (TotalsError("tract", error, 2.0, units=99, runs=4) for error in (2.0, 3.0))
    assert not one_pass_must_fail([near, near]).passed
    assert one_pass_must_fail([near, far]).passed
    assert one_pass_must_fail([far, far]).value == 0


def test_the_nation_has_parts_inside_areas_only_children_and_even_paths(counts):
    spine = counts.geography.spine
    assert {code[0] for code in spine.units[1]} == {"0", "1"}
    shares = shares_along(spine)
    assert bypassed_units(shares) > 100
    assert paths_beside_1(shares) == 0
    forgotten = UnitShares(geography=spine, shares=shares.shares, highest="us")
    object.__setattr__(forgotten, "_runs", tuple(np.zeros_like(one) for one in shares._runs))
    assert paths_beside_1(forgotten) > 100  # shares of only children that nobody took over


def test_totals_that_are_fitted_first_are_as_near_as_their_answers_and_else_are_not(counts):
    data, preset = Tabulated.of(counts), preset_2020()
    owned = own_totals(preset, counts.schema, counts.geography, levels=("tract", "block_group"))

    def errors(mechanism):
        released = protect(data, mechanism, seed=0).as_counts().tables["block"]
        return totals_errors(owned, [released.sum(axis=1) - counts.totals()])

    tract, group = errors(preset)
    assert tract.kept
    assert group.away < 0.15  # a small nation has few units, and small facilities that bind
    assert all(one.error > 1.2 * one.own for one in errors(one_pass(preset)))


def test_the_recheck_of_2020_finds_what_is_broken(counts):
    whole = {level: one.matrix for level, one in every_level(counts).items()}
    assert all(broken == 0 for _, broken in recheck_2020(counts, whole).values())
    block = counts.matrix.tolil()
    nursing = int(np.flatnonzero(counts.quarters.occupied[:, 3])[0])
    from_home = int(np.flatnonzero(counts.quarters.occupied[:, 0])[0])
    block[nursing, 3 * 252] += 1  # a child in a nursing home, and one person more in its state
    block[from_home, 252] += 1  # someone in a prison where there is none
    found = recheck_2020(counts, {**whole, "block": block.tocsr()})
    assert found["nobody under 18 in nursing homes"][1] == 1
    assert found["bounds by type"][1] == 1
    assert found["sums over children"][1] == 2
    other = {**whole, "state": whole["state"] * 2}
    assert recheck_2020(counts, other)["exact totals"] == (3, 2)
