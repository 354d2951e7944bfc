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
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Ends, Flags, Ints
from headcount.attacks._near import among
from headcount.attacks._tighten import tighten
from headcount.attacks.changed_intervals import Narrowing, intervals_around
from headcount.attacks.knowledge import UNKNOWN
from headcount.errors import InputError
from headcount.tabulate.additive import Additive, from_relations
from headcount.tabulate.published import TableCells


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

    def around(self, piece: int) -> Flags:
        """Whether each cell is a piece, its area, its square, or another piece of these."""
        close = np.zeros(self.additive.size, dtype=bool)
        close[piece] = True
        start = self.additive.start
        for number, total in enumerate(self.additive.total.tolist()):
            parts = self.additive.part[start[number] : start[number + 1]]
            if piece in parts:
                close[parts], close[total] = True, True
        return close


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
    overlaid: Overlay,
    first: Ends,
    second: Ends,
    *,
    cells: TableCells | None = None,
    effort: Narrowing = "programs",
    pieces: ArrayLike | None = None,
    steps: int = 10_000,
) -> Ends:
    """The narrowest ranges of the pieces that nobody publishes (pieces x cells).

    where
        first    smallest and largest count of each area (areas x cells)
        second   smallest and largest count of each square (squares x cells)
        cells    the table that both publish, whose own sums hold in every piece too; by default
                 one count for each place
        pieces   those that are attacked; by default all that nobody publishes

    Programs for a piece take the sums of its area and of its square, and of their other pieces:
    what lies farther is taken one sum at a time.
    """
    width = 1 if cells is None else cells.size
    additive = _of_table(overlaid.additive, cells, width)
    low = np.zeros((overlaid.additive.size, width), dtype=np.int64)
    high = np.full((overlaid.additive.size, width), UNKNOWN)
    for place, (least, most) in ((overlaid.first, first), (overlaid.second, second)):
        np.maximum.at(low, place, np.reshape(least, (len(place), width)))
        np.minimum.at(high, place, np.reshape(most, (len(place), width)))
    asked = overlaid.unpublished if pieces is None else np.asarray(pieces, dtype=np.int64)
    wanted = (asked[:, None] * width + np.arange(width)).ravel()
    least, most = tighten(additive, low.ravel(), high.ravel())
    around = [
        (
            among(additive, np.repeat(overlaid.around(piece), width)),
            piece * width + np.arange(width),
        )
        for piece in (asked.tolist() if effort != "relations" else ())
    ]
    found = intervals_around(around, least, most, wanted, effort, steps)
    return found.low.reshape(-1, width), found.high.reshape(-1, width)


def _of_table(places: Additive, cells: TableCells | None, width: int) -> Additive:
    """Every place x cell: places add up in each cell, and cells in each place."""
    column = np.arange(width)
    own = np.repeat(np.diff(places.start), width)
    parts = [
        (places.part[a:b, None] * width + column).T.ravel()
        for a, b in pairwise(places.start.tolist())
    ]
    total = [(places.total[:, None] * width + column).ravel()]
    lengths, place = [own], np.arange(places.size) * width
    if cells is not None and cells.relations.shape[0]:
        for row in cells.relations.toarray():
            inside = np.flatnonzero(row > 0)
            total.append(place + int(np.flatnonzero(row < 0)[0]))
            lengths.append(np.full(places.size, len(inside)))
            parts.append((place[:, None] + inside).ravel())
    return Additive(
        size=places.size * width,
        total=np.concatenate(total),
        start=np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
        part=np.concatenate([np.empty(0, dtype=np.int64), *parts]),
        unit=np.repeat(np.arange(places.size), width),
        parent=np.full(places.size, -1),
    )
