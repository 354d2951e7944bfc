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

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.errors import ConfigError
from headcount.topdown.linear.components import Component, Components
from headcount.topdown.linear.matrices import (
    cleared,
    divided,
    largest,
    pseudo_inverse,
    spanned,
    symmetric,
    without_rounding,
)
from headcount.topdown.linear.tree import NoiseTree


class _EvenTree:
    """Covariances V where all units of a level are alike: of components of one size, by depth.

    With k children of every unit above depth d, precision H_d and what is exact E_d (tree.py),

        B_d = k U_(d+1)  given what is exact,  U_d = (B_d^-1 + H_d)^-1,  at the leaf B = infinite
        V_0 = U_0,  V_d = (1 - 1/k) U_d + V_(d-1) / k^2

    Each of k equal children has 1/k of the sum, and of what is left open of it. The slopes of a
    number that depends on all V_d, in the precisions, follow by the chain rule, from the last step
    to the first: one pass back costs as much as one forward, whatever the number of shares.

    where
        precision   H: depths x components x size x size
        exact       E of each depth: size x directions
        fans        how many children a unit of each depth has
    """

    def __init__(self, precision: Floats, exact: list[Floats], fans: Floats) -> None:
        self._fans, one = fans, np.eye(precision.shape[-1])
        self._shape = precision.shape
        self._estimates: list[Floats] = []
        self._steps: list[tuple[Floats, Floats]] = []
        for depth in reversed(range(len(precision))):
            if not self._estimates:  # at the leaf (I + B H)^-1 B is H^-1, and what is exact is last
                whole = divided(np.broadcast_to(one, precision[depth].shape), precision[depth])
                keeps = _keeps(whole, exact[depth])
                estimate = cleared(keeps @ whole, whole)
                step = (estimate, keeps)
            else:
                below = fans[depth] * self._estimates[0]
                keeps = _keeps(below, exact[depth])
                below = cleared(symmetric(keeps @ below), below)
                turned = divided(np.broadcast_to(one, below.shape), one + below @ precision[depth])
                estimate, step = turned @ below, (turned @ below, turned @ keeps)
            self._estimates.insert(0, symmetric(estimate))
            self._steps.insert(0, step)
        self.covariances: Floats = np.stack(self._estimates)
        for depth in range(1, len(precision)):
            share = 1 / fans[depth - 1]
            from_above = share**2 * self.covariances[depth - 1]
            self.covariances[depth] = (1 - share) * self._estimates[depth] + from_above

    def slopes(self, of_covariance: Floats) -> Floats:
        """From the slopes of a number in each V those in each H, both symmetric."""
        of_estimate, down = np.zeros(self._shape), of_covariance.copy()
        for depth in reversed(range(1, len(down))):
            share = 1 / self._fans[depth - 1]
            of_estimate[depth] += (1 - share) * down[depth]
            down[depth - 1] += share**2 * down[depth]
        of_estimate[0] += down[0]
        found = np.zeros(self._shape)
        for depth, (estimate, turned) in enumerate(self._steps):
            back = of_estimate[depth]
            # dU = -U dH U + (turned dB turned'), and B is k times the U below.
            found[depth] = -estimate.swapaxes(-1, -2) @ back @ estimate
            if depth + 1 < len(self._steps):
                passed = turned.swapaxes(-1, -2) @ back @ turned
                of_estimate[depth + 1] += self._fans[depth] * passed
        return found


def _keeps(covariance: Floats, exact: Floats) -> Floats:
    """P = I - C E (E'C E)^+ E': P C is the covariance once E'x is known, and changes as P dC P'."""
    one = np.broadcast_to(np.eye(covariance.shape[-1]), covariance.shape)
    if not exact.size:
        return one
    of_sums = covariance @ exact
    inverse = pseudo_inverse(exact.T @ of_sums, scale=largest(covariance))
    return np.asarray(one - of_sums @ inverse @ exact.T)


log = logging.getLogger(__name__)

Goal = Literal["balanced", "minimax"]
Pair = tuple[int, str]
"""A depth and a query."""

