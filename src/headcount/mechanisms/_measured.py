"""Planned measurements: sensitivity and exact loss of each, before any data is read.

A stated loss counts every record that one step between neighbours changes. Attributes that follow
from the household make these many, so a person's loss is stated for them only where the config
says how: count the housemates, or take the household as the unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, erf, exp, floor, inf, isinf, log2, sqrt
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints32
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError, PrivacyError, TruthError
from headcount.fields import STATED
from headcount.noise import Law, TwoSidedGeometric
from headcount.population import Population
from headcount.population.population import Households
from headcount.privacy import (
    DEFAULT_UNIT,
    Guarantee,
    Loss,
    PureLoss,
    Sensitivity,
    UnitOfPrivacy,
    ZCDPLoss,
    along_paths,
    marginal_sensitivity,
    noise_loss,
    pure_to_zcdp,
    unit_of_privacy,
)
from headcount.privacy.sensitivity import of_people_at_home
from headcount.schema import Attribute, Follows, Schema
from headcount.schema.schema import ALONE, Steps, joined
from headcount.tabulate import CELLS

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
    if population.domain.counted is not neighbours.unit.counted:
        homes = UnitOfPrivacy.HOUSING_UNIT_CHANGE_ONE
        raise ConfigError(
            name,
            place="unit",
            found=f"{neighbours.unit.value!r} for records of {population.domain.counted}",
            expected=f"{homes.value!r}: the guarantee then says what it means for a person too"
            if population.domain.counted is homes.counted
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


ONE_FOR_ONE = tuple((unit, 1) for unit in UnitOfPrivacy)
"""What is measured are the people themselves: each is one record."""


@dataclass(frozen=True, kw_only=True)
class PlannedMeasurement:
    """One query measured at one level, ``draws`` times, with noise of one law.

    where
        entries             counts in the measured vector: units of the level x possible cells
        steps               how the counts go by household size, where they do
        largest_household   where households are the units of privacy: people in the largest
        of_housing_units    whether the records are housing units, which people live in
        stability           by unit of privacy, how many of the measured records one of the people
                            can change at most, where steps changed records before (_chain.py); a
                            unit without a number has no loss about the people
        among               where only some units of a level are measured with this law: the counts
                            of all of them, since a record can move from one unit to another
        paths               the paths of the geography that these units lie on, by number; None for
                            all (privacy/loss.py)
        distance            True for the L1 distance of the vector to one that was published, one
                            number, in place of the vector: it moves as far as the vector does
    """

    level: str
    query: str
    entries: int
    law: Law
    draws: int = 1
    steps: Steps = ALONE
    largest_household: int | None = None
    of_housing_units: bool = False
    stability: tuple[tuple[UnitOfPrivacy, int], ...] = ONE_FOR_ONE
    among: int | None = None
    paths: frozenset[int] | None = None
    distance: bool = False

    @property
    def units(self) -> tuple[UnitOfPrivacy, ...]:
        """The units of privacy that its losses are stated for: of persons, or of households.

        Those of housing units are stated for these, and for the person who moves.
        """
        stated = UnitOfPrivacy.CHANGE_ONE.pair
        if self.of_housing_units:
            stated = UnitOfPrivacy.HOUSING_UNIT_CHANGE_ONE.pair
        elif self.largest_household is not None:
            stated = UnitOfPrivacy.HOUSEHOLD_CHANGE_ONE.pair
        return tuple(unit for unit, _ in self.stability if unit in stated)

    def sensitivity(self, unit: UnitOfPrivacy) -> Sensitivity:
        """The most that one step between neighbours moves what is measured.

        Where records were changed before, by steps that make k steps of one, k times as much;
        for a unit without a proved k, that of the changed records themselves.
        """
        homes = UnitOfPrivacy.HOUSING_UNIT_CHANGE_ONE
        moved = marginal_sensitivity(
            unit=homes if self.of_housing_units else unit,
            units=self.entries if self.among is None else self.among,
            cells=1,
            steps=self.steps,
            largest_household=self.largest_household,
        )
        if self.of_housing_units and unit is not homes:
            moved = of_people_at_home(moved, unit)
        if self.distance:
            moved = replace(moved, l2_squared=moved.l1**2)
        k = dict(self.stability).get(unit, 1)
        return replace(moved, l1=k * moved.l1, l2_squared=k * k * moved.l2_squared)

    @cached_property
    def _losses(self) -> dict[UnitOfPrivacy, Loss | None]:
        """Those that somebody asked for already."""
        return {}

    def loss(self, unit: UnitOfPrivacy) -> Loss | None:
        """The exact loss of all draws together; None if a neighbour leaves every answer alone."""
        if unit not in self._losses:
            moved = self.sensitivity(unit)
            loss = noise_loss(self.law, moved, draws=self.draws) if moved.l1 else None
            self._losses[unit] = loss
        return self._losses[unit]


NEARLY_NORMAL = 100
"""Draws of noise whose sum is as good as normal."""


@dataclass(frozen=True, kw_only=True)
class ExpectedError:
    """How far off the published counts of a query will be in a unit of a level, by a formula.

    where
        units     how many units the level has
        answers   how many counts the query has in each
        rmse      root mean square error, in people; infinite where nothing tells of the count
        filled    people that every cell must hold there and above for the formula to be true: 0
                  where it always is
        law       of the noise, where errors are sums of so many draws of it; else they are nearly
                  normal
        sums      numbers of draws, each with how many counts have it
    """

    level: str
    query: str
    units: int
    answers: int
    rmse: float
    filled: float = 0.0
    law: TwoSidedGeometric | None = None
    sums: tuple[tuple[int, int], ...] = ()

    def share(self, people: float) -> float:
        """The share of counts that are no further from the truth."""
        if isinf(self.rmse) or people < 0:
            return 0.0
        if self.law is None:
            return _normal_share(self.rmse**2, people)
        parts = [times * _share_of_sum(self.law, draws, people) for draws, times in self.sums]
        return sum(parts) / sum(times for _, times in self.sums)

    def within(self, share: float = 0.95) -> float:
        """The fewest people that this share of counts is within."""
        if isinf(self.rmse):
            return inf
        low, high = -1, 1
        while self.share(high) < share:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.share(middle) < share else (low, middle)
        return float(high)


def _normal_share(variance: float, people: float) -> float:
    """Pr[|E| <= people] of a whole number: of variance v - 1/12 before it is rounded."""
    before = variance - 1 / 12
    return erf((floor(people) + 0.5) / sqrt(2 * before)) if before > 0 else 1.0


def _share_of_sum(law: TwoSidedGeometric, draws: int, people: float) -> float:
    """Pr[|sum of draws| <= people], exact, from the characteristic function.

    phi(t) = ((1 - a)^2 / (1 - 2 a cos t + a^2))^n,   a = exp(-rate)
    """
    variance, k = draws * law.variance, floor(people)
    if draws == 1:
        return 1 - float(law.survival(k).mid())
    if draws > NEARLY_NORMAL or variance > 1e6:
        return _normal_share(variance + 1 / 12, people)
    reach = max(k + 1, 64 + 12 * sqrt(variance) + 40 / float(law.rate))
    size = 1 << ceil(log2(2 * reach))
    a = exp(-float(law.rate))
    turn = np.cos(2 * np.pi * np.arange(size) / size)
    odds = np.fft.ifft(((1 - a) ** 2 / (1 - 2 * a * turn + a * a)) ** draws).real
    return float(odds[0] + 2 * odds[1 : k + 1].sum())


@dataclass(frozen=True, kw_only=True)
class LinearError:
    """Standard deviations of what noisy answers tell of a query in a mean unit, in people.

    where
        units     how many units the level has, or how many leaves the area
        answers   how many answers the query has in each
        own       of the answer as it is drawn; infinite where it is not asked
        pooled    of the answer pooled with the levels below
        best      of the best linear estimate from all answers; infinite where they do not tell
    """

    level: str
    query: str
    units: int
    answers: int
    own: float
    pooled: float
    best: float


def measure_cells(
    domain: Domain, level: str, *, neighbours: Neighbours, draws: int = 1
) -> PlannedMeasurement:
    """Every possible cell of every unit of a level, measured with noise of rate 1."""
    return PlannedMeasurement(
        level=level,
        query=CELLS,
        law=TwoSidedGeometric(Fraction(1)),
        entries=domain.entries(level),
        draws=draws,
        steps=steps_of_all(domain.schema.attributes),
        largest_household=neighbours.largest_household,
        of_housing_units=neighbours.unit.of_housing_unit,
    )


def law_of_all(
    epsilon: Fraction, *, unit: UnitOfPrivacy, plan: Sequence[PlannedMeasurement], name: str
) -> TwoSidedGeometric:
    """The one law with which these measurements together cost ``epsilon``.

        rate = epsilon / (sum over measurements of draws x l1)

    where
        plan   measurements with noise of rate 1
        l1     how far one step between neighbours under ``unit`` moves the measured vector
    """
    at_rate_1 = total_loss(plan, unit)
    if at_rate_1 is None:
        other = unit.pair[1]
        raise PrivacyError(
            f"{name}: found a single count with unit '{unit}', expected '{other}': when "
            f"{unit.phrase} the count does not change, so that noise on it has no loss to state"
        )
    return TwoSidedGeometric(epsilon / at_rate_1.amount)


def losses_of(plan: Sequence[PlannedMeasurement], unit: UnitOfPrivacy) -> list[Loss | None]:
    """The loss of each measurement, all in one currency; None where it costs nothing.

    Beside Gaussian noise, which is counted in rho, geometric noise counts rho = epsilon^2 / 2.
    """
    losses = [one.loss(unit) for one in plan]
    if any(isinstance(loss, ZCDPLoss) for loss in losses):
        return [pure_to_zcdp(x).value if isinstance(x, PureLoss) else x for x in losses]
    return losses


def total_loss(plan: Sequence[PlannedMeasurement], unit: UnitOfPrivacy) -> Loss | None:
    """Measurements compose in sequence: their losses add up, along each path of the geography."""
    losses = zip(plan, losses_of(plan, unit), strict=True)
    return along_paths((loss, one.paths) for one, loss in losses if loss is not None)


def guarantee_of(plan: Sequence[PlannedMeasurement], *, first: UnitOfPrivacy) -> Guarantee:
    """The guarantee of measurements without restrictions, for both units of privacy.

    The unit that was asked for comes first, then the other one about the same: persons, or
    households. A unit under which nothing measured can change (one count, one changed record) is
    left out.
    """
    losses = [total_loss(plan, unit) for unit in first.pair]
    return Guarantee(losses=tuple(loss for loss in losses if loss is not None))
