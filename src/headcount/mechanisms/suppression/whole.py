"""Tables published whole beside complementary suppression, and where they must be withheld.

A table of ages counts the same people again as tables of race. Its cells are not protected one by
one: where it would give a withheld cell back, the whole table is withheld for that unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.tabulate.published import TableCells


@dataclass(frozen=True, eq=False)
class GivenBack:
    """Which cells of some tables follow from one more table, alone or with another cell.

    where
        alone      for each cell whether it is a sum of cells of the table
        together   (cell, other) whether the cell follows from such a sum and the other cell
    """

    alone: Flags
    together: Flags

    def units(self, withheld: Flags) -> Flags:
        """Units in which the table would give back one of the cells withheld (units x cells)."""
        helped = (withheld.astype(np.int64) @ self.together > 0) & ~withheld
        return np.asarray(withheld[:, self.alone].any(axis=1) | helped.any(axis=1))


def given_back(cells: TableCells, others: Sequence[TableCells]) -> GivenBack:
    """What a table tells of the cells of some others, side by side in their order.

        c = s,   c = s - p,   c = p - s   or   c = p + s

    where
        c, p   cells of the other tables, as sets of people
        s      a sum of cells of the table
    """
    every = np.hstack([_columns(one) for one in others])
    own = _columns(cells)[:, cells.inner]
    together = np.array(
        [
            _sums(every + c, own) | _sums(every - c, own) | _sums(c - every, own)
            for c in every.T[:, :, None]
        ]
    )
    return GivenBack(_sums(every, own), together)


def _sums(sought: Ints, own: Ints) -> Flags:
    """Which columns are the people of some of the table's cells, each counted once."""
    size = own.sum(axis=0)
    inside = own.T @ sought == size[:, None]
    some = (sought >= 0).all(axis=0) & (sought <= 1).all(axis=0) & sought.any(axis=0)
    return np.asarray(some & (size @ inside == sought.sum(axis=0)))


def _columns(cells: TableCells) -> Ints:
    """Which cells of the schema (rows) each cell of the table (columns) counts."""
    return np.asarray(cells.matrix.toarray(), dtype=np.int64)
