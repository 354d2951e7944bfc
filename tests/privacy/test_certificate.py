"""What of a loss concerns one attribute or place: the certificate of the 2020 census."""

from __future__ import annotations

from fractions import Fraction

import pytest

from headcount.bench.nation_2020 import LEVEL_SHARES, QUERIES, QUERY_SHARES, RHO
from headcount.privacy import DEFAULT_UNIT, ZCDPLoss, allocate, zcdp_to_approximate
from headcount.privacy.allocation import Allocation
from headcount.privacy.certificate import attribute_losses, leaf_losses

LEVELS = tuple(QUERY_SHARES)
NAMES = (*QUERIES, "cells")
RHO_OF_UNITS = Fraction(11_417_641, 152_349_649)


def allocation() -> Allocation:
    return allocate(
        levels={level: Fraction(k, 4099) for level, k in zip(LEVELS, LEVEL_SHARES, strict=True)},
        queries={
            level: {name: Fraction(k, sum(shares)) for name, k in zip(NAMES, shares, strict=True)}
            for level, shares in QUERY_SHARES.items()
        },
        known_levels=LEVELS,
        known_queries=NAMES,
    )


def epsilon(loss: object) -> float:
    """At the certificate's delta, with its two decimals rounded up as it rounds."""
    assert isinstance(loss, ZCDPLoss)
    return float(zcdp_to_approximate(loss, delta="1e-10").value.amount)


def test_rhos_of_persons_and_units_have_the_published_epsilons():
    for rho, published in ((RHO, 17.14), (RHO_OF_UNITS, 2.47)):
        found = epsilon(ZCDPLoss(rho=rho, unit=DEFAULT_UNIT))
        assert round(found, 2) == published
    assert (Fraction(542) / 339) ** 2 == RHO
    assert (Fraction(3379) / 12343) ** 2 == RHO_OF_UNITS


@pytest.mark.parametrize(
    ("attribute", "published"),
    [("hhgq", 7.24), ("votingage", 7.57), ("hispanic", 10.04), ("cenrace", 10.08)],
)
def test_attributes_have_the_epsilons_of_the_certificate(attribute: str, published: float):
    shows = {name: set(names) for name, names in QUERIES.items()}
    shows |= {"hhinstlevels": {"hhgq"}, "cells": {"hhgq", "votingage", "hispanic", "cenrace"}}
    found = attribute_losses(allocation(), ZCDPLoss(rho=RHO, unit=DEFAULT_UNIT), shows=shows)
    assert set(found) == {"hhgq", "votingage", "hispanic", "cenrace"}
    assert round(epsilon(found[attribute]), 2) == published


@pytest.mark.parametrize(
    ("level", "published"),
    [
        ("block_group", 2.93),
        ("tract", 9.38),
        ("county", 11.70),
        ("state", 13.05),
        ("nation", 16.89),
    ],
)
def test_a_block_within_a_larger_place_has_the_epsilon_of_the_certificate(
    level: str, published: float
):
    found = leaf_losses(allocation(), ZCDPLoss(rho=RHO, unit=DEFAULT_UNIT), levels=LEVELS)
    assert tuple(found) == LEVELS[:-1]
    assert round(epsilon(found[level]), 2) == published


def test_one_level_too_many_would_be_seen():
    found = leaf_losses(allocation(), ZCDPLoss(rho=RHO, unit=DEFAULT_UNIT), levels=LEVELS)
    assert round(epsilon(found["tract"]), 2) != 2.93
    assert found["nation"].amount < RHO