SMALLEST = 1e-5
"""No share that is measured becomes smaller: a query is not dropped for a goal."""
SEARCH = {"maxcor": 40, "ftol": 1e-8, "maxiter": 2000}
"""Shares are rounded to parts of 100,000: the search need not find more of them."""
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
        before = self._variances(now)[0]
        importance = np.array(list(self.wanted.values()))
        importance = importance / importance.sum()

        def badness(logs: Floats) -> tuple[float, Floats]:
            shares = _shares(logs)
            variances, slopes = self._variances(shares)
            ratios = variances / before
            if goal == "balanced":
                found = float(np.log(ratios @ importance))
                of_ratio = importance / (ratios @ importance)
            else:
                powers = (ratios / ratios.max()) ** SHARPNESS
                found = float(np.log(ratios.max()) + np.log(powers.mean()) / SHARPNESS)
                of_ratio = powers / (powers.sum() * ratios)
            of_share = slopes(of_ratio / before)
            return found, shares * (of_share - of_share @ shares)

        ends = [(np.log(SMALLEST), 0.0)] * len(now)
        found = minimize(
            badness, np.log(now), jac=True, bounds=ends, method="L-BFGS-B", options=SEARCH
        )
        if not found.success:
            log.warning(
                "plan: the search for shares ended early (%s): better ones may exist than those "
                "that are suggested",
                found.message,
            )
        best = _shares(found.x)
        return dict(zip(self.measured, best.tolist(), strict=True))

    def not_exact(self) -> list[Pair]:
        """All depths and queries whose answers have errors."""
        now = np.array([share for share, _ in self.measured.values()])
        found, sizes = np.zeros(self._shape), np.zeros(self._shape)
        for part, tree in zip(self._parts, self._trees(self._weights(now)), strict=True):
            found += part.traces(part.spreads, tree.covariances)
            sizes += part.traces(np.abs(part.spreads), np.abs(tree.covariances))
        some = np.argwhere(without_rounding(found, sizes) > 0)
        return [(int(depth), self._names[query]) for depth, query in some]

    def _variances(self, shares: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
        """Of each wanted pair; and, from slopes of a goal in these, its slopes in the shares."""
        weights = self._weights(shares)
        trees, found = self._trees(weights), np.zeros(self._shape)
        for part, tree in zip(self._parts, trees, strict=True):
            found += part.traces(part.spreads, tree.covariances)

        def slopes(of_variance: Floats) -> Floats:
            own, of_weight = np.zeros(self._shape), np.zeros(self._shape)
            own[self._places(self.wanted)] = of_variance
            for part, tree in zip(self._parts, trees, strict=True):
                of_covariance = np.tensordot(own, part.spreads, axes=1)
                of_weight += part.traces(part.precisions, tree.slopes(of_covariance))
            measured = self._places(self.measured)
            return np.asarray((of_weight * weights)[measured] * self.power / shares)

        return found[self._places(self.wanted)], slopes

    @cached_property
    def _names(self) -> list[str]:
        return list(self.components.answers)

    @property
    def _shape(self) -> tuple[int, int]:
        """Depths x queries."""
        return len(self.tree.levels), len(self._names)

    def _places(self, pairs: Iterable[Pair]) -> tuple[Ints, Ints]:
        """Where pairs are among all depths and queries."""
        found = np.array([(depth, self._names.index(query)) for depth, query in pairs])
        return found[:, 0], found[:, 1]

    def _weights(self, shares: Floats) -> Floats:
        """1 / variance of every depth and query, 0 where it is not measured."""
        found = np.zeros(self._shape)
        known = np.array(list(self.measured.values()))
        found[self._places(self.measured)] = known[:, 1] * (shares / known[:, 0]) ** self.power
        return found

    def _trees(self, weights: Floats) -> list[_EvenTree]:
        return [
            _EvenTree(np.tensordot(weights, part.precisions, axes=1), part.exact, self._fans)
            for part in self._parts
        ]

    @cached_property
    def _parts(self) -> list[_Part]:
        """Components of one size of which the same is exact, side by side."""
        found: dict[tuple[int, tuple[bytes, ...]], list[Component]] = {}
        for one in self.components.every:
            exact = tuple(self._exact(depth, one).tobytes() for depth in range(len(self._fans) + 1))
            found.setdefault((one.size, exact), []).append(one)
        return [
            _Part(
                [self._exact(depth, those[0]) for depth in range(len(self._fans) + 1)],
                *(
                    np.stack([[of(query, one) for one in those] for query in self._names])
                    for of in (self.components.precision, self.components.spread)
                ),
            )
            for those in found.values()
        ]

    def _exact(self, depth: int, component: Component) -> Floats:
        size = component.size
        known = [self.components.precision(q, component) for q in self.tree.levels[depth].exact]
        return spanned(np.hstack([np.zeros((size, 1)), *known]))

    @cached_property
    def _fans(self) -> Floats:
        """How many children a mean unit of each level has."""
        units: Ints = np.array([self.tree.units(depth) for depth in range(len(self.tree.levels))])
        return np.asarray(units[1:] / units[:-1], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Part:
    """Some components: what is exact of them at each depth, and of each query Q'Q and spread.

    The latter are queries x components x size x size.
    """

    exact: list[Floats]
    precisions: Floats
    spreads: Floats

    @staticmethod
    def traces(queries: Floats, covariances: Floats) -> Floats:
        """Sums over components of trace(query covariance): depths x queries."""
        return np.asarray(np.tensordot(covariances, queries, axes=([1, 2, 3], [1, 2, 3])))


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
        total = sum(parts, start=np.zeros((component.size,) * 2))
        if np.linalg.matrix_rank(total) < len(total):
            raise ConfigError(
                "plan",
                place="goal",
                found="a lowest level that is not asked for every cell",
                expected="a share for 'cells' there: without it no split tells of its cells",
            )
