"""Perturbation of zeros: some empty cells are published as 1, 2, ..., so that no 0 is certain.

An empty cell has nobody whose word could change it. So each category of each attribute gets a
uniform word of its own, and the key of an empty cell is the sum of those of its categories, modulo
2^64: the same in every table with these attributes. The cells with the largest keys are raised,
x_1 of them to 1, the next x_2 to 2, and so on. That balances a table in which counts are lost:

    x_j = round(N_j * (- mean_j) / j),   so that   sum_j j x_j  is about  - sum_j N_j mean_j

where
    N_j      number of cells with count j
    mean_j   mean change of such a cell, below 0 where counts of j are lost

Cells that must be empty are never raised. Eurostat's SAS programs for the 2021 census; the ONS.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.errors import InputError
from headcount.mechanisms.cell_key.lookup import CellKeys
from headcount.mechanisms.cell_key.perturbation import ChangeLaw


def category_keys(levels: Sequence[Ints], words: Sequence[CellKeys]) -> CellKeys:
    """The key of each cell from its level of each attribute, and the words of the levels."""
    total = np.zeros(len(levels[0]), dtype=np.uint64)
    for level, of_level in zip(levels, words, strict=True):
        total += of_level[level]  # wraps modulo 2^64
    return total


def wanted_zeros(counts: Ints, rows: Sequence[ChangeLaw]) -> tuple[int, ...]:
    """x_1, x_2, ...: how many zeros to raise to each count, for the expected total to stay."""
    found = []
    for j, row in enumerate(rows[1:], start=1):
        cells = int((counts == j).sum())
        found.append(max(round(-cells * row.mean / j), 0))
    return tuple(found)


def raise_zeros(counts: Ints, keys: CellKeys, possible: Flags, wanted: Sequence[int]) -> Ints:
    """The change of each cell: 0 but for the empty ones that are raised.

    where
        counts     true counts
        keys       of categories, one a cell
        possible   cells that may have people
        wanted     x_1, x_2, ...
    """
    empty = np.flatnonzero((counts == 0) & possible)
    if sum(wanted) > len(empty):
        raise InputError(
            "perturbation of zeros",
            found="fewer empty cells than are to be raised",
            expected="a table with more of them, or rows of mean nearer to 0",
        )
    first = empty[np.argsort(keys[empty], kind="stable")[::-1]][: sum(wanted)]
    changes = np.zeros(len(counts), dtype=np.int64)
    changes[first] = np.repeat(np.arange(1, len(wanted) + 1), wanted)
    return changes
