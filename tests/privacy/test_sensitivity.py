"""Sensitivity against brute force over all small databases; noise parameters in closed form."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import pytest

from headcount.errors import PrivacyError
from headcount.privacy import (
    PureLoss,
    UnitOfPrivacy,
    ZCDPLoss,
    gaussian_variance,
    geometric_rate,
    marginal_sensitivity,
)

ADD_REMOVE, CHANGE_ONE = UnitOfPrivacy.ADD_REMOVE, UnitOfPrivacy.CHANGE_ONE


def brute_force(*, unit: UnitOfPrivacy, units: int, cells: int, covers_everyone: bool):
    """Compare every database of at most two people with every neighbour."""
    columns = [*range(cells)] if covers_everyone else [*range(cells), None]
    records = list(itertools.product(range(units), columns))
    worst = (0, 0)
    for size in range(3):
        for people in itertools.product(records, repeat=size):
            if unit is ADD_REMOVE:
                neighbours = [(*people, record) for record in records]
            else:
                neighbours = [(*people[:-1], record) for record in records] if people else []
            for other in neighbours:
                before, after = Counter(people), Counter(other)
                steps = [
                    abs(before[entry] - after[entry])
                    for entry in itertools.product(range(units), range(cells))
                ]
                worst = max(worst, (sum(steps), sum(step**2 for step in steps)))
    return worst


@pytest.mark.parametrize("unit", UnitOfPrivacy)
@pytest.mark.parametrize("units", [1, 2, 3])
@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("covers_everyone", [True, False])
def test_sensitivity_is_what_brute_force_finds(unit, units, cells, covers_everyone):
    shape = {"unit": unit, "units": units, "cells": cells, "covers_everyone": covers_everyone}
    found = marginal_sensitivity(**shape)
    assert (found.l1, found.l2_squared) == brute_force(**shape)


def test_a_level_without_units_is_refused():
    with pytest.raises(PrivacyError, match="found 0 units and 4 cells, expected at least one"):
        marginal_sensitivity(unit=ADD_REMOVE, units=0, cells=4)


@pytest.mark.parametrize(
    ("epsilon", "p", "variance"),
    [
        ("0.00625", 0.0031201, 204_799.8),
        ("0.0140625", 0.0070066, 40_454.2),
        ("0.0421875", 0.0208728, 4_494.8),
    ],
)
def test_geometric_rates_of_the_2018_test_on_1940_data(epsilon, p, variance):
    """Closed form: p = 1 - exp(-rate), variance = 2 (1 - p) / p^2, to every published digit."""
    moved = marginal_sensitivity(unit=CHANGE_ONE, units=49, cells=192)
    rate = geometric_rate(PureLoss(epsilon=Fraction(epsilon), unit=CHANGE_ONE), sensitivity=moved)
    assert rate == Fraction(epsilon) / 2
    found = -math.expm1(-rate)
    assert round(found, 7) == p
    assert round(2 * (1 - found) / found**2, 1) == variance


def test_gaussian_variance_is_the_inverse_of_rho_when_a_record_changes():
    rho = Fraction(293764, 114921) * Fraction(104, 4099) * Fraction(3213, 4097)
    moved = marginal_sensitivity(unit=CHANGE_ONE, units=1, cells=2016)
    variance = gaussian_variance(ZCDPLoss(rho=rho, unit=CHANGE_ONE), sensitivity=moved)
    assert variance == 1 / rho
    assert round(math.sqrt(variance), 2) == 4.43  # published for the nation's detailed query
    added = marginal_sensitivity(unit=ADD_REMOVE, units=1, cells=2016)
    assert gaussian_variance(ZCDPLoss(rho=rho, unit=ADD_REMOVE), sensitivity=added) == 1 / (2 * rho)


def test_noise_for_the_root_total_is_refused_when_records_only_change():
    total = marginal_sensitivity(unit=CHANGE_ONE, units=1, cells=1)
    assert (total.l1, total.l2_squared) == (0, 0)
    with pytest.raises(PrivacyError, match=r"sensitivity 0, .* Give it no share"):
        geometric_rate(PureLoss(epsilon=Fraction(1), unit=CHANGE_ONE), sensitivity=total)
    with pytest.raises(PrivacyError, match="sensitivity 0"):
        gaussian_variance(ZCDPLoss(rho=Fraction(1), unit=CHANGE_ONE), sensitivity=total)


def test_loss_and_sensitivity_must_have_one_unit():
    added = marginal_sensitivity(unit=ADD_REMOVE, units=2, cells=2)
    with pytest.raises(
        PrivacyError, match="a loss for 'change-one' and a sensitivity for 'add-remove'"
    ):
        geometric_rate(PureLoss(epsilon=Fraction(1), unit=CHANGE_ONE), sensitivity=added)
