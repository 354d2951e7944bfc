"""Off-spine areas: places that cut across the tree of units, such as towns across tracts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints, Ints32
from headcount.errors import InputError


@dataclass(frozen=True, eq=False, repr=False)
class Areas:
    """A second map over the same leaf units; a leaf lies in one area, or in none.

    where
        name      what such an area is called ("place")
        codes     code of each area
        of_leaf   for each leaf unit the position of its area, -1 for none
    """

    name: str
    codes: NDArray[np.str_]
    of_leaf: Ints32

    def __post_init__(self) -> None:
        if len(np.unique(self.codes)) != len(self.codes):
            raise InputError(
                f"areas {self.name!r}", found="a code twice", expected="each code once"
            )
        if len(self.of_leaf) and not -1 <= self.of_leaf.min() <= self.of_leaf.max() < self.size:
            raise InputError(
                f"areas {self.name!r}",
                place="of_leaf",
                found="a number out of range",
                expected=f"-1 to {self.size - 1}",
            )

    def __repr__(self) -> str:
        return f"<Areas {self.name!r}: {self.size:,}>"

    @property
    def size(self) -> int:
        """Number of areas."""
        return len(self.codes)

    def add_up(self, values: Ints) -> Ints:
        """Leaf totals added up to areas; leaves in none are left out."""
        inside = self.of_leaf >= 0
        total = np.zeros(self.size, dtype=values.dtype)
        np.add.at(total, self.of_leaf[inside], values[inside])
        return total
