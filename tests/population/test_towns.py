"""The generated state: like the 2010 census where it should be, sound everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from headcount.errors import InputError
from headcount.population.population import HOUSEHOLD, VACANT, Households, adults
from headcount.population.town_people import FEMALE, KINDS, MALE, OWN, RACE, RACE_SETS, RENT
from headcount.population.towns import towns


@pytest.fixture(scope="module")
def state() -> Households:
    return towns(seed=3, people=300_000)


def people_by_block(state: Households) -> np.ndarray:
    leaves = state.geography.size("block")
    return np.bincount(state.block, weights=state.size, minlength=leaves).astype(np.int64)


def test_one_seed_one_state() -> None:
    one, again, other = (towns(seed=seed, people=3_000) for seed in (1, 1, 2))
    assert np.array_equal(one.block, again.block)
    assert all(np.array_equal(one.persons[name], again.persons[name]) for name in one.persons)
    assert all(np.array_equal(one.dwellings[name], again.dwellings[name]) for name in one.dwellings)
    assert not np.array_equal(one.block, other.block)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sane_figures(seed: int) -> None:
    """United States, 2010; the ranges hold for every seed tried, and are not tuned to one."""
    state = towns(seed=seed, people=200_000)
    home, people = state.is_household, int(state.first[-1])
    size, age = state.size[home], state.persons["age"]
    first = state.first[:-1][home]
    units = (state.kind == HOUSEHOLD) | (state.kind == VACANT)
    assert abs(people - 200_000) < 3_000
    assert np.mean(size == 1) == pytest.approx(0.267, abs=0.01)
    assert np.mean(size == 2) == pytest.approx(0.328, abs=0.01)
    assert size.mean() == pytest.approx(2.58, abs=0.03)
    assert np.mean(state.kind[units] == VACANT) == pytest.approx(0.114, abs=0.001)
    assert state.size[state.kind > VACANT].sum() / people == pytest.approx(0.026, abs=0.001)
    assert np.mean(age < 18) == pytest.approx(0.24, abs=0.02)
    assert np.mean(age >= 65) == pytest.approx(0.13, abs=0.015)
    assert np.mean(state.persons["sex"] == FEMALE) == pytest.approx(0.508, abs=0.01)
    assert np.mean(age[first[size == 1]] >= 65) == pytest.approx(0.36, abs=0.03)
    assert np.mean(state.persons["race"] >= 6) == pytest.approx(0.026, abs=0.01)  # two or more
    assert np.mean(state.dwellings["tenure"][home] == OWN) == pytest.approx(0.65, abs=0.1)
    blocks = people_by_block(state)
    assert np.mean(blocks == 0) == pytest.approx(0.43, abs=0.03)
    assert 20 <= np.median(blocks[blocks > 0]) <= 30
    assert blocks.max() > 400


@pytest.mark.parametrize("seed", [1, 2])
def test_most_people_are_unique_in_their_block(seed: int) -> None:
    state = towns(seed=seed, people=200_000)
    schema, cell = state.cells(["age", "sex", "race", "hispanic"])
    where = state.block[state.dwelling].astype(np.int64) * schema.size + cell
    _, times = np.unique(where, return_counts=True)
    assert np.sum(times == 1) / len(cell) == pytest.approx(0.62, abs=0.06)  # census: 0.57


def test_codes_nest(state: Households) -> None:
    geography = state.geography
    assert geography.levels == ("state", "county", "tract", "block_group", "block")
    for level, length in (("county", 5), ("tract", 11), ("block_group", 12)):
        above = geography.units[geography.depth(level)][geography.ancestors(level)]
        assert (geography.units[-1].astype(f"U{length}") == above).all()
    assert set(map(len, geography.units[-1].tolist())) == {15}


def test_families_make_sense(state: Households) -> None:
    age, home = state.persons["age"].astype(int), np.flatnonzero(state.is_household)
    head = state.first[home]
    assert age[head].min() >= 18
    assert adults(state)[home].min() >= 1
    pair = home[(state.size[home] >= 2)]
    one, two = state.first[pair], state.first[pair] + 1
    couple = (state.persons["sex"][one] != state.persons["sex"][two]) & (age[two] >= 18)
    assert np.corrcoef(age[one][couple], age[two][couple])[0, 1] > 0.6
    same = state.persons["race"][one] == state.persons["race"][two]
    assert 0.85 < same.mean() < 0.98  # mostly, not always
    old = age[head] >= 65
    own = state.dwellings["tenure"][home] == OWN
    assert own[old].mean() > own[age[head] < 35].mean() + 0.2
    alone = (state.size[home] == 1) & old
    assert (state.persons["sex"][head[alone]] == FEMALE).mean() > 0.65


def test_adults_by_brute_force() -> None:
    state = towns(seed=5, people=1_000, counties=1)
    ages = np.split(state.persons["age"], state.first[1:-1])
    assert adults(state).tolist() == [sum(age >= 18) for age in ages]


def test_household_size_is_capped_and_none_elsewhere(state: Households) -> None:
    level = np.array(state.attribute("household_size").levels)[state.dwellings["household_size"]]
    home, size = state.is_household, state.size
    assert set(level[home & (size >= 4)]) == {"4+"}
    assert (level[home & (size < 4)] == size[home & (size < 4)].astype(str)).all()
    assert set(level[~home]) == {"none"}
    tenure = np.array(state.attribute("tenure").levels)[state.dwellings["tenure"]]
    assert set(tenure[~home]) == {"none"}
    assert set(state.dwellings["tenure"][home].tolist()) == {OWN, RENT}


def dissimilarity(state: Households, level: str, block: np.ndarray) -> float:
    """How unevenly two groups live: sum |a_i / A - b_i / B| / 2 over units."""
    unit = state.geography.ancestors(level)[block[state.dwelling]]
    white = state.persons["race"] == 0
    one, two = np.bincount(unit[white]), np.bincount(unit[~white])
    length = max(len(one), len(two))
    one, two = np.resize(one, length), np.append(two, np.zeros(length - len(two)))
    return float(np.abs(one / one.sum() - two / two.sum()).sum() / 2)


def test_communities_live_apart_at_every_level(state: Households) -> None:
    mixed = np.random.default_rng(0).permutation(state.block)  # the same people, anywhere
    county, tract, block = (
        dissimilarity(state, k, state.block) for k in ("county", "tract", "block")
    )
    assert 0.05 < county < tract < block
    assert block > 0.4
    assert dissimilarity(state, "tract", mixed) < 0.1 < tract


def test_group_quarters_hold_whom_they_should(state: Households) -> None:
    kind, age = state.kind[state.dwelling], state.persons["age"]
    expected = {
        "correctional": (18, 79),
        "juvenile": (10, 20),
        "nursing": (31, 90),
        "college": (18, 26),
        "military": (18, 49),
    }
    for name, (youngest, oldest) in expected.items():
        inside = age[kind == KINDS.index(name)]
        assert youngest <= inside.min() <= inside.max() <= oldest
    assert np.median(age[kind == KINDS.index("nursing")]) > 75
    prison = state.persons["sex"][kind == KINDS.index("correctional")]
    assert np.mean(prison == MALE) > 0.85
    assert set(state.kind.tolist()) == set(range(len(KINDS)))
    hosts = np.unique(state.block[state.kind > VACANT])
    assert len(hosts) < 0.1 * state.geography.size("block")


def test_small_states_have_every_kind_too() -> None:
    assert set(towns(people=1_000, counties=2).kind.tolist()) == set(range(len(KINDS)))


def test_places_cut_across_tracts(state: Households) -> None:
    (places,) = state.areas
    assert places.name == "place"
    tract = state.geography.ancestors("tract")
    inside = places.of_leaf >= 0
    parts = np.unique(np.column_stack([tract, places.of_leaf]), axis=0)
    assert np.mean(np.bincount(parts[:, 0]) > 1) > 0.5  # most tracts are cut
    spans = np.unique(np.column_stack([places.of_leaf[inside], tract[inside]]), axis=0)
    assert np.bincount(spans[:, 0]).max() > 3  # and a city has several
    people = places.add_up(people_by_block(state))
    assert people.min() < 500
    assert people.max() > 20_000
    assert 0.6 < people.sum() / state.first[-1] < 0.8


def test_counties_of_every_size_category() -> None:
    state = towns(seed=1, people=1_000_000)
    blocks = people_by_block(state)
    counties = np.bincount(state.geography.ancestors("county"), weights=blocks)
    category = np.searchsorted([1_000, 5_000, 10_000, 50_000], counties, side="right")
    assert len(counties) == 20
    assert set(category.tolist()) == {0, 1, 2, 3, 4}


def test_race_codes_are_singles_then_pairs_in_order() -> None:
    by_code = dict(zip(RACE.levels, RACE_SETS, strict=True))
    assert by_code["1"] == (0,)
    assert by_code["6"] == (5,)
    assert by_code["7"] == (0, 1)
    assert by_code["21"] == (4, 5)
    assert by_code["22"] == (0, 1, 2)
    assert by_code["42"] == (0, 1, 2, 3)
    assert by_code["57"] == (0, 1, 2, 3, 4)
    assert by_code["63"] == (0, 1, 2, 3, 4, 5)


def test_children_of_two_races_can_be_of_both() -> None:
    state = towns(seed=1, people=200_000)
    minor = state.persons["age"] < 18
    several = state.persons["race"] >= 6
    assert several[minor].mean() > 1.2 * several[~minor].mean()


@pytest.mark.parametrize(
    ("people", "counties", "message"),
    [
        (999, None, "towns: people: found 999, expected from 1,000 to 50,000,000"),
        (10**18, None, "found 1,000,000,000,000,000,000, expected from 1,000"),
        (2_000, 21, "towns: counties: found 21, expected 1 to 20 for the people"),
        (2_000, 0, "towns: counties: found 0, expected 1 to 20"),
    ],
)
def test_refused(people: int, counties: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        towns(people=people, counties=counties)


def test_a_wider_spread_makes_more_tiny_blocks() -> None:
    def tiny(spread: float) -> float:
        made = towns(seed=4, people=40_000, counties=2, block_spread=spread)
        people = np.bincount(made.block[made.dwelling])
        return float((people[people > 0] < 15).mean())

    assert tiny(0.8) + 0.05 < tiny(1.2) < tiny(1.6) - 0.05
    assert tiny(1.45) == pytest.approx(0.387, abs=0.03)  # the census of 2010
