"""Counts: the true numbers of people, or housing units, by unit and cell, sparse, at one level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints, Ints32
from headcount.counted import CountsOf
from headcount.geography import Geography
from headcount.population import Population
from headcount.population.quarters import Quarters
from headcount.population.record_keys import RecordKeys
from headcount.schema import Schema

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ENTRIES_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False, repr=False)
class KeyedRecords:
    """Where everybody is, and what their words are made from: for keys of cells, never shown.

    where
        unit, cell   of each record, at the leaf
        keys         of each record
        before       ``places`` of the same people before a step changed them; b"" if none has
    """

    unit: Ints32
    cell: Ints32
    keys: RecordKeys
    shape: tuple[int, int]
    before: bytes = b""

    def sums(self, values: NDArray[np.uint64]) -> Any:
        """Values of records added up in each leaf unit and cell, modulo 2^64."""
        return _sums(self.shape, self.unit, self.cell, values)

    def places(self) -> bytes:
        """A digest of who lives with whom in a leaf unit, whatever units and people are called."""
        total = self.sums(self.keys.values) @ np.ones(self.shape[1], dtype=np.uint64)
        return sha256(np.sort(total[total != 0]).astype("<u8").tobytes()).digest()


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """True counts (unit x cell) at one level: the curator's side, never written to a release.

    ``matrix`` is sparse by rows, because most cells of most small places are empty: the 1940
    census has 6 non-empty cells of 192 per district. Counts of a sample are of the people in it;
    each stands for ``weight`` people. ``of_dwellings`` says that it was known who lives with whom,
    ``plugin`` which part of another distribution the people come from, ``counted`` whether they are
    people or housing units. ``records`` are the people
    one by one where words of persons make the keys of cells, at the leaf.
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
    records: KeyedRecords | None = None
    counted: CountsOf = CountsOf.PEOPLE

    def __repr__(self) -> str:
        # Says nothing that depends on how many people there are.
        return f"<Counts at {self.level!r}: {self.schema.size:,} cells, {self.geography!r}>"

    def at(self, level: str) -> Counts:
        """The same counts added up to a level at or above this one."""
        if level == self.level:
            return self
        up = adder(self.geography, level, of=self.level)
        return replace(self, level=level, matrix=(up @ self.matrix).tocsr(), records=None)

    def dense(self) -> Ints:
        """The counts as a full array, units by cells."""
        return np.asarray(self.matrix.toarray(), dtype=np.int64)

    def totals(self) -> Ints:
        """People per unit."""
        return np.asarray(self.matrix.sum(axis=1), dtype=np.int64).reshape(-1)


def tabulate(population: Population) -> Counts:
    """Count a population at the leaf, a few million entries at a time to keep memory low."""
    shape = (population.geography.size(population.geography.leaf), population.schema.size)
    unit, cell, keys = population.unit, population.cell, population.record_keys
    matrix = _sums(shape, unit, cell, population.count)
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
        None if keys is None else KeyedRecords(unit, cell, keys, shape),
        population.counted,
    )


def _sums(
    shape: tuple[int, int], unit: Ints32, cell: Ints32, values: NDArray[np.integer] | None
) -> Any:
    """Values added up by unit and cell, 1 each by default; those of 64 bits without a sign wrap."""
    from scipy.sparse import coo_array, csr_array

    if values is not None and _each_once(unit, cell) and (values > 0).all():
        first = np.searchsorted(unit, np.arange(shape[0] + 1))
        return sparse_counts(first, cell, values, cells=shape[1])
    matrix: Any = None
    for start in range(0, len(unit), ENTRIES_AT_ONCE):
        part = slice(start, start + ENTRIES_AT_ONCE)
        where = (unit[part], cell[part])
        some = np.ones(len(where[0]), dtype=np.int64) if values is None else values[part]
        # tocsr adds up entries of the same unit and cell
        sums = coo_array((some, where), shape=shape).tocsr()
        matrix = sums if matrix is None else matrix + sums
    if matrix is None:
        matrix = csr_array(shape, dtype=np.int64 if values is None else values.dtype)
    matrix.eliminate_zeros()
    return matrix


def _each_once(unit: Ints32, cell: Ints32) -> bool:
    """Whether entries are in the order of units and cells, none of them twice."""
    later = unit[1:] > unit[:-1]
    return bool((later | ((unit[1:] == unit[:-1]) & (cell[1:] > cell[:-1]))).all())


def add_up(
    matrix: csr_array[Any, tuple[int, int]], geography: Geography, level: str, *, of: str
) -> csr_array[Any, tuple[int, int]]:
    """Counts (none below 0) of one level added up to the level above it: as ``adder``, but quick.

    Children of one parent stand together, so that a pass over the rows is enough.
    """
    from headcount.tabulate._adding import add_rows

    first = np.append(geography.children_start(level), geography.size(of)).astype(np.int64)
    start, cell, value = add_rows(
        matrix.indptr, matrix.indices, matrix.data, first, matrix.shape[1]
    )
    return sparse_counts(start, cell, value, cells=matrix.shape[1])


def sparse_counts(
    start: Ints, cell: Ints32, value: NDArray[np.integer], *, cells: int
) -> csr_array[Any, tuple[int, int]]:
    """Counts by rows, units x cells; the arrays are used as they are, mapped ones too.

    With ``start`` in 64 bits scipy would copy ``cell`` to as many.
    """
    from scipy.sparse import csr_array

    narrow = start.astype(np.int32) if start[-1] <= np.iinfo(np.int32).max else start
    return csr_array((value, cell, narrow), shape=(len(start) - 1, cells))


def every_level(counts: Counts) -> dict[str, Counts]:
    """Counts of the leaf added up to each level in turn, the whole first."""
    geography = counts.geography
    levels = {counts.level: counts}
    for depth in range(geography.depth(counts.level) - 1, -1, -1):
        level, below = geography.levels[depth], geography.levels[depth + 1]
        matrix = add_up(levels[below].matrix, geography, level, of=below)
        levels[level] = replace(counts, level=level, matrix=matrix)
    return {level: levels[level] for level in geography.levels if level in levels}


def adder(geography: Geography, level: str, *, of: str) -> csr_array[Any, tuple[int, int]]:
    """The 0/1 matrix (units of ``level`` x units of ``of``) that adds children to ancestors."""
    from scipy.sparse import csr_array

    ancestor = geography.ancestors(level, of=of)
    ones = np.ones(len(ancestor), dtype=np.int64)
    shape = (geography.size(level), len(ancestor))
    return csr_array((ones, (ancestor, np.arange(len(ancestor)))), shape=shape)
