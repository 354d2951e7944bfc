"""Complementary suppression: what else to withhold so that margins do not give cells away.

The attacker knows every published cell exactly, which cells are withheld, the relations and the
rules: zeros are never withheld, so that every withheld cell holds 1 at least. He does not know
which withheld cells were the sensitive ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import InputError
from headcount.mechanisms.suppression._regions import Around, protect_region, regions
from headcount.mechanisms.suppression.witnesses import Move, Mover, Need, Proof, Witnesses, proof
from headcount.processes import Progress, silent
from headcount.tabulate.additive import Additive, depths
from headcount.tabulate.published import TableCells

REGION = (600, 1200, 2400, 4800)
"""Cells of a region for each effort."""
WHOLE = 30_000
"""Cells of the largest table that is searched whole for a cell that nothing near protects."""
LARGEST_EFFORT = len(REGION) - 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Pattern:
    """Which cells are withheld.

    where
        primary     withheld for what they are
        withheld    these and the secondary ones
        witnesses   tables that show each primary cell to be protected; every secondary cell
                    differs from the truth in some of them
        failed      primary cells that are not protected, which happens only where cells that must
                    be published give them away
        cost        price of the secondary cells
        programs    how many proofs were looked for and found
    """

    primary: Flags
    withheld: Flags
    witnesses: Witnesses
    failed: Ints
    cost: float
    programs: int

    @property
    def secondary(self) -> Flags:
        """Withheld for the others' sake."""
        return self.withheld & ~self.primary


def default_price(values: Ints) -> Floats:
    """1 + log(1 + count): few cells first, then few people."""
    return np.asarray(1 + np.log1p(values), dtype=np.float64)


def needs(values: Ints, primary: Flags, *, threshold: int, width: int) -> Need:
    """What protects a primary cell: max x_c > threshold, and max x_c - min x_c >= width."""
    return Need(
        rise=np.maximum(threshold + 1 - values, 0), width=np.where(primary, max(width, 1), 0)
    )


def complement(
    additive: Additive,
    values: ArrayLike,
    primary: ArrayLike,
    *,
    width: int = 3,
    threshold: int = 2,
    price: ArrayLike | None = None,
    publish: ArrayLike | None = None,
    effort: int = 1,
    progress: Progress = silent,
) -> Pattern:
    """Withhold further cells at a low price until every primary one is protected.

    A primary cell c is protected if, over all whole tables that agree with what is published and
    hold 1 at least in every withheld cell, max x_c > threshold and max x_c - min x_c >= width.
    Tables that show it, the witnesses, come with the pattern.

    where
        values      true counts, which keep every relation
        primary     flags of cells to withhold for what they are
        threshold   the largest count that is too small to publish
        width       the difference of the ends of a primary cell's interval, at least; a secondary
                    cell's is at least 1, or it is published
        price       of withholding each cell; by default 1 + log(1 + count)
        publish     flags of cells never to withhold; zeros never are
        effort      0 to 3: larger regions and more second thoughts cost time and save cells;
                    0, for millions of cells, has small regions and no second thoughts at all
        progress    shows how far the search is

    The same values give the same pattern. Method: for each primary cell the cheapest move by a
    linear program (Robertson 1993, Kelly et al. 1992) in a region of sibling units, those of 1
    first, with cells withheld before for nothing; then moves are taken up and routed anew. What
    nothing near protects is protected upwards: three more people like one of those in the cell
    raise counts above 0 only, all the way to the grand total, so that unless some of these must
    be published there is always a pattern.
    """
    x, first, may, w = checked(additive, values, primary, price, publish, effort)
    need = needs(x, first, threshold=threshold, width=width)
    state = _Search(additive, x, may, w, need, effort=effort, progress=progress)
    state.protect(first & ~derivable(additive, may))
    witnesses = Witnesses.of(state.witnesses())
    withheld = first.copy()
    withheld[witnesses.cell] = True
    return Pattern(
        primary=first,
        withheld=withheld,
        witnesses=witnesses,
        failed=np.flatnonzero(first & ~state.protected),
        cost=float(w[withheld & ~first].sum()),
        programs=state.programs,
    )


def derivable(additive: Additive, withheld: Flags) -> Flags:
    """Cells that follow from published ones by one relation after another; these among them."""
    entries = additive.matrix.astype(bool).astype(np.int64)
    known = ~withheld
    while True:
        unknown = entries @ ~known
        last = np.flatnonzero(unknown == 1)
        found = (entries[last].T @ np.ones(len(last), dtype=np.int64) > 0) & ~known
        if not found.any():
            return known
        known |= found


