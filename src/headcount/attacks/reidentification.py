"""Re-identification: named people matched to released or reconstructed records.

The attacker's file has a person's id, block, sex and age. Matching is exact, one to one and
without replacement, block by block, in two passes (Abowd et al. 2023; Hawes & Rodríguez 2021):

    1. {block, sex, age}                  skipped where the records have age bins only
    2. {block, sex, age bin}              on what pass 1 left over on both sides

A match is *putative*: the record's race and Hispanic origin are attached to the person. Whether it
is right, only the curator can tell: see ``headcount.evaluation.reidentified``. Which of several
records that look alike a person gets is a matter of chance, so matches are drawn several times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints
from headcount.attacks.records import Features, Records
from headcount.errors import InputError

NOBODY = -1


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KnownPeople:
    """An attacker's file: one row per named person.

    where
        name      of the attacker
        person    number of the person; a file may name someone twice
        block     leaf unit, -1 for an address outside the geography
        key       (sex, age) as a number of ``features``
    """

    name: str
    features: Features
    person: Ints
    block: Ints
    key: Ints

    def __post_init__(self) -> None:
        if not len(self.person) == len(self.block) == len(self.key):
            raise InputError(
                f"attacker {self.name!r}",
                found="columns of different lengths",
                expected="one row for each person",
            )

    def __repr__(self) -> str:
        return f"<KnownPeople {self.name!r}>"

    def __len__(self) -> int:
        return len(self.person)


@dataclass(frozen=True, eq=False, kw_only=True)
class Putative:
    """What the attacker claims.

    where
        record   for each known person the row of the matched record, or -1
        grade    1 for a match on age, 2 for one on the age bin, 0 for none
    """

    record: Ints
    grade: NDArray[np.int8]

    @property
    def matched(self) -> Flags:
        """Whether each known person has a record."""
        return self.record >= 0


def reidentify(
    known: KnownPeople,
    records: Records,
    *,
    orders: int = 10,
    seed: int = 0,
    years: bool | None = None,
) -> Iterator[Putative]:
    """Match known people to records, once for each random order of ties.

    where
        orders   how many orders to draw; order k is the same for any number of them
        years    whether the records' years of age are to be believed: by default if the schema
                 has them. A reconstruction from tables with age bins has none
    """
    features = records.features
    if known.features.schema != features.schema:
        raise InputError(
            "re-identification",
            found=f"attacker {known.name!r} on another schema",
            expected="the schema of the records",
        )
    if orders < 1:
        raise InputError(
            "re-identification", place="orders", found=str(orders), expected="1 or more"
        )
    exact_first = features.years if years is None else years and features.years
    return _draws(known, records, orders, seed, exact_first)


def _draws(
    known: KnownPeople, records: Records, orders: int, seed: int, exact_first: bool
) -> Iterator[Putative]:
    from headcount.attacks._matching import match_sorted

    # As far as the records are told apart, not the attacker's file.
    a, a_coarse, a_fine = _sorted(records.features, known.block, known.key)
    r, r_coarse, r_fine = _sorted(records.features, records.block, records.key)
    for order in range(orders):
        rng = np.random.default_rng([seed, order])
        row = np.full(len(known), NOBODY, dtype=np.int64)
        grade = np.zeros(len(known), dtype=np.int8)
        match_sorted(
            a.copy(),
            a_coarse,
            a_fine,
            r.copy(),
            r_coarse,
            r_fine,
            rng.random(len(a)),
            exact_first,
            row,
            grade,
        )
        yield Putative(record=row, grade=grade)


def _sorted(features: Features, block: Ints, key: Ints) -> tuple[Ints, Ints, Ints]:
    """Rows with a place sorted by block, binned key and key; and their coarse and fine numbers."""
    by_bin = np.lexsort((np.arange(len(features.binned)), features.binned))
    rank = np.empty(len(by_bin), dtype=np.int64)
    rank[by_bin] = np.arange(len(by_bin))
    rows = np.flatnonzero(block >= 0)
    fine = block[rows] * len(rank) + rank[key[rows]]
    order = np.argsort(fine, kind="stable")
    rows, fine = rows[order], fine[order]
    coarse = (fine // len(rank)) * features.bins + features.binned[by_bin][fine % len(rank)]
    return rows, coarse, fine
