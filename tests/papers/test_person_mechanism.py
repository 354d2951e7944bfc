"""Person swapping as a mechanism on counts."""

import json
import logging
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.geography import regular
from headcount.mechanisms import Context, Tabulated, protect
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import tabulate
from headcount.testing.contracts import mechanism_checks
from headcount_papers.christ_2022.rates import swap_at_all_rates
from headcount_papers.person_swapping.mechanism import (
    PersonSwapping,
    codes_of,
    in_years,
    rows_of,
)

AGE = Attribute("age", tuple(str(a) for a in range(10)))
SEX = Attribute("sex", ("f", "m"))
RACE = Attribute("race", ("a", "b", "c"))
HISPANIC = Attribute("hispanic", ("no", "yes"))
TENURE = Attribute("tenure", ("own", "rent"))
SCHEMA = Schema((AGE, SEX, RACE, HISPANIC, TENURE))
TREE = regular(children=3, depth=2)


def town(rows=400, seed=1, schema=SCHEMA):
    rng = np.random.default_rng(seed)
    return Population(
        "town",
        Domain(schema, TREE),
        unit=rng.integers(0, 9, rows).astype(np.int32),
        cell=rng.integers(0, schema.size, rows).astype(np.int32),
    )


def seeded(seed=1):
    return KeyedNoise(RunKey.from_seed(seed), "person-swapping", b"", b"")


def swapping(**settings):
    settings.setdefault("level", "level_1")
    settings.setdefault("rate", 1)
    return PersonSwapping(**settings)


MIXED = PersonSwapping(level="level_1", kind="random", rate=Fraction(1, 2))


@pytest.mark.parametrize("check", list(mechanism_checks(MIXED, [town(rows=40)])), ids=str)
def test_contract(check):
    check()


@pytest.mark.parametrize(
    "mechanism",
    [
        swapping(rate=Fraction(1, 2)),
        swapping(level="level_2", rate=1, kind="similar", k=3, order=(5, 4, 3, 2, 1, 0)),
        swapping(rate="1/4", kind="pseudo-random", area="1"),
        swapping(rate="1/4", k=1, area="2", unique_by=["race", "age"]),
    ],
    ids=str,
)
def test_counts_after_a_swap(mechanism, tmp_path):
    data = Tabulated.of(town())
    counts, before = data.counts, data.counts.dense()
    path = tmp_path / "provenance.parquet"
    made, later = (
        protect(data, mechanism, seeded(), run=run, context=Context(curator=folder))
        for run, folder in ((0, tmp_path), (1, None))
    )
    first, second = made.at("level_2"), later.at("level_2")
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, before)
    assert np.array_equal(counts.dense(), before)
    again = protect(data, mechanism, seeded(), run=1)
    assert np.array_equal(again.at("level_2"), second)
    assert made.notes == {}
    # Nobody is counted in another unit, and tenure has stayed where it was.
    assert np.array_equal(first.sum(axis=1), before.sum(axis=1))
    assert np.array_equal(first.reshape(9, -1, 2).sum(1), before.reshape(9, -1, 2).sum(1))
    assert np.array_equal(first.sum(0).reshape(-1, 2).sum(1), before.sum(0).reshape(-1, 2).sum(1))
    # The provenance gives the release again: it is the truth's key.
    unit, cell = rows_of(counts)
    codes = codes_of(SCHEMA, cell)
    pairs = pl.read_parquet(path).filter(pl.col("run") == 0)
    row, partner = pairs["row"].to_numpy(), pairs["partner"].to_numpy()
    area = TREE.ancestors(mechanism.level)[unit]
    assert (area[row] != area[partner]).all()
    origin = np.arange(len(unit))
    origin[row], origin[partner] = partner, row
    codes |= {name: codes[name][origin] for name in ("age", "sex", "race", "hispanic")}
    new = np.ravel_multi_index(tuple(codes[n] for n in SCHEMA.names), SCHEMA.shape)
    rebuilt = np.zeros_like(before)
    np.add.at(rebuilt, (unit, new), 1)
    assert np.array_equal(rebuilt, first)
    reports = json.loads((tmp_path / "swap-report.json").read_text())
    assert list(reports) == ["0"]
    assert reports["0"]["unswappable"] == reports["0"]["marked"] % 2 * (mechanism.area is None)
    if mechanism.area is not None:
        ours = TREE.units[1][area[row]] == mechanism.area
        assert ours.all()
        assert len(row) == round(
            mechanism.rate * int((TREE.units[1][area] == mechanism.area).sum())
        )


