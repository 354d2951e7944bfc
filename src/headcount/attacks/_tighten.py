"""Ranges of cells that add up, made as narrow as one relation at a time can make them."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Ends, Ints
from headcount.attacks.intervals import Contradiction
from headcount.attacks.knowledge import UNKNOWN
from headcount.errors import InputError
from headcount.tabulate.additive import Additive


def tighten(additive: Additive, low: Ints, high: Ints) -> Ends:
    """The ends that remain when no relation alone narrows a range any more.

    For a total t and its parts p of one relation

        sum low_p <= t <= sum high_p,
        low_t - sum of the others' high  <=  p  <=  high_t - sum of the others' low

    where
        low, high   of every cell; UNKNOWN where nothing bounds it from above

    Ranges are whole numbers and only shrink, so that this ends. Counts that contradict each other
    are an error, which gives no count.
    """
    low, high = low.astype(np.int64), np.minimum(high, UNKNOWN).astype(np.int64)
    total, part = additive.total, additive.part
    lengths = np.diff(additive.start)
    if not lengths.all():
        raise InputError("additive relations", found="a total without parts", expected="parts")
    own = np.repeat(np.arange(len(total)), lengths)
    while True:
        _refuse_contradiction(low, high)
        if not len(total):
            return low, high
        least = np.add.reduceat(low[part], additive.start[:-1])
        most = np.add.reduceat(high[part], additive.start[:-1])
        new_low, new_high = low.copy(), high.copy()
        np.maximum.at(new_low, total, least)
        np.minimum.at(new_high, total, most)
        np.maximum.at(new_low, part, low[total][own] - (most[own] - high[part]))
        rest = high[total][own] - (least[own] - low[part])
        np.minimum.at(new_high, part, np.where(high[total][own] >= UNKNOWN, UNKNOWN, rest))
        if np.array_equal(new_low, low) and np.array_equal(new_high, high):
            return low, high
        low, high = new_low, new_high


def _refuse_contradiction(low: Ints, high: Ints) -> None:
    if len(wrong := np.flatnonzero(low > high)):
        raise Contradiction(
            "published cells",
            place=f"around cell {wrong[0]}",
            found="ranges that contradict each other",
            expected="ranges that some table of whole, non-negative counts keeps; is what is "
            "known of the largest change right?",
        )
