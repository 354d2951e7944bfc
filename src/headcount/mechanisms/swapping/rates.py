"""One area swapped against everybody else: one swap of all its people serves every rate.

Rows are swapped in the order in which they were marked, uniques first. So the first round(r x n)
pairs of a swap at rate 1 are a swap at rate r, the very one that a run at rate r with the same
noise makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Codes, Flags, Ints
from headcount.mechanisms.person_swapping import (
    PersonSwapping,
    codes_of,
    in_years,
    rows_of,
    swap_generator,
)
from headcount.mechanisms.swapping.persons import Pool, Swap, swap_area
from headcount.mechanisms.swapping.similar import PartnerRule
from headcount.noise import Noise
from headcount.tabulate import Tabulated


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AreaSwaps:
    """The people of an area, who would take the place of each in each run, and in which order.

    where
        rows      attributes of the people of the area, one row per person
        partner   attributes that come with the partner, runs x rows
        turn      when each row is swapped, runs x rows: 0 first; as many as there are rows: never
    """

    rows: Codes
    partner: Codes
    turn: Ints

    @classmethod
    def of(
        cls, area: Codes, pool: Codes, swaps: Sequence[Swap], *, keep: Sequence[str]
    ) -> AreaSwaps:
        """Lay the partners of several swaps of an area side by side."""
        people = len(next(iter(area.values())))
        turn = np.full((len(swaps), people), people, dtype=np.int64)
        partner = {
            name: np.zeros((len(swaps), people), dtype=column.dtype)
            for name, column in area.items()
            if name not in keep
        }
        for number, swap in enumerate(swaps):
            turn[number, swap.rows] = np.arange(len(swap.rows))
            for name, column in partner.items():
                column[number, swap.rows] = pool[name][swap.partners]
        return cls(rows=area, partner=partner, turn=turn)

    @property
    def people(self) -> int:
        """Of the area."""
        return int(self.turn.shape[1])

    def at(self, rate: Fraction) -> tuple[dict[str, NDArray[np.integer]], Flags]:
        """The area's records after swaps at a rate, runs x rows, and which of them were swapped."""
        swapped = self.turn < round(rate * self.people)
        made = {}
        for name, own in self.rows.items():
            whole = np.broadcast_to(own, swapped.shape)
            other = self.partner.get(name)
            made[name] = whole if other is None else np.where(swapped, other, whole)
        return made, swapped


def swap_at_all_rates(
    mechanism: PersonSwapping, data: Tabulated, noise: Noise, *, runs: range
) -> AreaSwaps:
    """Swap the mechanism's one area in each run, at its rate and all below it."""
    mechanism.check(data.population)
    counts = data.counts
    unit, cell = rows_of(counts)
    codes = codes_of(counts.schema, cell)
    area = counts.geography.ancestors(mechanism.level, of=counts.level)[unit]
    inside = counts.geography.units[counts.geography.depth(mechanism.level)][area] == mechanism.area
    here, there = (
        {name: column[some] for name, column in codes.items()} for some in (inside, ~inside)
    )
    likeness = PartnerRule(kind=mechanism.kind, k=mechanism.k, order=mechanism.order)
    aged = here | in_years(counts.schema, here)
    pool = Pool.of(there | in_years(counts.schema, there), likeness, area=aged)
    swaps = [
        swap_area(
            aged,
            pool,
            rate=mechanism.rate,
            rng=swap_generator(counts.geography, noise, run),
            keep=mechanism.keep,
            unique_by=mechanism.unique_by,
        )
        for run in runs
    ]
    return AreaSwaps.of(here, there, swaps, keep=mechanism.keep)
