"""What counts against a total, and how; every direction that is not valid is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import PrivacyError
from headcount.privacy import (
    ApproximateLoss,
    Loss,
    PureLoss,
    UnitOfPrivacy,
    ZCDPLoss,
    zcdp_to_approximate,
)
from headcount.privacy.convert import charge, used

ADD_REMOVE, CHANGE_ONE = UnitOfPrivacy.ADD_REMOVE, UnitOfPrivacy.CHANGE_ONE


def pure(amount: str, unit: UnitOfPrivacy) -> PureLoss:
    return PureLoss(epsilon=Fraction(amount), unit=unit)


def rho(amount: str, unit: UnitOfPrivacy) -> ZCDPLoss:
    return ZCDPLoss(rho=Fraction(amount), unit=unit)


def approximate(amount: str, unit: UnitOfPrivacy) -> ApproximateLoss:
    return ApproximateLoss(epsilon=Fraction(amount), delta=Fraction(1, 10**10), unit=unit)


DOUBLED = "change-one epsilon = 2 x add-remove epsilon"
HALF_SQUARE = "rho = epsilon^2 / 2"


@pytest.mark.parametrize(
    ("loss", "total", "amount", "method"),
    [
        (pure("1/3", ADD_REMOVE), pure("1", ADD_REMOVE), "1/3", ""),
        (pure("1/3", ADD_REMOVE), pure("1", CHANGE_ONE), "2/3", DOUBLED),
        (rho("1/3", CHANGE_ONE), rho("1", CHANGE_ONE), "1/3", ""),
        (pure("1/3", CHANGE_ONE), rho("1", CHANGE_ONE), "1/18", HALF_SQUARE),
        (
            pure("1/3", ADD_REMOVE),
            rho("1", CHANGE_ONE),
            "2/9",
            f"{DOUBLED}, then {HALF_SQUARE}",
        ),
        (rho("1/3", CHANGE_ONE), approximate("1", CHANGE_ONE), "1/3", ""),
        (pure("1", ADD_REMOVE), approximate("1", ADD_REMOVE), "1/2", HALF_SQUARE),
    ],
)
def test_valid_directions(loss: Loss, total: Loss, amount: str, method: str):
    found = charge(loss, total=total)
    assert (found.amount, found.method) == (Fraction(amount), method)


@pytest.mark.parametrize(
    ("loss", "total", "message"),
    [
        (
            rho("1", CHANGE_ONE),
            pure("1", CHANGE_ONE),
            "against a total in epsilon, expected a pure epsilon: an epsilon bounds a rho",
        ),
        (
            approximate("1", CHANGE_ONE),
            pure("1", CHANGE_ONE),
            "found epsilon at delta against a total in epsilon, expected a pure epsilon",
        ),
        (
            approximate("1", CHANGE_ONE),
            rho("1", CHANGE_ONE),
            "found epsilon at delta against a total in rho, expected a rho or a pure epsilon",
        ),
        (
            approximate("1", CHANGE_ONE),
            approximate("9", CHANGE_ONE),
            "rhos are summed before they are converted at the total's delta",
        ),
        (
            pure("1", CHANGE_ONE),
            pure("9", ADD_REMOVE),
            "a change-one guarantee does not bound what adding or removing a person shows",
        ),
        (
            rho("1", CHANGE_ONE),
            rho("9", ADD_REMOVE),
            "found rho for 'change-one' against a total for 'add-remove'",
        ),
        (
            rho("1", ADD_REMOVE),
            rho("9", CHANGE_ONE),
            "only a pure add-remove epsilon converts. State the loss for 'change-one'",
        ),
    ],
)
def test_other_directions_are_refused(loss: Loss, total: Loss, message: str):
    with pytest.raises(PrivacyError) as error:
        charge(loss, total=total)
    assert message in str(error.value)


def test_rhos_are_summed_before_they_are_converted():
    total = approximate("20", CHANGE_ONE)
    parts = [Fraction(1, 3), Fraction(2, 3), Fraction(1)]
    found = used(parts, total=total)
    whole = zcdp_to_approximate(rho("2", CHANGE_ONE), delta=total.delta)
    assert found.amount == whole.value.amount
    assert found.method == f"rhos summed, then {whole.method}"
    apart = sum(
        zcdp_to_approximate(ZCDPLoss(rho=part, unit=CHANGE_ONE), delta=total.delta).value.amount
        for part in parts
    )
    assert found.amount < apart * Fraction(7, 10)  # converting first would refuse far too early


@given(st.lists(st.fractions(min_value=Fraction(1, 10**6), max_value=10), max_size=8))
@settings(max_examples=50, deadline=None)
def test_sums_are_exact_and_converted_sums_never_fall(parts):
    assert used(parts, total=rho("1", CHANGE_ONE)).amount == sum(parts, Fraction(0))
    converted = [
        used(parts[:size], total=approximate("1", CHANGE_ONE)).amount
        for size in range(len(parts) + 1)
    ]
    assert converted == sorted(converted)
    assert converted[0] == 0


HOUSING_UNIT = UnitOfPrivacy.HOUSING_UNIT_CHANGE_ONE


@pytest.mark.parametrize("unit", [ADD_REMOVE, CHANGE_ONE])
@pytest.mark.parametrize("loss", [pure, rho])
def test_losses_of_housing_units_and_of_people_are_never_charged_for_each_other(loss, unit):
    """A release of housing units states what it costs a person: that is charged, as it is."""
    said = "losses of persons and of housing units do not convert"
    for one, total in ((HOUSING_UNIT, unit), (unit, HOUSING_UNIT)):
        with pytest.raises(PrivacyError, match=said):
            charge(loss("1/3", one), total=loss("1", total))
    assert charge(loss("1/3", HOUSING_UNIT), total=loss("1", HOUSING_UNIT)).amount == Fraction(1, 3)
