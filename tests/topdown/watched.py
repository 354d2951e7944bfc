"""Run TopDown and keep every problem that it solved, with the answers it took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np

from headcount.topdown.solve import leastsquares, passes, rounding
from headcount.topdown.solve.batch import NO_BOUND, Batch, margins


@dataclass
class Watched:
    """Batches with their estimates and roundings, in the order of the descent."""

    estimates: list[tuple[Batch, leastsquares.Solved]] = field(default_factory=list)
    roundings: list[tuple[Batch, Any, rounding.Rounded]] = field(default_factory=list)


@contextmanager
def watching() -> Iterator[Watched]:
    """Listen at the two doors of ``solve``."""
    seen = Watched()
    solve, round_ = leastsquares.least_squares, rounding.round_batch

    def least_squares(batch: Batch, **named: Any) -> leastsquares.Solved:
        solved = solve(batch, **named)
        seen.estimates.append((batch, solved))
        return solved

    def round_batch(batch: Batch, x: Any, **named: Any) -> rounding.Rounded:
        rounded = round_(batch, x, **named)
        seen.roundings.append((batch, x, rounded))
        return rounded

    with (
        patch.object(leastsquares, "least_squares", least_squares),
        patch.object(passes, "least_squares", least_squares),
        patch.object(rounding, "round_batch", round_batch),
    ):
        yield seen


def variables(batch: Batch, p: int) -> slice:
    """The variables of one parent of a batch."""
    return slice(*(int(v) for v in batch.var_start[batch.cell_start[p : p + 2]]))


def nearest(batch: Batch, x: Any) -> float | None:
    """The least L1 distance of a feasible rounding of one parent, by trying them all.

    Every value goes to its floor or ceiling; one within 1e-6 of an integer may also move by 1.
    """
    choices = []
    for value in x:
        whole = round(value)
        near = {whole - 1, whole, whole + 1} if abs(value - whole) < 1e-6 else {int(value // 1)}
        near |= {n + 1 for n in near} if len(near) == 1 else set()
        choices.append(sorted(n for n in near if n >= 0))
    every = np.array(list(product(*choices)), dtype=np.int64).reshape(-1, len(x))
    distance = np.abs(every - x).sum(axis=1)
    for k in np.argsort(distance, kind="stable"):
        if _keeps(batch, every[k]):
            return float(distance[k])
    return None


def _keeps(batch: Batch, counts: Any) -> bool:
    if not batch.is_root:
        entry = np.repeat(np.arange(len(batch.cell)), np.diff(batch.var_start))
        if not np.array_equal(np.bincount(entry, counts, len(batch.cell)), batch.total):
            return False
    have = margins(batch, counts)
    low, high = batch.bounds_by_group()
    low = np.where(low > -NO_BOUND, low, -np.inf)
    high = np.where(high < NO_BOUND, high, np.inf)
    return bool(((have >= low) & (have <= high)).all())
