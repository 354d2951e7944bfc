"""Shares that suit a goal: variances of an even tree, and their slopes."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headcount.topdown.linear.shares import SharesProblem, _EvenTree
from headcount.topdown.linear.tree import LevelNoise, NoiseTree
from tests.topdown.linear.trees import Case, cases, class_variances

FANS = np.array([3.0, 2.0])


def _even(case: Case, weights: list[float], exact: str) -> NoiseTree:
    """Two levels below the whole, every query asked everywhere, the first exact above."""
    parents = [np.zeros(0), np.zeros(3), np.repeat(np.arange(3), 2)]
    asked = [name for name in case.queries if name != exact]
    levels = [
        LevelNoise((dict.fromkeys(asked, own),), exact=(exact,) if exact and not depth else ())
        for depth, own in enumerate(weights)
    ]
    return NoiseTree([one.astype(np.int32) for one in parents], levels)


three = st.lists(st.floats(0.1, 2.0), min_size=3, max_size=3)


@settings(max_examples=60, deadline=None)
@given(cases(), three, st.sampled_from(["", "total"]))
def test_variances_of_an_even_tree_are_those_of_any_tree(
    case: Case, weights: list[float], exact: str
) -> None:
    tree = _even(case, weights, exact)
    wanted = {(depth, name): 1.0 for depth in range(3) for name in case.queries}
    measured = {
        (depth, name): (1.0, weight)
        for depth, level in enumerate(tree.levels)
        for name, weight in level.weights[0].items()
    }
    problem = SharesProblem(tree, case.components, measured, wanted, power=1)
    found, _ = problem._variances(np.ones(len(measured)))
    exact_ones = class_variances(tree, case.components, list(case.queries))
    expected = [float(exact_ones[pair][0]) for pair in wanted]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_slopes_are_those_of_small_steps(seed: int, exact: bool) -> None:
    chance = np.random.default_rng(seed)
    parts = chance.normal(size=(3, 2, 3, 5))
    precision = parts @ parts.swapaxes(-1, -2) + 0.3 * np.eye(3)
    known = [np.ones((3, 1)) / np.sqrt(3) if exact else np.zeros((3, 0))] + [np.zeros((3, 0))] * 2
    goal = chance.normal(size=precision.shape)
    goal = goal + goal.swapaxes(-1, -2)

    def value(at: Any) -> float:
        return float(np.sum(goal * _EvenTree(at, known, FANS).covariances))

    step = chance.normal(size=precision.shape)
    step = 1e-6 * (step + step.swapaxes(-1, -2))
    slopes = _EvenTree(precision, known, FANS).slopes(goal)
    moved = (value(precision + step) - value(precision - step)) / 2
    assume(abs(moved) > 1e-9)
    assert np.sum(slopes * step) == pytest.approx(moved, rel=1e-4)


def test_a_search_that_ends_early_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    minimize = scipy.optimize.minimize

    def after_one_step(*given: Any, **keys: Any) -> Any:
        return minimize(*given, **{**keys, "options": {"maxiter": 1}})

    monkeypatch.setattr(scipy.optimize, "minimize", after_one_step)
    from tests.run.test_plan import DOMAIN, topdown

    poor = topdown(levels={"whole": "0.9", "level_1": "0.05", "level_2": "0.05"})
    with caplog.at_level(logging.WARNING):
        poor.on(DOMAIN).suggested("balanced")
    assert "the search for shares ended early" in caplog.text
    assert "better ones may exist" in caplog.text
