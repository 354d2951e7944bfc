"""Best linear estimates, against generalised least squares written out."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.accuracy.estimate import Coordinates, best_estimates
from headcount.arrays import Floats
from tests.accuracy.oracle import dense_errors, leaves_of
from tests.accuracy.trees import Case, cases


@settings(max_examples=200, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_estimates_are_those_of_dense_least_squares(case: Case, seed: int) -> None:
    """True counts and noise are made up; whatever answers tell of must come out the same."""
    chance, cells = np.random.default_rng(seed), case.schema.size
    truth = chance.integers(0, 20, size=(leaves_of(case.tree), cells)).astype(float)
    dense = dense_errors(case.tree, case.queries, cells)
    drawn: dict[tuple[int, str], Floats] = {}
    for depth, level in enumerate(case.tree.levels):
        for name, matrix in case.queries.items():
            units = case.tree.units(depth)
            true = np.array([matrix @ dense.units[depth, u] @ truth.ravel() for u in range(units)])
            noise = 0.0 if name in level.exact else chance.normal(size=true.shape)
            drawn[depth, name] = true + noise
    expected = _dense_estimate(case, drawn, truth.ravel(), dense)
    for name, matrix in case.queries.items():
        coordinates = Coordinates(case.components, name, case.asked, case.schema.names)
        for depth in range(len(case.tree.levels)):
            found = best_estimates(
                case.tree,
                coordinates,
                lambda at, query, some: drawn[at, query][some.start : some.stop],
                depth=depth,
            )
            for unit in range(case.tree.units(depth)):
                rows = matrix @ dense.units[depth, unit]
                if np.isfinite(dense.mean_variance(rows)):
                    exact = rows @ expected
                    largest = max(1.0, (abs(rows) @ abs(expected)).max())
                    assert np.abs(found[unit] - exact).max() < 1e-10 * largest


def _dense_estimate(
    case: Case, drawn: dict[tuple[int, str], Floats], truth: Floats, dense: object
) -> Floats:
    """Truth + covariance (right side - precision truth): least squares that keeps what is exact."""
    right = np.zeros_like(truth)
    for depth, level in enumerate(case.tree.levels):
        for unit in range(case.tree.units(depth)):
            kind = 0 if level.of_unit is None else int(level.of_unit[unit])
            for name, weight in level.weights[kind].items():
                rows = case.queries[name] @ dense.units[depth, unit]  # type: ignore[attr-defined]
                right += weight * rows.T @ (drawn[depth, name][unit] - rows @ truth)
    return truth + dense.covariance @ right  # type: ignore[attr-defined, no-any-return]
