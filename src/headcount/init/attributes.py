"""Which columns are attributes of people, and how their values become levels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headcount.init.look import MOST_DISTINCT, SeenColumn
from headcount.init.words import OF_PEOPLE, PERSONAL, role_words
from headcount.population.adding_up import OLDEST, SEXES, is_partition
from headcount.schema.schema import bin_labels, looks_like_size

MOST_LEVELS = 70
"""Levels that an attribute may have; the census of 2010 has 63 combinations of races."""

MOST_CELLS = 10_000
"""Cells of the schema that is proposed."""

FEW_AGES, MANY_ROWS = 5, 100
"""So few different ages in so many rows are codes of groups."""

YEARS = "five-year"

_AGE = re.compile(rf"(^|.* )({'|'.join(role_words('age'))}|yrs)( in years| years| yrs)?$")
_AGE_GROUP = re.compile(r"group|grp|gruppe|cat|band|range|recode|klasse|grupo|groupe")
NUMBERED = re.compile(r"(^| )(pernum|pnum|sporder|(person|member|line) ?(no|nr|num|number))( |$)")
_ID = re.compile(r"(^|.* )(id|serial|uuid|key|name|nom|nombre|vorname|nachname|surname|address)s?$")
_RESERVED = {"cells", "total", "unit", "level", "count", "n"}


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A column that becomes an attribute.

    where
        levels           in order, as read from the data; empty with values or bins
        values           the names that the file gives to its codes
        bins             bins of years
        missing_values   values that mean that there is none, beside words for it
        missing          what is done with rows without a value; empty where there are none
        totals           levels that are totals of the others
    """

    name: str
    column: str
    levels: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    bins: str = ""
    missing: str = ""
    missing_values: tuple[str, ...] = ()
    totals: tuple[str, ...] = ()

    @property
    def levels_from_data(self) -> bool:
        """Whether the data decide which levels there are, be it only that of rows without one."""
        return not (self.bins or self.values) or self.missing == "level"

    def table(self) -> dict[str, Any]:
        """The keys of ``[[population.attribute]]``; what is not needed has none."""
        keys = {
            "name": self.name,
            "column": self.column if self.column != self.name else "",
            "bins": self.bins,
            "values": dict(self.values),
            "levels": list(self.levels),
            "levels_from_data": self.levels_from_data,
            "missing": self.missing,
            "missing_values": list(self.missing_values),
        }
        return {key: value for key, value in keys.items() if value}

    @property
    def all_levels(self) -> tuple[str, ...]:
        """Its levels, whatever makes them."""
        named = tuple(dict.fromkeys(level for _, level in self.values))
        known = bin_labels(self.bins) if self.bins else named or self.levels
        return (*known, *(("unknown",) if self.missing == "level" else ()))

    @property
    def size(self) -> int:
        """How many levels there will be."""
        named = len({level for _, level in self.values})
        return (len(bin_labels(self.bins)) if self.bins else named or len(self.levels)) + bool(
            self.missing
        )


def single_years(column: SeenColumn) -> bool:
    """Whether a column holds years of age, one by one."""
    if not _AGE.match(column.says) or _AGE_GROUP.search(column.says):
        return False
    if column.number <= FEW_AGES and len(column.present) >= MANY_ROWS:
        return False
    oldest = oldest_of(column)
    return oldest is not None and oldest <= OLDEST


def oldest_of(column: SeenColumn) -> int | None:
    """The largest of numbers that may be years, 90 of "90+"; None where there are others."""
    known = [one.rstrip("+") for one in column.real]
    if not known or not all(re.fullmatch(r"\d{1,3}([.,]0*)?", one) for one in known):
        return None
    return max(int(float(one.replace(",", "."))) for one in known)


def is_of_people(one: Chosen) -> bool:
    """Whether the name of an attribute, or its levels, say that people have it."""
    levels = {level.casefold() for level in one.levels}
    named = one.bins or OF_PEOPLE.search(one.name.replace("_", " "))
    return bool(named or (levels and (levels <= SEXES or is_partition(one.levels))))


def why_not(column: SeenColumn, *, rows: int) -> str:
    """Why a column cannot be an attribute, or nothing."""
    if column.number <= 1 and not (column.number and column.has_gaps):
        return "it has the same value in every row" if column.number else "it is empty"
    if single_years(column):
        return ""
    if PERSONAL.search(column.says):
        return "it names people, or tells when they were born or where they can be found"
    if NUMBERED.search(column.says):
        return "it numbers the people of a dwelling"
    if looks_like_size(column.name):
        return "it looks like a number of people in the household, which is more than one person's"
    if _ID.match(column.says) and column.number > MOST_LEVELS:
        return "it looks like an identifier"
    if column.number > MOST_DISTINCT or len(column.real) > MOST_LEVELS:
        what = "numbers" if column.whole or column.decimal else "values"
        return f"it has more than {MOST_LEVELS} different {what}"
    if column.number >= rows > 20:
        return "it has another value in every row"
    if column.decimal:
        return "it holds numbers with decimals"
    return ""


def chosen(column: SeenColumn, name: str, *, totals: bool, ages: str = "") -> Chosen:
    """The attribute that a column makes.

    ``totals``: levels called so are totals of the others; ``ages``: "codes" if numbers in a column
    of ages are codes of groups.
    """
    named = {value: label for value, label in column.labels.items() if value not in column.missing}
    gone = column.totals if totals and len(column.real) > 0 else ()
    missing = "level" if column.has_gaps else ""
    if single_years(column) and ages != "codes":
        return Chosen(
            name=name,
            column=column.name,
            bins=YEARS,
            missing=missing,
            missing_values=column.odd_missing,
            totals=gone,
        )
    kept = [*column.real, *(one for one in column.totals if one not in gone)]
    if named and set(kept) <= set(named) and len(set(named.values())) == len(named):
        return Chosen(
            name=name,
            column=column.name,
            values=tuple((value, named[value]) for value in in_order(named)),
            missing=missing,
            missing_values=column.odd_missing,
            totals=gone,
        )
    return Chosen(
        name=name,
        column=column.name,
        levels=in_order(kept),
        missing=missing,
        missing_values=column.odd_missing,
        totals=gone,
    )


def in_order(levels: Sequence[str] | dict[str, str]) -> tuple[str, ...]:
    """Levels by the numbers that they name ("under 5" first, "85+" last), else by text."""
    places = {}
    for level in levels:
        found = re.match(r"\D*(\d+)", level)
        if found is None:
            return tuple(sorted(levels))
        below = re.match(r"(?i)\s*(under|below|less than|<|unter|bis|moins|menos)", level)
        places[level] = int(found[1]) - (0.5 if below else 0)
    return tuple(sorted(levels, key=lambda level: (places[level], level)))


def attribute_name(column: str, taken: set[str]) -> str:
    """A name of an attribute: small letters, digits and _."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column)
    plain = re.sub(r"\W+", "_", parted.strip()).strip("_").casefold() or "attribute"
    name = f"{plain}_of_person" if plain in _RESERVED else plain
    while name in taken:
        name += "_2"
    return name


def fitting(columns: Sequence[Chosen]) -> tuple[list[Chosen], list[Chosen]]:
    """As many attributes as make a schema of a bearable size, usual ones first; and the others."""
    kept, cells = [], 1
    usual = sorted(
        columns,
        key=lambda one: not (one.bins or OF_PEOPLE.search(one.name.replace("_", " "))),
    )
    for one in usual:
        if cells * one.size <= MOST_CELLS:
            kept.append(one)
            cells *= one.size
    return [one for one in columns if one in kept], [one for one in columns if one not in kept]
