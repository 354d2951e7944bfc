"""Additive relations among published cells: which cell is the sum of which others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Ints
from headcount.errors import InputError


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Additive:
    """Cells numbered from 0, and relations "this total is the sum of these parts".

    where
        size     number of cells
        total    for each relation the cell that is the sum
        start    first part of each relation in ``part``, and the end
        part     the cells that are summed, relation after relation
        unit     for each cell the unit it belongs to (all zero where there are no units)
        parent   for each unit the unit above it, -1 for one at the top

    Units are how large tables are cut into small ones; relations need not respect them.
    """

    size: int
    total: Ints
    start: Ints
    part: Ints
    unit: Ints
    parent: Ints

    def __post_init__(self) -> None:
        cells = np.concatenate([self.total, self.part])
        if len(cells) and not 0 <= cells.min() <= cells.max() < self.size:
            raise InputError(
                "additive relations",
                found=f"cells {cells.min()} to {cells.max()}",
                expected=f"cells from 0 to {self.size - 1}",
            )
        if len(self.start) != len(self.total) + 1 or self.start[-1] != len(self.part):
            raise InputError(
                "additive relations",
                found=f"{len(self.start)} starts that end at {self.start[-1:]}",
                expected=f"{len(self.total) + 1} starts that end at {len(self.part)}",
            )
        if len(self.unit) != self.size:
            raise InputError(
                "additive relations",
                found=f"units of {len(self.unit)} cells",
                expected=f"a unit for each of {self.size}",
            )

    def __repr__(self) -> str:
        return f"<Additive {self.size:,} cells, {len(self.total):,} relations>"

    @cached_property
    def matrix(self) -> Any:
        """Relations x cells (scipy CSR): 1 for a part, -1 for the total, so that A x = 0."""
        from scipy.sparse import csr_matrix

        rows = np.arange(len(self.total))
        row = np.concatenate([np.repeat(rows, np.diff(self.start)), rows])
        column = np.concatenate([self.part, self.total])
        sign = np.concatenate([np.ones(len(self.part)), -np.ones(len(self.total))])
        return csr_matrix((sign, (row, column)), shape=(len(self.total), self.size))

    @cached_property
    def columns(self) -> Any:
        """The same matrix by cells (scipy CSC)."""
        return self.matrix.tocsc()

    def check(self, values: ArrayLike) -> None:
        """Refuse values that do not add up; the message gives no count."""
        counts = np.asarray(values)
        if counts.shape != (self.size,):
            raise InputError(
                "additive values",
                found=f"shape {counts.shape}",
                expected=f"one value for each of {self.size} cells",
            )
        wrong = np.flatnonzero(self.matrix @ counts)
        if len(wrong):
            raise InputError(
                "additive values",
                place=f"cell {self.total[wrong[0]]}",
                found=f"{len(wrong)} totals that are not the sum of their parts",
                expected="none",
            )


def from_relations(
    size: int,
    relations: Iterable[tuple[int, Sequence[int]]],
    *,
    unit: ArrayLike | None = None,
    parent: ArrayLike = (-1,),
) -> Additive:
    """Cells with any relations, each a total and its parts."""
    listed = list(relations)
    lengths = [len(parts) for _, parts in listed]
    return Additive(
        size=size,
        total=np.array([total for total, _ in listed], dtype=np.int64),
        start=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
        part=np.array([cell for _, parts in listed for cell in parts], dtype=np.int64),
        unit=np.zeros(size, dtype=np.int64) if unit is None else np.asarray(unit, dtype=np.int64),
        parent=np.asarray(parent, dtype=np.int64),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Tree:
    """One dimension with its sums: for each node the node that it is a part of, -1 at the top.

    ``node`` leads from the nodes as they were named to those kept: a node with one child only is
    the same as that child, and is not a node of its own.
    """

    parent: Ints
    node: Ints

    @cached_property
    def leaves(self) -> Ints:
        """Nodes without parts, in their order."""
        above = np.zeros(len(self.parent), dtype=bool)
        above[self.parent[self.parent >= 0]] = True
        return np.flatnonzero(~above)


def tree(parent: ArrayLike) -> Tree:
    """A tree from each node's parent (-1 at the top), parents before their children."""
    up = np.asarray(parent, dtype=np.int64)
    here = np.arange(len(up))
    if not len(up) or np.any(up >= here) or np.any(up < -1):
        raise InputError(
            "tree", found="a node before its parent, or no nodes", expected="parents first"
        )
    only = np.bincount(up[up >= 0], minlength=len(up)) == 1
    alias = here.copy()
    lone = np.flatnonzero((up >= 0) & only[np.maximum(up, 0)])
    for child in lone:  # parents first, so that a chain ends at its top
        alias[child] = alias[up[child]]
    kept = np.flatnonzero(alias == here)
    number = np.full(len(up), -1)
    number[kept] = np.arange(len(kept))
    above = np.where(up[kept] >= 0, number[alias[np.maximum(up[kept], 0)]], -1)
    return Tree(parent=above, node=number[alias])


def flat(levels: int) -> Tree:
    """A dimension with a total (node 0) and its levels (nodes 1, 2, ...)."""
    return tree(np.concatenate([[-1], np.zeros(levels, dtype=np.int64)]))


