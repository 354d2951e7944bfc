"""Seeded problems that are solved in two passes: totals first, then all other answers.

Small enough for general solvers, and with everything that a pass can meet: bounds on types, weights
that differ from child to child, siblings whose total is known together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Ints
from headcount.topdown.solve.batch import Batch
from headcount.topdown.solve.passes import FitPass
from headcount.topdown.solve.rounding import RoundPass
from tests.support.dense import Margin, from_dense, groups_keeping

SHAPE = (3, 2, 2, 4)  # type, adult, hispanic, race
TOTAL, TYPE, RACE, RACE_HISPANIC, REST = (), (0,), (3,), (2, 3), (1, 2, 3)
QUERIES = (TOTAL, TYPE, RACE, RACE_HISPANIC, REST)
TOTALS_FIRST = (
    FitPass(families=(0,)),
    FitPass(families=tuple(range(1, len(QUERIES))), detail=True),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class PassProblem:
    """A batch of one parent, and counts (cells, children) that keep its constraints."""

    batch: Batch
    truth: Ints


def pass_problem(seed: int) -> PassProblem:
    """One problem of 48 cells and two to six children."""
    rng = np.random.default_rng([seed, 2020])
    kids, n = int(rng.integers(2, 7)), int(np.prod(SHAPE))
    mean, filled = rng.choice([0.5, 5.0, 100.0]), rng.choice([0.3, 0.9])
    truth = rng.poisson(mean, (n, kids)) * (rng.random((n, 1)) < filled)
    truth[0] += 1
    uneven = rng.random() < 0.4
    families = []
    for keep in QUERIES:
        group = groups_keeping(SHAPE, keep)
        exact = np.zeros((int(group.max()) + 1, kids), np.int64)
        np.add.at(exact, group, truth)
        variance = float(rng.choice([1.0, 6.0, 80.0, 4000.0]))
        own = variance * (rng.uniform(0.3, 3.0, kids) if uneven else np.ones(kids))
        low, high = (
            (exact // 2, exact + rng.integers(0, 40, exact.shape)) if keep == TYPE else 2 * [None]
        )
        noisy = exact + np.rint(rng.normal(0, own**0.5, exact.shape))
        families.append(Margin(group=group, weight=1 / own, margin=noisy, low=low, high=high))
    joint = np.arange(kids) // 2 if rng.random() < 0.4 else np.zeros(0, int)
    detail = float(rng.choice([2.0, 20.0]))
    batch = from_dense(
        truth + np.rint(rng.normal(0, detail**0.5, truth.shape)),
        weight=1 / detail,
        total=truth.sum(axis=1),
        families=families,
        joint=joint,
        joint_total=np.bincount(joint, truth.sum(axis=0)) if len(joint) else (),
    )
    return PassProblem(batch=batch, truth=truth)


CELLS = tuple(range(len(SHAPE)))
Nested = tuple[tuple[int, ...], ...]
CHAINS: tuple[Nested, Nested] = (((),), ((0,), (0, 2), (0, 2, 3), CELLS, CELLS))
"""Totals first; then a chain whose cells count twice, as in the redistricting product of 2020."""


def rounding_passes(seed: int) -> tuple[RoundPass, ...]:
    """The two passes of 2020, or all queries in one, or a chain with a query left out."""
    chains: tuple[Nested, ...] = CHAINS
    if seed % 3 == 1:
        chains = (CHAINS[0] + CHAINS[1],)
    elif seed % 3 == 2:
        chains = (CHAINS[0], CHAINS[1][:1], CHAINS[1][2:4])
    return tuple(
        tuple(groups_keeping(SHAPE, keep).astype(np.int32) for keep in chain) for chain in chains
    )
