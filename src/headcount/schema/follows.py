"""What an attribute follows from: the person, the dwelling, or everyone who lives there.

A guarantee counts how many records change when one person comes, goes or changes. That is one
record for an attribute of the person. It is every housemate's for an attribute that follows from
the household: with one person more, "3 people" becomes "4 people" for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

from headcount.errors import InputError

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
