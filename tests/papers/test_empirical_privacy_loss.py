from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import gaussian_kde

from headcount.errors import ConfigError, InputError
from headcount_papers.empirical_privacy_loss import gaussian_density, published


def two_sided(generator, p, n):
    return generator.geometric(p, n) - generator.geometric(p, n)


def by_scipy(values, factor, percentile, multiplier):
    """The recipe written out with scipy's n x m density: the oracle."""
    b = multiplier * max(
        abs(np.percentile(values, 100 - percentile)), abs(np.percentile(values, percentile))
    )
    edges = np.arange(-b, b, 1.0)
    density = gaussian_kde(values, factor)((edges[1:] + edges[:-1]) / 2)
    return np.log(density[:-1]) - np.log(density[1:])


def test_published_values_on_the_published_stream():
    generator = np.random.RandomState(12345)
    first = published(
        two_sided(generator, 0.125, 2663),
        kernel_factor=0.1,
        range_percentile=95,
        range_multiplier=1,
    )
    assert first.max_abs == pytest.approx(0.182318893177771, abs=1e-12)
    assert first.median_abs is not None
    assert 2 * first.median_abs == pytest.approx(0.253126397279558, abs=1e-12)
    second = published(two_sided(generator, 0.125, 2663))
    assert second.max_abs == pytest.approx(0.218340897473702, abs=1e-12)
    assert (first.n, first.half_width, first.points[0], first.points.size) == (2663, 16, -15.5, 30)


