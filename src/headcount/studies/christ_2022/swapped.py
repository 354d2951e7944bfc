"""One swap of everybody for each replicate; a lower rate takes the first of its rows.

Rows are swapped in the order in which they were marked, uniques first. So the first
round(r x n) pairs of a swap at rate 1 are a swap at rate r, and all rates of a replicate share
their partners: every rate has its own right law, and curves are smooth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from headcount.mechanisms.swapping.persons import KEEP, Pool, Swap, swap_area
from headcount.studies.christ_2022.people import Area, Codes
from headcount.studies.christ_2022.settings import SWAPPERS, UNIQUE_BY, Settings

Release = dict[str, NDArray[np.integer]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Swapped:
    """The rows of an area, what would replace each in each replicate, and in which order.

    where
        other   the partner's attributes, replicates x rows
        turn    when each row is swapped: 0 first; as many as there are rows: never
    """

    area: Area
    other: Release
    turn: NDArray[np.int64]

    @property
    def replicates(self) -> int:
        """How often everybody was swapped."""
        return len(self.turn)

    def at(self, rate: Fraction) -> tuple[Release, NDArray[np.bool_]]:
        """The released rows, replicates x rows, and which of them were swapped."""
        taken = self.turn < round(rate * self.area.size)
        made = {}
        for name, own in self.area.rows.items():
            whole = np.broadcast_to(own, taken.shape)
            made[name] = np.where(taken, self.other[name], whole) if name in self.other else whole
        return made, taken


def swap_all(area: Area, swapper: str, settings: Settings) -> Swapped:
    """Swap everybody in each replicate, with the study's own rule of who is unique."""
    likeness = replace(SWAPPERS[swapper], order=area.order)
    pool = Pool.of(area.pool, likeness, area=area.rows)
    rng = stream(settings.seed, area.name, swapper)

    def draw() -> Swap:
        return swap_area(area.rows, pool, rate=1, rng=rng, unique_by=UNIQUE_BY)

    return stack(area, draw, settings.replicates)


def stack(area: Area, draw: Callable[[], Swap], replicates: int) -> Swapped:
    """Draw the replicates and lay their partners side by side."""
    names = [name for name in area.rows if name not in KEEP]
    turn = np.full((replicates, area.size), area.size, dtype=np.int64)
    other = {name: np.zeros((replicates, area.size), dtype=area.rows[name].dtype) for name in names}
    for number in range(replicates):
        swap = draw()
        turn[number, swap.rows] = np.arange(len(swap.rows))
        for name in names:
            other[name][number, swap.rows] = area.pool[name][swap.partners]
    return Swapped(area=area, other=other, turn=turn)


def stream(seed: int, *about: str) -> np.random.Generator:
    """Random numbers of one part of the study, whatever other parts are run."""
    digest = sha256("\0".join(about).encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:8], "little")])


def unique_rows(rows: Codes, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Whether each row is alone with its values of some attributes."""
    from headcount.mechanisms.swapping import marking
    from headcount.schema.combine import combine

    people = len(rows["age"])
    code = combine([rows[name] for name in names], rows=people)
    return marking.unique_rows(np.zeros(people, dtype=np.int64), code)
