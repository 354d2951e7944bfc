"""The counts that are attacked: every kind of people that the tables show, in the smallest places.

A count that two tables publish is one. Totals of whole places are left out: they are no secret
of anybody. The truth is always that of the people before any swap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.evaluation.answers import counted_people, shown_as_tables
from headcount.release import Release, TablesRelease
from headcount.release.published import PublishedCells, is_total
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import table_values
from headcount.tabulate.published import TableCells

TableAt = tuple[str, str]
"""A table and a level."""
EXPECTED = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Edges of the classes of what totals above let an attacker expect."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BetTargets:
    """Counts of the smallest places, and where tables publish them.

    where
        counts   the people before any swap
        tables   every table at each of its levels
        seed     of the fair coins that put each of the smallest places into one of two halves
    """

    counts: Counts
    tables: tuple[tuple[TableCells, str], ...]
    seed: int

    def __repr__(self) -> str:
        return "<BetTargets>"

    @property
    def lowest(self) -> str:
        """The finest level at which a table is published."""
        return max((level for _, level in self.tables), key=self.counts.geography.depth)

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels from the whole to the lowest."""
        geography = self.counts.geography
        return geography.levels[: geography.depth(self.lowest) + 1]

    @cached_property
    def columns(self) -> tuple[tuple[str, int], ...]:
        """Table and column of each kind of people, each kind once."""
        known: set[bytes] = set()
        found = []
        for cells, level in self.tables:
            if level != self.lowest:
                continue
            whole = is_total(cells)
            for column, who in enumerate(counted_people(cells.matrix, self.counts.schema)):
                if who not in known and not whole[column]:
                    found.append((cells.table.name, column))
                known.add(who)
        return tuple(found)

    @cached_property
    def true_tables(self) -> Mapping[TableAt, Ints]:
        """The tables before any swap."""
        return {
            (cells.table.name, level): table_values(self.counts.at(level), cells)
            for cells, level in self.tables
        }

    @cached_property
    def truth(self) -> Ints:
        """The counts (smallest places x kinds of people)."""
        found: Ints = self.at(self.true_tables, self.lowest)
        return found

    @cached_property
    def half(self) -> Flags:
        """In which half each count is: that of its place."""
        coin = np.random.default_rng(self.seed).random(len(self.truth)) < 0.5
        return np.broadcast_to(coin[:, None], self.truth.shape)

    def at(self, tables: Mapping[TableAt, Any], level: str) -> Any:
        """The columns of all kinds of people at a level (places x kinds)."""
        return np.stack([tables[name, level][:, column] for name, column in self.columns], axis=1)

    def published(self, release: Release) -> Mapping[TableAt, Ints]:
        """What a release says in place of the tables; counts are added up to them."""
        return {(one.name, one.level): one.value for one in self.shown(release)}

    def shown(self, release: Release) -> Sequence[PublishedCells]:
        """The tables of a release."""
        if isinstance(release, TablesRelease):
            return release.published
        return shown_as_tables(release.as_counts(), self.tables)

    def expected(self, tables: Mapping[TableAt, Ints]) -> Ints:
        """What totals let an attacker expect who does not see the count: a class of size.

        The people of the place times the share of the kind in the place above, as published.
        """
        geography = self.counts.geography
        depth = geography.depth(self.lowest)
        if not depth:
            return np.zeros(self.truth.shape, dtype=np.int64)
        above, up = geography.levels[depth - 1], geography.parents[depth]
        share = np.maximum(self.at(tables, above), 0) / np.maximum(self._people(tables, above), 1)
        people = np.maximum(self._people(tables, self.lowest), 0)
        found: Ints = np.searchsorted(EXPECTED, share[up] * people).astype(np.int64)
        return found

    def _people(self, tables: Mapping[TableAt, Ints], level: str) -> Ints:
        """The total of each place, from the first table that has one there."""
        name, whole = next(self._totals(level))
        return tables[name, level][:, whole]

    def _totals(self, level: str) -> Iterator[tuple[str, Flags]]:
        for cells, own in self.tables:
            if own == level:
                yield cells.table.name, is_total(cells)
