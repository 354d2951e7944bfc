"""Subspaces that some matrices leave to themselves."""

from __future__ import annotations

import numpy as np
import pytest

from headcount.arrays import Floats
from headcount.topdown.linear.components import _invariant_blocks


def _hidden(seed: int) -> tuple[list[Floats], list[int]]:
    """Matrices with blocks along axes that nobody knows, and the sizes of these.

    Some blocks are there several times, and some matrices are 0 in some of them.
    """
    rng = np.random.default_rng(seed)
    kinds = [(int(rng.integers(1, 5)), int(rng.integers(1, 4))) for _ in range(rng.integers(1, 5))]
    sizes = [size for size, copies in kinds for _ in range(copies)]
    axes = np.linalg.qr(rng.normal(size=(sum(sizes), sum(sizes))))[0]
    matrices: list[Floats] = []
    for _ in range(int(rng.integers(1, 5))):
        made, at = np.zeros_like(axes), 0
        for size, copies in kinds:
            root = rng.normal(size=(size, size)) * (rng.random() > 0.3)
            for _ in range(copies):
                made[at : at + size, at : at + size] = root @ root.T
                at += size
        matrices.append(axes @ made @ axes.T)
    return matrices, sizes


def test_blocks_are_apart_are_left_by_no_matrix_and_are_everything():
    """Also where rounding makes something of nothing, as in a few of these."""
    taken_apart = 0
    for seed in range(120):
        matrices, sizes = _hidden(seed)
        found = _invariant_blocks(matrices, sum(sizes))
        every = np.hstack(found)
        assert every.shape == (sum(sizes), sum(sizes)), seed
        assert every.T @ every == pytest.approx(np.eye(sum(sizes)), abs=1e-6), seed
        for one in found:
            for matrix in matrices:
                image = matrix @ one
                assert one @ (one.T @ image) == pytest.approx(image, abs=1e-5), seed
        taken_apart += max(one.shape[1] for one in found) <= max(sizes)
    assert taken_apart > 110
