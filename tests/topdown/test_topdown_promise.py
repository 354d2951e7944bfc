"""What TopDown promises, says and spends; its config and preset; the mechanism contract."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import exp

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.errors import ConfigError, PrivacyError
from headcount.mechanisms import protect
from headcount.noise import KeyedNoise, RunKey
from headcount.privacy import Currency, UnitOfPrivacy, ZCDPLoss
from headcount.schema import load_schema
from headcount.tabulate import CELLS, Counts, Query, Tabulated, counts_digest
from headcount.testing import contracts
from headcount.testing.contracts import ContractError
from headcount.topdown.choices import Grouped, Invariant, Marginal, QuartersBounds
from headcount.topdown.mechanism import TopDown, noise_quantile
from headcount.topdown.settings import noise_of
from headcount.typed import from_table, presets
from tests.topdown.small import (
    SCHEMA,
    VILLAGE,
    bounded,
    dense,
    pure,
    run,
    settings,
    tree,
    village,
    zcdp,
)

ADD = UnitOfPrivacy.ADD_REMOVE
REPORT = Fraction(1, 10_000)
HALF = Fraction(1, 2)


def test_the_guarantee_is_for_the_chosen_unit_with_the_other_beside_it():
    for loss, other in (
        (pure(1), pure("1/2", ADD)),
        (pure(1, ADD), pure(2)),
        (zcdp(1), ZCDPLoss(rho=HALF, unit=ADD)),
    ):
        assert settings(loss).on(Domain(SCHEMA, VILLAGE)).guarantee.losses == (loss, other)


def test_with_something_released_exactly_the_chosen_unit_stands_alone():
    """No two databases that differ by one person share an invariant."""
    assert bounded(pure(1)).on(Domain(SCHEMA, VILLAGE)).guarantee.losses == (pure(1),)


def test_the_report_is_added_exactly():
    """E18: 0.2499 and 0.0001 make a quarter."""
    mechanism = settings(pure("0.2499"), report_epsilon=REPORT)
    assert mechanism.on(Domain(SCHEMA, VILLAGE)).guarantee.losses[0] == pure("0.25")
    # Beside rho, pure epsilon counts epsilon^2 / 2.
    loss, _ = settings(zcdp(1), report_epsilon=REPORT).on(Domain(SCHEMA, VILLAGE)).guarantee.losses
    assert loss == ZCDPLoss(rho=1 + REPORT**2 / 2, unit=UnitOfPrivacy.CHANGE_ONE)


def test_the_plan_adds_up_to_the_guarantee_measurement_by_measurement():
    mechanism = settings(pure("0.2499"), report_epsilon=REPORT)
    plan = mechanism.on(Domain(SCHEMA, VILLAGE)).plan
    assert len(plan) == 4 * 3 + 1
    spent = [one.loss(UnitOfPrivacy.CHANGE_ONE) for one in plan]
    assert sum(loss.amount for loss in spent if loss is not None) == Fraction(1, 4)
    assert {(one.level, one.query) for one in plan} == {
        *((level, query) for level in VILLAGE.levels for query in (CELLS, "kind", "age")),
        ("leaf", "distance to the truth"),
    }


def test_no_loss_promises_nothing_and_says_so():
    mechanism = bounded(None, report_epsilon=REPORT)
    assert mechanism.on(Domain(SCHEMA, VILLAGE)).plan == ()
    guarantee = mechanism.on(Domain(SCHEMA, VILLAGE)).guarantee
    assert not guarantee.exists
    assert "No differential-privacy guarantee: no noise is added" in guarantee.sentences()[0]
    assert not any("distance" in name for name in run(mechanism, village()).notes)


def test_what_is_exact_is_listed_and_what_it_leaves_out():
    said = bounded(pure(1)).on(Domain(SCHEMA, VILLAGE)).guarantee.sentences()
    assert "Released without noise: 'total' of every state." in said
    assert (
        "Released without noise: the number of living quarters of each type ('kind'), "
        "and of vacant ones, everywhere." in said
    )
    assert "Not covered: databases that differ in what is released without noise." in said
    free = settings(pure(1)).on(Domain(SCHEMA, VILLAGE)).guarantee
    assert free.released_exactly == ()
    assert not any("databases that differ" in one for one in free.sentences())


def keyed(key: RunKey, counts: Counts) -> KeyedNoise:
    return KeyedNoise(key, "topdown", counts_digest(counts), b"config")


def test_a_release_says_where_its_key_comes_from():
    mechanism = bounded(pure(1))
    seeded = protect(Tabulated.of(village()), mechanism, keyed(RunKey.from_seed(1), village()))
    assert not seeded.guarantee.exists
    assert seeded.guarantee.sentences()[0].startswith("NOT PRIVATE, do not publish")
    private = protect(Tabulated.of(village()), mechanism, keyed(RunKey.from_os(), village()))
    assert private.guarantee.exists
    assert "cannot break the encryption" in " ".join(private.guarantee.sentences())
    found = replace(village().domain, read_off=("which units exist",))
    off = replace(village(), domain=found)
    listed = protect(
        Tabulated.of(off), mechanism, keyed(RunKey.from_os(), off)
    ).guarantee.released_exactly
    assert listed[-1] == "which units exist"


def test_the_reported_distance_is_noisy_and_bounded_above():
    mechanism = bounded(pure(1), report_epsilon=Fraction(1, 2))
    share, above = 0, 0
    for seed in range(60):
        outcome = run(mechanism, village(), seed=seed)
        leaf = dense(outcome)["leaf"]
        true = np.abs(leaf - village().dense()).sum() / (2 * leaf.sum())
        said = outcome.notes["distance to the truth, share of people"]
        bound = outcome.notes["distance to the truth, upper bound at 90% confidence"]
        share += said == pytest.approx(true)
        above += float(bound) >= true
    assert share < 30  # noise of scale 4 seldom is 0
    assert above >= 45  # at least 90 % of 60, less 4 standard errors


@pytest.mark.parametrize("rate", [Fraction(1, 20_000), Fraction(1, 4), Fraction(2), Fraction(9)])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_the_quantile_is_the_least_that_is_sure_enough(rate, confidence):
    """Pr[noise >= -k], summed over the law."""
    a = exp(-rate)

    def sure(k: int) -> float:
        return 1 - a ** (k + 1) / (1 + a)

    k = noise_quantile(rate, confidence=confidence)
    assert sure(k) >= confidence - 1e-12
    assert k == 0 or sure(k - 1) < confidence


# The contract. Three of its checks are met in another form, and say so.


CONTRACT = settings(pure(1, ADD), queries=(), query_shares=((CELLS, Fraction(1)),))
WITH_TOTAL = settings(
    ZCDPLoss(rho=Fraction(1, 5), unit=ADD),
    queries=(Query("total"),),
    query_shares=((CELLS, Fraction(1)),),
    level_queries=(("level_2", ((CELLS, HALF), ("total", HALF))),),
)
APART = {
    # A count of 0 may stay 0 in every release: the estimate cannot be negative. That every unit
    # and cell is measured with noise is checked on the measurements (test_topdown_measure).
    "support_does_not_depend_on_people",
    # Its values are from other rooms than the contract knows: checked below.
    "repr_makes_it_again",
}


@pytest.fixture(autouse=True)
def fewer_runs(monkeypatch):
    monkeypatch.setattr(contracts, "RUNS", range(40))


CHECKS = [
    check
    for mechanism in (CONTRACT, WITH_TOTAL)
    for check in contracts.mechanism_checks(mechanism)
    if check.body.__name__ not in APART
]


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_contract(check):
    check()


def test_the_check_left_out_would_find_counts_that_stay_zero():
    """So that nobody takes it for granted: the reason above is a fact."""
    sure = settings(pure(40, ADD), queries=(), query_shares=((CELLS, Fraction(1)),))
    with pytest.raises(ContractError, match="no noise on"):
        contracts.support_does_not_depend_on_people(sure, list(contracts._populations()))


@pytest.mark.parametrize("mechanism", [bounded(pure("1/4")), WITH_TOTAL, bounded(None)])
def test_repr_makes_it_again(mechanism):
    names = [TopDown, Marginal, Grouped, UnitOfPrivacy, Invariant, QuartersBounds, Fraction]
    again = eval(repr(mechanism), {one.__name__: one for one in names})
    assert again == mechanism
    assert hash(again) == hash(mechanism)


# Config and preset.


def model(**keys) -> TopDown:
    return from_table(TopDown, keys, source="topdown")


def test_the_preset_fixes_the_choices_of_2018():
    assert "e2e-2018" in presets(TopDown)
    mechanism = model(preset="e2e-2018", epsilon="0.2499")
    schema = load_schema("e2e-2018")
    assert schema.size == 192
    place = tree(("state", [2]), ("county", [1, 2]), ("district", [2, 1, 3]))
    (loss,) = mechanism.on(Domain(schema, place)).guarantee.losses
    assert loss == pure("0.25")
    assert dict(mechanism.query_shares) == {
        CELLS: Fraction("0.1"),
        "hhgq": Fraction("0.225"),
        "va_hisp_race": Fraction("0.675"),
    }
    assert [q.size(schema) for q in mechanism.marginals] == [8, 24, 1]
    assert mechanism.invariant == (Invariant(query="total", level="state"),)
    (bounds,) = mechanism.bounds
    assert isinstance(bounds, QuartersBounds)
    assert bounds.caps == (99, *[99999] * 7)
    assert (bounds.query, bounds.total_level, bounds.unions) == ("hhgq", "state", False)
    assert mechanism.failsafe_over == ("hhgq",)
    assert schema.structural_zeros == ()


def test_a_preset_gives_way_to_what_is_said():
    given = {"failsafe_over": [], "unit": "add-remove", "invariant": [], "bounds": []}
    rho = model(preset="e2e-2018", rho="2.56", **given)
    assert rho.loss == ZCDPLoss(rho=Fraction("2.56"), unit=ADD)
    assert rho.failsafe_over == ()
    assert rho.query_shares == model(preset="e2e-2018", epsilon=1).query_shares


def test_infinite_epsilon_by_config():
    assert model(preset="e2e-2018", epsilon="inf").loss is None


def test_everything_by_config():
    mechanism = model(
        epsilon="1/2",
        levels={"whole": "1/4", "leaf": "3/4"},
        queries={"cells": {"share": "1/2"}, "age": {"by": ["age"], "share": "1/2"}},
        level_queries={"leaf": {"cells": 1}},
        invariant=[{"query": "age", "level": "whole"}],
    )
    assert mechanism.loss == pure("1/2")
    allocation = mechanism.allocation(tree(("leaf", [2])))
    assert allocation.share(level="leaf", query=CELLS) == Fraction(3, 4)
    assert allocation.share(level="whole", query="age") == Fraction(1, 8)
    assert allocation.share(level="leaf", query="age") == 0


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"preset": "e2e-2018"}, "both epsilon and rho, or neither"),
        ({"preset": "e2e-2018", "epsilon": 1, "rho": 1}, "both epsilon and rho, or neither"),
        ({"preset": "e2e-2020", "epsilon": 1}, "e2e-2020"),
        ({"preset": "e2e-2018", "epsilon": 0}, "epsilon"),
        ({"epsilon": 1, "queries": {"cells": {"share": "1/2"}}}, "expected exactly 1"),
        (
            {"epsilon": 1, "queries": {"age": {"share": 1}}},
            "queries.age: found no by",
        ),
        (
            {"epsilon": 1, "queries": {"cells": {"share": 1, "by": ["age"]}}},
            "cells: found by, exp",
        ),
        (
            {
                "epsilon": 1,
                "queries": {"cells": {"share": 1}},
                "invariant": [{"query": "total", "level": "state"}],
            },
            "query 'total': found an unknown query",
        ),
        (
            {
                "epsilon": 1,
                "queries": {"cells": {"share": 1}},
                "level_queries": {"leaf": {"cells": "1/2"}},
            },
            "query shares at level 'leaf'",
        ),
        ({"epsilon": 1, "queries": {"cells": {"share": 1}}, "shares": 1}, "shares"),
    ],
)
def test_a_wrong_config_is_refused_before_any_data(keys, says):
    with pytest.raises(ConfigError) as error:
        model(**keys)
    assert says in str(error.value)


def test_an_unknown_preset_is_named():
    with pytest.raises(ConfigError, match="topdown: preset: found 'x', expected one of 'e2e-20"):
        TopDown.from_preset("x", epsilon=1)


def test_other_losses_are_refused():
    from headcount.privacy import ApproximateLoss

    loss = ApproximateLoss(
        epsilon=Fraction(1), delta=Fraction(1, 10**6), unit=UnitOfPrivacy.CHANGE_ONE
    )
    assert loss.currency is Currency.EPSILON_AT_DELTA
    with pytest.raises(PrivacyError, match="expected a pure"):
        noise_of(loss, entries=3)
