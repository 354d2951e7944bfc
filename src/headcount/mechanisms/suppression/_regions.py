"""A large table in regions (groups of sibling units, all above them fixed), each protected alone.

A move inside a region leaves every cell outside as it is, so it is a move of the whole table too:
regions can be protected one by one, and none undoes what another did. Within a region each target
is routed, then taken up and routed again; at last every cell is published again that protection
does not need withheld.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.mechanisms.suppression.witnesses import Move, Mover, Need, Proof, proof
from headcount.tabulate.additive import Additive, depths

FEWEST = 4  # siblings in a region, if there are as many: fewer leave no choice
BELOW = 2  # units taken below each unit that is taken for what it has of the target


def regions(additive: Additive, open_cells: Flags, *, cells: int) -> Iterator[Ints]:
    """Units of each region, of about ``cells`` cells that may be withheld.

    Units near the top whose regions would be far larger are in none: see ``Around``.
    """
    parent = additive.parent
    own = np.bincount(additive.unit[open_cells], minlength=len(parent))
    below = _sums_below(parent, own)
    first, child = _children(parent)
    tops = np.flatnonzero(parent < 0)
    if below[tops].sum() <= cells:
        yield np.arange(len(parent))
        return
    pending = [tops]
    while pending:
        family = pending.pop()
        small = family[below[family] <= cells // 2]
        for large in family[below[family] > cells // 2]:
            pending.append(child[first[large] : first[large + 1]])
        if len(small):
            groups = min(-(-int(below[small].sum()) // cells), max(len(small) // FEWEST, 1))
            for group in np.array_split(small, groups):
                yield _subtrees(group, first, child)


class Around:
    """Units around one cell: those above it, and those elsewhere that have much of the same.

    "The same" in another unit is found by the relations between a unit and those below it: from a
    cell to the sum of which it is a part, in the unit above, and down to the other parts.
    """

    def __init__(self, additive: Additive, values: Ints) -> None:
        self.additive, self.values = additive, values
        unit, parent = additive.unit, additive.parent
        total = np.repeat(additive.total, np.diff(additive.start))
        upward = parent[unit[additive.part]] == unit[total]
        part, total = additive.part[upward], total[upward]
        self._above = np.full(additive.size, -1)
        self._above[part] = total
        # Parts of each cell, the fullest first.
        order = np.lexsort((part, -values[part], total))
        self._part = part[order]
        self._first = np.searchsorted(total[order], np.arange(additive.size + 1))

    def units(self, target: int, *, kin: int, up: int) -> Ints:
        """The units on the way ``up``, ``kin`` of their other children and some below these.

        The unit that many levels above is held still; if there is none, nothing is.
        """
        parent, unit = self.additive.parent, self.additive.unit
        found = set(self._down(target))
        cell, here = target, int(unit[target])
        for _ in range(up):
            above = int(parent[here])
            if above < 0:
                found |= {int(one) for one in np.flatnonzero(parent < 0)}
                break
            cell = int(self._above[cell]) if cell >= 0 else -1
            for other in self._parts(cell, kin) if cell >= 0 else []:
                found |= {int(unit[other]), *self._down(int(other))}
            found.add(here)
            here = above
        return np.array(sorted(found))

    def _parts(self, cell: int, most: int) -> Ints:
        first, end = self._first[cell : cell + 2]
        parts = self._part[first : min(end, first + most)]
        return np.asarray(parts[self.values[parts] > 0])

    def _down(self, cell: int) -> list[int]:
        """Units below that hold most of a cell, and its own."""
        found, level = [], [cell]
        while level:
            found += [int(self.additive.unit[one]) for one in level]
            level = [int(part) for one in level for part in self._parts(one, BELOW)]
        return found


def _sums_below(parent: Ints, own: Ints) -> Ints:
    below = own.astype(np.int64)
    depth = depths(parent)
    for level in range(int(depth.max(initial=0)), 0, -1):
        here = np.flatnonzero(depth == level)
        np.add.at(below, parent[here], below[here])
    return below


def _children(parent: Ints) -> tuple[Ints, Ints]:
    """First child of each unit in the list of children, and the list."""
    child = np.argsort(parent, kind="stable")
    child = child[parent[child] >= 0]
    return np.searchsorted(parent[child], np.arange(len(parent) + 1)).astype(np.int64), child


def _subtrees(tops: Ints, first: Ints, child: Ints) -> Ints:
    found, level = [tops], tops
    while len(level):
        level = np.concatenate([child[first[u] : first[u + 1]] for u in level])
        found.append(level)
    return np.concatenate(found)


class _Pruner:
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
    one = _Pruner(part, x[cells], price[cells], fixed=fixed[cells], need=need.at(cells))
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


SMALL_REGION = 400
"""Regions of up to this many cells are tried several times."""


@dataclass(eq=False)
class _State:
    """Which proofs stand, what they use and whom they protect."""

    need: Need
    fixed: Flags  # withheld whatever we do
    used: Ints  # standing proofs through each cell
    covers: Ints  # standing proofs that protect each cell
    proofs: dict[int, Proof] = field(default_factory=dict)
    serial: int = 0

    def add(self, one: Proof, mover: Mover) -> int:
        self.used[one.cell] += 1
        self.covers[one.cell] += self.need.met(one)
        mover.set_free(one.cell, True)
        self.serial += 1
        self.proofs[self.serial] = one
        return self.serial

    def drop(self, number: int, mover: Mover) -> Proof:
        one = self.proofs.pop(number)
        self.used[one.cell] -= 1
        self.covers[one.cell] -= self.need.met(one)
        mover.set_free(one.cell[(self.used[one.cell] == 0) & ~self.fixed[one.cell]], False)
        return one

    def own(self, number: int) -> Ints:
        """Cells that are withheld for one proof only."""
        cell = self.proofs[number].cell
        return np.asarray(cell[(self.used[cell] == 1) & ~self.fixed[cell]])

    def uncovered_without(self, number: int) -> Ints:
        """Cells that one proof alone protects."""
        one = self.proofs[number]
        return np.asarray(one.cell[self.need.met(one) & (self.covers[one.cell] == 1)])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Protected:
    """What a region needs: cells to withhold, and the proofs that they are enough."""

    withheld: Flags
    proofs: tuple[Proof, ...]
    failed: Ints
    programs: int


def protect_region(
    matrix: Any, x: Ints, price: Floats, *, withheld: Flags, targets: Ints, need: Need, effort: int
) -> _Protected:
    """Cheap moves that give each target what it needs; ``withheld`` cells cost nothing.

    Small regions are tried several times with other orders and prices a little off, always the
    same ones; the try that protects most is kept, among such the cheapest.
    """
    best: _Protected | None = None
    least = (len(targets) + 1, np.inf)
    tries = 1 + (min(12, 2000 // len(x)) * effort if len(x) <= SMALL_REGION else 0)
    for number in range(tries):
        rng = np.random.default_rng(number)
        order = rng.permutation(len(targets)) if number else np.arange(len(targets))
        off = np.exp(0.3 * rng.standard_normal(len(x))) if number else 1.0
        made = _try(
            matrix,
            x,
            price * off,
            withheld=withheld,
            targets=targets[order],
            need=need,
            effort=effort,
        )
        cost = (len(made.failed), float(price[made.withheld & ~withheld].sum()))
        if cost < (least[0], least[1] - 1e-9):
            best, least = made, cost
        if not any(cost):
            break
    assert best is not None
    return best


def _try(
    matrix: Any, x: Ints, price: Floats, *, withheld: Flags, targets: Ints, need: Need, effort: int
) -> _Protected:
    """Route, route again, release.

    First each target gets its cheapest move, given those before. Then, ``effort`` times over, each
    proof is taken up and its targets are routed anew, now that others are withheld; the new ones
    stay if they cost less. Last, unless ``effort`` is 0, cells are published again, the dearest
    first, while moves on the others still give every target what it needs.
    """
    mover = Mover(matrix, x, price)
    mover.set_free(np.flatnonzero(withheld), True)
    wanted = np.zeros(len(x), dtype=bool)
    wanted[targets] = True
    state = _State(
        need=Need(rise=need.rise, width=np.where(wanted, need.width, 0)),
        fixed=withheld,
        used=np.zeros(len(x), dtype=np.int64),
        covers=np.zeros(len(x), dtype=np.int64),
    )
    failed = [t for t in targets if not state.covers[t] and not _route(int(t), state, mover)]
    failed = [t for t in failed if not state.covers[t]]
    for _ in range(effort):
        if not _improve(state, mover):
            break
    _thin(state, mover)
    pattern, proofs = withheld | (state.used > 0), tuple(state.proofs.values())
    if effort:
        state.need.width[failed] = 0
        pattern, proofs = prune(
            matrix, x, price, withheld=pattern, fixed=withheld, need=state.need, known=proofs
        )
    return _Protected(
        withheld=pattern,
        proofs=proofs,
        failed=np.array(failed, dtype=np.int64),
        programs=state.serial,
    )


def _route(target: int, state: _State, mover: Mover) -> int:
    found = mover.cheapest(target, state.need)
    return 0 if found is None else state.add(found, mover)


def _thin(state: _State, mover: Mover) -> None:
    """Drop proofs whose targets have others by now, those first that cost most."""
    price = {number: mover.price[state.own(number)].sum() for number in state.proofs}
    for number in sorted(price, key=lambda one: (-price[one], one)):
        if not len(state.uncovered_without(number)):
            state.drop(number, mover)


def _improve(state: _State, mover: Mover) -> bool:
    """Take up each proof and route anew; whether anything was gained."""
    gained = False
    price = {number: mover.price[state.own(number)].sum() for number in state.proofs}
    for number in sorted(price, key=lambda one: (-price[one], one)):
        if mover.price[state.own(number)].sum() > 0:
            gained |= _again(number, state, mover)
    return gained


def _again(number: int, state: _State, mover: Mover) -> bool:
    before, uncovered = mover.price[state.own(number)].sum(), state.uncovered_without(number)
    old = state.drop(number, mover)
    fresh: list[int] = []
    after = 0.0
    for target in uncovered:
        if state.covers[target]:
            continue
        found = mover.cheapest(int(target), state.need)
        if found is None:
            after = np.inf
            break
        after += mover.price[found.cell[~mover.free[found.cell]]].sum()
        fresh.append(state.add(found, mover))
        if after >= before:
            break
    if after < before - 1e-9 and all(state.covers[uncovered]):
        return True
    for one in fresh:
        state.drop(one, mover)
    state.add(old, mover)
    return False
