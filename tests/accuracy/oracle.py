"""Generalised least squares written out: one dense matrix over all leaves and cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.accuracy.kinds import NoiseTree
from headcount.arrays import Floats

UNKNOWN = 1e-7


@dataclass(frozen=True, eq=False)
class Dense:
    """The covariance of all leaves' cells, and a basis of what no answer tells of."""

    covariance: Floats
    unknown: Floats
    units: Mapping[tuple[int, int], Floats]

    def mean_variance(self, rows: Floats) -> float:
        """Of some sums of leaves' cells."""
        if np.abs(rows @ self.unknown).max(initial=0.0) > UNKNOWN:
            return float("inf")
        return float(np.trace(rows @ self.covariance @ rows.T)) / len(rows)

    def agrees(self, found: float, rows: Floats) -> bool:
        """Whether a variance is that of some sums, to twelve digits of what they are added up from.

        Or both are infinite.
        """
        expected = self.mean_variance(rows)
        largest = abs(rows) @ abs(self.covariance) @ abs(rows).T
        return found == expected or abs(found - expected) <= 1e-12 * max(1.0, largest.max())


def leaves_of(tree: NoiseTree) -> int:
    """How many leaves a tree has."""
    return len(tree.parents[-1]) if len(tree.parents) > 1 else 1


def dense_errors(
    tree: NoiseTree,
    queries: Mapping[str, Floats],
    cells: int,
    together: Sequence[tuple[str, int, Sequence[int]]] = (),
) -> Dense:
    """Of a tree, from the 0/1 matrices of its queries (answers x cells).

    ``together`` are queries that some units of a depth have exactly together.
    """
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
    _, sizes, right = np.linalg.svd(np.vstack(exact))
    free = right[int((sizes > 1e-9).sum()) :].T
    values, vectors = np.linalg.eigh(free.T @ precision @ free)
    some = values > 1e-9 * max(values.max(initial=0.0), 1.0)
    inverse = (vectors[:, some] / values[some]) @ vectors[:, some].T
    return Dense(free @ inverse @ free.T, free @ vectors[:, ~some], units)
