"""Conversions: published figures, a formula as oracle, and directions that do not exist."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from headcount.errors import PrivacyError
from headcount.privacy import (
    ApproximateLoss,
    PureLoss,
    UnitOfPrivacy,
    ZCDPLoss,
    add_remove_to_change_one,
    pure_to_zcdp,
    zcdp_to_approximate,
)

UNIT = UnitOfPrivacy.CHANGE_ONE
PERSONS = Fraction(293764, 114921)
HOUSING = Fraction(11417641, 152349649)


def formula(rho: Fraction, delta: float) -> float:
    """Minimise rho alpha + log(1 - 1/alpha) - log(delta alpha) / (alpha - 1) over alpha > 1."""
    from scipy.optimize import minimize_scalar

    def epsilon(log_excess: float) -> float:
        alpha = 1 + math.exp(log_excess)
        tail = math.log(delta * alpha) / (alpha - 1)
        return float(rho) * alpha + math.log1p(-1 / alpha) - tail

    return max(0.0, float(minimize_scalar(epsilon, bounds=(-4, 14), method="bounded").fun))


@pytest.mark.parametrize("accountant", ["opendp", "dp-accounting"])
@pytest.mark.parametrize(("rho", "epsilon"), [(PERSONS, 17.14), (HOUSING, 2.47)])
def test_the_published_epsilons_of_the_2020_census(accountant, rho, epsilon):
    loss = ZCDPLoss(rho=rho, unit=UNIT)
    found = zcdp_to_approximate(loss, delta="1e-10", accountant=accountant)
    assert isinstance(found.value, ApproximateLoss)
    assert round(float(found.value.epsilon), 2) == epsilon
    assert found.value.delta == Fraction(1, 10**10)
    assert found.value.unit is UNIT
    assert found.source == loss


@pytest.mark.parametrize("accountant", ["opendp", "dp-accounting"])
@pytest.mark.parametrize("rho", ["0.001", "0.1", "2", "50"])
@pytest.mark.parametrize("delta", ["1e-5", "1e-12"])
def test_both_accountants_agree_with_the_formula(accountant, rho, delta):
    loss = ZCDPLoss(rho=Fraction(rho), unit=UNIT)
    found = zcdp_to_approximate(loss, delta=delta, accountant=accountant).value.amount
    expected = formula(loss.rho, float(delta))
    assert expected - 1e-6 <= float(found) <= expected * 1.0001


def test_the_method_stands_beside_the_number():
    loss = ZCDPLoss(rho=HOUSING, unit=UNIT)
    assert "OpenDP" in zcdp_to_approximate(loss, delta="1e-10").method
    by_orders = zcdp_to_approximate(loss, delta="1e-10", accountant="dp-accounting")
    assert "dp-accounting" in by_orders.method
    assert "RDP" in by_orders.method
    assert str(pure_to_zcdp(PureLoss(epsilon=Fraction(1), unit=UNIT))) == (
        "rho 0.5 when one person's record changes (from epsilon 1 when one person's record "
        "changes, by rho = epsilon^2 / 2)"
    )


def test_opendp_features_are_left_as_they_were():
    from opendp.mod import GLOBAL_FEATURES

    before = set(GLOBAL_FEATURES)
    zcdp_to_approximate(ZCDPLoss(rho=Fraction(1), unit=UNIT), delta="1e-10")
    assert before == GLOBAL_FEATURES


def test_pure_to_rho_is_exact_and_agrees_with_opendp():
    import opendp.prelude as dp

    from headcount.privacy.convert import _opendp_features

    found = pure_to_zcdp(PureLoss(epsilon=Fraction(3), unit=UNIT))
    assert found.value == ZCDPLoss(rho=Fraction(9, 2), unit=UNIT)
    with _opendp_features("contrib", "honest-but-curious"):
        carrier = dp.m.make_user_measurement(
            dp.atom_domain(T=int),
            dp.absolute_distance(T=int),
            dp.max_divergence(),
            lambda _: 0,
            lambda _: 3.0,
        )
        assert dp.c.make_pureDP_to_zCDP(carrier).map(1) == 4.5


def test_add_remove_doubles_into_change_one_and_there_is_no_way_back():
    loss = PureLoss(epsilon=Fraction(1, 8), unit=UnitOfPrivacy.ADD_REMOVE)
    found = add_remove_to_change_one(loss)
    assert found.value == PureLoss(epsilon=Fraction(1, 4), unit=UNIT)
    assert found.method == "change-one epsilon = 2 x add-remove epsilon"
    with pytest.raises(
        PrivacyError, match="found a loss for 'change-one', expected one for 'add-remove'"
    ):
        add_remove_to_change_one(PureLoss(epsilon=Fraction(1), unit=UNIT))


def test_directions_that_do_not_exist_are_refused():
    rho = ZCDPLoss(rho=Fraction(1), unit=UNIT)
    with pytest.raises(
        PrivacyError, match=r"pure epsilon to rho: found rho 1 .*no such conversion"
    ):
        pure_to_zcdp(rho)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="add-remove to change-one: found rho 1"):
        add_remove_to_change_one(rho)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match=r"rho to \(epsilon, delta\): found epsilon 1"):
        zcdp_to_approximate(PureLoss(epsilon=Fraction(1), unit=UNIT), delta="1e-9")  # type: ignore[arg-type]


def test_numbers_out_of_range_are_refused():
    rho = ZCDPLoss(rho=Fraction(1), unit=UNIT)
    with pytest.raises(PrivacyError, match="delta: found 0, expected a number above 0 and below 1"):
        zcdp_to_approximate(rho, delta=0)
    with pytest.raises(PrivacyError, match="accountant: found 'mine', expected 'opendp' or"):
        zcdp_to_approximate(rho, delta="1e-9", accountant="mine")  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match=r"OpenDP could not convert rho 1e\+06 at delta 1e-10"):
        zcdp_to_approximate(ZCDPLoss(rho=Fraction(10**6), unit=UNIT), delta="1e-10")


def test_floats_handed_to_a_library_are_rounded_towards_more_loss():
    from headcount.privacy.convert import _float_above, _float_below

    for value in (Fraction(1, 3), Fraction(2, 3), Fraction(1, 10), Fraction(1, 2)):
        assert Fraction(_float_below(value)) <= value <= Fraction(_float_above(value))
        assert math.isclose(_float_below(value), _float_above(value), rel_tol=1e-15)
