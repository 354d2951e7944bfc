"""Swaps of one area by the shipped mechanism, every rate from one run."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Codes, Flags
from headcount.mechanisms import Mechanism
from headcount.mechanisms.person_swapping import PersonSwapping
from headcount.mechanisms.swapping.rates import AreaSwaps, swap_at_all_rates
from headcount.noise import KeyedNoise
from headcount.studies.christ_2022.people import AREA, Area
from headcount.studies.christ_2022.settings import SWAPPERS, UNIQUE_BY, Settings
from headcount.studies.frame.cases import seeded_noise
from headcount.tabulate import Tabulated


def swapping(area: Area, swapper: str, *, unique_by: tuple[str, ...] = UNIQUE_BY) -> PersonSwapping:
    """One of the paper's swappers, for everybody of one area."""
    likeness = SWAPPERS[swapper]
    return PersonSwapping(
        level=AREA,
        area=area.name,
        rate=1,  # type: ignore[arg-type]
        kind=likeness.kind,
        k=likeness.k,
        order=area.order,
        unique_by=unique_by,
    )


def swap_all(area: Area, swapper: str, settings: Settings) -> AreaSwaps:
    """Swap everybody in each replicate, with the paper's own rule of who is unique."""
    mechanism, data = swapping(area, swapper), area.with_pool()
    noise = noise_for(mechanism, data, settings)
    return swap_at_all_rates(mechanism, data, noise, runs=range(settings.replicates))


def noise_for(mechanism: Mechanism, data: Tabulated, settings: Settings) -> KeyedNoise:
    """Noise of one mechanism on one area, whatever other parts of the study are run."""
    return seeded_noise(mechanism, seed=settings.seed, digest=data.digest)


def unique_rows(rows: Codes, names: tuple[str, ...]) -> Flags:
    """Whether each row is alone with its values of some attributes."""
    from headcount.mechanisms.swapping import marking
    from headcount.schema.combine import combine

    people = len(rows["age"])
    code = combine([rows[name] for name in names], rows=people)
    return marking.unique_rows(np.zeros(people, dtype=np.int64), code)
