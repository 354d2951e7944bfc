"""What an answer costs and how far it is from feasible, parent by parent."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.topdown.solve.batch import NO_BOUND, Batch

Amounts = Floats | Ints


def margins(batch: Batch, x: Amounts) -> Floats:
    """The families' marginals of an answer, float64[C, S] as in the batch."""
    made = [family_margins(batch, x, f) for f in range(len(batch.group))]
    return np.concatenate([np.zeros((len(batch.margin), 0)), *made], axis=1)


def family_margins(batch: Batch, x: Amounts, family: int) -> Floats:
    """One family's marginals of an answer, float64[C, groups]."""
    kids, size = len(batch.margin), int(np.diff(batch.family_start)[family])
    cell = np.repeat(batch.group[family, batch.cell], np.diff(batch.var_start))
    at = batch.var_child.astype(np.int64) * size + cell
    sums = np.asarray(np.bincount(at, x, kids * size), np.float64)
    return sums.reshape(kids, size)


def objective(batch: Batch, x: Amounts) -> Floats:
    """The weighted squared distance of an answer to the noisy ones, float64[P]."""
    weight = np.repeat(batch.family_weight, np.diff(batch.family_start), axis=1)
    child = np.where(weight > 0, weight * (margins(batch, x) - batch.margin) ** 2, 0.0).sum(axis=1)
    own = batch.weight[batch.var_child]
    detail = np.where(own > 0, own * (x - batch.answer) ** 2, 0.0)
    return _per_parent(detail, batch.var_start[batch.cell_start]) + _per_parent(
        child, batch.child_start
    )


def violation(batch: Batch, x: Amounts) -> Floats:
    """The largest violation of any constraint of each parent, in persons, float64[P]."""
    worst = np.zeros(batch.parents)
    first_var = batch.var_start[batch.cell_start]
    np.maximum.at(worst, _owner(first_var), np.maximum(-x, 0.0))
    if not batch.is_root:
        gap = np.abs(_per_parent(x, batch.var_start) - batch.total)
        np.maximum.at(worst, _owner(batch.cell_start), gap)
    have = margins(batch, x)
    if len(batch.joint):
        people, grouped = np.bincount(batch.var_child, x, len(batch.joint)), batch.joint >= 0
        sums = np.bincount(batch.joint[grouped], people[grouped], len(batch.joint_total))
        gap = np.abs(sums - batch.joint_total)[batch.joint[grouped]]
        np.maximum.at(worst, _owner(batch.child_start)[grouped], gap)
    if have.size:
        low, high = batch.limits()
        under = np.where(low > -NO_BOUND, low - have, 0.0)
        over = np.where(high < NO_BOUND, have - high, 0.0)
        child = np.maximum(np.maximum(under, over).max(axis=1), 0.0)
        np.maximum.at(worst, _owner(batch.child_start), child)
    return worst


def _owner(start: Ints) -> Ints:
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


def _per_parent(values: Amounts, start: Ints) -> Floats:
    """Sums over the stretches start[k] : start[k+1], the empty ones 0; exact where the values are.

    Not a difference of running sums: that would carry the rounding of everything before.
    """
    return np.asarray(np.bincount(_owner(start), values, len(start) - 1), np.float64)
