"""Codings: how published tables group sex, age, race and Hispanic origin, as data.

Everything is a set of *atoms*: years of age, codes of races, single values of sex and origin. A
level of a schema is such a set, and so is a group of a table. A level lies in a group, or outside
it, or across its border: then the schema is too coarse for the group, and the level is named.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import combinations
from typing import Any

from headcount.errors import InputError
from headcount.schema import Attribute, Schema

Atoms = frozenset[int | str]
Group = tuple[str, Atoms]
TOTAL_LABEL = "total"
OWN = "levels"
"""The coding of any attribute by its own levels, whose atoms these are."""
OLDEST = 130
NAMES = {
    "age": ("age", "voting_age"),
    "hispanic": ("hispanic", "cenhisp"),
    "household": ("household_size",),
}
"""Names that a schema may give to an attribute; others go by their own."""
_WORDS = {"sex": ("male", "female"), "hispanic": ("hispanic", "not_hispanic")}
"""What shipped tables call the levels of some roles."""
YEARS = {"under_18": "0-17", "18_and_over": "18+", "minor": "0-17", "adult": "18+"}
SIX = ("white", "black", "aian", "asian", "nhpi", "other")
"""Races as the 2010 census has them; "other" is some other race."""
REST = "rest"
"""Stands for every combination that no other group holds."""


@dataclass(frozen=True)
class Coding:
    """Groups of one attribute in layers: the published detail first, then its subtotals.

    Within a layer no two groups overlap, except in an ``overlapping`` coding (a person of two
    races counts twice): its one layer has a total of what is counted, not of people.
    """

    role: str
    name: str
    layers: tuple[tuple[Group, ...], ...]
    overlapping: bool = False

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups as a table lists them: totals first."""
        return tuple(group for layer in reversed(self.layers) for group in layer)

    @property
    def parents(self) -> tuple[int, ...]:
        """For each group the subtotal that it is a part of, by its number; -1 for the total.

        That is the first above it that holds it: a layer need not have all groups.
        """
        if self.overlapping:
            return (-1, *(0 for _ in self.groups[1:]))
        found = []
        depth = [
            len(self.layers) - 1 - k for k, layer in enumerate(reversed(self.layers)) for _ in layer
        ]
        for number, (_, atoms) in enumerate(self.groups):
            above = [
                other
                for other in range(number)
                if depth[other] > depth[number] and atoms <= self.groups[other][1]
            ]
            found.append(max(above, key=lambda other: (-depth[other], other), default=-1))
        return tuple(found)

    def group(self, label: str) -> Atoms:
        """The atoms of a group."""
        return dict(self.groups)[label]


def own_coding(
    attribute: Attribute,
    groups: Sequence[tuple[str, Sequence[str]]] = (),
    *,
    joined: bool = False,
) -> Coding:
    """An attribute by its levels, under broader groups of them, or these in their place.

    ``groups`` are pairs of a label and levels. A group stands one layer above the highest that it
    holds; two groups are apart or one holds the other, and need not have all levels together.
    """
    sets = {label: frozenset(levels) for label, levels in groups}
    _refuse_groups(attribute, groups, sets)
    layer: dict[str, int] = {}
    for label in sorted(sets, key=lambda one: len(sets[one])):
        inside = [layer[one] for one in layer if sets[one] <= sets[label]]
        layer[label] = 1 + max(inside, default=0)
    layers: list[tuple[Group, ...]] = [tuple((one, frozenset({one})) for one in attribute.levels)]
    for height in range(1, 1 + max(layer.values(), default=0)):
        layers.append(tuple((one, sets[one]) for one in sets if layer[one] == height))
    total = TOTAL_LABEL
    while total in (*attribute.levels, *sets):  # a level may have that name
        total = f"{total} of all"
    layers.append(((total, frozenset(attribute.levels)),))
    coding = Coding(attribute.name, OWN, tuple(layers))
    return _joined(attribute, groups, coding) if joined else coding


def _joined(
    attribute: Attribute, groups: Sequence[tuple[str, Sequence[str]]], coding: Coding
) -> Coding:
    """The same with groups in place of the levels that they hold; other levels stay."""
    if len(coding.layers) > 3:
        raise InputError(
            "table",
            place=f"joined levels of {attribute.name!r}",
            found="a group within another",
            expected="groups that share no level",
        )
    held = {level: label for label, levels in groups for level in levels}
    sets = dict(coding.groups)
    labels = dict.fromkeys(held.get(level, level) for level in attribute.levels)
    return replace(coding, layers=(tuple((one, sets[one]) for one in labels), coding.layers[-1]))


def _refuse_groups(
    attribute: Attribute,
    groups: Sequence[tuple[str, Sequence[str]]],
    sets: Mapping[str, frozenset[str]],
) -> None:
    names = [*attribute.levels, *(label for label, _ in groups)]
    place = f"groups of {attribute.name!r}"
    for label, levels in groups:
        if names.count(label) > 1:
            raise InputError(
                "table", place=place, found=f"{label!r} twice", expected="groups and levels apart"
            )
        for level in levels:
            attribute.index(level)
        if not levels:
            raise InputError("table", place=place, found=f"{label!r} empty", expected="levels")
        for other in sets:
            both = sets[label] & sets[other]
            if both and both not in (sets[label], sets[other]):
                raise InputError(
                    "table",
                    place=place,
                    found=f"{label!r} and {other!r}, which share some of their levels",
                    expected="groups of which one holds the other, or which share none",
                )


@cache
def codings() -> Mapping[tuple[str, str], Coding]:
    """The shipped codings by (role, name)."""
    file = resources.files("headcount.tabulate") / "products" / "codings.toml"
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    return {
        (role, name): _coding(role, name, entry)
        for role, entries in data.items()
        for name, entry in entries.items()
    }


