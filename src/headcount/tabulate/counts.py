"""Counts: the true numbers of people by unit and cell, sparse, at one level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Ints
from headcount.geography import Geography
from headcount.population import Population
from headcount.population.quarters import Quarters
from headcount.schema import Schema

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ENTRIES_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """True counts (unit x cell) at one level: the curator's side, never written to a release.

    ``matrix`` is sparse by rows, because most cells of most small places are empty: the 1940
    census has 6 non-empty cells of 192 per district. Counts of a sample are of the people in it;
    each stands for ``weight`` people. ``of_dwellings`` says that it was known who lives with whom,
    ``plugin`` which part of another distribution the people come from.
    """

    schema: Schema
    geography: Geography
    level: str
    matrix: csr_array[Any, tuple[int, int]]
    read_off: tuple[str, ...] = ()
    quarters: Quarters | None = None
    one_person: str = ""
    weight: Fraction = Fraction(1)
    of_dwellings: bool = False
    plugin: str = ""

    def __repr__(self) -> str:
        # Says nothing that depends on how many people there are.
        return f"<Counts at {self.level!r}: {self.schema.size:,} cells, {self.geography!r}>"

    def at(self, level: str) -> Counts:
        """The same counts added up to a level at or above this one."""
        if level == self.level:
            return self
        up = adder(self.geography, level, of=self.level)
        return replace(self, level=level, matrix=(up @ self.matrix).tocsr())

    def dense(self) -> Ints:
        """The counts as a full array, units by cells."""
        return np.asarray(self.matrix.toarray(), dtype=np.int64)

    def totals(self) -> Ints:
        """People per unit."""
        return np.asarray(self.matrix.sum(axis=1), dtype=np.int64).reshape(-1)


def tabulate(population: Population) -> Counts:
    """Count a population at the leaf, a few million entries at a time to keep memory low."""
    from scipy.sparse import coo_array, csr_array

    shape = (population.geography.size(population.geography.leaf), population.schema.size)
    matrix = csr_array(shape, dtype=np.int64)
    for start in range(0, len(population.unit), ENTRIES_AT_ONCE):
        part = slice(start, start + ENTRIES_AT_ONCE)
        where = (population.unit[part], population.cell[part])
        count = population.count
        people = np.ones(len(where[0]), dtype=np.int64) if count is None else count[part]
        # tocsr adds up entries of the same unit and cell
        matrix = matrix + coo_array((people, where), shape=shape).tocsr()
    matrix.eliminate_zeros()
    return Counts(
        population.schema,
        population.geography,
        population.geography.leaf,
        matrix,
        population.read_off,
        population.quarters,
        population.one_person,
        population.weight,
        population.households is not None or population.of_dwellings,
        population.plugin,
    )


def adder(geography: Geography, level: str, *, of: str) -> csr_array[Any, tuple[int, int]]:
    """The 0/1 matrix (units of ``level`` x units of ``of``) that adds children to ancestors."""
    from scipy.sparse import csr_array

    ancestor = geography.ancestors(level, of=of)
    ones = np.ones(len(ancestor), dtype=np.int64)
    shape = (geography.size(level), len(ancestor))
    return csr_array((ones, (ancestor, np.arange(len(ancestor)))), shape=shape)
