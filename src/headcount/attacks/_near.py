"""A unit with those above, beside and below it: where a hard search for its counts looks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.tabulate.additive import Additive


@dataclass(frozen=True, eq=False, kw_only=True)
class Near:
    """Some cells with the relations that hold among them alone.

    where
        additive   the same cells, numbered anew
        cell       the old number of each
    """

    additive: Additive
    cell: Ints


def near(additive: Additive, unit: int) -> Near:
    """The cells of a unit, its parent, its siblings and its children.

    Relations that reach farther are left out, so that ranges found with these alone may be wider
    than those of all relations, never too narrow.
    """
    parent = additive.parent
    above = parent[unit]
    close = (parent == unit) | (parent == above) & (above >= 0)
    close[[unit, above] if above >= 0 else [unit]] = True
    return among(additive, close[additive.unit])


def among(additive: Additive, inside: Flags) -> Near:
    """Some cells with the relations that hold among them alone."""
    lengths = np.diff(additive.start)
    own = np.repeat(np.arange(len(lengths)), lengths)
    outside = np.bincount(own, weights=~inside[additive.part], minlength=len(lengths)) > 0
    kept = inside[additive.total] & ~outside
    cell = np.flatnonzero(inside)
    number = np.full(additive.size, -1)
    number[cell] = np.arange(len(cell))
    return Near(
        additive=replace(
            additive,
            size=len(cell),
            total=number[additive.total[kept]],
            start=np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64),
            part=number[additive.part[kept[own]]],
            unit=additive.unit[cell],
        ),
        cell=cell,
    )
