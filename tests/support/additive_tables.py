"""Small random tables of cells that add up, and the tree of places from columns of codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Flags, Ints
from headcount.tabulate.additive import Additive, Product, Tree, flat, product_of_trees, tree

SEED = 20261115


@dataclass(frozen=True, eq=False, kw_only=True)
class AdditiveTable:
    """Cells that add up, their counts, and which of them are 1 or 2."""

    name: str
    additive: Additive
    values: Ints

    @property
    def primary(self) -> Flags:
        """Counts of 1 or 2."""
        return (self.values > 0) & (self.values < 3)

    @property
    def publish(self) -> Flags:
        """The grand total, which is never withheld."""
        found = np.zeros(self.additive.size, dtype=bool)
        found[0] = True
        return found


def small_table(seed: int) -> AdditiveTable:
    """A random table: 4 to 10 rows in 2 or 3 groups, 4 to 10 columns, all sums.

    Counts are Poisson with gamma(0.8, 12) means: some zeros, some one in seven 1 or 2.
    """
    rng = np.random.default_rng([SEED, seed])
    rows, columns = (int(one) for one in rng.integers(4, 11, size=2))
    product, leaves = _grouped(rng, rows, columns, groups=int(rng.integers(2, 4)))
    counts = rng.poisson(rng.gamma(0.8, 12, size=(rows, columns)))
    values = product.fill(leaves, counts.ravel())
    return AdditiveTable(name=f"small {seed}", additive=product.additive, values=values)


def random_table(seed: int) -> tuple[AdditiveTable, Ints]:
    """A random table, and which inner counts (columns) each of its cells (rows) is the sum of.

    3 to 8 rows in 2 groups, 3 to 8 columns, all sums; counts are negative binomial with one
    success and mean 4 (geometric from 0 with chance 1/5): a fifth are 0, three tenths 1 or 2.
    """
    rng = np.random.default_rng([SEED, 4, seed])
    rows, columns = (int(one) for one in rng.integers(3, 9, size=2))
    product, leaves = _grouped(rng, rows, columns, groups=2)
    counts = rng.negative_binomial(1, 0.2, size=rows * columns)
    table = AdditiveTable(
        name=f"random {seed}", additive=product.additive, values=product.fill(leaves, counts)
    )
    inner = np.eye(rows * columns, dtype=np.int64)
    return table, np.stack([product.fill(leaves, one) for one in inner], axis=1)


def _grouped(
    rng: np.random.Generator, rows: int, columns: int, *, groups: int
) -> tuple[Product, list[Ints]]:
    """Rows in groups x columns with all sums, and the leaf nodes of the inner cells."""
    cuts = np.sort(rng.choice(np.arange(1, rows), size=groups - 1, replace=False))
    group = np.searchsorted(cuts, np.arange(rows), side="right")
    nested = tree(np.concatenate([[-1], np.zeros(groups, dtype=np.int64), 1 + group]))
    leaf = nested.node[1 + groups + np.arange(rows)]
    places = [np.repeat(leaf, columns), np.tile(1 + np.arange(columns), rows)]
    return product_of_trees(nested, flat(columns)), places


def levels_tree(columns: Sequence[ArrayLike]) -> tuple[Tree, Ints]:
    """The tree of code columns from the top to the leaf, and each row's leaf node.

    The root comes first, then the units of each level in the order of their codes (text), so that
    the order of the rows does not matter. Units are known by their whole path.
    """
    rows = len(np.asarray(columns[0]))
    path = np.zeros(rows, dtype=np.int64)
    parents, offset, above = [np.array([-1])], 1, 0
    for column in columns:
        _, code = np.unique(np.asarray(column).astype(np.str_), return_inverse=True)
        key = path * (int(code.max()) + 1) + code
        units, first, level = np.unique(key, return_index=True, return_inverse=True)
        parents.append(above + path[first])
        path, above, offset = level, offset, offset + len(units)
    found = tree(np.concatenate(parents))
    return found, found.node[above + path]