def years(label: str) -> frozenset[int] | None:
    """The years of an age label such as "7", "22-24" or "85+"; None if it is no such label."""
    found = re.fullmatch(r"(\d+)(?:-(\d+)|(\+))?", YEARS.get(label, label))
    if found is None:
        return None
    first = int(found[1])
    last = OLDEST if found[3] else int(found[2] or first)
    return frozenset(range(first, last + 1))


def level_atoms(schema: Schema, attribute: Attribute, role: str) -> tuple[Atoms, ...] | str:
    """The atoms of each level of a schema's attribute, or why they are unknown.

    Where the schema says that the attribute plays the role its codes may mean other words.
    """
    said, words = schema.roles.of(role), attribute.levels
    if told := said is not None and said.attribute == attribute.name:
        words = tuple(said.word(level) for level in words)
    if role == "age":
        spans = [(word, years(word)) for word in words]
        if strange := [word for word, span in spans if span is None]:
            return f"{attribute.name} level {strange[0]!r} is not a year or a span of years"
        return tuple(span for _, span in spans if span is not None)
    if role == "race":
        return _atoms_of_races(words, attribute.name, told=told)
    known = _WORDS.get(role, words) if told else words
    if strange := [word for word in words if word not in known]:
        return f"{attribute.name} has {strange[0]!r}, and tables know {' and '.join(known)}"
    return tuple(frozenset({word}) for word in words)


def _atoms_of_races(words: tuple[str, ...], name: str, *, told: bool) -> tuple[Atoms, ...] | str:
    if words == tuple(str(code) for code in range(1, 64)):
        return tuple(frozenset({code}) for code in range(1, 64))
    sets = [dict(codings()["race", one].layers[0]) for one in ("seven", "alone")]
    for groups in sets:
        if words == tuple(groups) or (told and set(words) <= set(groups)):
            return tuple(groups[word] for word in words)
    return (
        f"{name} levels are neither the codes 1-63 nor one of two sets of 7 groups ("
        f"{'; '.join(', '.join(one) for one in sets)})"
    )


def find_attribute(schema: Schema, role: str) -> Attribute | None:
    """The schema's attribute that plays a role: as it is said, else by its name."""
    if (said := schema.roles.of(role)) is not None:
        return schema.attribute(said.attribute)
    for name in NAMES.get(role, (role,)):
        if name in schema.names:
            return schema.attribute(name)
    return None


def _coding(role: str, name: str, entry: Mapping[str, Any]) -> Coding:
    if role == "age":
        labels = [*_single_years(entry.get("single")), *entry.get("groups", ())]
        layers: list[tuple[Group, ...]] = [
            tuple((label, years(label) or frozenset()) for label in labels)
        ]
    elif entry.get("every"):
        layers = [_each_combination(), _by_number_of_races(), (_several_races(),)]
    else:
        read = _race_groups if role == "race" else _named_groups
        layers = [read(layer) for layer in entry["layers"]]
    every: Any = frozenset().union(*(atoms for layer in layers for _, atoms in layer))
    layers.append(((TOTAL_LABEL, every),))
    return Coding(role, name, tuple(layers), bool(entry.get("overlapping")))


def _single_years(span: str | None) -> list[str]:
    return [str(year) for year in sorted(years(span) or ())] if span else []


def _each_combination() -> tuple[Group, ...]:
    return tuple((race_name(code), frozenset({code})) for code in range(1, 64))


def _by_number_of_races() -> tuple[Group, ...]:
    words = ("one race", "two races", "three races", "four races", "five races", "six races")
    sizes = [len(races) for races in combinations_of_races()]
    return tuple(
        (word, frozenset(code for code, size in enumerate(sizes, start=1) if size == number))
        for number, word in enumerate(words, start=1)
    )


def _several_races() -> Group:
    codes = range(1, 64)
    return "two or more races", frozenset(
        c for c in codes if len(combinations_of_races()[c - 1]) > 1
    )


def _race_groups(layer: Mapping[str, list[str]]) -> tuple[Group, ...]:
    known = {label: _race_codes(terms) for label, terms in layer.items() if terms != [REST]}
    rest = frozenset(range(1, 64)).difference(*known.values())
    return tuple((label, known.get(label, rest)) for label in layer)


def _named_groups(layer: Mapping[str, list[str]]) -> tuple[Group, ...]:
    return tuple((label, frozenset(terms)) for label, terms in layer.items())


@cache
def combinations_of_races() -> tuple[tuple[str, ...], ...]:
    """All combinations by code - 1: 1-6 one race, 7-21 pairs, ..., 63 all six."""
    return tuple(c for size in range(1, 7) for c in combinations(SIX, size))


def race_name(code: int) -> str:
    """The races of a code, joined by '+'."""
    return "+".join(combinations_of_races()[code - 1])


def alone(race: str) -> frozenset[int]:
    """The code of one race alone."""
    return frozenset({SIX.index(race) + 1})


def in_combination(race: str) -> frozenset[int]:
    """The codes of a race alone or in combination with others."""
    return frozenset(
        code for code, races in enumerate(combinations_of_races(), start=1) if race in races
    )


def _race_codes(terms: Sequence[str]) -> frozenset[int]:
    """Codes of a group: "white+black" is that combination, "*white" all that include white."""
    codes: set[int] = set()
    for term in terms:
        if term.startswith("*"):
            codes |= in_combination(term[1:])
        else:
            codes.add(
                combinations_of_races().index(tuple(sorted(term.split("+"), key=SIX.index))) + 1
            )
    return frozenset(codes)
