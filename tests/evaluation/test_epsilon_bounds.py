from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, multinomial

from headcount.errors import ConfigError, InputError
from headcount.evaluation import epsilon_bounds
from headcount.evaluation.epsilon_bounds import (
    _choose,
    _clopper_pearson_lower,
    _coins,
    _Event,
    audit,
)
from tests.support.audit_trials import audit_trials, uncorrected_bound


def geometric(epsilon, *counts):
    """A mechanism adding two-sided geometric noise to the given exact counts."""
    p = 1 - np.exp(-epsilon)

    def draw(generator, runs):
        shape = (runs, len(counts))
        return generator.geometric(p, shape) - generator.geometric(p, shape) + np.array(counts)

    return draw


# The claims: it keeps its error rate, comes near the true loss, and catches what is broken.


def test_add_remove_keeps_its_error_rate_and_comes_near_the_truth():
    trials = audit_trials(geometric(1, 101), geometric(1, 100), trials=200, seed=1)
    assert trials.p_value(1.0) > 0.001
    assert trials.mean >= 0.85
    # Choosing and bounding on the same runs must be seen to break the error rate.
    assert trials.p_value(1.0, uncorrected=True) < 1e-6


def test_small_samples_keep_the_error_rate():
    trials = audit_trials(
        geometric(1, 101), geometric(1, 100), runs=400, trials=500, choosing_share=0.5, seed=2
    )
    assert trials.p_value(1.0) > 0.001
    assert trials.p_value(1.0, uncorrected=True) < 1e-6


def test_a_mechanism_with_half_the_noise_is_caught():
    trials = audit_trials(geometric(2, 101), geometric(2, 100), trials=40, seed=3)
    assert trials.above(1.0) >= 0.95 * 40
    assert trials.p_value(2.0) > 0.001


def test_change_one_is_seen_through_the_joint_event():
    trials = audit_trials(geometric(1, 101, 100), geometric(1, 100, 101), trials=12, seed=4)
    assert trials.bounds.min() > 1.6
    assert trials.p_value(2.0) > 0.001
    one_area = audit_trials(geometric(1, 101), geometric(1, 100), trials=5, seed=4)
    assert one_area.bounds.max() < 1.6


def test_no_difference_gives_no_bound():
    trials = audit_trials(geometric(1, 100), geometric(1, 100), runs=1000, trials=100, seed=5)
    assert trials.p_value(0.0) > 0.001
    assert trials.mean < 0.02


# The parts, against independent oracles.


@given(st.integers(0, 300), st.integers(0, 300))
def test_lower_limit_against_scipys_exact_interval(right, wrong):
    if right + wrong == 0:
        assert _clopper_pearson_lower(0, 0, 0.05) == 0.0
        return
    interval = binomtest(right, right + wrong).proportion_ci(0.90, method="exact")
    assert _clopper_pearson_lower(right, wrong, 0.05) == pytest.approx(interval.low, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(
    st.floats(0.05, 2.5),
    st.floats(0.01, 0.99),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
)
def test_error_rate_of_the_game_by_enumeration(epsilon, chance, slack, abstain):
    """Sum the chance of every outcome of a small game in which the loss is at most epsilon."""
    coins, error = 12, 0.05
    # Chances that a run on D or D' leads to the guess "D", the guess "D'", or none.
    a_d = (1 - abstain) * chance * np.exp(epsilon) / (1 + np.exp(epsilon))
    a_prime = min(1.0, a_d * np.exp(-epsilon * slack))
    b_prime = min(1 - a_prime, (1 - a_d) * (1 - abstain))
    b_d = min(1 - a_d, b_prime * np.exp(-epsilon))
    right, wrong = (a_d + b_prime) / 2, (a_prime + b_d) / 2
    assert right <= wrong * np.exp(epsilon) + 1e-12
    refuted = 0.0
    for r in range(coins + 1):
        for w in range(coins + 1 - r):
            if _clopper_pearson_lower(r, w, error) > 1 / (1 + np.exp(-epsilon)):
                law = [right, wrong, 1 - right - wrong]
                refuted += multinomial.pmf([r, w, coins - r - w], coins, law)
    assert refuted <= error + 1e-12


@given(st.integers(1, 100_000), st.integers(0, 2**32))
def test_coins_never_ask_for_more_runs_than_there_are(left, seed):
    heads, tails = _coins(left, np.random.default_rng(seed))
    assert 0 <= heads <= left
    assert 0 <= tails <= left


def test_coins_that_stray_beyond_the_supply_are_held_to_it(monkeypatch):
    monkeypatch.setattr(epsilon_bounds, "binomial", lambda _, coins, chance: coins)
    heads, tails = _coins(1_000, np.random.default_rng(0))
    assert heads == 1_000
    assert 0 < tails < 1_000


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([1, 2]), st.sampled_from([0.2, 1.0, 4.0]))
def test_no_output_leads_to_both_guesses(seed, areas, epsilon):
    g = np.random.default_rng(seed)
    d, d_prime = g.integers(0, 4, (60, areas)), g.integers(0, 4, (60, areas))
    d[:, 0] += g.random(60) < 1 - np.exp(-epsilon)
    first, second = _choose(d.astype(float), d_prime.astype(float), 0.95)
    if second is not None:
        everything = np.stack(np.meshgrid(*[np.arange(-1.0, 7.0)] * areas), axis=-1)
        everything = everything.reshape(-1, areas)
        assert not (first.contains(everything) & second.contains(everything)).any()


