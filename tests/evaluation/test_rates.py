"""Rates against plain counting in fractions, and what has none."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.domain import Domain
from headcount.errors import ConfigError
from headcount.evaluation import NotFeasible, Truth
from headcount.evaluation.rates import Rates, RatesCompared
from headcount.geography import regular
from headcount.mechanisms import Geometric, Identity, protect
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.schema import Attribute, Schema, load_schema

SCHEMA = Schema((Attribute("age", ("0-4", "15-49", "50+")), Attribute("sex=", ("f", "m"))))
TREE = regular(children=4, depth=1)


def town(unit, cell) -> Population:
    unit, cell = np.array(unit, dtype=np.int32), np.array(cell, dtype=np.int32)
    return Population("town", Domain(SCHEMA, TREE), unit, cell)


def some(people: int = 600, seed: int = 4) -> Population:
    rng = np.random.default_rng(seed)
    return town(rng.integers(0, 4, people), rng.integers(0, 6, people))


def released(population: Population, mechanism=None):
    mechanism = mechanism or Geometric(epsilon=Fraction(1, 4))
    return protect(
        population, mechanism, KeyedNoise(RunKey.from_seed(1), mechanism.name, b"d", b"c")
    )


PEOPLE = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=60)


@settings(max_examples=40, deadline=None)
@given(PEOPLE)
def test_rates_of_a_release_without_error_are_those_of_the_people(people):
    """Children per hundred women of an age: counted one by one."""
    population = town(*zip(*people, strict=True))
    metric = Rates(of=("age=0-4",), among=("age=15-49", "sex==f"))
    release, truth = released(population, Identity()), Truth.of(population)
    above = Counter(unit for unit, cell in people if cell // 2 == 0)
    below = Counter(unit for unit, cell in people if (cell // 2, cell % 2) == (1, 0))
    if not below:
        with pytest.raises(NotFeasible, match="no unit has 1 or more people to be counted below"):
            metric.compute(release, truth)
        return
    rates = [Fraction(100 * above[unit], below[unit]) for unit in below]
    row = metric.compute(release, truth).table.filter(level="level_1").row(0, named=True)
    assert (row["units"], row["undefined"]) == (len(below), 0)
    assert row["exact"] == pytest.approx(float(sum(rates) / len(rates)))
    assert row["released"] == row["exact"]
    assert row["mean_absolute"] == 0


def test_errors_are_in_percentage_points_over_units():
    people = some()
    truth, release = Truth.of(people), released(people)
    found = Rates(by=("age",)).compute(release, truth)
    assert isinstance(found, RatesCompared)
    exact, made = (
        np.maximum(leaf.reshape(4, 3, 2).sum(axis=2), 0)
        for leaf in (truth.counts.dense(), release.at("level_1"))
    )
    totals = np.maximum(release.at("level_1").sum(axis=1), 0)
    for number, group in enumerate(SCHEMA.attribute("age").levels):
        row = found.table.filter(level="level_1", group=group).row(0, named=True)
        true = 100 * exact[:, number] / exact.sum(axis=1)
        released_ = 100 * made[:, number] / totals
        assert row["exact"] == pytest.approx(true.mean())
        assert row["bias"] == pytest.approx((released_ - true).mean())
        assert row["mean_absolute"] == pytest.approx(np.abs(released_ - true).mean())
        assert row["mean_absolute"] > 0
    sizes = found.by_size.filter(level="level_1")
    assert sizes["units"].sum() == 12
    assert set(sizes["low"]) == {100}
    assert found.by_size["mean_absolute"].to_numpy().min() >= 0


def test_by_default_every_level_is_a_share_of_everybody():
    people = some()
    table = Rates().compute(released(people, Identity()), Truth.of(people)).table
    assert set(table["rate"]) == {"age", "sex="}
    for name in ("age", "sex="):
        rows = table.filter(level="level_1", rate=name)
        assert rows["exact"].sum() == pytest.approx(100)


def test_shares_among_some_are_of_levels_that_are_among_them():
    people = some()
    metric = Rates(by=("age", "sex="), among=("age=15-49", "age=50+"))
    table = metric.compute(released(people, Identity()), Truth.of(people)).table
    assert table.filter(level="whole", rate="age")["group"].to_list() == ["15-49", "50+"]
    for name in ("age", "sex="):
        assert table.filter(level="whole", rate=name)["exact"].sum() == pytest.approx(100)


def test_small_units_have_no_rate_and_are_counted():
    people = town([0] * 9 + [1] * 4 + [2], [0] * 14)
    truth, release = Truth.of(people), released(people, Identity())
    row = Rates(least=5).compute(release, truth).table.filter(level="level_1").row(0, named=True)
    assert (row["units"], row["too_small"]) == (1, 2)
    with pytest.raises(ConfigError, match="least: found 0, expected 1 or more"):
        Rates(least=0)


def test_rates_that_a_release_has_not_are_undefined():
    people = town([0] * 9 + [1] * 4, [0] * 13)
    truth, release = Truth.of(people), released(people, Identity()).as_counts()
    gone = {level: table.copy() for level, table in release.tables.items()}
    for table in gone.values():
        table[-4:] = 0 if table.shape[0] > 1 else table[-4:]
    gone["level_1"] = release.at("level_1").copy()
    gone["level_1"][1] = -3
    found = Rates(by=("age",)).compute(replace(release, tables=gone), truth)
    row = found.table.filter(level="level_1").row(0, named=True)
    assert (row["units"], row["undefined"], row["mean_absolute"]) == (2, 1, 0)
    nothing = {level: table * 0 for level, table in gone.items()}
    with pytest.raises(NotFeasible, match="the release counts nobody below, in any unit"):
        Rates().compute(replace(release, tables=nothing), truth)


def test_changed_tables_give_the_rates_that_they_publish():
    schema = load_schema("sex-age38-race7-hispanic")
    rng = np.random.default_rng(1)
    unit, cell = rng.integers(0, 4, 2_000), rng.integers(0, schema.size, 2_000)
    domain = Domain(schema, TREE)
    people = Population("town", domain, unit.astype(np.int32), cell.astype(np.int32))
    truth, rounded = Truth.of(people), released(people, Rounding(tables=("P12",), base=10))
    assert Rates().supports(rounded, truth)
    table = Rates(by=("sex",)).compute(rounded, truth).table
    assert table["mean_absolute"].to_numpy().max() > 0
    with pytest.raises(NotFeasible, match="no table publishes the counts of a rate"):
        Rates(by=("hispanic",)).compute(rounded, truth)


def test_what_cannot_be_asked_is_refused_and_said():
    people = some()
    truth, release = Truth.of(people), released(people, Identity())
    for metric, why in (
        (Rates(by=("race",)), "the schema has no attribute race"),
        (Rates(of=("age=7",)), "'age=7' is no ATTRIBUTE=LEVEL of the schema"),
        (Rates(among=("sex=f",)), "'sex=f' is no ATTRIBUTE=LEVEL of the schema"),
    ):
        assert metric.supports(release, truth).why_not == why
    assert Rates(of=("sex==f",)).supports(release, truth)
    words = Rates(among=("age=50+",)).compute(release, truth).explain()
    assert "over age=50+, in each unit" in words
    assert "**Rates of noisy counts are biased.**" in words