def in_the_way(
    additive: Additive,
    values: Ints,
    need: Need,
    *,
    publish: Flags,
    target: int,
) -> Ints:
    """Cells to be published of which some must be withheld for a primary cell to be protected.

    They are those of the move that goes through the fewest of them; none, if no move is found.
    """
    cells = np.flatnonzero(values > 0)
    matrix = additive.columns[:, cells].tocsr()
    matrix = matrix[np.diff(matrix.indptr) > 0]
    mover = Mover(matrix, values[cells], np.where(publish[cells], 1.0, 1e-3))
    found = mover.cheapest(int(np.searchsorted(cells, target)), need.at(cells))
    moved = cells[found.cell] if found is not None else np.empty(0, dtype=np.int64)
    return np.asarray(moved[publish[moved]])


class _Search:
    """The pattern so far."""

    def __init__(
        self,
        additive: Additive,
        x: Ints,
        may: Flags,
        price: Floats,
        need: Need,
        *,
        effort: int,
        progress: Progress,
    ) -> None:
        self.additive, self.x, self.may, self.price = additive, x, may, price
        self.need, self.effort, self.progress = need, effort, progress
        self.withheld = need.width > 0
        self.protected = np.zeros(len(x), dtype=bool)
        self.depth = depths(additive.parent)[additive.unit]
        self.programs = 0
        self._proofs: list[tuple[Ints, Proof]] = []
        self._around = Around(additive, x)
        order = np.argsort(additive.unit, kind="stable")
        self._cells = order
        self._first = np.searchsorted(additive.unit[order], np.arange(len(additive.parent) + 1))

    def protect(self, wanted: Flags) -> None:
        """Protect every cell that is wanted, region by region; what is left, one by one."""
        parts = list(regions(self.additive, self.may, cells=REGION[self.effort]))
        inside = np.zeros(len(self.additive.parent), dtype=bool)
        for units in parts:
            inside[units] = True
        self._each(wanted & ~inside[self.additive.unit])
        for units in self.progress(parts, what="withholding, by region", total=len(parts)):
            self._region(units, wanted)
        self._each(wanted)

    def witnesses(self) -> Iterator[tuple[Ints, Ints]]:
        """Cells and changes of all tables found."""
        for cells, one in self._proofs:
            for cell, change in one.witnesses:
                yield cells[cell], change

    def _each(self, wanted: Flags) -> None:
        """Protect cells one by one, those high up and the smallest first."""
        left = np.flatnonzero(wanted & ~self.protected)
        order = left[np.lexsort((left, self.x[left], self.depth[left]))].tolist()
        for target in self.progress(order, what="withholding, cell by cell", total=len(order)):
            self._alone(target)

    def _region(self, units: Ints, wanted: Flags) -> None:
        cells = np.concatenate(
            [self._cells[self._first[u] : self._first[u + 1]] for u in np.sort(units)]
        )
        cells = cells[self.may[cells]]
        targets = np.flatnonzero(wanted[cells] & ~self.protected[cells])
        if not len(targets):
            return
        # Where units nest, a cell higher up goes first: what it takes below is shared by more.
        order = np.lexsort((targets, self.x[cells[targets]], self.depth[cells[targets]]))
        matrix = self.additive.columns[:, cells].tocsr()
        matrix = matrix[np.diff(matrix.indptr) > 0]
        need = self.need.at(cells)
        made = protect_region(
            matrix,
            self.x[cells],
            self.price[cells],
            withheld=self.withheld[cells],
            targets=targets[order],
            need=need,
            effort=self.effort,
        )
        self.programs += made.programs
        self.withheld[cells] = made.withheld
        for one in made.proofs:
            self.protected[cells[one.cell[need.met(one)]]] = True
            self._proofs.append((cells, one))

    def _alone(self, target: int) -> None:
        """Wider and wider regions for one cell, then the whole table, at last upwards."""
        only = np.zeros(len(self.x), dtype=bool)
        only[target] = True
        top = int(self.depth[target]) + 1
        for kin in (4, 16):
            for up in range(1, top + 1):
                if self.protected[target]:
                    return
                self._region(self._around.units(target, kin=kin, up=up), only)
        if not self.protected[target] and self.may.sum() <= WHOLE:
            self._region(np.arange(len(self.additive.parent)), only)
        if not self.protected[target]:
            self._region(self._around.units(target, kin=0, up=top), only)
        if not self.protected[target]:
            self._everything()

    def _everything(self) -> None:
        """Withhold all that is not 0, if that is allowed: then all counts may be any multiple."""
        cells = np.flatnonzero(self.x > 0)
        if not self.may[cells].all():
            return
        times = int(max(self.need.rise.max(), self.need.width.max()))
        one = proof([Move(cell=np.arange(len(cells)), d=self.x[cells], up=times, down=0)])
        self.withheld[cells] = self.protected[cells] = True
        self._proofs.append((cells, one))


