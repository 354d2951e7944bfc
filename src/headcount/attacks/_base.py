"""What an attack is: a release and an adversary's knowledge of people in, claims about people out.

An attack never sees the truth: it holds a release and what the adversary knows of people, and what
it puts forward is scored elsewhere (``headcount.evaluation.attacked``). An attack of one's own
returns one of the claims below, and is scored like ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from headcount.arrays import Flags, Ints
from headcount.attacks.changed_cells import adding_tables
from headcount.engines import Engine
from headcount.errors import ConfigError, InputError, one_of
from headcount.geography import Geography
from headcount.release import CountsRelease, Release, TablesRelease
from headcount.report.finding import SUPPORTED, Support
from headcount.schema import Schema

NOTHING = -1
"""In a claim about people: nothing is claimed of this one."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class People:
    """Named people as an adversary knows them, one row each.

    where
        name    of the adversary's file
        unit    the leaf unit of the release where each lives, -1 for one outside it
        codes   level numbers of the attributes that the adversary knows, by name
    """

    name: str
    unit: Ints
    codes: Mapping[str, Ints]

    def __post_init__(self) -> None:
        for attribute, column in self.codes.items():
            if len(column) != len(self.unit):
                raise InputError(
                    f"attacker {self.name!r}",
                    place=attribute,
                    found=f"{len(column)} rows",
                    expected=f"{len(self.unit)}, one for each person",
                )

    def __repr__(self) -> str:
        return f"<People {self.name!r}: {', '.join(self.codes)}>"

    def __len__(self) -> int:
        return len(self.unit)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Claims(ABC):
    """What an attack puts forward.

    where
        attack      name of the attack
        title       the question that it answers, in plain words
        schema      attributes of the release
        geography   its places, down to the finest that it publishes
        facts       what was tried and found, for a summary; nothing of it needs the truth
        words       how the attack works, and what it cannot do, in plain words
    """

    attack: str
    title: str
    schema: Schema
    geography: Geography
    facts: Mapping[str, Any] = field(default_factory=dict)
    words: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__} by {self.attack}>"

    def frames(self, ids: pl.Series) -> Mapping[str, pl.DataFrame]:
        """What was found as tables, by name of the file; ``ids`` are the names of the people."""
        return {}

    def notes(self) -> Mapping[str, str]:
        """What was found as plain text, by name of the file."""
        return {}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ClaimedRecords(Claims):
    """Records of people: "so many of this kind live here" (leaf units x cells, sparse)."""

    matrix: Any


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ClaimedPeople(Claims):
    """Something learnt about named people: "this one is so".

    where
        people   whom the adversary knows
        learnt   attributes that are claimed
        value    for each person the number of the combination of their levels, the last attribute
                 running fastest; -1 where nothing is claimed
    """

    people: People
    learnt: tuple[str, ...]
    value: Ints

    def __post_init__(self) -> None:
        sizes = [self.schema.attribute(name).size for name in self.learnt]
        most = int(np.prod(sizes))
        if len(self.value) != len(self.people):
            raise InputError(
                f"attack {self.attack!r}",
                found=f"{len(self.value)} claims",
                expected=f"{len(self.people)}, one for each person",
            )
        if len(self.value) and not NOTHING <= self.value.min() <= self.value.max() < most:
            raise InputError(
                f"attack {self.attack!r}",
                place="value",
                found="a number out of range",
                expected=f"-1 to {most - 1}",
            )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CountRanges:
    """What one adversary says of the counts behind published tables.

    where
        attacker   what he knows, in a few words
        low, high  for each (table, level) the smallest and the largest count (units x cells)
        attacked   whether each count was attacked; no range is claimed of the others
    """

    attacker: str
    low: Mapping[tuple[str, str], Ints]
    high: Mapping[tuple[str, str], Ints]
    attacked: Mapping[tuple[str, str], Flags]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ClaimedCounts(Claims):
    """Counts behind those of published tables: "so many live here, no more and no fewer".

    The adversary who knows most is the first of ``ranges``.
    """

    ranges: tuple[CountRanges, ...]

    def claimed(self) -> Mapping[tuple[str, str], Ints]:
        """Counts whose range is one number, by (table, level); -1 where nothing is claimed."""
        best = self.ranges[0]
        return {
            where: np.where((low == best.high[where]) & best.attacked[where], low, NOTHING)
            for where, low in best.low.items()
        }


class Attack(ABC):
    """A way to attack a release: a frozen dataclass of its parameters.

    ``name`` is that of its module and of its table in a config.
    """

    name: ClassVar[str]
    whole: ClassVar[bool] = False
    """Whether it needs every unit of the release, because it goes by sums over units."""
    leaves: ClassVar[bool] = False
    """Whether its claims are about leaf units even where the release publishes none of them."""
    at_least_0: ClassVar[tuple[str, ...]] = ()
    at_least_1: ClassVar[tuple[str, ...]] = ()
    """Settings that are numbers, by the smallest that they may be."""
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Settings that are words, each with those that it may be."""

    def __post_init__(self) -> None:
        for least, places in enumerate((self.at_least_0, self.at_least_1)):
            for place in places:
                if (number := getattr(self, place)) < least:
                    raise ConfigError(
                        self.name, place=place, found=str(number), expected=f"{least} or more"
                    )
        for place, words in self.choices.items():
            if (word := getattr(self, place)) not in words:
                raise ConfigError(self.name, place=place, found=repr(word), expected=one_of(words))

    @abstractmethod
    def supports(self, release: Release) -> Support:
        """Whether the attack can be made on this release; if not, why not."""

    def knows(self, schema: Schema) -> tuple[str, ...]:
        """Attributes that the adversary knows of named people; none for an attack without them."""
        return ()

    def read(self, release: Release) -> Release:
        """The whole release as the adversary reads it, before some of its units are drawn.

        What sums over units tell is worked out here; by default a release is taken as it is.
        """
        return release

    def uninformed(self, release: Release) -> Attack | None:
        """The same attack by somebody who has not read the settings; None if it is no other.

        An evaluation shows it beside the attack.
        """
        return None

    def limit(self, release: Release) -> int:
        """Leaf units to be attacked at most in an evaluation; 0 for all."""
        return 0

    @abstractmethod
    def run(self, release: Release, people: People, *, engine: Engine | None = None) -> Claims:
        """Attack a release that is supported, knowing some people; never the truth."""


def whole_people(release: Release) -> Support:
    """Whether a release has counts that can be written as records: whole, and none below 0."""
    if not isinstance(release, CountsRelease):
        return Support("the release publishes tables, not counts that can be written as records")
    if release.missing:
        return Support("some counts are missing from the release")
    table = release.table(release.geography.leaf)
    values = table if isinstance(table, np.ndarray) else table.data
    if len(values) and (np.any(values < 0) or np.any(values != np.rint(values))):
        return Support("some released counts are below 0 or not whole")
    return SUPPORTED


def changed_tables(release: Release) -> Support:
    """Whether a release has tables whose counts were changed, and that add up in truth."""
    if not isinstance(release, TablesRelease):
        return Support("the release publishes counts, not tables whose counts were changed")
    if not release.changed:
        return Support("these tables withhold cells, but do not change counts")
    if not adding_tables(release):
        return Support("no table adds up: the groups of each overlap")
    return SUPPORTED
