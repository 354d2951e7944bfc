"""TopDown bound to a domain: what it measures, with which noise, and what that promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.domain import Domain
from headcount.geography import Geography
from headcount.geography.spine import NamedArea
from headcount.mechanisms import (
    COPIES,
    SCALAR,
    Design,
    ExpectedError,
    PlannedMeasurement,
    Pooling,
    guarantee_of,
    law_of_all,
    losses_of,
    measure_cells,
    total_loss,
)
from headcount.noise import TwoSidedGeometric
from headcount.privacy import Guarantee, Loss, UnitOfPrivacy, ZCDPLoss, zcdp_to_approximate
from headcount.privacy.loss import MeasuredLoss, attribute_losses, leaf_losses
from headcount.schema import Recode, Schema
from headcount.tabulate import CELLS, Query
from headcount.topdown._neighbours import neighbours_in_words
from headcount.topdown._passes import refuse_passes
from headcount.topdown._pool import PoolPlan
from headcount.topdown.accuracy import ExpectedErrors
from headcount.topdown.answers import Classes, Planned, unit_classes
from headcount.topdown.linear.shares import Goal
from headcount.topdown.planned import planned_noise
from headcount.topdown.restrict import exact_counts, exact_statements
from headcount.topdown.settings import TopDownSettings
from headcount.topdown.what_if import suggested, with_changes

if TYPE_CHECKING:
    from headcount.topdown.mechanism import TopDown

DELTA = "1e-10"
"""At which the Census Bureau stated its epsilons."""
ON_SPINE = (
    "units of the spine, not published places: a move costs the line of the smallest unit of the "
    "spine that holds both ends, which can be larger than the published place that holds both"
)


def _certificate_of(
    settings: TopDownSettings,
    plan: Sequence[PlannedMeasurement],
    schema: Schema,
    geography: Geography,
    *,
    unit: UnitOfPrivacy,
) -> dict[str, Any]:
    """The whole loss, that of each attribute, and that of a leaf within a unit of each level.

    Where the number of records of every leaf is exact no neighbour moves one to another leaf, and
    nothing is said of leaves within larger units.

    where
        plan        what is measured
        geography   the tree that is measured
    """
    measured = [
        MeasuredLoss(level=one.level, query=one.query, loss=loss, paths=one.paths)
        for one, loss in zip(plan, losses_of(plan, unit), strict=True)
        if loss is not None
    ]
    shows = dict.fromkeys((one.query for one in plan), schema.names)  # cells, and the report
    shows |= {query.name: _shown(query, schema) for query in settings.marginals}
    whole = total_loss(plan, unit)
    assert whole is not None  # settings that measure nothing have no certificate
    said: dict[str, Any] = {
        "unit": str(unit),
        "whole": _stated(whole),
        "of a change of one attribute": {
            name: _stated(loss) for name, loss in attribute_losses(measured, shows=shows).items()
        },
    }
    if any(one.level == geography.leaf for one in settings.invariant):
        return said
    said[f"of a {geography.leaf} within"] = {
        level: _stated(loss)
        for level, loss in leaf_losses(measured, levels=geography.levels).items()
    }
    if settings.spine:
        said["places are"] = ON_SPINE
    return said


def _shown(query: Query, schema: Schema) -> tuple[str, ...]:
    """The attributes of the schema that a query goes by."""
    axes = query.on(schema).by
    return tuple(axis.source.name if isinstance(axis, Recode) else str(axis) for axis in axes)


def _stated(loss: Loss) -> dict[str, Any]:
    """A loss as text of an exact fraction; a rho also as an epsilon, with how that was found."""
    said: dict[str, Any] = {str(loss.currency): str(loss.amount)}
    if isinstance(loss, ZCDPLoss):
        found = zcdp_to_approximate(loss, delta=DELTA)
        said |= {f"epsilon at delta {DELTA}": float(found.value.amount), "by": found.method}
    return said


REPORT = "distance to the truth"


@dataclass(frozen=True, kw_only=True, eq=False)
class TopDownDesign(Design):
    """Settings bound to the places that are measured.

    where
        settings   completed: every query by name
        planned    the noise of each measured level and query
        classes    which share of the loss each unit has
    """

    settings: TopDown
    planned: Planned
    classes: Classes

    @property
    def receipt(self) -> Mapping[str, Any]:
        """The settings, by which errors can be estimated from the release; and the certificate."""
        assert isinstance(self.method, TopDownSettings)  # as the user wrote them
        written = {"settings": self.method.to_json()}
        return {**written, "certificate": self.certificate} if self.certificate else written

    @cached_property
    def certificate(self) -> Mapping[str, Any]:
        """What of the loss concerns one attribute, and a leaf within a larger place."""
        if (loss := self.settings.loss) is None:
            return {}
        schema = self.domain.schema
        return _certificate_of(self.settings, self.plan, schema, self.tree, unit=loss.unit)

    @cached_property
    def pool_plan(self) -> PoolPlan:
        """Which answers are pooled with those of the levels below."""
        return PoolPlan.of(
            self.settings,
            self.domain.schema,
            self.tree,
            planned=self.planned,
            classes=self.classes,
            published=self.domain.geography,
        )

    @property
    def pooling(self) -> Pooling | None:
        """Every answer of the levels that take part, and a float for each pooled one."""
        if not self.settings.pool:
            return None
        plan = self.pool_plan
        return Pooling(
            answers=plan.drawn(self.tree),
            bytes=plan.numbers(self.tree) * SCALAR,
            words=plan.from_words,
        )

    @property
    def table_bytes(self) -> int:
        """Marginals are dense; cells are drawn where they are asked for."""
        return max(self._streams(cells=False), default=0) * SCALAR * COPIES

    @property
    def drawn_bytes(self) -> int:
        """Every stream in full."""
        return sum(self._streams(cells=True)) * SCALAR

    def _streams(self, *, cells: bool) -> Iterator[int]:
        """Scalars in each stream."""
        schema = self.domain.schema
        for level, query in self.planned:
            if query != CELLS:
                yield self.tree.size(level) * self.settings.query(query).size(schema)
            elif cells:
                yield self.tree.size(level) * schema.size

    @cached_property
    def errors(self) -> ExpectedErrors:
        """What the answers tell of the tree, before and after they are put together."""
        return ExpectedErrors.of(self)

    def expected_errors(self) -> tuple[ExpectedError, ...]:
        """Every level and query: as drawn, pooled, and by the best linear estimate (BLUE)."""
        return self.errors.by_level()

    def expected_in(self, areas: Sequence[NamedArea]) -> tuple[ExpectedError, ...]:
        """Every query in some unions of units."""
        return self.errors.of_areas(areas, self.domain.geography)

    def what_if(self, amounts: Mapping[str, Fraction]) -> TopDown:
        """With another loss, or other shares of levels and queries."""
        return with_changes(self, amounts)

    def suggested(
        self, goal: Goal, wanted: Mapping[tuple[str, str], float] | None = None
    ) -> TopDown:
        """With shares that suit a goal."""
        return suggested(self, goal, wanted)


def design_of(mechanism: TopDown, domain: Domain) -> TopDownDesign:
    """TopDown on a domain: every level x query with a share, and the report."""
    tree = mechanism.tree(domain.geography)
    settings = mechanism.completed(domain.schema, tree)
    settings.refuse_unknown_names(domain.schema, tree)
    refuse_passes(settings, tree)
    planned = planned_noise(settings, domain.schema, tree)
    plan: tuple[PlannedMeasurement, ...] = ()
    guarantee = Guarantee.none("no noise is added: epsilon is infinite")
    if settings.loss is not None:
        plan = tuple(_measurements(settings, domain, planned))
        if settings.report_epsilon:
            distance, law = reported(settings, domain)
            plan = (*plan, replace(distance, law=law))
        guarantee = in_words(guarantee_of(plan, first=settings.loss.unit), settings, domain)
    return TopDownDesign(
        method=mechanism,
        domain=domain,
        spine=None if tree is domain.geography else tree,
        guarantee=replace(guarantee, method=mechanism.method),
        plan=plan,
        exact=exact_counts(settings, domain.geography),
        settings=settings,
        planned=planned,
        classes=unit_classes(settings, tree),
    )


def _measurements(
    settings: TopDownSettings, domain: Domain, planned: Planned
) -> Iterator[PlannedMeasurement]:
    """Every level x query with a share; where units have shares of their own, each of these."""
    tree = settings.tree(domain.geography)
    shares = settings.unit_shares(tree)
    for (level, query), noise in planned.items():
        if noise.law is None:
            continue
        whole = PlannedMeasurement(
            level=level,
            query=query,
            entries=noise.entries,
            law=noise.law,
            steps=settings.steps_of(query, domain.schema),
            largest_household=settings.largest_household,
            of_housing_units=settings.unit.of_housing_unit,
        )
        if shares is None:
            yield whole
            continue
        depth, units = tree.depth(level), tree.size(level)
        sizes = np.bincount(shares.classes(level)[1], minlength=len(noise.classes))
        for number, one in enumerate(noise.classes):
            if one is not None and one.law is not None and sizes[number]:
                yield replace(
                    whole,
                    entries=noise.entries // units * int(sizes[number]),
                    law=one.law,
                    among=noise.entries,
                    paths=frozenset(
                        k for k, path in enumerate(shares.paths) if path[depth] == number
                    ),
                )


def reported(
    settings: TopDownSettings, domain: Domain
) -> tuple[PlannedMeasurement, TwoSidedGeometric]:
    """The distance to the truth, and the noise that ``report_epsilon`` buys for it."""
    cells = measure_cells(domain, domain.leaf, neighbours=settings.neighbours)
    distance = replace(cells, query=REPORT, distance=True)
    unit, name = settings.neighbours.unit, f"topdown: {REPORT}"
    return distance, law_of_all(settings.report_epsilon, unit=unit, plan=[distance], name=name)


def in_words(losses: Guarantee, settings: TopDownSettings, domain: Domain) -> Guarantee:
    """Losses, with what a neighbour is and what is released exactly.

    Where nothing is, the loss under the other unit stands beside the chosen one. What is released
    exactly may leave no two neighbours of the other unit, and a loss for none would mislead.
    """
    geography = domain.geography
    stated = losses.meaning(
        *settings.neighbours.statements(domain.schema), *neighbours_in_words(settings, geography)
    )
    exact = exact_statements(settings)
    if not exact:
        return stated
    if not settings.unit.of_housing_unit:  # whoever moves leaves all housing units where they are
        stated = replace(stated, losses=stated.losses[:1])
    beyond = "databases that differ in what is released without noise"
    return replace(stated.also_exact(*exact), not_covered=(*stated.not_covered, beyond))
