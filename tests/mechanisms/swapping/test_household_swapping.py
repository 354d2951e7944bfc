"""Household swapping: exact rates, invariants, nearest first, risk first, clear refusals."""

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.mechanisms import Chain, Context, Tabulated, protect
from headcount.mechanisms.swapping._pairing import choose_pairs
from headcount.mechanisms.swapping.households import changed_counts, partners_by_level
from headcount.mechanisms.swapping.keys import PseudoUnits, SizeNoise, household_values, pairs_for
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.mechanisms.swapping.risk import NEVER, Risk, standing
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.population.population import Households
from headcount.tabulate import content_digest, tabulate
from headcount.testing.contracts import mechanism_checks
from tests.mechanisms.swapping.programme import at_risk_and_pairs, some_mechanism, some_town

from .dwellings import RACE, dwellings, some_people, spine, towns_of_dwellings

HALF = Fraction(1, 2)
NOISY = HouseholdSwapping(
    rate=HALF,
    key=("size",),
    nearest=("tract", "county"),
    size_noise=SizeNoise(minus=Fraction(1, 4), plus=Fraction(1, 4)),
    pseudo=PseudoUnits(
        level="tract", permute=(("county", Fraction(2, 5)), ("state", Fraction(3, 10)))
    ),
)


def pseudo(level, within):
    return HouseholdSwapping(rate=HALF, pseudo=PseudoUnits(level=level, permute=((within, HALF),)))


def noise(seed=1):
    return KeyedNoise(RunKey.from_seed(seed), "swapping", bytes(32), bytes(32))


def brute_changed(before, after, key, level):
    """Units of a level whose number of people, households, or households by key differ."""
    unit = before.geography.ancestors(level)
    values = list(zip(*(household_values(before, name).tolist() for name in key), strict=True))
    people: Counter[int] = Counter()
    households: Counter[int] = Counter()
    by_key: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for town, sign in ((before, -1), (after, 1)):
        for d in range(len(town.block)):
            u = int(unit[town.block[d]])
            people[u] += sign * int(town.size[d])
            if town.is_household[d]:
                households[u] += sign
                by_key[u, values[d]] += sign
    return (
        sum(v != 0 for v in people.values()),
        sum(v != 0 for v in households.values()),
        len({u for (u, _), v in by_key.items() if v}),
    )


@given(towns_of_dwellings(), st.fractions(0, 1), st.integers(0, 99))
def test_rates_are_exact_and_invariants_hold(town, rate, seed):
    mechanism = HouseholdSwapping(rate=rate, key=("size", "tenure"))
    if not town.is_household.any():
        return
    try:
        made = mechanism.swap(town, np.random.default_rng(seed))
    except InputError:
        assert_nobody_left(town, np.full(len(town.block), -1), mechanism)
        return
    report, after, partner = made.report, made.households, made.partner
    total = int(town.is_household.sum())
    moved = np.flatnonzero(partner >= 0)
    assert report.swapped == len(moved)
    assert report.households == total
    assert report.swapped <= report.asked
    assert abs(report.asked - rate * total) <= 1
    assert report.short or abs(report.swapped - rate * total) <= 1
    if report.short:
        assert_nobody_left(town, partner, mechanism)
    assert np.array_equal(partner[partner[moved]], moved)
    assert np.array_equal(after.block[moved], town.block[partner[moved]])
    assert np.array_equal(np.delete(after.block, moved), np.delete(town.block, moved))
    assert town.is_household[moved].all()
    assert (town.block[moved] != after.block[moved]).all()
    assert np.array_equal(town.size[moved], town.size[partner[moved]])
    for level in town.geography.levels:
        assert brute_changed(town, after, ("size", "tenure"), level) == (0, 0, 0)
    assert all(kept.changed == 0 for kept in report.kept)


def assert_nobody_left(town, partner, mechanism):
    """No two households that stayed could have changed places."""
    stayed = np.flatnonzero(town.is_household & (partner < 0))
    seen: dict[tuple[int, ...], set[int]] = {}
    for d in stayed:
        key = tuple(int(household_values(town, name)[d]) for name in mechanism.key)
        seen.setdefault(key, set()).add(int(town.block[d]))
    assert all(len(places) == 1 for places in seen.values())


