"""The schema: attributes, the cells they span, and the cells that cannot hold anyone.

An attribute is what is known of a person, as ordered, named levels; a recode groups levels into
coarser ones. What an attribute *follows* from (the person, the dwelling, or everyone who lives
there) says how many records change when one person comes, goes or changes. That is one record for
an attribute of the person, and every housemate's for one that follows from the household: with one
person more, "3 people" becomes "4 people" for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints
from headcount.errors import InputError, did_you_mean, one_of
from headcount.fields import ReadValue
from headcount.schema.roles import ANYBODY, NO_ROLES, Attacker, Roles

Steps = tuple[tuple[int, int], ...]
"""Levels by household size, ((size, level), ...): that level from that size on, until the next."""

ALONE: Steps = ((1, 0),)
"""One level whatever the size: housemates stay as they are."""


class Follows(StrEnum):
    """Whose doing an attribute's level is."""

    PERSON = "person"
    """The person's own: nobody else's record changes with it."""

    DWELLING = "dwelling"
    """The dwelling's, whoever lives there: tenure, rooms."""

    SIZE = "size"
    """The number of people in the household."""

    MEMBERS = "members"
    """Who they are: children present, income of the household, its type."""

    UNSTATED = "unstated"
    """Nobody has said. Any mechanism that states a loss for a person refuses it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


def steps_of(levels: Sequence[str], *, name: str) -> Steps:
    """The sizes at which levels begin: the number that each label begins with.

    "1", "2", "3 to 4", "5+" begin at 1, 2, 3 and 5. A label without a number, or with 0, is for
    people outside households ("none").
    """
    begins = [re.match(r"\s*(\d{1,9})(?!\d)", level) for level in levels]
    numbered = [(int(found[1]), place) for place, found in enumerate(begins) if found]
    steps = sorted(step for step in numbered if step[0] > 0)
    sizes = [size for size, _ in steps]
    if not sizes or sizes[0] != 1 or any(a == b for a, b in pairwise(sizes)):
        raise InputError(
            "schema",
            place=f"attribute {name!r}, which follows the size of the household",
            found=f"levels {list(levels)[:8]}",
            expected='levels that begin with numbers of people, from 1 on: "1", "2", "3-4", "5+" '
            '(and "none" for people outside households)',
        )
    return merged(steps)


def merged(steps: Sequence[tuple[int, int]]) -> Steps:
    """The same without steps that change nothing."""
    kept = list(steps[:1])
    for size, level in steps[1:]:
        if level != kept[-1][1]:
            kept.append((size, level))
    return tuple(kept)


def joined(several: Sequence[Steps]) -> Steps:
    """The steps of several attributes together: a level for each combination of theirs."""
    sizes = sorted({size for steps in several for size, _ in steps} | {1})
    known: dict[tuple[int, ...], int] = {}
    both = []
    for size in sizes:
        levels = tuple(level_at(steps, size) for steps in several)
        both.append((size, known.setdefault(levels, len(known))))
    return merged(both)


def level_at(steps: Steps, size: int) -> int:
    """The level of a household of that size."""
    return next(level for start, level in reversed(steps) if start <= size)


_HOME = r"(hh|household|fam|family|hu|housing_unit|dwelling|home)"
_PEOPLE = r"(persons?|people|members?|occupants?|residents?|housemates?)"
_SIZE_NAMES = re.compile(
    rf"size|{_HOME}_?(size|n|num|number|count|{_PEOPLE})(_(cat|group|class|code|recode|grp))?"
    rf"|(size|number|{_PEOPLE})_?(of|in|per)_?(the_)?{_HOME}s?"
    rf"|(n|num|number|no)_?(of_)?({_HOME}_?)?{_PEOPLE}(_?(in|per)_?(the_)?{_HOME})?"
    rf"|numprec|famsize|npf?|hhsz|{_PEOPLE}_per_room"
)


def looks_like_size(*names: str) -> bool:
    """Whether one of the names is one that files give to the number of people in a household."""
    plain = (re.sub(r"[\s.\-]+", "_", name.strip().lower()) for name in names)
    return any(_SIZE_NAMES.fullmatch(name) for name in plain)


@dataclass(frozen=True)
class Attribute:
    """One thing known of each person, with its possible values in a fixed order.

    ``follows`` says whose doing it is, and ``steps`` how it goes by household size, where it
    does. Neither is part of what the attribute is: two with the same levels are equal.
    """

    name: str
    levels: tuple[str, ...]
    follows: Follows = field(default=Follows.PERSON, repr=False, compare=False)
    steps: Steps = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.levels))
        place = f"attribute {self.name!r}"
        if not self.name:
            raise InputError("schema", place="attribute", found="no name", expected="a name")
        if not self.levels:
            raise InputError("schema", place=place, found="no levels", expected="at least one")
        if (repeated := first_repeated(self.levels)) is not None:
            raise InputError(
                "schema", place=place, found=f"level {repeated!r} twice", expected="distinct levels"
            )
        object.__setattr__(self, "follows", Follows(self.follows))
        if self.follows is not Follows.SIZE:
            object.__setattr__(self, "steps", ALONE)
        elif not self.steps:
            object.__setattr__(self, "steps", steps_of(self.levels, name=self.name))

    @property
    def size(self) -> int:
        """Number of levels."""
        return len(self.levels)

    def index(self, level: str) -> int:
        """Position of a level; an unknown one is an error that lists the known ones."""
        try:
            return self.levels.index(level)
        except ValueError:
            raise InputError(
                "schema",
                place=f"attribute {self.name!r}",
                found=f"level {level!r}",
                expected=one_of(self.levels),
            ) from None


def is_pattern(name: str) -> bool:
    """Whether polars takes a name for a pattern that stands for other columns."""
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that stands twice, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


@dataclass(frozen=True)
class Recode:
    """A coarser view of one attribute: every level belongs to exactly one group."""

    name: str
    source: Attribute
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    def __post_init__(self) -> None:
        place = f"recode {self.name!r} of {self.source.name!r}"
        Attribute(self.name, tuple(label for label, _ in self.groups))  # names stand the same test
        used = [level for _, levels in self.groups for level in levels]
        for level in used:
            self.source.index(level)
        if (repeated := first_repeated(used)) is not None:
            raise InputError(
                "schema",
                place=place,
                found=f"level {repeated!r} in two groups",
                expected="each level in one group",
            )
        if missing := [level for level in self.source.levels if level not in used]:
            raise InputError(
                "schema",
                place=place,
                found=f"level {missing[0]!r} in no group",
                expected="each level in one group",
            )

    @classmethod
    def of(cls, source: Attribute, name: str, groups: Mapping[str, Sequence[str]]) -> Recode:
        """Build from a mapping of group label to the levels it gathers."""
        return cls(name, source, tuple((label, tuple(levels)) for label, levels in groups.items()))

    @property
    def attribute(self) -> Attribute:
        """The coarser attribute, which follows what its source follows."""
        group = self.group_of_level
        return Attribute(
            self.name,
            tuple(label for label, _ in self.groups),
            self.source.follows,
            merged([(size, group[level]) for size, level in self.source.steps]),
        )

    def on(self, source: Attribute) -> Recode:
        """The same recode of an attribute that has the source's levels and may follow other things.

        Attributes are equal whatever they follow; what counts is the one that the data have.
        """
        return replace(self, source=source) if source == self.source else self

    @property
    def group_of_level(self) -> tuple[int, ...]:
        """For each level of the source, the position of its group."""
        group = {level: i for i, (_, levels) in enumerate(self.groups) for level in levels}
        return tuple(group[level] for level in self.source.levels)


Combination = tuple[tuple[str, tuple[str, ...]], ...]
"""Levels of some attributes that never occur together: ((attribute, levels), ...)."""

MOST_CELLS = 2**24
"""Every cell has a name: that many take some gigabytes, and the largest of a census are a tenth."""


@dataclass(frozen=True)
class Schema:
    """Attributes in order; a cell is one combination of their levels, numbered row by row.

    A schema without attributes has one cell, the total. Structural zeros are combinations that
    are impossible by definition, known to everyone: they get no noise and hold nobody. What
    attributes mean (``roles``), and what of them is sensitive, is for attacks and shipped tables.
    """

    attributes: tuple[Attribute, ...] = ()
    structural_zeros: tuple[Combination, ...] = ()
    roles: Roles = field(default=NO_ROLES, compare=False, repr=False)
    attacker: Attacker = field(default=ANYBODY, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        if (repeated := first_repeated(self.names)) is not None:
            raise InputError(
                "schema", found=f"attribute {repeated!r} twice", expected="distinct attributes"
            )
        if self.size > MOST_CELLS:
            raise InputError(
                "schema", found=f"{self.size:,} cells", expected=f"at most {MOST_CELLS:,}"
            )
        for combination in self.structural_zeros:
            for name, levels in combination:
                for level in levels:
                    self.attribute(name).index(level)
        if not self.possible.any():
            raise InputError(
                "schema", found="every cell a structural zero", expected="at least one possible"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Attribute names in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels of each attribute."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def size(self) -> int:
        """Number of cells, structural zeros included."""
        return prod(self.shape)

    def attribute(self, name: str) -> Attribute:
        """The attribute of that name."""
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise InputError("schema", found=f"attribute {name!r}", expected=one_of(self.names))

    def cell(self, **levels: str) -> int:
        """Number of the cell with these levels, every attribute named."""
        if set(levels) != set(self.names):
            raise InputError(
                "schema",
                place="cell",
                found=f"attributes {sorted(levels)}",
                expected=f"all of {sorted(self.names)}",
            )
        number = 0
        for attribute in self.attributes:
            number = number * attribute.size + attribute.index(levels[attribute.name])
        return number

    @cached_property
    def cell_names(self) -> tuple[str, ...]:
        """A column name for each cell: its levels joined by '_', or 'total'."""
        if not self.attributes:
            return ("total",)
        names = tuple("_".join(levels) for levels in product(*(a.levels for a in self.attributes)))
        if (repeated := first_repeated(names)) is not None:
            raise InputError(
                "schema", found=f"two cells named {repeated!r}", expected="distinct cell names"
            )
        return names

    @cached_property
    def possible(self) -> Flags:
        """For each cell, whether it can hold anyone."""
        mask = np.ones(self.shape, dtype=bool)
        for combination in self.structural_zeros:
            chosen = dict(combination)
            index = [
                [a.index(level) for level in chosen[a.name]] if a.name in chosen else range(a.size)
                for a in self.attributes
            ]
            mask[np.ix_(*index)] = False
        flat = mask.reshape(-1)
        flat.setflags(write=False)
        return flat


def impossible(combination: Mapping[str, Sequence[str]]) -> Combination:
    """A structural zero from a mapping of attribute to levels."""
    return tuple((name, tuple(levels)) for name, levels in combination.items())


LARGEST_CODE = 1 << 62
"""Combinations are numbered below this; numbers are made dense again before they would pass it."""


def combine(columns: Iterable[NDArray[np.integer]], *, rows: int) -> Ints:
    """A number for each row, the same for exactly those rows that agree on all columns.

    Mixed radix, so that no row is compared with another; fifteen attributes with thousands of
    millions of combinations still fit. Codes are 0 or more.
    """
    code, size = np.zeros(rows, dtype=np.int64), 1
    for column in columns:
        levels = int(column.max(initial=0)) + 1
        if size * levels > LARGEST_CODE:
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
            size = int(code.max(initial=0)) + 1
        code = code * levels + column
        size *= levels
    return code


NAMED = {
    "five-year": tuple(range(0, 90, 5)),
    "census-23": (
        *(0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
    ),
    "census-38": (
        *range(22),
        *(22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
    ),
}
"""Where the bins of some lists begin: those by sex of the census of 2010 are "census-23" (P12), and
"census-38" where years up to 21 are single."""

MOST_YEARS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class BinsField(ReadValue):
    """Where bins begin, in rising order, or the name of a list of bins."""

    def read(self, value: object) -> tuple[int, ...] | str | None:
        """The same, or a ValueError that says what was expected."""
        if value is None:
            return None
        if isinstance(value, str):
            if value not in NAMED:
                raise ValueError(f"{did_you_mean(value, NAMED)}, or where bins begin: [0, 18, 65]")
            return value
        starts = tuple(value) if isinstance(value, list | tuple) else ()
        whole = all(isinstance(one, int) and not isinstance(one, bool) for one in starts)
        if not starts or not whole or list(starts) != sorted(set(starts)):
            raise ValueError("where bins begin, in rising order: [0, 18, 65]")
        if not 0 <= starts[0] <= starts[-1] <= MOST_YEARS:
            raise ValueError(f"bins that begin at 0 to {MOST_YEARS:,}")
        return starts

    def json(self) -> dict[str, Any]:
        """The name of a list, or where bins begin."""
        starts = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
        return {"anyOf": [{"enum": list(NAMED)}, starts]}


def starts_of(bins: Sequence[int] | str) -> tuple[int, ...]:
    """Where bins begin."""
    return NAMED[bins] if isinstance(bins, str) else tuple(bins)


def bin_labels(bins: Sequence[int] | str) -> tuple[str, ...]:
    """The levels that bins make: single years, spans, and the last without an end."""
    starts = starts_of(bins)
    spans = [
        str(first) if then == first + 1 else f"{first}-{then - 1}"
        for first, then in pairwise(starts)
    ]
    return (*spans, f"{starts[-1]}+")


def bin_of(years: int, bins: Sequence[int] | str) -> str | None:
    """The level of a number of years; None below the first bin."""
    place = int(np.searchsorted(starts_of(bins), years, side="right")) - 1
    return bin_labels(bins)[place] if place >= 0 else None
