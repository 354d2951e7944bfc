"""From people in dwellings to a population: chosen attributes, recoded, with living quarters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headcount.domain import Domain
from headcount.errors import InputError
from headcount.population.population import VACANT, Households, Population, Quarters
from headcount.schema import Attribute, Follows, Recode, Schema

KIND = "hhgq"
"""Name of the attribute that says in which kind of dwelling a person lives."""
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


def to_population(
    households: Households,
    attributes: Sequence[str | Recode] | None = None,
    *,
    schema: Schema | None = None,
) -> Population:
    """One row a person, in the unit of their dwelling.

    where
        attributes   attributes of persons or dwellings by name, or recodes of them; by default
                     all attributes of persons. ``"hhgq"`` is the kind of dwelling (all but
                     vacant): the population then has its living quarters too
        schema       instead of ``attributes``: the schema to come to, with age in bins and race in
                     seven groups where it has them so, and its structural zeros
    """
    known = {a.name: a for a in (*households.person_attributes, *households.dwelling_attributes)}
    kinds = Attribute(KIND, (households.kinds[0], *households.kinds[VACANT + 1 :]))
    if attributes is not None and schema is not None:
        raise InputError(
            households.name, found="attributes and a schema", expected="one or the other"
        )
    if schema is not None:
        attributes = _fit_schema({KIND: kinds, **known}, schema)
    elif attributes is None:
        attributes = [attribute.name for attribute in households.person_attributes]
    axes = [_axis(households, kinds, attribute) for attribute in attributes]
    made = Schema(tuple(a for a, _ in axes), schema.structural_zeros if schema else ())
    cell = np.zeros(int(households.first[-1]), dtype=np.int64)
    for attribute, code in axes:
        cell = cell * attribute.size + code
    counted = KIND in made.names and made.attribute(KIND) == kinds
    return Population(
        households.name,
        Domain(
            made,
            households.geography,
            read_off=households.read_off,
            one_person="one person is one record, in whichever dwelling it is"
            f"{households.left_out}",
        ),
        households.block[households.dwelling],
        cell.astype(np.int32),
        public=households.public,
        quarters=_quarters(households, kinds) if counted else None,
        households=households,
        reading=households.reading,
        record_keys=households.record_keys,
    )


def _axis(
    households: Households, kinds: Attribute, axis: str | Recode
) -> tuple[Attribute, NDArray[np.integer]]:
    """An attribute of the schema, and each person's level of it."""
    if isinstance(axis, Recode):
        source, code = _axis(households, kinds, axis.source.name)
        if source != axis.source:
            raise InputError(
                households.name,
                place=f"recode {axis.name!r}",
                found=f"other levels of {source.name!r}",
                expected="the levels of the households' attribute",
            )
        return axis.on(source).attribute, np.asarray(axis.group_of_level, dtype=np.int32)[code]
    if axis == KIND and KIND not in (*households.persons, *households.dwellings):
        kind = households.kind[households.dwelling]
        return kinds, np.where(kind > VACANT, kind - 1, kind)
    attribute = households.attribute(axis)
    if axis in households.dwellings:
        if attribute.follows is Follows.PERSON:  # nobody has said what it follows
            attribute = Attribute(attribute.name, attribute.levels, Follows.UNSTATED)
        _refuse_other_sizes(households, attribute)
    return attribute, households.of_person(axis)


def _refuse_other_sizes(households: Households, attribute: Attribute) -> None:
    """An attribute that follows the size must do so: sensitivities rest on it.

    In households it has the level of the number of people, elsewhere one without a number.
    """
    if attribute.follows is not Follows.SIZE:
        return
    begins, levels = np.array(attribute.steps).T
    code = households.dwellings[attribute.name]
    right = levels[np.maximum(np.searchsorted(begins, households.size, side="right") - 1, 0)]
    home = households.is_household
    wrong = (home & (code != right)) | (~home & np.isin(code, levels))
    if wrong[households.size > 0].any():  # which dwelling, and which size, would tell of people
        raise InputError(
            households.name,
            place=f"attribute {attribute.name!r}",
            found="a level that is not that of the number of people in the dwelling",
            expected="in a household the level whose numbers of people include its own; in group "
            'quarters one without a number ("none")',
        )


def _quarters(households: Households, kinds: Attribute) -> Quarters:
    """Dwellings with someone in them by kind, and vacant ones; an empty facility is neither."""
    tree, kind = households.geography, households.kind
    leaves = tree.size(tree.leaf)
    inside = households.size > 0
    level = np.where(kind > VACANT, kind - 1, kind).astype(np.int64)
    where = households.block.astype(np.int64) * kinds.size + level
    occupied = np.bincount(where[inside], minlength=leaves * kinds.size)
    vacant = np.bincount(households.block[kind == VACANT], minlength=leaves)
    return Quarters(tree, KIND, occupied.reshape(leaves, kinds.size), vacant)


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


def _races_alone(race: Attribute) -> Recode:
    """The 63 codes as each of the six races alone, and all combinations."""
    alone = {name: (code,) for name, code in zip(RACES_ALONE, race.levels, strict=False)}
    return Recode.of(race, race.name, {**alone, "multiple": race.levels[len(alone) :]})


def _recode_to(attribute: Attribute, wanted: Attribute) -> Recode:
    """The recode that turns an attribute into a coarser one of the same name, if one is known."""
    codes = tuple(str(code) for code in range(1, 64))
    if attribute.name == wanted.name == "race" and attribute.levels == codes:
        for recode in (seven_races(attribute), _races_alone(attribute)):
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


def _fit_schema(known: Mapping[str, Attribute], schema: Schema) -> tuple[str | Recode, ...]:
    """For each attribute of a schema its name, or the recode that makes it."""
    made: list[str | Recode] = []
    for wanted in schema.attributes:
        if wanted.name not in known:
            raise InputError(
                "schema", found=f"attribute {wanted.name!r}", expected=f"some of {sorted(known)}"
            )
        same = known[wanted.name] == wanted
        made.append(wanted.name if same else _recode_to(known[wanted.name], wanted))
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
