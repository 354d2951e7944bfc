"""Composition: exact sums, and nothing mixed."""

from __future__ import annotations

from fractions import Fraction

import pytest

from headcount.errors import PrivacyError
from headcount.privacy import (
    ApproximateLoss,
    PureLoss,
    UnitOfPrivacy,
    ZCDPLoss,
    sequential,
)

ADD_REMOVE, CHANGE_ONE = UnitOfPrivacy.ADD_REMOVE, UnitOfPrivacy.CHANGE_ONE


def pure(epsilon: str, unit: UnitOfPrivacy = ADD_REMOVE) -> PureLoss:
    return PureLoss(epsilon=Fraction(epsilon), unit=unit)


def rho(amount: str, unit: UnitOfPrivacy = ADD_REMOVE) -> ZCDPLoss:
    return ZCDPLoss(rho=Fraction(amount), unit=unit)


def approximate(epsilon: str, delta: str, unit: UnitOfPrivacy = ADD_REMOVE) -> ApproximateLoss:
    return ApproximateLoss(epsilon=Fraction(epsilon), delta=Fraction(delta), unit=unit)


def test_losses_in_sequence_add_up():
    assert sequential([pure("0.1")] * 10) == pure("1")
    assert sequential([rho("1/3", CHANGE_ONE)] * 3) == rho("1", CHANGE_ONE)
    assert sequential([approximate("1", "1e-6"), approximate("2", "1e-7")]) == approximate(
        "3", "1.1e-6"
    )


def test_nothing_is_mixed():
    with pytest.raises(PrivacyError, match="composition: found rho beside epsilon, expected one"):
        sequential([pure("1"), rho("1")])
    with pytest.raises(PrivacyError, match="'change-one' beside 'add-remove', expected one unit"):
        sequential([pure("1"), pure("1", CHANGE_ONE)])
    with pytest.raises(PrivacyError, match="composition: found no losses, expected at least one"):
        sequential([])
