"""Equivalence classes of cells that published tables cannot distinguish, and the sums they fix.

It depends on the definitions of the tables, not on their numbers, and is worked out once for all
blocks. Cells of the schema that no table distinguishes make one equivalence class, one unknown
number. Each cell of a table is a *row*: a sum of classes. A *family* is a set of rows that do not
overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.arrays import Ends, Flags, Ints, Ints32
from headcount.attacks.intervals import UNKNOWN
from headcount.attacks.knowledge import KnownTable
from headcount.schema import Schema


@dataclass(frozen=True, eq=False)
class _Family:
    """Rows that do not overlap: columns of the tables side by side, and their row numbers."""

    columns: Ints
    rows: Ints


@dataclass(frozen=True, eq=False)
class _Implied:
    """Columns that are sums of a family's columns: nothing new, but they must agree."""

    columns: Ints
    by: Ints
    sums: Any  # sparse 0/1 (by x columns)


@dataclass(frozen=True, eq=False)
class Layout:
    """Rows of the tables held at one level.

    where
        row_of      (classes x families) row number of each class in each family, -1 for none
        size        number of rows
    """

    held: tuple[KnownTable, ...]
    families: tuple[_Family, ...]
    implied: tuple[_Implied, ...]
    row_of: Ints32
    size: int

    def published(self, units: Ints) -> tuple[Ints, Ints]:
        """Low and high of every cell of the tables side by side (units x cells)."""
        ends = [held.bounds(units) for held in self.held]
        return np.hstack([low for low, _ in ends]), np.hstack([high for _, high in ends])

    @property
    def valued(self) -> bool:
        """Whether some table has published numbers near which counts most likely are."""
        return any(held.value is not None for held in self.held)

    def likeliest(self, units: Ints) -> Ints:
        """Published number of every cell side by side (units x cells); -1 where there is none.

        Cells that are in no row have none: races tallied are no number of people.
        """
        value = np.hstack([held.likeliest(units) for held in self.held])
        value[:, ~self.used] = -1
        return value

    @property
    def used(self) -> Flags:
        """Which cells of the tables side by side are in a row."""
        mask = np.zeros(sum(held.cells.size for held in self.held), dtype=bool)
        for family in self.families:
            mask[family.columns] = True
        return mask

    def enforced(self, first: Ints, last: Ints) -> Ends:
        """Ends of every cell side by side, open where a cell is in no row."""
        return np.where(self.used, first, 0), np.where(self.used, last, UNKNOWN)

    def bounds(self, units: Ints) -> tuple[Ints, Ints, Flags]:
        """Low and high of every row (units x rows), and whether the tables agree at a glance."""
        return self.rows_of(*self.published(units))

    def rows_of(self, first: Ints, last: Ints) -> tuple[Ints, Ints, Flags]:
        """Row bounds from the tables' cells side by side."""
        low = np.zeros((len(first), self.size), dtype=np.int64)
        high = np.full((len(first), self.size), UNKNOWN, dtype=np.int64)
        agree, start = np.ones(len(first), dtype=bool), 0
        for held in self.held:
            if held.exact:
                values = first[:, start : start + held.cells.size]
                agree &= ~(held.cells.relations @ values.T).any(axis=0)
            start += held.cells.size
        for one in self.implied:
            agree &= (first[:, one.by] @ one.sums == first[:, one.columns]).all(axis=1)
        for family in self.families:
            rows = family.rows
            low[:, rows] = np.maximum(low[:, rows], first[:, family.columns])
            high[:, rows] = np.minimum(high[:, rows], last[:, family.columns])
        return low, high, agree & (low <= high).all(axis=1)


@dataclass(frozen=True, eq=False)
class Structure:
    """Classes of the schema's cells, with the layouts of the levels in use.

    where
        class_of    class of each cell of the schema, -1 for a structural zero
        cell_of     one cell of each class (the middle one) to stand for it
    """

    class_of: Ints
    cell_of: Ints
    layouts: tuple[Layout, ...]


