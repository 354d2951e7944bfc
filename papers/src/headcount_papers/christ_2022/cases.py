"""The cases of the study: swappers and noisy histograms with their parameters, and their runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from headcount.arrays import Codes, Flags, Ints
from headcount.comparison.cases import Case, releases, seeded_noise
from headcount.schema.schema import combine
from headcount.tabulate import Counts, Tabulated
from headcount_papers.christ_2022.people import AREA, Area, with_pool
from headcount_papers.christ_2022.rates import AreaSwaps, swap_at_all_rates
from headcount_papers.christ_2022.settings import SWAPPERS, UNIQUE_BY, UNIT
from headcount_papers.histogram import Histogram
from headcount_papers.person_swapping import persons
from headcount_papers.person_swapping.mechanism import PersonSwapping


def swapping(
    area: Area, swapper: str, *, unique_by: Sequence[str] = UNIQUE_BY, **more: object
) -> PersonSwapping:
    """One of the paper's swappers, for everybody of one area."""
    likeness = SWAPPERS[swapper]
    return PersonSwapping(
        level=AREA,
        area=area.unit,
        rate=Fraction(1),
        kind=likeness.kind,
        k=likeness.k,
        order=area.order,
        unique_by=tuple(unique_by),
        **more,  # type: ignore[arg-type]
    )


def swap_cases(
    areas: Sequence[Area],
    *,
    runs: int,
    swappers: Sequence[str] = tuple(SWAPPERS),
    unique_by: Sequence[str] = UNIQUE_BY,
) -> list[Case]:
    """Everybody of each area swapped by each swapper: lower rates are the beginning of it."""
    return [
        Case(
            name=f"{area.unit}, {swapper}",
            mechanism=swapping(area, swapper, unique_by=unique_by),
            runs=range(runs),
            columns={"county": area.name, "draw": area.draw, "mechanism": swapper},
        )
        for area in areas
        for swapper in swappers
    ]


def swapped(areas: Sequence[Area], cases: Sequence[Case], *, seed: int) -> Iterator[AreaSwaps]:
    """Areas of one county swapped at all rates, case by case, with one pool for all of them."""
    data = with_pool(areas)
    mechanisms = [case.mechanism for case in cases]
    pairs = [
        (mechanism, seeded_noise(mechanism, seed=seed, digest=data.digest))
        for mechanism in mechanisms
        if isinstance(mechanism, PersonSwapping)
    ]
    return swap_at_all_rates(pairs, data, runs=cases[0].runs)


def noise_cases(epsilons: Sequence[Fraction], *, runs: int) -> list[Case]:
    """The noisy histogram at each epsilon."""
    return [
        Case(
            name=f"epsilon {float(epsilon):g}",
            mechanism=Histogram(epsilon=epsilon, unit=UNIT),
            runs=range(runs),
            columns={"parameter": float(epsilon)},
        )
        for epsilon in epsilons
    ]


def released_cells(case: Case, counts: Counts, *, seed: int) -> Ints:
    """Cells of the noisy histogram of one area, one release for each run."""
    made = releases(case, Tabulated.of(counts), seed=seed)
    cells = [one.release.at(counts.level)[0] for one in made]
    return np.stack(cells).astype(np.int64)


def unique_rows(rows: Codes, names: Sequence[str]) -> Flags:
    """Whether each row is alone with its values of some attributes."""
    people = len(rows["age"])
    code = combine([rows[name] for name in names], rows=people)
    return persons.unique_rows(np.zeros(people, dtype=np.int64), code)
