"""Published tables over a geography as one set of cells that add up.

Every table is a product of trees: units, and the groups of each axis with their subtotals. Cells
of two tables that count the same people are one cell (all of P1 is a margin of P2), so a table
that lies wholly within another adds no relations, and tables that share some cells are linked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.errors import InputError
from headcount.geography import Geography
from headcount.tabulate.additive import Additive, Product, Tree, link, product_of_trees, tree
from headcount.tabulate.published import TableCells
from headcount.tabulate.published.codings import Coding

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkedTables:
    """Tables that hang together, and where their cells are.

    where
        additive   the cells and their relations
        number     for each (table, level) the cell numbers (units x cells of the table)
    """

    additive: Additive
    number: Mapping[tuple[str, str], Ints]

    def gather(self, tables: Mapping[tuple[str, str], NDArray[np.generic]], fill: int = 0) -> Ints:
        """Values of all cells from those of the tables."""
        values = np.full(self.additive.size, fill, dtype=np.int64)
        for where, number in self.number.items():
            values[number] = tables[where]
        return values


def link_tables(
    tables: Sequence[TableCells], geography: Geography, *, lowest: str = ""
) -> tuple[LinkedTables, ...]:
    """Group tables that share cells; each group has relations of its own.

    ``lowest`` cuts the geography below a level; a table is never taken below its own lowest.
    """
    for cells in tables:
        if any(coding.overlapping for coding in cells.axes):
            raise InputError(
                f"table {cells.table.name}",
                found="groups that overlap",
                expected="a table whose cells add up to its totals",
            )
    columns = _columns(tables)
    made = []
    for group in _components(columns):
        chosen = [tables[i] for i in group]
        made.append(_linked(chosen, [columns[i] for i in group], geography, lowest))
    return tuple(made)


def levels_of(cells: TableCells, geography: Geography, lowest: str = "") -> tuple[str, ...]:
    """Levels at which a table is published, none below ``lowest``."""
    depth = geography.depth(lowest or geography.leaf)
    return cells.table.published_at(geography)[: depth + 1]


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


def _components(columns: Sequence[Ints]) -> list[list[int]]:
    """Tables that share a cell, directly or through others; in their order."""
    groups: list[list[int]] = []
    for i, own in enumerate(columns):
        joined = [g for g in groups if any(np.isin(own, columns[j]).any() for j in g)]
        groups = [g for g in groups if g not in joined]
        groups.append(sorted([i, *(j for g in joined for j in g)]))
    return sorted(groups)


def _linked(
    tables: Sequence[TableCells], columns: Sequence[Ints], geography: Geography, lowest: str
) -> LinkedTables:
    own = [levels_of(cells, geography, lowest) for cells in tables]
    deepest = max(own, key=len)
    top, start = _units(geography, deepest)
    width = 1 + max(int(one.max()) for one in columns)
    main = [
        i
        for i in range(len(tables))
        if not any(
            np.isin(columns[i], columns[j]).all()
            and len(own[i]) <= len(own[j])
            and (j < i or not np.isin(columns[j], columns[i]).all() or len(own[j]) > len(own[i]))
            for j in range(len(tables))
            if j != i
        )
    ]
    parts = []
    for i in main:
        product, nodes = _product(tables[i], geography, own[i])
        common = np.full(product.additive.size, -1, dtype=np.int64)
        units = top[: len(nodes)]
        common[_cells_of(product, nodes, tables[i])] = units[:, None] * width + columns[i]
        parts.append((product.additive, common))
    additive, renumber = _join(parts)
    number = {}
    for cells, column, levels in zip(tables, columns, own, strict=True):
        for level in levels:
            first = start[level]
            units = top[first : first + geography.size(level)]
            number[cells.table.name, level] = renumber(units[:, None] * width + column)
    return LinkedTables(additive=additive, number=number)


def _join(parts: Sequence[tuple[Additive, Ints]]) -> tuple[Additive, _Renumber]:
    if len(parts) == 1:  # its own numbers are dense already
        additive, common = parts[0]
        order = np.argsort(common, kind="stable")
        return additive, _Renumber(common[order], order)
    known = np.unique(np.concatenate([common for _, common in parts]))
    dense = np.arange(len(known))
    linked = link([(one, np.searchsorted(known, common)) for one, common in parts])
    return linked, _Renumber(known, dense)


@dataclass(frozen=True, eq=False)
class _Renumber:
    """From common numbers (unit x column) to cells."""

    known: Ints
    cell: Ints

    def __call__(self, common: Ints) -> Ints:
        return self.cell[np.searchsorted(self.known, common)]


def _units(geography: Geography, levels: Sequence[str]) -> tuple[Ints, dict[str, int]]:
    """Units of the levels in one numbering, each by the topmost unit that is the same place."""
    kept = tree(_parents(geography, levels))
    _, first = np.unique(kept.node, return_index=True)
    start, offset = {}, 0
    for level in levels:
        start[level] = offset
        offset += geography.size(level)
    return first[kept.node], start


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
    parent = []
    layer_of = [len(coding.layers) - 1 - k for k in range(len(coding.layers))]
    for depth, layer in zip(layer_of, reversed(coding.layers), strict=True):
        for _, atoms in layer:
            above = [
                position
                for position, (_, larger) in enumerate(coding.groups)
                if depth + 1 < len(coding.layers)
                and (coding.groups[position] in coding.layers[depth + 1])
                and atoms <= larger
            ]
            parent.append(above[0] if above else -1)
    return tree(parent)