@given(towns_of_dwellings(), st.integers(0, 99))
def test_changed_counts_and_distances_are_those_of_counting_again(town, seed):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero(town.is_household))
    half = len(rows) // 2
    partner = np.full(len(town.block), -1)
    partner[rows[:half]], partner[rows[half : 2 * half]] = rows[half : 2 * half], rows[:half]
    after = replace(town, block=np.where(partner >= 0, town.block[partner], town.block))
    kept = changed_counts(town, partner, keys=[("size", "adults")])
    for level in town.geography.levels:
        told = tuple(one.changed for one in kept if one.level == level)
        assert told == brute_changed(town, after, ("size", "adults"), level)
    far = partners_by_level(town, partner)
    assert sum(far.values()) == half
    for level in town.geography.levels:
        unit = town.geography.ancestors(level)
        below = town.geography.levels[town.geography.depth(level) :]
        together = unit[town.block[rows[:half]]] == unit[town.block[rows[half : 2 * half]]]
        assert sum(far[one] for one in below) == np.count_nonzero(together)


@pytest.mark.parametrize("households", range(12))
def test_pairs_are_the_nearest_whole_number(households):
    for hundredths in range(101):
        rate = Fraction(hundredths, 100)
        pairs = pairs_for(rate, households)
        assert 0 <= 2 * pairs <= households
        assert abs(2 * pairs - rate * households) <= 1


def test_everyone_moves_at_rate_1():
    town = dwellings(800, seed=4)
    report = HouseholdSwapping(rate=Fraction(1)).swap(town, np.random.default_rng(1)).report
    assert report.swapped >= report.households - 12  # at most one or so for each key
    assert report.unpaired == report.households - report.swapped


