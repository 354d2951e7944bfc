"""One level's part of the descent: its families, their answers and their bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Floats, Ints, Ints32
from headcount.geography import Geography
from headcount.mechanisms.topdown.measure import Measurements
from headcount.mechanisms.topdown.restrict import Restriction
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.schema import Schema
from headcount.solve.batch import NO_BOUND
from headcount.tabulate import CELLS, Query


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredLevel:
    """What least squares at one level needs besides the parents' estimate and detailed answers.

    Families are the queries measured or bounded at this level; see ``solve.batch.Batch``.
    """

    name: str
    families: tuple[str, ...]
    family_start: Ints
    group: Ints32
    family_weight: Floats
    margin: Floats
    low: Ints
    high: Ints
    weight: float
    """Weight of the detailed answers; 0 where they are not measured."""

    @property
    def column(self) -> Ints32:
        """For each family and cell, the column of ``margin``, ``low`` and ``high``."""
        return (self.group + self.family_start[:-1, None]).astype(np.int32)

    def family_of(self, column: int) -> str:
        """The family that owns a column, for errors."""
        return self.families[int(np.searchsorted(self.family_start, column, side="right")) - 1]


def prepare_level(
    level: str,
    *,
    schema: Schema,
    geography: Geography,
    settings: TopDownSettings,
    measurements: Measurements,
    restrictions: tuple[Restriction, ...],
) -> MeasuredLevel:
    """Draw the level's marginal answers and set them beside its bounds."""
    bounds = {one.query.name: one for one in restrictions}
    measured = [q for q in settings.marginals if measurements.noise_of(level, q.name) is not None]
    queries: dict[str, Query] = {q.name: q for q in measured}
    queries |= {name: one.query for name, one in bounds.items()}
    sizes = [query.size(schema) for query in queries.values()]
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    units = geography.size(level)
    margin = np.zeros((units, start[-1]))
    low = np.full((units, start[-1]), -NO_BOUND)
    high = np.full((units, start[-1]), NO_BOUND)
    weights = np.zeros(len(queries))
    for f, name in enumerate(queries):
        own = slice(start[f], start[f + 1])
        if (noise := measurements.noise_of(level, name)) is not None and queries[name] in measured:
            margin[:, own] = measurements.margin(level, name)
            weights[f] = noise.weight
        if name in bounds:
            low[:, own], high[:, own] = bounds[name].low, bounds[name].high
    detail = measurements.noise_of(level, CELLS)
    groups = [query.groups(schema) for query in queries.values()]
    return MeasuredLevel(
        name=level,
        families=tuple(queries),
        family_start=start,
        group=np.array(groups, dtype=np.int32).reshape(len(queries), schema.size),
        family_weight=weights,
        margin=margin,
        low=low,
        high=high,
        weight=detail.weight if detail is not None else 0.0,
    )
