"""EPL from histograms against the published recipe, and the way back from EPL to z."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.draws import multinomial
from headcount.errors import InputError
from headcount_papers import calibration
from headcount_papers.calibration import (
    Recipe,
    calibrate,
    draws_for,
    epl_of_histogram,
    geometric_epl,
)
from headcount_papers.empirical_privacy_loss import published


def mean_geometric_epl(z, *, n, draws, seed):
    """The mean of EPL where it is defined; None if it mostly is not."""
    found = calibration._look(geometric_epl(z, n=n, draws=draws, seed=seed))
    return None if found is None else found[0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-30, 30), min_size=2, max_size=80),
    st.sampled_from(
        [
            Recipe(),
            Recipe(kernel_factor=0.5),
            Recipe(range_percentile=99.0),
            Recipe(range_multiplier=1.5),
        ]
    ),
)
def test_a_histogram_has_the_epl_of_its_residuals(residuals, recipe):
    values, numbers = np.unique(residuals, return_counts=True)
    whole = published(
        residuals,
        kernel_factor=recipe.kernel_factor,
        range_percentile=recipe.range_percentile,
        range_multiplier=recipe.range_multiplier,
    ).max_abs
    found = epl_of_histogram(values, numbers, recipe)
    assert (found is None) == (whole is None)
    if whole is not None:
        assert found == pytest.approx(whole, rel=1e-9)


def test_a_histogram_of_many_residuals_too():
    rng = np.random.default_rng(1)
    residuals = rng.geometric(0.1, 200_000) - rng.geometric(0.1, 200_000)
    values, numbers = np.unique(residuals, return_counts=True)
    assert epl_of_histogram(values, numbers) == pytest.approx(
        published(residuals).max_abs, rel=1e-9
    )


RECIPES = [
    Recipe(),
    Recipe(kernel_factor=0.02),  # narrow: densities between values that are far apart vanish
    Recipe(range_percentile=99.0, range_multiplier=1.5),  # points beyond the last value
]


def one_by_one(z: float, *, n: int, draws: int, seed: int, recipe: Recipe) -> list[float]:
    """EPL of pure noise as it is defined: each sample is drawn, and each density summed, alone."""
    rng = np.random.default_rng([seed, n])
    found = []
    for _ in range(draws):
        if n < calibration.MONOTONE_FROM:
            one, other = np.floor(rng.standard_exponential((2, n)) / z)
            residuals = one - other
        else:
            reach = int(np.ceil((np.log(n) + 30) / z))
            values = np.arange(-reach, reach + 1)
            weight = np.exp(-z * np.abs(values))
            residuals = np.repeat(values, multinomial(rng, n, weight / weight.sum()))
        loss = published(
            residuals,
            kernel_factor=recipe.kernel_factor,
            range_percentile=recipe.range_percentile,
            range_multiplier=recipe.range_multiplier,
        ).max_abs
        found.append(np.nan if loss is None else loss)
    return found


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    ("z", "n"),
    [(2.5, 40), (1.1, 2), (0.4, 156), (0.03, 900), (0.002, 20), (1.5, 2_000), (0.06, 12_432)],
)
def test_all_samples_at_once_have_the_epl_of_each_alone(z, n, recipe):
    wanted = one_by_one(z, n=n, draws=12, seed=5, recipe=recipe)
    found = geometric_epl(z, n=n, draws=12, seed=5, recipe=recipe)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize(("z", "n"), [(0.4, 156), (0.06, 2_663)])
def test_neither_room_nor_sparseness_changes_a_loss(z, n, monkeypatch):
    wanted = geometric_epl(z, n=n, draws=20, seed=5)
    monkeypatch.setattr(calibration, "_ROOM", 1_000)
    np.testing.assert_allclose(geometric_epl(z, n=n, draws=20, seed=5), wanted, rtol=1e-12)
    monkeypatch.setattr(calibration, "_SPARSE", 0)
    np.testing.assert_allclose(geometric_epl(z, n=n, draws=20, seed=5), wanted, rtol=1e-12)


@pytest.mark.parametrize(("z", "n"), [(0.4, 156), (0.06, 2_663)])
def test_more_draws_begin_with_the_first(z, n):
    asked = calibration._Samples(n=n, seed=5, recipe=Recipe())
    first = asked.losses(z, 7).copy()
    asked.losses(2 * z, 3)
    np.testing.assert_allclose(asked.losses(z, 30), geometric_epl(z, n=n, draws=30, seed=5))
    np.testing.assert_array_equal(asked.losses(z, 7), first)


def test_calibrations_are_those_of_versions_that_drew_one_sample_after_the_other():
    made = {
        (0.5, 150): 0.08282528518106219,
        (0.3, 900): 0.12262189495439754,
        (0.2, 1_500): 0.08992430899386437,
        (0.1, 2_663): 0.05248636728902894,
        (1.0, 2_663): 0.9991946026155331,
        (0.05, 12_432): 0.035065199214303955,
        (0.03, 539_428): 0.02801314661520976,
    }
    found = {(epl, n): calibrate(epl, n=n) for epl, n in made}
    assert found == {key: pytest.approx(z, rel=1e-9) for key, z in made.items()}


def test_undefined_where_all_residuals_are_equal_or_few():
    assert epl_of_histogram([0], [1000]) is None
    assert epl_of_histogram([0, 1], [0, 5]) is None
    assert epl_of_histogram([3], [1]) is None


def test_pure_noise_shows_the_published_inflation():
    """Mean EPL / z: about 1.9 at 2,663 residuals, 1.4 at 12,432, 1.06 at 539,428."""
    for n, ratio, near in ((2_663, 1.9, 0.15), (12_432, 1.4, 0.06), (539_428, 1.06, 0.02)):
        mean = mean_geometric_epl(0.05, n=n, draws=24, seed=1)
        assert mean is not None
        assert mean / 0.05 == pytest.approx(ratio, abs=near)


@pytest.mark.parametrize("n", [1_500, 2_663])  # drawn value by value, and as a histogram
def test_samples_have_the_law_of_the_noise(n):
    rng = np.random.default_rng(5)
    p = 1 - np.exp(-0.1)
    drawn = [published(rng.geometric(p, n) - rng.geometric(p, n)).max_abs for _ in range(60)]
    found = geometric_epl(0.1, n=n, draws=60, seed=2)
    error = np.hypot(np.std(drawn), np.std(found)) / np.sqrt(60)  # type: ignore[arg-type]
    assert np.mean(drawn) == pytest.approx(found.mean(), abs=4 * error)  # type: ignore[arg-type]
    wrong = geometric_epl(0.13, n=n, draws=60, seed=2)
    assert abs(np.mean(drawn) - wrong.mean()) > 4 * error  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("z", "n"), [(0.05, 2_663), (0.2, 12_432), (0.03, 539_428), (0.7, 4_000), (0.1, 900)]
)
def test_calibration_goes_back_to_z(z, n):
    mean = mean_geometric_epl(z, n=n, draws=48, seed=9)
    assert calibrate(mean, n=n, seed=3) == pytest.approx(z, rel=0.08)


def test_calibration_with_the_same_draws_is_the_root():
    z = calibrate(0.1, n=5_000, draws=16, seed=4)
    assert z is not None
    assert mean_geometric_epl(z, n=5_000, draws=16, seed=4) == pytest.approx(0.1, rel=0.01)


def test_calibration_is_blank_where_epl_is():
    assert calibrate(None, n=1000) is None
    assert calibrate(0.0, n=1000) is None
    assert calibrate(float("inf"), n=1000) is None
    assert calibrate(9.0, n=500_000) is None  # noise of such a loss is nearly always zero


def test_impossible_noise_is_refused():
    with pytest.raises(InputError, match=r"found z 0, n 10, draws 1, expected z above 0"):
        geometric_epl(0, n=10, draws=1, seed=1)


def test_calibration_is_blank_where_few_values_cannot_tell_scales_apart():
    """With 156 values the mean EPL is about 1 for any z from 0.25 to 0.9."""
    means = [mean_geometric_epl(z, n=156, draws=200, seed=1) for z in (0.3, 0.5, 0.7)]
    assert all(mean == pytest.approx(0.97, abs=0.12) for mean in means)
    assert calibrate(0.97, n=156) is None
    assert calibrate(0.58, n=156) == pytest.approx(0.1, rel=0.1)  # small scales are told apart


def test_few_values_take_many_draws_and_many_take_few():
    assert [draws_for(n) for n in (100, 12_432, 539_428)] == [256, 160, 32]


def test_a_mean_counts_if_epl_is_mostly_defined():
    shares = {z: np.isnan(geometric_epl(z, n=1_200, draws=100, seed=1)).mean() for z in (1.0, 1.5)}
    assert shares[1.0] <= 0.05 < shares[1.5]
    assert mean_geometric_epl(1.0, n=1_200, draws=100, seed=1) is not None
    assert mean_geometric_epl(1.5, n=1_200, draws=100, seed=1) is None
