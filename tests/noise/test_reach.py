"""How far noise reaches, against sums of its weights."""

from __future__ import annotations

from fractions import Fraction
from itertools import count
from math import exp, fsum

import numpy as np
import pytest

from headcount.noise import DiscreteGaussian, KeyedNoise, Law, RunKey, Stream, TwoSidedGeometric
from headcount.noise.laws import WIDE, reach

LAWS = [
    *(TwoSidedGeometric(Fraction(rate)) for rate in ("3", "1", "1/7", "1/300")),
    *(DiscreteGaussian(Fraction(sigma2)) for sigma2 in ("1/5", "2", "37", "90000")),
]


def weight(law: Law, k: int) -> float:
    if isinstance(law, TwoSidedGeometric):
        return exp(-law.rate * k)
    assert isinstance(law, DiscreteGaussian)
    return exp(-k * k / (2 * law.sigma2))


@pytest.mark.parametrize("missed", [Fraction(1, 20), Fraction(1, 2), Fraction(1, 1000)])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_it_is_the_smallest_number_with_these_odds(law: Law, missed: Fraction) -> None:
    weights = []
    for k in count():
        weights.append(weight(law, k))
        if weights[-1] < 1e-18:
            break
    tails = [2 * fsum(weights[k + 1 :]) for k in range(len(weights))]
    whole = weights[0] + tails[0]
    wanted = next(k for k, tail in enumerate(tails) if tail / whole <= missed)
    assert reach(law, missed=missed) == wanted


def test_of_a_very_wide_gaussian_it_is_that_of_a_normal() -> None:
    assert reach(DiscreteGaussian(Fraction(10**12))) == 1_959_964
    exact = reach(DiscreteGaussian(Fraction(WIDE - 1)))
    assert exact <= reach(DiscreteGaussian(Fraction(WIDE))) <= exact + 1


def test_one_draw_in_twenty_is_beyond_it() -> None:
    law = TwoSidedGeometric(Fraction(1, 50))
    noise = KeyedNoise(RunKey.from_seed(5), "reach", b"data", b"config")
    stream = Stream(level="whole", query="cells", size=100_000)
    drawn = np.abs(noise.draw(stream, law, draws=range(1)))
    assert np.mean(drawn > reach(law)) == pytest.approx(0.05, abs=0.003)
    assert np.mean(drawn > reach(law) - 1) > 0.05
