"""Controlled rounding: the integers nearest to an estimate that keep every constraint."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import HeadcountError
from headcount.topdown.solve.batch import Batch
from headcount.topdown.solve.check import Violation, violations
from headcount.topdown.solve.nesting import Nesting, nesting

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
    method   int8[P]    a Method
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
    from headcount.topdown.solve import network

    checked_estimate(batch, x)
    whole, cost = np.empty(len(x), np.int64), np.empty(len(x), np.int64)
    network.split(np.maximum(x, 0.0), whole, cost)
    forest = nesting(batch)
    counts = np.full(len(x), -1, dtype=np.int64)
    method = np.full(batch.parents, RoundingMethod.NONE, dtype=np.int8)
    widened = np.zeros(batch.parents, dtype=bool)
    repairs = np.zeros(batch.parents, dtype=np.int64)
    todo = np.arange(batch.parents)
    for wide in (0, 1):
        widened[todo] = wide > 0
        status = _by_network(batch, forest, todo, whole, cost, wide, counts, repairs, threads)
        method[todo[status == network.GREEDY]] = RoundingMethod.GREEDY
        method[todo[status == network.REPAIRED]] = RoundingMethod.NETWORK
        solved = todo[status != network.IMPOSSIBLE]
        if not forest.nested:
            _by_mip(batch, _breaking(batch, counts, solved), whole, cost, wide, counts, method)
        todo = todo[method[todo] == RoundingMethod.NONE]
        if len(todo) == 0:
            break
    return settled(batch, counts, method, widened, repairs)


def checked_estimate(batch: Batch, x: Floats) -> Floats:
    """An estimate that can be rounded."""
    from headcount.topdown.solve import network

    if x.shape != batch.var_child.shape:
        raise HeadcountError(
            f"rounding: found {list(x.shape)} values, expected {list(batch.var_child.shape)}"
        )
    if not np.all((x >= -network.WHOLE) & (x < np.inf)):
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
    batch: Batch,
    forest: Nesting,
    todo: Ints,
    whole: Ints,
    cost: Ints,
    wide: int,
    counts: Ints,
    repairs: Ints,
    threads: int,
) -> NDArray[np.int8]:
    from headcount.topdown.solve import network

    status = np.empty(batch.parents, dtype=np.int8)
    kernel: Any = network.round_parents

    def work(parents: Ints) -> None:
        kernel(parents, batch.arrays, forest, whole, cost, wide, counts, status, repairs)

    map_parents(work, batch, todo, threads=threads)
    return status[todo]


def map_parents(work: Any, batch: Batch, parents: Ints, *, threads: int) -> None:
    """Call work(some parents) on as many threads as asked; kernels let go of the interpreter.

    Python's threads rather than numba's: they may be used from threads, and half the compiling.
    Stretches have about equal numbers of variables, four to a thread.
    """
    if threads <= 1 or len(parents) < 2:
        work(parents)
        return
    first = batch.var_start[batch.cell_start[:-1]][parents]
    last = batch.var_start[batch.cell_start[1:]][parents]
    load = np.cumsum(last - first + 1)
    cuts = np.searchsorted(load, load[-1] * np.arange(1, 4 * threads) / (4 * threads))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, np.split(parents, np.unique(cuts))))


def _breaking(batch: Batch, counts: Ints, solved: Ints) -> Ints:
    """Those among the solved parents whose counts break a bound outside the forest."""
    broken = {v.index for v in violations(batch, counts)}
    return np.array(sorted(broken & set(solved.tolist())), dtype=np.int64)


def _by_mip(
    batch: Batch,
    parents: Ints,
    whole: Ints,
    cost: Ints,
    wide: int,
    counts: Ints,
    method: NDArray[np.int8],
) -> None:
    from headcount.solve.mip import SolverError
    from headcount.topdown.solve.general_rounding import round_one

    for p in parents:
        part = slice(*batch.var_start[batch.cell_start[p : p + 2]])
        try:
            found = round_one(batch.one(int(p)), whole[part], cost[part], wide=wide)
        except SolverError as error:  # whoever asked can do without a nearest rounding
            _log.warning("rounding: parent %d: %s", batch.parent[p], error)
            found = None
        method[p] = RoundingMethod.NONE if found is None else RoundingMethod.MIP
        counts[part] = -1 if found is None else found


def _broken(batch: Batch, counts: Ints, method: NDArray[np.int8]) -> tuple[Violation, ...]:
    return tuple(v for v in violations(batch, counts) if method[v.index] != RoundingMethod.NONE)
