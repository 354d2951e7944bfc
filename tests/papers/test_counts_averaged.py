"""Counts averaged over the partitions of a release, scored against the truth and against theory."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import headcount as hc
from headcount.attacks import People
from headcount.attacks.changed_cells import INFORMED, UNINFORMED, changed_cells
from headcount.attacks.feasible_intervals import WorkOut
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.evaluation import Truth
from headcount.evaluation.evaluate import Choice, attack, evaluate
from headcount.mechanisms import Identity, Tabulated, protect
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.mechanisms.cell_key.tables import PerturbationFile
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.population import Population
from headcount.schema import Attribute, Schema
from headcount.testing import check_attack
from headcount_papers.averaging import Average, share_recovered
from tests.evaluation import test_counts_found as found
from tests.evaluation.test_few_and_many import people as few_people
from tests.evaluation.test_few_and_many import reported

ATTRIBUTES = 6
SCHEMA = Schema(tuple(Attribute(f"a{i}", ("yes", "no")) for i in range(ATTRIBUTES)))
TABLES = {f"by_{name}": [name] for name in SCHEMA.names}
NOBODY = People(name="nobody", unit=np.empty(0, dtype=np.int64), codes={})
UNITS = 300


def people() -> Population:
    rng = np.random.default_rng(1)
    geography = hc.Geography(
        ("all", "block"),
        (np.array(["all"]), np.array([f"b{i}" for i in range(UNITS)])),
        (np.empty(0, dtype=np.int32), np.zeros(UNITS, dtype=np.int32)),
    )
    number = 60 * UNITS
    return Population(
        "made up",
        Domain(SCHEMA, geography),
        unit=rng.integers(0, UNITS, number).astype(np.int32),
        cell=rng.integers(0, SCHEMA.size, number).astype(np.int32),
    )


POPULATION = people()
RELEASE = protect(
    Tabulated.of(POPULATION),
    CellKey(tables=TABLES, maximum=3, variance=Fraction(1)),
    seed=2,
).as_tables()


def test_the_share_recovered_in_a_release_is_that_of_theory():
    """Each block's total is published once, and as a sum of two parts by each attribute."""
    finding = attack(RELEASE, POPULATION, Average(variance=1.0))
    assert finding.table["attacker"].unique().to_list() == [UNINFORMED]
    row = finding.table.filter(partitions=ATTRIBUTES).row(0, named=True)
    assert row["counts"] == UNITS * ATTRIBUTES  # the total stands in each of the tables
    # Of variance 1 / (1 + 6 / 2): P(|e| < 1/2) of a deviation of a half is P(|z| < 1).
    assert row["theory_percent"] == pytest.approx(68.27, abs=0.01)
    assert row["right_percent"] == pytest.approx(68.27, abs=4 * 100 * 0.466 / UNITS**0.5)
    assert row["published_percent"] == pytest.approx(39.8, abs=4 * 100 * 0.49 / UNITS**0.5)
    assert row["right_percent"] > row["published_percent"] + 10


def test_means_are_those_of_counting_by_hand():
    claims = Average().run(RELEASE, NOBODY)
    tables = {(one.name, one.level): one.value for one in RELEASE.published}
    for unit in range(UNITS):
        direct = tables["by_a0", "block"][unit, 0]
        sums = [tables[f"by_{name}", "block"][unit, 1:].sum() for name in SCHEMA.names]
        mean = (direct + sum(sums) / 2) / (1 + ATTRIBUTES / 2)
        assert claims.count[UNINFORMED]["by_a0", "block"][unit, 0] == int(np.floor(mean + 0.5))
        assert claims.partitions["by_a3", "block"][unit].tolist() == [ATTRIBUTES, 0, 0]
        assert claims.count[UNINFORMED]["by_a3", "block"][unit, 1] == -1


def test_the_variance_is_seen_in_the_gaps():
    assert Average().run(RELEASE, NOBODY).variance == pytest.approx(1, rel=0.1)


def test_who_knows_the_largest_change_claims_nothing_farther_off():
    claims = Average(largest_change=1).run(RELEASE, NOBODY)
    for where, count in claims.count[INFORMED].items():
        there = count >= 0
        assert (np.abs(count - claims.published[where])[there] <= 1).all()
    finding = attack(RELEASE, POPULATION, Average(largest_change=3))
    assert finding.table["attacker"].unique(maintain_order=True).to_list() == [INFORMED, UNINFORMED]
    assert len(finding.numbers()) == 2
    assert {column.key for column in finding.columns()} == set(finding.table.columns)
    assert "means that round to the true count" in finding.explain()
    assert finding.figure().name == "averaging-figure"


def test_releases_without_changed_tables_are_not_supported():
    release = protect(Tabulated.of(POPULATION), Identity(), seed=1)
    with pytest.raises(InputError, match="the release publishes counts, not tables whose counts"):
        attack(release, POPULATION, Average())


@pytest.mark.parametrize("place", ["largest_change", "variance"])
def test_settings_below_0_are_errors(place):
    with pytest.raises(ConfigError, match=f"{place}: found -1, expected 0 or more"):
        Average(**{place: -1})


