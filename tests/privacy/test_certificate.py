"""What of a loss concerns one attribute or place: the certificates of the 2020 census."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from headcount.domain import Domain
from headcount.geography.spine import LEVELS
from headcount.privacy import DEFAULT_UNIT, UnitOfPrivacy, ZCDPLoss, zcdp_to_approximate
from headcount.privacy.loss import MeasuredLoss, attribute_losses, leaf_losses
from headcount.schema.load import load_schema
from headcount.topdown.mechanism import TopDown
from tests.topdown.presets_2020 import full_tree

PERSONS = TopDown.from_preset("redistricting-2020-us")
SCHEMA = load_schema("redistricting-2020")
CERTIFICATE = PERSONS.on(Domain(SCHEMA, full_tree())).certificate
EPSILON = "epsilon at delta 1e-10"


def test_rhos_of_persons_and_units_have_the_published_epsilons():
    homes = TopDown.from_preset("h1-2020-us")
    for mechanism, scale, published in (
        (PERSONS, Fraction(339, 542), 17.14),
        (homes, Fraction(12343, 3379), 2.47),
    ):
        loss = mechanism.loss
        assert isinstance(loss, ZCDPLoss)
        assert loss.rho == 1 / scale**2
        found = float(zcdp_to_approximate(loss, delta="1e-10").value.amount)
        assert round(found, 2) == published
    assert float(Fraction(17849145, 1041158)) == pytest.approx(CERTIFICATE["whole"][EPSILON])


@pytest.mark.parametrize(
    ("attribute", "published"),
    [("hhgq", 7.24), ("votingage", 7.57), ("hispanic", 10.04), ("cenrace", 10.08)],
)
def test_attributes_have_the_epsilons_of_the_certificate(attribute: str, published: float):
    found = CERTIFICATE["of a change of one attribute"]
    assert tuple(sorted(found)) == tuple(sorted(SCHEMA.names))
    assert round(found[attribute][EPSILON], 2) == published


@pytest.mark.parametrize(
    ("level", "published"),
    [("block_group", 2.93), ("tract", 9.38), ("county", 11.70), ("state", 13.05), ("us", 16.89)],
)
def test_a_block_within_a_larger_place_has_the_epsilon_of_the_certificate(
    level: str, published: float
):
    found = CERTIFICATE["of a block within"]
    assert tuple(found) == LEVELS[:-1]
    assert round(found[level][EPSILON], 2) == published


def test_losses_are_exact_fractions_and_say_how_they_became_epsilons():
    found = CERTIFICATE["of a block within"]["block_group"]
    assert Fraction(found["rho"]) == Fraction(542, 339) ** 2 * Fraction(165, 4099)
    assert "corollary 13" in found["by"]


def test_a_housing_unit_and_a_person_are_told_apart():
    homes = TopDown.from_preset("h1-2020-us")
    found = homes.on(Domain(load_schema("h1-2020"), full_tree())).certificate
    assert found["unit"] == UnitOfPrivacy.HOUSING_UNIT_CHANGE_ONE
    assert round(found["of a change of one attribute"]["h1"][EPSILON], 2) == 2.47


def test_nothing_is_said_of_moves_where_every_block_keeps_its_number_of_records():
    homes = TopDown.from_preset("h1-2020-us")
    found = homes.on(Domain(load_schema("h1-2020"), full_tree())).certificate
    assert sorted(found) == ["of a change of one attribute", "unit", "whole"]
    free = replace(homes, invariant=()).on(Domain(load_schema("h1-2020"), full_tree())).certificate
    assert tuple(free["of a block within"]) == LEVELS[:-1]


def test_places_on_a_spine_are_said_to_be_units_of_it():
    assert CERTIFICATE["places are"].startswith("units of the spine, not published places: a move")
    plain = TopDown.from_preset("e2e-2018", epsilon=1)
    tree = full_tree(("nation", "state", "district"))
    found = plain.on(Domain(load_schema("e2e-2018"), tree)).certificate
    assert "of a district within" in found
    assert "places are" not in found


def test_the_largest_sum_along_a_path_is_stated():
    """Two paths: queries of other levels than the first, with shares of their own."""

    def one(level: str, query: str, rho: int, *paths: int) -> MeasuredLoss:
        loss = ZCDPLoss(rho=Fraction(rho), unit=DEFAULT_UNIT)
        return MeasuredLoss(level=level, query=query, loss=loss, paths=frozenset(paths) or None)

    measured = [one("top", "age", 1), one("low", "age", 2, 0), one("low", "sex", 5, 1)]
    shows = {"age": ("age",), "sex": ("sex",)}
    found = attribute_losses(measured, shows=shows)
    assert {name: loss.amount for name, loss in found.items()} == {"age": 3, "sex": 5}
    assert leaf_losses(measured, levels=("top", "low"))["top"].amount == 5


def test_both_products_together_cost_a_person_less_than_the_published_sum():
    """The sum of epsilons as the Bureau published it, and rhos added up first (docs)."""
    persons, homes = PERSONS.rho, TopDown.from_preset("h1-2020-us").rho
    assert persons is not None
    assert homes is not None

    def epsilon(rho: Fraction) -> float:
        loss = ZCDPLoss(rho=rho, unit=DEFAULT_UNIT)
        return round(float(zcdp_to_approximate(loss, delta="1e-10").value.amount), 2)

    assert epsilon(persons) + epsilon(homes) == pytest.approx(19.61)
    assert epsilon(2 * homes) == 3.57
    assert epsilon(persons + 2 * homes) == 17.72


def test_the_report_on_the_distance_to_the_truth_is_part_of_the_whole():
    mechanism = TopDown.from_preset("e2e-2018", epsilon=1)
    schema, tree = load_schema("e2e-2018"), full_tree(("nation", "state", "district"))
    found = mechanism.on(Domain(schema, tree)).certificate
    (loss, *_) = mechanism.on(Domain(schema, tree)).guarantee.losses
    assert Fraction(found["whole"]["epsilon"]) == loss.amount == Fraction(10_001, 10_000)
