"""People made of public facts: a stand-in, on which a method is tried before anything is spent.

How far off a sparse release will be depends on the people, and no formula says it. People who are
made up of what everybody may know are near enough: of an older census, or of the sizes of places
and the whole by all attributes, with the same mix everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from headcount.arrays import Floats
from headcount.config.load import NO_FACTS, PublicFacts
from headcount.domain import Domain
from headcount.draws import multinomial
from headcount.errors import ConfigError
from headcount.population import Population, Source
from headcount.tabulate import Tabulated

PLACES_AT_ONCE = 1 << 12
BEFORE_OFF, SIZES_OFF = 0.05, 0.1
"""Relative standard deviations of predictions: from an older census, from sizes and a table
(``make bench NAME=predicted-errors``)."""


@dataclass(frozen=True, eq=False)
class Facts:
    """People of whom everybody may know.

    where
        words    what they are
        people   several stand-ins for the real ones, or the people of an older census
        spread   the relative standard deviation of errors that are predicted by them
    """

    words: str
    people: tuple[Population, ...]
    spread: float

    @cached_property
    def data(self) -> tuple[Tabulated, ...]:
        """The same, counted."""
        return tuple(Tabulated.of(one) for one in self.people)

    @cached_property
    def trials(self) -> dict[object, Any]:
        """What was tried on them before."""
        return {}


def facts_of(public: PublicFacts, source: Source, domain: Domain) -> Facts | None:
    """People made of the public facts of a config; None where these are not enough.

    ``source`` is its population: an older census may be a file like the one that this reads.
    """
    if public.before is None or public.before.suffix == ".toml":
        return people_made_of(public, domain)
    if "file" not in getattr(type(source), "__dataclass_fields__", ()):
        raise ConfigError(
            "public.before",
            found=str(public.before),
            expected="a TOML file with a table [population]",
        )
    again: Any = source
    older = replace(again, file=public.before).read()
    return of_older_people(older, domain, name=public.before.name)


def people_made_of(public: PublicFacts, domain: Domain) -> Facts | None:
    """The same of an older census in a TOML file, or of sizes and a table."""
    if public.before is not None:
        from headcount.config.load import load_population

        older = load_population(public.before).read()
        return of_older_people(older, domain, name=public.before.name)
    one_place = domain.geography.size(domain.leaf) == 1
    if public == NO_FACTS or (public.sizes is None and not one_place):
        return None
    if public.table is None and domain.cells > 1:
        return None
    names = " and ".join(p.name for p in (public.sizes, public.table) if p is not None)
    odds = _odds(public.table, domain)
    sizes = np.array([odds.sum()]) if public.sizes is None else _sizes(public.sizes, domain)
    return sizes_and_table(sizes, odds, domain, words=f"made-up people, like those of {names}")


def of_older_people(older: Population, domain: Domain, *, name: str = "an older census") -> Facts:
    """The people of an older census, with the same levels and attributes."""
    if domain.leaf in older.geography.levels:
        older = older.down_to(domain.leaf)
    for place, found, expected in (
        ("levels", older.geography.levels, domain.geography.levels),
        ("attributes", _known(older.domain), _known(domain)),
    ):
        if found != expected:
            raise ConfigError(
                name, place=place, found="others than in the data", expected="the same as there"
            )
    return Facts(f"the people of {name}", (older,), BEFORE_OFF)


def _known(domain: Domain) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((one.name, one.levels) for one in domain.schema.attributes)


def sizes_and_table(sizes: Floats, table: Floats, domain: Domain, *, words: str) -> Facts:
    """People made of how many live in each leaf, and of the whole by all cells."""
    people = tuple(_made_up(sizes, table, domain, seed) for seed in range(2))
    return Facts(words, people, SIZES_OFF)


def _sizes(file: Path, domain: Domain) -> Floats:
    """How many people each leaf has."""
    from headcount.mechanisms.coarsening.settings import PublicSizes

    return PublicSizes(file=file).of(domain.geography).astype(float)


def _odds(file: Path | None, domain: Domain) -> Floats:
    """How many people each cell of the whole has: columns of all attributes, and ``n``."""
    if file is None:
        return np.ones(1)
    from headcount.population.tables import read_rows, table_of

    schema = domain.schema
    rows = read_rows(table_of(file), [*schema.names, "n"])
    cell = np.zeros(rows.frame.height, dtype=np.int64)
    for one in schema.attributes:
        known = {level: number for number, level in enumerate(one.levels)}
        codes = [known.get(text, -1) for text in rows.frame[one.name]]
        if -1 in codes:
            row = codes.index(-1)
            found = repr(rows.frame[one.name][row])
            place = f"row {row + 1}, {one.name}"
            raise ConfigError(str(file), place=place, found=found, expected="a level of it")
        cell = cell * one.size + np.array(codes, dtype=np.int64)
    people = np.zeros(schema.size)
    for row, (at, text) in enumerate(zip(cell.tolist(), rows.frame["n"], strict=True)):
        number = _number(text)
        if number is None or (number and not schema.possible[at]):
            expected = "people, 0 or more, and nobody in an impossible cell"
            raise ConfigError(
                str(file), place=f"row {row + 1}, n", found=repr(text), expected=expected
            )
        people[at] += number
    if not people.sum():
        raise ConfigError(str(file), place="n", found="nobody", expected="some people")
    return people


def _number(text: str | None) -> float | None:
    """A finite number of 0 or more."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


def _made_up(sizes: Floats, odds: Floats, domain: Domain, seed: int) -> Population:
    """As many people in each leaf as are known, with the same mix everywhere."""
    chance, whole = np.random.default_rng(seed), sizes.astype(np.int64)
    parts = []
    for start in range(0, len(whole), PLACES_AT_ONCE):
        drawn = multinomial(chance, whole[start : start + PLACES_AT_ONCE], odds / odds.sum())
        place, cell = np.nonzero(drawn)
        parts.append((place + start, cell, drawn[place, cell]))
    unit, cell, count = (np.concatenate(one) for one in zip(*parts, strict=True))
    return Population(
        "made up",
        replace(domain, read_off=()),
        unit=unit.astype(np.int32),
        cell=cell.astype(np.int32),
        count=count.astype(np.int64),
        public=True,
    )
