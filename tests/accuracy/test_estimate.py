"""Best linear estimates, against generalised least squares written out."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.accuracy import estimate, rows
from headcount.accuracy.estimate import BestEstimates, Coordinates
from headcount.accuracy.together import TogetherTree
from headcount.accuracy.units import AnswerVariances
from headcount.arrays import Floats
from tests.accuracy.oracle import Dense, dense_errors, leaves_of
from tests.accuracy.trees import Case, cases


def _drawn(
    case: Case, dense: Dense, chance: np.random.Generator
) -> tuple[Floats, dict[tuple[int, str], Floats]]:
    """Made-up true counts, and answers with noise but for what is exact."""
    truth = chance.integers(0, 20, size=(leaves_of(case.tree) * case.schema.size)).astype(float)
    drawn: dict[tuple[int, str], Floats] = {}
    for depth, level in enumerate(case.tree.levels):
        for name, matrix in case.queries.items():
            units = case.tree.units(depth)
            true = np.array([matrix @ dense.units[depth, u] @ truth for u in range(units)])
            noise = 0.0 if name in level.exact else chance.normal(size=true.shape)
            drawn[depth, name] = true + noise
    return truth, drawn


@settings(max_examples=200, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1), st.booleans())
def test_estimates_are_those_of_dense_least_squares(case: Case, seed: int, few: bool) -> None:
    """Whatever answers tell of must come out the same, with all units in memory or a few."""
    dense = dense_errors(case.tree, case.queries, case.schema.size)
    truth, drawn = _drawn(case, dense, np.random.default_rng(seed))
    expected = _dense_estimate(case, drawn, truth, dense)
    with (
        patch.object(estimate, "NUMBERS_AT_ONCE", 40 if few else estimate.NUMBERS_AT_ONCE),
        patch.object(rows, "IN_MEMORY", 0 if few else rows.IN_MEMORY),
    ):
        for name, matrix in case.queries.items():
            coordinates = Coordinates(case.components, name, case.asked, case.schema.names)
            estimates = BestEstimates(
                case.tree,
                coordinates,
                lambda at, query, some: drawn[at, query][some.start : some.stop],
            )
            for depth in range(len(case.tree.levels)):
                pieces = list(estimates.at(depth))
                found = np.concatenate([some for _, some in pieces])
                assert [unit for units, _ in pieces for unit in units] == list(range(len(found)))
                for unit in range(case.tree.units(depth)):
                    agree(found[unit], matrix @ dense.units[depth, unit], expected, dense)


def agree(found: Floats, own: Floats, expected: Floats, dense: Dense) -> None:
    """Ten digits of what the estimates are added up from, where answers tell of them."""
    if np.isfinite(dense.mean_variance(own)):
        largest = max(1.0, (abs(own) @ abs(expected)).max())
        assert np.abs(found - own @ expected).max() < 1e-10 * largest


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_totals_that_siblings_have_together_are_used_like_any_other(case: Case, seed: int) -> None:
    chance, depth = np.random.default_rng(seed), len(case.tree.levels) - 1
    if not depth:
        return
    depth = int(chance.integers(1, depth + 1))
    parent = case.tree.parents[depth].astype(np.int64)
    _, group = np.unique(parent * 2 + chance.integers(0, 2, len(parent)), return_inverse=True)
    group = chance.permutation(int(group.max()) + 1)[group].astype(np.int32)
    several = [
        ("total", depth, np.flatnonzero(group == k).tolist()) for k in range(int(group.max()) + 1)
    ]
    dense = dense_errors(case.tree, case.queries, case.schema.size, several)
    truth, drawn = _drawn(case, dense, chance)
    expected = _dense_estimate(case, drawn, truth, dense)
    together = TogetherTree.of(case.tree, {depth: (group, ("total",))})
    sums = drawn[depth, "total"] * 0
    true = np.array([[(dense.units[depth, u] @ truth).sum()] for u in range(len(group))])
    np.add.at(sums, group, true)

    def answered(at: int, query: str, some: range) -> Floats:
        places = together.places[at][some.start : some.stop]
        before = together.levels[at]
        return sums[places] if before < 0 else drawn[before, query][places]

    for name, matrix in case.queries.items():
        coordinates = Coordinates(case.components, name, case.asked, case.schema.names)
        estimates = BestEstimates(together.tree, coordinates, answered)
        for before in range(len(case.tree.levels)):
            at = together.depth(before)
            found = np.concatenate([some for _, some in estimates.at(at)])
            variances = AnswerVariances.of(together.tree, case.components, name, at)
            mean = variances.units(range(len(found))).mean(axis=1)
            for now, unit in enumerate(together.places[at].tolist()):
                own = matrix @ dense.units[before, unit]
                agree(found[now], own, expected, dense)
                assert dense.agrees(float(mean[now]), own)


def _dense_estimate(
    case: Case, drawn: dict[tuple[int, str], Floats], truth: Floats, dense: Dense
) -> Floats:
    """Truth + covariance (right side - precision truth): least squares that keeps what is exact."""
    right = np.zeros_like(truth)
    for depth, level in enumerate(case.tree.levels):
        for unit in range(case.tree.units(depth)):
            kind = 0 if level.of_unit is None else int(level.of_unit[unit])
            for name, weight in level.weights[kind].items():
                rows = case.queries[name] @ dense.units[depth, unit]
                right += weight * rows.T @ (drawn[depth, name][unit] - rows @ truth)
    return truth + dense.covariance @ right
