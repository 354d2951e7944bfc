"""Race and ethnicity: how many people of each group live in each district of a state."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.draws import multinomial
from headcount_papers.us1940.figures import (
    GROUPS,
    RACES,
    fill,
    model,
    published,
    states,
)


def group_targets(persons: Ints) -> Ints:
    """People of each state and group, adding to the nation's races, ethnicities and states.

    Printed numbers of a state stand; the others are the printed census (races) or a guess
    (ethnicity), scaled until all totals hold, and rounded so that they hold exactly.
    """
    known = [published()["state"].get(s.name, {}) for s in states()]
    races = np.column_stack(
        [
            fill(
                np.array([float(s.races[column]) for s in states()]),
                np.array([_whole(row).get(race, np.nan) for row in known]),
                total=published()["race"][race],
            )
            for column, race in enumerate(RACES[1:])
        ]
    )
    hispanic = _hispanic_shares(races, persons, known)
    targets = np.zeros((len(persons), len(GROUPS)), dtype=np.int64)
    targets[:, 6:] = hispanic
    targets[:, 1:6] = races - hispanic[:, 1:]
    targets[:, 0] = persons - targets.sum(axis=1)
    return targets


def _whole(row: dict[str, float]) -> dict[str, float]:
    """Printed races of a state, with those that follow from the others filled in."""
    row = dict(row)
    if "chinese_japanese_other" in row:
        row["other"] = row["chinese_japanese_other"] - row["chinese"] - row["japanese"]
    if "white" in row and "black" not in row:
        row["black"] = row["persons"] - sum(row[race] for race in RACES if race != "black")
    return row


def _hispanic_shares(races: Ints, persons: Ints, known: list[dict[str, float]]) -> Ints:
    """Hispanic people by state and race, adding to the nation's."""
    shape = model()["hispanic"]
    share = np.array([s.hispanic for s in states()])
    relative = np.clip(share / shape["typical"], shape["least"], shape["most"]) ** shape["power"]
    result = np.zeros((len(share), len(RACES)), dtype=np.int64)
    for column, race in enumerate(RACES[1:], start=1):
        base = model()["group"][f"{race}_hispanic"]["share"]
        number = np.rint(races[:, column - 1] * np.minimum(base * relative, 0.5))
        result[:, column] = number.astype(np.int64)
    for number, row in enumerate(known):
        if "black_hispanic" in row:
            result[number, 1] = round(row["black_hispanic"])
    result[:, 0] = fill(
        np.maximum(share * persons - result.sum(axis=1), 1.0),
        np.array([row.get("white_hispanic", np.nan) for row in known]),
        total=published()["hispanic"]["hispanic"] - int(result.sum()),
    )
    return result


def draw_groups(
    rng: np.random.Generator,
    *,
    persons: Ints,
    county: Ints,
    targets: Ints,
    presence: bool = False,
) -> Ints:
    """People of each group in each district of one state (districts x groups).

    where
        persons     people of each district
        county      position of each district's county within the state
        targets     people of each group in the state, which the draw meets exactly
        presence    whether a small group is in a county as a cluster or not at all
    """
    changed = model()["presence"]["group"] if presence else {}
    shapes = [model()["group"][name] | changed.get(name, {}) for name in GROUPS[1:]]
    weight = np.column_stack([_spread(rng, shape, persons, county) for shape in shapes])
    expected = fit_expected(weight, persons=persons, targets=targets[1:])
    if presence:
        expected = gather(rng, expected, county=county, least=model()["presence"]["people"])
    counts = np.column_stack(
        [_clumps(rng, mean, shape) for mean, shape in zip(expected.T, shapes, strict=True)]
    )
    return settle_groups(rng, _unfill(rng, counts, persons), persons=persons, targets=targets)


def _spread(
    rng: np.random.Generator, shape: dict[str, float], persons: Ints, county: Ints
) -> Floats:
    """Relative weight of a group in each district (formula in ``model.toml``)."""
    of_district = rng.gamma(shape["district"], 1 / shape["district"], len(persons))
    size = np.bincount(county, weights=persons)
    of_county = rng.gamma(shape["county"], 1 / shape["county"], len(size))
    of_county *= (size / np.exp(np.log(size).mean())) ** shape["urban"]
    here, floor = of_county[county], shape["floor"]
    return floor * (1 + here) / 2 + (1 - floor) * here * of_district


