"""The cheapest pattern of a small table: Benders' cuts from the attacker's programs.

Fischetti & Salazar (2001), "Solving the cell suppression problem on tabular data with linear
constraints", with sliding protection (the width of an interval counts) and an attacker who knows
that a withheld cell holds 1 at least and that counts are whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import HeadcountError
from headcount.mechanisms.suppression.complementary import Pattern, checked, complement, needs
from headcount.mechanisms.suppression.witnesses import SMALL, Need, Witnesses
from headcount.solve.mip import Program, SolverError, load, minimise
from headcount.tabulate.additive import Additive

ROUNDS = 400
SHADE = 1e-4
"""What the attacker may move on published cells while cuts are sought: it keeps cuts sparse."""


class ExactError(HeadcountError):
    """A table whose cheapest pattern was not proven within the rounds allowed."""


def cheapest_pattern(
    additive: Additive,
    values: ArrayLike,
    primary: ArrayLike,
    *,
    width: int = 3,
    threshold: int = 2,
    price: ArrayLike | None = None,
    publish: ArrayLike | None = None,
) -> Pattern:
    """The pattern of least price; what ``complement`` finds is only cheap.

        minimise  sum_i w_i z_i,  z_i in {0, 1},  z_p = 1 for primary cells
        up_p(z) > threshold - x_p,  up_p(z) + down_p(z) >= width   for primary p
        up_i(z) + down_i(z) >= 1                                   for other cells with z_i = 1

    where up_i(z) and down_i(z) are the most by which whole moves on the cells of z, which leave 1
    at least in each, can raise and lower cell i. By duality of the program without wholeness
    up_i(z) <= sum_j a_j z_j for prices a of the attacker's program: such cuts are added until none
    is broken; a pattern that only whole moves break is cut off itself, with all that lie within
    it. For tables up to a few hundred cells.
    """
    x, first, may, w = checked(additive, values, primary, price, publish, 0)
    start = complement(
        additive,
        x,
        first,
        width=width,
        threshold=threshold,
        price=w,
        publish=~may & (x > 0),
        effort=3,
    )
    cells = np.flatnonzero(may)
    matrix = additive.columns[:, cells].tocsr()
    matrix = matrix[np.diff(matrix.indptr) > 0]
    need = needs(x, first, threshold=threshold, width=width).at(cells)
    need = Need(
        rise=np.where(first[cells], need.rise, 0), width=np.where(first[cells], need.width, 1)
    )
    need.width[np.isin(cells, start.failed)] = 0
    master = _Master(
        matrix, first[cells], w[cells], need.width, ceiling=start.cost + w[first].sum()
    )
    attacker = _Attacker(matrix, x[cells] - 1)
    chosen = _search(master, attacker, need, first[cells])
    withheld = np.zeros(len(x), dtype=bool)
    withheld[cells[chosen]] = True
    found = [
        (cells[moved], d[moved])
        for i in np.flatnonzero(chosen)
        for d in (attacker.whole(int(i), sign, chosen) for sign in (1, -1))
        if len(moved := np.flatnonzero(d))
    ]
    return Pattern(
        primary=first,
        withheld=withheld,
        witnesses=Witnesses.of(found),
        failed=start.failed,
        cost=float(w[withheld & ~first].sum()),
        programs=attacker.programs,
    )


def _search(master: _Master, attacker: _Attacker, need: Need, first: Flags) -> Flags:
    """Cuts for fractional patterns first, which is cheap; then for whole ones till none is left."""
    for whole in (False, True):
        for _ in range(ROUNDS):
            z = master.solve(whole=whole)
            cuts = _broken(z, attacker, need, first, whole=whole)
            if not cuts:
                break
            master.cuts += cuts
        else:
            if whole:
                raise ExactError(f"found broken cuts after {ROUNDS} rounds, expected a proof")
    return np.asarray(z > 0.5)


Cut = tuple[Floats, float]


@dataclass(frozen=True, eq=False)
class _End:
    """What some ends of a cell must add up to, and what the attacker's programs allow them."""

    asked: int
    reach: float
    prices: Floats


def _asked(i: int, z: Floats, attacker: _Attacker, need: Need) -> list[_End]:
    up, down = attacker.ends(i, z)
    rise, width = int(need.rise[i]), int(need.width[i])
    both = _End(width, up[0] + down[0], up[1] + down[1])
    return [both, _End(rise, *up)] if rise else [both]


def _broken(z: Floats, attacker: _Attacker, need: Need, first: Flags, *, whole: bool) -> list[Cut]:
    cuts: list[Cut] = []
    for i in np.flatnonzero((z > 0.01) & (need.width > 0)):
        sure = 1.0 if first[i] else 0.0
        broken = [
            one
            for one in _asked(int(i), z, attacker, need)
            if one.reach < one.asked * z[i] - (SMALL if whole else 1e-3)
        ]
        for one in broken:
            row = np.minimum(one.prices, one.asked)
            if not first[i]:
                row[i] = -float(one.asked)
            cuts.append((row, sure * one.asked))
        if whole and not broken and not _whole_enough(int(i), z > 0.5, attacker, need):
            row = (z < 0.5).astype(np.float64)  # this pattern, and all within it, will not do
            row[i] -= 1 - sure
            cuts.append((row, sure))
    return cuts


