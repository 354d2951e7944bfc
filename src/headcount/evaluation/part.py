"""A sample of a release's leaf units for attacks, and the people who live there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np

from headcount.arrays import Ints
from headcount.attacks import People
from headcount.attacks.knowledge import published_geography
from headcount.attacks.records import Features, Records, records_from_rows
from headcount.domain import Domain
from headcount.errors import InputError
from headcount.evaluation._base import NotFeasible
from headcount.geography import Geography
from headcount.processes import memory_limit
from headcount.release import CountsRelease, Release, TablesRelease
from headcount.schema import Schema
from headcount.tabulate import Counts

BYTES_EACH = 64
"""Of one person: unit and cell, and copies of them."""
MOST_PEOPLE = 2_000_000
"""People whom an evaluation gives to an attack; of more, those of some units drawn at random."""
PERFECT = "perfect"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TruePeople:
    """Everybody in truth who lives in some units: leaf unit and cell of each."""

    schema: Schema
    geography: Geography
    unit: Ints
    cell: Ints

    def __repr__(self) -> str:
        return f"<TruePeople: {self.geography!r}>"

    def __len__(self) -> int:
        return len(self.unit)

    @classmethod
    def of(cls, counts: Counts, geography: Geography) -> TruePeople:
        """People of true counts who live in the units of a geography, which may hold fewer."""
        from scipy.sparse import coo_array

        own = counts.geography
        codes = own.units[own.depth(geography.leaf)][own.ancestors(geography.leaf)]
        numbers = geography.unit_numbers
        place = np.array([numbers.get(str(code), -1) for code in codes], dtype=np.int64)
        table = coo_array(counts.matrix)
        unit, cell = table.coords
        inside = place[unit] >= 0
        times = table.data[inside]
        if float(times.sum(dtype=np.float64)) * BYTES_EACH > memory_limit():
            raise NotFeasible("people one by one take more memory than there is")
        return cls(
            schema=counts.schema,
            geography=geography,
            unit=np.repeat(place[unit[inside]], times),
            cell=np.repeat(cell[inside].astype(np.int64), times),
        )

    def known(self, attributes: tuple[str, ...]) -> People:
        """The file of an attacker who knows these attributes of everybody, and where they live."""
        return People(
            name=PERFECT,
            unit=self.unit,
            codes={name: self.codes(name) for name in attributes},
        )

    def codes(self, attribute: str) -> Ints:
        """The level number of one attribute, for each person."""
        axis = self.schema.names.index(attribute)
        return np.asarray(np.unravel_index(self.cell, self.schema.shape)[axis], dtype=np.int64)

    def counts(self) -> Counts:
        """The same people, counted."""
        from scipy.sparse import coo_array

        shape = (self.geography.size(self.geography.leaf), self.schema.size)
        ones = np.ones(len(self), dtype=np.int64)
        matrix = coo_array((ones, (self.unit, self.cell)), shape=shape).tocsr()
        return Counts(Domain(self.schema, self.geography), self.geography.leaf, matrix)

    def records(self) -> Records:
        """The same as records that an attacker compares."""
        return records_from_rows(self.unit, self.cell, Features.of(self.schema))


@dataclass(frozen=True, eq=False)
class Part:
    """A release of some leaf units, and how many of all these are."""

    release: Release
    units: int
    of: int

    @property
    def words(self) -> str:
        """What was left out."""
        if self.units == self.of:
            return "Every unit was attacked."
        return (
            f"To end soon, {self.units:,} of {self.of:,} units were attacked, drawn at random; the "
            "others were left out."
        )


def whole_of(release: Release, *, leaves: bool = False) -> Part:
    """Every unit, for an attack that goes by sums over units.

    ``leaves`` keeps the leaf units also where the release publishes none of them.
    """
    whole = release if leaves else _published_part(release)
    every = whole.geography.size(whole.geography.leaf)
    return Part(whole, every, every)


def part_of(release: Release, counts: Counts, *, most: int, seed: int = 0) -> Part:
    """At most so many leaf units, and so many people, as an attack may be given."""
    whole = _published_part(release)
    geography = whole.geography
    every = geography.size(geography.leaf)
    order = np.random.default_rng([seed, 11]).permutation(every)
    people = counts.at(geography.leaf).totals()[order]
    enough = int(np.searchsorted(np.cumsum(people), MOST_PEOPLE, side="right"))
    units = min(most or every, max(enough, 1), every)
    if units == every:
        return Part(whole, every, every)
    return Part(_only(whole, np.sort(order[:units])), units, every)


def some_of(geography: Geography, leaves: Ints) -> tuple[Geography, dict[str, Ints]]:
    """The geography of some leaf units, and which units of each level it keeps.

    Its spine, if there is one, keeps the same leaves.
    """
    kept = {
        level: np.unique(geography.ancestors(level)[leaves]).astype(np.int64)
        for level in geography.levels
    }
    parents = [np.empty(0, dtype=np.int32)]
    for depth in range(1, len(geography.levels)):
        own, above = kept[geography.levels[depth]], kept[geography.levels[depth - 1]]
        parents.append(np.searchsorted(above, geography.parents[depth][own]).astype(np.int32))
    units = tuple(geography.units[d][kept[level]] for d, level in enumerate(geography.levels))
    spine = None
    if geography.spine is not None:
        spine, _ = some_of(geography.spine, np.flatnonzero(np.isin(geography.along_spine, leaves)))
    return Geography(geography.levels, units, tuple(parents), spine), kept


@singledispatch
def _published_part(release: Release) -> Release:
    """The same release on the geography down to the lowest level of which anything is published."""
    return release


@_published_part.register
def _(release: TablesRelease) -> Release:
    return replace(release, domain=replace(release.domain, geography=published_geography(release)))


@singledispatch
def _only(release: Release, leaves: Ints) -> Release:
    """The same release with nothing but some leaf units and the units above them."""
    raise InputError("release", found=type(release).__name__, expected="counts or tables")


@_only.register
def _(release: CountsRelease, leaves: Ints) -> Release:
    geography, kept = some_of(release.geography, leaves)
    tables = {level: table[kept[level]] for level, table in release.tables.items()}
    missing = {level: flags[kept[level]] for level, flags in release.missing.items()}
    domain = replace(release.domain, geography=geography)
    return replace(release, domain=domain, tables=tables, missing=missing)


@_only.register
def _(release: TablesRelease, leaves: Ints) -> Release:
    geography, kept = some_of(release.geography, leaves)
    published = tuple(one.of_units(kept[one.level]) for one in release.published)
    domain = replace(release.domain, geography=geography)
    return replace(release, domain=domain, published=published)
