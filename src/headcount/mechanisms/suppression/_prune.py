"""Make a pattern smaller: publish again every cell that protection does not need withheld."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.mechanisms.suppression.moves import Move, Mover, Need, Proof, proof


class Pruner:
    """Publishes secondary cells, the dearest first, while every target stays protected."""

    def __init__(self, matrix: Any, x: Ints, price: Floats, *, fixed: Flags, need: Need) -> None:
        self.rows, self.columns = matrix.tocsr(), matrix.tocsc()
        self.withheld, self.fixed, self.need = np.ones(len(x), dtype=bool), fixed, need
        # A proof that keeps off secondary cells, and is short, stands in the way of few of these.
        self.mover = Mover(matrix, x, np.where(fixed, 0.1, price))
        self.count = np.diff(self.rows.indptr)
        self.proofs: dict[int, Proof] = {}
        self.through: dict[int, set[int]] = {}

    def prove(self, target: int, known: Proof | None = None) -> bool:
        """Find a proof for a target in the pattern as it is, or use the one known."""
        found = self.mover.cheapest(target, self.need, tries=1)
        if found is None:
            found = known or self.mover.cheapest(target, self.need)
        if found is None:
            return False
        self._set(target, found)
        return True

    def _set(self, target: int, new: Proof) -> None:
        if target in self.proofs:
            for cell in self.proofs[target].cell.tolist():
                self.through[cell].discard(target)
        self.proofs[target] = new
        for cell in new.cell.tolist():
            self.through.setdefault(cell, set()).add(target)

    def publish(self, cell: int) -> bool:
        """Publish a cell, and those that could then be worked out, if every target allows it."""
        gone = self._follow(cell)
        if gone is None:
            return False
        cells = np.array(gone)
        self.mover.set_shut(cells, True)
        affected = sorted({t for one in gone for t in self.through.get(one, ())})
        before = {t: self.proofs[t] for t in affected}
        for target in affected:
            if not self.prove(target):
                for other in affected:
                    self._set(other, before[other])
                self.mover.set_shut(cells, False)
                self._recount(cells)
                return False
        self.withheld[cells] = False
        return True

    def _recount(self, cells: Ints) -> None:
        """Count the withheld cells of relations anew."""
        for row in np.unique(np.concatenate([self._rows_of(int(one)) for one in cells])):
            start, end = self.rows.indptr[row : row + 2]
            self.count[row] = int(self.withheld[self.rows.indices[start:end]].sum())

    def _rows_of(self, cell: int) -> Ints:
        start, end = self.columns.indptr[cell : cell + 2]
        return np.asarray(self.columns.indices[start:end])

    def _follow(self, cell: int) -> list[int] | None:
        """Cells that are known once this one is, by one relation after another.

        None if a target or a fixed cell is among them; this settles most cases without a program.
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
                if self.fixed[last[0]] or self.need.width[last[0]] > 0:
                    self._recount(np.array(gone))
                    return None
                gone.append(last[0])
                pending.append(last[0])
        return gone


def prune(
    matrix: Any,
    x: Ints,
    price: Floats,
    *,
    withheld: Flags,
    fixed: Flags,
    need: Need,
    known: Sequence[Proof],
) -> tuple[Flags, tuple[Proof, ...]]:
    """A pattern from which no cell can be published any more, and the proofs that hold in it.

    ``fixed`` cells stay withheld; ``known`` proofs show that the pattern is enough to begin with.
    """
    cells = np.flatnonzero(withheld)
    part = matrix.tocsc()[:, cells].tocsr()
    part = part[np.diff(part.indptr) > 0]
    one = Pruner(part, x[cells], price[cells], fixed=fixed[cells], need=need.at(cells))
    at = np.full(len(x), -1)
    at[cells] = np.arange(len(cells))
    first: dict[int, Proof] = {}
    for old in known:
        for target in old.cell[need.met(old)].tolist():
            first.setdefault(int(at[target]), _renumber(old, at))
    for target in np.flatnonzero(one.need.width):
        one.prove(int(target), first[int(target)])
    secondary = np.flatnonzero(~fixed[cells])
    for cell in secondary[np.argsort(-price[cells[secondary]], kind="stable")]:
        if one.withheld[cell]:
            one.publish(int(cell))
    pattern = withheld.copy()
    pattern[cells] = one.withheld
    distinct = {id(found): found for found in one.proofs.values()}
    return pattern, tuple(_renumber(found, cells) for found in distinct.values())


def _renumber(one: Proof, number: Ints) -> Proof:
    """The same proof on cells that are numbered otherwise."""
    return proof(
        [Move(cell=number[each.cell], d=each.d, up=each.up, down=each.down) for each in one.moves]
    )
