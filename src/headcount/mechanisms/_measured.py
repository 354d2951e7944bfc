"""What a mechanism measures, said before any data is read: the exact loss of every measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from headcount.errors import PrivacyError
from headcount.geography import Geography
from headcount.mechanisms._units import Neighbours, steps_of_all
from headcount.noise import Law, TwoSidedGeometric
from headcount.privacy import (
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
)
from headcount.privacy.sensitivity import of_people_at_home
from headcount.schema import Schema
from headcount.schema.follows import ALONE, Steps
from headcount.tabulate import CELLS

ONE_FOR_ONE = tuple((unit, 1) for unit in UnitOfPrivacy)
"""What is measured are the people themselves: each is one record."""


@dataclass(frozen=True, kw_only=True)
class Measured:
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
                            all (privacy/compose.py)
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

    def loss(self, unit: UnitOfPrivacy) -> Loss | None:
        """The exact loss of all draws together; None if a neighbour leaves every answer alone."""
        moved = self.sensitivity(unit)
        return noise_loss(self.law, moved, draws=self.draws) if moved.l1 else None


def measure_cells(
    schema: Schema,
    geography: Geography,
    level: str,
    *,
    neighbours: Neighbours,
    draws: int = 1,
) -> Measured:
    """Every possible cell of every unit of a level, measured with noise of rate 1."""
    return Measured(
        level=level,
        query=CELLS,
        law=TwoSidedGeometric(Fraction(1)),
        entries=geography.size(level) * int(schema.possible.sum()),
        draws=draws,
        steps=steps_of_all(schema.attributes),
        largest_household=neighbours.largest_household,
        of_housing_units=neighbours.unit.of_housing_unit,
    )


def law_of_all(
    epsilon: Fraction, *, unit: UnitOfPrivacy, plan: Sequence[Measured], name: str
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


def losses_of(plan: Sequence[Measured], unit: UnitOfPrivacy) -> list[Loss | None]:
    """The loss of each measurement, all in one currency; None where it costs nothing.

    Beside Gaussian noise, which is counted in rho, geometric noise counts rho = epsilon^2 / 2.
    """
    losses = [one.loss(unit) for one in plan]
    if any(isinstance(loss, ZCDPLoss) for loss in losses):
        return [pure_to_zcdp(x).value if isinstance(x, PureLoss) else x for x in losses]
    return losses


def total_loss(plan: Sequence[Measured], unit: UnitOfPrivacy) -> Loss | None:
    """Measurements compose in sequence: their losses add up, along each path of the geography."""
    losses = zip(plan, losses_of(plan, unit), strict=True)
    return along_paths((loss, one.paths) for one, loss in losses if loss is not None)


def guarantee_of(plan: Sequence[Measured], *, first: UnitOfPrivacy) -> Guarantee:
    """The guarantee of measurements without restrictions, for both units of privacy.

    The unit that was asked for comes first, then the other one about the same: persons, or
    households. A unit under which nothing measured can change (one count, one changed record) is
    left out.
    """
    losses = [total_loss(plan, unit) for unit in first.pair]
    return Guarantee(losses=tuple(loss for loss in losses if loss is not None))
