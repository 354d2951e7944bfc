"""Allocations: shares that sum to exactly 1, known names, and the Bureau's own as exact figures."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import PrivacyError
from headcount.noise import DiscreteGaussian
from headcount.privacy import (
    Allocation,
    ApproximateLoss,
    PureLoss,
    UnitOfPrivacy,
    ZCDPLoss,
    allocate,
    law_for,
    marginal_sensitivity,
    sequential,
)
from headcount.privacy.loss import _AllocatedShare

UNIT = UnitOfPrivacy.CHANGE_ONE
LEVELS = ("nation", "state", "county")
QUERIES = ("total", "sex", "detailed")
THIRDS = dict.fromkeys(LEVELS, "1/3")
WITHIN = {"total": "0.2", "sex": "0.3", "detailed": "0.5"}


def build(levels=THIRDS, queries=None) -> Allocation:
    return allocate(
        levels=levels,
        queries=dict.fromkeys(LEVELS, WITHIN) if queries is None else queries,
        known_levels=LEVELS,
        known_queries=QUERIES,
    )


def test_shares_multiply_and_keep_their_order():
    found = build()
    assert found.measured[:2] == (("nation", "total"), ("nation", "sex"))
    assert found.share(level="state", query="sex") == Fraction(1, 10)
    assert found.share(level="state", query="age") == 0
    assert found.level_share("county") == Fraction(1, 3)
    assert found.queries_at("nation") == QUERIES
    assert eval(repr(found)) == found


def test_a_share_of_zero_is_not_measured():
    found = build(queries=dict.fromkeys(LEVELS, WITHIN) | {"nation": {"sex": 0, "detailed": 1}})
    assert found.queries_at("nation") == ("detailed",)
    assert build(levels={"nation": 1, "state": 0}, queries=dict.fromkeys(LEVELS[:2], WITHIN)).share(
        level="state", query="sex"
    ) == Fraction(0)


@pytest.mark.parametrize(
    ("levels", "queries", "message"),
    [
        ({"nation": "0.5", "state": "0.4"}, None, "level shares: found a sum of 9/10 (0.9), "),
        ({"nation": "0.5", "state": "0.4"}, None, "expected exactly 1: 1/10 too little"),
        (
            {"nation": "1/3", "state": "1/3", "county": "0.3333333333333333333334"},
            None,
            "1/15000000000000000000000 too much",
        ),
        ({"nation": "-0.5", "state": "1.5"}, None, "found -1/2 for 'nation', expected at least 0"),
        ({"nation": 0.5, "state": 0.5}, None, "level shares: 'nation': found 0.5 (float)"),
        ({"region": 1}, None, "found 'region', expected one of 'nation', 'state', 'county'"),
        ((("state", "1/2"), ("state", "1/2")), None, "level shares: found 'state' twice"),
        (
            THIRDS,
            dict.fromkeys(LEVELS, (("sex", "1/2"), ("sex", "1/2"))),
            "query shares at level 'nation': found 'sex' twice, expected each once",
        ),
        (
            THIRDS,
            dict.fromkeys(LEVELS, WITHIN) | {"state": {"age": 1}},
            "at level 'state': found 'age', expected one of 'total', 'sex', 'detailed'",
        ),
        (
            THIRDS,
            dict.fromkeys(LEVELS, WITHIN) | {"state": {"sex": "0.99"}},
            "query shares at level 'state': found a sum of 99/100 (0.99), expected exactly 1",
        ),
        (THIRDS, {"nation": WITHIN}, "query shares: found none for level 'state', expected some"),
        (
            {"nation": 1},
            dict.fromkeys(("nation", "state"), WITHIN),
            "query shares: found some for level 'state', expected none",
        ),
        (
            THIRDS,
            dict.fromkeys((*LEVELS, "ward"), WITHIN),
            "query shares: level: found 'ward', expected one of",
        ),
        ({}, {}, "level shares: found a sum of 0 (0), expected exactly 1: 1 too little"),
    ],
)
def test_refusals(levels, queries, message):
    with pytest.raises(PrivacyError) as error:
        build(levels=levels, queries=queries)
    assert message in str(error.value)


def test_the_type_itself_refuses_what_does_not_sum_to_one():
    half = _AllocatedShare(level="nation", query="sex", share=Fraction(1, 2))
    with pytest.raises(PrivacyError, match="shares: found a sum of 1/2"):
        Allocation(shares=(half,))
    with pytest.raises(PrivacyError, match="shares: found 'sex' at 'nation' twice"):
        Allocation(shares=(half, half))


weights = st.lists(st.integers(0, 10**6), min_size=3, max_size=3).filter(any)


def normal(numbers: list[int], names: tuple[str, ...]) -> dict[str, Fraction]:
    return {name: Fraction(one, sum(numbers)) for name, one in zip(names, numbers, strict=True)}


@given(weights, st.lists(weights, min_size=3, max_size=3), st.fractions(Fraction(1, 10**6), 100))
def test_losses_compose_to_exactly_the_total(levels, queries, amount):
    found = build(
        normal(levels, LEVELS),
        {level: normal(one, QUERIES) for level, one in zip(LEVELS, queries, strict=True)},
    )
    assert sum(one.share for one in found.shares) == 1
    for total in (PureLoss(epsilon=amount, unit=UNIT), ZCDPLoss(rho=amount, unit=UNIT)):
        assert sequential(found.losses(total).values()) == total


@given(weights, st.integers(0, 2), st.fractions(Fraction(1, 10**30), Fraction(1, 10**9)))
def test_a_share_off_by_any_amount_is_refused(levels, which, slip):
    shares = normal(levels, LEVELS)
    shares[LEVELS[which]] += slip
    with pytest.raises(PrivacyError, match=f"{slip} too much"):
        build(shares)


def test_an_epsilon_at_delta_is_not_shared_out():
    whole = ApproximateLoss(epsilon=Fraction(1), delta=Fraction(1, 10), unit=UNIT)
    with pytest.raises(PrivacyError, match="expected a pure epsilon or a rho"):
        build().losses(whole)  # type: ignore[arg-type]


def test_the_2020_redistricting_allocation_gives_its_published_standard_deviations():
    """Shares of the 2020 persons run; sigma to the digits that follow from its certificate."""
    names = (
        *("total", "cenrace", "hispanic", "votingage", "hhinstlevels", "hhgq", "hisp*race"),
        *("va*race", "va*hisp", "va*hisp*race", "detailed"),
    )
    table = {
        "us": (4097, [0, 52, 26, 26, 26, 26, 130, 130, 26, 442, 3213]),
        "state": (4097, [3773, 6, 6, 6, 6, 6, 12, 12, 6, 34, 230]),
        "county": (4097, [3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754]),
        "tract": (4102, [1567, 8, 5, 5, 5, 5, 1933, 20, 5, 67, 482]),
        "group": (4099, [1705, 3, 3, 3, 3, 3, 1055, 9, 3, 24, 1288]),
        "block": (4097, [5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945]),
    }
    level_weights = (104, 1440, 447, 687, 1256, 165)
    found = allocate(
        levels={
            level: Fraction(one, 4099) for level, one in zip(table, level_weights, strict=True)
        },
        queries={
            level: {name: Fraction(one, whole) for name, one in zip(names, parts, strict=True)}
            for level, (whole, parts) in table.items()
        },
        known_levels=tuple(table),
        known_queries=names,
    )
    losses = found.losses(ZCDPLoss(rho=Fraction(293764, 114921), unit=UNIT))
    assert len(losses) == 65
    moved = marginal_sensitivity(unit=UNIT, units=2, cells=2)
    for level, query, sigma in (
        ("state", "total", 1.10),
        ("tract", "hisp*race", 2.23),
        ("block", "total", 89.2),
        ("block", "detailed", 3.18),
    ):
        loss = losses[level, query]
        assert isinstance(loss, ZCDPLoss)
        law = law_for(loss, moved)
        assert isinstance(law, DiscreteGaussian)
        assert float(f"{math.sqrt(law.sigma2):.3g}") == sigma
