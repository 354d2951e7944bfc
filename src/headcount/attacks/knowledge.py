"""What an adversary knows: published tables, or tables made from counts, as ranges.

They stand on a public geography and schema. Nothing else of a release is used by a reconstruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.attacks.changed_cells import NarrowedCells, narrowed_tables
from headcount.attacks.intervals import UNKNOWN
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.release import CountsRelease, Release, TablesRelease
from headcount.release.published import PublishedCells, is_total
from headcount.schema import Schema
from headcount.tabulate.published import PublishedTable, TableCells, supported


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
    """All that an adversary uses: the public domain, and the tables held at its levels."""

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


def knowledge_of_release(
    release: Release, tables: Sequence[PublishedTable] = (), *, together: str | None = None
) -> Knowledge:
    """All that can be held against a release.

    Published tables are read as they stand: a 0 that may hide a small count as a range, a
    withheld cell as unknown but for what the rules say that it holds at least. Where counts were
    changed each value is a range, narrowed by all sums of the release. From a release of
    counts the adversary makes ``tables``, those that the schema allows, at the leaf and at the
    level ``together``.
    """
    if isinstance(release, TablesRelease):
        read = narrowed_tables(release) if release.changed else release
        held = tuple(_hold(one) for one in read.published)
        return Knowledge(release.schema, published_geography(release), held)
    if not isinstance(release, CountsRelease):
        raise InputError(
            "release", found=type(release).__name__, expected="counts, or published tables"
        )
    return Knowledge(release.schema, release.geography, _made(release, tables, together))


def published_geography(release: TablesRelease) -> Geography:
    """The geography down to the lowest level of which anything is published."""
    geography = release.geography
    stop = 1 + max(geography.depth(one.level) for one in release.published)
    if stop == len(geography.levels):
        return geography
    return Geography(geography.levels[:stop], geography.units[:stop], geography.parents[:stop])


def _hold(one: PublishedCells) -> KnownTable:
    """One published table as ranges."""
    from scipy.sparse import csr_array

    if isinstance(one, NarrowedCells):
        value = np.where(one.withheld, -1, one.value)
        return between(one.cells, one.low, one.high, level=one.level, value=value)
    low = csr_array(np.where(one.withheld, one.holds, one.value))
    zero = (one.value == 0) & ~one.withheld & ~is_total(one.cells)
    extra = np.where(one.withheld, UNKNOWN, np.where(zero, one.zero_hides, 0))
    # Units without any table are cheaper than ranges, if there is nothing to say of them.
    whole = np.asarray(one.withheld.all(axis=1) & (one.holds == 0), dtype=bool)
    extra[whole] = 0
    return KnownTable(
        one.cells,
        one.level,
        low,
        csr_array(extra) if extra.any() else None,
        np.logical_not(whole) if whole.any() else None,
    )


def _made(
    release: CountsRelease, tables: Sequence[PublishedTable], together: str | None
) -> tuple[KnownTable, ...]:
    geography = release.geography
    made, reasons = supported(tables, release.schema)
    levels = [geography.leaf] if together is None else [geography.leaf, together]
    held = []
    for level in dict.fromkeys(levels):
        counts = release.table(level)
        given = counts if isinstance(counts, np.ndarray) else counts.data
        if np.any(given < 0) or np.any(given != np.rint(given)):
            raise InputError(
                "release",
                place=f"level {level!r}",
                found="counts that are negative or not whole",
                expected="whole counts of 0 or more, from which tables can be made",
            )
        for cells in made:
            lowest = cells.table.lowest
            known = lowest == "block" or lowest in geography.levels
            if known and level in cells.table.published_at(geography):
                values = cells.table.of(counts.astype(np.int64), release.schema)
                held.append(exact(cells, values, level=level))
    if not held:
        raise InputError(
            "release",
            found="; ".join(reasons.values()) or "no tables to make",
            expected="a schema from which at least one table can be made",
        )
    return tuple(held)


def tells_years(class_of: np.ndarray, key: np.ndarray) -> bool:
    """Whether the classes of a reconstruction tell every (sex, age) apart."""
    pairs = np.unique(np.stack([class_of, key]), axis=1).shape[1]
    return bool(pairs == len(np.unique(class_of)))
