"""TopDown bound to a domain: what it measures, with which noise, and what that promises.

And what if: the settings with another loss or other shares, or with shares that suit a goal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.domain import Domain
from headcount.errors import ConfigError, one_of
from headcount.fields import Pairs
from headcount.geography import Geography
from headcount.geography.spine import NamedArea
from headcount.mechanisms import (
    COPIES,
    SCALAR,
    Design,
    ExpectedError,
    LinearError,
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
from headcount.tabulate import CELLS, TOTAL, Query, every_cell
from headcount.topdown._pool import PoolPlan
from headcount.topdown.accuracy import ExpectedErrors
from headcount.topdown.answers import Classes, Planned, unit_classes
from headcount.topdown.choices import refuse_passes
from headcount.topdown.linear.shares import Goal, SharesProblem, refuse_unfounded
from headcount.topdown.restrict import exact_counts, exact_statements, neighbours_in_words
from headcount.topdown.settings import TopDownSettings, planned_noise

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

    @cached_property
    def asked(self) -> tuple[Query, ...]:
        """Its own queries, the total among them."""
        marginals = self.settings.marginals
        total = () if any(not one.by for one in marginals) else (TOTAL,)
        return (*total, *marginals, every_cell(self.domain.schema))

    def expected_errors(self) -> tuple[ExpectedError, ...]:
        """Those of well-filled tables; none along a spine, or with bounds or passes.

        Nothing linear says how far off counts are that bounds cut, or that are fitted in turn.
        """
        settings = self.settings
        if self.spine is not None or settings.bounds or settings.passes or settings.loss is None:
            return ()
        return self.errors.released(self.asked)

    @property
    def weighed(self) -> TopDownDesign:
        """Its own answers."""
        return self

    def of_areas(self, areas: Sequence[NamedArea], geography: Geography) -> tuple[LinearError, ...]:
        """Every query in some unions of units."""
        return self.errors.of_areas(areas, geography)

    def what_if(self, amounts: Mapping[str, Fraction]) -> TopDown:
        """With another loss, or other shares of levels and queries."""
        return _with_changes(self, amounts)

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
        neighbours=mechanism.neighbours,
        exact=exact_counts(settings, domain.geography),
        public_text=mechanism.public_text,
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


PARTS = 100_000
"""Suggested shares are rounded to parts of this."""


def _with_changes(design: TopDownDesign, amounts: Mapping[str, Fraction]) -> TopDown:
    """Settings with another loss, or other shares of some levels or queries and less for the rest.

    ``rho``, ``epsilon``, ``levels.NAME`` or ``queries.NAME``: every named share is as it says, and
    shares of all others keep their proportions, so that everything still adds up to 1.
    """
    settings, tree = design.settings, design.tree
    shares: dict[str, dict[str, Fraction]] = {"levels": {}, "queries": {}}
    for key, amount in amounts.items():
        kind, _, name = key.partition(".")
        if kind in shares and name:
            shares[kind][name] = amount
        elif key not in ("rho", "epsilon"):
            raise ConfigError(
                "plan",
                place="--set",
                found=repr(key),
                expected="rho, epsilon, levels.NAME or queries.NAME",
            )
    if "rho" in amounts and "epsilon" in amounts:
        raise ConfigError("plan", place="--set", found="rho and epsilon", expected="one of them")
    if "rho" in amounts:
        settings = replace(settings, rho=amounts["rho"], epsilon=None)
    if "epsilon" in amounts:
        settings = replace(settings, epsilon=amounts["epsilon"], rho=None)
    if levels := shares["levels"]:
        known = _levels(settings, tree)
        settings = replace(settings, levels=Pairs.of(_shifted(known, levels, kind="levels")))
    if queries := shares["queries"]:
        settings = _with_queries(settings, queries)
    return settings


def _with_queries(settings: TopDown, named: Mapping[str, Fraction]) -> TopDown:
    """Other shares of queries, also at levels with shares of their own that ask them."""
    shares = _shifted(dict(settings.query_shares), named, kind="queries")
    queries = {
        one: replace(query, share=shares[one]) if one in shares else query
        for one, query in settings.queries
    }
    levels = {}
    for level, own in settings.level_queries:
        here = {name: amount for name, amount in named.items() if name in dict(own)}
        levels[level] = (
            Pairs.of(_shifted(dict(own), here, kind="queries", at=f" at {level}")) if here else own
        )
    return replace(settings, queries=Pairs.of(queries), level_queries=Pairs.of(levels))


def suggested(
    design: TopDownDesign, goal: Goal, wanted: Mapping[tuple[str, str], float] | None = None
) -> TopDown:
    """Settings with shares that suit a goal; see topdown/linear/shares.py.

    where
        wanted   the importance of levels and queries, by names; by default of all alike
    """
    if goal == "minimax" and wanted is not None and len(set(wanted.values())) > 1:
        raise ConfigError(
            "plan",
            place="goal",
            found="'minimax' with some answers more important than others",
            expected="'balanced', or the same importance for all: the largest ratio has no weights",
        )
    settings, tree, errors = design.settings, design.tree, design.errors
    allocation, planned = settings.allocation(tree), design.planned
    problem = SharesProblem(
        errors.tree,
        errors.components,
        measured={
            (tree.depth(level), query): (
                float(allocation.share(level=level, query=query)),
                planned[level, query].weight,
            )
            for level, query in allocation.measured
        },
        wanted={},
        power=1 if settings.rho is not None else 2,
    )
    refuse_unfounded(problem)
    problem = replace(problem, wanted=_wanted(problem, tree, wanted))
    return _with_shares(settings, tree, problem.suggest(goal))


def _wanted(
    problem: SharesProblem, tree: Geography, named: Mapping[tuple[str, str], float] | None
) -> dict[tuple[int, str], float]:
    """Depths and queries with their importance: all that are not exact, or those that are named."""
    open_ = problem.not_exact()
    if named is None:
        return dict.fromkeys(open_, 1.0)
    known = {(tree.levels[depth], query): (depth, query) for depth, query in open_}
    for level, query in named:
        if (level, query) not in known:
            raise ConfigError(
                "plan",
                place="goal",
                found=f"{query!r} at {level!r}",
                expected=one_of([f"{query!r} at {level!r}" for level, query in known]),
            )
    return {known[pair]: importance for pair, importance in named.items()}


def _with_shares(
    settings: TopDown, tree: Geography, shares: Mapping[tuple[int, str], float]
) -> TopDown:
    """Settings with other shares, rounded to decimals that add up to exactly 1."""
    exact_shares = {
        pair: Fraction(max(1, round(share * PARTS)), PARTS) for pair, share in shares.items()
    }
    largest = max(exact_shares, key=lambda pair: exact_shares[pair])
    exact_shares[largest] += 1 - sum(exact_shares.values())
    levels, queries = {}, {}
    for depth, level in enumerate(tree.levels):
        own = {query: share for (at, query), share in exact_shares.items() if at == depth}
        if own:
            levels[level] = sum(own.values(), Fraction(0))
            queries[level] = Pairs.of(
                {query: share / levels[level] for query, share in own.items()}
            )
    return replace(settings, levels=Pairs.of(levels), level_queries=Pairs.of(queries))


def _levels(settings: TopDown, tree: Geography) -> dict[str, Fraction]:
    """The shares of all levels that have one."""
    allocation = settings.allocation(tree)
    shares = {level: allocation.level_share(level) for level in tree.levels}
    return {level: share for level, share in shares.items() if share}


def _shifted(
    shares: Mapping[str, Fraction], named: Mapping[str, Fraction], *, kind: str, at: str = ""
) -> dict[str, Fraction]:
    """Shares with the named ones set, the others in proportion."""
    for name, amount in named.items():
        if name not in shares:
            found, expected = repr(f"{kind}.{name}"), one_of(list(shares))
            raise ConfigError("plan", place="--set", found=found, expected=expected)
        if not 0 < amount < 1:
            raise ConfigError(
                "plan",
                place="--set",
                found=f"{kind}.{name} = {amount}",
                expected="a share between 0 and 1",
            )
    rest, left = 1 - sum(named.values()), [one for one in shares if one not in named]
    if rest < 0 or (rest == 0) != (not left):
        less = f"less than 1, which leaves something for {', '.join(map(repr, left))}"
        raise ConfigError(
            "plan",
            place="--set",
            found=f"{kind}{at} with shares that add up to {1 - rest}",
            expected=less if left else "exactly 1: no other has a share",
        )
    before = sum(shares[one] for one in left)
    return {
        one: named[one] if one in named else share * rest / before for one, share in shares.items()
    }
