"""Releases of nobody, of one person and of more than memory holds are evaluated: what cannot be
computed is left out with its reason.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import headcount as hc
from headcount.domain import Domain
from headcount.errors import InputError, RunError, TruthError
from headcount.evaluation import Truth
from headcount.evaluation.evaluate import Choice, Evaluation, evaluate, evaluation_report
from headcount.evaluation.swapping import _account
from headcount.mechanisms import Identity, Tabulated, protect
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.mechanisms.geometric import Geometric
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.population import Population
from headcount.release import Release
from headcount.release.foreign import read_foreign
from headcount.report.html import _render_html
from headcount_papers.person_swapping.mechanism import PersonSwapping

SCHEMA = hc.Schema((hc.Attribute("sex", ("f", "m")), hc.Attribute("age", ("young", "old"))))
PLACES = hc.Geography(
    ("whole", "tract"),
    (np.array(["whole"]), np.array(["a", "b"])),
    (np.empty(0, dtype=np.int32), np.zeros(2, dtype=np.int32)),
)


def people(*counts: int) -> Tabulated:
    """As many people in the first cells of the first tract."""
    cell = np.arange(len(counts), dtype=np.int32)
    return Tabulated.of(
        Population(
            "few", Domain(SCHEMA, PLACES), cell * 0, cell, count=np.array(counts, dtype=np.int64)
        )
    )


def reported(found: Evaluation, release: Release) -> None:
    """The whole report can be made, and shown."""
    _render_html(evaluation_report(release, found.findings, recipe="x", public=False))


@pytest.mark.parametrize("counts", [(), (0, 0), (1,)])
@pytest.mark.parametrize(
    "mechanism",
    [
        Identity(),
        Geometric(epsilon=Fraction(1)),
        CellKey(tables="auto", below=3),
        Rounding(tables="auto", how="nearest"),
        Suppression(rule="complementary", tables="auto", effort=0, audit=10),
    ],
    ids=lambda one: one.name,
)
def test_nobody_and_one_person_are_evaluated_and_reported(mechanism, counts):
    data = people(*counts)
    release = protect(data, mechanism, seed=1)
    found = evaluate(release, Truth.of(data.counts))
    reported(found, release)


def test_one_count_with_two_published_values_is_attacked():
    """An attribute of one level is the total once more: exact here, and changed to 0 there."""
    schema = hc.Schema((hc.Attribute("sex", ("f", "m")), hc.Attribute("state", ("here",))))
    cell = np.arange(2, dtype=np.int32)
    place = hc.Geography(("whole",), (np.array(["whole"]),), (np.empty(0, dtype=np.int32),))
    few = Population("few", Domain(schema, place), cell * 0, cell, count=np.array([3, 3]))
    data = Tabulated.of(few)
    release = protect(data, CellKey(tables="auto", exact_total=True, rule="10-5"), seed=1)
    found = evaluate(release, Truth.of(data.counts), choice=Choice(attacks=("feasible-intervals",)))
    assert "feasible-intervals" in {one.name for one in found.findings}
    reported(found, release)


def test_errors_beyond_the_curve_leave_the_loss_out():
    data = people(2**50, 1, 2**50)
    release = protect(data, Geometric(epsilon=Fraction(1, 10**11)), seed=1)
    choice = Choice(metrics=("empirical-privacy-loss",), attacks=())
    (left_out,) = evaluate(release, Truth.of(data.counts), choice=choice).not_computed
    assert "one point per person" in left_out.why


def test_more_people_than_memory_holds_are_not_attacked_one_by_one():
    data = people(2**39)
    release = protect(data, Rounding(tables="auto", how="nearest"), seed=1)
    found = evaluate(release, Truth.of(data.counts), choice=Choice(metrics=()))
    why = [one.why for one in found.not_computed]
    assert "people one by one take more memory than there is" in why


@pytest.mark.parametrize("mechanism", [Suppression(tables="auto"), Rounding(tables="auto")])
def test_more_people_than_sums_are_exact_for_are_refused_before_the_work(mechanism):
    many = people(2**41).counts
    with pytest.raises(TruthError, match=r"found more than 2\^40 people, expected counts that"):
        mechanism.on(many.domain).check(many)


def test_more_people_than_memory_holds_are_not_swapped():
    with pytest.raises(InputError, match="person swapping: people: found more than fit"):
        PersonSwapping(level="tract", rate=Fraction(1, 2), kind="random").check(
            people(2**60).population
        )


def test_a_table_of_others_that_lacks_every_total_is_scored(tmp_path):
    (tmp_path / "theirs.csv").write_text("tract,sex,age,n\na,f,young,3\n")
    release = read_foreign(tmp_path / "theirs.csv", SCHEMA, PLACES)
    truth = Truth.of(people(3, 1).counts).on(release)
    found = evaluate(release, truth, choice=Choice(metrics=("error",), attacks=()))
    assert found["error"].numbers() == ()
    reported(found, release)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"a": 1}', '{"a": {"people": "x"}}', "\x01"])
def test_a_damaged_account_of_a_swap_is_refused_by_name(tmp_path, content):
    (tmp_path / "account.json").write_text(content)
    with pytest.raises(RunError, match="found a damaged file, expected the account of a swap"):
        _account(tmp_path / "account.json")
