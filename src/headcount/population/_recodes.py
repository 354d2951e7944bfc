"""Common coarser views of census attributes: age in bins, 63 races in seven groups or alone."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headcount.errors import InputError
from headcount.schema import Attribute, Recode, Schema

SEVEN_RACES = {
    "white": ("1",),
    "black": ("2", "7"),
    "asian": ("4", "9"),
    "nhpi": ("5", "10"),
    "aian": ("3", "8"),
    "other": ("6", "11"),
}
"""Codes of each race alone and with white; every other combination is "multiple"."""

RACES_ALONE = tuple(
    f"{name}_alone" for name in ("white", "black", "aian", "asian", "nhpi", "other")
)
"""Names of the codes 1 to 6."""


def age_bins(age: Attribute, bins: Attribute) -> Recode:
    """Years of age gathered into bins such as "7", "22-24" and "85+"."""
    spans = {label: _span(label, bins) for label in bins.levels}
    groups: dict[str, list[str]] = {label: [] for label in bins.levels}
    for level in age.levels:
        low, high = _span(level, age)
        for label, (first, last) in spans.items():
            if first <= low and high <= last:
                groups[label].append(level)
    return Recode.of(age, bins.name, groups)


def seven_races(race: Attribute) -> Recode:
    """The 63 codes as white, five races alone or with white, and all other combinations."""
    known = {code for codes in SEVEN_RACES.values() for code in codes}
    rest = tuple(level for level in race.levels if level not in known)
    groups: Mapping[str, tuple[str, ...]] = {**SEVEN_RACES, "multiple": rest}
    return Recode.of(race, race.name, groups)


def races_alone(race: Attribute) -> Recode:
    """The 63 codes as each of the six races alone, and all combinations."""
    alone = {name: (code,) for name, code in zip(RACES_ALONE, race.levels, strict=False)}
    return Recode.of(race, race.name, {**alone, "multiple": race.levels[len(alone) :]})


def recode_to(attribute: Attribute, wanted: Attribute) -> Recode:
    """The recode that turns an attribute into a coarser one of the same name, if one is known."""
    codes = tuple(str(code) for code in range(1, 64))
    if attribute.name == wanted.name == "race" and attribute.levels == codes:
        for recode in (seven_races(attribute), races_alone(attribute)):
            if recode.attribute == wanted:
                return recode
    if attribute.name == wanted.name == "age":
        return age_bins(attribute, wanted)
    raise InputError(
        "schema",
        place=f"attribute {wanted.name!r}",
        found=f"levels that cannot be made from those of {attribute.name!r}",
        expected="the same levels, bins of years of age, the seven race groups, or races alone",
    )


def fit_schema(known: Mapping[str, Attribute], schema: Schema) -> tuple[str | Recode, ...]:
    """For each attribute of a schema its name, or the recode that makes it."""
    made: list[str | Recode] = []
    for wanted in schema.attributes:
        if wanted.name not in known:
            raise InputError(
                "schema", found=f"attribute {wanted.name!r}", expected=f"some of {sorted(known)}"
            )
        same = known[wanted.name] == wanted
        made.append(wanted.name if same else recode_to(known[wanted.name], wanted))
    return tuple(made)


def _span(label: str, attribute: Attribute) -> tuple[int, float]:
    found = re.fullmatch(r"(\d+)(?:-(\d+)|(\+))?", label)
    if found is None:
        raise InputError(
            "schema",
            place=f"attribute {attribute.name!r}",
            found=f"level {label!r}",
            expected='years of age such as "7", "22-24" or "85+"',
        )
    first = int(found[1])
    return first, float("inf") if found[3] else int(found[2] or first)