@dataclass(frozen=True, eq=False, kw_only=True)
class Product:
    """All margins of a product of trees; the cell of nodes (i, j, ...) is numbered row by row."""

    trees: tuple[Tree, ...]
    additive: Additive

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of nodes of each tree."""
        return tuple(len(one.parent) for one in self.trees)

    def cells(self, *nodes: ArrayLike) -> Ints:
        """Cell numbers of kept nodes, one array for each tree."""
        return np.ravel_multi_index(tuple(np.asarray(one) for one in nodes), self.shape).astype(
            np.int64
        )

    def fill(self, leaves: Sequence[ArrayLike], counts: ArrayLike) -> Ints:
        """Values of all cells from counts at leaf nodes (repeated rows are added)."""
        table = np.zeros(self.shape, dtype=np.int64)
        np.add.at(table, tuple(np.asarray(one) for one in leaves), np.asarray(counts))
        for axis, one in enumerate(self.trees):
            turned = np.moveaxis(table, axis, 0)
            for level in reversed(_levels(one.parent)[1:]):
                np.add.at(turned, one.parent[level], turned[level])
        return table.ravel()


def product_of_trees(*trees: Tree) -> Product:
    """All margins of the trees' product with every relation; units are nodes of the first tree.

    A cell is a node of every tree. Along each tree, with the others held still, a node with
    children is the sum of them: (county, race, Hispanic) over tracts, over races, over both.
    """
    shape = tuple(len(one.parent) for one in trees)
    size = int(np.prod(shape, dtype=np.int64))
    number = np.arange(size).reshape(shape)
    totals, lengths, parts = [], [], []
    for axis, one in enumerate(trees):
        turned = np.moveaxis(number, axis, 0).reshape(shape[axis], -1)
        child = np.argsort(one.parent, kind="stable")
        child = child[one.parent[child] >= 0]
        above, many = np.unique(one.parent[child], return_counts=True)
        totals.append(turned[above].ravel())
        lengths.append(np.repeat(many, turned.shape[1]))
        first = np.cumsum(many) - many
        for family, n in zip(first, many, strict=True):
            parts.append(turned[child[family : family + n]].T.ravel())
    additive = Additive(
        size=size,
        total=np.concatenate(totals),
        start=np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
        part=np.concatenate(parts) if parts else np.empty(0, dtype=np.int64),
        unit=np.repeat(np.arange(shape[0]), size // shape[0]),
        parent=trees[0].parent,
    )
    return Product(trees=trees, additive=additive)


def link(tables: Sequence[tuple[Additive, ArrayLike]]) -> Additive:
    """Several tables that share cells: each with the common number of each of its cells.

    A relation that two tables share is kept once. Units are those of the first table that has the
    cell; the other tables' units stand apart from its tree, at the top.
    """
    numbers = [np.asarray(common, dtype=np.int64) for _, common in tables]
    size = 1 + max(int(common.max()) for common in numbers)
    unit, offset, parents = np.full(size, -1), 0, []
    for (table, _), common in zip(tables, numbers, strict=True):
        new = common[unit[common] < 0]
        unit[new] = offset + table.unit[unit[common] < 0]
        parents.append(np.where(table.parent >= 0, table.parent + offset, -1))
        offset += len(table.parent)
    if np.any(unit < 0):
        raise InputError(
            "linked tables", found=f"cell {int(np.argmin(unit))} in no table", expected="in one"
        )
    pairs = list(zip(tables, numbers, strict=True))
    total, start, part = _distinct(
        np.concatenate([common[one.total] for (one, _), common in pairs]),
        np.concatenate([np.diff(one.start) for one, _ in tables]),
        np.concatenate([common[one.part] for (one, _), common in pairs]),
    )
    return Additive(
        size=size, total=total, start=start, part=part, unit=unit, parent=np.concatenate(parents)
    )


def _distinct(total: Ints, length: Ints, part: Ints) -> tuple[Ints, Ints, Ints]:
    """Each relation once, in the order of the first, with its parts in order of their numbers.

    A cell that is its own only part says nothing.
    """
    first = np.cumsum(length) - length
    kept = []
    for many in np.unique(length):  # relations of one length are rows of an array
        here = np.flatnonzero(length == many)
        inside = np.sort(part[first[here][:, None] + np.arange(many)], axis=1)
        _, place = np.unique(np.column_stack([total[here], inside]), axis=0, return_index=True)
        own = here[place]
        kept.append(own if many != 1 else own[inside[place, 0] != total[own]])
        part[first[here][:, None] + np.arange(many)] = inside
    chosen = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *kept]))
    flags = np.zeros(len(total), dtype=bool)
    flags[chosen] = True
    start = np.concatenate([[0], np.cumsum(length[chosen])]).astype(np.int64)
    return total[chosen], start, part[np.repeat(flags, length)]


def _levels(parent: Ints) -> list[Ints]:
    """Nodes by their distance from the top."""
    depth = depths(parent)
    return [np.flatnonzero(depth == level) for level in range(int(depth.max()) + 1)]


def depths(parent: Ints) -> Ints:
    """Each node's distance from the top; parents stand before their children."""
    depth = np.zeros(len(parent), dtype=np.int64)
    node = parent.copy()
    while np.any(node >= 0):
        depth += node >= 0
        node = np.where(node >= 0, parent[node], -1)
    return depth