def test_within_and_between_are_kept():
    town = dwellings(900, seed=5)
    tree = town.geography
    swapper = HouseholdSwapping(rate=HALF, key=("size",), within="county", between="tract")
    made = swapper.swap(town, np.random.default_rng(1))
    moved = np.flatnonzero(made.partner >= 0)
    old, new = town.block[moved], made.households.block[moved]
    county, tract = tree.ancestors("county"), tree.ancestors("tract")
    assert np.array_equal(county[old], county[new])
    assert (tract[old] != tract[new]).all()
    assert made.report.partners == {"state": 0, "county": len(moved) // 2, "tract": 0, "block": 0}
    assert abs(made.report.rate - 0.5) <= 1 / made.report.households


def test_partners_come_from_near_by_first():
    town = dwellings(2000, seed=6, geography=spine(4, 4, 4))
    report = HouseholdSwapping(rate=HALF, key=("size",)).swap(town, np.random.default_rng(1)).report
    levels = town.geography.levels
    assert report.share_within("tract", levels=levels) > 0.9
    assert report.share_within("county", levels=levels) > 0.98
    tight = HouseholdSwapping(rate=HALF, key=("size",), nearest=("state",))
    far = tight.swap(town, np.random.default_rng(1)).report
    assert far.share_within("tract", levels=levels) < 0.2


def test_those_at_risk_come_first_riskiest_first_and_move_far_enough():
    town = dwellings(3000, seed=7, geography=spine(3, 4, 10))
    rule = Risk(attributes=("race", "age"), levels=("county", "tract", "block"), k=3)
    risks = standing(town, rule)
    home = town.is_household
    risky = home & (risks.depth != NEVER)
    rate = Fraction(int(risky.sum()) // 2, int(home.sum()))
    made = HouseholdSwapping(rate=rate, key=("size",), risk=rule).swap(
        town, np.random.default_rng(1)
    )
    moved = made.partner >= 0
    told = made.report.at_risk
    assert told is not None
    assert told.swapped == np.count_nonzero(risky & moved)
    assert told.left == np.count_nonzero(risky & ~moved) > 0
    assert told.uniques_swapped == np.count_nonzero(home & risks.unique & moved)
    assert sum(told.by_level.values()) == np.count_nonzero(risky)
    # only those at risk were selected, those at risk at a coarse level before the others
    assert np.count_nonzero(moved & ~risky) <= 4
    score = list(zip(risks.depth[home], risks.count[home], strict=True))
    went = moved[home]
    worst_moved = sorted(s for s, m in zip(score, went, strict=True) if m)[-8]
    assert sum(s < worst_moved and not m for s, m in zip(score, went, strict=True)) <= 4
    assert told.moved_out == told.swapped
    for level in rule.levels:
        unit = town.geography.ancestors(level)
        here = np.flatnonzero(moved & (risks.depth == town.geography.depth(level)))
        assert (unit[town.block[here]] != unit[made.households.block[here]]).all()


@given(
    towns_of_dwellings(), st.fractions(0, 1), st.integers(1, 4), st.booleans(), st.integers(0, 9)
)
def test_those_at_risk_move_out_so_far_as_within_allows(town, rate, k, floor, seed):
    tree = town.geography
    levels = tree.levels[1:]
    rule = Risk(attributes=("race",), levels=levels, k=k)
    within = tree.levels[-2]
    swapper = HouseholdSwapping(
        rate=rate, key=(), within=within, risk=rule, rate_is_floor=floor and k > 0
    )
    try:
        made = swapper.swap(town, np.random.default_rng(seed))
    except InputError:
        return
    kept, leaf = tree.ancestors(within), made.households.block
    assert np.array_equal(kept[town.block], kept[leaf])
    moved = np.flatnonzero(made.partner >= 0)
    assert (town.block[moved] != leaf[moved]).all()
    risks = standing(town, rule)
    deepest = risks.depth[moved] == len(tree.levels) - 1
    told = made.report.at_risk
    assert told is not None
    assert told.moved_out == np.count_nonzero(deepest)
    if floor:
        stayed = town.is_household & (made.partner < 0) & (risks.depth != NEVER)
        assert told.left == np.count_nonzero(stayed)
        assert made.report.unpaired >= told.left
    else:
        assert made.report.swapped <= made.report.asked


def test_all_households_have_the_same_chance():
    """Binomial over swaps: 5 sigma for each of 120 households; those at risk are the control."""
    tree = spine(2, 2, 3)
    rng = np.random.default_rng(0)
    town = dwellings(120, seed=11, geography=tree, largest=1)
    town = replace(
        town,
        kind=np.zeros(120, dtype=np.int8),
        block=np.repeat(np.arange(12, dtype=np.int32), 10),
        first=np.arange(121),
        persons={"age": np.zeros(120, int), "race": (np.arange(120) == 7).astype(int)},
    )
    swaps = 400
    equal = HouseholdSwapping(rate=Fraction(1, 4), key=())
    seen = np.sum([equal.swap(town, rng).partner >= 0 for _ in range(swaps)], axis=0)
    spread = (swaps * 0.25 * 0.75) ** 0.5
    assert np.abs(seen - swaps / 4).max() < 5 * spread
    rule = Risk(attributes=("race",), levels=("block",), k=2)
    first = replace(equal, risk=rule)
    seen = np.sum([first.swap(town, rng).partner >= 0 for _ in range(swaps)], axis=0)
    assert seen[7] == swaps
    assert np.abs(np.delete(seen, 7) - swaps * 29 / 119).max() < 5 * spread


def six_households():
    """One at risk in its county; only the household of the other county can be its partner."""
    tree = Geography(
        ("state", "county", "block"),
        (np.array(["s"]), np.array(["c", "d"]), np.array(["c0", "c1", "c2", "d0"])),
        (np.empty(0, np.int32), np.zeros(2, np.int32), np.array([0, 0, 0, 1], np.int32)),
    )
    town = dwellings(6, seed=1, geography=tree)
    return replace(
        town,
        kind=np.zeros(6, dtype=np.int8),
        block=np.array([0, 2, 2, 2, 1, 3], dtype=np.int32),
        first=np.arange(0, 13, 2),
        persons={"age": np.zeros(12, int), "race": np.array([1] + [0] * 11)},
    )


@pytest.mark.parametrize("floor", [False, True])
def test_a_higher_rate_protects_no_less(floor, monkeypatch):
    town, rng = six_households(), np.random.default_rng(2)
    rule = Risk(attributes=("race",), levels=("county",), k=2)

    def left_at_risk(rate, runs):
        swapper = HouseholdSwapping(rate=rate, key=(), risk=rule, rate_is_floor=floor)
        made = [swapper.swap(town, rng) for _ in range(runs)]
        assert {one.report.swapped for one in made} == {6 * rate if rate < 1 else 4}
        return sum(int(one.partner[0] != 5) for one in made)

    assert left_at_risk(Fraction(1, 3), 100) == 0
    assert left_at_risk(Fraction(2, 3), 1000) == 0  # twice, with and without the floor
    assert left_at_risk(Fraction(1), 100) == 0
    by_chance = partial(choose_pairs, at_risk=0)
    plain = "headcount.mechanisms.swapping.mechanism.choose_pairs"
    monkeypatch.setattr(plain, lambda *a, at_risk, **more: by_chance(*a, **more))
    assert left_at_risk(Fraction(2, 3), 100) > 40  # a control: served in no order


def test_pseudo_units_keep_no_pair_apart():
    """Units permuted over the state, partners within the county: as many pairs as there can be."""
    town = dwellings(60, seed=4, geography=spine(3, 2, 2))
    swapper = HouseholdSwapping(
        rate=Fraction(1),
        key=(),
        within="county",
        pseudo=PseudoUnits(level="tract", permute=(("state", Fraction(1)),)),
    )
    swapped = swapper.swap(town, np.random.default_rng(1)).report.swapped
    possible = 0
    for county in range(3):
        inside = town.is_household & (town.geography.ancestors("county")[town.block] == county)
        members = np.bincount(town.block[inside])
        possible += 2 * min(members.sum() // 2, members.sum() - members.max())
    assert swapped == possible


def test_with_the_rate_as_a_floor_all_at_risk_move():
    town = dwellings(3000, seed=7, geography=spine(3, 4, 10))
    rule = Risk(attributes=("race", "age"), levels=("county", "tract", "block"), k=3)
    capped = HouseholdSwapping(rate=Fraction(1, 100), key=("size",), risk=rule)
    floor = replace(capped, rate_is_floor=True)
    few = capped.swap(town, np.random.default_rng(1)).report
    many = floor.swap(town, np.random.default_rng(1)).report
    assert abs(few.rate - 0.01) <= 1 / few.households
    assert few.at_risk is not None
    assert few.at_risk.left > 100
    assert many.at_risk is not None
    assert many.at_risk.left == 0
    assert many.rate > 0.1
    assert many.swapped <= many.at_risk.swapped + 10


def test_size_noise_is_in_the_key_only():
    town = dwellings(3000, seed=8, largest=5)
    made = NOISY.swap(town, np.random.default_rng(1))
    moved = np.flatnonzero(made.partner >= 0)
    apart = np.abs(town.size[moved] - town.size[made.partner[moved]])
    assert set(apart.tolist()) == {0, 1, 2}
    assert np.array_equal(made.households.size, town.size)
    changed = {(kept.count, kept.level): kept.changed for kept in made.report.kept}
    assert changed["people", "block"] > 0
    assert changed["households", "block"] == 0
    assert changed["people", "state"] == 0
    assert abs(made.report.rate - 0.5) <= 1 / made.report.households


def test_pseudo_units_send_partners_farther():
    town = dwellings(3000, seed=8, geography=spine(4, 4, 4))
    plain = replace(NOISY, size_noise=None, pseudo=None)
    near = plain.swap(town, np.random.default_rng(1)).report
    far = replace(plain, pseudo=NOISY.pseudo).swap(town, np.random.default_rng(1)).report
    levels = town.geography.levels
    assert near.share_within("tract", levels=levels) > 0.95
    assert far.share_within("tract", levels=levels) < 0.4


def test_pseudo_units_alone_are_paired_from_their_own_level_up():
    town = dwellings(400, seed=8, geography=spine(4, 4, 4))
    alone = pseudo("county", "state")
    alone.check(some_people(town))
    named = replace(alone, nearest=("county",))
    made = [one.swap(town, np.random.default_rng(1)).partner for one in (alone, named)]
    assert np.array_equal(*made)


def test_groups_too_many_for_64_bits_are_numbered_anew(monkeypatch):
    town = dwellings(400, seed=8, geography=spine(4, 4, 4))
    plain = HouseholdSwapping(rate=HALF, key=("size",))
    made = plain.swap(town, np.random.default_rng(1)).partner
    monkeypatch.setattr("headcount.mechanisms.swapping.mechanism.LARGEST_CODE", 1)
    again = plain.swap(town, np.random.default_rng(1)).partner
    assert np.array_equal(made, again)


def test_release_counts_everyone_where_they_went():
    town = dwellings(400, seed=9)
    data = Tabulated.of(some_people(town))
    made, second = (protect(data, NOISY, noise(), run=run) for run in range(2))
    assert not np.array_equal(made.at("block"), second.at("block"))
    assert np.array_equal(made.at("block").sum(axis=0), data.counts.dense().sum(axis=0))
    again = protect(data, NOISY, noise(), run=1)
    assert all(
        np.array_equal(getattr(second.table("block"), part), getattr(again.table("block"), part))
        for part in ("data", "indices", "indptr")
    )
    other = protect(data, NOISY, noise(2))
    assert not np.array_equal(made.at("block"), other.at("block"))
    assert dict(made.notes) == {}


def test_provenance_tells_who_went_where(tmp_path):
    town = dwellings(400, seed=9)
    people = some_people(town)
    made = protect(people, NOISY, noise(), context=Context(curator=tmp_path))
    table = pl.read_parquet(tmp_path / "provenance.parquet")
    block = town.block.copy()
    numbers = town.geography.unit_numbers
    block[table["dwelling"]] = [numbers[code] for code in table["new_unit"]]
    assert [numbers[code] for code in table["old_unit"]] == town.block[table["dwelling"]].tolist()
    again = tabulate(
        Population("t", Domain(people.schema, town.geography), block[town.dwelling], people.cell)
    )
    assert np.array_equal(again.dense(), made.at("block"))
    pairs = dict(table.select("dwelling", "partner").iter_rows())
    assert all(pairs[partner] == dwelling for dwelling, partner in pairs.items())
    told = json.loads((tmp_path / "swap-report.json").read_text())["0"]
    assert told["swapped"] == table.height
    assert told["partners"].keys() == set(town.geography.levels)
    assert told["stayed"]["vacant"] == np.count_nonzero(town.kind == 1)
    assert told["stayed"]["group quarters"] == np.count_nonzero(town.kind == 2)


def test_no_guarantee_and_says_what_is_exact():
    counts = some_people(dwellings(100, seed=1))
    release = protect(counts, HouseholdSwapping(rate=HALF, within="county"))
    assert not release.guarantee.exists
    said = " ".join(release.guarantee.sentences())
    assert "No differential-privacy guarantee: a household that is not swapped is published" in said
    assert "without noise: every count of each county" in said
    assert "without noise: the number of households by size x adults in each block" in said
    assert "without noise: the number of people in each block" in said
    noisy = NOISY.on(counts.domain).guarantee
    assert not any("people" in line for line in noisy.released_exactly)
    assert Chain.of(NOISY).on(counts.domain).plan == ()


def test_repr_makes_it_again():
    names = {"Fraction": Fraction, "Risk": Risk, "SizeNoise": SizeNoise}
    names |= {"HouseholdSwapping": HouseholdSwapping, "PseudoUnits": PseudoUnits}
    risky = replace(NOISY, risk=Risk(attributes=("race",), levels=("block",)))
    assert eval(repr(risky), names) == risky


@pytest.mark.parametrize("rate", ["-1/100", "101/100", 2, -1])
def test_rates_outside_0_and_1_are_refused(rate):
    with pytest.raises(ConfigError, match=r"swapping: rate: found .*, expected from 0 to 1"):
        HouseholdSwapping(rate=rate)


def test_rate_0_moves_nobody():
    made = HouseholdSwapping(rate=Fraction(0)).swap(dwellings(50, seed=1), np.random.default_rng(1))
    assert made.report.swapped == 0
    assert (made.partner == -1).all()


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="key: found 'size' twice"):
        HouseholdSwapping(rate=HALF, key=("size", "size"))
    with pytest.raises(ConfigError, match="size_noise: found no 'size' in the key"):
        HouseholdSwapping(rate=HALF, key=("adults",), size_noise=NOISY.size_noise)
    with pytest.raises(ConfigError, match="rate_is_floor: found no rule"):
        HouseholdSwapping(rate=HALF, rate_is_floor=True)
    counts = some_people(dwellings(50, seed=1))
    for wrong, message in (
        (
            HouseholdSwapping(rate=HALF, within="block"),
            "found 'block' and 'block'",
        ),
        (HouseholdSwapping(rate=HALF, within="street"), "within: found level 'street'"),
        (HouseholdSwapping(rate=HALF, between="street"), "between: found level 'street'"),
        (HouseholdSwapping(rate=HALF, nearest=("street",)), "nearest: found level 'street'"),
        (pseudo("street", "county"), "pseudo.level: found level 'street'"),
        (pseudo("tract", "street"), "pseudo.permute: found level 'street'"),
        (pseudo("tract", "block"), "pseudo.permute: found level 'block', expected levels above"),
        (replace(NOISY, pseudo=PseudoUnits(level="county", permute=())), "'tract', below the ps"),
        (HouseholdSwapping(rate=HALF, key=("rooms",)), "'rooms', which dwellings do not have"),
        (
            HouseholdSwapping(rate=HALF, risk=Risk(attributes=("sex",), levels=("block",))),
            "found attribute 'sex'",
        ),
        (
            HouseholdSwapping(rate=HALF, risk=Risk(attributes=("race",), levels=("lane",))),
            "risk.levels: found level 'lane'",
        ),
    ):
        with pytest.raises(InputError, match=message):
            wrong.check(counts)


def test_a_population_without_households_is_refused():
    counts = replace(some_people(dwellings(50, seed=1)), households=None)
    with pytest.raises(InputError, match="swapping: found a population without households"):
        protect(counts, NOISY, noise())
    town = dwellings(8, seed=1)
    empty = replace(town, kind=np.where(town.kind == 0, 2, town.kind).astype(np.int8))
    with pytest.raises(InputError, match="swapping: found no occupied household"):
        NOISY.check(some_people(empty))


def test_a_key_that_leaves_nobody_to_swap_with_is_refused():
    town = dwellings(12, seed=2)
    number = np.arange(12)
    alone = replace(
        town,
        dwelling_attributes=(type(town.dwelling_attributes[0])("door", tuple(map(str, number))),),
        dwellings={"door": number},
    )
    swapper = HouseholdSwapping(rate=HALF, key=("door",))
    message = r"key \['door'\]: found no two households that could change places"
    with pytest.raises(InputError, match=message):
        swapper.check(some_people(alone, ("race",)))
    with pytest.raises(InputError, match=message):
        swapper.swap(alone, np.random.default_rng(1))
    # one block: the same key, but nowhere to go
    crowd = replace(town, block=np.zeros(12, dtype=np.int32))
    with pytest.raises(InputError, match="found no two households that could change places"):
        HouseholdSwapping(rate=HALF, key=()).check(some_people(crowd))


@given(seed=st.integers(0, 10**6), noise_in_size=st.booleans())
def test_what_check_lets_pass_is_swapped(seed, noise_in_size):
    """A partner exists by brute force, those at risk going as far as they must, or check refuses.

    Noise in the size may leave no two households alike: then the sizes themselves are the key.
    """
    rng = np.random.default_rng(seed)
    town, swapper = some_town(rng, households=6), replace(some_mechanism(rng), rate=HALF)
    _, edges = at_risk_and_pairs(town, swapper)
    if noise_in_size and swapper.key:
        swapper = replace(swapper, size_noise=SizeNoise(minus=HALF, plus=HALF))
    if edges:
        swapper.check(some_people(town, ("race",)))
        assert swapper.swap(town, rng).report.swapped
        return
    with pytest.raises(InputError, match="found no two households that could change places"):
        swapper.check(some_people(town, ("race",)))


def test_those_at_risk_who_must_leave_the_county_are_looked_at_before():
    """Two alone in the state in their race, in two tracts of one county: neither may stay there."""
    geography = spine(2, 2, 1)
    town = Households(
        "town",
        geography,
        (RACE,),
        (),
        ("household",),
        np.array([0, 1], dtype=np.int32),
        np.zeros(2, dtype=np.int8),
        np.arange(3),
        {"race": np.array([0, 1])},
        {},
    )
    near = HouseholdSwapping(rate=Fraction(1), key=())
    near.check(some_people(town, ("race",)))
    assert near.swap(town, np.random.default_rng(1)).report.swapped == 2
    far = replace(near, risk=Risk(attributes=("race",), levels=("county",), k=2))
    with pytest.raises(InputError, match=r"found no two households that could change places"):
        far.check(some_people(town, ("race",)))


def test_households_without_a_partner_are_counted_and_stay():
    town = dwellings(300, seed=3, geography=spine(1, 1, 2))
    lonely = town.block.copy()
    lonely[town.is_household] = np.where(np.arange(town.is_household.sum()) < 20, 0, 1)
    town = replace(town, block=lonely)
    report = HouseholdSwapping(rate=Fraction(1), key=()).swap(town, np.random.default_rng(1)).report
    assert report.swapped == 40
    assert report.unpaired == report.households - 40
    assert report.short == report.asked - 40


def test_a_shortfall_is_told_without_its_number(caplog):
    town = dwellings(120, seed=3, geography=spine(1, 1, 2), largest=1)
    town = replace(town, block=(np.arange(120) % 10 == 0).astype(np.int32))
    with caplog.at_level("WARNING"):
        protect(some_people(town), HouseholdSwapping(rate=Fraction(1), key=("size",)), noise())
    (told,) = caplog.messages
    assert "fewer were swapped than the rate asks for" in told
    assert not any(sign.isdigit() for sign in told)


def test_a_rate_below_one_pair_is_told_without_a_number(caplog):
    counts = some_people(dwellings(50, seed=1))
    with caplog.at_level("WARNING"):
        protect(counts, HouseholdSwapping(rate=Fraction(0)), noise())
        assert caplog.messages == []  # as it was asked for
        protect(counts, HouseholdSwapping(rate=Fraction(1, 2)), noise())
        assert caplog.messages == []
        made = protect(counts, HouseholdSwapping(rate=Fraction(1, 50)), noise())
    assert np.array_equal(made.at("block"), tabulate(counts).dense())
    assert caplog.messages == [
        "swapping: nobody was swapped: after rounding, the rate asks for no pair"
    ]


def test_rows_that_are_not_the_persons_are_refused():
    town = dwellings(50, seed=1)
    schema, cell = town.cells(("race",))
    unit = town.block[town.dwelling]
    with pytest.raises(InputError, match="households: found rows that do not match the persons"):
        Population("t", Domain(schema, town.geography), unit[1:], cell[1:], households=town)
    with pytest.raises(InputError, match="found rows that do not match the persons"):
        Population(
            "t",
            Domain(schema, town.geography),
            unit,
            cell,
            np.ones(len(cell), int),
            households=town,
        )


def test_the_digest_tells_who_has_which_cell():
    people = some_people(dwellings(50, seed=1), ("race",))
    other = people.cell.copy()
    first, second = np.flatnonzero(other == 0)[0], np.flatnonzero(other)[0]
    other[[first, second]] = other[[second, first]]
    counts = tabulate(people)  # held: only who has which cell differs
    assert content_digest(replace(people, cell=other), counts) != content_digest(people, counts)


def test_the_digest_of_people_in_dwellings_is_what_it_always_was():
    """Recorded before counts and households were taken apart: noise and ledgers hang on it."""
    digest = Tabulated.of(some_people(dwellings(50, seed=1), ("race",))).digest
    assert digest.hex()[:32] == "802c941f26324022bb13ed0cb40b15b3"


EXAMPLE = some_people(dwellings(60, seed=9), ("race",))


@pytest.mark.parametrize("check", list(mechanism_checks(NOISY, [EXAMPLE])), ids=str)
def test_contract(check):
    check()


def test_after_a_swap_people_still_live_in_their_dwellings():
    people = some_people(dwellings(400, seed=9))
    moved = NOISY.apply(people, noise(), run=0, context=Context())
    assert moved.households is not None
    assert np.array_equal(moved.unit, moved.households.block[moved.households.dwelling])
    assert not np.array_equal(moved.unit, people.unit)
    assert np.array_equal(moved.cell, people.cell)
