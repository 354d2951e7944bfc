"""One level's plan: what is asked and what is bounded there, the same for all of its problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Floats, Ints, Ints8, Ints32
from headcount.schema import Schema
from headcount.tabulate import CELLS, Query
from headcount.topdown._joint import JointTotals
from headcount.topdown._passes import PassPlan, plan_passes
from headcount.topdown.planned import PlannedNoise
from headcount.topdown.restrict import Restriction, binding_groups
from headcount.topdown.settings import TopDownSettings
from headcount.topdown.solve.nesting import Nesting, bound_column, forest_of


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelPlan:
    """What the problems of a level have in common; no answers.

    Families are the queries measured or bounded at this level; see ``solve.batch.Batch``. Which
    bounds can bind in some unit, and how these nest, is decided here for the whole level: it must
    not matter which units a piece of work holds.

    where
        limits   the bounds of the bounded families, in the order of the families
        weight   of the detailed answers; 0 where they are not measured
        classes  where units have shares of their own: the weights of each, cells first, and which
                 of them each unit has
        passes   what is fitted and rounded first
        joint    totals that units have together
    """

    name: str
    families: tuple[str, ...]
    family_start: Ints
    group: Ints32
    family_weight: Floats
    bound_start: Ints
    limits: tuple[Restriction, ...]
    forest: Nesting
    weight: float
    passes: PassPlan
    classes: tuple[Floats, Ints8 | Ints32] | None = None
    joint: JointTotals | None = None

    @property
    def column(self) -> Ints32:
        """For each bounded family and cell, the column of the bounds on the cell's group."""
        bounded = np.diff(self.bound_start) > 0
        return bound_column(self.group, self.bound_start)[bounded].astype(np.int32)

    def bounds_of(self, units: Ints) -> tuple[Ints, Ints]:
        """Lower and upper bounds of some units, one column for each group of bounded families."""
        shape = (len(units), int(self.bound_start[-1]))
        low, high = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
        at = 0
        for one in self.limits:
            own = slice(at, at + one.low.shape[1])
            low[:, own], high[:, own] = one.low[units], one.high[units]
            at = own.stop
        return low, high

    def weights_of(self, units: Ints) -> tuple[Floats, Floats]:
        """The weights of the cells, and of the families, in some units."""
        if self.classes is None:
            return np.full(len(units), self.weight), np.tile(self.family_weight, (len(units), 1))
        weights, of_unit = self.classes
        own = weights[of_unit[units]]
        return np.ascontiguousarray(own[:, 0]), np.ascontiguousarray(own[:, 1:])

    def with_one_more(self) -> tuple[Floats, Ints8 | Ints32] | None:
        """The classes, with one family more that is not measured."""
        if self.classes is None:
            return None
        weights, of_unit = self.classes
        return np.pad(weights, ((0, 0), (0, 1))), of_unit

    def family_of(self, column: int) -> str:
        """The family that owns a column of bounds, for errors."""
        return self.families[int(np.searchsorted(self.bound_start, column, side="right")) - 1]


def prepare_level(
    level: str,
    *,
    schema: Schema,
    settings: TopDownSettings,
    planned: Mapping[tuple[str, str], PlannedNoise],
    restrictions: tuple[Restriction, ...],
    of_unit: Ints8 | None = None,
    joint: JointTotals | None = None,
) -> LevelPlan:
    """Set the queries that are measured at a level beside those that are bounded.

    ``of_unit`` is the number of the share that each unit has, where these differ; ``joint`` has
    totals of several units together.
    """
    bounds = {one.query.name: one for one in restrictions}
    queries: dict[str, Query] = {
        q.name: q for q in settings.marginals if (level, q.name) in planned
    }
    weight = [planned[level, name].weight for name in queries]
    queries |= {name: one.query for name, one in bounds.items()}
    sizes = np.array([query.size(schema) for query in queries.values()], dtype=np.int64)
    bounded = np.array([name in bounds for name in queries], dtype=bool)
    group = np.array([query.groups(schema) for query in queries.values()], dtype=np.int32)
    group = group.reshape(len(queries), schema.size)
    limits = tuple(bounds[name] for name in queries if name in bounds)
    bound_start = _starts(np.where(bounded, sizes, 0))
    binds = [binding_groups(one) for one in limits]
    binding = np.flatnonzero(np.concatenate([np.zeros(0, dtype=bool), *binds]))
    detail = planned.get((level, CELLS))
    classes = None
    if of_unit is not None:
        asked = [planned.get((level, name)) for name in (CELLS, *queries)]
        classes = class_weights(asked), of_unit
    return LevelPlan(
        name=level,
        families=tuple(queries),
        family_start=_starts(sizes),
        group=group,
        family_weight=np.array(weight + [0.0] * (len(queries) - len(weight))),
        bound_start=bound_start,
        limits=limits,
        forest=forest_of(binding, group=group, bound_start=bound_start),
        weight=detail.weight if detail is not None else 0.0,
        passes=plan_passes(settings, level, families=tuple(queries), schema=schema),
        classes=classes,
        joint=joint,
    )


def class_weights(asked: Sequence[PlannedNoise | None]) -> Floats:
    """For each share that units have, the weights of some queries; 0 where not measured."""
    number = max((len(one.classes) for one in asked if one is not None), default=1)
    weights = np.zeros((number, len(asked)))
    for column, one in enumerate(asked):
        for row, noise in enumerate(one.classes if one is not None else ()):
            weights[row, column] = 0.0 if noise is None else noise.weight
    return weights


def _starts(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
