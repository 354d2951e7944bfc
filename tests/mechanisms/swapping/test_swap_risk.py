"""Risk, keys and pseudo-units against plain loops."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import ConfigError, InputError, PrivacyError
from headcount.mechanisms.swapping import risk as risk_module
from headcount.mechanisms.swapping.keys import (
    PseudoUnits,
    SizeNoise,
    combined,
    household_values,
    noisy_size,
    pseudo_units,
    share,
)
from headcount.mechanisms.swapping.risk import NEVER, Risk, standing

from .dwellings import AGE, dwellings, spine, towns_of_dwellings


@given(towns_of_dwellings(), st.integers(0, 4))
def test_standing_is_what_counting_by_hand_gives(town, k):
    levels = town.geography.levels[1:]
    found = standing(town, Risk(attributes=("race", "tenure"), levels=levels[::-1], k=k))
    for row, level in enumerate(levels):
        unit = town.geography.ancestors(level)
        who = [
            (unit[town.block[d]], town.persons["race"][p], town.dwellings["tenure"][d])
            for p, d in enumerate(town.dwelling)
        ]
        counts = Counter(who)
        for d in range(len(town.block)):
            members = [counts[who[p]] for p in range(town.first[d], town.first[d + 1])]
            assert found.fewest[row, d] == min(members, default=np.iinfo(np.int64).max)
    for d in range(len(town.block)):
        small = [row for row in range(len(levels)) if found.fewest[row, d] < k]
        assert found.depth[d] == (small[0] + 1 if small else NEVER)
        assert found.unique[d] == (1 in found.fewest[:, d])


def test_a_wide_table_is_counted_the_same(monkeypatch):
    town = dwellings(60, seed=3)
    rule = Risk(attributes=("race", "age"), levels=("county", "block"))
    plain = standing(town, rule)
    monkeypatch.setattr(risk_module, "WIDEST_TABLE", 1)
    assert np.array_equal(standing(town, rule).fewest, plain.fewest)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attributes": (), "levels": ("block",)}, "risk: attributes: found none"),
        ({"attributes": ("race",), "levels": ()}, "risk: levels: found none"),
        ({"attributes": ("race",), "levels": ("block",), "k": -1}, "risk: k: found -1"),
        ({"attributes": ("race",), "levels": ("block",), "k": True}, "risk: k: found True"),
    ],
)
def test_wrong_risks_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Risk(**settings)


def test_key_values():
    town = dwellings(50, seed=1)
    assert np.array_equal(household_values(town, "size"), town.size)
    assert np.array_equal(household_values(town, "tenure"), town.dwellings["tenure"])
    grown = [
        sum(town.persons["age"][town.first[d] : town.first[d + 1]] >= AGE.index("18"))
        for d in range(50)
    ]
    assert household_values(town, "adults").tolist() == grown


def test_a_key_that_dwellings_lack_is_refused():
    with pytest.raises(InputError, match=r"found 'rent', which dwellings do not have, expected "):
        household_values(dwellings(5, seed=1), "rent")


def test_adults_need_ages_in_years():
    town = dwellings(5, seed=1)
    object.__setattr__(town, "person_attributes", town.person_attributes[1:])
    with pytest.raises(
        InputError, match="adults: found no attribute 'age', expected ages of persons"
    ):
        household_values(town, "adults")
    words = type(AGE)("age", ("young", "old", "18", "older"))
    object.__setattr__(town, "person_attributes", (words,))
    with pytest.raises(InputError, match="does not begin with a number of years"):
        household_values(town, "adults")


wide = st.lists(st.tuples(*[st.sampled_from([0, 1, 2**20, 2**39])] * 3), min_size=1, max_size=9)


@given(wide)
def test_combined_numbers_are_equal_where_all_parts_are(table):
    parts = [np.array(column, dtype=np.int64) for column in zip(*table, strict=True)]
    code = combined(parts, len(table))
    assert code.min() >= 0
    for i in range(len(table)):
        for j in range(len(table)):
            assert (code[i] == code[j]) == (table[i] == table[j])


def test_noisy_sizes_follow_their_shares():
    size = np.full(40_000, 3)
    noise = SizeNoise(minus=Fraction(1, 4), plus=Fraction(1, 10))
    seen = Counter((noisy_size(size, noise, np.random.default_rng(1)) - size).tolist())
    for change, part in ((-1, 0.25), (0, 0.65), (1, 0.1)):
        assert abs(seen[change] - 40_000 * part) < 4 * (40_000 * part * (1 - part)) ** 0.5
    assert set(seen) == {-1, 0, 1}


def test_pseudo_units_keep_their_numbers_and_stay_within_their_level():
    tree = spine(3, 4, 2)
    block = np.random.default_rng(2).integers(0, tree.size("block"), 5_000).astype(np.int32)
    own = tree.ancestors("tract")[block]
    county = tree.ancestors("county", of="tract")
    half = PseudoUnits(level="tract", permute=(("county", Fraction(1, 2)),))
    taken = pseudo_units(block, tree, half, np.random.default_rng(3))
    assert Counter(taken.tolist()) == Counter(own.tolist())
    assert np.array_equal(county[taken], county[own])
    assert 0.3 < np.mean(taken != own) < 0.45  # half of them, a quarter of these to where they were
    both = PseudoUnits(
        level="tract", permute=(("county", Fraction(2, 5)), ("state", Fraction(3, 10)))
    )
    taken = pseudo_units(block, tree, both, np.random.default_rng(3))
    assert Counter(taken.tolist()) == Counter(own.tolist())
    expected = 0.4 * 3 / 4 + 0.3 * 11 / 12
    assert abs(np.mean(taken != own) - expected) < 0.03
    assert abs(np.mean(county[taken] != county[own]) - 0.3 * 2 / 3) < 0.03


@pytest.mark.parametrize("value", ["-1/10", "11/10"])
def test_shares_outside_0_and_1_are_refused(value):
    with pytest.raises(ConfigError, match=r"size_noise: minus: found .*, expected from 0 to 1"):
        SizeNoise(minus=value, plus=Fraction(0))
    with pytest.raises(ConfigError, match=r"pseudo: permute.county: found .*, expected from 0"):
        PseudoUnits(level="tract", permute=(("county", value),))


def test_shares_above_1_together_are_refused():
    most = Fraction(3, 5)
    with pytest.raises(ConfigError, match=r"size_noise: found minus \+ plus above 1"):
        SizeNoise(minus=most, plus=most)
    with pytest.raises(ConfigError, match="pseudo: permute: found shares above 1 together"):
        PseudoUnits(level="tract", permute=(("county", most), ("state", most)))


@pytest.mark.parametrize("value", [0.25, float("nan"), True, "much", None])
def test_shares_must_be_exact_numbers(value):
    with pytest.raises(PrivacyError, match=r"size_noise: minus: found"):
        SizeNoise(minus=value, plus=Fraction(0))


def test_a_share_is_what_is_written():
    twentieth = Fraction(1, 20)
    assert share("0.05", "rate") == share("5e-2", "rate") == share(twentieth, "rate") == twentieth
