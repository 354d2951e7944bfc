"""Losses: exact numbers in three currencies, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import PrivacyError
from headcount.privacy import ApproximateLoss, Loss, PureLoss, UnitOfPrivacy, ZCDPLoss
from headcount.privacy.loss import decimal, exact, figure, from_record, scaled, to_record

UNIT = UnitOfPrivacy.CHANGE_ONE
fractions = st.fractions(min_value=Fraction(1, 10**9), max_value=10**6)
units = st.sampled_from(UnitOfPrivacy)
losses = st.one_of(
    st.builds(PureLoss, epsilon=fractions, unit=units),
    st.builds(ZCDPLoss, rho=fractions, unit=units),
    st.builds(
        ApproximateLoss,
        epsilon=fractions,
        delta=st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(1, 2)),
        unit=units,
    ),
)


def test_numbers_are_taken_at_their_word():
    for given_number in ("0.1", "1/10", Decimal("0.1"), Fraction(1, 10), "1e-1"):
        assert exact(given_number, name="x") == Fraction(1, 10)
    assert exact(np.int64(3), name="x") == 3


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (0.1, "epsilon: found 0.1 (float), expected an exact number"),
        (np.float64(0.5), "(float64), expected an exact number"),
        (True, "epsilon: found True (bool)"),
        ("many", "epsilon: found 'many', expected a finite number"),
        ("1/0", "epsilon: found '1/0', expected a finite number"),
        (Decimal("nan"), "expected a finite number"),
        (Decimal("inf"), "expected a finite number"),
        (None, "epsilon: found None, expected a finite number"),
        (0, "epsilon: found 0, expected a number above 0"),
        ("-1/8", "epsilon: found -1/8, expected a number above 0"),
    ],
)
def test_what_is_not_an_exact_positive_number_is_refused(value, found):
    with pytest.raises(PrivacyError) as error:
        PureLoss(epsilon=value, unit=UNIT)
    assert found in str(error.value)


def test_rho_and_delta_are_checked_too():
    with pytest.raises(PrivacyError, match=r"rho: found 0\.5 \(float\)"):
        ZCDPLoss(rho=0.5, unit=UNIT)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="delta: found 0, expected a number above 0"):
        ApproximateLoss(epsilon=Fraction(1), delta=Fraction(0), unit=UNIT)
    with pytest.raises(PrivacyError, match="delta: found 1, expected a number below 1"):
        ApproximateLoss(epsilon=Fraction(1), delta=Fraction(1), unit=UNIT)
    with pytest.raises(PrivacyError, match="epsilon: found -1, expected a number of at least 0"):
        ApproximateLoss(epsilon=Fraction(-1), delta=Fraction(1, 2), unit=UNIT)


@given(losses)
def test_records_and_reprs_round_trip(loss: Loss):
    assert from_record(to_record(loss)) == loss
    assert eval(repr(loss)) == loss


def test_a_share_of_epsilon_and_delta_is_refused():
    assert scaled(ZCDPLoss(rho=Fraction(3), unit=UNIT), Fraction(1, 3)) == ZCDPLoss(
        rho=Fraction(1), unit=UNIT
    )
    whole = ApproximateLoss(epsilon=Fraction(1), delta=Fraction(1, 100), unit=UNIT)
    with pytest.raises(PrivacyError, match=r"share of a loss: .* expected a pure epsilon or a rho"):
        scaled(whole, Fraction(1, 2))  # type: ignore[arg-type]


def test_losses_in_words_name_currency_and_unit():
    assert str(ZCDPLoss(rho=Fraction(1, 8), unit=UNIT)) == (
        "rho 0.125 when one person's record changes"
    )
    whole = ApproximateLoss(epsilon=Fraction(3), delta=Fraction(1, 10**10), unit=UNIT)
    assert str(whole) == "epsilon 3 at delta 1e-10 when one person's record changes"
    assert decimal(Fraction(1, 3)) == "~0.333333"
    assert figure(Fraction(1, 3)) == "1/3 (~0.333333)"
    assert figure(Fraction(1, 8)) == "0.125"
    assert figure(Fraction(17.1435507)) == "~17.1436"


def test_a_loss_larger_than_any_float_can_be_written():
    assert decimal(Fraction(10) ** 400 / 3) == "~3.33333e+399"