def checked(
    additive: Additive,
    values: ArrayLike,
    primary: ArrayLike,
    price: ArrayLike | None,
    publish: ArrayLike | None,
    effort: int,
) -> tuple[Ints, Flags, Flags, Floats]:
    """The inputs of a suppressor, checked: values, primary, cells that may be withheld, prices."""
    additive.check(values)
    x = np.asarray(values, dtype=np.int64)
    first = np.asarray(primary, dtype=bool)
    forced = np.zeros(len(x), dtype=bool) if publish is None else np.asarray(publish, dtype=bool)
    if np.any(x < 0):
        raise InputError("complement", place="values", found="negative counts", expected="none")
    w = default_price(x) if price is None else np.asarray(price, dtype=np.float64)
    for what, found in (("primary", first), ("publish", forced), ("price", w)):
        if found.shape != x.shape:
            raise InputError(
                "complement", place=what, found=f"shape {found.shape}", expected=f"{x.shape}"
            )
    for what, bad in (("a zero", first & (x == 0)), ("a cell to publish", first & forced)):
        if bad.any():
            raise InputError(
                "complement",
                place=f"cell {int(np.argmax(bad))}",
                found=f"{what} among the primary cells",
                expected="positive counts that may be withheld",
            )
    if np.any(~(w > 0) | ~np.isfinite(w)):
        raise InputError(
            "complement",
            place="price",
            found="a price that is not positive",
            expected="all above 0",
        )
    if not 0 <= effort <= LARGEST_EFFORT:
        raise InputError(
            "complement", place="effort", found=str(effort), expected=f"0 to {LARGEST_EFFORT}"
        )
    return x, first, (x > 0) & ~forced, w


@dataclass(frozen=True, eq=False)
class _GivenBack:
    """Which cells of some tables follow from one more table, alone or with another cell.

    A table of ages counts the same people again as tables of race. Published whole beside these,
    its cells are not protected one by one: where it would give a withheld cell back, the whole
    table is withheld for that unit.

    where
        alone      for each cell whether it is a sum of cells of the table
        together   (cell, other) whether the cell follows from such a sum and the other cell
    """

    alone: Flags
    together: Flags

    def units(self, withheld: Flags) -> Flags:
        """Units in which the table would give back one of the cells withheld (units x cells)."""
        helped = (withheld.astype(np.int64) @ self.together > 0) & ~withheld
        return np.asarray(withheld[:, self.alone].any(axis=1) | helped.any(axis=1))


def given_back(cells: TableCells, others: Sequence[TableCells]) -> _GivenBack:
    """What a table tells of the cells of some others, side by side in their order.

        c = s,   c = s - p,   c = p - s   or   c = p + s

    where
        c, p   cells of the other tables, as sets of people
        s      a sum of cells of the table

    No cell of the other tables counts anybody twice. So what cells share is enough to know them
    apart: c + p is a set if they share nobody, and p - c is one if they share all of c.
    """
    from scipy.sparse import hstack

    every = hstack([one.matrix for one in others], format="csc")
    own = cells.matrix[:, cells.inner]
    shared = np.asarray((every.T @ every).toarray(), dtype=np.int64)
    parts = np.asarray((own.T @ every).toarray(), dtype=np.int64)
    size, people = np.asarray(own.sum(axis=0), dtype=np.int64).ravel(), shared.diagonal()

    def are_sums(parts: Ints, people: Ints) -> Flags:
        """Whether sets are sums of cells of the table, by what they share with each of these."""
        return np.asarray((people > 0) & (size @ (parts == size[:, None]) == people))

    together = []
    for c, number in enumerate(people):
        part, both = parts[:, [c]], shared[c]
        together.append(
            ((both == 0) & are_sums(parts + part, people + number))
            | ((both == number) & are_sums(parts - part, people - number))
            | ((both == people) & are_sums(part - parts, number - people))
        )
    return _GivenBack(are_sums(parts, people), np.array(together))
