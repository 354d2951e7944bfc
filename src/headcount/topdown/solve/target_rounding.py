"""Rounding to rounded targets, in passes: how the 2020 census made whole persons.

With frac = x - floor(x), Q the queries of one pass and y in {0, 1} the steps above the floor,

    minimise    sum over Q of |Q y - round half even (Q frac)|
    subject to  sums over children, bounds, joint totals; earlier passes' queries as they came out

and later passes choose among what earlier ones leave open. Among equally near roundings that with
the least sum of (1 - 2 frac) y is taken; of what is still equal always the same one is taken, but
which one is a matter of the search and may change between versions. Where the queries of a pass
nest in each other, in the bounds and in the earlier queries, it is a network problem (_targets.py);
otherwise HiGHS solves it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import HeadcountError
from headcount.topdown.solve._chain import ChainForest, Partition, chain_forest, nest
from headcount.topdown.solve.batch import Batch
from headcount.topdown.solve.rounding import (
    Rounded,
    RoundingMethod,
    checked_estimate,
    map_parents,
    settled,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class RoundPass:
    """The queries rounded in one pass, each as the group (0 ...) of every schema cell.

    A query may stand twice: its distance then counts twice.
    """

    queries: tuple[Partition, ...]


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
    x = np.maximum(checked_estimate(batch, x), 0.0)
    if not passes:
        raise HeadcountError("rounding: found no pass, expected one or more")
    counts = np.full(len(x), -1, dtype=np.int64)
    method = np.full(batch.parents, RoundingMethod.GREEDY, dtype=np.int8)
    widened = np.zeros(batch.parents, dtype=bool)
    repairs = np.zeros(batch.parents, dtype=np.int64)
    fixed = list(held)
    after = []
    for number, one in enumerate(passes):
        forest = chain_forest(batch, one.queries, fixed)
        if forest is None and network:
            raise HeadcountError(
                f"rounding: found queries in pass {number + 1} that cross each other, a bound or "
                "an earlier query, expected queries that nest: only these make a network"
            )
        todo = np.flatnonzero(method != RoundingMethod.NONE)
        for wide in (0, 1):
            widened[todo] |= wide > 0
            if forest is None:
                done = _by_mip(batch, x, one, fixed, todo, wide, counts, method)
            else:
                done = _by_network(batch, x, forest, todo, wide, counts, method, repairs, threads)
            todo = todo[~done]
        if len(todo):
            method[todo] = RoundingMethod.NONE
            counts[np.isin(_parent_of_variable(batch), todo)] = -1
        after.append(counts.copy())
        if number < len(passes) - 1:
            fixed += [(query, margin_counts(batch, query, counts)) for query in one.queries]
    return settled(batch, counts, method, widened, repairs), tuple(after)


def first_crossing(passes: Sequence[RoundPass], bounds: Sequence[Partition]) -> int | None:
    """The first pass (0 ...) with queries that cross each other, a bound or an earlier query.

    ``bounds`` has the bounded groups, -1 for cells in none. None if all nest.
    """
    layers = list(bounds)
    for number, one in enumerate(passes):
        layers += one.queries
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


def target_distance(batch: Batch, x: Floats, counts: Ints, one: RoundPass) -> Ints:
    """How far counts are from the rounded targets of a pass, int64[P]."""
    owner = np.repeat(np.arange(batch.parents), np.diff(batch.child_start))
    cell = np.repeat(batch.cell, np.diff(batch.var_start))
    whole = np.floor(x).astype(np.int64)
    out = np.zeros(batch.parents, np.int64)
    for group in one.queries:
        parts = np.zeros((int(batch.child_start[-1]), int(group.max()) + 1))
        np.add.at(parts, (batch.var_child, group[cell]), x - whole)
        away = margin_counts(batch, group, counts - whole) - np.rint(parts).astype(np.int64)
        np.add.at(out, owner, np.abs(away).sum(axis=1))
    return out


def _parent_of_variable(batch: Batch) -> Ints:
    return np.repeat(np.arange(batch.parents), np.diff(batch.var_start[batch.cell_start]))


def _by_network(
    batch: Batch,
    x: Floats,
    forest: ChainForest,
    todo: Ints,
    wide: int,
    counts: Ints,
    method: NDArray[np.int8],
    repairs: Ints,
    threads: int,
) -> Flags:
    """Round some parents; which of them have a rounding."""
    from headcount.topdown.solve import _targets, network

    status = np.empty(batch.parents, dtype=np.int8)
    paths = np.zeros(batch.parents, dtype=np.int64)
    kernel: Any = _targets.round_to_targets

    def work(parents: Ints) -> None:
        kernel(parents, batch.arrays, forest, x, wide, counts, status, paths)

    map_parents(work, batch, todo, threads=threads)
    done: Flags = np.not_equal(status[todo], network.IMPOSSIBLE)
    repaired = todo[status[todo] == network.REPAIRED]
    method[repaired] = np.maximum(method[repaired], RoundingMethod.NETWORK)
    repairs[todo[done]] += paths[todo[done]]
    return done


def _by_mip(
    batch: Batch,
    x: Floats,
    one: RoundPass,
    held: Sequence[tuple[Partition, Ints]],
    todo: Ints,
    wide: int,
    counts: Ints,
    method: NDArray[np.int8],
) -> Flags:
    """Round some parents by HiGHS; which of them have a rounding."""
    from headcount.solve.mip import SolverError
    from headcount.topdown.solve.target_programs import round_one_to_targets

    done = np.zeros(len(todo), dtype=bool)
    for k, p in enumerate(todo):
        part = slice(*batch.var_start[batch.cell_start[p : p + 2]])
        kids = slice(*batch.child_start[p : p + 2])
        own = [(query, integers[kids]) for query, integers in held]
        try:
            found = round_one_to_targets(batch.one(int(p)), x[part], one.queries, own, wide=wide)
        except SolverError as error:  # whoever asked can do without a nearest rounding
            _log.warning("rounding: parent %d: %s", batch.parent[p], error)
            found = None
        if found is not None:
            counts[part], method[p], done[k] = found, RoundingMethod.MIP, True
    return done
