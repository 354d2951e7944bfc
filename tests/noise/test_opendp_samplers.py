"""OpenDP's samplers draw the law that ours are compared with; ``test_fit.py`` compares."""

from fractions import Fraction

import numpy as np
import pytest

from headcount.noise import DiscreteGaussian, TwoSidedGeometric
from headcount_papers.frame.published_noise import GeometricByRatio
from tests.support.opendp_samplers import _scale, opendp_sampler


@pytest.mark.parametrize(
    ("law", "variance"),
    [(TwoSidedGeometric(Fraction(1, 47)), 4418), (DiscreteGaussian(Fraction(10)), 10)],
    ids=str,
)
def test_draws_have_the_number_and_the_spread_asked_for(law, variance):
    draw = opendp_sampler(law)
    values = np.array(draw(2000))
    assert values.shape == (2000,)
    assert 0.6 < values.var() / variance < 1.6
    assert draw(0) == []


def test_a_law_that_opendp_does_not_have_is_refused():
    with pytest.raises(TypeError, match=r"OpenDP has no sampler for .*, ratio 1/2"):
        opendp_sampler(GeometricByRatio(Fraction(1, 2)))


@pytest.mark.parametrize(
    "number", [Fraction(1, 3), Fraction(3, 1280), Fraction(7), Fraction(10**9, 7)]
)
def test_the_float_scale_never_understates_the_noise(number):
    for scale, wanted, power in (
        (_scale(number, power=2), number, 2),
        (_scale(1 / number, power=1), 1 / number, 1),
    ):
        assert wanted <= Fraction(scale) ** power <= wanted * (1 + Fraction(1, 2**50))