def _whole_enough(i: int, chosen: Flags, attacker: _Attacker, need: Need) -> bool:
    up = int(attacker.whole(i, 1, chosen)[i])
    down = -int(attacker.whole(i, -1, chosen)[i])
    return bool(up >= need.rise[i] and up + down >= need.width[i])


class _Master:
    """Which cells to withhold, given the cuts so far."""

    def __init__(
        self, matrix: Any, first: Flags, price: Floats, need: Ints, *, ceiling: float
    ) -> None:
        self.first, self.price, self.ceiling = first, price, ceiling
        self.cuts: list[Cut] = []
        # Withheld alone in a relation, a cell is its difference: each needs another one.
        for k in range(matrix.shape[0]):
            inside = matrix.indices[matrix.indptr[k] : matrix.indptr[k + 1]]
            for i in inside[need[inside] > 0]:
                row = np.zeros(len(price))
                row[inside] = 1.0
                row[i] = -1.0
                self.cuts.append((row, 0.0))

    def solve(self, *, whole: bool) -> Floats:
        from scipy.sparse import csc_matrix

        rows = [*(row for row, _ in self.cuts), self.price]
        program = Program(
            cost=self.price,
            low=self.first.astype(np.float64),
            high=np.ones(len(self.price)),
            matrix=csc_matrix(np.array(rows)),
            row_low=np.array([*(right for _, right in self.cuts), 0.0]),
            row_high=np.array([*(np.inf for _ in self.cuts), self.ceiling + 1e-6]),
            integer=whole,
        )
        found = minimise(program)
        if found is None:
            raise ExactError("found no pattern, expected one: some cut is wrong")
        return found


class _Attacker:
    """How far moves on a pattern raise and lower a cell, and the prices that prove it.

    ``room`` is what can be taken from each cell: its count less 1.
    """

    def __init__(self, matrix: Any, room: Ints) -> None:
        self.room, self.matrix = room.astype(np.float64), matrix
        self.most = float(4 * (room + 1).sum() + 4)
        self.programs = 0
        self._z = np.full(len(room), -1.0)
        n = len(room)
        self._solver = load(
            Program(
                cost=np.zeros(n),
                low=np.zeros(n),
                high=np.zeros(n),
                matrix=matrix.tocsc(),
                row_low=np.zeros(matrix.shape[0]),
                row_high=np.zeros(matrix.shape[0]),
                integer=False,
            )
        )
        self._solver.setOptionValue("presolve", "off")

    def ends(self, cell: int, z: Floats | Flags) -> list[tuple[float, Floats]]:
        """(Most upward, prices) and (most downward, prices) for a cell under a pattern."""
        weights = np.asarray(z, dtype=np.float64)
        if not np.array_equal(weights, self._z):
            self._z = weights
            shade = np.where(weights > 0.01, weights, SHADE / len(weights))
            columns = np.arange(len(weights), dtype=np.int32)
            self._solver.changeColsBounds(
                len(columns), columns, -self.room * shade, np.full(len(columns), self.most) * shade
            )
        return [self._end(cell, sign, weights) for sign in (1.0, -1.0)]

    def _end(self, cell: int, sign: float, z: Floats) -> tuple[float, Floats]:
        self._solver.changeColCost(cell, -sign)
        self._solver.run()
        self.programs += 1
        if optimum(self._solver, integer=False) is None:
            raise ExactError("found no solution, expected at least the one without any move")
        dual = np.array(self._solver.getSolution().row_dual)
        self._solver.changeColCost(cell, 0.0)
        cost = np.zeros(len(z))
        cost[cell] = -sign
        reduced = cost - self.matrix.T @ dual
        reduced[np.abs(reduced) < 1e-9] = 0.0
        prices = np.where(reduced > 0, reduced * self.room, -reduced * self.most)
        return float(prices @ np.where(z > 0.01, z, 0.0)), prices

    def whole(self, cell: int, sign: int, chosen: Flags) -> Ints:
        """The whole move on a pattern that raises (or lowers) a cell most."""
        cost = np.zeros(len(chosen))
        cost[cell] = -sign
        nothing = np.zeros(self.matrix.shape[0])
        found = minimise(
            Program(
                cost=cost,
                low=np.where(chosen, -self.room, 0.0),
                high=np.where(chosen, self.most, 0.0),
                matrix=self.matrix.tocsc(),
                row_low=nothing,
                row_high=nothing,
                integer=True,
            )
        )
        self.programs += 1
        assert found is not None  # nothing at all is a move
        return found.astype(np.int64)


def optimum(solver: Any, *, integer: bool) -> Floats | None:
    """What a run of HiGHS has found; None if it proved that there is no solution."""
    import highspy

    status = solver.getModelStatus()
    if status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kModelEmpty):
        x = np.array(solver.getSolution().col_value)
        return np.rint(x) if integer else x
    # Every program here is bounded below, so that "unbounded or infeasible" is the latter.
    nothing = highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible
    if status in nothing:
        return None
    raise SolverError(
        f"HiGHS: found status {solver.modelStatusToString(status)!r}, "
        "expected an optimum or a proof that there is none"
    )
