"""Two-sample tests keep their error rate and see differences of means and of laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from benchmarks import two_samples
from benchmarks.two_samples import energy_p_value, means_p_value


@pytest.fixture(autouse=True)
def few_permutations(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(two_samples, "PERMUTATIONS", 199)


@pytest.mark.parametrize("test", [energy_p_value, means_p_value])
def test_equal_laws_are_rejected_as_rarely_as_promised(test):
    rng = np.random.default_rng(1)
    chances = [
        test(rng.laplace(size=(30, 4)), rng.laplace(size=(12, 4)), seed=k) for k in range(200)
    ]
    rejected = sum(p <= 0.1 for p in chances)
    assert 8 <= rejected <= 35  # 20 expected; either end has a chance below 1 in 1,000


@pytest.mark.parametrize("test", [energy_p_value, means_p_value])
def test_a_moved_mean_is_seen(test):
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(100, 4)), rng.normal(size=(40, 4))
    b[:, 2] += 1
    assert test(a, b, seed=1) == 1 / 200


def test_another_spread_is_seen_by_the_energy_distance_alone():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(200, 4)), 2 * rng.normal(size=(60, 4))
    assert energy_p_value(a, b, seed=1) == 1 / 200
    assert means_p_value(a, b, seed=1) > 0.05


def test_the_energy_distance_is_that_of_the_definition(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(5, 2)), rng.normal(1, 1, size=(7, 2))
    monkeypatch.setattr(two_samples, "_share_as_large", lambda statistic: statistic[0])
    found = energy_p_value(a, b, seed=1)
    spread = np.concatenate([a, b]).std(axis=0)
    a, b = a / spread, b / spread
    expected = 2 * cdist(a, b).mean() - cdist(a, a).mean() - cdist(b, b).mean()
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("test", [energy_p_value, means_p_value])
def test_parts_that_never_vary_say_nothing(test):
    assert test(np.ones((5, 3)), np.ones((4, 3)), seed=1) == 1.0