@pytest.mark.parametrize("left", [1, 15, 100, 7_500, 1_000_000])
def test_coins_are_fair_but_for_less_than_is_paid(left):
    heads, tails = _coins(left, np.random.default_rng(0))
    coins = heads + tails
    assert 2 * binom.sf(left, coins, 0.5) < 1e-6
    if left > 1_000:
        assert coins > 1.85 * left


def test_bound_is_recomputed_from_the_stated_rule_and_runs():
    g = np.random.default_rng(8)
    d, d_prime = geometric(1, 7, 3)(g, 4_000), geometric(1, 6, 4)(g, 4_000)
    found = audit(d, d_prime, confidence=0.99, seed=5)
    assert found.guess_d_prime is not None
    heads, tails = _coins(3_000, np.random.default_rng(5))
    played, played_prime = d[1_000 : 1_000 + heads], d_prime[1_000 : 1_000 + tails]
    right = found.guess_d.contains(played).sum() + found.guess_d_prime.contains(played_prime).sum()
    wrong = found.guess_d.contains(played_prime).sum() + found.guess_d_prime.contains(played).sum()
    assert (found.correct, found.guesses) == (right, right + wrong)
    low = binomtest(int(right), int(right + wrong)).proportion_ci(0.98, method="exact").low
    assert found.epsilon_lower == pytest.approx(np.log(low / (1 - low)), abs=1e-3)
    both = found.guess_d.contains(d) & found.guess_d_prime.contains(d)
    assert not both.any()


def test_the_runs_used_for_choosing_do_not_enter_the_bound():
    g = np.random.default_rng(9)
    d, d_prime = np.zeros(4_000), np.zeros(4_000)
    d[:1_000] = 5.0  # a perfect witness, but only among the runs used for choosing
    d[1_000:] = d_prime[1_000:] = g.integers(0, 2, 3_000)
    assert audit(d, d_prime).epsilon_lower == 0.0
    assert uncorrected_bound(d, d_prime, confidence=0.95) > 0.5


def test_a_release_without_noise_is_bounded_only_by_the_number_of_runs():
    found = audit(np.full(1_000, 11), np.full(1_000, 10))
    assert found.correct == found.guesses
    assert found.epsilon_lower > 5
    assert found.refutes(5)


def test_fractions_and_many_distinct_values():
    g = np.random.default_rng(10)
    found = audit(g.laplace(1, 1, 10_000), g.laplace(0, 1, 10_000))
    assert 0.85 < found.epsilon_lower < 1.05


def test_same_input_and_seed_give_the_same_bound():
    g = np.random.default_rng(11)
    d, d_prime = geometric(1, 5)(g, 500), geometric(1, 4)(g, 500)
    assert audit(d, d_prime, seed=3) == audit(d, d_prime, seed=3)
    assert audit(d[:, 0], d_prime[:, 0], seed=3) == audit(d, d_prime, seed=3)


def test_events_name_themselves():
    inf = float("inf")
    assert str(_Event((3.0, -inf), (inf, 5.0))) == "x0 >= 3 and x1 <= 5"
    assert str(_Event((2.0,), (2.0,))) == "x0 = 2"
    assert str(_Event((-inf,), (inf,))) == "any output"


def test_explain_says_what_it_is_not():
    g = np.random.default_rng(12)
    text = audit(geometric(1, 5)(g, 2_000), geometric(1, 4)(g, 2_000)).explain()
    assert "With confidence 0.95" in text
    assert "is not proved" in text
    assert "lower bound only" in text
    assert "500 runs of each database that were not used for the bound" in text


def test_bad_input_is_refused():
    good = np.zeros(50)
    with pytest.raises(InputError, match=r"sample_d: shape: found \(50, 3\), expected \(runs,\)"):
        audit(np.zeros((50, 3)), good)
    with pytest.raises(InputError, match="sample_d_prime: found 19 runs, expected at least 20"):
        audit(good, np.zeros(19))
    with pytest.raises(InputError, match=r"sample_d_prime: found 2 area\(s\), expected 1"):
        audit(good, np.zeros((50, 2)))
    with pytest.raises(InputError, match="sample_d: entry 0: found 50 value"):
        audit(good * np.nan, good)
    with pytest.raises(ConfigError, match=r"confidence: found 1\.0, expected a number between"):
        audit(good, good, confidence=1.0)
    with pytest.raises(ConfigError, match="choosing_share: found 0, expected a number between"):
        audit(good, good, choosing_share=0)
