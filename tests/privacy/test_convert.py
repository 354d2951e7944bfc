"""Conversions: published figures, a formula as oracle, and directions that do not exist."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

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
from headcount.privacy.convert import _best_order, _epsilon_above

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


@pytest.mark.parametrize(("rho", "epsilon"), [(PERSONS, 17.14), (HOUSING, 2.47)])
def test_the_published_epsilons_of_the_2020_census(rho, epsilon):
    loss = ZCDPLoss(rho=rho, unit=UNIT)
    found = zcdp_to_approximate(loss, delta="1e-10")
    assert isinstance(found.value, ApproximateLoss)
    assert round(float(found.value.epsilon), 2) == epsilon
    assert found.value.delta == Fraction(1, 10**10)
    assert found.value.unit is UNIT
    assert found.source == loss


def by_opendp(rho: float, delta: float) -> float:
    """The same curve as OpenDP searches it; a stand-in carries the number."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    spent = dp.m.make_user_measurement(
        dp.atom_domain(T=int),
        dp.absolute_distance(T=int),
        dp.zero_concentrated_divergence(),
        lambda _: 0,
        lambda _: rho,
    )
    curve: Any = dp.c.make_zCDP_to_approxDP(spent)
    return float(curve.map(1).epsilon(delta))


def by_dp_accounting(rho: float, delta: float) -> float:
    """The best of a fine list of orders."""
    import numpy as np
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=1 + np.geomspace(0.02, 1e6, 4000))
    return float(accountant.compose(ZCDpEvent(rho, 0.0)).get_epsilon(delta))


@pytest.mark.parametrize("peer", [formula, by_opendp, by_dp_accounting])
@pytest.mark.parametrize("rho", ["0.001", "0.1", "2", "50"])
@pytest.mark.parametrize("delta", ["1e-5", "1e-12"])
def test_the_curve_is_that_of_others(peer, rho, delta):
    loss = ZCDPLoss(rho=Fraction(rho), unit=UNIT)
    found = float(zcdp_to_approximate(loss, delta=delta).value.amount)
    expected = peer(float(rho), float(delta))
    assert expected * 0.9999 <= found <= expected * (1 + 1e-6)


@given(
    rho=st.fractions(min_value=Fraction(1, 10**12), max_value=10**6),
    delta=st.fractions(min_value=Fraction(1, 10**30), max_value=Fraction(9, 10)),
)
@example(rho=Fraction(1, 10**12), delta=Fraction(9, 10))
def test_what_is_given_holds_and_no_other_order_gives_less(rho, delta):
    with mpmath.workdps(60):

        def curve(excess):
            alpha = 1 + excess
            r, d = (mpmath.mpf(one.numerator) / one.denominator for one in (rho, delta))
            return r * alpha + mpmath.log(excess / alpha) - mpmath.log(d * alpha) / excess

        order = _best_order(rho, delta)
        epsilon = _epsilon_above(rho, delta, order)
        excess = order - 1
        held = curve(mpmath.mpf(excess.numerator) / excess.denominator)
        above = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        assert held <= above <= held + abs(held) * mpmath.mpf("1e-14") + mpmath.mpf("1e-300")
        best = min(curve(mpmath.mpf(10) ** (mpmath.mpf(k) / 16)) for k in range(-320, 321))
        best = max(best, 0)  # less than 0 is given as 0
        assert above <= best + best * mpmath.mpf("1e-9") + mpmath.mpf("1e-9")


def test_the_method_stands_beside_the_number():
    loss = ZCDPLoss(rho=HOUSING, unit=UNIT)
    assert "corollary 13, at order" in zcdp_to_approximate(loss, delta="1e-10").method
    assert str(pure_to_zcdp(PureLoss(epsilon=Fraction(1), unit=UNIT))) == (
        "rho 0.5 when one person's record changes (from epsilon 1 when one person's record "
        "changes, by rho = epsilon^2 / 2)"
    )


def test_pure_to_rho_is_exact_and_agrees_with_opendp():
    import opendp.prelude as dp

    found = pure_to_zcdp(PureLoss(epsilon=Fraction(3), unit=UNIT))
    assert found.value == ZCDPLoss(rho=Fraction(9, 2), unit=UNIT)
    dp.enable_features("contrib", "honest-but-curious")
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
