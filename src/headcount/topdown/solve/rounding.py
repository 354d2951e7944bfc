"""Controlled rounding: the integers nearest to an estimate that keep every constraint.

Either at once, by the distance of every variable, or in passes to rounded targets, which is how the
2020 census made whole persons. With frac = x - floor(x), Q the queries of one pass and y in {0, 1}
the steps above the floor, a pass is to

    minimise    sum over Q of |Q y - round half even (Q frac)|
    subject to  sums over children, bounds, joint totals; earlier passes' queries as they came out

and later passes choose among what earlier ones leave open. Among equally near roundings that with
the least sum of (1 - 2 frac) y is taken; of what is still equal always the same one is taken, but
which one is a matter of the search and may change between versions. Where the queries of a pass
nest in each other, in the bounds and in the earlier queries, it is a min-cost flow (network.py);
otherwise HiGHS solves it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import HeadcountError
from headcount.solve.mip import SolverError
from headcount.topdown.solve.batch import (
    Batch,
    Partition,
    Violation,
    chain_forest,
    map_parents,
    nest,
    nesting,
    violations,
)
from headcount.topdown.solve.integer_programs import round_one, round_one_to_targets
from headcount.topdown.solve.network import (
    GREEDY,
    IMPOSSIBLE,
    REPAIRED,
    WHOLE,
    round_parents,
    round_to_targets,
    split,
)

_log = logging.getLogger(__name__)


class RoundingMethod(IntEnum):
    """How a parent was rounded."""

    GREEDY = 0
    """The nearest integers that add up keep every bound."""
    NETWORK = 1
    """Shortest paths repaired the bounds."""
    MIP = 2
    """Overlapping bounds: HiGHS."""
    NONE = 3
    """No rounding was found, even one step further; the counts are -1."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Rounded:
    """Integer counts with the way each parent took.

    counts   int64[V]
    method   int8[P]    a RoundingMethod
    widened  bool[P]    no rounding within floor and ceiling: the search went one step further
    repairs  int64[P]   shortest paths used
    broken   violations of the parents that have a rounding; must be empty
    """

    counts: Ints
    method: NDArray[np.int8]
    widened: Flags
    repairs: Ints
    broken: tuple[Violation, ...]

    def summary(self) -> dict[str, int]:
        """The counts that a receipt records for a level."""
        by = {method: int((self.method == method).sum()) for method in RoundingMethod}
        return {
            "rounded to the nearest": by[RoundingMethod.GREEDY],
            "rounded by network": by[RoundingMethod.NETWORK],
            "rounded by MIP": by[RoundingMethod.MIP],
            "rounded wider": int((self.widened & (self.method != RoundingMethod.NONE)).sum()),
            "without a rounding": by[RoundingMethod.NONE],
            "shortest paths": int(self.repairs.sum()),
        }


def round_batch(batch: Batch, x: Floats, *, threads: int = 1) -> Rounded:
    """Round every parent's estimate at the least L1 distance.

        minimise    sum (1 - 2 frac) y      over y in {0, 1}, counts = floor + y
        subject to  sum over children of counts = total; low <= margins of counts <= high

    A value within 1e-6 of an integer is that integer, and may move by one either way. Where the
    bounds nest this is a network problem, solved exactly on integer costs (network.py); where
    they overlap, the nested part is solved first, and a parent whose answer breaks another
    bound goes to HiGHS. Whoever has no such rounding is searched one step further.
    """
    _checked_estimate(batch, x)
    whole, cost = np.empty(len(x), np.int64), np.empty(len(x), np.int64)
    split(np.maximum(x, 0.0), whole, cost)
    forest = nesting(batch)
    counts = np.full(len(x), -1, dtype=np.int64)
    method = np.full(batch.parents, RoundingMethod.NONE, dtype=np.int8)
    widened = np.zeros(batch.parents, dtype=bool)
    repairs = np.zeros(batch.parents, dtype=np.int64)
    todo = np.arange(batch.parents)
    for wide in (0, 1):
        widened[todo] = wide > 0
        given = forest, whole, cost, wide, counts
        status = _by_network(round_parents, batch, todo, *given, repairs=repairs, threads=threads)
        method[todo[status == GREEDY]] = RoundingMethod.GREEDY
        method[todo[status == REPAIRED]] = RoundingMethod.NETWORK
        solved = todo[status != IMPOSSIBLE]
        if not forest.nested:
            alone = partial(_alone, whole=whole, cost=cost, wide=wide)
            _by_mip(batch, _breaking(batch, counts, solved), alone, counts, method)
        todo = todo[method[todo] == RoundingMethod.NONE]
        if len(todo) == 0:
            break
    return settled(batch, counts, method, widened, repairs)


