"""Two divisions of one country that overlap: what is published of both tells of their pieces.

Areas and squares of a grid cut each other into pieces that nobody publishes. A piece that is left
of a square when whole areas are taken away has the difference of published counts,

    x(piece) = x(square) - sum x(areas within it),

and with exact counts it is known. With changed ones each count is a range, and so is the piece:
the relations of both divisions at once give the narrowest one (see ``changed_intervals``). Pieces
that are a whole area, or a whole square, are published, and what is said of both is true of both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Ends, Ints
from headcount.attacks.changed_intervals import Narrowing, changed_intervals
from headcount.attacks.intervals import Intervals
from headcount.attacks.knowledge import UNKNOWN
from headcount.errors import InputError
from headcount.tabulate.additive import Additive, from_relations


@dataclass(frozen=True, eq=False, kw_only=True)
class Overlay:
    """Two divisions and their pieces as cells that add up.

    where
        additive   cells are pieces first, then areas and squares that have more than one
        first      the cell of each area
        second     the cell of each square
        of_leaf    the piece in which each leaf unit lies
    """

    additive: Additive
    first: Ints
    second: Ints
    of_leaf: Ints

    @property
    def pieces(self) -> int:
        """How many pieces there are."""
        return int(self.of_leaf.max()) + 1

    @property
    def unpublished(self) -> Ints:
        """Pieces that are neither an area nor a square of their own: those to be attacked."""
        return np.setdiff1d(np.arange(self.pieces), np.concatenate([self.first, self.second]))


def overlay(first: ArrayLike, second: ArrayLike) -> Overlay:
    """Two divisions from the area and the square of each leaf unit, numbered from 0."""
    one, two = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    for name, labels in (("first", one), ("second", two)):
        if labels.shape != one.shape or not len(labels) or labels.min() != 0:
            raise InputError(
                "divisions",
                place=name,
                found=f"{labels.shape} numbers",
                expected="a number from 0 on for each leaf unit, the same units in both",
            )
        if len(np.unique(labels)) != labels.max() + 1:
            raise InputError(
                "divisions", place=name, found="a number without a unit", expected="all in use"
            )
    pairs, of_leaf = np.unique(np.stack([one, two]), axis=1, return_inverse=True)
    size, relations, cells = pairs.shape[1], [], []
    for labels in pairs:
        own = np.empty(int(labels.max()) + 1, dtype=np.int64)
        for label in range(len(own)):
            inside = np.flatnonzero(labels == label)
            if len(inside) == 1:  # the same people
                own[label] = inside[0]
            else:
                own[label] = size
                relations.append((size, inside.tolist()))
                size += 1
        cells.append(own)
    return Overlay(
        additive=from_relations(size, relations),
        first=cells[0],
        second=cells[1],
        of_leaf=of_leaf.reshape(-1).astype(np.int64),
    )


def difference(
    overlaid: Overlay, first: Ends, second: Ends, *, effort: Narrowing = "programs"
) -> Intervals:
    """The narrowest ranges of the pieces that nobody publishes.

    where
        first    smallest and largest count of each area
        second   smallest and largest count of each square
    """
    low = np.zeros(overlaid.additive.size, dtype=np.int64)
    high = np.full(overlaid.additive.size, UNKNOWN)
    for cells, (least, most) in ((overlaid.first, first), (overlaid.second, second)):
        np.maximum.at(low, cells, least)
        np.minimum.at(high, cells, most)
    return changed_intervals(
        overlaid.additive, low, high, cells=overlaid.unpublished, effort=effort
    )
