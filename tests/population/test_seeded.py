"""One seed, one population, to the byte: under the locked libraries and under the newest ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import pytest
from numpy.typing import NDArray

from headcount.population import Households, uniform
from headcount.population.towns import towns
from headcount_papers.christ_2022.places import block_group, county, state_pool
from headcount_papers.us1940 import us1940
from headcount_papers.workload_s import workload_s

Arrays = Iterator[NDArray[Any]]


def _us1940(**chosen: Any) -> Arrays:
    people, quarters = us1940(seed=1940, **chosen)
    assert people.count is not None
    yield from (people.unit, people.cell)
    yield from people.geography.parents
    yield from (people.count, quarters.occupied, quarters.vacant)


def _households(state: Households) -> Arrays:
    yield from state.geography.parents
    yield state.block
    yield state.kind
    yield state.first
    for codes in (state.persons, state.dwellings):
        yield from (codes[name] for name in sorted(codes))
    yield from (areas.of_leaf for areas in state.areas)


def _uniform() -> Arrays:
    people = uniform(people=1_000_000, depth=3, mean=100, seed=0)
    assert people.count is not None
    yield people.count


def _christ() -> Arrays:
    for name, detailed in (("Alameda", False), ("Alameda", True)):
        yield from block_group(county(name), seed=2022, detailed=detailed).values()
    yield from state_pool("CA", seed=2022, people=20_000, detailed=True).values()


POPULATIONS: dict[str, tuple[Callable[[], Arrays], str]] = {
    "us1940 of one state": (lambda: _us1940(states=("WA",)), "7aa35b4ac6b2870d"),
    "us1940 in part": (lambda: _us1940(scale=0.05), "6a43d037f79657c4"),
    "us1940 with nurse_nva_0": (
        lambda: _us1940(states=("VT",), nurse_nva_0=True),
        "22711a28df3ff435",
    ),
    "us1940 with presence": (
        lambda: _us1940(states=("VT",), presence=True),
        "abd360da7ff700e7",
    ),
    "towns": (lambda: _households(towns(seed=2010, people=40_000)), "df26b23393c71db6"),
    "towns of other counties": (
        lambda: _households(towns(seed=7, people=60_000, counties=9)),
        "75b308dc3ba85e76",
    ),
    "workload S": (
        lambda: _households(workload_s(seed=20261115, households=50_000)),
        "6bd926c16cca57ae",
    ),
    "uniform": (_uniform, "14eeb7b16934ee5b"),
    "christ-2022": (_christ, "2d070f64791bb47d"),
}


def digest(arrays: Arrays) -> str:
    """SHA-256 over shapes and whole numbers, which no processor rounds."""
    hasher = sha256()
    for array in arrays:
        assert array.dtype.kind in "iub"
        hasher.update(repr(array.shape).encode() + array.astype("<i8").tobytes())
    return hasher.hexdigest()[:16]


@pytest.mark.parametrize("name", POPULATIONS)
def test_a_seeded_population_is_that_of_the_locked_versions(name: str) -> None:
    make, golden = POPULATIONS[name]
    assert digest(make()) == golden
