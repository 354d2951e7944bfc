"""Tables that contradict each other: which cells must move, and by how much at least.

    minimise    sum of w (under + over)
    subject to  low <= A x + under - over <= high,   x whole numbers, under, over >= 0

where A adds the unknown counts up to the published cells, [low, high] is what a cell says, and w
is the weight of its table. A cell with under or over must move down or up by that much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.attacks.knowledge import UNKNOWN, Held
from headcount.attacks.solvers import Answer, solve_program
from headcount.solve.mip import Program, SolverError, minimise

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Move:
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


def least_change(
    adds: Any,
    low: Ints,
    high: Ints,
    *,
    weight: NDArray[np.float64],
    hard: Any = None,
    hard_low: Ints | None = None,
    hard_high: Ints | None = None,
    seconds: float = 10.0,
) -> Fix | None:
    """The least change of cells [low, high] = ``adds`` @ x; None if none was found in time.

    ``hard`` rows (sparse, on the same x) with their ends must be kept as they are.
    """
    from scipy.sparse import csc_array, eye_array, hstack, vstack

    cells, size = adds.shape
    eye = eye_array(cells)
    matrix = hstack([adds, eye, -eye], format="csc")
    row_low, row_high = low.astype(float), _open_ended(high)
    if hard is not None and hard_low is not None and hard_high is not None:
        wide = csc_array((hard.shape[0], 2 * cells))
        matrix = vstack([matrix, hstack([hard, wide])], format="csc")
        row_low = np.concatenate([row_low, hard_low.astype(float)])
        row_high = np.concatenate([row_high, _open_ended(hard_high)])
    program = Program(
        cost=np.concatenate([np.zeros(size), weight, weight]),
        low=np.zeros(size + 2 * cells),
        high=np.full(size + 2 * cells, np.inf),
        matrix=matrix,
        row_low=row_low,
        row_high=row_high,
        integer=hard is not None,
    )
    if hard is not None:
        answer = solve_program(program, size, seconds)
    else:
        answer = _without_hard_rows(program, adds, low, high, weight, seconds)
    if answer.x is None:
        return None
    by = _shift(adds, answer.x, low, high)
    return Fix(low + by, np.where(high >= UNKNOWN, high, high + by), by, answer.proven)


def _without_hard_rows(
    program: Program, adds: Any, low: Ints, high: Ints, weight: NDArray[np.float64], seconds: float
) -> Answer:
    """The linear relaxation rounded, if that is optimal; else the integer program from there.

    Any whole numbers are a solution, so that there always is one to report; the relaxation is
    fast, and often whole by itself.
    """
    relaxed = minimise(program)
    if relaxed is None:
        raise SolverError("HiGHS: found no answer to a problem with slacks, expected one")
    x = np.rint(relaxed[: adds.shape[1]]).astype(np.int64)
    price = float(weight @ np.abs(_shift(adds, x, low, high)))
    bound = float(program.cost @ relaxed)
    if (weight == np.rint(weight)).all():
        bound = float(np.ceil(bound - 1e-6))
    if price <= bound + 1e-6:
        return Answer(x, True)
    better = solve_program(replace(program, integer=True), adds.shape[1], seconds)
    if better.x is None:
        return Answer(x, False)
    dearer = weight @ np.abs(_shift(adds, better.x, low, high)) > price
    return Answer(x, False) if dearer else better


def _shift(adds: Any, x: Ints, low: Ints, high: Ints) -> Ints:
    """How far each cell must move to agree with x."""
    value = np.asarray(adds @ x, dtype=np.int64)
    return np.where(value > high, value - high, np.where(value < low, value - low, 0))


def _open_ended(high: Ints) -> NDArray[np.float64]:
    return np.where(high >= UNKNOWN, np.inf, high.astype(float))


def table_weights(
    tables: Sequence[Held], weights: Mapping[str, float] | None
) -> NDArray[np.float64]:
    """The weight of each cell of the tables side by side: that of its table, or 1."""
    named = weights or {}
    return np.concatenate(
        [np.full(held.cells.size, float(named.get(held.name, 1.0))) for held in tables]
    )


def moves(tables: Sequence[Held], unit: str, low: Ints, high: Ints, by: Ints) -> list[Move]:
    """The moved cells by name."""
    found = []
    start = 0
    for held in tables:
        part = slice(start, start + held.cells.size)
        for cell in np.flatnonzero(by[part]):
            found.append(
                Move(
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