@pytest.mark.parametrize(("attributes", "variance"), [(2, 1), (6, 3), (10, 1)])
def test_the_share_follows_the_number_of_partitions_and_the_variance(attributes, variance):
    """Theory for m partitions in two and the count itself: variance V / (1 + m / 2)."""
    names = [f"a{i}" for i in range(attributes)]
    schema = Schema(tuple(Attribute(name, ("yes", "no")) for name in names))
    rng = np.random.default_rng(4)
    cell = rng.integers(0, schema.size, len(POPULATION.unit)).astype(np.int32)
    domain = replace(POPULATION.domain, schema=schema)
    population = replace(POPULATION, domain=domain, cell=cell)
    cell_key = CellKey(
        tables={f"by_{name}": [name] for name in names}, maximum=5, variance=Fraction(variance)
    )
    release = protect(Tabulated.of(population), cell_key, seed=3)
    truth = Truth.of(population).made_by(cell_key)
    table = attack(release, truth, Average()).table.filter(partitions=attributes)
    assert table["attacker"].to_list() == [INFORMED, UNINFORMED]
    theory = 100 * share_recovered(variance, 1 + attributes / 2)
    assert table["theory_percent"].to_list() == [pytest.approx(theory, abs=0.01)] * 2
    tolerance = 4 * 100 * (0.5 / UNITS**0.5)
    for right in table["right_percent"].to_list():
        assert right == pytest.approx(theory, abs=tolerance)
    control = 100 * share_recovered(variance, 1)  # as published, without any averaging
    assert attributes == 2 or abs(table["right_percent"][0] - control) > tolerance


def test_counts_rounded_anew_in_every_table_come_back_more_often():
    right, width = {}, {}
    for rounding in (Rounding(tables=TABLES, how=how) for how in ("random", "fixed")):
        release = protect(Tabulated.of(POPULATION), rounding, seed=5)
        truth = Truth.of(POPULATION).made_by(rounding)
        table = attack(release, truth, Average()).table
        right[rounding.how] = table.filter(partitions=ATTRIBUTES)["right_percent"][0]
        found = attack(release, truth, WorkOut()).table
        assert found["outside"].sum() == 0
        width[rounding.how] = float(np.mean(found.filter(level="block")["width"].to_numpy()))
    # Six draws of each block's total show both multiples 11 times in 12, if it is none itself.
    assert right["random"] > right["fixed"] + 15
    assert width["random"] < width["fixed"] - 0.5


def test_two_values_of_one_count_leave_what_both_may_stand_for():
    """Base 3: one table says 6, another one 9."""
    release = protect(Tabulated.of(POPULATION), Rounding(tables=TABLES), seed=5).as_tables()
    published = list(release.published)
    for place, value in ((1, 6), (3, 9)):
        changed = published[place].value.copy()
        changed[0] = [value, 3, 3]
        published[place] = replace(published[place], value=changed)
    kept = tuple(published[place] for place in (1, 3))
    assert [(one.name, one.level) for one in kept] == [("by_a0", "block"), ("by_a1", "block")]
    ranges = WorkOut().run(replace(release, published=kept), NOBODY).ranges[0]
    for where in ranges.low:
        assert (ranges.low[where][0, 0], ranges.high[where][0, 0]) == (7, 8)


def test_zeros_that_are_raised_prove_less(tmp_path):
    """Where an empty cell may be published as 1, parts above 0 hold nobody for certain."""
    path = tmp_path / "loses.csv"
    path.write_text("i,j,p\n0,0,1\n1,0,0.6\n1,1,0.4\n2,1,0.3\n2,2,0.4\n2,3,0.3\n")
    seen = {}
    for zeros in ("stay", "balance"):
        cell_key = CellKey(
            tables=TABLES, ptable=PerturbationFile(file=path), zeros=zeros, disclose=False
        )
        release = protect(Tabulated.of(POPULATION), cell_key, seed=2).as_tables()
        value = [np.zeros_like(one.value) for one in release.published]
        value[1][0] = [0, 1, 1]
        published = tuple(
            replace(one, value=own) for one, own in zip(release.published, value, strict=True)
        )
        cells = changed_cells(replace(release, published=published))
        seen[zeros] = max(some.proved_change() for some in cells)
    assert seen == {"stay": 2, "balance": 1}


@pytest.mark.parametrize("name", found.MECHANISMS)
def test_who_knows_the_settings_is_an_adversary_of_its_own(name, tmp_path):
    mechanism = found.MECHANISMS[name](tmp_path)
    release, truth = found.release_of(mechanism), Truth.of(found.POPULATION).made_by(mechanism)
    table = attack(release, truth, Average()).table
    assert table.height == 0 or INFORMED in table["attacker"].to_list()


def test_one_person_in_tables_without_sums_is_evaluated_without_averaging():
    data = few_people(1)
    release = protect(data, CellKey(tables={"all": []}, lowest="whole", exact_total=True), seed=1)
    found = evaluate(release, Truth.of(data.counts), choice=Choice(attacks=("averaging",)))
    why = {one.name: one.why for one in found.not_computed}
    assert why["averaging"] == "no published count is the sum of others"
    reported(found, release)


def test_the_attack_keeps_its_contract():
    check_attack(Average())
