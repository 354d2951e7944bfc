"""Published tables over a geography as one set of cells that add up.

Every table is a product of trees: units, and the groups of each axis with their subtotals. Cells
of two tables that count the same people are one cell (all of P1 is a margin of P2), so a table
that lies wholly within another adds no relations, and tables that share some cells are linked. So
are tables whose cells are parts of another's: P12 is the sum of P12A to P12G, a group of ages in
P12 that of single years in P14; and P4, of 18 and over, is a part of P2, though no table counts the
rest. Such a *rest* is a cell like any other, but never published: all that is known of it is that
it is not negative. So an attacker adds and subtracts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.tabulate.additive import Additive, Product, Tree, link, product_of_trees, tree
from headcount.tabulate.codings import Coding
from headcount.tabulate.counts import Counts
from headcount.tabulate.published import TableCells


@dataclass(frozen=True, kw_only=True)
class _Sum:
    """A column that is the sum of columns of other tables, which are ``sources``.

    ``rest`` is the column among ``parts`` that no table has, -1 if they make up the total.
    """

    total: int
    parts: tuple[int, ...]
    rest: int
    sources: frozenset[int]


def sums_between(tables: Sequence[TableCells], columns: Sequence[Ints]) -> tuple[_Sum, ...]:
    """Sums that hold between tables, besides those within each.

    ``columns`` numbers the cells of each table, the same for cells that count the same people. The
    detail of each table is made up from tables with the same axes, in their order, as far as these
    go; a rest is left out where a margin of some table is made up, since it follows from the
    detail. Groups of which neither holds the other (0-4 and 3-9) are not compared.
    """
    people = _people(tables, columns)
    inside = _inside(tables, columns)
    alike = [[(j, _detail(tables[j], columns[j])) for j in kin] for kin in _alike(tables)]
    margins = {int(c) for one, own in zip(tables, columns, strict=True) for c in own[~one.inner]}
    number = {who: column for column, who in people.items()}
    new = count(1 + max(people, default=0))
    found: dict[tuple[int, ...], _Sum] = {}
    for i, cells in enumerate(tables):
        for total in columns[i][cells.inner].tolist():
            for taken, left in _sums_of(total, i, alike, inside, people, columns):
                parts, sources = [column for column, _ in taken], {i, *(j for _, j in taken)}
                if left and total in margins:
                    continue
                if left:
                    parts.append(number[left] if left in number else next(new))
                    number[left] = parts[-1]
                if left and parts[-1] in people:
                    sources.add(_holder(parts[-1], tables, columns))
                found.setdefault(
                    (total, *sorted(parts)),
                    _Sum(
                        total=total,
                        parts=tuple(parts),
                        rest=-1 if parts[-1] in people else parts[-1],
                        sources=frozenset(sources),
                    ),
                )
    return tuple(found.values())


def _holder(column: int, tables: Sequence[TableCells], columns: Sequence[Ints]) -> int:
    """A table that has a column, one that goes down to the blocks if possible."""
    having = [i for i, own in enumerate(columns) if column in own]
    return min(having, key=lambda i: (tables[i].table.lowest != "block", i))


def _people(tables: Sequence[TableCells], columns: Sequence[Ints]) -> dict[int, int]:
    """For each column the cells of the schema that it counts, as the bits of a number."""
    people: dict[int, int] = {}
    for cells, own in zip(tables, columns, strict=True):
        by_cell = cells.matrix.tocsc()
        for i, column in enumerate(own.tolist()):
            if column not in people:
                inside = np.zeros(by_cell.shape[0], dtype=np.uint8)
                inside[by_cell.indices[by_cell.indptr[i] : by_cell.indptr[i + 1]]] = 1
                people[column] = int.from_bytes(np.packbits(inside).tobytes(), "big")
    return people


def _inside(tables: Sequence[TableCells], columns: Sequence[Ints]) -> dict[int, set[int]]:
    """For each column the others that count some of its people and nobody else."""
    from scipy.sparse import coo_array, hstack

    every, first = np.unique(np.concatenate([*columns, np.empty(0, int)]), return_index=True)
    if not len(every):
        return {}
    member = hstack([one.matrix for one in tables], format="csc")[:, first]
    size = np.asarray(member.sum(axis=0)).ravel()
    both = coo_array(member.T @ member)
    part, whole = both.coords
    held = (both.data == size[part]) & (part != whole)
    found: dict[int, set[int]] = {int(column): set() for column in every}
    for a, b in zip(every[part[held]].tolist(), every[whole[held]].tolist(), strict=True):
        found[b].add(a)
    return found


def _detail(cells: TableCells, columns: Ints) -> list[int]:
    return [int(column) for column in columns[cells.inner]]


def _sums_of(
    total: int,
    own: int,
    alike: Sequence[Sequence[tuple[int, Sequence[int]]]],
    inside: Mapping[int, set[int]],
    people: Mapping[int, int],
    columns: Sequence[Ints],
) -> Iterator[tuple[list[tuple[int, int]], int]]:
    """Ways to make up a column: the (column, table) pairs taken, and who is left."""
    whole, parts = people[total], inside[total]
    for kin in alike:
        pool = [(c, j) for j, detail in kin if j != own for c in detail if c in parts]
        while pool:
            left, taken = whole, []
            for c, j in pool:
                if not people[c] & ~left:
                    taken.append((c, j))
                    left &= ~people[c]
            pool = [one for one in pool if one not in taken]
            within = {j for _, j in taken}
            # A table's own margins are known already.
            if left or len(within) > 1 or total not in columns[next(iter(within))]:
                yield taken, left


def _alike(tables: Sequence[TableCells]) -> list[list[int]]:
    """Tables by their axes: iterations of one table stand together."""
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for i, cells in enumerate(tables):
        groups.setdefault(tuple((axis.role, axis.name) for axis in cells.axes), []).append(i)
    return list(groups.values())


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkedTables:
    """Tables that hang together, and where their cells are.

    where
        additive   the cells and their relations
        crossed    for each (table, level) the cell numbers (units x cells of the table with its
                   axes crossed in full)
        place      for each table which of these cells it publishes
        rests      cells that no table has, as (cell, total, other parts of the total); each row
                   of the arrays is a unit
    """

    additive: Additive
    crossed: Mapping[tuple[str, str], Ints]
    place: Mapping[str, Ints]
    rests: tuple[tuple[Ints, Ints, Ints], ...] = ()

    @cached_property
    def number(self) -> Mapping[tuple[str, str], Ints]:
        """For each (table, level) the numbers of the published cells (units x cells)."""
        return {where: one[:, self.place[where[0]]] for where, one in self.crossed.items()}

    @cached_property
    def published(self) -> Flags:
        """Cells that some table has."""
        shown = np.zeros(self.additive.size, dtype=bool)
        for number in self.number.values():
            shown[number] = True
        return shown

    def gather(self, tables: Mapping[tuple[str, str], NDArray[np.generic]]) -> Ints:
        """Values of all cells from those of the tables, crossed in full.

        A rest is what its total has besides.
        """
        values = np.zeros(self.additive.size, dtype=np.int64)
        for where, number in self.crossed.items():
            values[number] = tables[where]
        for cell, total, others in self.rests:
            values[cell] = values[total] - values[others].sum(axis=1)
        return values


def link_tables(
    tables: Sequence[TableCells], geography: Geography, *, lowest: str = ""
) -> tuple[LinkedTables, ...]:
    """Group tables that share cells or people; each group has relations of its own.

    ``lowest`` cuts the geography below a level; a table is never taken below its own lowest.
    """
    published = {cells.table.name: cells.place for cells in tables}
    tables = [cells.crossed for cells in tables]  # sums go by cells that are not published too
    for cells in tables:
        if any(coding.overlapping for coding in cells.axes):
            raise InputError(
                f"table {cells.table.name}",
                found="groups that overlap",
                expected="a table whose cells add up to its totals",
            )
    columns = _columns(tables)
    made = []
    for group in _components(columns, sums_between(tables, columns)):
        chosen, own = [tables[i] for i in group], [columns[i] for i in group]
        joined = _linked(chosen, own, sums_between(chosen, own), geography, lowest)
        made.append(replace(joined, place=published))
    return tuple(made)


def levels_of(cells: TableCells, geography: Geography, lowest: str = "") -> tuple[str, ...]:
    """Levels at which a table is published, none below ``lowest``."""
    depth = geography.depth(lowest or geography.leaf)
    return cells.table.published_at(geography)[: depth + 1]


def table_values(at_level: Counts, cells: TableCells) -> Ints:
    """A true table (units x cells) at the level of the counts."""
    return np.asarray((at_level.matrix @ cells.matrix).toarray(), dtype=np.int64)


def all_values(
    counts: Counts, made: tuple[TableCells, ...], *, lowest: str = ""
) -> Mapping[tuple[str, str], Ints]:
    """True tables by (name, level)."""
    return {
        (cells.table.name, level): table_values(counts.at(level), cells)
        for cells in made
        for level in levels_of(cells, counts.geography, lowest)
    }


def _columns(tables: Sequence[TableCells]) -> list[Ints]:
    """For each table the number of each cell: the same for cells that count the same people."""
    known: dict[bytes, int] = {}
    found = []
    for cells in tables:
        by_cell = cells.matrix.tocsc()
        by_cell.sort_indices()
        inside = [
            by_cell.indices[by_cell.indptr[i] : by_cell.indptr[i + 1]].astype(np.int64).tobytes()
            for i in range(cells.size)
        ]
        found.append(np.array([known.setdefault(one, len(known)) for one in inside]))
    return found


def _components(columns: Sequence[Ints], sums: Sequence[_Sum]) -> list[list[int]]:
    """Tables that share a cell or a sum, directly or through others; in their order."""
    groups: list[list[int]] = []
    for i, own in enumerate(columns):
        summed = {j for one in sums if i in one.sources for j in one.sources}
        joined = [
            g for g in groups if any(j in summed or np.isin(own, columns[j]).any() for j in g)
        ]
        groups = [g for g in groups if g not in joined]
        groups.append(sorted([i, *(j for g in joined for j in g)]))
    return sorted(groups)


def _linked(
    tables: Sequence[TableCells],
    columns: Sequence[Ints],
    sums: Sequence[_Sum],
    geography: Geography,
    lowest: str,
) -> LinkedTables:
    own = [levels_of(cells, geography, lowest) for cells in tables]
    places = _Places.of(geography, max(own, key=len))
    width = 1 + max([int(one.max()) for one in columns] + [max(one.parts) for one in sums])
    parts = []
    for i in _main(columns, own):
        product, nodes = _product(tables[i], geography, own[i])
        common = np.full(product.additive.size, -1, dtype=np.int64)
        units = places.unit[: len(nodes)]
        common[_cells_of(product, nodes, tables[i])] = units[:, None] * width + columns[i]
        parts.append((product.additive, common))
    across = [(one, _in_common([own[i] for i in one.sources], geography, places)) for one in sums]
    parts += [_sum_part(one, units, width) for one, units in across]
    additive, renumber = _join(parts, width, places)
    number = {}
    for cells, column, levels in zip(tables, columns, own, strict=True):
        for level in levels:
            units = places.at(level, geography)
            number[cells.table.name, level] = renumber(units[:, None] * width + column)
    rests = tuple(_rests(across, width, renumber))
    return LinkedTables(additive=additive, crossed=number, place={}, rests=rests)


def _main(columns: Sequence[Ints], own: Sequence[Sequence[str]]) -> list[int]:
    """Tables that do not lie wholly within another."""
    return [
        i
        for i in range(len(columns))
        if not any(
            np.isin(columns[i], columns[j]).all()
            and len(own[i]) <= len(own[j])
            and (j < i or not np.isin(columns[j], columns[i]).all() or len(own[j]) > len(own[i]))
            for j in range(len(columns))
            if j != i
        )
    ]


def _in_common(own: Sequence[Sequence[str]], geography: Geography, places: _Places) -> Ints:
    """Units in which all of some tables are published."""
    levels = min(own, key=len)
    return np.unique(np.concatenate([places.at(level, geography) for level in levels]))


def _sum_part(one: _Sum, units: Ints, width: int) -> tuple[Additive, Ints]:
    """A sum between tables in each of the units: the total first, then its parts."""
    size = 1 + len(one.parts)
    numbers = np.arange(len(units) * size).reshape(len(units), size)
    additive = Additive(
        size=numbers.size,
        total=numbers[:, 0].copy(),
        start=np.arange(len(units) + 1) * len(one.parts),
        part=numbers[:, 1:].ravel(),
        unit=np.zeros(numbers.size, dtype=np.int64),
        parent=np.array([-1]),
    )
    columns = np.array([one.total, *one.parts])
    return additive, (units[:, None] * width + columns).ravel()


def _rests(
    across: Sequence[tuple[_Sum, Ints]], width: int, renumber: _Renumber
) -> Iterator[tuple[Ints, Ints, Ints]]:
    for one, units in across:
        if one.rest >= 0:
            others = np.array([part for part in one.parts if part != one.rest])
            first = units * width
            yield (
                renumber(first + one.rest),
                renumber(first + one.total),
                renumber(first[:, None] + others),
            )


def _join(
    parts: Sequence[tuple[Additive, Ints]], width: int, places: _Places
) -> tuple[Additive, _Renumber]:
    if len(parts) == 1:  # its own numbers are dense already
        additive, common = parts[0]
        order = np.argsort(common, kind="stable")
        return additive, _Renumber(common[order], order)
    known = np.unique(np.concatenate([common for _, common in parts]))
    dense = np.arange(len(known))
    linked = link([(one, np.searchsorted(known, common)) for one, common in parts])
    # All tables stand on the same places: what is near in one is near in all.
    linked = replace(linked, unit=known // width, parent=places.parent)
    return linked, _Renumber(known, dense)


@dataclass(frozen=True, eq=False)
class _Renumber:
    """From common numbers (unit x column) to cells."""

    known: Ints
    cell: Ints

    def __call__(self, common: Ints) -> Ints:
        return self.cell[np.searchsorted(self.known, common)]


@dataclass(frozen=True, eq=False)
class _Places:
    """Units of all levels in one numbering; a place that is a unit of two levels is one."""

    unit: Ints
    parent: Ints
    start: Mapping[str, int]

    @classmethod
    def of(cls, geography: Geography, levels: Sequence[str]) -> _Places:
        kept = tree(_parents(geography, levels))
        start, offset = {}, 0
        for level in levels:
            start[level] = offset
            offset += geography.size(level)
        return cls(kept.node, kept.parent, start)

    def at(self, level: str, geography: Geography) -> Ints:
        """The units of a level."""
        return self.unit[self.start[level] : self.start[level] + geography.size(level)]


def _parents(geography: Geography, levels: Sequence[str]) -> Ints:
    parents, offset = [np.array([-1])], 0
    for depth in range(1, len(levels)):
        parents.append(offset + geography.parents[depth].astype(np.int64))
        offset += geography.size(levels[depth - 1])
    return np.concatenate(parents)


def _product(
    cells: TableCells, geography: Geography, levels: Sequence[str]
) -> tuple[Product, Ints]:
    places = tree(_parents(geography, levels))
    return product_of_trees(places, *(_axis(coding) for coding in cells.axes)), places.node


def _cells_of(product: Product, nodes: Ints, cells: TableCells) -> Ints:
    """Cell numbers (units x cells of the table) in the product."""
    groups = np.indices(cells.shape).reshape(len(cells.shape), -1) if cells.shape else None
    if groups is None:
        return product.cells(nodes)[:, None]
    axes = [one.node[index] for one, index in zip(product.trees[1:], groups, strict=True)]
    return product.cells(
        np.broadcast_to(nodes[:, None], (len(nodes), cells.size)),
        *(np.broadcast_to(axis, (len(nodes), cells.size)) for axis in axes),
    )


def _axis(coding: Coding) -> Tree:
    """The groups of a coding as a tree; they are listed from the total down."""
    return tree(coding.parents)
