"""Every constraint of an answer, in integers. Shares no code with the solvers that it checks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.topdown.solve.batch import NO_BOUND, Batch


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A constraint that an answer breaks, by its place and never by a count.

    kind    "negative", "sum" (children do not add up to their parent), "low", "high", or "joint"
            (several children do not have their total together)
    parent  the parent's number in its level
    index   the parent's place in the batch
    cell    schema cell, or kept margin, for "negative" and "sum"; else -1
    child   the child's number among all children of the batch, the first for "joint"; -1 for "sum"
    family, group   the bounded group for "low" and "high"; else -1
    """

    kind: str
    parent: int
    index: int
    cell: int = -1
    child: int = -1
    family: int = -1
    group: int = -1

    def __str__(self) -> str:
        """The constraint in words."""
        if self.kind == "sum":
            return f"parent {self.parent}: cell {self.cell}: sum of the children not kept"
        if self.kind == "negative":
            return f"parent {self.parent}: child {self.child}: cell {self.cell}: negative"
        if self.kind == "joint":
            return f"parent {self.parent}: child {self.child}: total together with others not kept"
        side = "lower" if self.kind == "low" else "upper"
        where = f"group {self.group} of family {self.family}"
        return f"parent {self.parent}: child {self.child}: {side} bound of {where} not kept"


def violations(batch: Batch, counts: Ints, *, keep: Ints32 | None = None) -> list[Violation]:
    """Every constraint that an answer breaks: none, if all is well.

    ``keep`` numbers the margin, for each schema cell, in which children must add up to their
    parent; by default every cell of its own.
    """
    if counts.dtype != np.int64 or counts.shape != batch.var_child.shape:
        raise TypeError(
            f"counts: found {counts.dtype}{list(counts.shape)}, "
            f"expected int64{list(batch.var_child.shape)}"
        )
    entry = np.repeat(np.arange(len(batch.cell)), np.diff(batch.var_start))
    owner = np.repeat(np.arange(batch.parents), np.diff(batch.cell_start))
    return [
        *_negatives(batch, counts, entry, owner),
        *([] if batch.is_root else _sums(batch, counts, owner, keep)),
        *_bounds(batch, counts, entry),
        *_joint(batch, counts),
    ]


def _joint(batch: Batch, counts: Ints) -> list[Violation]:
    lacking = batch.joint_total.copy()
    member = np.full(len(batch.var_child), -1)
    if len(batch.joint):
        member = batch.joint[batch.var_child].astype(np.int64)
    np.subtract.at(lacking, member[member >= 0], counts[member >= 0])
    owner = np.repeat(np.arange(batch.parents), np.diff(batch.child_start))
    found = []
    for j in np.flatnonzero(lacking):
        children = np.flatnonzero(batch.joint == j)
        if len(children):
            p = int(owner[children[0]])
            parent = int(batch.parent[p])
            found.append(Violation(kind="joint", parent=parent, index=p, child=int(children[0])))
    return found


def _negatives(batch: Batch, counts: Ints, entry: Ints, owner: Ints) -> list[Violation]:
    return [
        Violation(
            kind="negative",
            parent=int(batch.parent[owner[entry[v]]]),
            index=int(owner[entry[v]]),
            cell=int(batch.cell[entry[v]]),
            child=int(batch.var_child[v]),
        )
        for v in np.flatnonzero(counts < 0)
    ]


def _sums(
    batch: Batch,
    counts: Ints,
    owner: Ints,
    keep: Ints32 | None,
) -> list[Violation]:
    size = batch.group.shape[1] if keep is None else int(keep.max()) + 1
    name = batch.cell if keep is None else keep[batch.cell]
    place = owner * size + name
    running = np.concatenate([[0], np.cumsum(counts)])
    shared = running[batch.var_start[1:]] - running[batch.var_start[:-1]]
    lacking = np.zeros(batch.parents * size, dtype=np.int64)
    np.add.at(lacking, place, batch.total - shared)
    return [
        Violation(
            kind="sum",
            parent=int(batch.parent[k // size]),
            index=int(k // size),
            cell=int(k % size),
        )
        for k in np.flatnonzero(lacking)
    ]


def _bounds(batch: Batch, counts: Ints, entry: Ints) -> list[Violation]:
    owner = np.repeat(np.arange(batch.parents), np.diff(batch.child_start))
    found = []
    for family, group in enumerate(batch.group):
        columns = slice(batch.bound_start[family], batch.bound_start[family + 1])
        low, high = batch.low[:, columns], batch.high[:, columns]
        has_low, has_high = low > -NO_BOUND, high < NO_BOUND
        if not (has_low.any() or has_high.any()):
            continue
        flat = np.zeros(low.size, dtype=np.int64)
        place = batch.var_child.astype(np.int64) * low.shape[1] + group[batch.cell[entry]]
        np.add.at(flat, place, counts)
        margin = flat.reshape(low.shape)
        broken = {"low": has_low & (margin < low), "high": has_high & (margin > high)}
        found += [
            Violation(
                kind=kind,
                parent=int(batch.parent[owner[c]]),
                index=int(owner[c]),
                child=int(c),
                family=family,
                group=int(g),
            )
            for kind, where in broken.items()
            for c, g in zip(*np.nonzero(where), strict=True)
        ]
    return found
