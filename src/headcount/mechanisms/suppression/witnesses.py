"""Certificates of protection: tables other than the truth that agree with all that is published.

A move d is whole, keeps every relation, A d = 0, and is zero on published cells. Zeros are never
withheld, so whoever reads the rules knows that a withheld cell holds 1 at least: x + d is a table
that an attacker cannot tell from x if it is at least 1 wherever d is not zero. Such tables are
*witnesses* of protection, and the cells in which they differ from x are those to withhold.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Flags, Floats, Ints
from headcount.files import write_bytes_atomic
from headcount.solve.mip import Program, SolverError, load
from headcount.solve.worker import solve_apart

WITNESSES = "witnesses.parquet"
"""The file of them, in the curator's folder: they tell the truth."""
SMALL = 1e-6
FARTHEST = 64
"""How many times a move is followed at most."""
NODES = 200
"""Nodes of an integer program before it is given up: a number, so that results repeat."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Move:
    """A whole direction d on some cells; x + k d has 1 at least for all k from -down to up."""

    cell: Ints
    d: Ints
    up: int
    down: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Proof:
    """Moves that show together how uncertain cells are.

    where
        cell         cells that the moves change
        rise, fall   by how much some witness raises and lowers each cell
    """

    cell: Ints
    rise: Ints
    fall: Ints
    moves: tuple[Move, ...]

    @property
    def witnesses(self) -> Iterator[tuple[Ints, Ints]]:
        """Cells and changes of the tables at the ends of each move."""
        for one in self.moves:
            if one.up:
                yield one.cell, one.up * one.d
            if one.down:
                yield one.cell, -one.down * one.d


def move(cell: Ints, d: Ints, room: Ints, *, most: int = FARTHEST) -> Move:
    """The shortest direction along d, and how often it can be followed.

    where
        room   what can be taken from each cell: its count less 1
        most   how often is often enough
    """
    least = d // reduce(gcd, d.tolist(), 0)
    steps = room // np.abs(least)
    up = int(min(steps[least < 0], default=most))
    down = int(min(steps[least > 0], default=most))
    return Move(cell=cell, d=least, up=min(up, most), down=min(down, most))


def proof(moves: Sequence[Move]) -> Proof:
    """What moves show, each by itself."""
    cell = np.unique(np.concatenate([one.cell for one in moves]))
    rise, fall = np.zeros(len(cell), dtype=np.int64), np.zeros(len(cell), dtype=np.int64)
    for one in moves:
        at = np.searchsorted(cell, one.cell)
        rise[at] = np.maximum(rise[at], np.where(one.d > 0, one.up, one.down) * np.abs(one.d))
        fall[at] = np.maximum(fall[at], np.where(one.d > 0, one.down, one.up) * np.abs(one.d))
    return Proof(cell=cell, rise=rise, fall=fall, moves=tuple(moves))


@dataclass(frozen=True, eq=False, kw_only=True)
class Need:
    """What each target must be shown to be: raised by ``rise``, and uncertain by ``width``.

    Cells without a need have width 0.
    """

    rise: Ints
    width: Ints

    def met(self, one: Proof) -> Flags:
        """Which cells of a proof have all they need by it."""
        rise, width = self.rise[one.cell], self.width[one.cell]
        enough = (one.rise >= rise) & (one.rise + one.fall >= width)
        return np.asarray(enough & (width > 0), dtype=bool)

    def at(self, cells: Ints) -> Need:
        """The same for some cells."""
        return Need(rise=self.rise[cells], width=self.width[cells])


def splits(room: int, width: int, rise: int) -> Iterator[tuple[int, int]]:
    """Ways to be uncertain by ``width``: (up, down), the even ones first."""
    downs = range(min(room, width) + 1)
    for down in sorted(downs, key=lambda one: (abs(width - 2 * one), one)):
        yield max(width - down, rise), down


class Mover:
    """Cheapest moves of one region by a linear program that is solved again and again.

        minimise  sum_i w_i |d_i| / capacity_i
        A d = 0,  d_p = up,  d_i >= -room_i

    where
        w_i         the price of cell i, 0 if it is withheld already
        room_i      its count less 1
        capacity_i  what the cell can carry of the move

    Dividing by the capacity charges a cell that can carry little its whole price. To go both ways
    a move of 1 is sought that can be followed ``up`` times and turned round ``down`` times:
    d_p = 1 and -(room_i // up) <= d_i <= room_i // down. In a network (two dimensions, one of them
    nested) the cheapest d is whole; where it is not, multiples of it are tried, then an integer
    program.
    """

    def __init__(self, matrix: Any, x: Ints, price: Floats) -> None:
        self.room, self.price = x - 1, price
        self.free = np.zeros(len(x), dtype=bool)
        self.shut = np.zeros(len(x), dtype=bool)
        self.broken = 0  # cheapest moves that were not whole
        self._matrix = matrix
        self._solvers: dict[tuple[int, int], Any] = {}

    def _program(self, way: tuple[int, int], *, integer: bool = False) -> Program:
        from scipy.sparse import hstack

        every, rows = np.arange(len(self.room)), self._matrix.shape[0]
        return Program(
            cost=self._costs(every, way),
            low=np.zeros(2 * len(every)),
            high=self._highs(every, way),
            matrix=hstack([self._matrix, -self._matrix], format="csc"),
            row_low=np.zeros(rows),
            row_high=np.zeros(rows),
            integer=integer,
        )

    def _highs(self, cells: Ints, way: tuple[int, int]) -> Floats:
        up, down = way
        room = np.where(self.shut[cells], 0, self.room[cells])
        if up and down:
            return np.concatenate([room // down, room // up]).astype(np.float64)
        return np.concatenate([np.where(self.shut[cells], 0.0, np.inf), room])

    def _costs(self, cells: Ints, way: tuple[int, int]) -> Floats:
        most = 1 if all(way) else max(way)
        capacity = np.clip(self._highs(cells, way), 1, most)
        price = np.where(self.free[cells], 0.0, self.price[cells])
        return np.concatenate([price, price]) * most / capacity

    def set_free(self, cells: Ints, free: bool) -> None:
        """Say that cells are withheld anyway, or no longer."""
        changed = cells[self.free[cells] != free]
        self.free[changed] = free
        if not len(changed):
            return
        both = np.concatenate([changed, changed + len(self.room)]).astype(np.int32)
        for way, solver in self._solvers.items():
            solver.changeColsCost(len(both), both, self._costs(changed, way))

    def set_shut(self, cells: Ints, shut: bool) -> None:
        """Say that cells are published and cannot move, or no longer."""
        self.shut[cells] = shut
        both = np.concatenate([cells, cells + len(self.room)]).astype(np.int32)
        for way, solver in self._solvers.items():
            solver.changeColsBounds(len(both), both, np.zeros(len(both)), self._highs(cells, way))

    def cheapest(self, target: int, need: Need, *, tries: int | None = None) -> Proof | None:
        """A cheap proof that a cell has what it needs; None if none was found.

        Ways to split the width are tried in turn, all or the first few of them; at last a rise
        and a fall that have nothing to do with each other.
        """
        rise, width = int(need.rise[target]), int(need.width[target])
        ways = list(splits(int(self.room[target]), width, rise))[:tries]
        for way in ways:
            one = self._toward(target, way)
            if one is not None and need.met(found := proof([one]))[found.cell == target].any():
                return found
        if tries is not None:
            return None
        for up, down in ways:
            if up and down:
                two = [self._toward(target, (up, 0)), self._toward(target, (0, down))]
                if two[0] is not None and two[1] is not None:
                    return proof([two[0], two[1]])
        return None

    def _toward(self, target: int, way: tuple[int, int]) -> Move | None:
        """A cheap whole move one way, or to be turned round; None if none was found."""
        d = self._solve(target, way)
        if d is None:
            return None
        cells = np.flatnonzero(np.abs(d) > SMALL)
        whole = _multiple(d[cells], self.room[cells], way)
        if whole is None:
            self.broken += 1
            d = self._solve_whole(target, way)
            if d is None:
                return None
            cells = np.flatnonzero(np.rint(d))
            whole = np.rint(d[cells]).astype(np.int64)
        return move(cells, whole, self.room[cells], most=max(way))

    def _solve(self, target: int, way: tuple[int, int]) -> Floats | None:
        import highspy

        if way not in self._solvers:
            self._solvers[way] = load(self._program(way))
            # Presolving would throw away the last basis.
            self._solvers[way].setOptionValue("presolve", "off")
        solver = self._solvers[way]
        pair = np.array([target, target + len(self.room)], dtype=np.int32)
        fixed = _fixed(way)
        solver.changeColsBounds(2, pair, fixed, fixed)
        solver.run()
        status = solver.getModelStatus()
        value = np.array(solver.getSolution().col_value)
        solver.changeColsBounds(2, pair, np.zeros(2), self._highs(np.array([target]), way))
        if status != highspy.HighsModelStatus.kOptimal:
            if status != highspy.HighsModelStatus.kInfeasible:
                del self._solvers[way]  # it lost its way: the next search begins anew
            return None
        return np.asarray(value[: len(self.room)] - value[len(self.room) :])

    def _solve_whole(self, target: int, way: tuple[int, int]) -> Floats | None:
        """The same by an integer program; None also if it is given up."""
        program = self._program(way, integer=True)
        n = len(self.room)
        program.high[:] = np.minimum(program.high, FARTHEST * max(way))
        program.low[[target, target + n]] = program.high[[target, target + n]] = _fixed(way)
        try:
            value = solve_apart(program, mip_rel_gap=0.1, mip_max_nodes=NODES).x
        except SolverError:  # as if nothing were found: more is then withheld
            value = None
        return None if value is None else np.asarray(value[:n] - value[n:])


def _fixed(way: tuple[int, int]) -> Floats:
    """What the target is raised and lowered by."""
    up, down = way
    return np.array([1.0 if down else up, 0.0]) if up else np.array([0.0, down])


def _multiple(d: Floats, room: Ints, way: tuple[int, int]) -> Ints | None:
    """The least multiple of a move that is whole and still possible, None if there is none."""
    for times in (1, 2, 3, 4, 6):
        whole = np.rint(times * d)
        if np.max(np.abs(times * d - whole), initial=0.0) > SMALL:
            continue
        if all(way):  # the bounds of such a move are whole: a multiple may break them
            low, high = -(room // way[0]), room // way[1]
            fits = np.all((whole >= low) & (whole <= high))
        else:
            fits = np.all(whole >= -room)
        return whole.astype(np.int64) if fits else None
    return None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Witnesses:
    """Whole tables other than the truth, each by its differences from the truth.

    where
        start    first difference of each witness in ``cell`` and ``change``, and the end
        cell     cells that differ, witness after witness, each once in a witness
        change   by how much
    """

    start: Ints
    cell: Ints
    change: Ints

    @classmethod
    def of(cls, listed: Iterable[tuple[Ints, Ints]]) -> Witnesses:
        """From pairs of cells and changes."""
        pairs = list(listed)
        none = [np.empty(0, dtype=np.int64)]
        return cls(
            start=np.cumsum([0, *(len(cell) for cell, _ in pairs)], dtype=np.int64),
            cell=np.concatenate(none + [cell for cell, _ in pairs]),
            change=np.concatenate(none + [change for _, change in pairs]),
        )

    def __len__(self) -> int:
        return len(self.start) - 1

    def __iter__(self) -> Iterator[tuple[Ints, Ints]]:
        for first, end in zip(self.start[:-1], self.start[1:], strict=True):
            yield self.cell[first:end], self.change[first:end]

    def __repr__(self) -> str:
        return f"<Witnesses {len(self):,} tables, {len(self.cell):,} differences>"


def write_witnesses(path: Path, found: Sequence[Witnesses]) -> None:
    """Keep the witnesses of each group of tables; they tell the truth, so only the curator's."""
    frames = [
        pl.DataFrame(
            {
                "group": np.full(len(one.cell), number, dtype=np.int64),
                "witness": np.repeat(np.arange(len(one)), np.diff(one.start)),
                "cell": one.cell,
                "change": one.change,
            }
        )
        for number, one in enumerate(found)
    ]
    content = io.BytesIO()
    pl.concat(frames).write_parquet(content)
    write_bytes_atomic(path, content.getvalue())


def read_witnesses(path: Path, *, groups: int) -> tuple[Witnesses, ...]:
    """The witnesses of each group of tables."""
    frame = pl.read_parquet(path, glob=False)
    read = []
    for number in range(groups):
        own = frame.filter(group=number)
        many = np.bincount(own["witness"].to_numpy())
        read.append(
            Witnesses(
                start=np.concatenate([[0], np.cumsum(many)]).astype(np.int64),
                cell=own["cell"].to_numpy(),
                change=own["change"].to_numpy(),
            )
        )
    return tuple(read)