def build_structure(
    schema: Schema, levels: Sequence[Sequence[KnownTable]], *, prune: bool = True
) -> Structure:
    """Classes by all the tables given, and one layout for the tables of each level."""
    tables = [held for level in levels for held in level]
    class_of = _classes(schema, tables)
    order = np.argsort(class_of, kind="stable")
    order = order[np.searchsorted(class_of[order], 0) :]
    start = np.searchsorted(class_of[order], np.arange(class_of.max() + 2))
    cell_of = order[(start[:-1] + start[1:] - 1) // 2]
    return Structure(
        class_of, cell_of, tuple(_layout(tuple(level), cell_of, prune) for level in levels)
    )


def _classes(schema: Schema, tables: Sequence[KnownTable]) -> Ints:
    """Number the sets of cells that no table tells apart, in the order of their first cell."""
    mark = np.zeros(schema.size, dtype=np.uint64)
    rng = np.random.default_rng(0)  # a hash: only equal or not matters
    for held in tables:
        weight = rng.integers(0, 1 << 63, held.cells.size, dtype=np.uint64)
        mark += held.cells.matrix.astype(np.uint64) @ weight
    possible = np.flatnonzero(schema.possible)
    _, first, inverse = np.unique(mark[possible], return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    number = np.full(schema.size, -1, dtype=np.int64)
    number[possible] = rank[inverse]
    return number


@dataclass(frozen=True, eq=False)
class _Draft:
    """A family before its rows are numbered; ``place`` is the position of each class, or -1."""

    columns: Ints
    place: Ints
    exact: bool


def _layout(tables: tuple[KnownTable, ...], cell_of: Ints, prune: bool) -> Layout:
    drafts: list[_Draft] = []
    start = 0
    for held in tables:
        matrix, cells = held.cells.matrix[cell_of].tocsc(), held.cells
        for family in np.unique(cells.family):
            columns = np.flatnonzero(cells.family == family)
            if prune and held.exact and not cells.inner[columns].any():
                continue  # a subtotal of exact numbers: the relations check it
            if matrix[:, columns].max() > 1:
                continue  # races tallied: no number of people, and the sum of the others
            drafts.append(_Draft(columns + start, _place(matrix[:, columns]), held.exact))
        start += cells.size
    implied: list[_Implied] = []
    if prune:
        drafts = _join(_prune(drafts, implied))  # joined families imply more
        drafts = _prune(drafts, implied)
    # The most telling family first: it strikes out most classes.
    drafts.sort(key=lambda one: -len(one.columns))
    return _number_rows(tables, drafts, tuple(implied), len(cell_of))


def _place(matrix: Any) -> Ints:
    """For each class the column it is in, -1 for none."""
    entries = matrix.tocoo()
    place = np.full(matrix.shape[0], -1, dtype=np.int64)
    place[entries.coords[0]] = entries.coords[1]
    return place


def _join(drafts: list[_Draft]) -> list[_Draft]:
    """Join families on different people (the iterations of a table by race, for one)."""
    joined: list[_Draft] = []
    for draft in drafts:
        for i, other in enumerate(joined):
            if other.exact == draft.exact and not ((other.place >= 0) & (draft.place >= 0)).any():
                moved = np.where(draft.place >= 0, draft.place + len(other.columns), -1)
                columns = np.concatenate([other.columns, draft.columns])
                joined[i] = _Draft(columns, np.maximum(other.place, moved), draft.exact)
                break
        else:
            joined.append(draft)
    return joined


def _prune(drafts: list[_Draft], implied: list[_Implied]) -> list[_Draft]:
    """Set aside, in ``implied``, exact families that are sums of another exact family."""
    from scipy.sparse import csr_array

    kept = list(drafts)
    for one in sorted(drafts, key=lambda one: len(one.columns)):
        for other in kept:
            if other is one or not (one.exact and other.exact):
                continue
            target = _sums_of(one.place, other.place, len(other.columns))
            if target is None:
                continue
            used = np.flatnonzero(target >= 0)
            shape = (len(other.columns), len(one.columns))
            sums = csr_array((np.ones(len(used), np.int64), (used, target[used])), shape=shape)
            implied.append(_Implied(one.columns, other.columns, sums))
            kept = [family for family in kept if family is not one]
            break
    return kept


def _sums_of(coarse: Ints, fine: Ints, size: int) -> Ints | None:
    """For each fine row the coarse row that holds it; None if some row lies across."""
    if ((coarse >= 0) & (fine < 0)).any():
        return None
    target = np.full(size, -1, dtype=np.int64)
    inside = fine >= 0
    target[fine[inside]] = coarse[inside]
    return target if (target[fine[inside]] == coarse[inside]).all() else None


def _number_rows(
    tables: tuple[KnownTable, ...], drafts: list[_Draft], implied: tuple[_Implied, ...], size: int
) -> Layout:
    """Give rows of the same classes the same number, so that they become one constraint."""
    row_of = np.full((size, len(drafts)), -1, dtype=np.int32)
    if not drafts:
        return Layout(tables, (), implied, row_of, 0)
    mark = np.random.default_rng(1).integers(0, 1 << 63, size, dtype=np.uint64)
    sums = []
    for draft in drafts:
        total = np.zeros(len(draft.columns), dtype=np.uint64)
        np.add.at(total, draft.place[draft.place >= 0], mark[draft.place >= 0])
        sums.append(total)
    _, number = np.unique(np.concatenate(sums), return_inverse=True)
    families, start = [], 0
    for f, draft in enumerate(drafts):
        rows = number[start : start + len(draft.columns)].astype(np.int64)
        start += len(draft.columns)
        families.append(_Family(draft.columns, rows))
        inside = draft.place >= 0
        row_of[inside, f] = rows[draft.place[inside]]
    return Layout(tables, tuple(families), implied, row_of, int(number.max()) + 1)
