"""The study in pieces, so that a stopped one goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import polars as pl

from headcount.comparison.cache import Frames
from headcount.evaluation.representation import minorities
from headcount_papers.christ_2022.accuracy import score_noise, score_swaps
from headcount_papers.christ_2022.cases import swap_cases, swapped, unique_rows
from headcount_papers.christ_2022.detailed import COUNTY, READINGS, run_detailed
from headcount_papers.christ_2022.people import Area, PeopleSource, Synthetic
from headcount_papers.christ_2022.privacy import attack_swaps
from headcount_papers.christ_2022.settings import (
    BUCKETS,
    DETAILED_DRAWS,
    DETAILED_RUNS,
    SIMILAR,
    UNIQUE_BY,
    Grid,
    Settings,
)
from headcount_papers.christ_2022.theory import theorem_1, theorem_2


@dataclass(frozen=True)
class Piece:
    """A part of the study, and how to make its tables."""

    name: str
    make: Callable[[], Frames] = field(repr=False)


def shown(source: PeopleSource, settings: Settings) -> list[Piece]:
    """What figures show: one block group of each county on the full grid."""
    runs = min(settings.replicates, DETAILED_RUNS)
    found = []
    for name in source.names:
        found.append(Piece(f"{name}, swaps", partial(_swaps, source, name, settings)))
        found += [
            Piece(
                f"{name}, {buckets} age buckets", partial(_noise, source, name, buckets, settings)
            )
            for buckets in BUCKETS
        ]
    return found + _detailed(source, settings, settings.full, draw=0, runs=runs)


def theory(source: PeopleSource, settings: Settings) -> list[Piece]:
    """The theorems on one block group of each county."""
    return [
        Piece(f"{name}, theory", partial(_theory, source, name, settings)) for name in source.names
    ]


def tried(source: PeopleSource, settings: Settings) -> list[Piece]:
    """What claims are judged by: many block groups of each county on the reduced grid."""
    found = [
        Piece(f"{name}, {settings.draws} draws", partial(_draws, source, name, settings))
        for name in source.names
    ]
    for draw in range(min(settings.draws, DETAILED_DRAWS)):
        found += _detailed(source, settings, settings.reduced, draw=draw, runs=1)
    return found


def _detailed(
    source: PeopleSource, settings: Settings, grid: Grid, *, draw: int, runs: int
) -> list[Piece]:
    """A block group with fifteen attributes, if its county is among those of the run."""
    if not isinstance(source, Synthetic) or COUNTY not in source.names:
        return []
    more = {"seed": settings.seed, "draw": draw, "runs": runs}
    return [
        Piece(
            f"{COUNTY}, block group {draw}, 15 attributes, {reading}, {swapper}, "
            f"{len(grid.rates)} rates, {runs} runs",
            partial(run_detailed, source, reading, swapper, grid, **more),
        )
        for reading in READINGS
        for swapper in SIMILAR
    ]


def _swaps(source: PeopleSource, name: str, settings: Settings) -> Frames:
    area = source.area(name)
    cases = swap_cases([area], runs=settings.replicates)
    found: dict[str, list[pl.DataFrame]] = {"accuracy": [], "privacy": []}
    for case, swaps in zip(cases, swapped([area], cases, seed=settings.seed), strict=True):
        swapper = str(case.columns["mechanism"])
        found["accuracy"].append(score_swaps(area, swaps, settings.full, mechanism=swapper))
        found["privacy"].append(attack_swaps(area, swaps, settings.full, mechanism=swapper))
    return {table: pl.concat(parts) for table, parts in found.items()}


def _noise(source: PeopleSource, name: str, buckets: int, settings: Settings) -> Frames:
    area = source.area(name)
    return {"accuracy": score_noise(area, buckets, settings.full, seed=settings.seed)}


def _theory(source: PeopleSource, name: str, settings: Settings) -> Frames:
    area = source.area(name)
    return {
        "theorem_1": theorem_1(area, seed=settings.seed),
        "theorem_2": theorem_2(area, seed=settings.seed),
    }


def _draws(source: PeopleSource, name: str, settings: Settings) -> Frames:
    areas = [source.area(name, draw) for draw in range(settings.draws)]
    by_unit = {area.unit: area for area in areas}
    grid, seed = settings.reduced, settings.seed
    cases = swap_cases(areas, runs=grid.runs)
    accuracy, privacy = [], []
    for case, swaps in zip(cases, swapped(areas, cases, seed=seed), strict=True):
        area, swapper = by_unit[str(swaps.mechanism.area)], str(case.columns["mechanism"])
        accuracy.append(score_swaps(area, swaps, grid, mechanism=swapper))
        privacy.append(attack_swaps(area, swaps, grid, mechanism=swapper, rules=("slot",)))
    for area in areas:
        accuracy += [score_noise(area, buckets, grid, seed=seed) for buckets in BUCKETS]
    return {
        "accuracy": pl.concat(accuracy),
        "privacy": pl.concat(privacy),
        "areas": pl.DataFrame([about(area) for area in areas]),
    }


def about(area: Area) -> dict[str, object]:
    """Who lives in an area, and how many rows are unique."""
    exchanged = tuple(name for name in area.rows if name != "tenure")
    group = area.group(area.rows)
    few = minorities(area.truth())[group]
    unique = int(unique_rows(area.rows, UNIQUE_BY).sum())
    return {
        "county": area.name,
        "draw": area.draw,
        "diversity": area.diversity,
        "people": area.size,
        "minority_people": int(few.sum()),
        "groups": int((area.truth() > 0).sum()),
        "minority_groups": len(set(group[few].tolist())),
        "unique_rows": unique,
        "unique_share": unique / area.size,
        "unique_with_household_size": int(unique_rows(area.rows, exchanged).sum()),
        "pool": len(area.pool["age"]),
    }
