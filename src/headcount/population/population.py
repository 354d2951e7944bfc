"""A population: who lives where, in which dwellings, beside which living quarters.

People are encoded against a schema and a geography. ``Households`` tells who lives with whom, which
household swapping works on; ``Quarters`` counts housing units and group quarters by type;
``RecordKeys`` is what the secret word of each person is made from; ``ReadSummary`` what a reader
met in its files, for the curator's eyes, never for a log or a release.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Codes, Flags, Ints, Ints32
from headcount.domain import Domain
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.geography.spine import Areas
from headcount.schema import Attribute, Schema
from headcount.schema.roles import ANYBODY, NO_ROLES, Attacker, Roles, refuse_roles


@dataclass(frozen=True, kw_only=True)
class ReadSummary:
    """How much was read.

    where
        rows        rows of each file or table that were read
        smaller     levels below the lowest that is published: units, and those with people
        left_out    rows that were left out, by reason
        remarks     what else was done to them
    """

    rows: tuple[tuple[str, int], ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()
    remarks: tuple[str, ...] = ()
    smaller: tuple[tuple[str, int, int], ...] = ()


def is_it_right(people: int, places: int, counted: str = "people") -> str:
    """The question that ends a reading, for whoever knows how many there are."""
    return f"{people:,} {counted} in {places:,} place{'' if places == 1 else 's'}. Is that right?"


@dataclass(frozen=True, eq=False, repr=False)
class RecordKeys:
    """64 bits a person, in the order of the records: the curator's side, never shown.

    where
        values     digests of ids, from which a secret makes words; or the words themselves
        possible   how many words there are where an office has given them: 256 or 4,096, of which
                   the key r is the word r 2^56 or r 2^52, so that words and keys add up alike;
                   0 for digests of ids
    """

    values: NDArray[np.uint64]
    possible: int = 0

    def of(self, rows: Any) -> RecordKeys:
        """Those of some records."""
        return RecordKeys(self.values[rows], self.possible)


@dataclass(frozen=True, eq=False, repr=False)
class Quarters:
    """How many living quarters of each type stand in each leaf unit.

    where
        attribute   the attribute of the schema whose levels are the types ("hhgq")
        occupied    leaf units x levels of that attribute: occupied housing units and facilities
        vacant      vacant housing units per leaf unit

    They are published exactly where a mechanism is told so, and bound how many people of each type
    a place can hold. Numbers that fit are held in 32 bits: of 8 million blocks and 8 types the
    others are a quarter of a GiB more, and each copy of them again.
    """

    geography: Geography
    attribute: str
    occupied: Ints
    vacant: Ints

    def __post_init__(self) -> None:
        leaves = self.geography.size(self.geography.leaf)
        if self.occupied.shape[:-1] != (leaves,) or self.vacant.shape != (leaves,):
            raise ValueError("living quarters need one row for each leaf unit")
        if (self.occupied < 0).any() or (self.vacant < 0).any():
            raise ValueError("living quarters are counted from 0")
        largest = max(int(one.max(initial=0)) for one in (self.occupied, self.vacant))
        if largest <= np.iinfo(np.int32).max // 2:  # so that occupied and vacant homes fit together
            for name in ("occupied", "vacant"):
                numbers = getattr(self, name).astype(np.int32, copy=False)
                object.__setattr__(self, name, numbers)

    def __repr__(self) -> str:
        return f"<Quarters by {self.attribute!r}: {self.occupied.shape[1]} types>"


HOUSEHOLD, VACANT = 0, 1
"""The first two kinds of dwelling; every later kind is a type of group quarters."""

ADULT_AGE = 18


@dataclass(frozen=True, eq=False, repr=False)
class Households:
    """Dwellings in leaf units and persons in dwellings, each with coded attributes.

    where
        person_attributes     what is known of a person: age, sex, race, Hispanic, ...
        dwelling_attributes   what is known of a dwelling: tenure, ...
        kinds                 names of the kinds of dwelling: household, vacant, then facilities
        block                 leaf unit of each dwelling
        kind                  position of each dwelling's kind in ``kinds``
        first                 persons first[d] to first[d + 1] live in dwelling d
        persons, dwellings    level numbers by attribute name
        areas                 off-spine areas over the same leaf units
        left_out              whom the settings of its reader leave out, for the guarantee
        record_keys           what the words of persons are made from, in their order

    The truth: never written to a release. A swapped copy is of this type too, because a swap only
    changes where dwellings stand; what leaves the curator's side are counts and records made of it.
    """

    name: str
    geography: Geography
    person_attributes: tuple[Attribute, ...]
    dwelling_attributes: tuple[Attribute, ...]
    kinds: tuple[str, ...]
    block: Ints32
    kind: NDArray[np.int8]
    first: Ints
    persons: Codes
    dwellings: Codes = field(default_factory=dict)
    areas: tuple[Areas, ...] = ()
    public: bool = False
    read_off: tuple[str, ...] = ()
    reading: ReadSummary = field(default_factory=ReadSummary)
    left_out: str = ""
    record_keys: RecordKeys | None = None

    def __post_init__(self) -> None:
        rows = len(self.block)
        if len(self.kind) != rows or len(self.first) != rows + 1:
            raise InputError(
                self.name,
                place="block, kind and first",
                found="lengths that do not fit",  # which they are would tell how many there are
                expected="n, n and n + 1",
            )
        people = int(self.first[-1])
        if self.first[0] != 0 or (np.diff(self.first) < 0).any():
            raise InputError(
                self.name, place="first", found="a decrease", expected="numbers that rise from 0"
            )
        leaves = self.geography.size(self.geography.leaf)
        _check_codes(self.name, "block", self.block, rows, leaves)
        _check_codes(self.name, "kind", self.kind, rows, len(self.kinds))
        for attributes, codes, length in (
            (self.person_attributes, self.persons, people),
            (self.dwelling_attributes, self.dwellings, rows),
        ):
            for attribute in attributes:
                if attribute.name not in codes:
                    raise InputError(
                        self.name, found=f"no {attribute.name!r}", expected="a code for each row"
                    )
                _check_codes(
                    self.name, attribute.name, codes[attribute.name], length, attribute.size
                )
        if self.record_keys is not None and len(self.record_keys.values) != people:
            raise InputError(
                self.name,
                place="record keys",
                found="another number of them",
                expected="one for each person",
            )
        if (self.size[self.kind == VACANT] > 0).any():
            raise InputError(self.name, found="people in a vacant dwelling", expected="nobody")
        if (self.size[self.kind == HOUSEHOLD] == 0).any():
            raise InputError(self.name, found="an empty household", expected="a vacant dwelling")

    def __repr__(self) -> str:
        # Says nothing that depends on how many people there are.
        names = ", ".join(attribute.name for attribute in self.person_attributes)
        return f"<Households {self.name!r}: {names}, {self.geography!r}>"

    @cached_property
    def size(self) -> Ints32:
        """People in each dwelling."""
        return np.diff(self.first).astype(np.int32)

    @property
    def is_household(self) -> Flags:
        """Whether each dwelling is an occupied household: neither vacant nor group quarters."""
        return np.equal(self.kind, HOUSEHOLD)

    @cached_property
    def dwelling(self) -> Ints32:
        """For each person the dwelling."""
        return np.repeat(np.arange(len(self.block), dtype=np.int32), self.size)

    def attribute(self, name: str) -> Attribute:
        """The attribute of that name, of persons or of dwellings."""
        for attribute in (*self.person_attributes, *self.dwelling_attributes):
            if attribute.name == name:
                return attribute
        known = [a.name for a in (*self.person_attributes, *self.dwelling_attributes)]
        raise InputError(self.name, found=f"attribute {name!r}", expected=f"one of {known}")

    def of_person(self, name: str) -> NDArray[np.integer]:
        """Level numbers of an attribute for each person; a dwelling's is that of all in it."""
        if name in self.persons:
            return self.persons[name]
        self.attribute(name)
        return self.dwellings[name][self.dwelling]

    def cells(self, names: Sequence[str]) -> tuple[Schema, Ints32]:
        """The schema of some attributes, and each person's cell in it."""
        schema = Schema(tuple(self.attribute(name) for name in names))
        cell = np.zeros(int(self.first[-1]), dtype=np.int64)
        for attribute in schema.attributes:
            cell = cell * attribute.size + self.of_person(attribute.name)
        return schema, cell.astype(np.int32)