def _checked_estimate(batch: Batch, x: Floats) -> Floats:
    """An estimate that can be rounded."""
    if x.shape != batch.var_child.shape:
        raise HeadcountError(
            f"rounding: found {list(x.shape)} values, expected {list(batch.var_child.shape)}"
        )
    if not np.all((x >= -WHOLE) & (x < np.inf)):
        raise HeadcountError("rounding: found values negative or not finite, expected neither")
    return x


def settled(
    batch: Batch, counts: Ints, method: NDArray[np.int8], widened: Flags, repairs: Ints
) -> Rounded:
    """The counts with what became of each parent, every constraint checked."""
    repairs[method == RoundingMethod.NONE] = 0
    return Rounded(
        counts=counts,
        method=method,
        widened=widened,
        repairs=repairs,
        broken=_broken(batch, counts, method),
    )


def _by_network(
    loop: Callable[..., None],
    batch: Batch,
    todo: Ints,
    *given: Any,
    repairs: Ints,
    threads: int,
) -> NDArray[np.int8]:
    """Round some parents by a loop of network.py; how each of them ended."""
    status = np.empty(batch.parents, dtype=np.int8)
    map_parents(
        lambda some: loop(some, batch.arrays, *given, status, repairs),
        batch,
        todo,
        threads=threads,
    )
    return status[todo]


def _breaking(batch: Batch, counts: Ints, solved: Ints) -> Ints:
    """Those among the solved parents whose counts break a bound outside the forest."""
    broken = {v.index for v in violations(batch, counts)}
    return np.array(sorted(broken & set(solved.tolist())), dtype=np.int64)


def _by_mip(
    batch: Batch,
    parents: Ints,
    rounded: Callable[[Batch, slice, slice], Ints | None],
    counts: Ints,
    method: NDArray[np.int8],
) -> Flags:
    """Round some parents by HiGHS, one by one; which of them have a rounding.

    ``rounded`` is given a parent's problem, and where its variables and children are in the batch.
    """
    for p in parents:
        part = slice(*batch.var_start[batch.cell_start[p : p + 2]])
        try:
            found = rounded(batch.one(int(p)), part, slice(*batch.child_start[p : p + 2]))
        except SolverError as error:  # whoever asked can do without a nearest rounding
            _log.warning("rounding: parent %d: %s", batch.parent[p], error)
            found = None
        method[p] = RoundingMethod.NONE if found is None else RoundingMethod.MIP
        counts[part] = -1 if found is None else found
    return np.asarray(method[parents] != RoundingMethod.NONE)


def _alone(one: Batch, part: slice, _: slice, *, whole: Ints, cost: Ints, wide: int) -> Ints | None:
    return round_one(one, whole[part], cost[part], wide=wide)


def _alone_to_targets(
    one: Batch,
    part: slice,
    kids: slice,
    *,
    x: Floats,
    queries: Sequence[Partition],
    held: Sequence[tuple[Partition, Ints]],
    wide: int,
) -> Ints | None:
    own = [(query, integers[kids]) for query, integers in held]
    return round_one_to_targets(one, x[part], queries, own, wide=wide)


