"""The cells of published tables whose counts were changed, with all their sums, as ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ends, Flags, Floats, Ints
from headcount.attacks.knowledge import UNKNOWN
from headcount.geography import Geography
from headcount.release import TablesRelease
from headcount.release.changed import Off
from headcount.release.published import PublishedCells, by_name, is_total
from headcount.tabulate.linked_tables import LinkedTables, link_tables
from headcount.tabulate.published import TableCells

Entry = TypeVar("Entry", np.int64, np.float64, np.bool_)

INFORMED, UNINFORMED = "informed", "uninformed"
"""Two attackers: one who has read how counts are changed, and one who has the release alone."""

EXACT = Off(down=0, up=0, zero_hides=0)
"""What is known of a table whose counts were not changed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CellValues:
    """What is published of each cell: once, or more often where chance was drawn anew.

    where
        values   for each draw the value of every cell, -1 where it has none
        exact    cells whose value is the count
    """

    values: tuple[Ints, ...]
    exact: Flags

    @property
    def many(self) -> Ints:
        """How many values each cell has."""
        return np.asarray(np.sum([one >= 0 for one in self.values], axis=0), dtype=np.int64)

    @property
    def mean(self) -> Floats:
        """The mean of a cell's values; 0 where it has none."""
        added = np.sum([np.maximum(one, 0) for one in self.values], axis=0, dtype=np.int64)
        return np.asarray(added / np.maximum(self.many, 1), dtype=np.float64)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ChangedCells:
    """Tables that hang together: their cells, relations and published values.

    where
        linked      the cells and where each table has them
        published   each table by (name, level)
    """

    linked: LinkedTables
    published: Mapping[tuple[str, str], PublishedCells]

    def ranges(self, largest: int | None) -> Ends:
        """The smallest and the largest count that may be behind each cell.

        ``largest`` is the largest change where neither the release says it nor the attacker has
        read the settings; None if nothing is known. A cell that no table has may hold anything.
        """
        low = np.zeros(self.linked.additive.size, dtype=np.int64)
        high = np.full(self.linked.additive.size, UNKNOWN)
        for where, number in self.linked.number.items():
            least, most = ends_of(self.published[where], largest)
            np.maximum.at(low, number, least)
            np.minimum.at(high, number, most)
        return low, high

    def unread(self) -> ChangedCells:
        """The same for an attacker who has not read the settings."""
        tables = {where: replace(one, known=None) for where, one in self.published.items()}
        return replace(self, published=tables)

    def values(self) -> tuple[Ints, Flags]:
        """The published value of each cell, and whether there is one.

        A cell that two tables publish is there once: the same people are changed alike, and where
        they are not the last table counts.
        """
        value = np.zeros(self.linked.additive.size, dtype=np.int64)
        known = np.zeros(self.linked.additive.size, dtype=bool)
        for where, number in self.linked.number.items():
            shown = ~self.published[where].withheld
            value[number[shown]] = self.published[where].value[shown]
            known[number[shown]] = True
        return value, known

    def draws(self) -> CellValues:
        """The published values of each cell: one, or one a table where chance is drawn anew.

        That shows wherever a cell has two values; people with a key have one in every table.
        """
        size, values = self.linked.additive.size, []
        for where, number in self.linked.number.items():
            one = np.full(size, -1)
            shown = ~self.published[where].withheld
            one[number[shown]] = self.published[where].value[shown]
            values.append(one)
        last, known = self.values()
        if all(((one < 0) | (one == last)).all() for one in values):
            values = [np.where(known, last, -1)]
        return CellValues(values=tuple(values), exact=self.exact())

    def exact(self) -> Flags:
        """Cells that are published as they are, by what the tables say of themselves."""
        found = np.zeros(self.linked.additive.size, dtype=bool)
        for where, number in self.linked.number.items():
            low, high = ends_of(replace(self.published[where], known=None), None)
            found[number[low == high]] = True
        return found

    def spread(self, cells: NDArray[Entry]) -> dict[tuple[str, str], NDArray[Entry]]:
        """Values of all cells back in the tables (units x cells)."""
        return {where: cells[number] for where, number in self.linked.number.items()}


def adding_tables(release: TablesRelease) -> list[PublishedCells]:
    """The tables of a release whose cells add up; in others nothing can be subtracted."""
    return [
        one for one in release.published if not any(coding.overlapping for coding in one.cells.axes)
    ]


def changed_cells(release: TablesRelease) -> tuple[ChangedCells, ...]:
    """The cells of all tables that add up, in sets that hang together.

    A table is linked from the top down to the lowest level at which it is published; levels above
    that at which it is not are cells that no table has.
    """
    tables = by_name(adding_tables(release))
    made = tuple({name: one.cells for (name, _), one in tables.items()}.values())
    geography, depth = release.geography, release.geography.depth
    lowest = max((level for _, level in tables), key=depth)
    same = (
        tuple(cells.table for cells in made),
        release.schema,
        geography.levels,
        tuple(one.tobytes() for one in geography.parents),
        lowest,
    )
    found = _linked(_Tables(same, made, geography, lowest))
    return tuple(ChangedCells(linked=_only(linked, tables), published=tables) for linked in found)


@dataclass(frozen=True)
class _Tables:
    """Tables on a geography; those with the same definitions and places are the same."""

    same: tuple[Any, ...]
    made: tuple[TableCells, ...] = field(compare=False)
    geography: Geography = field(compare=False)
    lowest: str = field(compare=False)


@lru_cache(maxsize=1)
def _linked(tables: _Tables) -> tuple[LinkedTables, ...]:
    """The sums of tables, which take longer to find than to use: all attacks on all releases of
    the same tables have them in common.
    """
    return link_tables(tables.made, tables.geography, lowest=tables.lowest)


def _only(linked: LinkedTables, tables: Mapping[tuple[str, str], PublishedCells]) -> LinkedTables:
    """Without the places of tables at levels at which they are not published."""
    kept = {where: cells for where, cells in linked.crossed.items() if where in tables}
    return replace(linked, crossed=kept)


def ends_of(one: PublishedCells, largest: int | None) -> Ends:
    """The smallest and the largest count that may be behind each cell of a table.

    ``largest`` is the largest change where neither the release says it nor the attacker has read
    the settings; None if nothing is known.
    """
    off = one.off or EXACT
    if one.known is not None:
        off = one.known.off
    elif off.down is None and largest is not None:
        off = replace(off, down=largest, up=largest, zero_hides=largest)
    cells, rule = one.cells, one.known or off
    low, high = rule.ends(one.value, inner=cells.inner, total=is_total(cells), unknown=UNKNOWN)
    most = UNKNOWN if off.withheld_below is None else off.withheld_below - 1
    return np.where(one.withheld, one.holds, low), np.where(one.withheld, most, high)


def hides_its_change(cells: Sequence[ChangedCells]) -> bool:
    """Whether it is not known of some table how far its counts may be off."""
    return hides_a_change(one for some in cells for one in some.published.values())


def hides_a_change(tables: Iterable[PublishedCells]) -> bool:
    """Whether neither the tables nor the settings say how far the counts of one may be off."""
    return any(one.off is not None and one.off.down is None and one.known is None for one in tables)
