"""Small symmetric matrices taken apart: the smallest subspaces that each of them stays within.

An eigenvector of a random sum of the matrices, and all that the matrices make of it and of each
other's results, span a subspace that none of them leaves, and neither do they leave what is at
right angles to it. Almost surely it is as small as any; were it not, it would still be right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headcount.arrays import Floats
from headcount.topdown.linear.known import NOTHING, complement

MIXED = 16
"""Random sums of the matrices: of one alone, eigenvalues may be close by chance."""
FAR = 0.01
"""Eigenvectors are used at once if their eigenvalue is this part as far from others as the farthest
one; the others wait until fewer are left."""
OUTSIDE = 0.5
"""The part of an eigenvector outside of a subspace that none of the matrices leaves is 0 or 1, but
for rounding."""

OVERLAP = 1e-6
"""Subspaces that have more than this of each other are taken one at a time, or not apart."""


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
        directions = rest @ _directions(rest.T @ mixed @ rest)
        for few in (directions, directions[:, :1]):
            blocks = _apart(few, scaled)
            if blocks[0].shape[1] == size:
                return [np.eye(size)]
            inside = rest.T @ np.hstack(blocks)
            if _orthonormal(inside):
                break
        else:
            return [np.eye(size)]
        found += blocks
        rest = rest @ complement(inside)
    return found


def _orthonormal(columns: Floats) -> bool:
    """Whether subspaces are apart; rounding that is taken for something makes them overlap."""
    return bool(np.abs(columns.T @ columns - np.eye(columns.shape[1])).max() < OVERLAP)


def _apart(directions: Floats, matrices: Sequence[Floats]) -> list[Floats]:
    """The subspaces of some eigenvectors. Each of these is inside one of them, or outside."""
    found: list[Floats] = []
    spanned: Floats = np.zeros((len(directions), 0))
    for one in directions.T:
        left = one - spanned @ (spanned.T @ one)
        if (length := float(np.linalg.norm(left))) > OUTSIDE:
            found.append(_closed(left[:, None] / length, matrices))
            spanned = np.hstack([spanned, found[-1]])
    return found


def _directions(mixed: Floats) -> Floats:
    """The eigenvectors of some matrix whose eigenvalues are far from others, which are the most
    exact: in columns, that of the farthest first.
    """
    values, vectors = np.linalg.eigh(mixed)
    apart = np.abs(values[:, :, None] - values[:, None, :])
    nearest = np.where(apart < NOTHING, np.inf, apart).min(axis=2)  # equal ones are copies
    which = int(nearest.max(axis=1).argmax())
    order = np.argsort(-nearest[which], kind="stable")
    enough = nearest[which][order] >= FAR * nearest[which].max()
    found: Floats = vectors[which][:, order[enough]]
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
