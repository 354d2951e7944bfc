"""What a mechanism measures, said before any data is read: the exact loss of every measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from headcount.geography import Geography
from headcount.privacy import Guarantee, Loss, PureLoss, UnitOfPrivacy, marginal_sensitivity
from headcount.schema import Schema
from headcount.tabulate import CELLS


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One query measured at one level, ``draws`` times, with two-sided geometric noise.

    where
        rate      the noise parameter: Pr[noise = k] is proportional to exp(-rate |k|)
        entries   counts in the measured vector: units of the level x possible cells
    """

    level: str
    query: str
    rate: Fraction
    entries: int
    draws: int = 1

    def epsilon(self, unit: UnitOfPrivacy) -> Fraction:
        """The exact loss of the measurement: rate x sensitivity, once for each draw."""
        moved = marginal_sensitivity(unit=unit, units=self.entries, cells=1)
        return self.rate * moved.l1 * self.draws

    @property
    def variance(self) -> float:
        """Variance of each count's noise in one draw."""
        from headcount.noise import geometric_variance

        return float(geometric_variance(self.rate))


def measure_cells(
    schema: Schema, geography: Geography, level: str, *, rate: Fraction, draws: int = 1
) -> Measured:
    """Every possible cell of every unit of a level, measured with noise of this rate."""
    entries = geography.size(level) * int(schema.possible.sum())
    return Measured(level=level, query=CELLS, rate=rate, entries=entries, draws=draws)


def guarantee_of(plan: Sequence[Measured]) -> Guarantee:
    """Measurements compose in sequence: their losses add up, for each unit of privacy.

    A unit under which nothing measured can change (one count, one changed record) is left out.
    """
    losses: list[Loss] = []
    for unit in UnitOfPrivacy:
        total = sum((one.epsilon(unit) for one in plan), Fraction(0))
        if total:
            losses.append(PureLoss(epsilon=total, unit=unit))
    return Guarantee(losses=tuple(losses))
