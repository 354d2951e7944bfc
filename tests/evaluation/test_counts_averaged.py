"""Counts averaged over the partitions of a release, scored against the truth and against theory."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import headcount as hc
from headcount.attacks.kinds import People
from headcount.attacks.kinds.averaging import DOES_NOT, KNOWS, Average
from headcount.attacks.kinds.margin_gaps import ReadGaps
from headcount.errors import ConfigError, InputError
from headcount.evaluation.attacked import attack
from headcount.mechanisms import Identity, Tabulated, protect
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.population import Population
from headcount.schema import Attribute, Schema

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
        SCHEMA,
        geography,
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
    assert finding.table["attacker"].unique().to_list() == [DOES_NOT]
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
        assert claims.count[DOES_NOT]["by_a0", "block"][unit, 0] == int(np.floor(mean + 0.5))
        assert claims.partitions["by_a3", "block"][unit].tolist() == [ATTRIBUTES, 0, 0]
        assert claims.count[DOES_NOT]["by_a3", "block"][unit, 1] == -1


def test_the_variance_is_seen_in_the_gaps():
    assert Average().run(RELEASE, NOBODY).variance == pytest.approx(1, rel=0.1)


def test_who_knows_the_largest_change_claims_nothing_farther_off():
    claims = Average(largest_change=1).run(RELEASE, NOBODY)
    for where, count in claims.count[KNOWS].items():
        there = count >= 0
        assert (np.abs(count - claims.published[where])[there] <= 1).all()
    finding = attack(RELEASE, POPULATION, Average(largest_change=3))
    assert finding.table["attacker"].unique(maintain_order=True).to_list() == [KNOWS, DOES_NOT]
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


def test_margins_of_a_release_reveal_the_largest_change():
    finding = attack(RELEASE, POPULATION, ReadGaps())
    row = finding.table.row(0, named=True)
    claims = ReadGaps().run(RELEASE, NOBODY)
    assert 2 <= row["proved"] <= row["largest"] == 3
    assert row["proved"] == claims.largest_change
    assert 0 < row["proofs"] <= row["broken"] <= row["margins"]
    # Each block and the whole by each attribute, and each of these cells over the blocks.
    assert row["margins"] == (UNITS + 1) * ATTRIBUTES + 2 * ATTRIBUTES + 1
    assert row["variance_shown"] == pytest.approx(row["variance"], rel=0.1)
    assert finding.numbers()[0].value == str(row["proved"])
    assert {column.key for column in finding.columns()} == set(finding.table.columns)
    assert "the secret is out" in finding.explain()
    assert finding.figure().name == "margin-gaps-figure"
