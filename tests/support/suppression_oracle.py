"""Is a withheld cell protected? An integer program over the inner counts, written for this alone.

It shares nothing with the search, the witnesses or the attack by linear programs: no relations,
only which inner counts each cell is the sum of, and HiGHS by way of scipy.
"""

from __future__ import annotations

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.errors import HeadcountError


class OracleError(HeadcountError):
    """An integer program that has no answer although the truth is one."""


def interval(
    member: Ints, values: Ints, withheld: Flags, cell: int, *, least: int = 1
) -> tuple[float, float]:
    """The smallest and the largest count of a cell, over all whole tables.

    where
        member   0/1 (cells x inner counts)
        least    what every withheld cell holds at least
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    known = LinearConstraint(
        member.astype(np.float64),
        np.where(withheld, least, values),
        np.where(withheld, np.inf, values),
    )
    ends = []
    for sign in (1.0, -1.0):
        found = milp(
            sign * member[cell],
            integrality=np.ones(member.shape[1]),
            bounds=Bounds(0, np.inf),
            constraints=known,
        )
        if found.status == 3 or (found.status == 4 and "unbounded" in found.message.lower()):
            ends.append(np.inf)
        elif found.success:
            ends.append(sign * float(round(found.fun)))
        else:
            raise OracleError(f"integer program: found {found.message!r}, expected an optimum")
    return ends[0], ends[1]


def unprotected(
    member: Ints,
    values: Ints,
    withheld: Flags,
    primary: Flags,
    *,
    threshold: int = 2,
    width: int = 3,
) -> list[int]:
    """Primary cells that cannot exceed the threshold, or are certain to less than the width."""
    bad = []
    for cell in np.flatnonzero(primary):
        low, high = interval(member, values, withheld, int(cell))
        if not (withheld[cell] and high > threshold and high - low >= width):
            bad.append(int(cell))
    return bad
