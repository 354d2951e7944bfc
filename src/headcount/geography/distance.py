"""How far an area is from a tree of places: its off-spine distance."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Flags
from headcount.errors import InputError
from headcount.geography.geography import Geography


def off_spine_distance(geography: Geography, inside: Flags) -> int:
    """How many units must be added or subtracted to make an area of whole leaves.

    The noise of an area that is added up in this way grows with it. Of an area that is a unit it is
    1; on a spine (``geography.spine``) it is smaller than on published places where the spine was
    made for such areas.

        c(u) = min( sum of c over children,  1 + sum of c' over children )

    where
        c       that of the part of the area in u: 1 for a leaf inside, 0 for one outside
        c'      that of the rest of u, likewise
        inside  for each leaf of the geography whether it is in the area

    Cumings-Menon et al. (2021), Geographic spines in the 2020 census DAS.
    """
    if inside.dtype != np.bool_:
        raise InputError(
            "off-spine distance",
            place="inside",
            found=f"values of type {inside.dtype}",
            expected="bool, whether each leaf is in the area",
        )
    if inside.shape != (geography.size(geography.leaf),):
        raise InputError(
            "off-spine distance",
            place="inside",
            found=f"{inside.size} leaves",
            expected=f"{geography.size(geography.leaf):,}, one for each leaf",
        )
    area, rest = inside.astype(np.int64), (~inside).astype(np.int64)
    for depth in range(len(geography.levels) - 1, 0, -1):
        parent, many = geography.parents[depth], len(geography.units[depth - 1])
        of_area = np.bincount(parent, weights=area, minlength=many).astype(np.int64)
        of_rest = np.bincount(parent, weights=rest, minlength=many).astype(np.int64)
        area, rest = np.minimum(of_area, 1 + of_rest), np.minimum(of_rest, 1 + of_area)
    return int(area[0])
