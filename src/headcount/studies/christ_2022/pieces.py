"""The study in pieces, so that a stopped one goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headcount.studies.christ_2022.accuracy import score_noise, score_swaps
from headcount.studies.christ_2022.detailed import COUNTY, run_detailed
from headcount.studies.christ_2022.people import PeopleSource, Synthetic
from headcount.studies.christ_2022.privacy import attack_swaps
from headcount.studies.christ_2022.settings import BUCKETS, SWAPPERS, Settings
from headcount.studies.christ_2022.swapped import swap_all
from headcount.studies.christ_2022.theory import theorem_1
from headcount.studies.frame.cache import Frames


@dataclass(frozen=True)
class Piece:
    """A part of the study, and how to make its tables."""

    name: str
    make: Callable[[], Frames] = field(repr=False)


def pieces(source: PeopleSource, settings: Settings) -> list[Piece]:
    """Everything to do, area by area, because an area's pool is made once and forgotten."""
    found = []
    for name in source.names:
        found += [_swaps(source, name, swapper, settings) for swapper in SWAPPERS]
        found += [_noise(source, name, buckets, settings) for buckets in BUCKETS]
        found.append(_theorem_1(source, name, settings))
    if isinstance(source, Synthetic) and COUNTY in source.names:
        found += [_detailed(source, swapper, settings) for swapper in SWAPPERS]
    return found


def _swaps(source: PeopleSource, name: str, swapper: str, settings: Settings) -> Piece:
    def make() -> Frames:
        area = source.area(name)
        swaps = swap_all(area, swapper, settings)
        return {
            "accuracy": score_swaps(area, swaps, settings, mechanism=swapper),
            "privacy": attack_swaps(area, swaps, settings, mechanism=swapper),
        }

    return Piece(f"{name}, {swapper}", make)


def _noise(source: PeopleSource, name: str, buckets: int, settings: Settings) -> Piece:
    def make() -> Frames:
        return {"accuracy": score_noise(source.area(name), buckets, settings)}

    return Piece(f"{name}, {buckets} age buckets", make)


def _theorem_1(source: PeopleSource, name: str, settings: Settings) -> Piece:
    def make() -> Frames:
        return {"theorem_1": theorem_1(source.area(name), settings)}

    return Piece(f"{name}, theorem 1", make)


def _detailed(source: Synthetic, swapper: str, settings: Settings) -> Piece:
    def make() -> Frames:
        return run_detailed(source, swapper, settings)

    return Piece(f"{COUNTY}, 15 attributes, {swapper}", make)
