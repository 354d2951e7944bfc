"""Totals beside their own answers: which units count, when a check fails, and one small nation."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import totals_2020 as bench
from benchmarks.nation_people import nation_2020
from benchmarks.nation_spine import (
    along_made_up_spine,
    bypassed_units,
    paths_beside_1,
)
from benchmarks.product_2020 import CONTROLS, preset_2020
from benchmarks.recheck import by_type, recheck_2020
from benchmarks.totals_2020 import (
    TotalsError,
    moved_totals,
    one_pass_must_be_worse,
    one_pass_must_fail,
    own_totals,
)
from benchmarks.totals_in_bounds import bounds_of_groups, squared_error_within
from headcount.geography import Geography
from headcount.geography.spine import UnitShares
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


def one_block_groups(counts):
    (found,) = own_totals(
        preset_2020(), counts.schema, counts.geography, levels=["block_group"], more=1
    )
    return found


def test_block_groups_with_one_block_have_its_share_too_and_a_better_answer(counts):
    moved, spine = one_block_groups(counts), counts.geography.spine
    assert round(moved.sd, 2) == 1.65  # 1.75 sqrt(1256 / (1256 + 165))
    depth = spine.depth("block_group")
    siblings = np.bincount(spine.parents[depth])[spine.parents[depth]]
    assert (moved.ours == ((np.bincount(spine.parents[depth + 1]) == 1) & (siblings > 1))).all()
    assert moved.ours.sum() > 100


def test_answers_cut_at_bounds_have_the_error_of_many_draws():
    drawn = 1.65 * np.random.default_rng(5).standard_normal(400_000)
    low, high = np.array([-9.0, -1.0, 2.0, 0.0, -20.0]), np.array([9.0, 2.5, 7.0, 0.0, -2.0])
    cut = np.clip(drawn, low[:, None], high[:, None])
    assert squared_error_within(low, high, 1.65) == pytest.approx((cut**2).mean(axis=1), rel=0.02)


def test_a_tract_bounds_its_block_groups_by_all_that_the_others_cannot_hold(counts):
    """One by one: of each type all that is left over, and no more than others can spare."""
    spine, quarters = counts.geography.spine, counts.quarters
    people = np.random.default_rng(2).integers(1, 9, (spine.size("block"), 8))
    people *= (quarters.occupied > 0) | (quarters.vacant[:, None] * (np.arange(8) == 0) > 0)
    low, high = bounds_of_groups(counts, people)
    order = counts.geography.along_spine
    occupied, vacant, released = quarters.occupied[order], quarters.vacant[order], people[order]
    tract, group = spine.ancestors("tract"), spine.ancestors("block_group")
    for b in np.random.default_rng(3).choice(spine.size("block_group"), 60, replace=False):
        mine, at_least, at_most = group == b, 0, 0
        others = (tract == tract[mine][0]) & ~mine
        for k in range(8):
            homes = vacant * (k == 0)
            here, there = ((occupied[:, k] + homes)[one].sum() for one in (mine, others))
            whole, floor = released[mine | others, k].sum(), int(k > 0)
            at_least += max(floor * here, whole - 99_999 * there)
            at_most += min(99_999 * here, whole - floor * there)
        assert (low[b], high[b]) == (at_least, at_most)


def test_one_block_groups_that_err_more_than_bounds_explain_are_a_fault(counts):
    truth = by_type(counts.matrix, types=8)
    chance = np.random.default_rng(4)

    def readings(sd):
        noise = np.rint(sd * chance.standard_normal(len(truth))).astype(np.int64)
        people = truth.copy()
        people[:, 0] += noise  # at home, where bounds of the true tracts are far from most
        return {one.what: one for one in moved_totals(counts, one_block_groups(counts), [people])}

    far = "one-block block_group totals beside their own answers, where bounds are far: root mean"
    assert readings(1.65)[f"{far} square error"].passed
    assert not readings(3.3)[f"{far} square error"].passed
    cut = far.replace(", where bounds are far", " cut at bounds")
    assert not readings(3.3)[f"{cut} square error"].passed


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


def test_in_the_nation_one_pass_is_far_worse_at_every_level():
    near, far = (TotalsError("tract", error, 2.0, units=99, runs=4) for error in (2.39, 2.41))
    assert one_pass_must_be_worse([far, far]).passed
    assert not one_pass_must_be_worse([far, near]).passed


def test_the_nation_has_parts_inside_areas_only_children_and_even_paths(counts):
    spine = counts.geography.spine
    assert {code[0] for code in spine.units[1]} == {"0", "1"}
    shares = shares_along(spine)
    assert bypassed_units(shares) > 100
    assert paths_beside_1(shares) == 0
    forgotten = UnitShares(geography=spine, shares=shares.shares, highest="us")
    object.__setattr__(forgotten, "_runs", tuple(np.zeros_like(one) for one in shares._runs))
    assert paths_beside_1(forgotten) > 100  # shares of only children that nobody took over


def test_a_small_nation_is_measured_with_both():
    readings = {one.what: one for one in bench.measure(share=SHARE, replicates=1)}
    tract, group = (
        readings[f"{level} totals beside their own answers: root mean square error"]
        for level in ("tract", "block_group")
    )
    assert tract.passed
    assert group.value < 15  # a small nation has few units, and small facilities that bind
    for answers in ("their own answers cut at bounds", "their own answers, where bounds are far"):
        assert readings[
            f"one-block block_group totals beside {answers}: root mean square error"
        ].passed
    assert readings["one-block block_group totals: bias"].value > 0  # bounds are from below
    (control,) = (one for what, one in readings.items() if "have less than 1.2 times" in what)
    assert control.passed
    by_cells, to_totals = CONTROLS
    for name in ("two passes", by_cells, to_totals):
        assert readings[f"most diverse fifth of blocks, {name}: bias"].value < 0
    tracts = [readings[f"tract totals, {name}"].value for name in (by_cells, to_totals)]
    assert tracts[0] > tracts[1]


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
