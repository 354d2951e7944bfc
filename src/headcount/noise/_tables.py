"""Certified tables: the integer cut points by which one word becomes one draw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints32
from headcount.errors import PrivacyError
from headcount.noise.exact import precision
from headcount.noise.laws import Law

TABLE_LIMIT = 1 << 20
"""Most thresholds a table may have (8 MiB): geometric to scale 24,000, Gaussian to sigma 110,000.

Beyond it the exact slow sampler takes over."""

_GUIDE_BITS = 16
_PRECISIONS = (192, 512, 2048, 8192)


@dataclass(frozen=True, eq=False)
class CutPoints:
    """Thresholds of one law for words of one width, with a guide that makes look-ups short.

    ``thresholds[k]`` = floor(2^(word_bits - 1) Pr[|X| <= k]), the last being 2^(word_bits - 1) - 1.
    ``guide``, ``shift``, ``drop``: see ``words.lookup``.
    """

    thresholds: NDArray[np.uint64]
    guide: Ints32
    shift: np.uint64
    drop: np.uint64


@lru_cache(maxsize=256)
def build_table(law: Law, *, word_bits: int = 64, limit: int = TABLE_LIMIT) -> CutPoints | None:
    """The table of a law, or None if it needs more than ``limit`` thresholds."""
    thresholds = certify_thresholds(law, bits=word_bits - 1, limit=limit)
    if thresholds is None:
        return None
    guide_bits = min(_GUIDE_BITS, word_bits - 1)
    shift = word_bits - 1 - guide_bits
    edges = np.arange((1 << guide_bits) + 1, dtype=np.uint64) << np.uint64(shift)
    below = np.searchsorted(thresholds, edges, side="left").astype(np.int32)
    holds = below[1:] > below[:-1]
    guide = below.copy()
    guide[:-1][holds] = ~below[:-1][holds]
    for array in (thresholds, guide):
        array.setflags(write=False)
    return CutPoints(thresholds, guide, shift=np.uint64(shift), drop=np.uint64(64 - word_bits))


@lru_cache(maxsize=256)
def has_table(law: Law, *, word_bits: int = 64, limit: int = TABLE_LIMIT) -> bool:
    """Whether the law has a table, without making it if a look at the last threshold tells."""
    whole = 1 << (word_bits - 1)
    with precision(_PRECISIONS[0]):
        if law.survival_below(limit - 1) * whole > 1:
            return False
        rest = law.survival(limit - 1)
        # A ball above 0 is enough: the exact number has millions of digits.
        if rest * whole <= 1 and (rest > 0 or law.exact_survival(limit - 1) != 0):
            return True
    return build_table(law, word_bits=word_bits, limit=limit) is not None


def certify_thresholds(law: Law, *, bits: int, limit: int) -> NDArray[np.uint64] | None:
    """floor(2^bits Pr[|X| <= k]) for k = 0, 1, ... up to the first that equals 2^bits - 1.

    Each floor is certified: the whole ball that encloses the real number has that floor. Otherwise
    the precision grows. None if more than ``limit`` are needed.
    """
    for digits in _PRECISIONS:
        with precision(digits):
            if law.survival_below(limit - 1) * (1 << bits) > 1:
                return None
            values = _floors(law, bits=bits, limit=limit)
        if values is None:
            continue
        if values[-1] != (1 << bits) - 1:
            return None
        return np.array(values, dtype=np.uint64)
    raise PrivacyError(
        f"The noise table of {law} cannot be certified: a threshold lies too near to an integer "
        f"for {_PRECISIONS[-1]} bits."
    )


def _floors(law: Law, *, bits: int, limit: int) -> list[int] | None:
    """One attempt at the current precision; None if any floor is not certified."""
    whole = 1 << bits
    values: list[int] = []
    for k, survival in zip(count(), islice(law.survivals(), limit), strict=False):
        # The floor of 1 - s by the ceiling of s: a tail far below the precision still has one.
        above = (whole * survival).ceil().unique_fmpz()
        if above is not None:
            value = whole - int(above)
        elif (exact := law.exact_survival(k)) is not None:
            value = int(whole * (1 - exact) // 1)
        else:
            return None
        values.append(value)
        if value == whole - 1:
            break
    return values
