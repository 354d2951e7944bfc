"""Feasibility intervals of withheld cells: bound propagation, then linear and integer programs.

What is known of each cell is a range, and the relations of the cells (a total is the sum of its
parts) make it narrower. ``tighten`` is *bound propagation*, one relation at a time; ``intervals``
takes all relations at once, by two linear programs for each cell. Both serve withheld cells and,
with ranges around published values, counts that were changed (``feasible_intervals``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Ends, Flags, Floats, Ints
from headcount.errors import InputError
from headcount.solve.mip import Program, SolverError, load
from headcount.tabulate.additive import Additive

UNKNOWN = 1 << 40
"""Upper end of a cell about which nothing is published."""
UNBOUNDED = int(np.iinfo(np.int64).max)
"""The upper end of a cell that nothing published bounds from above."""
SLACK = 1e-6
PRIMAL = 4
"""HiGHS's number of the primal simplex."""


class Contradiction(InputError):
    """Published counts that no table can be behind, if what is known of them is right."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Intervals:
    """Withheld cells with the smallest and the largest count each may have."""

    cell: Ints
    low: Ints
    high: Ints

    @property
    def width(self) -> Ints:
        """Difference of the ends; 0 means that the cell is known."""
        return np.where(self.high == UNBOUNDED, UNBOUNDED, self.high - self.low)


def intervals(
    additive: Additive,
    published: ArrayLike,
    withheld: ArrayLike,
    *,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    cells: ArrayLike | None = None,
) -> Intervals:
    """The tightest interval of withheld cells by two linear programs each.

        min and max of y_i  subject to  A y = 0,  y_j = published_j,  low <= y <= high

    where
        published   counts; those at withheld cells are never looked at
        low, high   what else is known of withheld cells; by default 0 and nothing. An attacker who
                    knows that a 0 stands for 0, 1 or 2 gives 0 and 2.
        cells       which withheld cells to attack; by default all

    Ends are rounded inward to whole counts. The integer hull may be tighter still. Withheld cells
    that share no relation, directly or through others, are independent: each connected set has
    programs of its own. Published cells that contradict each other are an error.
    """
    hidden = np.asarray(withheld, dtype=bool)
    known = np.where(hidden, 0, np.asarray(published, dtype=np.int64))
    wanted = np.flatnonzero(hidden) if cells is None else np.asarray(cells, dtype=np.int64)
    if not hidden[wanted].all():
        raise InputError(
            "intervals", place="cells", found="cells that are published", expected="withheld cells"
        )
    lower = np.zeros(additive.size) if low is None else np.asarray(low, dtype=np.float64)
    upper = np.full(additive.size, np.inf) if high is None else np.asarray(high, dtype=np.float64)
    found_low = np.zeros(additive.size, dtype=np.int64)
    found_high = np.full(additive.size, UNBOUNDED)
    ask = np.zeros(additive.size, dtype=bool)
    ask[wanted] = True
    for part, matrix, right in connected(additive, hidden, known):
        if ask[part].any():
            solver = _solver(matrix, right, lower[part], upper[part])
            for i in np.flatnonzero(ask[part]):
                found_low[part[i]], found_high[part[i]] = _ends(solver, int(i), int(part[i]))
    return Intervals(cell=wanted, low=found_low[wanted], high=found_high[wanted])


def connected(additive: Additive, hidden: Flags, known: Ints) -> Iterator[tuple[Ints, Any, Floats]]:
    """Sets of withheld cells that hang together, with their relations and right-hand sides."""
    from scipy.sparse.csgraph import connected_components

    right = -(additive.matrix @ known).astype(np.float64)
    unknown = np.flatnonzero(hidden)
    matrix = additive.columns[:, unknown].tocsr()
    touched = np.diff(matrix.indptr) > 0
    broken = np.flatnonzero(~touched & (np.abs(right) > SLACK))
    if len(broken):
        raise _contradiction(int(additive.total[broken[0]]))
    matrix, right = matrix[touched], right[touched]
    # Two cells hang together if they share a relation: join each with the first of its relation.
    entry = np.repeat(matrix.indices[matrix.indptr[:-1]], np.diff(matrix.indptr))
    number, label = connected_components(_graph(entry, matrix.indices, len(unknown)))
    row_label = label[matrix.indices[matrix.indptr[:-1]]]
    columns = np.split(np.argsort(label, kind="stable"), _cuts(label, number))
    rows = np.split(np.argsort(row_label, kind="stable"), _cuts(row_label, number))
    for some, lines in zip(columns, rows, strict=True):
        yield unknown[some], matrix[lines].tocsc()[:, some], right[lines]


def _graph(one: Ints, other: Ints, size: int) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((np.ones(len(one), dtype=np.int8), (one, other)), shape=(size, size))


def _cuts(label: Ints, number: int) -> Ints:
    return np.cumsum(np.bincount(label, minlength=number))[:-1]


def _solver(matrix: Any, right: Floats, low: Any, high: Any) -> Any:
    return load(
        Program(
            cost=np.zeros(len(low)),
            low=low,
            high=high,
            matrix=matrix,
            row_low=right,
            row_high=right,
            integer=False,
        )
    )


def _ends(solver: Any, column: int, cell: int) -> tuple[int, int]:
    least = _least(solver, column, 1.0, cell)
    most = _least(solver, column, -1.0, cell)
    low = int(np.ceil(least - SLACK))
    high = UNBOUNDED if most == -np.inf else int(np.floor(-most + SLACK))
    if low > high:
        raise _contradiction(cell)
    return low, high


def _least(solver: Any, column: int, cost: float, cell: int) -> float:
    """The least of cost times one cell; the last basis is where the search begins."""
    import highspy

    solver.changeColCost(column, cost)
    solver.run()
    status = solver.getModelStatus()
    if status in (
        highspy.HighsModelStatus.kUnboundedOrInfeasible,
        highspy.HighsModelStatus.kUnknown,
    ):  # the primal simplex from the start tells whether anything bounds the cell
        solver.clearSolver()
        solver.setOptionValue("presolve", "off")
        solver.setOptionValue("simplex_strategy", PRIMAL)
        solver.run()
        status = solver.getModelStatus()
    value = solver.getInfo().objective_function_value
    solver.changeColCost(column, 0.0)
    if status == highspy.HighsModelStatus.kUnbounded:
        return -np.inf
    if status == highspy.HighsModelStatus.kInfeasible:
        raise _contradiction(cell)
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(f"HiGHS ended with status {status}, without a bound of the interval")
    return float(value)


def _contradiction(cell: int) -> Contradiction:
    return Contradiction(
        "published cells",
        place=f"around cell {cell}",
        found="counts that contradict each other",
        expected="a table of whole, non-negative counts that keeps every relation",
    )


def tighten(additive: Additive, low: Ints, high: Ints) -> Ends:
    """The ends that remain when no relation alone narrows a range any more.

    For a total t and its parts p of one relation

        sum low_p <= t <= sum high_p,
        low_t - sum of the others' high  <=  p  <=  high_t - sum of the others' low

    where
        low, high   of every cell; UNKNOWN where nothing bounds it from above

    Ranges are whole numbers and only shrink, so that this ends. Counts that contradict each other
    are an error, which gives no count.
    """
    low, high = low.astype(np.int64), np.minimum(high, UNKNOWN).astype(np.int64)
    total, part = additive.total, additive.part
    lengths = np.diff(additive.start)
    if not lengths.all():
        raise InputError("additive relations", found="a total without parts", expected="parts")
    own = np.repeat(np.arange(len(total)), lengths)
    while True:
        _refuse_contradiction(low, high)
        if not len(total):
            return low, high
        least = np.add.reduceat(low[part], additive.start[:-1])
        most = np.add.reduceat(high[part], additive.start[:-1])
        new_low, new_high = low.copy(), high.copy()
        np.maximum.at(new_low, total, least)
        np.minimum.at(new_high, total, most)
        np.maximum.at(new_low, part, low[total][own] - (most[own] - high[part]))
        rest = high[total][own] - (least[own] - low[part])
        np.minimum.at(new_high, part, np.where(high[total][own] >= UNKNOWN, UNKNOWN, rest))
        if np.array_equal(new_low, low) and np.array_equal(new_high, high):
            return low, high
        low, high = new_low, new_high


def _refuse_contradiction(low: Ints, high: Ints) -> None:
    if len(wrong := np.flatnonzero(low > high)):
        raise Contradiction(
            "published cells",
            place=f"around cell {wrong[0]}",
            found="ranges that contradict each other",
            expected="ranges that some table of whole, non-negative counts keeps; is what is "
            "known of the largest change right?",
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Near:
    """Some cells with the relations that hold among them alone.

    where
        additive   the same cells, numbered anew
        cell       the old number of each
    """

    additive: Additive
    cell: Ints


def near(additive: Additive, unit: int) -> Near:
    """The cells of a unit, its parent, its siblings and its children.

    Relations that reach farther are left out, so that ranges found with these alone may be wider
    than those of all relations, never too narrow.
    """
    parent = additive.parent
    above = parent[unit]
    close = (parent == unit) | (parent == above) & (above >= 0)
    close[[unit, above] if above >= 0 else [unit]] = True
    return among(additive, close[additive.unit])


def among(additive: Additive, inside: Flags) -> Near:
    """Some cells with the relations that hold among them alone."""
    lengths = np.diff(additive.start)
    own = np.repeat(np.arange(len(lengths)), lengths)
    outside = np.bincount(own, weights=~inside[additive.part], minlength=len(lengths)) > 0
    kept = inside[additive.total] & ~outside
    cell = np.flatnonzero(inside)
    number = np.full(additive.size, -1)
    number[cell] = np.arange(len(cell))
    return Near(
        additive=replace(
            additive,
            size=len(cell),
            total=number[additive.total[kept]],
            start=np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64),
            part=number[additive.part[kept[own]]],
            unit=additive.unit[cell],
        ),
        cell=cell,
    )
