"""What gaps of margins prove of a release of cell keys, beside the changes that were made."""

from fractions import Fraction

import numpy as np
import pytest

import headcount as hc
from headcount.domain import Domain
from headcount.evaluation import Truth
from headcount.evaluation.evaluate import Choice, evaluate
from headcount.mechanisms import Identity, Tabulated, protect
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.population import Population
from headcount.schema import Attribute, Schema
from headcount.testing import check_metric
from headcount_papers.margin_gaps import MarginGapsMetric

ATTRIBUTES, UNITS = 6, 300
SCHEMA = Schema(tuple(Attribute(f"a{i}", ("yes", "no")) for i in range(ATTRIBUTES)))


@pytest.fixture(scope="module")
def people() -> Population:
    rng = np.random.default_rng(1)
    geography = hc.Geography(
        ("all", "block"),
        (np.array(["all"]), np.array([f"b{i}" for i in range(UNITS)])),
        (np.empty(0, dtype=np.int32), np.zeros(UNITS, dtype=np.int32)),
    )
    return Population(
        "made up",
        Domain(SCHEMA, geography),
        unit=rng.integers(0, UNITS, 60 * UNITS).astype(np.int32),
        cell=rng.integers(0, SCHEMA.size, 60 * UNITS).astype(np.int32),
    )


def test_margins_of_a_release_reveal_the_largest_change(people: Population):
    tables = {f"by_{name}": [name] for name in SCHEMA.names}
    method = CellKey(tables=tables, maximum=3, variance=Fraction(1))
    release = protect(Tabulated.of(people), method, seed=2)
    choice = Choice(metrics=("margin-gaps",), attacks=())  # found by its entry point
    finding = evaluate(release, people, choice=choice)["margin-gaps"]
    row = finding.table.row(0, named=True)
    assert 2 <= row["proved"] <= row["largest"] == 3
    assert 0 < row["proofs"] <= row["broken"] <= row["margins"]
    # Each block and the whole by each attribute, and each of these cells over the blocks.
    assert row["margins"] == (UNITS + 1) * ATTRIBUTES + 2 * ATTRIBUTES + 1
    assert row["variance_shown"] == pytest.approx(row["variance"], rel=0.1)
    assert finding.numbers()[0].value == str(row["proved"])
    assert {column.key for column in finding.columns()} == set(finding.table.columns)
    assert "the secret is out" in finding.explain()
    assert finding.figure().name == "margin-gaps-figure"


def test_a_release_of_counts_has_no_margins_that_were_changed(people: Population):
    release = protect(Tabulated.of(people), Identity(), seed=1)
    support = MarginGapsMetric().supports(release, Truth.of(people))
    assert "the release publishes counts, not tables whose counts" in support.why_not


def test_it_keeps_what_every_metric_must():
    check_metric(MarginGapsMetric())