def laws(n):
    g = np.random.default_rng(5)
    return {
        "integer": two_sided(g, 0.1, n),
        "wide integer": two_sided(g, 0.004, n),
        "quarters": sum(two_sided(g, 0.02, n) for _ in range(4)) / 4,
        "laplace": g.laplace(0, 30, n),
        "off centre": g.normal(25, 20, n),
        "heavy tails": g.standard_t(1.5, n) * 40,
        "two lumps": np.concatenate((g.normal(-30, 1, n // 2), g.normal(30, 1, n // 2))),
    }


@pytest.mark.parametrize("law", list(laws(2)))
@pytest.mark.parametrize(
    ("factor", "percentile", "multiplier"),
    [(0.1, 95, 1.0), (0.15, 95, 2.0), (0.5, 99, 1.5), (0.03, 75, 1.0), (2.0, 95, 1.0)],
)
def test_curve_equals_scipy(law, factor, percentile, multiplier):
    values = laws(4000)[law]
    found = published(
        values, kernel_factor=factor, range_percentile=percentile, range_multiplier=multiplier
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = by_scipy(values, factor, percentile, multiplier)
    if np.isfinite(expected).all():
        np.testing.assert_allclose(found.curve, expected, rtol=0, atol=1e-11)
        assert found.undefined is None
        assert found.max_abs == pytest.approx(np.abs(expected).max(), abs=1e-11)
    else:
        assert found.undefined
        assert found.max_abs is None
        assert np.isnan(found.curve[~np.isfinite(expected)]).all()


@settings(deadline=None, max_examples=100)
@given(
    hnp.arrays(np.float64, st.integers(3, 300), elements=st.floats(-200, 200)),
    st.floats(0.01, 30),
    st.booleans(),
)
def test_density_equals_scipy_wherever_it_can_be_held(values, kernel_sd, whole):
    sample = np.round(values) if whole else values
    if sample.std() < 1e-3:
        return
    points = np.linspace(-250, 250, 101)
    found = gaussian_density(sample, points, kernel_sd=kernel_sd)
    expected = gaussian_kde(sample, kernel_sd / sample.std(ddof=1))(points)
    usable = expected > 1e-290
    np.testing.assert_allclose(found[usable], expected[usable], rtol=1e-9)
    assert (found[~usable] < 1e-280).all()


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_bins_and_chunks_do_not_change_the_density(monkeypatch, chunk):
    values = np.random.default_rng(2).laplace(0, 50, 60_000)  # enough for bins to pay
    points = np.arange(-300.0, 300.0, 60.0)
    monkeypatch.setattr("headcount_papers.empirical_privacy_loss._PAIRS", chunk)
    found = gaussian_density(values, points, kernel_sd=7.0)
    np.testing.assert_allclose(
        found, gaussian_kde(values, 7.0 / values.std(ddof=1))(points), rtol=1e-11
    )


def test_density_far_from_any_value_keeps_its_relative_accuracy():
    # The only value near 100 is 20 kernel widths away: a window of fixed width would lose it.
    sample = np.append(np.random.default_rng(0).normal(0, 1, 50_000), 80.0)
    found = gaussian_density(sample, np.array([100.0]), kernel_sd=1.0)
    expected = np.exp(-200.0) / (sample.size * np.sqrt(2 * np.pi))
    assert found[0] == pytest.approx(expected, rel=1e-11)


def test_sensitivity_to_each_parameter_is_honoured():
    # Means over 200 repeats of noise with p = 0.125, n = 2663, derived independently.
    known: list[tuple[dict[str, float], float]] = [
        ({"kernel_factor": 0.5}, 0.1346),
        ({"kernel_factor": 1.0}, 0.0860),
        ({"kernel_factor": 5.0}, 0.0057),
        ({"range_percentile": 75}, 0.1665),
        ({"range_multiplier": 0.5}, 0.1908),
        ({}, 0.2356),
    ]
    draws = [two_sided(np.random.default_rng([9, i]), 0.125, 2663) for i in range(60)]
    for parameters, mean in known:
        found = [published(draw, **parameters).max_abs for draw in draws]
        assert np.mean([f for f in found if f is not None]) == pytest.approx(mean, rel=0.1)


def test_large_sample_finds_the_true_loss_in_the_middle():
    values = two_sided(np.random.default_rng(4), 1 - np.exp(-0.1), 400_000)
    found = published(values, kernel_factor=0.15, range_multiplier=2)
    assert found.median_abs == pytest.approx(0.1, rel=0.03)
    wrong = published(2 * values, kernel_factor=0.15, range_multiplier=2)  # negative control
    assert wrong.median_abs is not None
    assert wrong.median_abs < 0.06


@settings(deadline=None, max_examples=50)
@given(hnp.arrays(np.int64, st.integers(30, 200), elements=st.integers(-30, 30)))
def test_flipping_the_sign_mirrors_the_curve_but_for_its_first_step(values):
    # The bins stop below b, so the grid reaches one unit further to the left than to the right.
    one, other = published(values), published(-values)
    whole = one.half_width == other.half_width == round(one.half_width)
    if whole and one.curve.size:
        np.testing.assert_allclose(one.curve[1:], -other.curve[:0:-1], atol=1e-9)


@pytest.mark.parametrize(
    ("values", "options", "reason"),
    [
        ([], {}, "fewer than two"),
        ([3.0], {}, "fewer than two"),
        ([0.1] * 50, {}, "all residuals are equal"),
        ([0.0] * 99 + [1.0], {}, "too narrow"),
        (list(range(-20, 21)) * 3, {"kernel_factor": 0.001}, "zero in double precision"),
    ],
)
def test_undefined_is_said_and_never_silent(values, options, reason):
    found = published(values, **options)
    assert found.undefined
    assert reason in str(found.undefined)
    assert found.max_abs is None
    assert found.median_abs is None
    assert np.isfinite([found.half_width, found.kernel_sd]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_factor": 0.0}, r"kernel_factor: found 0\.0, expected a number above 0"),
        ({"range_percentile": 101}, "range_percentile: found 101, .* above 50, at most 100"),
        ({"range_multiplier": float("nan")}, "range_multiplier: found nan"),
    ],
)
def test_bad_parameters_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        published([1, 2, 3], **options)


def test_a_range_too_wide_to_hold_is_refused():
    with pytest.raises(InputError, match="expected at most 5,000,000"):
        published([-1e9, 1e9])
