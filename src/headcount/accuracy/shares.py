"""A split of the loss over levels and queries that suits a goal, found without any data.

Shares s of the loss change the weights of answers, w = w0 (s / s0)^p, and these the variances of
the best linear estimates, on a tree in which every unit of a level has as many children (the mean).
Of all shares that add up to 1, those are sought that make smallest

    balanced   the weighted mean of  variance / variance now
    minimax    the largest of them

over levels and queries, where
    s0, w0   shares and weights now
    p        1 where the loss is zCDP, 2 where it is pure: how precision grows with a share

Under zCDP variances are convex in shares, so that there is one optimum. A gain at one level is a
loss at another: a suggestion is to be read with the whole table beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headcount.accuracy.components import Components
from headcount.accuracy.kinds import NoiseTree
from headcount.accuracy.known import conditioned, divided, spanned, symmetric
from headcount.arrays import Floats, Ints
from headcount.errors import ConfigError

Goal = Literal["balanced", "minimax"]
Pair = tuple[int, str]
"""A depth and a query."""

SMALLEST = 1e-5
"""No share that is measured becomes smaller: a query is not dropped for a goal."""
STEP = 1e-6
SHARPNESS = 60.0
"""The largest of some ratios is taken as a mean of their powers of this."""


@dataclass(frozen=True, eq=False)
class SharesProblem:
    """The shares of measured pairs, and what they are to be good for.

    where
        measured   pairs that have a share, each with it and its weight 1 / variance
        wanted     pairs that the goal is about, each with its importance
        power      p
    """

    tree: NoiseTree
    components: Components
    measured: Mapping[Pair, tuple[float, float]]
    wanted: Mapping[Pair, float]
    power: int

    def suggest(self, goal: Goal) -> dict[Pair, float]:
        """The shares that suit the goal best."""
        from scipy.optimize import minimize

        now = np.array([share for share, _ in self.measured.values()])
        before = self._variances(now[None, :])[0]
        importance = np.array(list(self.wanted.values()))
        importance = importance / importance.sum()

        def badness(shares: Floats) -> Floats:
            ratios = self._variances(shares) / before
            if goal == "balanced":
                return np.asarray(np.log(ratios @ importance))
            largest = ratios.max(axis=1, keepdims=True)
            powers = np.mean((ratios / largest) ** SHARPNESS, axis=1)
            return np.asarray(np.log(largest[:, 0]) + np.log(powers) / SHARPNESS)

        def with_slope(logs: Floats) -> tuple[float, Floats]:
            tried = np.vstack([logs, logs + STEP * np.eye(len(logs))])
            found = badness(_shares(tried))
            return float(found[0]), (found[1:] - found[0]) / STEP

        ends = [(np.log(SMALLEST), 0.0)] * len(now)
        found = minimize(with_slope, np.log(now), jac=True, bounds=ends, method="L-BFGS-B")
        best = _shares(found.x[None, :])[0]
        return dict(zip(self.measured, best.tolist(), strict=True))

    def _variances(self, shares: Floats) -> Floats:
        """Of each wanted pair (columns), for several sets of shares (rows)."""
        found = np.zeros((len(shares), len(self.wanted)))
        for component in self.components.every:
            size = self.components.size(component)
            precision = np.zeros((len(self.tree.levels), len(shares), size, size))
            for column, ((depth, query), (share, weight)) in enumerate(self.measured.items()):
                own = weight * (shares[:, column] / share) ** self.power
                precision[depth] += own[:, None, None] * self.components.precision(query, component)
            exact = [self._exact(depth, component, size) for depth in range(len(precision))]
            covariances = self._estimates(precision, exact)
            for column, (depth, query) in enumerate(self.wanted):
                spread = self.components.spread(query, component)
                found[:, column] += np.einsum("ij,nji->n", spread, covariances[depth])
        return found

    def _exact(self, depth: int, component: tuple[bool, ...], size: int) -> Floats:
        known = [self.components.precision(q, component) for q in self.tree.levels[depth].exact]
        return spanned(np.hstack([np.zeros((size, 1)), *known]))

    def _estimates(self, precision: Floats, exact: list[Floats]) -> list[Floats]:
        """V at every depth, of an even tree; see tree.py."""
        one, fans = np.eye(precision.shape[-1]), self._fans()
        up: list[Floats] = []
        for depth in reversed(range(len(precision))):
            if not up:
                own = divided(np.broadcast_to(one, precision[depth].shape), precision[depth])
                up.insert(0, symmetric(conditioned(own, exact[depth])))
                continue
            below = conditioned(fans[depth] * up[0], exact[depth])
            up.insert(0, symmetric(divided(below, one + precision[depth] @ below)))
        down = [up[0]]
        for depth in range(1, len(precision)):
            # Each of k equal children has 1/k of the sum, and of what is left open of it.
            share = 1 / fans[depth - 1]
            down.append((1 - share) * up[depth] + share**2 * down[-1])
        return down

    def _fans(self) -> Floats:
        """How many children a mean unit of each level has."""
        units: Ints = np.array([self.tree.units(depth) for depth in range(len(self.tree.levels))])
        return np.asarray(units[1:] / units[:-1], dtype=np.float64)


def _shares(logs: Floats) -> Floats:
    """Shares that add up to 1, in proportion to what these are the logarithms of."""
    parts = np.exp(logs)
    return np.asarray(parts / parts.sum(axis=-1, keepdims=True))


def refuse_unfounded(problem: SharesProblem) -> None:
    """Refuse a split where leaves are not asked for every cell: nothing else tells of them."""
    leaf = len(problem.tree.levels) - 1
    whole = [query for depth, query in problem.measured if depth == leaf]
    for component in problem.components.every:
        parts = [problem.components.precision(query, component) for query in whole]
        total = sum(parts, start=np.zeros((problem.components.size(component),) * 2))
        if np.linalg.matrix_rank(total) < len(total):
            raise ConfigError(
                "plan",
                place="goal",
                found="a lowest level that is not asked for every cell",
                expected="a share for 'cells' there: without it no split tells of its cells",
            )
