"""How good an answer of the solvers is, parent by parent; and what each of several passes gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.topdown.solve.batch import Batch, _per_parent, margins
from headcount.topdown.solve.leastsquares import Solved
from headcount.topdown.solve.passes import FitPass, _answers, _joined
from headcount.topdown.solve.rounding import RoundPass, margin_counts


def objective(batch: Batch, x: Floats | Ints) -> Floats:
    """The weighted squared distance of an answer to the noisy ones, float64[P]."""
    weight = np.repeat(batch.family_weight, np.diff(batch.family_start), axis=1)
    child = np.where(weight > 0, weight * (margins(batch, x) - batch.margin) ** 2, 0.0).sum(axis=1)
    own = batch.weight[batch.var_child]
    detail = np.where(own > 0, own * (x - batch.answer) ** 2, 0.0)
    return _per_parent(detail, batch.var_start[batch.cell_start]) + _per_parent(
        child, batch.child_start
    )


def solve_passes(
    batch: Batch, passes: Sequence[FitPass] = (), *, threads: int | None = None
) -> tuple[Solved, tuple[Floats, ...]]:
    """The answer after the last pass, and the marginals (as ``Batch.margin``) after each."""
    answers = list(_answers(batch, passes, threads=threads))
    return _joined(batch, answers), tuple(margins(batch, one.x) for one in answers)


def target_distance(batch: Batch, x: Floats, counts: Ints, one: RoundPass) -> Ints:
    """How far counts are from the rounded targets of a pass, int64[P]."""
    owner = np.repeat(np.arange(batch.parents), np.diff(batch.child_start))
    cell = np.repeat(batch.cell, np.diff(batch.var_start))
    whole = np.floor(x).astype(np.int64)
    out = np.zeros(batch.parents, np.int64)
    for group in one:
        parts = np.zeros((int(batch.child_start[-1]), int(group.max()) + 1))
        np.add.at(parts, (batch.var_child, group[cell]), x - whole)
        away = margin_counts(batch, group, counts - whole) - np.rint(parts).astype(np.int64)
        np.add.at(out, owner, np.abs(away).sum(axis=1))
    return out
