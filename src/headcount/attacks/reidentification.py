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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints
from headcount.attacks._base import Attack, ClaimedPeople, People, whole_people
from headcount.attacks.reconstruction import (
    Reconstruct,
    change_words,
    has_features,
    read_changed,
    settings_tell_more,
)
from headcount.attacks.records import (
    Features,
    Records,
    known_names,
    learnt_names,
    records_of,
)
from headcount.compiled import kernel, njit
from headcount.engines import Engine
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.release import Release, TablesRelease
from headcount.report.finding import Support
from headcount.schema import Schema


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KnownPeople:
    """An attacker's file: one row per named person.

    where
        name      of the attacker
        person    number of the person; a file may name someone twice
        block     leaf unit, -1 for an address outside the geography
        key       what is known of each, as a number of ``features``
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Target:
    """The records under attack.

    where
        zero    leaf units whose records are certain; None if that is not known
        years   whether the records' years of age are to be believed
        words   what the attacker knows of changes, where the records are of changed tables
    """

    records: Records
    geography: Geography
    zero: Flags | None
    years: bool
    words: str = ""

    @classmethod
    def of(cls, release: Release, *, engine: Engine | None = None) -> Target:
        """The people of a release of counts; of tables those that fit, who are rebuilt first."""
        if isinstance(release, TablesRelease):
            rebuilt = Reconstruct().run(release, NOBODY, engine=engine)
            return cls(
                records=records_of(rebuilt.matrix, rebuilt.features),
                geography=rebuilt.geography,
                zero=rebuilt.found.certain,
                years=rebuilt.features.years,
                words=change_words(release),
            )
        features, geography = Features.of(release.schema), release.geography
        records = records_of(release.table(geography.leaf), features)
        return cls(records=records, geography=geography, zero=None, years=features.years)


@dataclass(frozen=True, kw_only=True)
class Reidentify(Attack):
    """Match named people to the records of a release, or to those rebuilt from its tables.

    where
        orders       random orders of ties that are scored
        seed         seed of these orders
        most_units   leaf units whose records an evaluation rebuilds from tables; 0 for all
        largest_change, knows_settings   as in the attack reconstruction, where counts were changed
    """

    name = "reidentification"
    at_least_0 = ("largest_change",)
    orders: int = 10
    seed: int = 0
    most_units: int = 300
    largest_change: int = 0
    knows_settings: bool = True

    def read(self, release: Release) -> Release:
        """Changed counts as ranges, narrowed by all sums of the release."""
        return read_changed(release, self.largest_change, self.knows_settings)

    def uninformed(self, release: Release) -> Reidentify | None:
        """The same on records that are rebuilt without knowing the settings."""
        if self.knows_settings and settings_tell_more(release):
            return replace(self, knows_settings=False)
        return None

    def supports(self, release: Release) -> Support:
        """Whole people, or tables from which people can be rebuilt."""
        if not (features := has_features(release)):
            return features
        if isinstance(release, TablesRelease):
            return Reconstruct().supports(release)
        return whole_people(release)

    def knows(self, schema: Schema) -> tuple[str, ...]:
        """Sex and age, as far as the schema has them, or what is said to be known."""
        return known_names(schema)

    def limit(self, release: Release) -> int:
        """Rebuilding records takes long; matching does not."""
        return self.most_units if isinstance(release, TablesRelease) else 0

    def run(self, release: Release, people: People, *, engine: Engine | None = None) -> Matches:
        """Match the people known to the release's own records, or to rebuilt ones."""
        release = self.read(release)
        features = Features.of(release.schema)
        known = KnownPeople(
            name=people.name,
            features=features,
            person=np.arange(len(people)),
            block=people.unit,
            key=features.key_of(people.codes),
        )
        return self.match(known, Target.of(release, engine=engine))

    def match(self, known: KnownPeople, target: Target) -> Matches:
        """Match an attacker's file to records, wherever both come from."""
        features = target.records.features
        schema = features.schema
        first = next(
            reidentify(known, target.records, orders=1, seed=self.seed, years=target.years)
        )
        claimed = np.full(len(known), -1, dtype=np.int64)
        claimed[first.matched] = target.records.secret[first.record[first.matched]]
        learnt = learnt_names(schema)
        first_by = " first by year of age and then by age bin;" if features.years else ""
        return Matches(
            attack=self.name,
            title="Can named people be found in the records?",
            schema=schema,
            geography=target.geography,
            people=People(name=known.name, unit=known.block, codes={}),
            learnt=learnt,
            value=claimed,
            known=known,
            target=target,
            first=first,
            by=self,
            facts=self._facts(known, first, target),
            words=(
                "The attacker knows where people live, their "
                f"{' and '.join(self.knows(schema))}, and matches people to records one to one,"
                f"{first_by} the record's "
                f"{' and '.join(learnt)} are then claimed to be the person's. Among records that "
                "look alike, chance decides which one a person gets."
                + (f" {target.words}" if target.words else "")
            ),
        )

    def _facts(self, known: KnownPeople, first: Putative, target: Target) -> dict[str, Any]:
        return {
            "kind": self.name,
            "attacker": known.name,
            "people": len(known),
            "putative": int(first.matched.sum()),
            "on_age": int((first.grade == 1).sum()),
            "on_age_bin": int((first.grade == 2).sum()),
            "years_of_age_used": target.years,
            "seed": self.seed,
        }


