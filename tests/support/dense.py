"""Batches from dense arrays of one parent, and several batches side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.topdown.solve.batch import NO_BOUND, Batch


@dataclass(frozen=True, eq=False, kw_only=True)
class Margin:
    """A marginal of one parent's children: measured (weight > 0), bounded, or both.

    group[cell] numbers the marginal's groups from 0; margin, low and high are (groups, children);
    the weight is one for all children or one for each.
    """

    group: ArrayLike
    weight: ArrayLike = 0.0
    margin: ArrayLike | None = None
    low: ArrayLike | None = None
    high: ArrayLike | None = None


def from_dense(
    answer: ArrayLike,
    *,
    weight: ArrayLike,
    total: ArrayLike | None,
    families: Sequence[Margin] = (),
    opened: ArrayLike | None = None,
    joint: ArrayLike = (),
    joint_total: ArrayLike = (),
    parent: int = 0,
) -> Batch:
    """One parent's problem from answers (cells, children); total None makes it the root's.

    Cells with total 0 are dropped. ``opened`` (cells, children) says where a count may be,
    ``joint`` (children) which children have a total together.
    """
    noisy = np.asarray(answer, np.float64)
    n, kids = noisy.shape
    totals = np.zeros(n, np.int64) if total is None else np.asarray(total, np.int64)
    cell = np.arange(n) if total is None else np.flatnonzero(totals)
    mask = np.ones((n, kids), bool) if opened is None else np.asarray(opened, bool)
    entry, child = np.nonzero(mask[cell])
    groups = [np.asarray(f.group, np.int32) for f in families]
    widths = [int(g.max()) + 1 for g in groups]
    start = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)

    def table(rows: Sequence[ArrayLike | None], empty: np.float64 | np.int64) -> NDArray[Any]:
        parts = [
            np.full((w, kids), empty) if r is None else np.asarray(r, empty.dtype)
            for w, r in zip(widths, rows, strict=True)
        ]
        return np.ascontiguousarray(np.concatenate([np.full((0, kids), empty), *parts]).T)

    def each(weight: ArrayLike) -> Floats:
        return np.broadcast_to(np.asarray(weight, np.float64), kids).copy()

    return Batch(
        parent=np.array([parent]),
        cell_start=np.array([0, len(cell)]),
        cell=cell.astype(np.int32),
        total=totals[cell],
        child_start=np.array([0, kids]),
        var_start=np.concatenate([[0], np.cumsum(mask[cell].sum(axis=1))]).astype(np.int64),
        var_child=child.astype(np.int32),
        answer=noisy[cell][entry, child],
        weight=each(weight),
        family_start=start,
        group=np.array(groups, np.int32).reshape(len(groups), n),
        family_weight=np.stack([*(each(f.weight) for f in families)], axis=1)
        if families
        else np.zeros((kids, 0)),
        margin=table([f.margin for f in families], np.float64(0.0)),
        low=table([f.low for f in families], -NO_BOUND),
        high=table([f.high for f in families], NO_BOUND),
        is_root=total is None,
        joint=np.asarray(joint, np.int32),
        joint_total=np.asarray(joint_total, np.int64),
    )


def reopen(
    batch: Batch,
    *,
    keep: Ints32,
    total: Ints,
    answer: Floats,
    opened: Flags | None = None,
) -> Batch:
    """A parent's problem with every cell in which the kept margin is positive.

    ``total`` (n) and ``answer`` (n, children) give the parent's counts and the noisy detailed
    answers of all schema cells, ``opened`` (n, children) where a count may be.
    """
    margin = np.bincount(keep, weights=total)
    cell = np.flatnonzero(margin[keep] > 0).astype(np.int32)
    free = np.ones(answer.shape, dtype=bool) if opened is None else opened
    entry, child = np.nonzero(free[cell])
    return replace(
        batch,
        cell_start=np.array([0, len(cell)]),
        cell=cell,
        total=total[cell],
        var_start=np.concatenate([[0], np.cumsum(free[cell].sum(axis=1))]).astype(np.int64),
        var_child=child.astype(np.int32),
        answer=np.ascontiguousarray(answer[cell][entry, child], dtype=np.float64),
    )


def to_dense(batch: Batch, x: NDArray[Any], *, n: int) -> NDArray[Any]:
    """The answer of a batch as (cells, children of all parents)."""
    dense = np.zeros((n, int(batch.child_start[-1])), x.dtype)
    dense[np.repeat(batch.cell, np.diff(batch.var_start)), batch.var_child] = x
    return dense


def on_variables(batch: Batch, dense: NDArray[Any]) -> NDArray[Any]:
    """A dense answer (cells, children) in the batch's order."""
    cell = np.repeat(batch.cell, np.diff(batch.var_start))
    return np.ascontiguousarray(dense[cell, batch.var_child])


def groups_keeping(shape: Sequence[int], axes: Sequence[int]) -> Ints:
    """The number of each cell's group when all but some axes are summed over."""
    if not axes:
        return np.zeros(int(np.prod(shape)), np.int64)
    levels = np.unravel_index(np.arange(int(np.prod(shape))), tuple(shape))
    return np.ravel_multi_index([levels[a] for a in axes], [shape[a] for a in axes])


def side_by_side(batches: Sequence[Batch]) -> Batch:
    """One batch of several with the same families, all with joint totals or none."""

    def starts(parts: Sequence[Ints]) -> Ints:
        return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(p) for p in parts]))])

    kids = np.concatenate([[0], np.cumsum([b.child_start[-1] for b in batches])]).astype(np.int32)
    shifted = [b.var_child + k for b, k in zip(batches, kids, strict=False)]
    totals = np.concatenate([[0], np.cumsum([len(b.joint_total) for b in batches])])
    numbered = list(zip(batches, totals.astype(np.int32), strict=False))
    return replace(
        batches[0],
        parent=np.concatenate([b.parent for b in batches]),
        cell_start=starts([b.cell_start for b in batches]),
        cell=np.concatenate([b.cell for b in batches]),
        total=np.concatenate([b.total for b in batches]),
        child_start=starts([b.child_start for b in batches]),
        var_start=starts([b.var_start for b in batches]),
        var_child=np.concatenate(shifted),
        answer=np.concatenate([b.answer for b in batches]),
        weight=np.concatenate([b.weight for b in batches]),
        family_weight=np.concatenate([b.family_weight for b in batches]),
        margin=np.concatenate([b.margin for b in batches]),
        low=np.concatenate([b.low for b in batches]),
        high=np.concatenate([b.high for b in batches]),
        joint=np.concatenate([np.where(b.joint < 0, -1, b.joint + k) for b, k in numbered]),
        joint_total=np.concatenate([b.joint_total for b in batches]),
    )
