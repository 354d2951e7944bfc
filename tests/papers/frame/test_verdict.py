"""Verdicts as tests: how often they are right, by simulation, and that they can be wrong at all."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binomtest

from headcount_papers.frame.verdict import (
    COMPATIBLE,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    REPRODUCED,
    UNDECIDED,
    Spread,
    exactly,
    interval,
    of_number,
    of_statement,
)

TRIES = 400


def outcomes(n: int, off: float, *, pooled: int = 1, margin: float = 0.0) -> Counter[str]:
    """Verdicts on numbers printed ``off`` standard deviations away, over many sets of n draws."""
    rng = np.random.default_rng(35)
    found: Counter[str] = Counter()
    for _ in range(TRIES):
        ours = Spread.of(rng.normal(5.0, 2.0, n).tolist())
        near = (5.0 - margin, 5.0 + margin) if margin else None
        found[of_number(5.0 + 2 * off, ours, pooled=pooled, margin=near).outcome] += 1
    return found


@pytest.mark.parametrize("n", [4, 10, 40])
def test_a_number_at_the_edge_is_called_out_in_one_of_forty_runs_and_in_as_few(n: int):
    # At 1.96 standard deviations both answers are wrong: each is given in 2.5 % of runs.
    found = outcomes(n, 1.959964)
    for wrong in (COMPATIBLE, NOT_REPRODUCED):
        assert binomtest(found[wrong], TRIES, 0.025).pvalue > 0.001
    assert found[UNDECIDED] > 0.9 * TRIES


def test_a_printed_number_that_is_a_draw_is_seldom_called_out_and_a_wrong_one_always():
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(TRIES, 21))
    found = Counter(of_number(x[0], Spread.of(x[1:])).outcome for x in draws)
    assert found[NOT_REPRODUCED] <= 0.05 * TRIES
    assert found[COMPATIBLE] > 0.6 * TRIES
    assert outcomes(20, 6.0) == {NOT_REPRODUCED: TRIES}  # the negative control
    assert outcomes(20, 0.0) == {COMPATIBLE: TRIES}


def test_a_number_that_pools_runs_is_judged_more_strictly():
    assert outcomes(40, 1.7, pooled=4)[NOT_REPRODUCED] > 0.8 * TRIES
    assert outcomes(40, 1.7)[NOT_REPRODUCED] < 0.02 * TRIES


def test_percentiles_of_further_draws_are_spread_evenly():
    rng = np.random.default_rng(2)
    found = [of_number(x[0], Spread.of(x[1:])).percentile for x in rng.normal(size=(TRIES, 6))]
    counts, _ = np.histogram(np.array(found, float), bins=10, range=(0, 100))
    assert binomtest(int(counts[0] + counts[-1]), TRIES, 0.2).pvalue > 0.001
    assert counts.min() > TRIES / 10 / 2


def test_the_same_for_the_purpose_needs_the_mean_within_the_margin():
    wide, at_the_end = outcomes(20, 0.0, margin=4.0), outcomes(20, 0.0, margin=0.01)
    assert wide[REPRODUCED] == TRIES
    assert at_the_end[REPRODUCED] == 0
    ours = Spread(mean=10.4, sd=0.2, draws=9)
    assert of_number(10.0, ours, margin=(9.0, 11.0)).outcome == REPRODUCED
    assert of_number(10.0, ours, margin=(9.5, 10.5)).outcome != REPRODUCED  # reaches 10.55


def test_rounding_of_the_last_digit_is_chance_too():
    same = Spread.of([7, 7, 7, 7])
    assert of_number(8, same).outcome == NOT_REPRODUCED
    assert of_number(7, same).outcome == COMPATIBLE
    assert of_number(7.2, Spread.of([7] * 20), unit=1).outcome == COMPATIBLE
    assert of_number(9, Spread.of([7] * 20), unit=1).outcome == NOT_REPRODUCED


def test_one_draw_says_nothing():
    assert of_number(1.0, Spread.of([1.0])).outcome == NOT_TESTABLE


@pytest.mark.parametrize("of", [1, 6, 20])
def test_the_interval_of_a_share_is_that_of_scipy(of: int):
    for true in range(of + 1):
        known = binomtest(true, of).proportion_ci(method="exact")
        assert interval(true, of) == pytest.approx((known.low, known.high), abs=1e-9)


@pytest.mark.parametrize(
    ("true", "of", "outcome"),
    [
        (15, 20, REPRODUCED),
        (14, 20, UNDECIDED),
        (6, 20, UNDECIDED),
        (5, 20, NOT_REPRODUCED),
        (1, 1, UNDECIDED),
        (6, 6, REPRODUCED),
        (0, 6, NOT_REPRODUCED),
    ],
)
def test_a_statement_is_true_in_most_draws_or_not(true: int, of: int, outcome: str):
    assert of_statement(true, of).outcome == outcome


def test_undecided_says_how_many_draws_would_decide():
    needed = of_statement(13, 20).needed
    assert needed is not None
    share = round(0.65 * needed)
    assert of_statement(share, needed).outcome == REPRODUCED
    assert of_statement(round(0.65 * needed * 0.8), round(needed * 0.8)).outcome == UNDECIDED
    assert of_statement(10, 20).needed is None  # exactly half: none would
    number = of_number(3.0, Spread(mean=0.0, sd=1.0, draws=4))
    assert number.outcome == UNDECIDED
    assert number.needed is not None
    more = Spread(mean=0.0, sd=1.0, draws=2 * number.needed)
    assert of_number(3.0, more).outcome == NOT_REPRODUCED


def test_another_seed_does_not_turn_a_verdict_into_its_opposite():
    rng = np.random.default_rng(3)
    for chance in np.linspace(0.05, 0.95, 19):
        seeds = [of_statement(int(rng.binomial(20, chance)), 20).outcome for _ in range(5)]
        assert {REPRODUCED, NOT_REPRODUCED} - set(seeds)


def test_what_leaves_nothing_to_chance_is_true_in_every_case_or_missed():
    assert exactly(65, 65).outcome == REPRODUCED
    assert exactly(64, 65).outcome == NOT_REPRODUCED