NOBODY = People(name="nobody", unit=np.empty(0, dtype=np.int64), codes={})


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Matches(ClaimedPeople):
    """Claims by matching, with the records they come from; ``first`` is the first order of ties."""

    known: KnownPeople
    target: Target
    first: Putative
    by: Reidentify

    def frames(self, ids: pl.Series) -> Mapping[str, pl.DataFrame]:
        """Everyone who was matched, with what the record says of them."""
        who = np.flatnonzero(self.first.matched)
        attributes = [self.schema.attribute(name) for name in self.learnt]
        codes = np.unravel_index(self.value[who], [a.size for a in attributes])
        leaf = self.geography.leaf
        first, then = ("age", "age bin") if self.known.features.years else ("all", "all")
        matched_on = np.where(self.first.grade[who] == 1, first, then).tolist()
        found = {
            "person": ids.gather(who.tolist()),
            leaf: self.geography.units[-1][self.known.block[who]].tolist(),
            **{
                a.name: np.array(a.levels)[code].tolist()
                for a, code in zip(attributes, codes, strict=True)
            },
            "matched_on": pl.Series(matched_on, dtype=pl.String),
        }
        return {"putative": pl.DataFrame(found)}


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

    # As far as the records are told apart, not the attacker's file.
    a, a_coarse, a_fine = _sorted(records.features, known.block, known.key)
    r, r_coarse, r_fine = _sorted(records.features, records.block, records.key)
    for order in range(orders):
        rng = np.random.default_rng([seed, order])
        row = np.full(len(known), -1, dtype=np.int64)
        grade = np.zeros(len(known), dtype=np.int8)
        _match_sorted(
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


@njit
def _pair(
    a: Ints,
    a_start: int,
    a_stop: int,
    r: Ints,
    r_start: int,
    r_stop: int,
    draw: Floats,
    used: int,
    step: int,
    row: Ints,
    grade: NDArray[np.int8],
) -> int:
    """Pair as many as there are on the shorter side; the longer side is shuffled that far.

    Those paired end up first on either side. Every way to pair them is equally likely.
    """
    n_a, n_r = a_stop - a_start, r_stop - r_start
    pairs = min(n_a, n_r)
    for t in range(pairs):
        if n_a >= n_r:
            k = a_start + t + int(draw[used + t] * (n_a - t))
            a[a_start + t], a[k] = a[k], a[a_start + t]
        else:
            k = r_start + t + int(draw[used + t] * (n_r - t))
            r[r_start + t], r[k] = r[k], r[r_start + t]
        row[a[a_start + t]] = r[r_start + t]
        grade[a[a_start + t]] = step
    return pairs


@kernel
def _match_sorted(
    a: Ints,
    a_coarse: Ints,
    a_fine: Ints,
    r: Ints,
    r_coarse: Ints,
    r_fine: Ints,
    draw: Floats,
    exact_first: bool,
    row: Ints,
    grade: NDArray[np.int8],
) -> None:
    """Match the rows ``a`` to the rows ``r``: within fine groups, then what is left of coarse ones.

    ``a`` and ``r`` hold row numbers in the sorted order and are shuffled in place. ``draw`` has a
    number in [0, 1) for each row of ``a``: one is used for each pair.
    """
    i, j, used = 0, 0, 0
    while i < len(a) and j < len(r):
        if a_coarse[i] < r_coarse[j]:
            i += 1
            continue
        if a_coarse[i] > r_coarse[j]:
            j += 1
            continue
        coarse = a_coarse[i]
        i_stop, j_stop = i, j
        while i_stop < len(a) and a_coarse[i_stop] == coarse:
            i_stop += 1
        while j_stop < len(r) and r_coarse[j_stop] == coarse:
            j_stop += 1
        i_left, j_left = i_stop, j_stop
        if exact_first:
            i_left, j_left = i, j  # those left over move to the front of their group
            p, q = i, j
            while p < i_stop or q < j_stop:
                p_fine = a_fine[p] if p < i_stop else r_fine[q]
                fine = min(p_fine, r_fine[q]) if q < j_stop else p_fine
                p_stop, q_stop = p, q
                while p_stop < i_stop and a_fine[p_stop] == fine:
                    p_stop += 1
                while q_stop < j_stop and r_fine[q_stop] == fine:
                    q_stop += 1
                pairs = _pair(a, p, p_stop, r, q, q_stop, draw, used, 1, row, grade)
                used += pairs
                for k in range(p + pairs, p_stop):
                    a[i_left] = a[k]
                    i_left += 1
                for k in range(q + pairs, q_stop):
                    r[j_left] = r[k]
                    j_left += 1
                p, q = p_stop, q_stop
        used += _pair(a, i, i_left, r, j, j_left, draw, used, 2, row, grade)
        i, j = i_stop, j_stop