def _broken(batch: Batch, counts: Ints, method: NDArray[np.int8]) -> tuple[Violation, ...]:
    return tuple(v for v in violations(batch, counts) if method[v.index] != RoundingMethod.NONE)


RoundPass: TypeAlias = tuple[Partition, ...]
"""The queries rounded in one pass, each as the group (0 ...) of every schema cell.

A query may stand twice: its distance then counts twice.
"""


def round_passes(
    batch: Batch,
    x: Floats,
    passes: Sequence[RoundPass],
    *,
    held: Sequence[tuple[Partition, Ints]] = (),
    threads: int = 1,
    network: bool = False,
) -> tuple[Rounded, tuple[Ints, ...]]:
    """Round every parent's estimate pass by pass; the last answer, and the counts after each.

    ``held`` has queries that are settled already, each with its integers (children, groups).
    ``network`` refuses queries that do not nest instead of handing them to HiGHS.
    """
    x = np.maximum(_checked_estimate(batch, x), 0.0)
    if not passes:
        raise HeadcountError("rounding: found no pass, expected one or more")
    counts = np.full(len(x), -1, dtype=np.int64)
    method = np.full(batch.parents, RoundingMethod.GREEDY, dtype=np.int8)
    widened = np.zeros(batch.parents, dtype=bool)
    repairs = np.zeros(batch.parents, dtype=np.int64)
    fixed, after = list(held), []
    for number, one in enumerate(passes):
        forest = chain_forest(batch, one, fixed)
        if forest is None and network:
            raise HeadcountError(
                f"rounding: found queries in pass {number + 1} that cross each other, a bound or "
                "an earlier query, expected queries that nest: only these make a network"
            )
        todo = np.flatnonzero(method != RoundingMethod.NONE)
        for wide in (0, 1):
            widened[todo] |= wide > 0
            if forest is None:
                alone = partial(_alone_to_targets, x=x, queries=one, held=fixed, wide=wide)
                done = _by_mip(batch, todo, alone, counts, method)
            else:
                paths, given = np.zeros_like(repairs), (forest, x, wide, counts)
                status = _by_network(
                    round_to_targets, batch, todo, *given, repairs=paths, threads=threads
                )
                done = np.not_equal(status, IMPOSSIBLE)
                repaired = todo[status == REPAIRED]
                method[repaired] = np.maximum(method[repaired], RoundingMethod.NETWORK)
                repairs[todo[done]] += paths[todo[done]]
            todo = todo[~done]
        if len(todo):
            method[todo] = RoundingMethod.NONE
            counts[np.isin(_parent_of_variable(batch), todo)] = -1
        after.append(counts.copy())
        if number < len(passes) - 1:
            fixed += [(query, margin_counts(batch, query, counts)) for query in one]
    return settled(batch, counts, method, widened, repairs), tuple(after)


def first_crossing(passes: Sequence[RoundPass], bounds: Sequence[Partition]) -> int | None:
    """The first pass (0 ...) with queries that cross each other, a bound or an earlier query.

    ``bounds`` has the bounded groups, -1 for cells in none. None if all nest.
    """
    layers = list(bounds)
    for number, one in enumerate(passes):
        layers += one
        if not nest(layers):
            return number
    return None


def margin_counts(batch: Batch, group: Partition, counts: Ints) -> Ints:
    """The sums of counts over the groups of a partition, int64[C, groups]."""
    shape = int(batch.child_start[-1]), int(group.max()) + 1
    cell = np.repeat(group[batch.cell], np.diff(batch.var_start))
    at = batch.var_child.astype(np.int64) * shape[1] + cell
    sums = np.bincount(at, counts, shape[0] * shape[1])  # exact: people are far below 2^53
    return sums.astype(np.int64).reshape(shape)


def _parent_of_variable(batch: Batch) -> Ints:
    return np.repeat(np.arange(batch.parents), np.diff(batch.var_start[batch.cell_start]))
