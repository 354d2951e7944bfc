"""Sensitivity against brute force over all small databases; noise parameters in closed form."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import PrivacyError
from headcount.noise import DiscreteGaussian, TwoSidedGeometric
from headcount.privacy import (
    ApproximateLoss,
    PureLoss,
    UnitOfPrivacy,
    ZCDPLoss,
    law_for,
    marginal_sensitivity,
    noise_loss,
)
from headcount.schema.schema import merged
from headcount_papers.frame.published_noise import GeometricByRatio

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


@pytest.mark.parametrize("unit", [ADD_REMOVE, CHANGE_ONE])
@pytest.mark.parametrize("units", [1, 2, 3])
@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("covers_everyone", [True, False])
def test_sensitivity_is_what_brute_force_finds(unit, units, cells, covers_everyone):
    shape = {"unit": unit, "units": units, "cells": cells, "covers_everyone": covers_everyone}
    found = marginal_sensitivity(**shape)
    assert (found.l1, found.l2_squared) == brute_force(**shape)


def tabulated(homes: list[list[int]], level_of: Sequence[int]) -> Counter[tuple[int, int]]:
    """People by their own cell and the level of their household's size."""
    return Counter(
        (own, level_of[min(len(home), len(level_of)) - 1]) for home in homes for own in home
    )


def distances(one: list[list[int]], other: list[list[int]], level_of: Sequence[int]):
    before, after = tabulated(one, level_of), tabulated(other, level_of)
    moved = [before[entry] - after[entry] for entry in before | after]
    return sum(map(abs, moved)), sum(step**2 for step in moved)


def homes_of(largest: int) -> list[list[int]]:
    """Every home of up to that many people, each of whom is a 0 or a 1."""
    return [[0] * a + [1] * (n - a) for n in range(largest + 1) for a in range(n + 1)]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_housemates_are_counted_as_brute_force_counts_them(level_of):
    """Two homes and everyone who may come, go or move between them, for any levels by size."""
    steps = merged(list(enumerate(level_of, start=1)))
    shape: Any = {"units": 2, "cells": 4, "steps": steps}
    homes = homes_of(len(level_of))
    added, changed = [], []
    for home in homes:
        for newcomer in (0, 1):
            added.append(distances([home], [[*home, newcomer]], level_of))
    for left in homes:
        for joined_by in homes:
            for before in {*left}:
                rest = list(left)
                rest.remove(before)
                for after in (0, 1):
                    moved = [rest, [*joined_by, after]]
                    changed.append(distances([left, joined_by], moved, level_of))
    for unit, found in ((ADD_REMOVE, added), (CHANGE_ONE, changed)):
        stated = marginal_sensitivity(unit=unit, **shape)
        assert stated.l1 == max(l1 for l1, _ in found)
        assert stated.l2_squared == max(l2 for _, l2 in found)


@pytest.mark.parametrize(
    ("largest", "added", "changed"),
    [(1, (1, 1), (2, 2)), (4, (7, 25), (14, 56)), (5, (9, 41), (18, 98))],
)
def test_the_sensitivity_of_household_sizes_up_to(largest, added, changed):
    steps = tuple((size, size - 1) for size in range(1, largest + 1))
    for unit, expected in ((ADD_REMOVE, added), (CHANGE_ONE, changed)):
        moved = marginal_sensitivity(unit=unit, units=9, cells=9, steps=steps)
        assert (moved.l1, moved.l2_squared) == expected


@pytest.mark.parametrize("entries", [1, 2, 3])
@pytest.mark.parametrize("largest", [1, 2, 3])
@pytest.mark.parametrize("unit", [u for u in UnitOfPrivacy if u.of_household])
def test_the_sensitivity_of_households_is_what_brute_force_finds(entries, largest, unit):
    """A household is a number of people for each entry, one in all at least, m at most."""
    homes = [
        home
        for home in itertools.product(range(largest + 1), repeat=entries)
        if 1 <= sum(home) <= largest
    ]
    others = [(0,) * entries] if unit.adds else homes
    moved = [
        [a - b for a, b in zip(*pair, strict=True)] for pair in itertools.product(homes, others)
    ]
    found = marginal_sensitivity(unit=unit, units=entries, cells=1, largest_household=largest)
    assert found.l1 == max(sum(map(abs, one)) for one in moved)
    assert found.l2_squared == max(sum(step**2 for step in one) for one in moved)


