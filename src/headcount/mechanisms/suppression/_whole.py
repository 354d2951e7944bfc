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

    No cell of the other tables counts anybody twice. So what cells share is enough to know them
    apart: c + p is a set if they share nobody, and p - c is one if they share all of c.
    """
    from scipy.sparse import hstack

    every = hstack([one.matrix for one in others], format="csc")
    own = cells.matrix[:, cells.inner]
    shared = np.asarray((every.T @ every).toarray(), dtype=np.int64)
    parts = np.asarray((own.T @ every).toarray(), dtype=np.int64)
    size, people = np.asarray(own.sum(axis=0), dtype=np.int64).ravel(), shared.diagonal()

    def are_sums(parts: Ints, people: Ints) -> Flags:
        """Whether sets are sums of cells of the table, by what they share with each of these."""
        return np.asarray((people > 0) & (size @ (parts == size[:, None]) == people))

    together = []
    for c, number in enumerate(people):
        part, both = parts[:, [c]], shared[c]
        together.append(
            ((both == 0) & are_sums(parts + part, people + number))
            | ((both == number) & are_sums(parts - part, people - number))
            | ((both == people) & are_sums(part - parts, number - people))
        )
    return GivenBack(are_sums(parts, people), np.array(together))
