"""Attackers' files made from the truth: a perfect one, and one like a commercial file.

Made for scoring only: such a file is confidential data, and the attack sees nothing else of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.attacks.records import Features, Records, records_from_rows
from headcount.attacks.reidentification import KnownPeople
from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.population import Population
from headcount.schema.schema import Schema
from headcount.tabulate.published.codings import find_attribute

PERFECT, COMMERCIAL = "perfect", "commercial-like"
ENDS: tuple[Literal["left"], Literal["right"]] = ("left", "right")


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How good a commercial-like file is.

    where
        coverage      share of people it holds
        wrong_block   share of its rows with another address: that of a random person of another
                      block in the unit of level ``within`` (anywhere, if no level is named)
        wrong_age     share with an age off by 1 to ``furthest`` levels, up or down
        wrong_sex     share with the other sex

    Errors are independent. With the defaults 37 in 100 rows are right on block, sex and age bin,
    as in the file that the Census Bureau tried (106.3 of 286.7 million).
    """

    coverage: float = 0.95
    wrong_block: float = 0.55
    wrong_age: float = 0.2
    wrong_sex: float = 0.02
    within: str = ""
    furthest: int = 5

    def __post_init__(self) -> None:
        for name in ("coverage", "wrong_block", "wrong_age", "wrong_sex"):
            if not 0 <= (share := getattr(self, name)) <= 1:
                raise ConfigError(
                    "attacker", place=name, found=str(share), expected="a share from 0 to 1"
                )
        if self.furthest < 1:
            raise ConfigError(
                "attacker", place="furthest", found=str(self.furthest), expected="1 or more"
            )


def true_records(population: Population, features: Features | None = None) -> Records:
    """Everyone, one row per person, in the order of the population."""
    unit, cell = population.unit, population.cell
    if population.count is not None:
        unit = np.repeat(unit, population.count)
        cell = np.repeat(cell, population.count)
    return records_from_rows(unit, cell, features or Features.of(population.schema))


def perfect_attacker(truth: Records) -> KnownPeople:
    """Everyone, with true block, sex and age. Person numbers are rows of the truth."""
    return KnownPeople(
        name=PERFECT,
        features=truth.features,
        person=np.arange(len(truth)),
        block=truth.block,
        key=truth.key,
    )


def commercial_attacker(
    truth: Records, *, geography: Geography, quality: Quality | None = None, seed: int = 0
) -> KnownPeople:
    """Some people, some of them with a wrong address, age or sex."""
    quality = quality or Quality()
    rng = np.random.default_rng([seed, 7])
    held = np.sort(rng.choice(len(truth), size=round(quality.coverage * len(truth)), replace=False))
    block = truth.block[held].copy()
    moved = np.flatnonzero(rng.random(len(held)) < quality.wrong_block)
    block[moved] = _other_address(truth.block, block[moved], geography, quality.within, rng)
    schema = truth.features.schema
    sexes, ages = (_size(schema, role) for role in ("sex", "age"))
    sex, age = np.divmod(truth.key[held], ages)
    if sexes > 1:
        swapped = rng.random(len(held)) < quality.wrong_sex
        sex = np.where(swapped, (sex + 1) % sexes, sex)
    if ages > 1:
        off = rng.random(len(held)) < quality.wrong_age
        age = np.where(off, _other_age(age, ages, quality.furthest, rng), age)
    return KnownPeople(
        name=COMMERCIAL, features=truth.features, person=held, block=block, key=sex * ages + age
    )


def _size(schema: Schema, role: str) -> int:
    attribute = find_attribute(schema, role)
    return 1 if attribute is None else attribute.size


def _other_address(
    everyone: Ints, own: Ints, geography: Geography, within: str, rng: np.random.Generator
) -> Ints:
    """The block of a random person of the same unit who lives in another block.

    Who has nobody elsewhere in the unit keeps the own block. A few draws with rejection settle
    nearly everybody; whoever lives in so large a block that they do not is drawn among the others
    at once: people are ordered by unit and block, and the draw steps over the own block.
    """
    unit = geography.ancestors(within or geography.levels[0]).astype(np.int64)
    blocks = everyone[np.argsort(unit[everyone], kind="stable")]
    start = np.searchsorted(unit[blocks], unit[own])
    stop = np.searchsorted(unit[blocks], unit[own], side="right")
    found = own.copy()
    for _ in range(20):
        same = np.flatnonzero(found == own)
        if not len(same):
            return found
        at = start[same] + (rng.random(len(same)) * (stop - start)[same]).astype(np.int64)
        found[same] = blocks[at]
    return _past_own(found, own, everyone, unit, rng)


def _past_own(found: Ints, own: Ints, everyone: Ints, unit: Ints, rng: np.random.Generator) -> Ints:
    """Draw, for those who still have their own block, one person of the unit's other blocks."""
    order = np.lexsort((everyone, unit[everyone]))
    blocks = everyone[order]
    rank = unit * len(unit) + np.arange(len(unit))  # rises with unit, then block
    left = np.flatnonzero(found == own)
    start, stop = (np.searchsorted(unit[blocks], unit[own[left]], side) for side in ENDS)
    low, high = (np.searchsorted(rank[blocks], rank[own[left]], side) for side in ENDS)
    others = (stop - start) - (high - low)
    left, start, low, high, others = (a[others > 0] for a in (left, start, low, high, others))
    at = start + rng.integers(0, others)
    found[left] = blocks[np.where(at < low, at, at + high - low)]
    return found


def _other_age(age: Ints, ages: int, furthest: int, rng: np.random.Generator) -> Ints:
    """Another age, at most ``furthest`` levels away: a distance, then a side where it fits.

    where
        distance   uniform from 1 to the furthest level that is there on either side
        side       down or up by a fair coin; if that is past the end of the ages, the other
    """
    reach = np.maximum(age, ages - 1 - age)
    by = rng.integers(1, np.minimum(furthest, reach) + 1)
    down = rng.random(len(age)) < 0.5
    other = np.where(down, age - by, age + by)
    return np.where((other < 0) | (other >= ages), np.where(down, age + by, age - by), other)


def truth_rows(known: KnownPeople, people: int) -> Ints:
    """The truth's row of each known person, -1 for someone who is not there."""
    if len(known) and not -1 <= known.person.min() <= known.person.max() < people:
        raise InputError(
            f"attacker {known.name!r}",
            place="person",
            found="a number out of range",
            expected=f"-1 to {people - 1}",
        )
    return known.person


def right_rows(known: KnownPeople, truth: Records) -> Flags:
    """Whether each row of an attacker's file has the person's true block, sex and age bin."""
    row = truth_rows(known, len(truth))
    binned = truth.features.binned
    there = row >= 0
    if not there.any():
        return there
    same = there & (known.block == truth.block[row]) & (binned[known.key] == binned[truth.key[row]])
    return np.asarray(same, dtype=bool)
