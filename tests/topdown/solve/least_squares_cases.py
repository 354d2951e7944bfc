"""Small random problems that have an answer, and dense oracles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.topdown.solve.batch import NO_BOUND, Batch
from headcount.topdown.solve.leastsquares import programme, solve_clarabel
from tests.support.dense import Margin, from_dense
from tests.support.solver_answers import objective


@dataclass(frozen=True, eq=False)
class Case:
    """A problem with the counts (cells, children) around which its bounds were made."""

    batch: Batch
    truth: NDArray[np.int64]


def random_case(seed: int, *, zero_weights: bool = True) -> Case:
    """Up to 9 cells, 5 children and 4 families; bounds from none to lo = hi = the truth."""
    rng = np.random.default_rng(seed)
    root = rng.random() < 0.15
    n, kids = int(rng.integers(1, 10)), 1 if root else int(rng.integers(1, 6))
    mean, filled = rng.choice([0.3, 2, 20, 1000]), rng.choice([0.4, 0.9])
    truth = rng.poisson(mean, (n, kids)) * (rng.random((n, kids)) < filled)
    sd = rng.choice([0.5, 5, 50])
    families = []
    for _ in range(int(rng.integers(0, 5))):
        group = rng.integers(0, rng.integers(1, 5), n)
        exact = np.zeros((int(group.max()) + 1, kids), np.int64)
        np.add.at(exact, group, truth)
        low, high = _bounds(rng, exact)
        weight = float(rng.choice([0.0, 0.1, 1.0, 50.0]))
        families.append(
            Margin(
                group=group,
                weight=weight if zero_weights else max(weight, 2.0),
                margin=exact + np.rint(rng.normal(0, sd, exact.shape)),
                low=low,
                high=high,
            )
        )
    batch = from_dense(
        truth + np.rint(rng.normal(0, sd, truth.shape)),
        weight=float(rng.choice([0, 1, 1, 1])) if zero_weights else 1.0,
        total=None if root else truth.sum(axis=1),
        families=families,
        opened=(truth > 0) | (rng.random(truth.shape) < 0.6),
    )
    return Case(batch, truth)


def _bounds(
    rng: np.random.Generator, exact: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    kind = rng.integers(0, 4)
    if kind == 0:
        return exact, exact
    if kind == 1:
        room = rng.integers(0, 4, exact.shape)
        return np.maximum(exact - room, 0), exact + rng.integers(0, 4, exact.shape)
    if kind == 2:
        return np.where(rng.random(exact.shape) < 0.5, exact, -NO_BOUND), None
    return None, None


def reference(batch: Batch) -> float:
    """Clarabel's optimal objective."""
    _, x = solve_clarabel(programme(batch), tolerance=1e-11)
    return float(objective(batch, np.maximum(x, 0)).sum())
