"""The plan of the nation: how many people live in each state, county and district."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Floats, Ints
from headcount_papers.us1940.figures import (
    apportion,
    counties,
    fill,
    model,
    published,
    states,
)


@dataclass(frozen=True, kw_only=True)
class NationPlaces:
    """Places with their people.

    where
        state       for each county the position of its state
        code        for each county its four digits within the state
        county      for each district the position of its county
        persons     for each district its people
    """

    state: Ints
    code: Ints
    county: Ints
    persons: Ints


def plan_nation(seed: int) -> NationPlaces:
    """Every state, county and district of the nation; cheap, so always made as a whole."""
    codes = np.array([int(fips) for fips in counties()])
    state = np.searchsorted([int(s.fips) for s in states()], codes // 1000)
    persons = county_persons(state, state_persons())
    county = np.repeat(np.arange(len(persons)), district_numbers(state, persons))
    return NationPlaces(
        state=state,
        code=10 * (codes % 1000),
        county=county,
        persons=district_persons(np.random.default_rng([seed, 0]), county, persons),
    )


def state_persons() -> Ints:
    """People of each state in the file: printed where printed, else the census scaled to fit."""
    known = published()["state"]
    printed = [known.get(s.name, {}).get("persons", np.nan) for s in states()]
    census = np.array([float(s.persons) for s in states()])
    return fill(census, np.array(printed), total=published()["totals"]["persons"])


def county_persons(state: Ints, per_state: Ints) -> Ints:
    """People of each county in the file, likewise."""
    census = np.array([float(persons) for persons in counties().values()])
    printed = np.full(len(census), np.nan)
    for fips, known in published()["county"].items():
        for number, code in enumerate(counties()):
            if code[:2] == fips and code[2:] in known:
                printed[number] = known[code[2:]]
    persons = np.zeros(len(census), dtype=np.int64)
    for number, total in enumerate(per_state):
        here = state == number
        persons[here] = fill(census[here], printed[here], total=int(total))
    return persons


def district_numbers(state: Ints, persons: Ints) -> Ints:
    """How many districts each county has: at least one, and exactly as many as published."""
    known = published()["state"]
    relative = np.array([s.district_size for s in states()])
    printed = [known.get(s.name, {}).get("enumeration_districts", np.nan) for s in states()]
    per_state = np.bincount(state, weights=persons)
    total = published()["totals"]["enumeration_districts"]
    numbers = fill(per_state / relative, np.array(printed), total=total)
    counts = np.zeros(len(state), dtype=np.int64)
    for number, districts in enumerate(numbers):
        here = state == number
        counts[here] = 1 + apportion(
            np.maximum(persons[here] * (districts / per_state[number]) - 1, 0.0),
            int(districts - here.sum()),
        )
    return counts


def district_persons(rng: np.random.Generator, county: Ints, persons: Ints) -> Ints:
    """District sizes that add to their counties and follow the published distribution."""
    number = np.bincount(county)
    mean = persons / number
    size = mean[county] * rng.lognormal(0.0, model()["districts"]["spread"], len(county))
    quantiles = district_quantiles(len(county))
    return fit_sizes(size, group=county, totals=persons, quantiles=quantiles)


def district_quantiles(number: int) -> Floats:
    """The sizes of that many districts in ascending order (formula in ``model.toml``)."""
    from scipy.special import ndtri

    shape = model()["districts"]
    printed = next(
        row
        for row in published()["counts"]
        if (row["count_type"], row["level"]) == ("TC", "enumeration_district")
    )
    median, p95 = printed["median"], printed["p95"]
    u = (np.arange(number) + 0.5) / number
    at_90 = np.log(median) + shape["middle"] * ndtri(0.9)
    rising = at_90 + (np.log(p95) - at_90) * (u - 0.9) / 0.05
    quantiles = np.select(
        [u < 0.5, u < 0.9, u < 0.95],
        [
            median * (2 * u) ** shape["low"],
            median * np.exp(shape["middle"] * ndtri(u)),
            np.exp(rising),
        ],
        p95 * (0.05 / (1 - u)) ** shape["tail"],
    )
    return np.asarray(np.maximum(quantiles, 1.0))


def fit_sizes(size: Floats, *, group: Ints, totals: Ints, quantiles: Floats) -> Ints:
    """Sizes close to given quantiles whose sums over groups are exact.

    Each round scales the sizes to the totals of their groups and then moves each, in logs, most of
    the way to the quantile of its rank; the last step scales and rounds by largest remainder.
    """
    rank = np.empty(len(size), dtype=np.int64)
    for _ in range(12):  # after that no size moves by a person
        size = size * (totals / np.bincount(group, weights=size))[group]
        rank[np.argsort(size, kind="stable")] = np.arange(len(size))
        size = size**0.3 * quantiles[rank] ** 0.7
    size = np.maximum(size * (totals / np.bincount(group, weights=size))[group], 1.0)
    return round_within(size, group=group, totals=totals)


def round_within(size: Floats, *, group: Ints, totals: Ints) -> Ints:
    """Whole numbers of at least 1 that add to the totals of their groups."""
    number = np.bincount(group)
    above = np.maximum(size - 1.0, 1e-9)
    above *= ((totals - number) / np.bincount(group, weights=above))[group]
    whole = np.floor(above).astype(np.int64)
    short = (totals - number) - np.bincount(group, weights=whole).astype(np.int64)
    order = np.lexsort((whole - above, group))
    start = np.concatenate([[0], np.cumsum(number)[:-1]])
    place = np.empty(len(size), dtype=np.int64)
    place[order] = np.arange(len(size)) - start[group[order]]
    return whole + 1 + (place < short[group])
