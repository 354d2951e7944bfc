"""Betting odds against Bayes' rule on whole distributions, with odds that are too small refused."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.privacy import ApproximateLoss, PureLoss, UnitOfPrivacy, ZCDPLoss
from headcount.privacy.odds import bounding_epsilon, chance_after

UNIT = UnitOfPrivacy.CHANGE_ONE
CHANCES = st.fractions(Fraction(1, 10_000), Fraction(9_999, 10_000))
EPSILONS = st.fractions(Fraction(1, 1000), Fraction(50))


@given(CHANCES, EPSILONS)
def test_the_chance_is_bayes_rule_rounded_up_by_next_to_nothing(before, epsilon):
    with mpmath.workdps(60):
        factor = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        odds = factor * before.numerator / (before.denominator - before.numerator)
        expected = odds / (1 + odds)
        found = chance_after(before, epsilon)
        over = mpmath.mpf(found.numerator) / found.denominator - expected
        assert 0 <= over < mpmath.mpf(2) ** -50


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(3)])
def test_no_posterior_of_geometric_noise_is_beyond_and_one_meets_it(epsilon):
    """Of a count that is 0 or 1: every answer, and the surest of them."""
    ratio = math.exp(-float(epsilon))

    def chance(answer: int, truth: int) -> float:
        return (1 - ratio) / (1 + ratio) * ratio ** abs(answer - truth)

    for before in (Fraction(1, 2), Fraction(1, 100)):
        posteriors = [
            float(before)
            * chance(answer, 1)
            / (float(before) * chance(answer, 1) + float(1 - before) * chance(answer, 0))
            for answer in range(-30, 31)
        ]
        bound = float(chance_after(before, epsilon))
        assert max(posteriors) == pytest.approx(bound)
        assert max(posteriors) > float(chance_after(before, epsilon * Fraction(9, 10)))


@pytest.mark.parametrize("rho", [Fraction(1, 100), Fraction(1, 8), Fraction(2)])
@pytest.mark.parametrize("delta", [Fraction(1, 1000), Fraction(1, 10**10)])
def test_gaussian_noise_is_beyond_the_epsilon_of_a_rho_no_more_often_than_stated(rho, delta):
    """A count that moves by 1, with normal noise of variance 1 / (2 rho): L is normal too."""
    found = bounding_epsilon(ZCDPLoss(rho=rho, unit=UNIT), delta=delta)
    assert found is not None

    def beyond(epsilon: float) -> float:
        return float(mpmath.erfc((epsilon - float(rho)) / (2 * math.sqrt(float(rho))))) / 2

    assert beyond(float(found)) <= float(delta)
    assert beyond(float(found) / 2) > float(delta)
    with mpmath.workdps(40):
        r = mpmath.mpf(rho.numerator) / rho.denominator
        exact = r + 2 * mpmath.sqrt(r * mpmath.log(delta.denominator))
        assert 0 <= mpmath.mpf(found.numerator) / found.denominator - exact < 1e-12


def test_a_pure_epsilon_is_itself_and_an_epsilon_at_delta_gives_no_odds():
    pure = PureLoss(epsilon=Fraction(3, 7), unit=UNIT)
    assert bounding_epsilon(pure, delta=Fraction(1, 10)) == Fraction(3, 7)
    weaker = ApproximateLoss(epsilon=Fraction(1), delta=Fraction(1, 10**6), unit=UNIT)
    assert bounding_epsilon(weaker, delta=Fraction(1, 10)) is None


def test_a_loss_beyond_any_float_bounds_nothing():
    assert chance_after(Fraction(1, 1000), Fraction(10**6)) == 1
