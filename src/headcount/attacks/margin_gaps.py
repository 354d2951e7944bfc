"""Margins that do not add up give the secret largest change away.

A total less the sum of its k published parts is a sum of k + 1 changes, so that

    D >= |gap| / (k + 1),

and zeros say more: a part published as 0 hides D at most and never less than 0, a part published
as more holds 1 at least. The smallest D under which every relation can hold is a lower bound that
no published table refutes; with many margins some gap is extreme, and the bound is D itself. Its
spread gives the variance: a gap of k + 1 changes has variance (k + 1) V.

where
    gap   published total less the sum of its published parts
    D     largest change
    V     variance of a change

Bach, arXiv 2012.09775, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log1p

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import InputError
from headcount.tabulate.additive import Additive


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginGaps:
    """What the gaps of published margins say.

    where
        gap        of each relation
        terms      number of changed counts in it, of its parts and the total
        least      for each relation the smallest D under which it can hold
        smallest   for each relation the smallest published count in it
    """

    gap: Ints
    terms: Ints
    least: Ints
    smallest: Ints

    @property
    def largest_change(self) -> int:
        """The smallest D that no relation refutes; 0 if all adds up."""
        return int(self.least.max(initial=0))

    @property
    def variance(self) -> float:
        """The variance of one change as the spread of the gaps shows it.

        From relations whose counts are all so large that none was kept from falling below 0;
        NaN where there is none.
        """
        large = (self.smallest > 2 * self.largest_change) & (self.terms > 0)
        if not large.any():
            return float("nan")
        # A square over its number of terms spreads alike for few terms and for many.
        return float((self.gap[large].astype(np.float64) ** 2 / self.terms[large]).mean())


def margin_gaps(
    additive: Additive,
    published: Ints,
    *,
    zeros_stay: bool = True,
    exact: Flags | None = None,
) -> MarginGaps:
    """Gaps of all relations, and the largest change that each of them proves.

    where
        published    the value of every cell
        zeros_stay   whether the attacker takes it as known that no positive value is made of 0
        exact        cells that are published as they are; by default none
    """
    if published.shape != (additive.size,) or np.any(published < 0):
        raise InputError(
            "margins",
            found="a value below 0 or a cell without one",
            expected=f"a published count for each of {additive.size} cells",
        )
    gap = np.rint(-(additive.matrix @ published)).astype(np.int64)
    lengths = np.diff(additive.start)
    smallest = published[additive.total].copy()
    np.minimum.at(smallest, np.repeat(np.arange(len(lengths)), lengths), published[additive.part])
    changed = np.ones(additive.size, dtype=bool) if exact is None else ~exact
    least = _least_changes(additive, published, int(zeros_stay), changed)
    own = np.repeat(np.arange(len(lengths)), lengths)
    terms = np.bincount(own, weights=changed[additive.part], minlength=len(lengths))
    return MarginGaps(
        gap=gap,
        terms=(terms + changed[additive.total]).astype(np.int64),
        least=least,
        smallest=smallest,
    )


def _least_changes(additive: Additive, published: Ints, floor: int, changed: Flags) -> Ints:
    """For each relation the smallest D for which the ranges of its total and of its parts meet.

    With a larger D ranges only widen, so that it is found by halving, for all relations at once.
    """
    lengths = np.diff(additive.start)
    own = np.repeat(np.arange(len(lengths)), lengths)
    total, parts = published[additive.total], published[additive.part]

    def added(values: Ints) -> Ints:
        return np.bincount(own, weights=values, minlength=len(lengths)).astype(np.int64)

    def smallest(values: Ints, change: Ints) -> Ints:
        return np.where((values > 0) & (change > 0), np.maximum(values - change, floor), values)

    sums, of_total, of_part = added(parts), changed[additive.total], changed[additive.part]
    many = added(of_part.astype(np.int64))
    low, high = np.full(len(lengths), -1), np.maximum(total, sums) + floor
    while np.any(high - low > 1):
        middle = (low + high) // 2
        # No change at all is a change of 0, whatever D is.
        meet = (added(smallest(parts, middle[own] * of_part)) <= total + middle * of_total) & (
            smallest(total, middle * of_total) <= sums + middle * many
        )
        low, high = np.where(meet, low, middle), np.where(meet, middle, high)
    return high


def gap_law(law: Mapping[int, float], terms: int) -> dict[int, float]:
    """The law of a sum of so many independent changes, each of this law."""
    values = np.arange(min(law), max(law) + 1)
    one: Floats = np.array([float(law.get(int(v), 0)) for v in values])
    found = np.ones(1)
    for _ in range(terms):
        found = np.convolve(found, one)
    first = terms * int(values[0])
    return {first + n: float(p) for n, p in enumerate(found)}


def chance_of_proof(law: Mapping[int, float], terms: int) -> float:
    """The chance that one gap proves the largest change: |gap| > terms (D - 1).

    Of large counts, whose zeros say nothing.
    """
    largest = max(abs(v) for v, p in law.items() if p)
    return sum(p for v, p in gap_law(law, terms).items() if abs(v) > terms * (largest - 1))


def margins_needed(law: Mapping[int, float], terms: int, *, confidence: float = 0.95) -> float:
    """Independent margins after which the largest change is proved with this confidence."""
    chance = chance_of_proof(law, terms)
    if not 0 < confidence < 1:
        raise InputError("confidence", found=str(confidence), expected="between 0 and 1")
    return inf if chance == 0 else log1p(-confidence) / log1p(-chance) if chance < 1 else 1.0
