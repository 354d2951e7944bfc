"""Group quarters of a generated state: prisons, nursing homes, dormitories, barracks, ..."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Floats, Ints, Ints32
from headcount.draws import multinomial
from headcount.population.towns._mix import draw_community, race_mask
from headcount.population.towns._people import TownPeople, age_chances
from headcount.population.towns._spine import Land
from headcount.population.towns.levels import KINDS, OLDEST

IN_QUARTERS = 0.0259
"""Share of people in group quarters (United States, 2010)."""


@dataclass(frozen=True)
class Facility:
    """A type of group quarters: its share of people in them, its size, and who lives there."""

    share: float
    size: float
    spread: float
    campus: int  # facilities that stand in one block, on average
    remote: float  # share in blocks without housing
    local: bool  # people come from the tract, not from the whole state
    female: float
    knots: tuple[int, ...]
    heights: tuple[float, ...]


FACILITIES = {
    "correctional": Facility(
        0.283, 300, 1.0, 1, 0.7, False, 0.09, (17, 20, 30, 45, 65, 80), (0, 2, 3, 2, 0.3, 0)
    ),
    "juvenile": Facility(0.019, 20, 0.6, 1, 0.2, False, 0.15, (9, 14, 17, 21), (0, 2, 4, 0)),
    "nursing": Facility(
        0.188, 85, 0.5, 1, 0.0, True, 0.68, (30, 60, 70, 80, 87, 90), (0, 0.5, 1, 3, 5, 9)
    ),
    "other_institutional": Facility(
        0.010, 25, 0.8, 1, 0.1, True, 0.42, (0, 20, 50, 80, 90), (1, 2, 3, 1, 0.5)
    ),
    "college": Facility(0.316, 180, 0.8, 6, 0.5, False, 0.53, (17, 18, 21, 27), (0, 4, 3, 0)),
    "military": Facility(
        0.042, 120, 0.8, 8, 0.8, False, 0.14, (17, 19, 23, 35, 50), (0, 3, 3, 0.6, 0)
    ),
    "other_noninstitutional": Facility(
        0.142, 12, 0.8, 1, 0.05, True, 0.40, (0, 17, 25, 50, 65, 90), (0.3, 0.3, 1.5, 2, 1, 0.2)
    ),
}

TILT = {"correctional": np.array([1, 5, 2, 0.2, 1, 1, 2, 4, 2, 1, 1, 2.2])}
"""How much likelier each community is to be there than its share of the state."""


def plan_facilities(
    rng: np.random.Generator, land: Land, *, people: int
) -> tuple[Ints32, NDArray[np.int8], Ints]:
    """Block, kind and number of people of each facility."""
    block, kind, size = [], [], []
    for name, facility in FACILITIES.items():
        inside = max(1, round(people * IN_QUARTERS * facility.share))
        number = max(1, round(inside / facility.size))
        weight = rng.lognormal(sigma=facility.spread, size=number)
        size.append(1 + multinomial(rng, max(inside - number, 0), weight / weight.sum()))
        hosts = _hosts(rng, land.expected, -(-number // facility.campus), facility.remote)
        block.append(hosts[rng.integers(len(hosts), size=number)])
        kind.append(np.full(number, KINDS.index(name), dtype=np.int8))
    return np.concatenate(block), np.concatenate(kind), np.concatenate(size)


def _hosts(rng: np.random.Generator, expected: Floats, number: int, remote: float) -> Ints32:
    weight = expected / expected.sum()
    empty = expected == 0
    if empty.any():
        weight = (1 - remote) * weight + remote * empty / empty.sum()
    return rng.choice(len(expected), size=number, p=weight).astype(np.int32)


def fill_facilities(
    rng: np.random.Generator,
    people: TownPeople,
    *,
    person: Ints,
    kind: NDArray[np.int8],
    tract: Ints32,
    mix: dict[str, Floats],
) -> None:
    """Fill in the people of facilities, given their positions, kinds and tracts."""
    for name, facility in FACILITIES.items():
        chosen = kind == KINDS.index(name)
        inside = person[chosen]
        chances = age_chances(facility.knots, facility.heights)
        people.age[inside] = rng.choice(OLDEST + 1, size=len(inside), p=chances)
        people.sex[inside] = rng.random(len(inside)) < facility.female
        if facility.local:
            community = draw_community(rng, mix["tract"], tract[chosen])
        else:
            tilted = mix["state"] * TILT.get(name, 1.0)
            community = draw_community(rng, tilted, np.zeros(len(inside), dtype=np.int32))
        people.races[inside] = race_mask(rng, community)
        people.hispanic[inside] = community // 6
