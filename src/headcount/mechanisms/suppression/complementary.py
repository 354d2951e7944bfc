"""Complementary suppression: what else to withhold so that margins do not give cells away.

The attacker knows every published cell exactly, which cells are withheld, the relations, and that
counts are whole and not negative; not which withheld cells were the sensitive ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.errors import InputError
from headcount.mechanisms.suppression.moves import Floats, Ints
from headcount.mechanisms.suppression.region import protect_region
from headcount.mechanisms.suppression.regions import around, regions
from headcount.tabulate.additive import Additive, depths

Flags = NDArray[np.bool_]
REGION = (600, 1200, 2400, 4800)
"""Cells of a region for each effort."""
WHOLE = 30_000
"""Cells of the largest table that is searched whole for a cell that nothing near protects."""
LARGEST_EFFORT = len(REGION) - 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Pattern:
    """Which cells are withheld.

    where
        primary    withheld for what they are
        withheld   these and the secondary ones
        proven     for each cell a width that its interval is known to have, 0 if none
        failed     primary cells left narrower than asked: nothing tried protects them
        cost       price of the secondary cells
        programs   how many moves were looked for and found
    """

    primary: Flags
    withheld: Flags
    proven: Ints
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


def complement(
    additive: Additive,
    values: ArrayLike,
    primary: ArrayLike,
    *,
    width: int = 3,
    price: ArrayLike | None = None,
    publish: ArrayLike | None = None,
    effort: int = 1,
) -> Pattern:
    """Withhold further cells at a low price until no primary one can be told to within ``width``.

    where
        values    true counts, which keep every relation
        primary   flags of cells to withhold for what they are
        width     the difference of the ends of a primary cell's tightest interval, at least;
                  a secondary cell's is at least 1: it is never exact
        price     of withholding each cell; by default 1 + log(1 + count)
        publish   flags of cells never to withhold; zeros never are
        effort    0 to 3: larger regions and more second thoughts cost time and save cells;
                  0, for millions of cells, has small regions and no second thoughts at all

    The same values give the same pattern. Method: for each primary cell the cheapest move by a
    linear program (Robertson 1993, Kelly et al. 1992) in a region of sibling units, those of 1
    first, with cells withheld before for nothing; then moves are taken up and routed anew.
    """
    x, first, may, w = checked(additive, values, primary, price, publish, effort)
    state = _Progress(additive, x, first, may, w, effort=effort)
    state.protect(np.where(first & ~derivable(additive, may), width, 0))
    failed = np.flatnonzero(first & (state.proven < width))
    for _ in range(3):  # a secondary cell that moves by a fraction only is still exact
        loose = state.withheld & ~first & (state.proven < 1)
        if not loose.any():
            break
        state.protect(np.where(loose, 1, 0))
    secondary = state.withheld & ~first
    return Pattern(
        primary=first,
        withheld=state.withheld,
        proven=state.proven,
        failed=failed,
        cost=float(w[secondary].sum()),
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


class _Progress:
    """The pattern so far."""

    def __init__(
        self, additive: Additive, x: Ints, primary: Flags, may: Flags, price: Floats, *, effort: int
    ) -> None:
        self.additive, self.x, self.may, self.price = additive, x, may, price
        self.effort = effort
        self.withheld = primary.copy()
        self.proven = np.zeros(len(x), dtype=np.int64)
        self.depth = depths(additive.parent)[additive.unit]
        self.programs = 0
        order = np.argsort(additive.unit, kind="stable")
        self._cells = order
        self._first = np.searchsorted(
            additive.unit[order], np.arange(len(additive.parent) + 1)
        )  # fmt: skip

    def protect(self, need: Ints) -> None:
        """Give every cell the width it needs, region by region; what is left, one by one."""
        parts = list(regions(self.additive, self.may, cells=REGION[self.effort]))
        inside = np.zeros(len(self.additive.parent), dtype=bool)
        for units in parts:
            inside[units] = True
        high = np.flatnonzero((need > self.proven) & ~inside[self.additive.unit])
        for target in sorted(high, key=lambda c: (self.depth[c], self.x[c], c)):
            self._alone(int(target), need)
        for units in parts:
            self._region(units, need)
        left = np.flatnonzero(need > self.proven)
        for target in sorted(left, key=lambda c: (self.depth[c], self.x[c], c)):
            self._alone(int(target), need)

    def _region(self, units: Ints, need: Ints, only: int | None = None) -> None:
        cells = np.concatenate(
            [self._cells[self._first[u] : self._first[u + 1]] for u in np.sort(units)]
        )
        cells = cells[self.may[cells]]
        wanted = need[cells] > self.proven[cells]
        if only is not None:
            wanted &= cells == only
        targets = np.flatnonzero(wanted)
        if not len(targets):
            return
        # Where units nest, a cell higher up goes first: what it takes below is shared by more.
        order = np.lexsort((targets, self.x[cells[targets]], self.depth[cells[targets]]))
        targets = targets[order]
        matrix = self.additive.columns[:, cells].tocsr()
        matrix = matrix[np.diff(matrix.indptr) > 0]
        made = protect_region(
            matrix, self.x[cells], self.price[cells], withheld=self.withheld[cells],
            targets=targets, width=need[cells[targets]], effort=self.effort,
        )  # fmt: skip
        self.programs += made.programs
        self.withheld[cells] = made.withheld
        self.proven[cells] = np.maximum(self.proven[cells], made.proven)

    def _alone(self, target: int, need: Ints) -> None:
        """Wider and wider regions for one cell, at last the whole table."""
        top = int(self.depth[target]) + 1
        tries = [(up, kin) for kin in (4, 16) for up in range(1, top + 1)]
        for up, kin in tries:
            if self.proven[target] >= need[target]:
                return
            units = around(
                self.additive, self.x, self.may, target, kin=kin, up=up
            )  # fmt: skip
            self._region(units, need, only=target)
        if self.proven[target] < need[target] and self.may.sum() <= WHOLE:
            self._region(np.arange(len(self.additive.parent)), need, only=target)


def checked(
    additive: Additive, values: ArrayLike, primary: ArrayLike, price: ArrayLike | None,
    publish: ArrayLike | None, effort: int,
) -> tuple[Ints, Flags, Flags, Floats]:  # fmt: skip
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
