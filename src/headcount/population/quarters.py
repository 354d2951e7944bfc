"""Living quarters: housing units and group-quarters facilities by type, beside the people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Ints
from headcount.geography import Geography


@dataclass(frozen=True, eq=False, repr=False)
class Quarters:
    """How many living quarters of each type stand in each leaf unit.

    where
        attribute   the attribute of the schema whose levels are the types ("hhgq")
        occupied    leaf units x levels of that attribute: occupied housing units and facilities
        vacant      vacant housing units per leaf unit

    They are published exactly where a mechanism is told so, and bound how many people of each type
    a place can hold. Numbers that fit are held in 32 bits: of 8 million blocks and 8 types the
    others are a quarter of a GiB more, and each copy of them again.
    """

    geography: Geography
    attribute: str
    occupied: Ints
    vacant: Ints

    def __post_init__(self) -> None:
        leaves = self.geography.size(self.geography.leaf)
        if self.occupied.shape[:-1] != (leaves,) or self.vacant.shape != (leaves,):
            raise ValueError("living quarters need one row for each leaf unit")
        if (self.occupied < 0).any() or (self.vacant < 0).any():
            raise ValueError("living quarters are counted from 0")
        largest = max(int(one.max(initial=0)) for one in (self.occupied, self.vacant))
        if largest <= np.iinfo(np.int32).max // 2:  # so that occupied and vacant homes fit together
            for name in ("occupied", "vacant"):
                numbers = getattr(self, name).astype(np.int32, copy=False)
                object.__setattr__(self, name, numbers)

    def __repr__(self) -> str:
        return f"<Quarters by {self.attribute!r}: {self.occupied.shape[1]} types>"
