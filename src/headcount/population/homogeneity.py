"""How homogeneous a place is: the two indices of Petti & Flaxman (2020)."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Ints
from headcount.errors import InputError

IndexDefinition = Literal["words", "code"]
INDEX_DEFINITIONS: tuple[IndexDefinition, ...] = ("words", "code")
"""Petti & Flaxman (2020) describe one index and compute another."""


def homogeneity_index(
    counts: ArrayLike, *, shape: tuple[int, ...], definition: IndexDefinition
) -> Ints:
    """The homogeneity index of each unit (a row of ``counts``), from its exact counts.

        words:  number of cells without anybody
        code:   number of cells - product over attributes of the levels that occur in the unit

    where
        shape   levels of each attribute; the cells of a row are numbered row by row

    Both are 0 where every cell is filled and grow as a place holds fewer kinds of people. They
    agree unless kinds that occur fail to meet: one Hispanic child and one adult of another race
    leave 22 of 24 cells empty (words), but span 2 x 2 x 2 cells (code: 16).
    """
    table = np.asarray(counts)
    cells = int(np.prod(shape, dtype=np.int64))
    if table.ndim != 2 or table.shape[1] != cells:
        raise InputError(
            "homogeneity index",
            place="counts",
            found=f"shape {table.shape}",
            expected=f"units x {cells} cells",
        )
    there = table > 0
    if definition == "words":
        return cast(Ints, cells - there.sum(axis=1, dtype=np.int64))
    if definition != "code":
        raise InputError(
            "homogeneity index",
            place="definition",
            found=repr(definition),
            expected=" or ".join(INDEX_DEFINITIONS),
        )
    there = there.reshape(-1, *shape)
    spanned = np.ones(len(table), dtype=np.int64)
    for axis in range(len(shape)):
        others = tuple(other + 1 for other in range(len(shape)) if other != axis)
        spanned *= there.any(axis=others).sum(axis=1)
    return cast(Ints, cells - spanned)
