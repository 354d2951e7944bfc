"""The synthetic nation: parts of it in detail, and all of it against what is published."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

from headcount.errors import InputError
from headcount.evaluation.bias_by_homogeneity import homogeneity_index
from headcount.mechanisms import Chain, Geometric
from headcount.population import Population
from headcount.population.population import Quarters
from headcount.schema import load_schema
from headcount_papers.us1940 import fit, us1940
from headcount_papers.us1940.figures import RACES, counties, published, states

SMALL = ("NV", "VT", "DE")


@pytest.fixture(scope="module")
def small() -> tuple[Population, Quarters]:
    return us1940(seed=1, states=SMALL)


@pytest.fixture(scope="module")
def nation() -> tuple[Population, Quarters]:
    return us1940(seed=1)


def counts_of(population: Population) -> np.ndarray:
    assert population.count is not None
    return population.count


def tally(population: Population, column: np.ndarray, width: int) -> np.ndarray:
    """Districts x a column, the slow and plain way."""
    table = np.zeros((population.geography.size("enumeration_district"), width), dtype=np.int64)
    np.add.at(table, (population.unit, column), counts_of(population))
    return table


def test_published_figures_agree_with_each_other() -> None:
    facts = published()
    assert sum(facts["race"].values()) == facts["totals"]["persons"]
    assert sum(facts["hispanic"].values()) == facts["totals"]["persons"]
    assert len(states()) == facts["totals"]["states"]
    assert len(counties()) == facts["totals"]["counties"]
    assert sum(facts["georgia_counties"]["by_thousand"]) == 153


def test_counties_add_to_their_states() -> None:
    for state in states():
        inside = sum(people for fips, people in counties().items() if fips[:2] == state.fips)
        assert inside == state.persons, state.name


def test_one_seed_one_population(small: tuple[Population, Quarters]) -> None:
    again, quarters = us1940(seed=1, states=SMALL)
    other, _ = us1940(seed=2, states=SMALL)
    assert np.array_equal(again.unit, small[0].unit)
    assert np.array_equal(again.cell, small[0].cell)
    assert np.array_equal(counts_of(again), counts_of(small[0]))
    assert np.array_equal(quarters.occupied, small[1].occupied)
    assert not np.array_equal(counts_of(other), counts_of(again))


def test_a_state_is_the_same_with_or_without_others(small: tuple[Population, Quarters]) -> None:
    alone, quarters = us1940(seed=1, states=("VT",))
    population, together = small
    here = population.geography.ancestors("state") == list(population.geography.units[1]).index(
        "50"
    )
    entries = here[population.unit]
    assert np.array_equal(alone.cell, population.cell[entries])
    assert np.array_equal(counts_of(alone), counts_of(population)[entries])
    assert np.array_equal(quarters.occupied, together.occupied[here])


def test_the_guarantee_says_what_one_person_is(small: tuple[Population, Quarters]) -> None:
    made = Chain.of(Geometric(epsilon=Fraction(1))).on(small[0].domain).promise("os")
    said = "The unit of privacy: one person is one of the people who were generated."
    assert said in made.sentences()


def test_codes_nest(small: tuple[Population, Quarters]) -> None:
    geography = small[0].geography
    assert geography.levels == ("nation", "state", "county", "enumeration_district")
    assert [len(str(codes[0])) for codes in geography.units[1:]] == [2, 6, 10]
    for depth, (above, below) in enumerate(pairwise(geography.units[1:]), start=2):
        parents = above[geography.parents[depth]]
        assert all(
            str(code).startswith(parent) for code, parent in zip(below, parents, strict=True)
        )
    assert [str(code) for code in geography.units[2][:3]] == ["100010", "100030", "100050"]


def test_bounds_of_living_quarters_are_real(small: tuple[Population, Quarters]) -> None:
    population, quarters = small
    held = tally(population, population.cell // 24, 8)
    assert (quarters.occupied <= held).all()
    assert (held <= quarters.occupied * np.array([99] + 7 * [99_999])).all()
    assert (quarters.occupied[:, 0] >= 1).all()
    assert not quarters.vacant.any()
    assert population.public


def test_no_minors_in_homes_for_the_elderly_if_so_wished(
    small: tuple[Population, Quarters],
) -> None:
    population, quarters = us1940(seed=1, states=SMALL, nurse_nva_0=True)
    assert population.schema == load_schema("e2e-2018-nurse")
    assert population.name.endswith("states=['NV', 'VT', 'DE'], nurse_nva_0=True)")
    homes = tally(population, population.cell, 192).reshape(-1, 8, 2, 12)[:, 3]
    usual = tally(small[0], small[0].cell, 192).reshape(-1, 8, 2, 12)[:, 3]
    assert usual[:, 0].sum() > 0
    assert homes[:, 0].sum() == 0
    assert homes.sum() == usual.sum()  # as many people live there, adults all
    strata, before = (tally(which, which.cell % 24, 24) for which in (population, small[0]))
    assert np.array_equal(strata, before)
    held = tally(population, population.cell // 24, 8)
    assert ((quarters.occupied > 0) == (held > 0)).all()
    assert (quarters.occupied <= held).all()
    assert (held <= quarters.occupied * np.array([99] + 7 * [99_999])).all()
    assert quarters.occupied.sum(axis=0).tolist() == small[1].occupied.sum(axis=0).tolist()
    assert fit(population, quarters)["within"].to_list() == fit(*small)["within"].to_list()


def test_printed_units_of_small_states(small: tuple[Population, Quarters]) -> None:
    table = fit(*small)
    rows = table.filter(pl.col("quantity").str.ends_with(": units"))
    assert rows["quantity"].to_list() == ["DE: units", "NV: units", "VT: units"]
    assert rows["difference"].to_list() == [0.0, 0.0, 0.0]


def test_scale_keeps_fewer_places_of_the_same_sizes() -> None:
    population, _ = us1940(seed=3, scale=0.05)
    geography = population.geography
    assert geography.size("state") == 51
    assert geography.size("county") == sum(
        max(1, round(0.05 * sum(fips[:2] == state.fips for fips in counties())))
        for state in states()
    )
    persons = tally(population, np.zeros_like(population.cell), 1)[:, 0]
    assert np.median(persons) == pytest.approx(865, rel=0.1)
    county = np.bincount(geography.ancestors("county"), weights=persons)
    assert np.median(county) == pytest.approx(18_679, rel=0.25)
    shares = np.bincount(population.cell % 6, weights=population.count) / persons.sum()
    assert shares[0] == pytest.approx(0.897, abs=0.05)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"scale": 0.0}, "us1940: scale: found 0.0, expected above 0, at most 1"),
        ({"scale": 2.0}, "us1940: scale: found 2.0, expected above 0, at most 1"),
        ({"states": ("XX",)}, "us1940: states: found 'XX', expected some of AL AK AZ"),
        ({"states": ()}, "us1940: states: found none, expected at least one state"),
    ],
)
def test_impossible_wishes_are_refused(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        us1940(seed=1, **wish)
    assert str(caught.value).startswith(message)


def test_fit_of_a_part_judges_complete_states_only() -> None:
    table = fit(*us1940(seed=1, states=("WA", "GA")))
    national = table.filter(~pl.col("quantity").str.contains("^(WA|GA):"))
    assert national["within"].null_count() == national.height
    assert "persons" not in national["quantity"]
    detail = table.filter(pl.col("quantity").str.contains("^(WA|GA):"))
    assert detail.height == 25
    assert detail["within"].all()
    halved = fit(*us1940(seed=1, scale=0.5, states=("WA",)))
    assert halved.filter(pl.col("quantity").str.starts_with("WA:")).is_empty()


def test_fit_needs_the_schema(small: tuple[Population, Quarters]) -> None:
    from headcount.population import uniform

    with pytest.raises(InputError, match="expected the schema 'e2e-2018' or 'e2e-2018-nurse' at a"):
        fit(uniform(people=1000, mean=10))


# The whole nation: about ten seconds.


def test_nation_fits_every_published_figure(nation: tuple[Population, Quarters]) -> None:
    table = fit(*nation)
    missed = table.filter(~pl.col("within"))
    assert missed.is_empty(), missed.rows()
    assert table["within"].null_count() == 0
    assert table.height == 113
    exact = table.filter(pl.col("tolerance") == 0)
    assert (exact["difference"] == 0).all()
    assert exact.height >= 18


def test_nation_with_presence_fits_as_well_and_has_fewer_tiny_counts(
    nation: tuple[Population, Quarters],
) -> None:
    gathered = us1940(seed=1, presence=True)
    assert gathered[0].name == "us1940(seed=1, scale=1, states=None, presence=True)"
    table = fit(*gathered)
    assert table.filter(~pl.col("within")).is_empty()
    assert max(np.abs(zero_sums(counties_by_index(gathered[0])))) < 0.04
    tiny = [
        int(((cells > 0) & (cells <= 3)).sum())
        for cells in (county_cells(nation[0]), county_cells(gathered[0]))
    ]
    assert tiny[0] > 5_400
    assert tiny[1] < 4_800


def test_nation_keeps_every_race_by_state(nation: tuple[Population, Quarters]) -> None:
    population, _ = nation
    of_state = population.geography.ancestors("state")[population.unit]
    black = np.bincount(of_state, weights=population.count * (population.cell % 6 == 1))
    printed = np.array([state.races[0] for state in states()])
    assert np.corrcoef(black, printed)[0, 1] > 0.9999
    assert set(RACES) == set(published()["race"])


INDICES = (0, 4, 8, 12, 16, 18, 20, 22)
BIASES = {  # printed mean error of counties of these indices, by epsilon
    0.5: (-59.2, -22.6, -7.7, 2.7, 12.1, 17.4, 25.3, 21.7),
    1.0: (-33.9, -14.8, -2.9, 1.2, 7.0, 12.1, 14.0, 14.5),
    2.0: (-18.8, -7.1, -2.8, 0.6, 4.0, 9.5, 8.0, 11.1),
}


def zero_sums(numbers: Sequence[int]) -> list[float]:
    """Mean printed bias over so many counties of each index, over that of index 20."""
    return [float(np.average(bias, weights=numbers)) / bias[6] for bias in BIASES.values()]


def county_cells(population: Population) -> np.ndarray:
    """Counties x stratified cells."""
    county = population.geography.ancestors("county")[population.unit]
    table = np.zeros((3_108, 24), dtype=np.int64)
    np.add.at(table, (county, population.cell % 24), counts_of(population))
    return table


def counties_by_index(population: Population) -> list[int]:
    index = homogeneity_index(county_cells(population), shape=(2, 2, 6), definition="code")
    return [int((index == value).sum()) for value in INDICES]


def test_counties_by_index_leave_the_states_exact(nation: tuple[Population, Quarters]) -> None:
    """Published state totals have no error: biases and numbers of counties must cancel."""
    numbers = counties_by_index(nation[0])
    assert sum(numbers) >= 3_100  # 14, of which no bias is printed, is rare
    assert max(np.abs(zero_sums(numbers))) < 0.04
    # Negative control, within every single bound: diversity tied to the size of counties.
    tied = (164, 206, 424, 859, 1122, 65, 239, 28)
    bounds = published()["homogeneity"]["county"].values()
    assert all(low <= number <= high for number, (low, high) in zip(tied, bounds, strict=True))
    assert min(zero_sums(tied)) > 0.07


def spoil(population: Population, how: str) -> Population:
    unit, cell, count = population.unit, population.cell.copy(), population.count
    assert count is not None
    if how == "a person more":
        count = count.copy()
        count[0] += 1
    elif how == "everybody spread evenly over races":
        cell = (cell // 6 * 6 + np.arange(len(cell)) % 6).astype(np.int32)
    elif how == "districts shuffled between counties":
        unit = np.random.default_rng(0).permutation(unit.max() + 1)[unit].astype(np.int32)
    elif how == "no cell of one person":
        keep = count > 1
        unit, cell, count = unit[keep], cell[keep], count[keep]
    return Population(
        name=how, domain=population.domain, unit=unit, cell=cell, count=count, public=True
    )


CONTROLS = [
    ("a person more", "persons"),
    ("everybody spread evenly over races", "SC median"),
    ("districts shuffled between counties", "TC p95"),
    ("no cell of one person", "SC non-empty cells"),
]


@pytest.mark.parametrize(("how", "seen_in"), CONTROLS)
def test_a_spoilt_nation_does_not_fit(
    nation: tuple[Population, Quarters], how: str, seen_in: str
) -> None:
    table = fit(spoil(nation[0], how))
    assert seen_in in table.filter(~pl.col("within"))["quantity"].to_list()
