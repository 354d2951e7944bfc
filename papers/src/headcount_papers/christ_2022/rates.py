"""Areas swapped against everybody else: one swap of all people of an area serves every rate.

Rows are swapped in the order in which they were marked, uniques first. So the first round(r x n)
pairs of a swap at rate 1 are a swap at rate r, the very one that a run at rate r with the same
noise makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Codes, Flags, Ints
from headcount.errors import ConfigError
from headcount.geography import Geography
from headcount.noise import Noise
from headcount.tabulate import Tabulated
from headcount_papers.person_swapping.mechanism import (
    PersonSwapping,
    codes_of,
    in_years,
    rows_of,
    swap_generator,
)
from headcount_papers.person_swapping.persons import Pool, Swap, swap_area

KeyedSwap = tuple[PersonSwapping, Noise]
"""A mechanism for one area, at the highest rate that is asked for, and its noise."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SwappedArea:
    """What is released of an area at one rate, one release for each run, as records.

    Counted cell by cell, the records of a run are the area's counts in the release that
    ``protect`` makes with the same mechanism and noise.

    where
        mechanism   with that rate
        records     level numbers by attribute, runs x people
        swapped     which of them came from elsewhere: provenance, no part of a release
    """

    mechanism: PersonSwapping
    records: Codes
    swapped: Flags

    def counts(self, number: NDArray[np.integer], size: int) -> Ints:
        """How often each number below ``size`` stands in each run: number is runs x people."""
        runs = len(self.swapped)
        flat = (number + np.arange(runs)[:, None] * size).ravel()
        return np.bincount(flat, minlength=runs * size).reshape(runs, size)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AreaSwaps:
    """The people of an area, who would take the place of each in each run, and in which order.

    where
        mechanism   at the highest rate
        rows        attributes of the people of the area, one row per person
        partner     attributes that come with the partner, runs x rows
        turn        when each row is swapped, runs x rows: 0 first; as many as there are rows: never
    """

    mechanism: PersonSwapping
    rows: Codes
    partner: Codes
    turn: Ints

    @property
    def people(self) -> int:
        """Of the area."""
        return int(self.turn.shape[1])

    def at(self, rate: Fraction) -> SwappedArea:
        """The releases at a rate."""
        if not 0 <= rate <= self.mechanism.rate:
            raise ConfigError(
                "swapping",
                place="rate",
                found=f"{rate}",
                expected=f"0 to {self.mechanism.rate}, the rate of the swap",
            )
        swapped = self.turn < round(rate * self.people)
        made = {}
        for name, own in self.rows.items():
            whole = np.broadcast_to(own, swapped.shape)
            other = self.partner.get(name)
            made[name] = whole if other is None else np.where(swapped, other, whole)
        mechanism = replace(self.mechanism, rate=rate)
        return SwappedArea(mechanism=mechanism, records=made, swapped=swapped)


def swap_at_all_rates(
    cases: Sequence[KeyedSwap], data: Tabulated, *, runs: range
) -> Iterator[AreaSwaps]:
    """Swap the area of each case in each run, at its rate and all below it.

    Partners come from outside all areas that the cases name, so that several areas share a pool
    and each is swapped as if the others were not there.
    """
    counts, level = data.counts, cases[0][0].level
    units = counts.geography.units[counts.geography.depth(level)].tolist()
    for mechanism in dict.fromkeys(_checked(mechanism, units) for mechanism, _ in cases):
        mechanism.check(data.population)
    unit, cell = rows_of(counts)
    codes = codes_of(counts.schema, cell)
    area = counts.geography.ancestors(level, of=counts.level)[unit]
    swapped = [units.index(mechanism.area) for mechanism, _ in cases]
    outside = ~np.isin(area, swapped)
    there = {name: column[outside] for name, column in codes.items()}
    pools = Pools(there, there | in_years(counts.schema, there))
    for (mechanism, noise), number in zip(cases, swapped, strict=True):
        inside = area == number
        here = {name: column[inside] for name, column in codes.items()}
        aged = here | in_years(counts.schema, here)
        yield pools.swap(mechanism, here, aged, noise, counts.geography, runs=runs)


def _checked(mechanism: PersonSwapping, units: list[str]) -> PersonSwapping:
    """What stands for a mechanism when people are checked: areas and k differ in nothing there."""
    return replace(mechanism, area=units[0], k=0) if mechanism.area in units else mechanism


def swap_rows(
    mechanism: PersonSwapping,
    rows: Codes,
    pool: Codes,
    noise: Noise,
    *,
    geography: Geography,
    runs: range,
) -> AreaSwaps:
    """The same for rows that span more cells than a schema can number."""
    return Pools(pool, pool).swap(mechanism, rows, rows, noise, geography, runs=runs)


class Pools:
    """People who may be partners, indexed once for each way to compare them."""

    def __init__(self, codes: Codes, aged: Codes) -> None:
        self._codes, self._aged = codes, aged
        self._indexed: dict[tuple[object, ...], Pool] = {}

    def swap(
        self,
        mechanism: PersonSwapping,
        here: Codes,
        aged: Codes,
        noise: Noise,
        geography: Geography,
        *,
        runs: range,
    ) -> AreaSwaps:
        """Partners of the people of one area in each run; ages are compared in years."""
        pool = self._pool(mechanism, aged)
        swaps = [
            swap_area(
                aged,
                pool,
                rate=mechanism.rate,
                rng=swap_generator(geography, noise, run),
                keep=mechanism.keep,
                unique_by=mechanism.unique_by,
            )
            for run in runs
        ]
        return self._side_by_side(mechanism, here, swaps)

    def _pool(self, mechanism: PersonSwapping, aged: Codes) -> Pool:
        likeness = mechanism.likeness
        if likeness.order is None:  # read off pool and area
            return Pool.of(self._aged, likeness, area=aged)
        by = (likeness.kind, likeness.order, likeness.alike)
        if by not in self._indexed:
            self._indexed[by] = Pool.of(self._aged, likeness, area=aged)
        return replace(self._indexed[by], likeness=likeness)  # k is no part of the index

    def _side_by_side(
        self, mechanism: PersonSwapping, here: Codes, swaps: Sequence[Swap]
    ) -> AreaSwaps:
        people = len(next(iter(here.values())))
        turn = np.full((len(swaps), people), people, dtype=np.int64)
        partner = {
            name: np.zeros((len(swaps), people), dtype=column.dtype)
            for name, column in here.items()
            if name not in mechanism.keep
        }
        for number, swap in enumerate(swaps):
            turn[number, swap.rows] = np.arange(len(swap.rows))
            for name, column in partner.items():
                column[number, swap.rows] = self._codes[name][swap.partners]
        return AreaSwaps(mechanism=mechanism, rows=here, partner=partner, turn=turn)
