"""Ages, group quarters and households of the districts of one state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Ints
from headcount.draws import binomial
from headcount_papers.us1940._groups import settle
from headcount_papers.us1940.figures import GROUPS, model

CELLS = 2 * len(GROUPS)


@dataclass(frozen=True, kw_only=True)
class Facilities:
    """What one state has of one type of group quarters."""

    districts: int
    persons: int
    records: int
    minors: float


def draw_ages(
    rng: np.random.Generator,
    groups: Ints,
    *,
    adults: float,
    adults_only: int,
    printed: Mapping[str, float],
) -> Ints:
    """Split groups by voting age: districts x (under 18, 18 and over) x groups.

    where
        adults          share aged 18 and over that the state should have
        adults_only     number of districts without minors
        printed         numbers of the state that are printed, if all of it is here
    """
    shape = model()["age"]
    persons = groups.sum(axis=1)
    size = np.log(np.maximum(persons, 1))
    shift = np.array([0.0, *(model()["group"][name]["adults"] for name in GROUPS[1:])])
    share = (
        (shape["by_size"] * (size - np.average(size, weights=persons)))[:, None]
        + rng.normal(0, shape["district"], (len(persons), 1))
        + shift
        + np.where(np.arange(len(GROUPS)) > 0, rng.normal(0, shape["group"], groups.shape), 0.0)
    )
    # Small districts more often: the smallest exponentials at the rates 1 / sqrt(size).
    without = np.argsort(rng.exponential(1.0, len(persons)) * np.sqrt(persons))[:adults_only]
    share = np.clip(share + (adults - (share * groups).sum() / groups.sum()), 0.05, 0.97)
    share[without] = 1.0
    old = binomial(rng, groups, share)
    if "adults" in printed:
        old = _settle_ages(rng, old, groups, np.where(share == 1.0, groups, 0), printed)
    return np.stack([groups - old, old], axis=1)


def _settle_ages(
    rng: np.random.Generator, old: Ints, groups: Ints, least: Ints, printed: Mapping[str, float]
) -> Ints:
    """Adults moved to the printed numbers: of two groups, and of all."""
    white, black = GROUPS.index("white"), GROUPS.index("black_hispanic")
    known = {
        white: int(printed["white_not_hispanic_adults"]),
        black: int(groups[:, black].sum() - printed["black_hispanic_minors"]),
    }
    for group, total in known.items():
        old[:, group] = settle(
            rng, old[:, group], total=total, most=groups[:, group], least=least[:, group]
        )
    others = [group for group in range(len(GROUPS)) if group not in known]
    settled = settle(
        rng,
        old[:, others].reshape(-1),
        total=int(printed["adults"]) - sum(known.values()),
        most=groups[:, others].reshape(-1),
        least=least[:, others].reshape(-1),
    )
    old[:, others] = settled.reshape(-1, len(others))
    return old


def place_facilities(
    rng: np.random.Generator, cells: Ints, facilities: tuple[Facilities, ...]
) -> tuple[Ints, Ints]:
    """Move people into group quarters: persons (districts x types x cells), records by type.

    The first type is the household. Districts are drawn by size and share a type's people
    unevenly; nine in ten adults at most leave their households for any one type.
    """
    districts = len(cells)
    placed = np.zeros((districts, 1 + len(facilities), CELLS), dtype=np.int64)
    placed[:, 0] = cells.reshape(districts, CELLS)
    records = np.zeros((districts, 1 + len(facilities)), dtype=np.int64)
    total = cells.reshape(districts, CELLS).sum(axis=1)
    for number, facility in enumerate(facilities, start=1):
        room = (0.9 * placed[:, 0, len(GROUPS) :].sum(axis=1)).astype(np.int64)
        people = min(facility.persons, int(room.sum()))
        if people == 0:
            continue
        key = np.where(room > 0, rng.exponential(1.0, districts) / np.maximum(total, 1), np.inf)
        order = np.argsort(key)
        # As many districts as asked for, or as it takes to hold the people with some ease.
        enough = 1 + int(np.searchsorted(np.cumsum(room[order]), 1.2 * people))
        open_here = int((room > 0).sum())
        chosen = np.sort(order[: min(max(facility.districts, enough), people, open_here)])
        wanted = _split(rng, people, room[chosen])
        moved = _pick(rng, placed[chosen, 0], wanted, facility.minors)
        placed[chosen, 0] -= moved
        placed[chosen, number] = moved
        held = moved.sum(axis=1)
        first = np.maximum(np.rint(held * (facility.records / facility.persons)), 1)
        records[chosen, number] = settle(
            rng,
            np.minimum(first.astype(np.int64), held),
            total=int(np.clip(facility.records, len(chosen), held.sum())),
            most=held,
            least=1,
        )
    return placed, records


def _split(rng: np.random.Generator, people: int, room: Ints) -> Ints:
    """People over districts unevenly (lognormal, SD of the log 1.5), at least one, within room."""
    weight = rng.lognormal(0.0, 1.5, len(room))
    first = np.clip(np.rint(weight * (people / weight.sum())).astype(np.int64), 1, room)
    return settle(rng, first, total=min(people, int(room.sum())), most=room, least=1)


def _pick(rng: np.random.Generator, cells: Ints, wanted: Ints, minors: float) -> Ints:
    """Who moves: minors by a fixed share, within an age group everybody alike."""
    half = len(GROUPS)
    young, old = cells[:, :half], cells[:, half:]
    few = np.minimum(binomial(rng, wanted, minors), young.sum(axis=1))
    many = wanted - few  # there are as many adults: the room was counted in them
    return np.concatenate(
        [_without_return(rng, young, few), _without_return(rng, old, many)], axis=1
    )


def _without_return(rng: np.random.Generator, cells: Ints, wanted: Ints) -> Ints:
    """Multivariate hypergeometric draws, row by row, one cell at a time."""
    moved = np.zeros_like(cells)
    rest, left = cells.sum(axis=1), wanted.copy()
    for cell in range(cells.shape[1]):
        here = cells[:, cell]
        rest = rest - here
        moved[:, cell] = rng.hypergeometric(here, rest, left)
        left -= moved[:, cell]
    return moved


def draw_households(rng: np.random.Generator, persons: Ints, *, total: int) -> Ints:
    """Occupied housing units for the people in households: 1 to 99 people in each.

    where
        persons     people in households in each district
        total       housing units of the state
    """
    least, most = -(-persons // 99), persons
    total = int(np.clip(total, least.sum(), most.sum()))
    spread = rng.lognormal(0.0, model()["households"]["spread"], len(persons))
    rate = np.clip(total / max(int(persons.sum()), 1) * spread, 0.0, 1.0)
    first = np.clip(binomial(rng, persons, rate), least, most)
    return settle(rng, first, total=total, most=most, least=least)
