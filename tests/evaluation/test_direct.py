from __future__ import annotations

import numpy as np
import pytest

from headcount.errors import ConfigError, InputError
from headcount.evaluation.epsilon_bounds import direct


def noise(seed, epsilon, n):
    g = np.random.default_rng(seed)
    p = 1 - np.exp(-epsilon)
    return g.geometric(p, n) - g.geometric(p, n)


def test_counts_by_hand():
    equal, tail = direct([10, 11, 11, 9], [9, 10, 10, 10], exact_d=10, max_k=1, max_k_tail=1)
    assert equal.k.tolist() == [-1, 0, 1]
    np.testing.assert_allclose(equal.chance_d, [0.25, 0.25, 0.5])
    np.testing.assert_allclose(equal.chance_d_prime, [0.25, 0.75, 0])
    np.testing.assert_allclose(equal.log_ratio, [0, -np.log(3), np.nan])
    np.testing.assert_allclose(tail.chance_d, [1, 0.75, 0.5])
    np.testing.assert_allclose(tail.log_ratio, [0, 0, np.nan])
    assert equal.undefined.tolist() == [False, False, True]
    assert equal.max_abs == pytest.approx(np.log(3))
    assert equal.standard_error[1] == pytest.approx(np.sqrt(0.75 / 1 + 0.25 / 3))


def test_default_ranges():
    equal, tail = direct([1, 2], [2, 3], exact_d=1)
    assert (equal.k[0], equal.k[-1], equal.event) == (-10, 10, "eq")
    assert (tail.k[0], tail.k[-1], tail.event) == (-8, 8, "ge")


def test_fractions_are_gathered_to_the_nearest_person_but_tails_are_exact():
    equal, tail = direct([0.4, -0.5, 0.5, 1.0], [0.0] * 4, exact_d=0, max_k=1, max_k_tail=1)
    assert (equal.chance_d * 4).tolist() == [0, 2, 2]
    assert (tail.chance_d * 4).tolist() == [4, 3, 1]


def test_finds_the_closed_form_within_its_standard_error():
    epsilon, exact = 0.5, 100
    equal, tail = direct(
        exact + noise(1, epsilon, 200_000), exact - 1 + noise(2, epsilon, 200_000), exact_d=exact
    )
    # One person fewer in D': at k >= 0 the event is e^epsilon times as likely under D.
    truth = np.where(equal.k >= 0, epsilon, -epsilon)
    assert (np.abs(equal.log_ratio - truth) < 4.5 * equal.standard_error).all()
    upper = tail.k >= 0
    assert (np.abs(tail.log_ratio[upper] - epsilon) < 4.5 * tail.standard_error[upper]).all()


def test_each_databases_own_exact_count_would_hide_the_loss():
    # Negative control for the choice of event: the mistake makes the two laws equal.
    epsilon, n = 1.0, 50_000
    d, d_prime = 100 + noise(3, epsilon, n), 99 + noise(4, epsilon, n)
    _, right = direct(d, d_prime, exact_d=100)
    _, mistaken = direct(d, d_prime + 1, exact_d=100)
    centre = right.k == 0
    assert right.log_ratio[centre][0] == pytest.approx(1.0, abs=0.05)
    assert abs(mistaken.log_ratio[centre][0]) < 0.05


def test_an_estimate_without_any_ratio_has_no_maximum():
    found, _ = direct([0, 1, 0, 1], [500, 501, 500, 502], exact_d=0, max_k=3)
    assert found.undefined.all()
    assert found.max_abs is None


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="released_d: found no runs"):
        direct([], [1], exact_d=0)
    with pytest.raises(ConfigError, match="max_k_tail: found -1, expected 0 or more"):
        direct([1], [1], exact_d=0, max_k_tail=-1)
