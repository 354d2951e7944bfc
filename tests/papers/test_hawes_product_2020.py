"""The redistricting product of 2020 in hawes-rodriguez-2021: its people, its errors, its claim."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from headcount.comparison.cases import releases
from headcount.geography import Geography
from headcount.population.population import Households
from headcount.population.towns import towns
from headcount.schema import Attribute
from headcount.tabulate import Tabulated
from headcount_papers.hawes_rodriguez_2021.accuracy import EVERY, TOTAL
from headcount_papers.hawes_rodriguez_2021.product_2020 import (
    PRESETS,
    RACES_ALONE,
    VOTING_AGE,
    people_2020,
    product_case,
    product_errors,
)


@pytest.fixture(scope="module")
def state() -> Households:
    return towns(seed=5, people=1_500, counties=3)


@pytest.fixture(scope="module")
def data(state: Households) -> Tabulated:
    people = people_2020(state)
    assert people is not None
    return Tabulated.of(people)


def test_people_get_the_cells_of_the_product_one_by_one(state: Households, data: Tabulated):
    population = data.population
    slow: Counter[tuple[str, str, str, str, str]] = Counter()
    for person, home in enumerate(state.dwelling):
        slow[
            str(state.geography.units[-1][state.block[home]]),
            state.kinds[state.kind[home]],
            "18_and_over" if int(state.persons["age"][person]) >= 18 else "under_18",
            ("not_hispanic", "hispanic")[state.persons["hispanic"][person]],
            population.schema.attribute("cenrace").levels[state.persons["race"][person]],
        ] += 1
    entries = data.counts.matrix.tocoo()
    found: Counter[tuple[str, ...]] = Counter()
    for block, cell, number in zip(entries.row, entries.col, entries.data, strict=True):
        codes = np.unravel_index(cell, population.schema.shape)
        levels = [a.levels[k] for a, k in zip(population.schema.attributes, codes, strict=True)]
        found[str(population.geography.units[-1][block]), *levels] += int(number)
    assert found == slow


def test_the_spine_has_the_same_blocks_cut_by_places(state: Households, data: Tabulated):
    tree = data.counts.geography
    assert tree.levels == ("us", "state", "county", "tract", "block_group", "block")
    assert tree.spine is not None
    (places,) = state.areas
    group = tree.spine.ancestors("block_group")
    for number in range(tree.spine.size("block_group")):
        blocks = tree.along_spine[group == number]
        assert len(set(places.of_leaf[blocks].tolist())) == 1


def other_races(state: Households) -> Households:
    race = Attribute("race", tuple(f"r{code}" for code in range(63)))
    same = [race if one.name == "race" else one for one in state.person_attributes]
    return replace(state, person_attributes=tuple(same))


def other_levels(state: Households) -> Households:
    tree = state.geography
    levels = (*tree.levels[:-1], "parcel")
    return replace(state, geography=Geography(levels, tree.units, tree.parents))


def other_kinds(state: Households) -> Households:
    return replace(state, kinds=(*state.kinds[:-1], "ship"))


@pytest.mark.parametrize("change", [other_races, other_levels, other_kinds])
def test_other_people_are_not_put_into_the_product(state: Households, change):
    assert people_2020(change(state)) is None


@pytest.mark.parametrize("preset", PRESETS)
def test_errors_of_the_product_by_plain_loops(preset: str, state: Households, data: Tabulated):
    (one,) = releases(product_case(preset, runs=range(1)), data, seed=3)
    schema, tree = data.counts.schema, data.counts.geography
    made = one.release.as_counts()
    errors = product_errors(data.counts, made, areas=state.areas)
    every = errors.filter(size_category=EVERY)
    found = {(row["area"], row["statistic"]): row["mae"] for row in every.to_dicts()}
    small = errors.filter(pl.col("size_category") != EVERY, area="place", statistic=TOTAL)
    of_sizes = float((small["mae"] * small["units"]).sum()) / float(small["units"].sum())
    assert of_sizes == pytest.approx(found["place", TOTAL])
    county = np.asarray(made.at("county")) - data.counts.at("county").dense()
    cells = list(zip(*np.unravel_index(np.arange(schema.size), schema.shape), strict=True))
    adults = [k for k, (_, age, _, _) in enumerate(cells) if age == 1]
    races = [[k for k, cell in enumerate(cells) if cell[3] == race] for race in range(6)]
    assert found["county", TOTAL] == np.abs(county.sum(axis=1)).mean()
    assert found["county", VOTING_AGE] == np.abs(county[:, adults].sum(axis=1)).mean()
    alone = [np.abs(county[:, some].sum(axis=1)).mean() for some in races]
    assert found["county", RACES_ALONE] == pytest.approx(np.mean(alone))
    assert found["block", TOTAL] > 0
    assert made.at("state").sum() == data.counts.totals().sum()  # whose total is exact
    (places,) = state.areas
    leaf = np.asarray(made.table(tree.leaf).sum(axis=1)).reshape(-1) - data.counts.totals()
    off = np.zeros(places.size)
    for block, place in enumerate(places.of_leaf):
        if place >= 0:
            off[place] += leaf[block]
    assert found["place", TOTAL] == np.abs(off).mean()
