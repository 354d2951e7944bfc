"""What is fitted and rounded first at a level: the settings' passes, made ready for the solvers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from headcount.arrays import Floats, Ints32
from headcount.errors import ConfigError, one_of
from headcount.geography import Geography
from headcount.privacy import Allocation
from headcount.schema import Schema
from headcount.tabulate import CELLS
from headcount.topdown.choices import LevelPasses
from headcount.topdown.restrict import Restriction, Restrictions, binding_groups
from headcount.topdown.settings import TopDownSettings

if TYPE_CHECKING:
    from headcount.topdown.solve.batch import Batch
    from headcount.topdown.solve.leastsquares import Solved
    from headcount.topdown.solve.passes import FitPass
    from headcount.topdown.solve.rounding import Rounded, RoundPass


@dataclass(frozen=True, eq=False)
class PassPlan:
    """The passes of a level; without any, least squares over all answers and rounding by cells.

    One thread each, because engines run pieces side by side.
    """

    fit: tuple[FitPass, ...] = ()
    round: tuple[RoundPass, ...] = ()

    def fitted(self, batch: Batch) -> Solved:
        """Least squares, pass by pass."""
        from headcount.topdown.solve.passes import fit_passes

        return fit_passes(batch, self.fit, threads=1)

    def rounded(self, batch: Batch, x: Floats) -> Rounded:
        """Whole persons, pass by pass."""
        from headcount.topdown.solve.rounding import round_batch, round_passes

        if not self.round:
            return round_batch(batch, x, threads=1)
        rounded, _ = round_passes(batch, x, self.round, threads=1)
        return rounded


def plan_passes(
    settings: TopDownSettings, level: str, *, families: Sequence[str], schema: Schema
) -> PassPlan:
    """The passes of a level, with queries by their place in its problems, or as partitions."""
    from headcount.topdown.solve.passes import FitPass

    if (chosen := dict(settings.passes).get(level)) is None:
        return PassPlan()
    fit = (
        FitPass(
            families=tuple(families.index(query) for query in one if query != CELLS),
            detail=CELLS in one,
            within=float(chosen.within),
        )
        for one in chosen.fit
    )
    return PassPlan(tuple(fit), _round_plan(settings, chosen, schema))


def _round_plan(
    settings: TopDownSettings, chosen: LevelPasses, schema: Schema
) -> tuple[RoundPass, ...]:
    """The passes of rounding, each query as a partition of the cells."""
    from headcount.topdown.solve.rounding import RoundPass

    def partition(query: str) -> Ints32:
        if query == CELLS:
            return np.arange(schema.size, dtype=np.int32)
        return settings.query(query).groups(schema).astype(np.int32)

    return tuple(RoundPass(tuple(map(partition, one))) for one in chosen.round)


def refuse_passes(settings: TopDownSettings, geography: Geography) -> None:
    """Refuse passes that name what is not there, or leave out what is paid for."""
    refuse_unmeasured(settings, settings.allocation(geography))


def refuse_unmeasured(settings: TopDownSettings, allocation: Allocation) -> None:
    """Refuse passes over what has no share, or without what has one."""
    known = [CELLS, *(query.name for query in settings.marginals)]
    for level, chosen in settings.passes:
        measured = allocation.queries_at(level)
        for one in chosen.fit:
            for query in one:
                if query not in measured:
                    _refuse(
                        level, "fit", f"{query!r}", f"a query measured there: {one_of(measured)}"
                    )
        fitted = {query for one in chosen.fit for query in one}
        if chosen.fit and (left := [query for query in measured if query not in fitted]):
            _refuse(level, "fit", f"{left[0]!r} in no pass", "each measured query in one")
        for one in chosen.round:
            for query in one:
                if query not in known:
                    _refuse(level, "round", repr(query), f"a query: {one_of(known)}")


def refuse_crossing(settings: TopDownSettings, restrictions: Restrictions, schema: Schema) -> None:
    """Refuse, where a level asks for queries that nest, some that cross each other or a bound."""
    from headcount.topdown.solve.rounding import first_crossing

    for level, chosen in settings.passes:
        if not chosen.nested:
            continue
        bounds = [_bounded(one, schema) for one in restrictions[level]]
        number = first_crossing(_round_plan(settings, chosen, schema), bounds)
        if number is not None:
            _refuse(
                level,
                "round",
                f"queries in pass {number + 1} that cross each other, a bound or an earlier query",
                "queries that nest, as nested = true asks",
            )


def _bounded(restriction: Restriction, schema: Schema) -> Ints32:
    """The group of each cell, numbered among those with a bound that can bind; -1 for others."""
    binds = binding_groups(restriction)
    number = np.where(binds, np.cumsum(binds) - 1, -1)
    return number[restriction.query.groups(schema)].astype(np.int32)


def _refuse(level: str, key: str, found: str, expected: str) -> NoReturn:
    raise ConfigError("topdown", place=f"passes.{level}.{key}", found=found, expected=expected)