def _people_kept(households: Households, *, largest: int) -> Flags:
    """For each person, whether they are among the first ``largest`` of their household.

    The rule looks at one household and at nothing else. Everyone in group quarters is kept.
    """
    place = np.arange(int(households.first[-1])) - households.first[households.dwelling]
    return np.asarray((place < largest) | ~households.is_household[households.dwelling])


def _check_codes(
    source: str, place: str, codes: NDArray[np.integer], length: int, size: int
) -> None:
    if len(codes) != length:
        raise InputError(
            source, place=place, found="another number of codes", expected="one for each row"
        )
    if length and not (codes.min() >= 0 and codes.max() < size):
        raise InputError(
            source, place=place, found="a code out of range", expected=f"0 to {size - 1}"
        )


def adults(households: Households) -> Ints:
    """People of 18 or more in each dwelling, by the years with which levels of age begin."""
    ages = next((a for a in households.person_attributes if a.name == "age"), None)
    if ages is None:
        raise InputError(
            households.name,
            place="adults",
            found="no attribute 'age'",
            expected="ages of persons, or a key without them",
        )
    starts = [re.match(r"\d+", level) for level in ages.levels]
    if not all(starts):
        raise InputError(
            households.name,
            place="attribute 'age'",
            found="a level that does not begin with a number of years",
            expected="years, such as '17' or '18-64', to count adults",
        )
    adult = np.array([int(start[0]) >= ADULT_AGE for start in starts if start])
    grown = adult[households.persons["age"]]
    return np.bincount(households.dwelling[grown], minlength=len(households.block))


