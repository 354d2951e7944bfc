"""The parts of the 1940 generator: sums, splits and draws, each against an oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount_papers.us1940._groups import (
    draw_groups,
    fit_expected,
    gather,
    group_targets,
    settle,
    settle_groups,
)
from headcount_papers.us1940._people import (
    Facilities,
    _without_return,
    draw_ages,
    draw_households,
    place_facilities,
)
from headcount_papers.us1940._places import (
    district_quantiles,
    fit_sizes,
    plan_nation,
    round_within,
    state_persons,
)
from headcount_papers.us1940.figures import GROUPS, apportion, fill, model, published

weights = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=12).map(np.array)


@given(weights, st.integers(0, 10_000))
def test_apportion_is_within_one_of_proportional(weight: np.ndarray, total: int) -> None:
    whole = apportion(weight, total)
    assert whole.sum() == total
    assert (np.abs(whole - weight * total / weight.sum()) <= 1 + 1e-6).all()


def test_fill_keeps_what_is_known() -> None:
    filled = fill(np.array([1.0, 2.0, 3.0]), np.array([np.nan, 10.4, np.nan]), total=50)
    assert filled.tolist() == [10, 10, 30]


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=10), st.integers(0, 700), st.integers(0, 9)
)
def test_settle_meets_any_possible_total(counts: list[int], total: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    most = np.array(counts) + rng.integers(0, 40, len(counts))
    least = np.minimum(np.array(counts), 2)
    wanted = int(np.clip(total, least.sum(), most.sum()))
    settled = settle(rng, np.array(counts), total=wanted, most=most, least=least)
    assert settled.sum() == wanted
    assert ((settled >= least) & (settled <= most)).all()


def test_settle_moves_in_proportion() -> None:
    settled = settle(
        np.random.default_rng(1), np.array([10, 100, 0]), total=220, most=np.array([999, 999, 999])
    )
    assert np.abs(settled - [20, 200, 0]).max() <= 1
    assert settled[2] == 0  # empty places stay empty while others have room


def test_settle_refuses_the_impossible() -> None:
    with pytest.raises(ValueError, match="3 cannot be moved to 9 within the bounds"):
        settle(np.random.default_rng(1), np.array([1, 2]), total=9, most=np.array([2, 3]))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 99))
def test_round_within_is_exact_by_group(numbers: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(numbers)), numbers)
    totals = np.array(numbers) + rng.integers(0, 500, len(numbers))
    whole = round_within(rng.lognormal(3, 1, len(group)), group=group, totals=totals)
    assert (np.bincount(group, weights=whole) == totals).all()
    assert whole.min() >= 1


def test_fit_sizes_follows_the_quantiles_and_the_totals() -> None:
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(50), 40)
    quantiles = np.sort(rng.lognormal(6, 0.8, 2000))
    totals = np.rint(quantiles.sum() / 50 * rng.uniform(0.7, 1.3, 50)).astype(np.int64)
    sizes = fit_sizes(
        np.ones(2000) * rng.random(2000),
        group=group,
        totals=totals,
        quantiles=quantiles * totals.sum() / quantiles.sum(),
    )
    assert (np.bincount(group, weights=sizes) == totals).all()
    scaled = quantiles * totals.sum() / quantiles.sum()
    assert np.abs(np.sort(sizes)[100:-100] / scaled[100:-100] - 1).max() < 0.05


def test_district_quantiles_have_the_published_moments() -> None:
    sizes = district_quantiles(134_857)
    assert np.median(sizes) == pytest.approx(865, abs=0.1)
    assert np.quantile(sizes, 0.95) == pytest.approx(2342, abs=1)
    assert sizes.mean() == pytest.approx(981.8, rel=0.001)
    assert sizes.std() == pytest.approx(762.7, rel=0.001)


def test_plan_has_everybody_everywhere() -> None:
    plan = plan_nation(8)
    assert plan.persons.sum() == 132_404_766
    assert len(plan.persons) == 134_857
    assert len(np.unique(plan.county)) == 3_108
    assert plan.persons.min() >= 1
    washington = plan.state[plan.county] == 47  # 48th of the 51 by FIPS code
    assert plan.persons[washington].sum() == 1_741_616
    assert washington.sum() == 2_663


def test_group_targets_add_up() -> None:
    persons = state_persons()
    targets = group_targets(persons)
    assert (targets >= 0).all()
    assert (targets.sum(axis=1) == persons).all()
    races = targets[:, :6].sum(axis=0) + targets[:, 6:].sum(axis=0)
    assert races.tolist() == list(published()["race"].values())
    assert targets[:, 6:].sum() == published()["hispanic"]["hispanic"]


def test_proportional_fitting_reaches_its_targets() -> None:
    rng = np.random.default_rng(2)
    persons = rng.integers(50, 2000, 300)
    weight = rng.gamma(0.5, 2, (300, 3))
    targets = np.array([20_000, 900, 30])
    expected = fit_expected(weight, persons=persons, targets=targets)
    assert expected.sum(axis=0) == pytest.approx(targets, rel=0.01)
    assert (expected.sum(axis=1) < persons).all()
    # The model's form: odds against the base group are a constant times the weight.
    odds = expected / (persons - expected.sum(axis=1))[:, None] / weight
    assert np.ptp(np.log(odds), axis=0).max() < 1e-6


def test_a_gathered_group_is_there_with_enough_people_or_not_at_all() -> None:
    county = np.repeat(np.arange(30_000), 2)
    expected = np.column_stack(
        [np.tile([0.5, 1.0], 30_000), np.tile([2.0, 2.5], 30_000), np.tile([0.0, 90.0], 30_000)]
    )
    gathered = gather(np.random.default_rng(12), expected, county=county, least=4.5)
    of_county = gathered[::2] + gathered[1::2]
    assert set(np.unique(of_county[:, 0]).tolist()) == {0.0, 4.5}
    assert gathered[1::2, 0] == pytest.approx(2 * gathered[::2, 0])  # districts keep their shares
    assert (gathered[:, 1:] == expected[:, 1:]).all()  # enough people are left as they are
    # Present with probability 1.5 / 4.5, so that the mean stays 1.5.
    error = 4.5 * np.sqrt(1 / 3 * 2 / 3 / 30_000)
    assert of_county[:, 0].mean() == pytest.approx(1.5, abs=4 * error)


def test_gathering_leaves_an_absent_group_absent() -> None:
    expected = np.array([[0.0, 3.0], [0.0, 3.0]])
    gathered = gather(np.random.default_rng(1), expected, county=np.array([0, 0]), least=4.5)
    assert gathered.tolist() == expected.tolist()


def test_settled_groups_are_exact_and_fit_in() -> None:
    rng = np.random.default_rng(3)
    persons = rng.integers(5, 60, 40)
    counts = rng.binomial(persons[:, None], [0.2, 0.05])
    targets = np.array([int(persons.sum()) - 500 - 40, 500, 40])
    settled = settle_groups(rng, counts, persons=persons, targets=targets)
    assert settled.sum(axis=0).tolist() == targets.tolist()
    assert (settled.sum(axis=1) == persons).all()
    assert settled.min() >= 0


def test_drawn_groups_are_exact_even_where_a_group_is_the_majority() -> None:
    rng = np.random.default_rng(6)
    persons = rng.integers(1, 900, 200)
    county = np.repeat(np.arange(4), 50)
    share = np.array([0.2, 0.3, 0.01, 0.05, 0.25, 0.1, 0.05, 0.01, 0.01, 0.005, 0.01, 0.005])
    targets = apportion(share, int(persons.sum()))
    groups = draw_groups(rng, persons=persons, county=county, targets=targets)
    assert groups.sum(axis=0).tolist() == targets.tolist()
    assert (groups.sum(axis=1) == persons).all()


def test_ages_have_the_share_asked_for() -> None:
    rng = np.random.default_rng(7)
    groups = rng.poisson(40, (2000, len(GROUPS)))
    cells = draw_ages(rng, groups, adults=0.7, adults_only=25, printed={})
    assert (cells.sum(axis=1) == groups).all()
    assert cells[:, 1].sum() / cells.sum() == pytest.approx(0.7, abs=0.01)
    assert (cells[:, 0].sum(axis=1) == 0).sum() == 25


def test_printed_ages_are_met() -> None:
    rng = np.random.default_rng(7)
    groups = rng.poisson(5, (300, len(GROUPS)))
    printed = {
        "adults": 11_000,
        "white_not_hispanic_adults": 1_000,
        "black_hispanic_minors": 500,
    }
    cells = draw_ages(rng, groups, adults=0.6, adults_only=5, printed=printed)
    assert cells[:, 1].sum() == 11_000
    assert cells[:, 1, 0].sum() == 1_000
    assert cells[:, 0, GROUPS.index("black_hispanic")].sum() == 500
    assert (cells.min(), (cells[:, 0].sum(axis=1) == 0).sum() >= 5) == (0, True)


def test_draws_without_return_have_the_hypergeometric_mean_and_variance() -> None:
    rng = np.random.default_rng(9)
    cells = np.tile(np.array([30, 50, 0, 20]), (20_000, 1))
    wanted = np.full(20_000, 25)
    moved = _without_return(rng, cells, wanted)
    assert (moved.sum(axis=1) == 25).all()
    assert (moved <= cells).all()
    p = cells[0] / 100
    variance = 25 * p * (1 - p) * 75 / 99
    assert np.abs(moved.mean(axis=0) - 25 * p).max() < 5 * np.sqrt(variance.max() / 20_000)
    assert moved.var(axis=0) == pytest.approx(variance, rel=0.05)
    # With return the variance would be a third larger: the check above can tell.
    assert np.abs(25 * p * (1 - p) / np.where(variance > 0, variance, 1) - 1)[0] > 0.3


def test_facilities_hold_whom_they_should() -> None:
    rng = np.random.default_rng(10)
    cells = rng.poisson(20, (400, 2, len(GROUPS)))
    wanted = (
        Facilities(districts=50, persons=3_000, records=2_000, minors=0.05),
        Facilities(districts=3, persons=9_000, records=4_000, minors=0.2),  # three cannot hold it
    )
    placed, records = place_facilities(rng, cells, wanted)
    assert (placed.sum(axis=1) == cells.reshape(400, -1)).all()
    assert placed[:, 1:].sum(axis=(0, 2)).tolist() == [3_000, 9_000]
    assert records.sum(axis=0).tolist() == [0, 2_000, 4_000]
    held = placed.sum(axis=2)[:, 1:]
    assert ((records[:, 1:] > 0) == (held > 0)).all()
    assert (records[:, 1:] <= held).all()
    assert (held[:, 0] > 0).sum() == 50
    assert placed[:, 0].sum(axis=1).min() >= 1
    assert placed[:, 1, :12].sum() / 3_000 == pytest.approx(0.05, abs=0.02)


def test_households_stay_within_1_and_99_people() -> None:
    rng = np.random.default_rng(11)
    persons = np.array([1, 2, 98, 99, 100, 5_000])
    for total, expected in ((1_500, 1_500), (3, 1 + 1 + 1 + 1 + 2 + 51), (99_999, 5_300)):
        units = draw_households(rng, persons, total=total)
        assert units.sum() == expected
        assert ((units <= persons) & (persons <= 99 * units)).all()


def test_model_names_every_group_and_type() -> None:
    from headcount.schema import load_schema

    schema = load_schema("e2e-2018")
    assert set(model()["group"]) == set(GROUPS[1:])
    for name, changed in model()["presence"]["group"].items():
        assert changed.keys() < model()["group"][name].keys()
    types = [row["type"] for row in model()["facility"]]
    assert types == list(schema.attribute("hhgq").levels[1:])
    assert list(schema.attribute("race").levels) == list(GROUPS[:6])
