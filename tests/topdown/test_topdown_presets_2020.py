"""The presets of 2020: exact shares, passes, bounds, and what a release with them keeps."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.errors import ConfigError, PrivacyError
from headcount.geography.spine import LEVELS, UnitShares
from headcount.mechanisms import Chain, PlannedMeasurement, Tabulated, protect
from headcount.population.redistricting_2020 import (
    TopLevel,
    read_persons_2020,
    read_units_2020,
)
from headcount.privacy import ApproximateLoss, UnitOfPrivacy, ZCDPLoss
from headcount.privacy.convert import zcdp_to_approximate
from headcount.schema import Schema
from headcount.schema.load import load_schema
from headcount.topdown.choices import Invariant, Marginal
from headcount.topdown.mechanism import TopDown
from tests.topdown.presets_2020 import full_tree, tables

PERSON, HOME = UnitOfPrivacy.CHANGE_ONE, UnitOfPrivacy.HOUSING_UNIT_CHANGE_ONE
PERSONS, HOMES = load_schema("redistricting-2020"), load_schema("h1-2020")
QUERIES = (
    *("total", "cenrace", "hispanic", "votingage", "hhinstlevels", "hhgq"),
    *("hispanic*cenrace", "votingage*cenrace", "votingage*hispanic"),
    *("votingage*hispanic*cenrace", "cells"),
)
US = {
    "us": (0, 52, 26, 26, 26, 26, 130, 130, 26, 442, 3213),
    "state": (3773, 6, 6, 6, 6, 6, 12, 12, 6, 34, 230),
    "county": (3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754),
    "tract": (1567, 8, 5, 5, 5, 5, 1933, 20, 5, 67, 482),
    "block_group": (1705, 3, 3, 3, 3, 3, 1055, 9, 3, 24, 1288),
    "block": (5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945),
}
WITHIN = {
    "us": 4097,
    "state": 4097,
    "county": 4097,
    "tract": 4102,
    "block_group": 4099,
    "block": 4097,
}
"""Of the certificate: what a query has of its level, and the denominators."""
RHO = Fraction(293_764, 114_921)
RHO_OF_HOMES = Fraction(11_417_641, 152_349_649)
OF_LEVELS = dict(zip(US, (104, 1440, 447, 687, 1256, 165), strict=True))


def rho(one: PlannedMeasurement, unit: UnitOfPrivacy) -> Fraction:
    loss = one.loss(unit)
    assert isinstance(loss, ZCDPLoss)
    return loss.rho


def test_the_65_shares_of_persons_are_those_of_the_certificate():
    plan = TopDown.from_preset("redistricting-2020-us").on(Domain(PERSONS, full_tree())).plan
    found = {(one.level, one.query): rho(one, PERSON) / RHO for one in plan}
    expected = {
        (level, query): Fraction(OF_LEVELS[level], 4099) * Fraction(part, WITHIN[level])
        for level, parts in US.items()
        for query, part in zip(QUERIES, parts, strict=True)
        if part
    }
    assert found == expected
    assert len(plan) == 65
    assert sum(found.values()) == 1


def test_each_count_has_the_variance_of_its_share():
    plan = TopDown.from_preset("redistricting-2020-us").on(Domain(PERSONS, full_tree())).plan
    sigmas = {(one.level, one.query): round(one.law.variance**0.5, 2) for one in plan}
    for place, sigma in {
        ("state", "total"): 1.10,
        ("county", "total"): 2.17,
        ("tract", "total"): 2.47,
        ("block_group", "total"): 1.75,
        ("us", "cells"): 4.43,
        ("block", "cells"): 3.18,
        ("tract", "hispanic*cenrace"): 2.23,
    }.items():
        assert sigmas[place] == sigma
    scalars = {level: sum(o.entries for o in plan if o.level == level) for level in LEVELS}
    units = [full_tree().size(level) for level in LEVELS]
    possible = PERSONS.possible.sum()  # without the structural zero the cells are 2,016
    counts = [scalars[level] / number for level, number in zip(LEVELS, units, strict=True)]
    assert counts == [586 + possible, *[587 + possible] * 5]


def test_puerto_rico_has_shares_of_its_own_and_its_state_is_the_whole():
    plan = (
        TopDown.from_preset("redistricting-2020-pr").on(Domain(PERSONS, full_tree(LEVELS[1:]))).plan
    )
    found = {(one.level, one.query): rho(one, PERSON) / RHO for one in plan}
    assert len(plan) == 54
    assert sum(found.values()) == 1
    assert found["state", "cells"] == Fraction(689, 4099) * Fraction(25, 342)
    assert found["state", "votingage*hispanic*cenrace"] == Fraction(689, 4099) * Fraction(56, 513)
    assert found["tract", "total"] == Fraction(772, 4099) * Fraction(1467, 4102)
    assert found["block_group", "cells"] == Fraction(1778, 4099) * Fraction(1417, 4103)
    assert ("state", "total") not in found


@pytest.mark.parametrize(
    ("name", "levels", "sigmas"),
    [
        ("h1-2020-us", LEVELS, (52.3, 52.3, 12.5, 6.13, 5.58, 10.5)),
        ("h1-2020-pr", LEVELS[1:], (48.1, 12.5, 6.09, 5.58, 10.5)),
    ],
)
def test_housing_units_have_one_query_and_shares_by_level(name, levels, sigmas):
    plan = TopDown.from_preset(name).on(Domain(HOMES, full_tree(levels))).plan
    assert [one.level for one in plan] == list(levels)
    assert sum(rho(one, HOME) for one in plan) == RHO_OF_HOMES
    for one, sigma in zip(plan, sigmas, strict=True):
        assert one.law.variance**0.5 == pytest.approx(sigma, rel=0.006)


@pytest.mark.parametrize("name", ["redistricting-2020-us", "h1-2020-us"])
def test_shares_sum_to_1_on_every_path_of_a_spine_with_only_children(name):
    blocks, units, persons = tables()
    schema, people = PERSONS, read_persons_2020(persons, blocks=blocks, units=units)
    if name == "h1-2020-us":
        schema, people = HOMES, read_units_2020(units, blocks=blocks)
    mechanism = TopDown.from_preset(name)
    tree = mechanism.tree(people.geography)
    shares = mechanism.unit_shares(tree)
    assert shares is not None
    assert len(shares.paths) > 1
    own = {level: shares.classes(level) for level in tree.levels}
    for leaf in range(tree.size(tree.leaf)):
        on_path = [own[level][1][tree.ancestors(level)[leaf]] for level in tree.levels]
        whole = sum(own[level][0][k] for level, k in zip(tree.levels, on_path, strict=True))
        assert whole == 1
    assert any((own[level][1] == 0).any() for level in tree.levels)
    loss = mechanism.on(Domain(schema, people.geography)).guarantee.losses[0]
    assert (loss.unit, loss.amount) == (mechanism.unit, mechanism.rho)


def test_a_share_that_is_not_moved_up_is_refused(monkeypatch: pytest.MonkeyPatch):
    blocks, units, persons = tables()
    people = read_persons_2020(persons, blocks=blocks, units=units)
    right = UnitShares.classes

    def forgets(self: UnitShares, level: str):
        shares, own = right(self, level)
        return shares, np.minimum(own, 1)

    monkeypatch.setattr(UnitShares, "classes", forgets)
    with pytest.raises(PrivacyError, match="found paths with other sums of shares, expected 1"):
        TopDown.from_preset("redistricting-2020-us").on(Tabulated.of(people).counts.domain).check(
            Tabulated.of(people).counts
        )


def test_a_schema_without_the_structural_zero_is_refused():
    people = read_persons_2020(tables()[2], blocks=tables()[0], units=tables()[1])
    wider = replace(people.domain, schema=Schema(PERSONS.attributes))
    allowed = replace(people, domain=wider)
    with pytest.raises(ConfigError, match=r"a schema that allows hhgq in \['nursing'\], votingage"):
        TopDown.from_preset("redistricting-2020-us").on(Tabulated.of(allowed).counts.domain).check(
            Tabulated.of(allowed).counts
        )


@pytest.mark.parametrize(
    ("name", "state"), [("redistricting-2020-us", ""), ("redistricting-2020-pr", "72")]
)
def test_people_are_protected_within_their_states_and_living_quarters(name, state):
    blocks, units, persons = tables(state=state)
    whole: TopLevel = "state" if state else "us"
    people = read_persons_2020(persons, blocks=blocks, units=units, whole=whole)
    truth = Tabulated.of(people)
    made: Any = protect(truth, TopDown.from_preset(name), seed=1).as_counts().tables
    leaf, states = made["block"].toarray(), made["state"].toarray()
    assert (states.sum(axis=1) == truth.counts.at("state").totals()).all()
    assert (leaf != truth.counts.dense()).any()
    quarters = people.quarters
    assert quarters is not None
    stand = quarters.occupied.copy()
    stand[:, 0] += quarters.vacant
    by_type = leaf.reshape(len(leaf), 8, -1).sum(axis=2)
    assert (by_type >= stand * [0, 1, 1, 1, 1, 1, 1, 1]).all()
    assert (by_type <= 99_999 * stand).all()
    assert not leaf[:, ~PERSONS.possible].any()


@pytest.mark.parametrize(("name", "state"), [("h1-2020-us", ""), ("h1-2020-pr", "72")])
def test_housing_units_of_every_block_are_exact_and_which_are_vacant_is_not(name, state):
    blocks, units, _ = tables(state=state)
    homes = read_units_2020(units, blocks=blocks, whole="state" if state else "us")
    truth = Tabulated.of(homes)
    tables_of: Any = protect(truth, TopDown.from_preset(name), seed=1).as_counts().tables
    made = tables_of["block"].toarray()
    assert (made.sum(axis=1) == truth.counts.totals()).all()
    assert (made != truth.counts.dense()).any()
    assert made.min() >= 0


def test_the_guarantee_names_the_neighbours():
    blocks, units, persons = tables()
    people = read_persons_2020(persons, blocks=blocks, units=units)
    said = (
        TopDown.from_preset("redistricting-2020-us").on(Domain(PERSONS, people.geography)).guarantee
    )
    assert said.unit_means == (
        "one record is changed, or moved, within one state; neighbours agree in all that is "
        "released without noise",
    )
    homes = TopDown.from_preset("h1-2020-us").on(Domain(HOMES, people.geography)).guarantee
    assert homes.unit_means == (
        "a record is a housing unit, and a person who moves changes two of them at most: the home "
        "that is left and the one that is entered",
        "the status of one housing unit changes, or those of the two homes between which a person "
        "moves; neighbours agree in all that is released without noise",
    )
    assert homes.released_exactly == ("the number of housing units of every block",)


def test_housing_units_with_other_exact_counts_have_neighbours_and_counts_of_their_own():
    preset = TopDown.from_preset("h1-2020-us")
    by_state = replace(preset, invariant=(Invariant(query="total", level="state"),))
    said = by_state.on(Domain(HOMES, full_tree())).guarantee
    assert said.unit_means[-1].startswith(
        "one housing unit is changed, or moved, within one state, or two are: the homes between "
        "which a person moves; neighbours agree"
    )
    assert said.released_exactly == ("the number of housing units of every state",)
    queries = (*preset.queries, ("status", Marginal(by=("h1",))))
    exact = (Invariant(query="status", level="state"),)
    by_status = replace(preset, queries=queries, invariant=exact)
    assert by_status.on(Domain(HOMES, full_tree())).guarantee.released_exactly == (
        "the number of housing units by 'status' of every state",
    )
    exact = (Invariant(query="total", level="block"),)
    default = TopDown(rho=Fraction(1), unit=HOME, invariant=exact)
    assert default.on(Domain(HOMES, full_tree())).guarantee.released_exactly == (
        "the number of housing units of every block",
    )


def test_a_person_who_moves_has_twice_the_rho_of_a_housing_unit():
    losses = TopDown.from_preset("h1-2020-us").on(Domain(HOMES, full_tree())).guarantee.losses
    assert [(loss.unit, loss.amount) for loss in losses] == [
        (HOME, RHO_OF_HOMES),
        (PERSON, 2 * RHO_OF_HOMES),
    ]


@pytest.mark.parametrize("unit", ["change-one", "add-remove"])
def test_records_of_housing_units_are_not_called_people(unit):
    blocks, units, persons = tables()
    homes = read_units_2020(units, blocks=blocks)
    wrong = TopDown(rho=Fraction(1), unit=unit)
    with pytest.raises(ConfigError, match=f"unit: found '{unit}' for records of housing units"):
        Chain.of(wrong).on(homes.domain).check_people(homes)
    people = read_persons_2020(persons, blocks=blocks, units=units)
    with pytest.raises(ConfigError, match=r"unit: found 'housing-unit-change-one' for .* people"):
        Chain.of(TopDown.from_preset("h1-2020-us")).on(people.domain).check_people(people)


def test_people_are_not_placed_in_homes_of_which_nobody_may_know_the_vacant_ones():
    offered = TopDown.from_preset("redistricting-2020-us").publications()
    assert sorted(offered) == ["mdf", "measurements"]
    assert sorted(TopDown.from_preset("h1-2020-us").publications()) == ["mdf", "measurements"]
    plain = TopDown.from_preset("e2e-2018", epsilon=1).publications()
    assert sorted(plain) == ["mdf", "measurements", "microdata"]
    exact = TopDown.from_preset("redistricting-2020-us").on(Domain(PERSONS, full_tree())).guarantee
    assert exact.released_exactly[1] == (
        "the number of living quarters of each type ('hhgq'), vacant homes among them, everywhere"
    )


def test_one_state_alone_is_measured_with_the_nation_and_its_total_is_not_asked():
    blocks, units, persons = tables(state="44")
    people = read_persons_2020(persons, blocks=blocks, units=units)
    mechanism = TopDown.from_preset("redistricting-2020-us")
    mechanism.on(Tabulated.of(people).counts.domain).check(Tabulated.of(people).counts)
    plan = mechanism.on(Domain(PERSONS, people.geography)).plan
    assert "state" not in {one.level for one in plan}
    shares = {rho(one, PERSON) / RHO for one in plan if (one.level, one.query) == ("us", "cells")}
    assert shares == {Fraction(104 + 1440, 4099) * Fraction(3213, 4097)}
    assert mechanism.on(Domain(PERSONS, people.geography)).guarantee.losses[0].amount == RHO


@pytest.mark.parametrize(
    ("name", "epsilon"), [("ppmf-2021-04-12", 10.30), ("ppmf-2021-04-4", 4.00)]
)
def test_the_demonstration_data_of_april_2021_have_the_loss_that_was_announced(name, epsilon):
    mechanism = TopDown.from_preset(name)
    plan = mechanism.on(Domain(PERSONS, full_tree())).plan
    of_all = sum((rho(one, PERSON) for one in plan), Fraction(0))
    loss = ZCDPLoss(rho=of_all, unit=PERSON)
    found = zcdp_to_approximate(loss, delta=Fraction(1, 10**10)).value
    assert isinstance(found, ApproximateLoss)
    assert round(float(found.epsilon), 2) == epsilon
    # By level, of 1,024: and a total is measured before the rest where it has a large share.
    shares = {
        level: sum(rho(one, PERSON) for one in plan if one.level == level) / of_all * 1024
        for level in OF_LEVELS
    }
    assert list(shares.values()) == [51, 153, 78, 51, 172, 519]
    totals = {one.level: rho(one, PERSON) for one in plan if one.query == "total"}
    fitted = {level for level, passes in mechanism.passes if passes.fit}
    assert fitted == {level for level, share in totals.items() if share > of_all / 100}
    assert "us" not in totals
