"""Metrics of privacy and bias on a release: against the functions and sums they stand for."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.errors import ConfigError
from headcount.evaluation import Truth
from headcount.evaluation.audit import Audit, _NeighbouringRuns
from headcount.evaluation.bias_by_homogeneity import BiasByHomogeneity
from headcount.evaluation.evaluate import Choice, evaluate, named
from headcount.evaluation.swapping import Swapping
from headcount.geography import regular
from headcount.mechanisms import Design, Geometric, Identity, protect
from headcount.mechanisms.swapping.households import REPORT
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.privacy import Guarantee, PureLoss, UnitOfPrivacy
from headcount.release import Release
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts, Tabulated, tabulate
from headcount_papers.empirical_privacy_loss import EmpiricalPrivacyLoss, _Losses, published

SCHEMA = Schema((Attribute("race", ("a", "b", "c")), Attribute("hispanic", ("no", "yes"))))


@pytest.fixture(scope="module")
def counts() -> Counts:
    rng = np.random.default_rng(5)
    unit = rng.integers(0, 200, 3000).astype(np.int32)
    cell = rng.choice(6, 3000, p=[0.6, 0.2, 0.1, 0.05, 0.04, 0.01]).astype(np.int32)
    tree = regular(children=200, depth=1)
    return tabulate(Population("town", Domain(SCHEMA, tree), unit, cell))


def released(counts: Counts, mechanism=None) -> Release:
    mechanism = mechanism or Geometric(epsilon=Fraction(1))
    noise = KeyedNoise(RunKey.from_seed(2), mechanism.name, b"d", b"c")
    return protect(Tabulated.of(counts), mechanism, noise)


def test_empirical_loss_is_that_of_the_errors_and_says_that_it_is_no_guarantee(counts: Counts):
    release = released(counts)
    found = EmpiricalPrivacyLoss(seed=1).compute(release, Truth.of(counts))
    row = found.table.filter(level="level_1", query="cells").row(0, named=True)
    exact, made = counts.dense(), release.at("level_1")
    errors = (made - exact)[(made != 0) | (exact != 0)]
    expected = published(errors)
    assert row["n"] == expected.n == errors.size
    assert row["epl"] == pytest.approx(expected.max_abs)
    assert row["epl_median"] == pytest.approx(expected.median_abs)
    # geometric noise of epsilon 1 when a record changes loses 1/2 by person added or removed
    assert 0.3 < row["epl_calibrated"] < 0.7
    words = found.explain()
    assert "neither a guarantee nor a bound on epsilon" in words
    assert "epsilon 0.5 when one person is added or removed" in words
    (number,) = found.numbers()
    assert "not a guarantee" in number.label


def test_empirical_loss_that_is_undefined_everywhere_is_not_computed(counts: Counts):
    exact = released(counts, Identity())
    choice = Choice(metrics=("empirical-privacy-loss",), attacks=())
    (left_out,) = evaluate(exact, Truth.of(counts), choice=choice).not_computed
    assert left_out.why == (
        "it is undefined at every level: there are fewer than two residuals; all residuals are "
        "equal"
    )


def test_empirical_loss_says_of_which_counts_it_is_undefined(counts: Counts):
    found = EmpiricalPrivacyLoss(calibrated=False).compute(released(counts), Truth.of(counts))
    assert isinstance(found, _Losses)
    row = found.table.filter(level="whole", query="total").row(0, named=True)
    assert (row["epl"], row["undefined"]) == (None, "there are fewer than two residuals")
    without = released(counts, Identity()).guarantee
    assert (
        "This release has no guarantee, and EPL does not give it one."
        in replace(found, stated=tuple(map(str, without.losses))).explain()
    )


def test_bias_is_the_mean_error_of_places_that_lack_so_many_kinds(counts: Counts):
    release = released(counts)
    found = BiasByHomogeneity().compute(release, Truth.of(counts))
    exact = counts.dense()
    missing = (exact == 0).sum(axis=1)
    errors = release.at("level_1").sum(axis=1) - exact.sum(axis=1)
    rows = {row["homogeneity_index"]: row for row in found.table.to_dicts()}
    assert set(rows) == set(missing[exact.sum(axis=1) > 0].tolist())
    for value, row in rows.items():
        some = errors[missing == value]
        assert row["units"] == some.size
        assert row["mean_error"] == pytest.approx(some.mean())
        if some.size > 1:
            assert row["standard_error"] == pytest.approx(some.std(ddof=1) / np.sqrt(some.size))


def test_bias_needs_kinds_of_people(counts: Counts):
    release, truth = released(counts), Truth.of(counts)
    assert BiasByHomogeneity(by=("income",)).supports(release, truth).why_not == (
        "the schema has no attribute income"
    )
    assert BiasByHomogeneity(by=("race",)).supports(release, truth).why_not == (
        "the schema has fewer than two attributes to distinguish kinds of people"
    )


def test_the_account_of_a_swap_is_read_from_the_run(counts: Counts, tmp_path: Path):
    release, truth = released(counts, Identity()), Truth.of(counts)
    assert Swapping().supports(release, truth).why_not == "the run left no account of a swap"
    account = {
        "households": 40,
        "asked": 8,
        "swapped": 6,
        "unpaired": 2,
        "rate": 0.15,
        "partners": {"level_1": 1, "whole": 2},
        "at_risk": None,
        "kept": [{"count": "people", "level": "whole", "changed": 0, "units": 1}],
    }
    (tmp_path / REPORT).write_text(json.dumps({"0": account}))
    found = Swapping().compute(release, replace(truth, folders=(tmp_path,)))
    rows = {row["what"]: (row["number"], row["percent"]) for row in found.table.to_dicts()}
    assert rows["swapped"] == (6, 15)
    assert rows["chosen, but without a partner"] == (2, 5)
    assert rows["pairs within one whole"] == (2, pytest.approx(200 / 3))
    assert set(found.files()) == {"swapping", "swapping-changed"}
    people = {
        "people": 50,
        "marked": 10,
        "swapped": 9,
        "uniques": 4,
        "uniques_swapped": 3,
        "unswappable": 1,
    }
    (tmp_path / REPORT).write_text(json.dumps({"0": people}))
    found = Swapping().compute(release, replace(truth, folders=(tmp_path,)))
    assert found.table.filter(what="unique and swapped")["number"].item() == 3
    assert found.numbers()[0].label == "of the people were swapped"


def test_each_swap_of_a_chain_has_its_account(counts: Counts, tmp_path: Path):
    for step, swapped in (("1-swapping", 6), ("2-person-swapping", 9)):
        (tmp_path / step).mkdir()
        account = {"people": 50, "marked": 10, "swapped": swapped, "unswappable": 0}
        (tmp_path / step / REPORT).write_text(json.dumps({"0": account}))
    truth = replace(Truth.of(counts), folders=(tmp_path,))
    found = Swapping().compute(released(counts, Identity()), truth)
    rows = found.table.filter(what="swapped").select("step", "number").rows()
    assert rows == [("1-swapping", 6), ("2-person-swapping", 9)]
    assert found.numbers()[1].label == "of the people were swapped (2-person-swapping)"


@dataclass(frozen=True, kw_only=True)
class Boastful(Geometric):
    """States a sixth of the epsilon that its noise is worth."""

    def on(self, domain: Domain) -> Design:
        too_little = PureLoss(epsilon=self.epsilon / 6, unit=UnitOfPrivacy.ADD_REMOVE)
        return replace(super().on(domain), guarantee=Guarantee(losses=(too_little,)))


def test_an_audit_refutes_a_mechanism_that_states_too_little_and_no_other(counts: Counts):
    audit = Audit(runs=2000)
    small = tabulate(
        Population(
            "hamlet",
            Domain(SCHEMA, regular(children=2, depth=1)),
            np.zeros(4, np.int32),
            np.zeros(4, np.int32),
        )
    )
    for mechanism, refuted in ((Geometric, False), (Boastful, True)):
        made = mechanism(epsilon=Fraction(3))
        truth = Truth.of(small).made_by(made)
        release = released(small, made)
        found = audit.compute(release, truth)
        row = found.table.row(0, named=True)
        assert row["refuted"] is refuted
        assert row["runs"] == 2000
        assert (0.7 < row["epsilon_lower"] <= 1.5) is True  # add-remove: half of 3
        assert ("do not publish" in " ".join(found.warnings())) is refuted
        assert ("The runs refute what is stated" in found.explain()) is refuted
        assert found.figure().chart is not None


def test_neighbours_differ_in_one_person_of_one_unit(counts: Counts):
    for unit, moved in ((UnitOfPrivacy.ADD_REMOVE, 1), (UnitOfPrivacy.CHANGE_ONE, 2)):
        pair = _NeighbouringRuns.of(counts, unit)
        apart = pair.other.counts.dense() - counts.dense()
        assert np.abs(apart).sum() == moved == len(pair.cells)
        assert np.flatnonzero(apart.any(axis=1)).tolist() == [pair.unit]
        assert counts.totals()[pair.unit] == counts.totals()[counts.totals() > 0].min()
        assert pair.other.counts.dense().min() >= 0
        assert pair.exact == counts.dense()[pair.unit, pair.cells[0]]


def test_an_audit_says_why_it_was_not_made(counts: Counts):
    release = released(counts)
    choice = Choice(metrics=(), attacks=(), on_request=("audit",))
    (left_out,) = evaluate(release, Truth.of(counts), choice=choice).not_computed
    assert left_out.why == "the mechanism is not known, so it cannot be run again"
    exact = released(counts, Identity())
    truth = Truth.of(counts).made_by(Identity())
    assert Audit().supports(exact, truth).why_not == (
        "the mechanism draws no noise: every run is the same"
    )
    few = replace(choice, given=(Audit(answers=10_000),))
    truth = Truth.of(counts).made_by(Geometric(epsilon=Fraction(1)))
    found = evaluate(release, truth, choice=few)
    assert found.not_computed[0].why == (
        "200 runs of both databases draw 480,000 answers, more than the 10,000 that are allowed"
    )
    with pytest.raises(KeyError, match="audit: not computed, because 200 runs of both"):
        found["audit"]
    some = replace(choice, given=(Audit(answers=600_000),))
    made = evaluate(release, truth, choice=some)["audit"]
    assert made.table["runs"].to_list() == [250]
    assert "4,000 runs were asked for; of so many answers each 250 were made." in made.explain()
    with pytest.raises(ConfigError, match="runs: found 5, expected 200 or more"):
        Audit(runs=5)


def test_names_choose_what_is_computed(counts: Counts):
    release, truth = released(counts), Truth.of(counts)
    found = evaluate(release, truth, choice=Choice(metrics=named("error"), attacks=()))
    assert [one.name for one in found] == ["error"]
    assert "error" in found
    assert repr(found) == "<Evaluation: error>"
    assert repr(found["error"]) == "<Errors>"  # no number of the truth
    assert named("all") is None
    assert named("none") == ()
    assert named(" a, b ,") == ("a", "b")
    with pytest.raises(ConfigError, match="found 'eror', expected"):
        evaluate(release, truth, choice=Choice(metrics=("eror",)))


def test_what_was_not_computed_is_listed_with_its_reason(counts: Counts):
    found = evaluate(released(counts), Truth.of(counts))
    why = {one.name: one.why for one in found.not_computed}
    assert why["withheld"] == "the release publishes every count: it withholds nothing"
    assert why["reidentification"].startswith(
        "it needs [roles] with sex or age, or [attacker] knows = [...]; the release has attributes"
    )
    assert why["linkage"] == "the schema has no attribute age ([roles] age, or [attacker] knows)"
    assert "audit" not in why  # nobody asked for it
