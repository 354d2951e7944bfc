"""Moves: how a table can change while everything published stays as it is.

A move d keeps every relation, A d = 0, and is zero on published cells. A withheld cell x_p is as
uncertain as moves make it: with x + d >= 0 the attacker cannot tell x_p from x_p + d_p. So moves
are proofs of protection, and the cells that a move touches are those to withhold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.solve.mip import Program, SolverError, load

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SMALL = 1e-6


@dataclass(frozen=True, eq=False, kw_only=True)
class Move:
    """A direction d on some cells, and how far it goes.

    where
        cell      cells that it changes
        up        how much x + t d can raise (or lower) each cell, t >= 0
        down      the same for x - t d
    """

    cell: Ints
    up: Floats
    down: Floats

    @property
    def width(self) -> Ints:
        """Whole numbers between the ends: what integers leave of both directions."""
        ends = np.floor(self.up + SMALL) + np.floor(self.down + SMALL)
        return np.asarray(np.minimum(ends, 1e9), dtype=np.int64)


def move(cell: Ints, d: Floats, x: Ints) -> Move:
    """A direction with its reach: x + t d >= 0 for all t up to the reach, both ways."""
    reach_up = float(np.min(np.where(d < 0, x / np.maximum(-d, SMALL), np.inf)))
    reach_down = float(np.min(np.where(d > 0, x / np.maximum(d, SMALL), np.inf)))
    size = np.abs(d)
    return Move(cell=cell, up=np.minimum(reach_up * size, 1e9), down=np.minimum(
        reach_down * size, 1e9))  # fmt: skip


def splits(x: int, width: int) -> Iterator[tuple[int, int]]:
    """Ways to be uncertain by ``width``: (up, down), the even ones first."""
    downs = range(min(x, width) + 1)
    for down in sorted(downs, key=lambda one: (abs(width - 2 * one), one)):
        yield width - down, down


class Mover:
    """Cheapest moves of one region by a linear program that is solved again and again.

        minimise  sum_i w_i |d_i| / capacity_i
        A d = 0,  d_p = up,  -x_i <= d_i <= x_i up / down

    where
        w_i         the price of cell i, 0 if it is withheld already
        capacity_i  what the cell can carry of the move, at most ``up``

    With these bounds d raises p by ``up`` and -d down / up lowers it by ``down``: one program
    proves both ends. Dividing by the capacity charges a cell that can carry little its whole price.
    """

    def __init__(self, matrix: Any, x: Ints, price: Floats) -> None:
        self.x, self.price = x, price
        self.free = np.zeros(len(x), dtype=bool)
        self.shut = np.zeros(len(x), dtype=bool)
        self.split = (2, 1)
        self._matrix = matrix
        self._solvers: dict[tuple[int, int], Any] = {}

    def _build(self) -> Any:
        from scipy.sparse import hstack

        n, rows = len(self.x), self._matrix.shape[0]
        program = Program(
            cost=self._costs(np.arange(n)),
            low=np.zeros(2 * n),
            high=self._highs(np.arange(n)),
            matrix=hstack([self._matrix, -self._matrix], format="csc"),
            row_low=np.zeros(rows),
            row_high=np.zeros(rows),
            integer=False,
        )
        solver = load(program)
        solver.setOptionValue("presolve", "off")  # it would throw away the last basis
        return solver

    def _highs(self, cells: Ints) -> Floats:
        up, down = self.split
        x = np.where(self.shut[cells], 0.0, self.x[cells])
        raised = x * (up / down) if down and up else np.where(self.shut[cells], 0.0, np.inf)
        return np.concatenate([raised, x])

    def _costs(self, cells: Ints) -> Floats:
        up = max(self.split)
        high = np.maximum(np.minimum(self._highs(cells), up), 1)
        price = np.where(self.free[cells], 0.0, self.price[cells])
        return np.concatenate([price, price]) * up / high

    def set_free(self, cells: Ints, free: bool) -> None:
        """Say that cells are withheld anyway, or no longer."""
        changed = cells[self.free[cells] != free]
        self.free[changed] = free
        if not len(changed):
            return
        both = np.concatenate([changed, changed + len(self.x)]).astype(np.int32)
        for split, solver in self._solvers.items():
            self.split = split
            solver.changeColsCost(len(both), both, self._costs(changed))

    def set_shut(self, cells: Ints, shut: bool) -> None:
        """Say that cells are published and cannot move, or no longer."""
        self.shut[cells] = shut
        both = np.concatenate([cells, cells + len(self.x)]).astype(np.int32)
        for split, solver in self._solvers.items():
            self.split = split
            solver.changeColsBounds(len(both), both, np.zeros(len(both)), self._highs(cells))

    def cheapest(self, target: int, width: int, *, tries: int | None = None) -> Move | None:
        """The cheapest move that makes a cell uncertain by ``width``; None if there is none.

        Ways to split the width are tried in turn, all or the first few of them.
        """
        for split in list(splits(int(self.x[target]), width))[:tries]:
            found = self._solve(target, split)
            if found is not None and found.width[found.cell == target][0] >= width:
                return found
        return None

    def _solve(self, target: int, split: tuple[int, int]) -> Move | None:
        import highspy

        n = len(self.x)
        self.split = split
        if split not in self._solvers:
            self._solvers[split] = self._build()
        solver, (up, down) = self._solvers[split], split
        pair = np.array([target, target + n], dtype=np.int32)
        fixed = np.array([up, 0.0]) if up else np.array([0.0, down])
        solver.changeColsBounds(2, pair, fixed, fixed)
        solver.run()
        status = solver.getModelStatus()
        value = np.array(solver.getSolution().col_value)
        one = np.array([target])
        solver.changeColsBounds(2, pair, np.zeros(2), self._highs(one))
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise SolverError(f"HiGHS: found status {status}, expected a cheapest move")
        d = value[:n] - value[n:]
        cells = np.flatnonzero(np.abs(d) > SMALL)
        return move(cells, d[cells], self.x[cells])
