"""Rounding as a mechanism: every way of it on published tables, thresholds, samples, keys."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from headcount.attacks.changed_cells import NarrowedCells, narrowed_tables
from headcount.attacks.knowledge import knowledge_of_release
from headcount.errors import ConfigError, PrivacyError
from headcount.mechanisms import Chain, Context, Sampling, Tabulated, protect, protect_runs
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.noise import KeyedNoise, RunKey
from headcount.population.from_households import to_population
from headcount.population.towns import towns
from headcount.release import TablesRelease
from headcount.release.changed import Off
from headcount.release.published import by_name, is_total
from headcount.schema import load_schema
from headcount.tabulate import Tabulated as Counted
from headcount.tabulate import tabulate
from headcount.tabulate.counts import adder
from headcount.tabulate.linked_tables import table_values
from headcount.testing.contracts import mechanism_checks
from tests.mechanisms.cell_key.test_cell_key_mechanism import DATA, TABLES, alike, people


def release_of(mechanism: Rounding, data: Any = DATA, **how: Any) -> TablesRelease:
    return protect(data, mechanism, **({"seed": 1} | how)).as_tables()


def true_of(one: Any, data: Tabulated = DATA) -> Any:
    return table_values(data.counts.at(one.level), one.cells)


def adds_up(release: TablesRelease) -> bool:
    """Whether totals are the sums of their parts, in every table and over units."""
    tables, geography = by_name(release.published), release.geography
    for (name, level), one in tables.items():
        if np.any(one.cells.relations @ one.value.T):
            return False
        depth = geography.depth(level)
        if depth and (name, above := geography.levels[depth - 1]) in tables:
            up = adder(geography, above, of=level)
            if np.any(up @ one.value != tables[name, above].value):
                return False
    return True


@pytest.mark.parametrize("how", ["random", "fixed"])
def test_random_rounding_is_unbiased_with_the_variance_of_its_remainder(how):
    mechanism = Rounding(tables={"t": ["sex", "age", "job"]}, base=5, how=how)
    noise = KeyedNoise(RunKey.from_seed(2), "rounding", DATA.digest, b"")
    true = true_of(release_of(mechanism).published[-1])
    runs = [
        one.as_tables().published[-1].value
        for one in protect_runs(DATA, mechanism, noise, runs=range(60))
    ]
    change = np.stack(runs) - true
    assert not (np.stack(runs) % 5).any()
    for rest in range(5):
        here = change[:, true % 5 == rest]
        variance = rest * (5 - rest)
        assert abs(here.mean()) <= 5 * np.sqrt(max(variance, 1e-9) / here.size) + 0.02
        assert abs((here**2).mean() - variance) < 0.15


def test_fixed_rounding_rounds_the_same_people_alike_and_random_does_not():
    assert alike(release_of(Rounding(tables=TABLES, how="fixed")), DATA.counts)
    assert not alike(release_of(Rounding(tables=TABLES, how="random")), DATA.counts)


def test_nearest_midpoint_and_small_only_are_what_they_say():
    for one in release_of(Rounding(tables=TABLES, base=5, how="nearest")).published:
        assert np.array_equal(one.value, (true_of(one) + 2) // 5 * 5)
    for one in release_of(Rounding(tables=TABLES, base=5, how="midpoint")).published:
        true = true_of(one)
        assert np.array_equal(one.value, np.where(true > 0, -(-true // 5) * 5 - 2, 0))
    small = release_of(Rounding(tables=TABLES, base=4, how="nearest", small_only=True))
    for one in small.published:
        true, inner = true_of(one), one.cells.inner
        wanted = np.where(true < 4, (true + 2) // 4 * 4, true)[:, inner]
        assert np.array_equal(one.value[:, inner], wanted)
        assert not np.any(one.cells.relations @ one.value.T)


def test_thresholds_withhold_small_counts_and_small_areas():
    plain = release_of(Rounding(tables=TABLES, base=5, how="nearest", below=10))
    assert all(np.array_equal(one.withheld, true_of(one) < 10) for one in plain.published)
    kept = release_of(
        Rounding(tables=TABLES, base=5, how="nearest", below=10, withhold_zeros=False)
    )
    for one in kept.published:
        true = true_of(one)
        assert np.array_equal(one.withheld, (true < 10) & (true > 0))
        assert one.holds == 1
    areas = release_of(Rounding(tables=TABLES, base=5, areas=100))
    for one in areas.published:
        few = DATA.counts.at(one.level).totals() < 100
        assert np.array_equal(one.withheld, few[:, None] & ~is_total(one.cells)[None, :])
    assert any(one.withheld.any() for one in areas.published)


def test_controlled_rounding_keeps_every_sum(tmp_path):
    data = Tabulated.of(people(300, leaves=8))
    mechanism = Rounding(tables={"t": ["sex", "age"], "u": ["age"]}, base=3, how="controlled")
    release = release_of(mechanism, data, context=Context(curator=tmp_path))
    assert adds_up(release)
    for one in release.published:
        assert not (one.value % 3).any()
        assert np.abs(one.value - true_of(one, data)).max() <= 2
    assert '"proved_nearest": true' in (tmp_path / "rounding.json").read_text()


@pytest.mark.parametrize("optimal", [False, True])
def test_small_count_rounding_keeps_sums_and_leaves_no_small_count(optimal):
    data = Tabulated.of(people(60, leaves=4))
    mechanism = Rounding(
        tables={"t": ["sex", "age"], "u": ["age"]}, how="small-counts", optimal=optimal
    )
    release = release_of(mechanism, data)
    assert adds_up(release)
    for one in release.published:
        assert not np.isin(one.value, (1, 2)).any()
        assert not one.value[true_of(one, data) == 0].any()
    assert any((one.value != true_of(one, data)).any() for one in release.published)


@pytest.mark.parametrize(
    "settings",
    [
        {"how": "random", "base": 5},
        {"how": "fixed", "base": 3},
        {"how": "nearest", "base": 5, "below": 10},
        {"how": "midpoint", "base": 6},
        {"how": "nearest", "base": 4, "small_only": True},
        {"how": "random", "base": 5, "areas": 100},
        {"how": "controlled", "base": 3},
    ],
    ids=str,
)
def test_an_attacker_s_ranges_hold_the_truth_and_nothing_is_taken_for_exact(settings):
    data = Tabulated.of(people(300, leaves=8))
    release = release_of(Rounding(tables={"t": ["sex", "age"]}, **settings), data)
    for known, one in zip(knowledge_of_release(release).tables, release.published, strict=True):
        low, high = known.bounds(np.arange(len(one.value)))
        true = true_of(one, data)
        assert ((low <= true) & (true <= high)).all()
        assert not known.exact


def test_how_far_small_counts_are_off_is_not_said_and_an_attacker_can_only_guess():
    data = Tabulated.of(people(300, leaves=8))
    release = release_of(Rounding(tables={"t": ["sex", "age"]}, how="small-counts"), data)
    assert all(one.off == Off() for one in release.published)
    assert narrowed_tables(release).guessed
    most = max(int(np.abs(one.value - true_of(one, data)).max()) for one in release.published)
    told = narrowed_tables(release, largest_change=most)
    assert most > 0
    assert not told.guessed
    for one in told.published:
        assert isinstance(one, NarrowedCells)
        true = true_of(one, data)
        assert ((one.low <= true) & (true <= one.high)).all()


def test_a_sample_is_rounded_with_its_weight():
    chain = Chain.of([Sampling(fraction=Fraction(2, 5)), Rounding(tables=TABLES, base=5)])
    noise = KeyedNoise(RunKey.from_seed(1), chain.name, DATA.digest, b"")
    sample = chain.on(DATA.counts.domain).changed(DATA, noise, run=0, context=Context())
    release = protect(DATA, chain, noise).as_tables()
    for one in release.published:
        weighted = table_values(sample.at(one.level), one.cells) * 2.5
        assert not (one.value % 5).any()
        assert np.abs(one.value - weighted).max() < 5
    assert "The counts are of a sample, times 5/2." in release.rules.words  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="small counts of a sample are small for another reason"):
        Chain.of([Sampling(fraction=Fraction(1, 2)), Rounding(below=5)])
    with pytest.raises(ConfigError, match="sums of weighted counts are no whole numbers"):
        Chain.of([Sampling(fraction=Fraction(1, 2)), Rounding(how="controlled")])


def test_a_key_file_rounds_later_tables_alike_and_other_data_are_refused(tmp_path):
    mechanism = Rounding(tables=TABLES, how="fixed", keys=tmp_path / "keys")
    first = by_name(release_of(mechanism, seed=1).published)
    again = by_name(release_of(mechanism, seed=2).published)
    assert all(np.array_equal(first[where].value, again[where].value) for where in first)
    with pytest.raises(PrivacyError, match="found keys of other data"):
        Chain.of(mechanism).on(Tabulated.of(people(4_001)).counts.domain).check(
            Tabulated.of(people(4_001))
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base": 1}, "rounding: base: found 1, expected 2 or more"),
        ({"how": "down"}, "rounding: how: found 'down'"),
        ({"below": -1}, "rounding: below: found -1, expected 0 or more"),
        ({"areas": -1}, "rounding: areas: found -1, expected 0 or more"),
        ({"how": "controlled", "below": 5}, "rounding: below: found it, with how = 'controlled'"),
        ({"how": "midpoint", "small_only": True}, "rounding: small_only: found it, with how"),
        ({"largest": 4}, "rounding: largest: found it, with how = 'random', expected it with"),
        ({"how": "small-counts", "largest": 1}, "largest: found 1, expected 2 or more"),
        ({"keys": "k"}, "rounding: keys: found it, with how = 'random', expected it with fixed"),
        ({"withhold_zeros": False}, "rounding: withhold_zeros: found false, without a threshold"),
        ({"optimal": True}, "rounding: optimal: found it, with how = 'random'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        Rounding(**settings)
    assert message in str(caught.value)


def test_tables_that_count_people_twice_cannot_keep_sums():
    schema = load_schema("persons-2010")
    whole = tabulate(to_population(towns(seed=4, people=1_000, counties=1), schema=schema))
    for settings in ({"how": "controlled"}, {"small_only": True}):
        with pytest.raises(ConfigError, match="table P6: found totals that are no sums of its"):
            Rounding(tables=("P6",), lowest="county", **settings).on(whole.domain).check(whole)
    each = Rounding(tables=("P6",), lowest="county")
    assert protect(Counted.of(whole), each, seed=1).as_tables().published


def test_only_what_chance_decides_draws_noise():
    assert Rounding().draws_noise
    assert Rounding(how="small-counts").draws_noise
    assert not Rounding(how="nearest").draws_noise
    assert not replace(Rounding(how="small-counts"), optimal=True).draws_noise


@pytest.mark.parametrize(
    "check",
    [
        check
        for how in ("random", "nearest")
        for check in mechanism_checks(
            Rounding(tables={"t": ["sex", "age"]}, how=how),
            [people(300, leaves=8)],
        )
    ],
    ids=str,
)
def test_contract(check):
    check()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "drawn anew, so that a count that stands in several tables can be worked out from"),
        ({"how": "fixed"}, "the same people are rounded alike wherever they are counted"),
        ({"how": "nearest"}, "nothing is left to chance. A count above 0 says that somebody"),
        ({"how": "controlled"}, "nothing is left to chance, and all sums are kept"),
        ({"how": "small-counts"}, "published nearly as they are, and all sums are kept"),
    ],
)
def test_a_release_has_no_guarantee_and_says_why(settings, why):
    first, *_ = Rounding(tables=TABLES, **settings).guarantee().sentences()
    assert first.startswith("No differential-privacy guarantee: counts are rounded to base 3")
    assert why in first