def test_nothing_is_swapped_at_rate_0():
    made = protect(town(), swapping(rate=0), seeded())
    assert np.array_equal(made.at("level_2"), tabulate(town()).dense())


def test_no_guarantee_and_says_why():
    release = protect(town(), swapping(rate="0.1"))
    assert not release.guarantee.exists
    said = " ".join(release.guarantee.sentences())
    assert "No differential-privacy guarantee: records are published as they are" in said


def test_ages_are_compared_in_years_whatever_the_order_of_levels():
    codes = {"age": np.array([0, 1, 2])}
    years = in_years(Schema((Attribute("age", ("3", "10", "90+")),)), codes)
    assert years["age"].tolist() == [3, 10, 90]
    assert in_years(Schema((Attribute("age", ("0-17", "18+")),)), codes) == {}
    assert in_years(Schema((SEX,)), {"sex": codes["age"]}) == {}
    # Levels by text: "10" stands next to "1". The nearest age of a child of 1 is still 2.
    age = Attribute("age", ("1", "10", "2"))
    sexes = Schema((age, SEX))
    cells = [sexes.cell(age=a, sex="f") for a in ("1", "10", "2")]
    unit, cell = np.array([0, 3, 3], np.int32), np.array(cells, np.int32)
    three = Population("three", Domain(sexes, TREE), unit, cell)
    one = swapping(kind="pseudo-random", area=str(TREE.units[1][0]), rate=1)
    made = protect(three, one, seeded()).at("level_2")
    assert made[0].tolist() == np.eye(6, dtype=int)[cells[2]].tolist()


def test_a_shortfall_is_told_without_its_number(caplog):
    rows = np.array([0] * 9 + [3], np.int32)  # nine in one area, one in another
    crowd = Population("crowd", Domain(SCHEMA, TREE), rows, np.arange(10, dtype=np.int32))
    with caplog.at_level(logging.WARNING):
        protect(crowd, swapping(kind="random"), seeded())
    (told,) = caplog.messages
    assert "fewer were swapped than the rate asks for" in told
    assert not any(sign.isdigit() for sign in told)


def test_a_rate_too_low_to_swap_anybody_is_told_without_a_number(caplog):
    data = Tabulated.of(town())
    with caplog.at_level(logging.WARNING):
        protect(data, swapping(rate=0), seeded())
        assert caplog.messages == []  # as it was asked for
        made = protect(data, swapping(kind="random", rate="1/10000"), seeded())
    assert np.array_equal(made.at("level_2"), data.counts.dense())
    assert caplog.messages == [
        "person-swapping: nobody was swapped: after rounding, the rate asks for no pair"
    ]


def test_rows_of_counts_are_its_people():
    counts = tabulate(town())
    unit, cell = rows_of(counts)
    back = np.zeros_like(counts.dense())
    np.add.at(back, (unit, cell), 1)
    assert np.array_equal(back, counts.dense())


