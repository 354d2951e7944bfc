"""TopDown as a mechanism: what it promises, what it measures, and one run of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, floor, log

from headcount.errors import TruthError
from headcount.geography import Geography
from headcount.mechanisms._base import Context, CountsOutcome
from headcount.mechanisms._measured import Measured, guarantee_of, law_of_all, measure_cells
from headcount.mechanisms._units import refuse_uncut
from headcount.mechanisms.topdown.checkpoint import FinishedLevels
from headcount.mechanisms.topdown.choices import TableBounds
from headcount.mechanisms.topdown.descend import Descent, descend
from headcount.mechanisms.topdown.measure import (
    LARGEST_COUNT,
    Measurements,
    distance_to_truth,
    planned_noise,
)
from headcount.mechanisms.topdown.neighbours import refuse_no_neighbour
from headcount.mechanisms.topdown.publish import write_measurements
from headcount.mechanisms.topdown.restrict import (
    Restrictions,
    exact_statements,
    nests,
    refuse_truth_outside,
    restrict,
)
from headcount.mechanisms.topdown.room_plan import refuse_too_wide
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.mechanisms.topdown.tighten import refuse_fixed_units, tighten
from headcount.noise import Noise, TwoSidedGeometric
from headcount.privacy import Guarantee
from headcount.schema import Schema
from headcount.tabulate import Counts, content_digest

REPORT = "distance to the truth"
_CONFIDENCE = 0.9


@dataclass(frozen=True, kw_only=True, repr=False)
class TopDown(TopDownSettings):
    """Noisy measurements at every level, then least squares and rounding from the top down.

    Abowd et al. (2019), "Census TopDown"; the code of the 2018 end-to-end test. The release is
    integer, non-negative, adds up over levels, and keeps every invariant and bound exactly.
    """

    name = "topdown"
    draws_noise = True

    def plan(self, schema: Schema, geography: Geography) -> tuple[Measured, ...]:
        """Every level x query with a share, and the report."""
        if self.loss is None:
            return ()
        plan = [
            Measured(
                level=level,
                query=query,
                entries=noise.entries,
                law=noise.law,
                steps=self.steps_of(query, schema),
                largest_household=self.largest_household,
            )
            for (level, query), noise in planned_noise(self, schema, geography).items()
            if noise.law is not None
        ]
        if self.report_epsilon:
            distance, law = self._reported(schema, geography)
            plan.append(replace(distance, law=law))
        return tuple(plan)

    def _reported(self, schema: Schema, geography: Geography) -> tuple[Measured, TwoSidedGeometric]:
        """The distance to the truth, and the noise that ``report_epsilon`` buys for it."""
        cells = measure_cells(schema, geography, geography.leaf, neighbours=self.neighbours)
        distance = replace(cells, query=REPORT, distance=True)
        unit, name = self.neighbours.unit, f"topdown: {REPORT}"
        return distance, law_of_all(self.report_epsilon, unit=unit, plan=[distance], name=name)

    def guarantee(self, schema: Schema, geography: Geography) -> Guarantee:
        """The loss under the chosen unit, given everything that is released exactly.

        Where nothing is, the loss under the other unit stands beside it. What is released exactly
        may leave no two neighbours of the other unit, and a loss for none would mislead.
        """
        if self.loss is None:
            return Guarantee.none("no noise is added: epsilon is infinite")
        stated = guarantee_of(self.plan(schema, geography), first=self.loss.unit)
        stated = stated.meaning(*self.neighbours.statements(schema))
        exact = exact_statements(self)
        if not exact:
            return stated
        stated = replace(stated, losses=stated.losses[:1])
        beyond = "databases that differ in what is released without noise"
        return replace(stated.also_exact(*exact), not_covered=(*stated.not_covered, beyond))

    def check(self, counts: Counts) -> tuple[str, ...]:
        """Refuse settings that do not fit the data, and data that break the bounds.

        The remarks say how each level will be rounded.
        """
        self.refuse_strangers(counts.schema, counts.geography)
        planned_noise(self, counts.schema, counts.geography)  # without a loss too
        self.plan(counts.schema, counts.geography)
        if self.loss is not None:
            refuse_uncut(counts, self.neighbours, name=self.name)
        levels = {level: counts.at(level) for level in counts.geography.levels}
        if int(levels[counts.geography.levels[0]].totals()[0]) > LARGEST_COUNT:
            raise TruthError(
                "topdown", found="more than 2^40 people", expected="counts that floats hold exactly"
            )
        restrictions = self._restrictions(levels)
        return tuple(
            f"bounds at {level} nest: rounding is a network problem"
            if nests(those, counts.schema)
            else f"bounds at {level} overlap: rounding may need an integer programme"
            for level, those in restrictions.items()
        )

    def _restrictions(self, levels: Mapping[str, Counts]) -> Restrictions:
        """Bounds that hold the truth, and that every estimate can be moved to keep."""
        restrictions = restrict(self, levels)
        refuse_truth_outside(restrictions, levels)
        unit = self.loss.unit if self.loss is not None else None
        refuse_no_neighbour(restrictions, levels, unit)
        leaf = next(iter(levels.values()))
        if any(isinstance(bounds, TableBounds) for bounds in self.bounds):
            restrictions = tighten(restrictions, schema=leaf.schema, geography=leaf.geography)
        refuse_fixed_units(
            self.neighbours.unit,
            restrictions,
            schema=leaf.schema,
            geography=leaf.geography,
            public=all(isinstance(one, TableBounds) and one.public for one in self.bounds),
        )
        refuse_too_wide(restrictions, schema=leaf.schema, geography=leaf.geography)
        return restrictions

    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> CountsOutcome:
        """Protect the counts once for each run number."""
        context = context or Context()
        self.refuse_strangers(counts.schema, counts.geography)
        if self.loss is not None:
            refuse_uncut(counts, self.neighbours, name=self.name)
        levels = {level: counts.at(level) for level in counts.geography.levels}
        restrictions = self._restrictions(levels)
        made: list[Descent] = []
        seconds: dict[str, float] = {}
        for run in runs:
            measurements = Measurements(levels, self, noise, run=run)
            if context.measurements is not None:
                write_measurements(
                    measurements, self, counts.schema, counts.geography, context.measurements
                )
            kept = None
            if context.workspace:
                made_from = content_digest(counts) + repr(self).encode()
                kept = FinishedLevels(context.workspace, run, made_from=made_from)
            made.append(
                descend(
                    schema=counts.schema,
                    geography=counts.geography,
                    settings=self,
                    measurements=measurements,
                    restrictions=restrictions,
                    engine=context.engine,
                    progress=context.progress,
                    finished=kept,
                    seconds=seconds,
                )
            )
        notes: dict[str, float | str] = {
            f"{level}: {what}": value
            for level, happened in made[0].notes.items()
            for what, value in happened.items()
        }
        if self.report_epsilon and self.loss is not None:
            notes |= self._report(counts, made[0], noise, run=runs.start)
        tables = {level: [one.tables[level] for one in made] for level in counts.geography.levels}
        return CountsOutcome(tables, notes, seconds)

    def _report(self, counts: Counts, made: Descent, noise: Noise, *, run: int) -> dict[str, float]:
        """The protected share of people whose record differs, with an upper bound (E18)."""
        released = made.tables[counts.geography.leaf]
        people = max(int(released.sum()), 1)  # a distance to nobody is still a number
        _, law = self._reported(counts.schema, counts.geography)
        distance = distance_to_truth(counts, released, law=law, noise=noise, run=run)
        reach = noise_quantile(law.rate, confidence=_CONFIDENCE)
        return {
            f"{REPORT}, share of people": distance / (2 * people),
            f"{REPORT}, upper bound at {_CONFIDENCE:.0%} confidence": (distance + reach)
            / (2 * people),
        }


def noise_quantile(rate: Fraction, *, confidence: float) -> int:
    """The smallest k with Pr[noise >= -k] >= confidence for two-sided geometric noise.

    Pr[noise < -k] = a^(k + 1) / (1 + a), where a = exp(-rate)
    """
    a = exp(-rate)
    missed = 1 - confidence
    return max(0, floor(log(missed * (1 + a)) / -float(rate)))
