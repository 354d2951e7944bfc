"""People in dwellings: who lives with whom, and where; what household swapping works on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Codes, Flags, Ints, Ints32
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.geography.areas import Areas
from headcount.population.reading import ReadSummary
from headcount.population.record_keys import RecordKeys
from headcount.schema import Attribute, Schema

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


def people_kept(households: Households, *, largest: int) -> Flags:
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
