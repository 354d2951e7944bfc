"""Small symmetric matrices taken apart: the smallest subspaces that each of them stays within.

An eigenvector of a random sum of the matrices, and all that the matrices make of it and of each
other's results, span a subspace that none of them leaves, and neither do they leave what is at
right angles to it. Almost surely it is as small as any; were it not, it would still be right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headcount.accuracy.known import NOTHING, complement
from headcount.arrays import Floats

MIXED = 16
"""Random sums of the matrices: of one alone, eigenvalues may be close by chance."""


def invariant_blocks(matrices: Sequence[Floats], size: int) -> list[Floats]:
    """Orthonormal bases (size x dimension) of subspaces that add up to all of it."""
    scaled = [one / np.abs(one).max() for one in matrices if one.any()]
    if size == 1 or not scaled:
        return [np.eye(size)]
    weights = np.random.default_rng(size).normal(size=(MIXED, len(scaled)))
    mixed = np.tensordot(weights, np.stack(scaled), axes=1)
    found: list[Floats] = []
    rest: Floats = np.eye(size)
    while rest.shape[1]:
        block = _closed(rest @ _direction(rest.T @ mixed @ rest), scaled)
        if block.shape[1] == size:
            return [np.eye(size)]
        found.append(block)
        rest = rest @ complement(rest.T @ block)
    return found


def _direction(mixed: Floats) -> Floats:
    """The eigenvector of some matrix whose eigenvalue is farthest from others: the most exact."""
    values, vectors = np.linalg.eigh(mixed)
    apart = np.abs(values[:, :, None] - values[:, None, :])
    nearest = np.where(apart < NOTHING, np.inf, apart).min(axis=2)  # equal ones are copies
    which, at = np.unravel_index(int(nearest.argmax()), nearest.shape)
    found: Floats = vectors[which][:, at : at + 1]
    return found


def _closed(first: Floats, matrices: Sequence[Floats]) -> Floats:
    """An orthonormal basis of all that the matrices make of a direction, again and again."""
    basis, at = first, 0
    while at < basis.shape[1]:
        for matrix in matrices:
            new = matrix @ basis[:, at]
            for _ in range(2):  # twice, so that rounding leaves it at right angles
                new = new - basis @ (basis.T @ new)
            if (length := float(np.linalg.norm(new))) > NOTHING:
                basis = np.column_stack([basis, new / length])
        at += 1
    return basis
