"""Generalised least squares written out: one dense matrix over all leaves and cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.arrays import Flags, Floats
from headcount.topdown.linear.tree import NoiseTree

UNKNOWN = 1e-7
EXACT = 1e-12
"""A variance that is less of what it is added up from is a rounding error of 0."""


@dataclass(frozen=True, eq=False)
class Dense:
    """The covariance of all leaves' cells, and a basis of what no answer tells of.

    where
        noise   the smallest variance of an answer: rounding errors of 0 are small beside it
    """

    covariance: Floats
    unknown: Floats
    units: Mapping[tuple[int, int], Floats]
    noise: float

    def mean_variance(self, rows: Floats) -> float:
        """Of some sums of leaves' cells."""
        if np.abs(rows @ self.unknown).max(initial=0.0) > UNKNOWN:
            return float("inf")
        return float(np.trace(rows @ self.covariance @ rows.T)) / len(rows)

    def agrees(self, found: float, rows: Floats) -> bool:
        """Whether a variance is that of some sums, to ten digits, or both are infinite.

        The twelfth digit is that of eigenvectors, which take counts apart. What is exact has a
        variance of 0, but for rounding errors of what it is added up from.
        """
        expected = self.mean_variance(rows)
        largest = max(self.noise, (abs(rows) @ abs(self.covariance) @ abs(rows).T).max())
        scale = expected if expected > EXACT * largest else largest
        return found == expected or abs(found - expected) <= 1e-10 * scale


def leaves_of(tree: NoiseTree) -> int:
    """How many leaves a tree has."""
    return len(tree.parents[-1]) if len(tree.parents) > 1 else 1


def dense_errors(
    tree: NoiseTree,
    queries: Mapping[str, Floats],
    possible: Flags,
    together: Sequence[tuple[str, int, Sequence[int]]] = (),
) -> Dense:
    """Of a tree, from the 0/1 matrices of its queries (answers x cells).

    where
        possible   for each cell whether it can hold anybody: the others are exactly 0
        together   queries that some units of a depth have exactly together
    """
    cells = len(possible)
    depths, leaves = len(tree.parents), leaves_of(tree)
    ancestor: list[Any] = [np.arange(leaves)]
    for depth in range(depths - 1, 0, -1):
        ancestor.insert(0, tree.parents[depth][ancestor[0]])
    precision = np.zeros((leaves * cells, leaves * cells))
    exact, units = [np.zeros((1, leaves * cells))], {}
    for depth, level in enumerate(tree.levels):
        for unit in range(int(ancestor[depth].max()) + 1):
            inside = (ancestor[depth] == unit).astype(float)
            units[depth, unit] = own = np.kron(inside[None, :], np.eye(cells))
            kind = 0 if level.of_unit is None else int(level.of_unit[unit])
            for name, weight in level.weights[kind].items():
                rows = queries[name] @ own
                precision += weight * rows.T @ rows
            exact += [queries[name] @ own for name in level.exact]
    for name, depth, some in together:
        own = np.sum([units[depth, unit] for unit in some], axis=0)
        exact.append(queries[name] @ own)
    open_ = np.eye(leaves * cells)[:, np.tile(possible, leaves)]
    _, sizes, right = np.linalg.svd(np.vstack(exact) @ open_)
    free = open_ @ right[int((sizes > 1e-9).sum()) :].T
    values, vectors = np.linalg.eigh(free.T @ precision @ free)
    some = values > 1e-9 * max(values.max(initial=0.0), 1.0)
    inverse = (vectors[:, some] / values[some]) @ vectors[:, some].T
    weights = [one for level in tree.levels for own in level.weights for one in own.values()]
    noise = 1 / max(weights, default=1.0)
    return Dense(free @ inverse @ free.T, free @ vectors[:, ~some], units, noise)
