"""Tables after a swap of persons: what a release of records would hold."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Codes
from headcount_papers.person_swapping.persons import KEEP, Swap


def exchange(
    area: Codes, pool: Codes, swap: Swap, *, keep: Sequence[str] = KEEP
) -> tuple[dict[str, NDArray[np.integer]], dict[str, NDArray[np.integer]]]:
    """Both tables after the swap of one area."""
    here = {name: column.copy() for name, column in area.items()}
    there = {name: column.copy() for name, column in pool.items()}
    for name in set(area) - set(keep):
        here[name][swap.rows] = pool[name][swap.partners]
        there[name][swap.partners] = area[name][swap.rows]
    return here, there


def exchange_everywhere(
    codes: Codes, swap: Swap, *, keep: Sequence[str] = KEEP
) -> dict[str, NDArray[np.integer]]:
    """The table after every area was swapped."""
    origin = swap.origin(len(next(iter(codes.values()))))
    return {n: column.copy() if n in keep else column[origin] for n, column in codes.items()}
