"""What the attributes of a schema follow from, checked against a mechanism's unit of privacy.

A stated loss counts every record that one step between neighbours changes. Attributes that follow
from the household make these many, so a person's loss is stated for them only where the config
says how: count the housemates, or take the household as the unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints32
from headcount.errors import ConfigError, InputError, PrivacyError, TruthError
from headcount.fields import STATED
from headcount.population import Population
from headcount.population.dwellings import Households
from headcount.privacy import DEFAULT_UNIT, UnitOfPrivacy, marginal_sensitivity, unit_of_privacy
from headcount.schema import Attribute, Follows, Schema
from headcount.schema.follows import Steps, joined

MOST_IN_A_HOUSEHOLD = 10**6
"""More is no household, and would leave nothing of any answer."""

NOBODYS = "none"
"""The level, of what follows from a household, of people who live in none."""

TELLING, AGREE, TWO = 10, 95, 2
"""A size of this many households, of which this many in 100 agree on one level, has that level;
where this many sizes have different ones the level follows from the size."""


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Which databases a mechanism's loss compares, and what of housemates is counted.

    where
        unit                the unit of privacy that the loss is for
        count_housemates    a person's housemates, whose household size changes with the person,
                            are counted in what one person can change
        largest_household   m, for units that are households: larger ones are cut to m people
    """

    unit: Annotated[UnitOfPrivacy, STATED] = DEFAULT_UNIT
    count_housemates: bool = False
    largest_household: int | None = None

    def checked(self, *, name: str) -> Neighbours:
        """The same with its unit as such; settings that do not go together are refused."""
        unit, most = unit_of_privacy(self.unit, name=f"{name}: unit"), self.largest_household
        if most is None and unit.of_household:
            raise PrivacyError(
                source=name,
                place="largest_household",
                found=f"nothing with unit '{unit}'",
                expected="the public number of people above which households are cut",
            )
        if most is not None and not unit.of_household:
            households = UnitOfPrivacy.HOUSEHOLD_ADD_REMOVE, UnitOfPrivacy.HOUSEHOLD_CHANGE_ONE
            raise PrivacyError(
                source=name,
                place="largest_household",
                found=f"{most} with unit '{unit}'",
                expected=f"it with '{households[0]}' or '{households[1]}'",
            )
        if most is not None and (type(most) is not int or not 1 <= most <= MOST_IN_A_HOUSEHOLD):
            raise PrivacyError(
                source=name,
                place="largest_household",
                found=repr(most),
                expected=f"1 to {MOST_IN_A_HOUSEHOLD:,}",
            )
        if self.count_housemates and unit.of_household:
            raise PrivacyError(
                source=name,
                place="count_housemates",
                found=f"true with unit '{unit}'",
                expected="it with a person as the unit: a household includes all its people",
            )
        return Neighbours(
            unit=unit, count_housemates=bool(self.count_housemates), largest_household=most
        )

    def statements(self, schema: Schema) -> tuple[str, ...]:
        """What the unit means, in plain words, for the guarantee."""
        if self.unit.of_household:
            return (
                f"a household is everyone in one dwelling, the first {self.largest_household} in "
                f"the file where there are more",
                "people who are cut are in no count: a total that is published exactly counts "
                "people after the cut, and beside a total of everyone reveals how many were cut",
                "a person in group quarters is a unit of their own",
            )
        if self.unit.of_housing_unit:
            return (
                "a record is a housing unit, and a person who moves changes two of them at most: "
                "the home that is left and the one that is entered",
            )
        size = steps_of_all(schema.attributes)[-1][0]
        if size == 1:
            return ()
        return (
            f"housemates are counted: one person changes the household size of up to {size - 1} "
            f"others in a household that the person leaves or joins",
        )


def steps_of_all(attributes: Sequence[Attribute]) -> Steps:
    """How the combinations of levels of some attributes go by household size."""
    return joined([attribute.steps for attribute in attributes])


def refuse_housemates(schema: Schema, neighbours: Neighbours, *, name: str) -> None:
    """Refuse a person's loss for attributes that change with who else lives there."""
    if neighbours.unit.of_household:
        return  # whatever follows from a household changes with it, and is counted
    for attribute in schema.attributes:
        if attribute.follows is Follows.UNSTATED:
            raise ConfigError(
                name,
                place=f"attribute {attribute.name!r}",
                found="no statement of whether it changes with who lives in the dwelling",
                expected='follows = "dwelling" (it stays, like tenure), "size" (the number of '
                'people) or "members" (who they are) in its [[population.dwelling_attribute]]; in '
                'a file without households follows = "person" (the unit of privacy is one row) in '
                "its [[population.attribute]], or in the schema's [[attribute]]",
            )
        if attribute.follows is Follows.MEMBERS:
            raise ConfigError(
                name,
                place=f"attribute {attribute.name!r}",
                found="an attribute that follows from who lives in the dwelling: one person more "
                "or less may change the record of every housemate, however many they are",
                expected=f"mechanism.{_HOUSEHOLD_WAY}, or a schema without it",
            )
        if attribute.follows is Follows.SIZE and not neighbours.count_housemates:
            raise ConfigError(
                name,
                place=f"attribute {attribute.name!r}",
                found="an attribute that follows from the number of people in the dwelling: one "
                "person more or less changes the record of every housemate",
                expected=f"one of two settings: mechanism.count_housemates = true (a person is "
                f"the unit, and {_price(attribute, neighbours.unit)}), or "
                f"mechanism.{_HOUSEHOLD_WAY} (the household is the unit)",
            )