def test_bad_settings_and_data_are_refused():
    with pytest.raises(ConfigError, match=r"rate: found 3/2, expected from 0 to 1"):
        swapping(rate="1.5")
    with pytest.raises(ConfigError, match="kind"):
        swapping(kind="close")
    counts = town()
    with pytest.raises(InputError, match="order: found no race-by-Hispanic code 1"):
        swapping(order=(0,)).check(counts)
    with pytest.raises(InputError, match="level: found level 'county'"):
        swapping(level="county", rate=1).check(counts)
    with pytest.raises(ConfigError, match="area: found '7', expected a unit of 'level_1'"):
        swapping(area="7").check(counts)
    with pytest.raises(InputError, match="nobody outside the area, expected two areas"):
        swapping(level="whole", rate=1).check(counts)
    few = town(schema=Schema((AGE, SEX, TENURE)))
    with pytest.raises(InputError, match="similar swapping: found no attribute 'race'"):
        swapping().check(few)
    swapping(kind="pseudo-random").check(few)
    with pytest.raises(InputError, match="found attribute 'race'"):
        swapping(kind="random", unique_by=("race",)).check(few)
    odd = Schema((AGE, TENURE), (impossible({"age": ["0"], "tenure": ["own"]}),))
    empty = Population("e", Domain(odd, TREE), np.zeros(0, np.int32), np.zeros(0, np.int32))
    with pytest.raises(ConfigError, match=r"keep: found \['tenure'\], in a structural zero with"):
        swapping(kind="random").check(empty)


@pytest.mark.parametrize(
    ("kind", "k"), [("random", 0), ("pseudo-random", 0), ("similar", 0), ("similar", 3)]
)
def test_all_rates_at_once_are_the_runs_at_each_rate(kind, k):
    data = Tabulated.of(town())
    whole = swapping(kind=kind, k=k, area="1", unique_by=("race", "age"))
    (swaps,) = swap_at_all_rates([(whole, seeded())], data, runs=range(2, 5))
    inside = data.counts.geography.ancestors("level_1") == 1
    for rate in (Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(1)):
        made = swaps.at(rate)
        assert (made.swapped.sum(axis=1) == round(rate * swaps.people)).all()
        cell = np.ravel_multi_index([made.records[name] for name in SCHEMA.names], SCHEMA.shape)
        for run, counts in zip(range(2, 5), made.counts(cell, SCHEMA.size), strict=True):
            release = protect(data, made.mechanism, seeded(), run=run)
            assert np.array_equal(counts, release.at("level_2")[inside].sum(axis=0))
    with pytest.raises(ConfigError, match="rate: found 2, expected 0 to 1, the rate of the swap"):
        swaps.at(Fraction(2))


def test_areas_that_share_a_pool_are_swapped_as_if_alone():
    """Partners of one area never come from another that is swapped beside it."""
    people = town()
    data = Tabulated.of(people)
    both = [(swapping(kind="random", area=name), seeded()) for name in ("0", "1")]
    beside = list(swap_at_all_rates(both, data, runs=range(3)))
    top = people.geography.ancestors("level_1")[people.unit]
    for number, name in enumerate(("0", "1")):
        kept = top != 1 - number
        alone = replace(people, unit=people.unit[kept], cell=people.cell[kept])
        case = (swapping(kind="random", area=name), seeded())
        (wanted,) = swap_at_all_rates([case], Tabulated.of(alone), runs=range(3))
        assert np.array_equal(beside[number].turn, wanted.turn)
        for attribute, column in wanted.partner.items():
            assert np.array_equal(beside[number].partner[attribute], column)


def test_an_unknown_attribute_in_alike_is_refused():
    with pytest.raises(InputError, match="found attribute 'rooms'"):
        swapping(alike=("rooms",)).check(town())


def test_people_are_marked_at_random_if_nothing_makes_them_unique():
    data = Tabulated.of(town())
    case = (swapping(kind="random", area="1", unique_by=()), seeded())
    (swaps,) = swap_at_all_rates([case], data, runs=range(60))
    assert swaps.turn.mean(axis=0).std() < 0.2 * swaps.people  # nobody always goes first
    case = (swapping(kind="random", area="1"), seeded())
    (uniques,) = swap_at_all_rates([case], data, runs=range(60))
    assert uniques.turn.mean(axis=0).std() > 0.2 * swaps.people


def test_an_area_that_is_not_there_is_refused_at_all_rates_too():
    data = Tabulated.of(town())
    cases = [(swapping(kind="random", area=name), seeded()) for name in ("1", "nowhere")]
    with pytest.raises(ConfigError, match="area: found 'nowhere', expected a unit of 'level_1'"):
        list(swap_at_all_rates(cases, data, runs=range(1)))