def fit_expected(weight: Floats, *, persons: Ints, targets: Ints, rounds: int = 20) -> Floats:
    """Expected people of each group: proportional fitting of one factor a group to the targets.

    E[d, g] = n_d s_g w[d, g] / (1 + sum_h s_h w[d, h])

    where
        n   people of a district
        w   relative weight of a group there; white not Hispanic has weight 1
        s   factor of the group, fitted
    """
    factor = targets / persons.sum()
    expected = np.zeros_like(weight)
    for _ in range(rounds):
        scaled = weight * factor
        expected = scaled * (persons / (1 + scaled.sum(axis=1)))[:, None]
        sums = expected.sum(axis=0)
        factor = factor * np.divide(targets, sums, out=np.ones(len(sums)), where=sums > 0)
    return expected


def gather(rng: np.random.Generator, expected: Floats, *, county: Ints, least: float) -> Floats:
    """Expected people of groups that are in a county with enough people, or not at all.

    F[c, g] = 1                                               if E[c, g] >= L
              L / E[c, g] with probability E[c, g] / L, or 0  otherwise

    where
        E   expected people of a group in a county, the sum over its districts
        F   factor on the group in all districts of the county: on average 1
        L   people with whom a group is expected in a county, if it is there
    """
    of_county = np.zeros((int(county.max()) + 1, expected.shape[1]))
    np.add.at(of_county, county, expected)
    there = rng.random(of_county.shape) * least < of_county
    few = of_county < least
    enough = np.divide(least, of_county, out=np.ones_like(of_county), where=few & (of_county > 0))
    gathered: Floats = expected * np.where(there, enough, 0.0)[county]
    return gathered


def _clumps(rng: np.random.Generator, mean: Floats, shape: dict[str, float]) -> Ints:
    """People who come in clumps: M ~ Poisson(mean / size), M + Poisson(M (size - 1)) people."""
    clumps = rng.poisson(mean / shape["clump"])
    people: Ints = clumps + rng.poisson(clumps * (shape["clump"] - 1))
    return people


def _unfill(rng: np.random.Generator, counts: Ints, persons: Ints) -> Ints:
    """Draw over-full districts again, so that nowhere more people live than do."""
    over = counts.sum(axis=1) > persons
    shares = counts[over] / counts[over].sum(axis=1, keepdims=True)
    counts[over] = multinomial(rng, persons[over], shares)
    return counts


def settle_groups(rng: np.random.Generator, counts: Ints, *, persons: Ints, targets: Ints) -> Ints:
    """Counts moved to the state's totals, white not Hispanic taking the rest of each district."""
    spare = persons - counts.sum(axis=1)
    for group, target in enumerate(targets[1:]):
        before = counts[:, group].copy()
        counts[:, group] = settle(rng, before, total=int(target), most=before + spare)
        spare += before - counts[:, group]
    return np.column_stack([spare, counts])


def settle(
    rng: np.random.Generator,
    counts: Ints,
    *,
    total: int,
    most: Ints,
    least: int | Ints = 0,
) -> Ints:
    """Counts changed in proportion to themselves until they add to a total, within bounds.

    Changes are rounded along one random offset (systematic sampling), so that each is within one of
    its proportional part.
    """
    before, counts = int(counts.sum()), counts.copy()
    least = np.broadcast_to(np.asarray(least, dtype=np.int64), counts.shape)
    while (difference := total - int(counts.sum())) != 0:
        room = most - counts if difference > 0 else counts - least
        weight = np.where(room > 0, counts, 0).astype(np.float64)
        if not weight.any():
            weight = (room > 0).astype(np.float64)
        if not weight.any():
            raise ValueError(f"{before} cannot be moved to {total} within the bounds")
        along = np.cumsum(weight) * (abs(difference) / weight.sum()) + rng.random()
        moved = np.minimum(np.diff(np.floor(along), prepend=0.0).astype(np.int64), room)
        if not moved.any():  # the offset fell on full places: one of the open ones takes it
            moved[np.argmax(room > 0)] = 1
        counts += moved if difference > 0 else -moved
    return counts