MOST_LEVELS = 10
"""Levels of an attribute that a notebook shows."""

MOST_PEOPLE = 1 << 62
"""So that sums of counts, with their noise, stay within 64 bits."""


@dataclass(frozen=True, eq=False, repr=False)
class Population:
    """Entries of (leaf unit, cell, how many people); ``count`` is None for one row per person.

    ``domain`` is what is public, whether anyone is there or not. ``quarters`` are the living
    quarters, and ``households`` tells who lives with whom, where these are known; with households,
    row i is their person i. ``reading`` is what was read from files, for ``headcount check``.
    ``weight`` is how many people each stands for: 1 but in a sample. ``of_dwellings`` says of
    people made again from counts that it was once known who lives with whom. ``record_keys`` is
    what the words of persons are made from, for methods that change cells by their people: one for
    each row.
    """

    name: str
    domain: Domain
    unit: Ints32
    cell: Ints32
    count: Ints | None = None
    public: bool = False
    quarters: Quarters | None = None
    households: Households | None = None
    reading: ReadSummary = field(default_factory=ReadSummary)
    weight: Fraction = Fraction(1)
    of_dwellings: bool = False
    record_keys: RecordKeys | None = None

    @property
    def schema(self) -> Schema:
        """The schema of the domain."""
        return self.domain.schema

    def meaning(
        self, roles: Roles, attacker: Attacker = ANYBODY, *, source: str = "population"
    ) -> Population:
        """The same people, with what their attributes mean and what of them is sensitive."""
        if (roles, attacker) == (NO_ROLES, ANYBODY):
            return self
        levels = {one.name: one.levels for one in self.schema.attributes}
        refuse_roles(levels, roles, attacker, source=source)
        schema = replace(self.schema, roles=roles, attacker=attacker)
        return replace(self, domain=replace(self.domain, schema=schema))

    @property
    def geography(self) -> Geography:
        """The geography of the domain."""
        return self.domain.geography

    def down_to(self, lowest: str) -> Population:
        """The same people by larger places: those below a level are forgotten. "": none are.

        Areas over the smallest places go with these.
        """
        tree, domain = self.geography, self.domain.down_to(lowest)
        if domain.leaf == tree.leaf:
            return self
        above, upper = tree.ancestors(lowest), domain.geography
        quarters, households = self.quarters, self.households
        if quarters is not None:
            first = np.searchsorted(above, np.arange(upper.size(lowest)))
            quarters = replace(
                quarters,
                geography=upper,
                occupied=np.add.reduceat(quarters.occupied.astype(np.int64), first, axis=0),
                vacant=np.add.reduceat(quarters.vacant.astype(np.int64), first),
            )
        if households is not None:
            households = replace(
                households, geography=upper, block=above[households.block], areas=()
            )
        here = self.unit if self.count is None else self.unit[self.count > 0]
        smaller = tuple(
            (level, tree.size(level), len(np.unique(tree.ancestors(level)[here])))
            for level in tree.levels[len(upper.levels) :]
        )
        return replace(
            self,
            domain=domain,
            unit=above[self.unit],
            quarters=quarters,
            households=households,
            reading=replace(self.reading, smaller=smaller),
        )

    def __post_init__(self) -> None:
        schema = self.schema
        lengths = {len(self.unit), len(self.cell)}
        if self.record_keys is not None:
            self._refuse_several()
            lengths.add(len(self.record_keys.values))
        if self.count is not None:
            lengths.add(len(self.count))
        if len(lengths) != 1:
            raise InputError(
                self.name,
                place="unit, cell and count",
                found=f"lengths {sorted(lengths)}",
                expected="one length",
            )
        # Readers have said which row; this holds for populations made by hand. A person outside
        # the public domain, or in a structural zero, would get no noise.
        leaves = self.geography.size(self.geography.leaf)
        for place, codes, size in (("unit", self.unit, leaves), ("cell", self.cell, schema.size)):
            if len(codes) and not (codes.min() >= 0 and codes.max() < size):
                raise InputError(
                    self.name,
                    place=place,
                    found="a number out of range",
                    expected=f"0 to {size - 1}",
                )
        if not schema.possible[self.cell].all():
            raise InputError(
                self.name, found="someone in a structural zero", expected="nobody there"
            )
        if self.count is not None and len(self.count) and self.count.min() < 0:
            raise InputError(
                self.name, place="count", found="a negative count", expected="0 or more"
            )
        if self.count is not None and self.count.sum(dtype=np.float64) > MOST_PEOPLE:
            raise InputError(
                self.name, place="count", found="too many people", expected="at most 2^62"
            )
        if self.households is not None:
            self._check_households(self.households)

    def _refuse_several(self) -> None:
        if self.count is not None:
            raise InputError(
                self.name,
                place="record keys",
                found="entries that stand for several people",
                expected="one row for each person",
            )

    def _check_households(self, households: Households) -> None:
        """Rows must be the persons of the households, in their order: swaps move these rows."""
        where = households.block[households.dwelling]
        if self.count is not None or not np.array_equal(self.unit, where):
            raise InputError(
                self.name,
                place="households",
                found="rows that do not match the persons of the households",
                expected="one row for each person of the households, in the same order and unit",
            )

    def __repr__(self) -> str:
        # Says nothing that depends on how many people there are.
        return f"<Population {self.name!r}: {self.schema.size:,} cells, {self.geography!r}>"

    def _repr_html_(self) -> str:
        """The public domain. How many people there are is shown of public data alone."""
        from headcount.report.notebook import shown

        schema, tree = self.schema, self.geography
        facts = {
            "units": ", ".join(f"{tree.size(level):,} of {level!r}" for level in tree.levels),
            "cells": f"{int(schema.possible.sum()):,}",
        }
        for one in schema.attributes:
            some = ", ".join(one.levels[:MOST_LEVELS])
            more = f" and {one.size - MOST_LEVELS:,} more" if one.size > MOST_LEVELS else ""
            facts[one.name] = f"{one.size:,} levels: {some}{more}"
        if self.public:
            people = len(self.unit) if self.count is None else int(self.count.sum())
            facts["people"] = f"{people:,} (the data are public)"
        note = "Numbers of people are not shown: the data are not declared public."
        return shown(
            f"Population {self.name}",
            facts=facts,
            sentences=[
                f"Read from the data, and published: {one}." for one in self.domain.read_off
            ],
            note="" if self.public else note,
        )


def cut_households(population: Population, *, largest: int) -> Population:
    """The same with no more than ``largest`` people in any household: the first in the file.

    Where the unit of privacy is a household, this bounds what one of them can change. What is
    known of the dwelling stays, its number of people included.
    """
    households = population.households
    if households is None:
        raise InputError(
            population.name, place="households", found="none", expected="people in dwellings"
        )
    kept = _people_kept(households, largest=largest)
    if kept.all():
        return population
    living = np.bincount(households.dwelling[kept], minlength=len(households.block))
    persons = {name: codes[kept] for name, codes in households.persons.items()}
    first = np.concatenate([[0], np.cumsum(living)])
    keys = None if population.record_keys is None else population.record_keys.of(kept)
    return replace(
        population,
        unit=population.unit[kept],
        cell=population.cell[kept],
        households=replace(households, first=first, persons=persons, record_keys=keys),
        record_keys=keys,
    )
