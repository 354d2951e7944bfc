"""The OpenDP backend: whole draws, once each, and plain words for what it cannot do."""

from fractions import Fraction

import numpy as np
import pytest

from headcount.errors import ConfigError, PrivacyError
from headcount.noise import DiscreteGaussian, Noise, OpenDPNoise, Stream, TwoSidedGeometric
from headcount.noise.opendp_backend import _scale
from headcount_papers.frame.published_noise import GeometricByRatio

STREAM = Stream("county", "cells", 500)
INDEX = np.arange(3, dtype=np.int64)


def test_draws_have_the_shape_and_the_spread_asked_for():
    noise: Noise = OpenDPNoise()
    x = noise.draw(STREAM, TwoSidedGeometric(Fraction(1, 47)), draws=range(4))
    y = noise.draw(Stream("county", "sex", 500), DiscreteGaussian(Fraction(10)), draws=range(4))
    for values, variance in ((x, 4418), (y, 10)):
        assert values.shape == (4, 500)
        assert values.dtype == np.int64
        assert 0.6 < values.var() / variance < 1.6
    assert noise.draw(STREAM, TwoSidedGeometric(Fraction(1, 47)), draws=range(9, 9)).shape == (
        0,
        500,
    )
    assert (noise.key_kind, noise.backend) == ("os", "opendp")


def test_a_draw_can_be_made_once_only():
    noise = OpenDPNoise()
    noise.draw(STREAM, TwoSidedGeometric(Fraction(1)), draws=range(2))
    with pytest.raises(
        PrivacyError, match="county/cells: found a second request for draw 1, expec"
    ):
        noise.draw(STREAM, DiscreteGaussian(Fraction(1)), draws=range(1, 3))
    noise.draw(STREAM, TwoSidedGeometric(Fraction(1)), draws=range(2, 3))
    noise.draw(STREAM, TwoSidedGeometric(Fraction(1)), draws=range(6, 8))
    noise.draw(STREAM, TwoSidedGeometric(Fraction(1)), draws=range(3, 6, 2))
    noise.draw(STREAM, TwoSidedGeometric(Fraction(1)), draws=range(4, 5))
    for again in (0, 2, 3, 4, 5, 7):
        with pytest.raises(PrivacyError, match=f"found a second request for draw {again}, expec"):
            noise.draw(STREAM, TwoSidedGeometric(Fraction(1)), draws=range(again, 100))


def test_draws_that_follow_each_other_are_remembered_as_one():
    """A hundred million draws one by one would fill the memory after the loss is recorded."""
    noise = OpenDPNoise()
    for start in range(0, 40, 4):
        noise.draw(STREAM, TwoSidedGeometric(Fraction(1)), draws=range(start, start + 4))
    assert list(noise._drawn.values()) == [[range(40)]]


@pytest.mark.parametrize("law", [TwoSidedGeometric(Fraction(1)), DiscreteGaussian(Fraction(1))])
def test_sparse_access_is_refused(law):
    with pytest.raises(
        PrivacyError, match="found positions asked of the opendp backend, expected a whole draw"
    ):
        OpenDPNoise().draw_at(STREAM, law, draw=0, index=INDEX)


def test_other_refusals():
    with pytest.raises(
        PrivacyError, match="by its ratio, ratio 1/2 with the opendp backend, expec"
    ):
        OpenDPNoise().draw(STREAM, GeometricByRatio(Fraction(1, 2)), draws=range(1))
    with pytest.raises(ConfigError, match="noise: rate: found -1, expected"):
        OpenDPNoise().draw(STREAM, TwoSidedGeometric(Fraction(-1)), draws=range(1))
    with pytest.raises(ConfigError, match=r"draws: found -1\.\.0, expected"):
        OpenDPNoise().draw(STREAM, TwoSidedGeometric(Fraction(1)), draws=range(-1, 1))
    with pytest.raises(ConfigError, match=r"rate: found 0.5 \(float\), expected an exact"):
        OpenDPNoise().draw(STREAM, TwoSidedGeometric(0.5), draws=range(1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "number", [Fraction(1, 3), Fraction(3, 1280), Fraction(7), Fraction(10**9, 7)]
)
def test_the_float_scale_never_understates_the_noise(number):
    for scale, wanted, power in (
        (_scale(number, power=2), number, 2),
        (_scale(1 / number, power=1), 1 / number, 1),
    ):
        assert wanted <= Fraction(scale) ** power <= wanted * (1 + Fraction(1, 2**50))
