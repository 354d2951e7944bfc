"""Laws: what they say of themselves; variances to every printed digit, and samples that agree."""

from fractions import Fraction
from math import sqrt

import mpmath
import numpy as np
import pytest

from headcount.noise import (
    DiscreteGaussian,
    KeyedNoise,
    Law,
    RunKey,
    Stream,
    TwoSidedGeometric,
)
from headcount_papers.frame.published_noise import GeometricByRatio

# share of a level's epsilon, then for each total epsilon: variance and standard deviation as
# published for the 1940 end-to-end test (four levels, sensitivity 2: z = epsilon * share / 8)
TOTALS = ("0.25", "0.5", "0.75", "1", "2", "4", "6", "8")
PUBLISHED = {
    "0.1": """204799.8333 452.5482  51199.8333 226.2738  22755.3889 150.8489  12799.8333 113.1363
              3199.8333 56.5671  799.8334 28.2813  355.3889 18.8518  199.8334 14.1362""",
    "0.225": """40454.1543 201.1322  10113.4136 100.5655  4494.7579 67.0430  2528.2284 50.2815
                631.9321 25.1383  157.8581 12.5642  70.0668 8.3706  39.3399 6.2722""",
    "0.675": """4494.7579 67.0430  1123.5645 33.5196  499.2694 22.3443  280.7662 16.7561
                70.0668 8.3706  17.3926 4.1704  7.6391 2.7639  4.2266 2.0559""",
}
ROWS = [
    (Fraction(total) * Fraction(share) / 8, values[2 * i], values[2 * i + 1])
    for share, text in PUBLISHED.items()
    for values in [text.split()]
    for i, total in enumerate(TOTALS)
]


@pytest.mark.parametrize(("z", "variance", "deviation"), ROWS)
def test_geometric_variance_to_every_printed_digit(z, variance, deviation):
    assert f"{TwoSidedGeometric(z).variance:.4f}" == variance
    assert f"{sqrt(TwoSidedGeometric(z).variance):.4f}" == deviation


@pytest.mark.parametrize("z", [row[0] for row in ROWS[::5]])
def test_sampled_variance_within_half_a_percent(z):
    noise = KeyedNoise(RunKey.from_seed(2), "test", b"", b"")
    x = noise.draw(Stream("nation", "cells", 10_000_000), TwoSidedGeometric(z), draws=range(1))
    found = float(np.square(x, dtype=np.float64).mean())
    assert abs(found / TwoSidedGeometric(z).variance - 1) < 0.005


@pytest.mark.parametrize(
    "z",
    [
        Fraction(1, 10**9),
        Fraction(1, 320),
        Fraction(5),
        Fraction(600),
        Fraction(701),
        Fraction(7101, 10),
        Fraction(740),
    ],
)
def test_geometric_variance_against_the_definition(z):
    with mpmath.workprec(200):
        a = mpmath.exp(-mpmath.mpf(z.numerator) / z.denominator)
        exact = 2 * a / (1 - a) ** 2
        denormal = mpmath.mpf(2) ** -1072  # above 708 a float has fewer digits
        assert abs(TwoSidedGeometric(z).variance - exact) <= max(
            (1e-12 if z > 700 else 1e-14) * exact, denormal
        )
    assert TwoSidedGeometric(Fraction(2000)).variance == 0


def test_the_variance_by_the_ratio():
    assert GeometricByRatio(Fraction(1, 2)).variance == 4
    assert GeometricByRatio(Fraction(9, 10)).variance == 180


@pytest.mark.parametrize("text", ["1/100", "1/2", "1", "3", "999/100", "10", "8000"])
def test_discrete_gaussian_variance_against_the_sum(text):
    variance = Fraction(text)
    with mpmath.workprec(200):
        value = mpmath.mpf(variance.numerator) / variance.denominator
        last = int(20 * sqrt(variance)) + 20
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * value)) for k in range(last)]
        top = 2 * mpmath.fsum(k * k * w for k, w in enumerate(weights))
        exact = top / (2 * mpmath.fsum(weights) - 1)
        assert abs(DiscreteGaussian(variance).variance / exact - 1) < 1e-14


def test_a_law_states_its_parameters_as_receipts_print_them():
    assert TwoSidedGeometric(Fraction(3, 40)).stated == {"rate": "3/40"}
    assert DiscreteGaussian(Fraction(9, 2)).stated == {"sigma2": "9/2"}
    assert str(TwoSidedGeometric(Fraction(3, 40))) == "two-sided geometric, rate 3/40"
    assert str(DiscreteGaussian(Fraction(9, 2))) == "discrete Gaussian, sigma2 9/2"


def test_whole_numbers_are_exact_and_laws_are_values():
    assert TwoSidedGeometric(2) == TwoSidedGeometric(Fraction(2))  # type: ignore[arg-type]
    assert DiscreteGaussian(Fraction(4, 2)) == DiscreteGaussian(Fraction(2))
    laws: list[Law] = [TwoSidedGeometric(Fraction(1, 2)), GeometricByRatio(Fraction(1, 2))]
    assert laws[0] != laws[1]
