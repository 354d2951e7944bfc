"""Tables that contradict each other: which cells must move, and by how much at least.

    minimise    sum of w (under + over)
    subject to  low <= A x + under - over <= high,   x whole numbers, under, over >= 0

where A adds the unknown counts up to the published cells, [low, high] is what a cell says, and w
is the weight of its table. A cell with under or over must move down or up by that much.

There are far more unknowns than can matter. The linear relaxation starts with those that no
published zero rules out, and takes in others as long as their reduced cost d is negative (column
generation). With B its optimum and P the price of the best whole numbers found, a cheaper solution
has no unknown with B + d > P - step, where prices are multiples of step: an integer program on the
remaining unknowns is a proof for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.attacks._solvers import solve_program
from headcount.attacks.knowledge import UNKNOWN, KnownTable
from headcount.solve.mip import DONE, Program, SolverError
from headcount.solve.worker import run_here


@dataclass(frozen=True, kw_only=True)
class CellChange:
    """A published cell that must move for the tables to agree."""

    unit: str
    level: str
    table: str
    cell: tuple[str, ...]
    low: int
    high: int
    by: int

    def __str__(self) -> str:
        said = str(self.low) if self.low == self.high else f"{self.low} to {self.high}"
        name = " / ".join(self.cell) or "total"
        return f"{self.level} {self.unit}, {self.table} {name}: {said} must move by {self.by:+d}"


@dataclass(frozen=True, eq=False)
class Fix:
    """The least change: new ends of every cell, how far each moved, and whether it is proven."""

    low: Ints
    high: Ints
    by: Ints
    proven: bool


@dataclass(frozen=True, eq=False)
class Sums:
    """Cells as sums of unknowns: those of each leaf, one leaf after the other, then of units above.

    where
        own      sparse 0/1 (cells of a leaf x classes), the same for each leaf
        leaves   how many
        above    for each level: sparse 0/1 (cells of a unit x classes), the position of each
                 leaf's unit, and how many units there are
    """

    own: Any
    leaves: int
    above: tuple[tuple[Any, Ints, int], ...] = ()

    def by_class(self, values: Floats) -> Floats:
        """A value for each cell summed over the cells of each unknown (leaves x classes)."""
        size = self.leaves * self.own.shape[0]
        made = (self.own.T @ values[:size].reshape(self.leaves, -1).T).T
        for matrix, position, units in self.above:
            part = values[size : size + units * matrix.shape[0]].reshape(units, -1)
            made = made + (matrix.T @ part.T).T[position]
            size += part.size
        return np.asarray(made, dtype=np.float64)

    def columns(self, leaf: Ints, kind: Ints) -> Any:
        """Sparse (cells x some unknowns), each by its leaf and its class."""
        from scipy.sparse import csc_array, vstack

        parts = [_placed(csc_array(self.own)[:, kind], leaf, self.leaves)]
        for matrix, position, units in self.above:
            parts.append(_placed(csc_array(matrix)[:, kind], position[leaf], units))
        return vstack(parts, format="csc")


def _placed(columns: Any, unit: Ints, units: int) -> Any:
    """Columns moved down to the rows of their unit."""
    from scipy.sparse import coo_array

    entries = columns.tocoo()
    row, column = entries.coords
    shape = (units * columns.shape[0], columns.shape[1])
    where = (row.astype(np.int64) + unit[column] * columns.shape[0], column)
    return coo_array((entries.data, where), shape=shape)


def least_change(
    sums: Sums, low: Ints, high: Ints, *, weight: Floats, seconds: float = 10.0
) -> Fix:
    """The least change of cells [low, high]; not proven if the integer program takes too long.

    Any whole numbers are a solution, so that there always is one to report.
    """
    whole = bool((weight == np.rint(weight)).all())
    step = 1.0 if whole else 1e-6
    columns = sums.by_class((high == 0).astype(float)) == 0
    bound, relaxed, reduced = _relaxation(sums, low, high, weight, columns)
    least = float(np.ceil(bound - 1e-6)) if whole else bound
    matrix, x = sums.columns(*np.nonzero(columns)), np.rint(relaxed).astype(np.int64)
    by = _shift(matrix, x, low, high)
    proven = _price(by, weight) <= least + 1e-6
    for widen in (False, True):
        if proven:
            break
        if widen:
            columns |= reduced <= _price(by, weight) - step - bound + 1e-6
            matrix = sums.columns(*np.nonzero(columns))
        program = _program(matrix, low, high, weight, integer=True)
        answer = solve_program(program, matrix.shape[1], seconds)
        if answer.x is not None:
            other = _shift(matrix, answer.x, low, high)
            by = min(by, other, key=lambda shift: _price(shift, weight))
        proven = _price(by, weight) <= least + 1e-6 or (widen and answer.proven)
        if not answer.proven:
            break
    return Fix(low + by, np.where(high >= UNKNOWN, high, high + by), by, proven)


def _price(by: Ints, weight: Floats) -> float:
    return float(weight @ np.abs(by))


def _relaxation(
    sums: Sums, low: Ints, high: Ints, weight: Floats, chosen: Flags
) -> tuple[float, Floats, Floats]:
    """Optimum of the relaxation, its unknowns, and the reduced costs of all (leaves x classes).

    Adds to ``chosen`` the unknowns that it needs.
    """
    while True:
        program = _program(sums.columns(*np.nonzero(chosen)), low, high, weight, integer=False)
        found = run_here(program)
        if found.status not in DONE or found.x is None or found.dual is None:
            raise SolverError(
                f"HiGHS: found status {found.status!r} for a problem with slacks, expected an "
                f"optimum"
            )
        reduced = -sums.by_class(found.dual)
        new = (reduced < -1e-7) & ~chosen
        if not new.any():
            size = int(chosen.sum())
            return float(program.cost @ found.x), found.x[:size], np.maximum(reduced, 0.0)
        chosen |= new


def _program(matrix: Any, low: Ints, high: Ints, weight: Floats, *, integer: bool) -> Program:
    from scipy.sparse import eye_array, hstack

    cells, size = matrix.shape
    eye = eye_array(cells)
    return Program(
        cost=np.concatenate([np.zeros(size), weight, weight]),
        low=np.zeros(size + 2 * cells),
        high=np.full(size + 2 * cells, np.inf),
        matrix=hstack([matrix, eye, -eye], format="csc"),
        row_low=low.astype(float),
        row_high=_open_ended(high),
        integer=integer,
    )


def _shift(adds: Any, x: Ints, low: Ints, high: Ints) -> Ints:
    """How far each cell must move to agree with x."""
    value = np.asarray(adds @ x, dtype=np.int64)
    return np.where(value > high, value - high, np.where(value < low, value - low, 0))


def _open_ended(high: Ints) -> Floats:
    return np.where(high >= UNKNOWN, np.inf, high.astype(float))


def side_by_side(tables: Sequence[KnownTable], cell_of: Ints) -> Any:
    """Sparse 0/1 (cells of the tables, one table after the other x classes)."""
    from scipy.sparse import hstack

    return hstack([held.cells.matrix[cell_of] for held in tables]).T.tocsc()


def table_weights(tables: Sequence[KnownTable], weights: Mapping[str, float] | None) -> Floats:
    """The weight of each cell of the tables side by side: that of its table, or 1."""
    named = weights or {}
    return np.concatenate(
        [np.full(held.cells.size, float(named.get(held.name, 1.0))) for held in tables]
    )


def moves(
    tables: Sequence[KnownTable], unit: str, low: Ints, high: Ints, by: Ints
) -> list[CellChange]:
    """The moved cells by name."""
    found = []
    start = 0
    for held in tables:
        part = slice(start, start + held.cells.size)
        for cell in np.flatnonzero(by[part]):
            found.append(
                CellChange(
                    unit=unit,
                    level=held.level,
                    table=held.name,
                    cell=held.cells.labels[cell],
                    low=int(low[part][cell]),
                    high=int(high[part][cell]),
                    by=int(by[part][cell]),
                )
            )
        start += held.cells.size
    return found
