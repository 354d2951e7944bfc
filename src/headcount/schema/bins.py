"""Bins of years: whole numbers gathered into levels such as "7", "0-17" and "85+"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from headcount.errors import did_you_mean
from headcount.fields import ReadValue

NAMED = {
    "five-year": tuple(range(0, 90, 5)),
    "census-23": (
        *(0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
    ),
    "census-38": (
        *range(22),
        *(22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
    ),
}
"""Where the bins of some lists begin: those by sex of the census of 2010 are "census-23" (P12), and
"census-38" where years up to 21 are single."""

MOST_YEARS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class BinsField(ReadValue):
    """Where bins begin, in rising order, or the name of a list of bins."""

    def read(self, value: object) -> tuple[int, ...] | str | None:
        """The same, or a ValueError that says what was expected."""
        if value is None:
            return None
        if isinstance(value, str):
            if value not in NAMED:
                raise ValueError(f"{did_you_mean(value, NAMED)}, or where bins begin: [0, 18, 65]")
            return value
        starts = tuple(value) if isinstance(value, list | tuple) else ()
        whole = all(isinstance(one, int) and not isinstance(one, bool) for one in starts)
        if not starts or not whole or list(starts) != sorted(set(starts)):
            raise ValueError("where bins begin, in rising order: [0, 18, 65]")
        if not 0 <= starts[0] <= starts[-1] <= MOST_YEARS:
            raise ValueError(f"bins that begin at 0 to {MOST_YEARS:,}")
        return starts

    def json(self) -> dict[str, Any]:
        """The name of a list, or where bins begin."""
        starts = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
        return {"anyOf": [{"enum": list(NAMED)}, starts]}


def starts_of(bins: Sequence[int] | str) -> tuple[int, ...]:
    """Where bins begin."""
    return NAMED[bins] if isinstance(bins, str) else tuple(bins)


def bin_labels(bins: Sequence[int] | str) -> tuple[str, ...]:
    """The levels that bins make: single years, spans, and the last without an end."""
    starts = starts_of(bins)
    spans = [
        str(first) if then == first + 1 else f"{first}-{then - 1}"
        for first, then in pairwise(starts)
    ]
    return (*spans, f"{starts[-1]}+")


def bin_of(years: int, bins: Sequence[int] | str) -> str | None:
    """The level of a number of years; None below the first bin."""
    place = int(np.searchsorted(starts_of(bins), years, side="right")) - 1
    return bin_labels(bins)[place] if place >= 0 else None
