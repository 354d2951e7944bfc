from __future__ import annotations

import numpy as np
import pytest

from benchmarks import topdown_solve
from headcount.topdown.solve.batch import violation
from headcount.topdown.solve.leastsquares import programme
from tests.support.problems import SETTINGS, draw_noise, geometric_variance, problem


@pytest.mark.parametrize("name", SETTINGS)
def test_a_seed_gives_one_problem(name):
    first, again = (problem(name, seed=5, children=4) for _ in range(2))
    other = problem(name, seed=6, children=4)
    assert np.array_equal(first.answer, again.answer)
    assert np.array_equal(first.total, again.total)
    assert not np.array_equal(first.margin, other.margin)
    assert first.total.min() > 0


def test_the_number_of_children_spans_ten_to_sixty():
    kids = [int(problem("n=192, epsilon 1", seed=s).child_start[-1]) for s in range(60)]
    assert min(kids) >= 10
    assert max(kids) <= 60
    assert len(set(kids)) > 20


@pytest.mark.parametrize("law", ["geometric", "gaussian"])
def test_noise_has_the_variance_that_the_weights_state(law):
    variance = geometric_variance(0.1)
    draws = draw_noise(np.random.default_rng(1), law, variance, (400_000,))
    assert np.array_equal(draws, np.rint(draws))
    assert draws.var() == pytest.approx(variance, rel=0.02)
    assert draws.var() != pytest.approx(1.05 * variance, rel=0.02)


def test_the_variance_of_the_end_to_end_test():
    assert geometric_variance(0.00625) == pytest.approx(204_799.8, abs=0.1)


def test_the_comparison_states_time_ratio_and_violation(monkeypatch):
    monkeypatch.setattr(topdown_solve, "PROBLEMS", 2)
    monkeypatch.setattr(topdown_solve, "SETTINGS", {"n=192, epsilon 4": None})
    ours, piqp, osqp = topdown_solve.measure()
    assert ours.unit == "ms CPU"
    assert (piqp.unit, osqp.unit) == ("x headcount", "x headcount")
    assert all("violation" in reading.note for reading in (ours, piqp, osqp))
    assert min(ours.value, piqp.value, osqp.value) > 0


def test_both_baselines_solve_the_same_problem():
    batch = problem("n=192, epsilon 4", seed=1, children=3)
    task = programme(batch)
    piqp = topdown_solve.solve_piqp(task, 1.0, 10.0)
    osqp = topdown_solve.solve_osqp(task, float(task.curvature.max()), 10.0)
    assert piqp.finished
    assert osqp.finished
    assert violation(batch, piqp.x)[0] < 1e-6
    assert osqp.x == pytest.approx(piqp.x, abs=1)


def test_impatience_is_seen():
    task = programme(problem("n=2016, tracts", seed=1, children=12))
    assert not topdown_solve.solve_osqp(task, 1.0, 1e-3).finished
