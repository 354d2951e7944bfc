"""Second thoughts: publish again what turns out not to be needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.mechanisms.suppression.moves import SMALL, Floats, Ints, Mover
from headcount.solve.mip import Program, SolverError, load

Flags = NDArray[np.bool_]
Proof = tuple[Ints, Floats]
"""Cells that a table differs in from the truth, and by how much."""


class Reach:
    """How far moves on a pattern raise and lower a cell: what the attacker would find out."""

    def __init__(self, matrix: Any, x: Ints, withheld: Flags) -> None:
        self.x = x.astype(np.float64)
        n, rows = len(x), matrix.shape[0]
        self._solver = load(
            Program(
                cost=np.zeros(n), low=np.where(withheld, -self.x, 0.0),
                high=np.where(withheld, np.inf, 0.0), matrix=matrix.tocsc(),
                row_low=np.zeros(rows), row_high=np.zeros(rows), integer=False,
            )
        )  # fmt: skip
        self._solver.setOptionValue("presolve", "off")

    def withhold(self, cells: Ints, withheld: bool) -> None:
        """Withhold cells, or publish them."""
        low = -self.x[cells] if withheld else np.zeros(len(cells))
        high = np.full(len(cells), np.inf if withheld else 0.0)
        self._solver.changeColsBounds(len(cells), cells.astype(np.int32), low, high)

    def proofs(self, target: int, width: int) -> list[Proof] | None:
        """A higher and a lower table that make a cell uncertain by ``width``; None if none do."""
        down = self._furthest(target, -1.0, min(width, int(self.x[target])))
        lowered = _whole(down, target)
        if lowered >= width:
            return [down]
        up = self._furthest(target, 1.0, width - lowered)
        return [up, down] if lowered + _whole(up, target) >= width else None

    def _furthest(self, target: int, sign: float, most: int) -> Proof:
        import highspy

        one = np.array([target], dtype=np.int64)
        low, high = (0.0, float(most)) if sign > 0 else (-float(most), 0.0)
        self._solver.changeColBounds(target, low, high)
        self._solver.changeColCost(target, -sign)
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise SolverError(
                f"HiGHS: found status {self._solver.getModelStatus()}, expected a furthest move"
            )
        d = np.array(self._solver.getSolution().col_value)
        self._solver.changeColCost(target, 0.0)
        self.withhold(one, True)
        cells = np.flatnonzero(np.abs(d) > SMALL)
        return cells, d[cells]


def _whole(proof: Proof, target: int) -> int:
    cells, d = proof
    return int(np.floor(np.abs(d[cells == target]).sum() + SMALL))


class Releaser:
    """Publishes secondary cells, the dearest first, while every target stays protected."""

    def __init__(
        self, matrix: Any, x: Ints, price: Floats, *, kept: Flags, need: Ints
    ) -> None:  # fmt: skip
        self.rows, self.columns = matrix.tocsr(), matrix.tocsc()
        self.withheld, self.kept, self.need = np.ones(len(x), dtype=bool), kept, need
        # A proof that keeps off secondary cells, and is short, stands in the way of few releases.
        self.mover = Mover(matrix, x, np.where(kept, 0.1, price))
        self.reach = Reach(matrix, x, self.withheld)
        self.count = np.diff(self.rows.indptr)
        self.proofs: dict[int, list[Proof]] = {}
        self.through: dict[int, set[int]] = {}

    def prove(self, target: int) -> bool:
        """Find proofs for a target in the pattern as it is."""
        width = int(self.need[target])
        short = self.mover.cheapest(target, width, tries=1)
        found = (
            self.reach.proofs(target, width)
            if short is None
            else [(short.cell, np.maximum(short.up, short.down))]
        )
        if found is None:
            return False
        self._set(target, found)
        return True

    def _set(self, target: int, proofs: list[Proof]) -> None:
        for cells, _ in self.proofs.get(target, []):
            for cell in cells.tolist():
                self.through[cell].discard(target)
        self.proofs[target] = proofs
        for cells, _ in proofs:
            for cell in cells.tolist():
                self.through.setdefault(cell, set()).add(target)

    def release(self, cell: int) -> bool:
        """Publish a cell, and those that could then be worked out, if every target allows it."""
        gone = self._follow(cell)
        if gone is None:
            return False
        cells = np.array(gone)
        self._publish(cells, True)
        affected = sorted({t for one in gone for t in self.through.get(one, ())})
        before = {t: self.proofs[t] for t in affected}
        for target in affected:
            if not self.prove(target):
                for other in affected:
                    self._set(other, before[other])
                self._publish(cells, False)
                self._recount(cells, 1)
                return False
        self.withheld[cells] = False
        return True

    def _publish(self, cells: Ints, published: bool) -> None:
        self.mover.set_shut(cells, published)
        self.reach.withhold(cells, not published)

    def _recount(self, cells: Ints, by: int) -> None:
        for cell in cells:
            self.count[self._rows_of(int(cell))] += by

    def _rows_of(self, cell: int) -> Ints:
        start, end = self.columns.indptr[cell : cell + 2]
        return np.asarray(self.columns.indices[start:end])

    def _follow(self, cell: int) -> list[int] | None:
        """Cells that are known once this one is, by one relation after another.

        None if a target or a kept cell is among them; this settles most cases without a program.
        """
        gone, pending = [cell], [cell]
        while pending:
            for row in self._rows_of(pending.pop()):
                self.count[row] -= 1
                if self.count[row] != 1:
                    continue
                start, end = self.rows.indptr[row : row + 2]
                last = [
                    int(j)
                    for j in self.rows.indices[start:end]
                    if self.withheld[j] and j not in gone
                ]
                if not last:
                    continue
                if self.kept[last[0]] or self.need[last[0]] > 0:
                    self._undo(gone)
                    return None
                gone.append(last[0])
                pending.append(last[0])
        return gone

    def _undo(self, gone: list[int]) -> None:
        """Count withheld cells of relations anew after a search that was broken off."""
        touched = np.unique(np.concatenate([self._rows_of(one) for one in gone]))
        for row in touched:
            start, end = self.rows.indptr[row : row + 2]
            self.count[row] = int(self.withheld[self.rows.indices[start:end]].sum())


def release(
    matrix: Any, x: Ints, price: Floats, *, withheld: Flags, kept: Flags, need: Ints
) -> tuple[Flags, Ints]:
    """A pattern from which no cell can be published any more, and the widths proven in it.

    ``kept`` cells stay withheld; ``need`` is the width that each target has to keep, 0 elsewhere.
    """
    cells = np.flatnonzero(withheld)
    part = matrix.tocsc()[:, cells].tocsr()
    part = part[np.diff(part.indptr) > 0]
    one = Releaser(part, x[cells], price[cells], kept=kept[cells], need=need[cells])
    for target in np.flatnonzero(need[cells]):
        if not one.prove(int(target)):
            raise SolverError("HiGHS: found no proof for a target that a move protects")
    secondary = np.flatnonzero(~kept[cells])
    for cell in secondary[np.argsort(-price[cells[secondary]], kind="stable")]:
        if one.withheld[cell]:
            one.release(int(cell))
    pattern, proven = withheld.copy(), need.copy()
    pattern[cells] = one.withheld
    for proofs in one.proofs.values():
        for moved, d in proofs:
            whole = np.floor(np.abs(d) + SMALL).astype(np.int64)
            proven[cells[moved]] = np.maximum(proven[cells[moved]], whole)
    return pattern, proven
