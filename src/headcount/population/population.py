"""A population: who lives where, encoded against a schema and a geography."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.counted import CountsOf
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.population.dwellings import Households, people_kept
from headcount.population.quarters import Quarters
from headcount.population.reading import ReadSummary
from headcount.population.record_keys import RecordKeys
from headcount.schema import Schema

MOST_LEVELS = 10
"""Levels of an attribute that a notebook shows."""

MOST_PEOPLE = 1 << 62
"""So that sums of counts, with their noise, stay within 64 bits."""


@dataclass(frozen=True, eq=False, repr=False)
class Population:
    """Entries of (leaf unit, cell, how many people); ``count`` is None for one row per person.

    The schema's cells and the geography's units are the *public domain*: everything that could
    be published about, whether anyone is there or not. ``read_off`` names the parts of it that
    were read off the confidential data instead of being given; they are published without noise
    and every guarantee lists them. ``quarters`` are the living quarters, and ``households`` tells
    who lives with whom, where these are known; with households, row i is their person i.
    ``reading`` is what was read from files, for ``headcount check``.
    ``one_person`` says for the guarantee what one person is in a file that was read. ``weight`` is
    how many people each stands for: 1 but in a sample. ``of_dwellings`` says of people made again
    from counts that it was once known who lives with whom. ``counted`` says what rows are:
    people, or housing units. ``plugin`` names the part of another distribution that read or
    generated the people, for the guarantee. ``record_keys`` is what the
    words of persons are made from, for methods that change cells by their people: one for each row.
    """

    name: str
    schema: Schema
    geography: Geography
    unit: Ints32
    cell: Ints32
    count: Ints | None = None
    public: bool = False
    read_off: tuple[str, ...] = ()
    quarters: Quarters | None = None
    households: Households | None = None
    reading: ReadSummary = field(default_factory=ReadSummary)
    one_person: str = ""
    weight: Fraction = Fraction(1)
    of_dwellings: bool = False
    counted: CountsOf = CountsOf.PEOPLE
    plugin: str = ""
    record_keys: RecordKeys | None = None

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
            sentences=[f"Read from the data, and published: {one}." for one in self.read_off],
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
    kept = people_kept(households, largest=largest)
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
