"""Published cells that cannot all be the count: which must move, and by how much at least.

    minimise    sum of w (under + over)
    subject to  low <= A x + under - over <= high,   x whole numbers, under, over >= 0

where A adds the unknown counts up to the published cells, [low, high] is what a cell says, and w
is the weight of its table. A cell with under or over must move down or up by that much. Tables that
contradict each other are so mended. Where counts were changed, each cell says its published value,
and under and over are bounded so that no cell leaves the range of its count: the least change is
then the likeliest one.

There are far more unknowns than can matter. The linear relaxation starts with those that no
published zero rules out, and takes in others as long as their reduced cost d is negative (column
generation). With B its optimum and P the price of the best whole numbers found, a cheaper solution
has no unknown with B + d > P - step, where prices are multiples of step: an integer program on the
remaining unknowns is a proof for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headcount.arrays import Ends, Flags, Floats, Ints
from headcount.attacks._problem import solve_program
from headcount.attacks.intervals import UNKNOWN
from headcount.attacks.knowledge import KnownTable
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
    """The least change: new ends of every cell, how far each moved, and whether it is proven.

    ``x`` are counts (leaves x classes) that agree with the new ends.
    """

    low: Ints
    high: Ints
    by: Ints
    proven: bool
    x: Ints


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


def least_change(sums: Sums, low: Ints, high: Ints, *, weight: Floats, steps: int = 10_000) -> Fix:
    """The least change of cells [low, high]; not proven if the integer program takes too long.

    There always is a solution to report: any whole numbers.
    """
    anywhere = np.full(len(low), np.inf)
    return _least(_Model(sums, low, high, weight, under=anywhere, over=anywhere), steps)


def nearest(sums: Sums, ends: Ends, value: Ints, *, weight: Floats, start: Ints, steps: int) -> Fix:
    """Of all counts that keep the ends of every cell, those nearest to published numbers.

    where
        value   the published number of each cell, -1 where there is none
        start   counts (leaves x classes) that keep the ends

    A number outside of the ends is as far from all counts as the end beside it, and a constant
    more, so that the end stands for it.
    """
    low, high = ends
    said, target = value >= 0, np.clip(value, low, high)
    first, last = np.where(said, target, low), np.where(said, target, high)
    model = _Model(
        sums,
        first,
        last,
        np.where(said, weight, 0.0),
        under=(first - low).astype(float),
        over=_open_ended(high) - last,
    )
    return _least(model, steps, start)


def _least(model: _Model, steps: int, start: Ints | None = None) -> Fix:
    """The cheapest whole numbers; where there is a start, no worse than that."""
    low, high = model.low, model.high
    whole = bool((model.weight == np.rint(model.weight)).all())
    step = 1.0 if whole else 1e-6
    columns = model.sums.by_class((high == 0).astype(float)) == 0
    if start is not None:
        columns |= start > 0
    bound, relaxed, reduced = model.relaxation(columns)
    least = float(np.ceil(bound - 1e-6)) if whole else bound
    best = model.moved(columns, np.rint(relaxed).astype(np.int64))
    if start is not None:
        best = min(best, model.moved(columns, start[columns]), key=model.price)
    proven = model.price(best) <= least + 1e-6
    for widen in (False, True):
        if proven:
            break
        if widen:
            columns |= reduced <= model.price(best) - step - bound + 1e-6
        program = model.program(columns, integer=True)
        answer = solve_program(program, int(columns.sum()), steps)
        if answer.x is not None:
            best = min(best, model.moved(columns, answer.x), key=model.price)
        proven = model.price(best) <= least + 1e-6 or (widen and answer.proven)
        if not answer.proven:
            break
    by = best.by
    return Fix(low + by, np.where(high >= UNKNOWN, high, high + by), by, proven, best.x)


class _Moved(NamedTuple):
    """Counts (leaves x classes), and how far each cell must move to agree with them."""

    x: Ints
    by: Ints


@dataclass(frozen=True, eq=False)
class _Model:
    """The least change as a program over some of the unknowns (a mask, leaves x classes).

    ``under`` and ``over`` say how far each cell [low, high] may move down, and up.
    """

    sums: Sums
    low: Ints
    high: Ints
    weight: Floats
    under: Floats
    over: Floats

    def moved(self, columns: Flags, x: Ints) -> _Moved:
        """What follows from values of the chosen unknowns."""
        value = np.asarray(self.sums.columns(*np.nonzero(columns)) @ x, dtype=np.int64)
        above, below = value - self.high, value - self.low
        grid = np.zeros(columns.shape, dtype=np.int64)
        grid[columns] = x
        return _Moved(grid, np.where(above > 0, above, np.where(below < 0, below, 0)))

    def price(self, moved: _Moved) -> float:
        """The weighted change; infinite where a cell leaves its ends."""
        if np.any(moved.by > self.over) or np.any(-moved.by > self.under):
            return np.inf
        return float(self.weight @ np.abs(moved.by))

    def relaxation(self, chosen: Flags) -> tuple[float, Floats, Floats]:
        """Optimum of the relaxation, its unknowns, and the reduced costs of all.

        Adds to ``chosen`` the unknowns that it needs.
        """
        while True:
            program = self.program(chosen, integer=False)
            found = run_here(program)
            if found.status not in DONE or found.x is None or found.dual is None:
                raise SolverError(
                    f"HiGHS ended with status {found.status!r} on a problem that has a solution"
                )
            reduced = -self.sums.by_class(found.dual)
            new = (reduced < -1e-7) & ~chosen
            if not new.any():
                size = int(chosen.sum())
                return float(program.cost @ found.x), found.x[:size], np.maximum(reduced, 0.0)
            chosen |= new

    def program(self, columns: Flags, *, integer: bool) -> Program:
        """The program of the chosen unknowns, which come first."""
        from scipy.sparse import eye_array, hstack

        matrix = self.sums.columns(*np.nonzero(columns))
        cells, size = matrix.shape
        eye = eye_array(cells)
        return Program(
            cost=np.concatenate([np.zeros(size), self.weight, self.weight]),
            low=np.zeros(size + 2 * cells),
            high=np.concatenate([np.full(size, np.inf), self.under, self.over]),
            matrix=hstack([matrix, eye, -eye], format="csc"),
            row_low=self.low.astype(float),
            row_high=_open_ended(self.high),
            integer=integer,
        )


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