_HOUSEHOLD_WAY = (
    'unit = "household-change-one" with mechanism.largest_household, the number of people above '
    "which households are cut"
)


def _price(attribute: Attribute, unit: UnitOfPrivacy) -> str:
    moved = marginal_sensitivity(unit=unit, units=2, cells=1, steps=attribute.steps)
    plain = marginal_sensitivity(unit=unit, units=2, cells=1)
    return f"moves up to {moved.l1} counts in place of {plain.l1}"


def refuse_uncut(population: Population, neighbours: Neighbours, *, name: str) -> None:
    """Refuse data that are not what the plan's sensitivities are for.

    Households as units need to be known, and cut to their largest size. An attribute that is
    said to be the dwelling's own and yet follows from the number of people is refused too.
    """
    households = population.households
    if population.counted is not neighbours.unit.counted:
        homes = UnitOfPrivacy.HOUSING_UNIT_CHANGE_ONE
        raise ConfigError(
            name,
            place="unit",
            found=f"{neighbours.unit.value!r} for records of {population.counted}",
            expected=f"{homes.value!r}: the guarantee then says what it means for a person too"
            if population.counted is homes.counted
            else f"{DEFAULT_UNIT.value!r} or another unit of people",
        )
    if households is None:
        if neighbours.unit.of_household:
            raise ConfigError(
                name,
                place="unit",
                found=f"{neighbours.unit.value!r} for data without households",
                expected="people in dwellings (kind = 'households', 'towns' or 'workload-s')",
            )
        if population.of_dwellings:
            raise PrivacyError(
                f"{name}: found counts of people in dwellings, expected the people themselves: "
                f"from counts alone nobody can check what follows from the household"
            )
        return
    if neighbours.largest_household is None:
        _refuse_hidden_sizes(population, households, name=name)
        return
    _refuse_shared_quarters(population, households, name=name)
    if (households.size[households.is_household] > neighbours.largest_household).any():
        raise InputError(
            name,
            place="largest_household",
            found="a larger household",
            expected="households that are cut (headcount.population.cut_households)",
        )


def _refuse_shared_quarters(population: Population, households: Households, *, name: str) -> None:
    """People in group quarters are units of their own: what follows from all is not counted.

    Nobody there may have a level of it but "none".
    """
    outside = population.cell[~households.is_household[households.dwelling]]
    codes = _levels(population.schema, outside)
    for attribute, code in zip(population.schema.attributes, codes, strict=True):
        if attribute.follows not in (Follows.MEMBERS, Follows.UNSTATED):
            continue
        if any(attribute.levels[level] != NOBODYS for level in np.unique(code)):
            raise InputError(
                name,
                place=f"attribute {attribute.name!r}",
                found="a level that may follow from everyone in the same group quarters",
                expected=f"{NOBODYS!r} for people in group quarters, who are units of their own; "
                f'or follows = "dwelling" if it stays whoever lives there',
            )


def _refuse_hidden_sizes(population: Population, households: Households, *, name: str) -> None:
    """Refuse what is said to be a person's or a dwelling's own and is the household's size.

    In nearly every household of one size all have one level, and in nearly every one of another
    size all have another. A few exceptions hide nothing: the others' records still follow.
    """
    home = households.is_household
    people = households.size[home].astype(np.int64)
    sizes, of_size, often = np.unique(people, return_inverse=True, return_counts=True)
    if (often >= TELLING).sum() < TWO:
        return
    first = np.cumsum(people) - people
    codes = _levels(population.schema, population.cell[home[households.dwelling]])
    for attribute, code in zip(population.schema.attributes, codes, strict=True):
        if attribute.follows not in (Follows.DWELLING, Follows.PERSON):
            continue
        level = np.minimum.reduceat(code, first)
        alike = level == np.maximum.reduceat(code, first)
        homes = np.zeros((len(sizes), attribute.size), dtype=np.int64)
        np.add.at(homes, (of_size[alike], level[alike]), 1)
        agree = (often >= TELLING) & (100 * homes.max(axis=1) >= AGREE * often)
        if len(np.unique(homes.argmax(axis=1)[agree])) >= TWO:
            raise TruthError(
                name,
                place=f"attribute {attribute.name!r}",
                found="a level that follows from the number of people in nearly every household",
                expected='a [[population.dwelling_attribute]] with follows = "size" or "members"',
            )


def _levels(schema: Schema, cell: Ints32) -> tuple[NDArray[np.intp], ...]:
    """Level numbers of each attribute, for people in these cells."""
    return np.unravel_index(cell, schema.shape) if schema.attributes else ()
