"""What the attacker knows: published tables, as ranges, on a public geography and schema."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.schema import Schema
from headcount.tabulate.published import TableCells

UNKNOWN = 1 << 40
"""Upper end of a cell about which nothing is published."""


@dataclass(frozen=True, eq=False, repr=False)
class KnownTable:
    """One table at one level, as ranges: each cell lies in [low, low + extra].

    where
        low     sparse (units of the level x cells of the table)
        extra   sparse, how much more each cell may hold; None if every number is exact
        known   the units for which the table is published; None for all
        value   sparse, the published number of each cell, near which its count most likely is;
                -1 for none. None if no count of a range is likelier than another
    """

    cells: TableCells
    level: str
    low: Any
    extra: Any = None
    known: Flags | None = None
    value: Any = None

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "ranges"
        return f"<Held {self.cells.table.name} at {self.level!r}: {kind}>"

    @property
    def name(self) -> str:
        """The table's name."""
        return self.cells.table.name

    @property
    def exact(self) -> bool:
        """Whether every cell of every unit is published exactly."""
        return self.extra is None and self.known is None

    def bounds(self, units: Ints) -> tuple[Ints, Ints]:
        """Low and high ends (units x cells) for some units, in full."""
        low = np.asarray(self.low[units].toarray(), dtype=np.int64)
        high = low.copy()
        if self.extra is not None:
            high += np.asarray(self.extra[units].toarray(), dtype=np.int64)
        if self.known is not None:
            hidden = ~self.known[units]
            low[hidden], high[hidden] = 0, UNKNOWN
        return low, high

    def likeliest(self, units: Ints) -> Ints:
        """The published numbers (units x cells) of some units; -1 where there is none."""
        if self.value is None:
            return np.full((len(units), self.cells.size), -1, dtype=np.int64)
        return np.asarray(self.value[units].toarray(), dtype=np.int64)

    def of_units(self, units: Ints) -> KnownTable:
        """The same table of some units, in this order."""
        return replace(
            self,
            low=self.low[units],
            extra=None if self.extra is None else self.extra[units],
            known=None if self.known is None else self.known[units],
            value=None if self.value is None else self.value[units],
        )

    def withheld(self, units: Flags) -> KnownTable:
        """The same table, not published for these units (a mask over the level's units)."""
        known = ~units if self.known is None else self.known & ~units
        return replace(self, known=known)


def exact(cells: TableCells, values: Any, *, level: str) -> KnownTable:
    """A table published as it is: ``values`` (units x cells of the table)."""
    from scipy.sparse import csr_array

    return KnownTable(cells, level, csr_array(values))


def between(cells: TableCells, low: Any, high: Any, *, level: str, value: Any = None) -> KnownTable:
    """A table of ranges: withheld cells (0 to ``UNKNOWN``), rounded or noisy numbers.

    ``value`` has the published numbers, if counts near them are likelier; -1 where there is none.
    """
    from scipy.sparse import csr_array

    first, last = csr_array(low), csr_array(high)
    extra = csr_array(last - first)
    if extra.nnz and extra.data.min() < 0:
        raise InputError(
            f"table {cells.table.name}",
            found="an upper bound below the lower one",
            expected="low <= high",
        )
    return KnownTable(cells, level, first, extra, value=None if value is None else csr_array(value))


@dataclass(frozen=True, eq=False, repr=False)
class Knowledge:
    """All that the attacker uses: the public domain, and the tables held at its levels."""

    schema: Schema
    geography: Geography
    tables: tuple[KnownTable, ...]

    def __post_init__(self) -> None:
        for held in self.tables:
            place = f"table {held.name} at {held.level!r}"
            shape = (self.geography.size(held.level), held.cells.size)
            if held.low.shape != shape:
                raise InputError(
                    "knowledge", place=place, found=f"shape {held.low.shape}", expected=str(shape)
                )
            if held.cells.matrix.shape[0] != self.schema.size:
                raise InputError(
                    "knowledge",
                    place=place,
                    found=f"a schema of {held.cells.matrix.shape[0]} cells",
                    expected=f"{self.schema.size} cells",
                )

    def __repr__(self) -> str:
        return f"<Knowledge: {len(self.tables)} tables, {self.geography!r}>"

    def at(self, level: str) -> tuple[KnownTable, ...]:
        """The tables held at a level."""
        return tuple(held for held in self.tables if held.level == level)