def test_households_without_a_largest_size_have_no_sensitivity():
    message = "found no largest household with unit 'household-change-one', expected one"
    with pytest.raises(PrivacyError, match=message):
        marginal_sensitivity(unit=UnitOfPrivacy.HOUSEHOLD_CHANGE_ONE, units=2, cells=2)


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
    law = law_for(PureLoss(epsilon=Fraction(epsilon), unit=CHANGE_ONE), moved)
    assert law == TwoSidedGeometric(Fraction(epsilon) / 2)
    found = -math.expm1(-law.rate)
    assert round(found, 7) == p
    assert round(2 * (1 - found) / found**2, 1) == variance


def test_gaussian_variance_is_the_inverse_of_rho_when_a_record_changes():
    rho = Fraction(293764, 114921) * Fraction(104, 4099) * Fraction(3213, 4097)
    moved = marginal_sensitivity(unit=CHANGE_ONE, units=1, cells=2016)
    law = law_for(ZCDPLoss(rho=rho, unit=CHANGE_ONE), moved)
    assert law == DiscreteGaussian(1 / rho)
    assert round(math.sqrt(law.sigma2), 2) == 4.43  # published for the nation's detailed query
    added = marginal_sensitivity(unit=ADD_REMOVE, units=1, cells=2016)
    half = law_for(ZCDPLoss(rho=rho, unit=ADD_REMOVE), added)
    assert half == DiscreteGaussian(1 / (2 * rho))


def test_noise_for_the_root_total_is_refused_when_records_only_change():
    total = marginal_sensitivity(unit=CHANGE_ONE, units=1, cells=1)
    assert (total.l1, total.l2_squared) == (0, 0)
    with pytest.raises(PrivacyError, match=r"sensitivity 0, .* Give it no share"):
        law_for(PureLoss(epsilon=Fraction(1), unit=CHANGE_ONE), total)
    with pytest.raises(PrivacyError, match="sensitivity 0"):
        law_for(ZCDPLoss(rho=Fraction(1), unit=CHANGE_ONE), total)


def test_loss_and_sensitivity_must_have_one_unit():
    added = marginal_sensitivity(unit=ADD_REMOVE, units=2, cells=2)
    with pytest.raises(
        PrivacyError, match="a loss for 'change-one' and a sensitivity for 'add-remove'"
    ):
        law_for(PureLoss(epsilon=Fraction(1), unit=CHANGE_ONE), added)


@pytest.mark.parametrize("unit", [CHANGE_ONE, ADD_REMOVE])
def test_the_law_that_a_loss_buys_costs_that_loss(unit):
    moved = marginal_sensitivity(unit=unit, units=3, cells=4)
    for loss in (
        PureLoss(epsilon=Fraction(3, 7), unit=unit),
        ZCDPLoss(rho=Fraction(2, 9), unit=unit),
    ):
        assert noise_loss(law_for(loss, moved), moved) == loss
        assert noise_loss(law_for(loss, moved), moved, draws=5).amount == 5 * loss.amount


def test_a_law_without_accounting_and_a_loss_without_a_law_are_refused():
    moved = marginal_sensitivity(unit=ADD_REMOVE, units=2, cells=2)
    ratio = GeometricByRatio(Fraction(1, 2))
    with pytest.raises(PrivacyError, match="ratio 1/2, a law without a stated loss"):
        noise_loss(ratio, moved)
    loss = ApproximateLoss(epsilon=Fraction(1), delta=Fraction(1, 10**6), unit=ADD_REMOVE)
    with pytest.raises(PrivacyError, match="expected a pure or a zCDP loss"):
        law_for(loss, moved)
