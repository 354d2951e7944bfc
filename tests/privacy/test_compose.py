"""Composition: exact sums, and nothing mixed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import PrivacyError
from headcount.privacy import (
    ApproximateLoss,
    PureLoss,
    UnitOfPrivacy,
    ZCDPLoss,
    along_paths,
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


def test_measurements_side_by_side_cost_the_largest_sum_along_a_path():
    everywhere, first, second = None, frozenset({0}), frozenset({1})
    plan = [
        (rho("1"), everywhere),
        (rho("3"), first),
        (rho("5"), second),
        (rho("1"), first | second),
    ]
    found = along_paths(plan)
    assert found is not None
    assert found.amount == 7  # 1 + 5 + 1, where all together are 10
    assert along_paths([]) is None


@given(st.integers(0, 2**32 - 1))
def test_no_pair_of_leaves_costs_more_than_the_largest_path(seed: int):
    """Brute force: the squared distances of all moves of one record, unit by unit."""
    draw = np.random.default_rng(seed)
    parent = np.sort(draw.integers(0, 3, 5))
    own = [Fraction(int(one), 7) for one in draw.integers(0, 9, 1 + 3 + 5)]  # 1/s^2 of each unit
    of_leaf = [{0, 1 + int(p), 4 + k} for k, p in enumerate(parent)]
    worst = Fraction(0)
    for a in of_leaf:
        for b in of_leaf:
            squared = {u: 2 if u in a and u in b else 1 for u in a | b}
            worst = max(worst, sum((own[u] * squared[u] / 2 for u in squared), Fraction(0)))
    plan = [
        (
            rho(str(amount), CHANGE_ONE),
            frozenset(k for k, units in enumerate(of_leaf) if number in units),
        )
        for number, amount in enumerate(own)
        if amount
    ]
    stated = along_paths(plan)
    assert (stated.amount if stated else 0) == worst
