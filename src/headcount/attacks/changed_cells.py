"""Tables whose counts were changed, as an adversary reads them: cells, their sums, and ranges.

Each published value stands for a range of counts, as wide as the largest change D. Where D is a
secret, margins that do not add up give it away. A total less the sum of its k published parts is a
sum of k + 1 changes, so that

    D >= |gap| / (k + 1),

and zeros say more: a part published as 0 hides D at most and never less than 0, a part published
as more holds 1 at least. The smallest D under which every relation can hold is a lower bound that
no published table refutes; with many margins some gap is extreme, and the bound is D itself.

where
    gap   published total less the sum of its published parts
    D     largest change

Bach, arXiv 2012.09775, section 3. ``narrowed_tables`` takes the whole release: what some leaf units
hold also follows from the units beside them, and from the totals of all. Afterwards each unit can
be attacked by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ends, Flags, Ints
from headcount.attacks.intervals import UNKNOWN, Contradiction, among, tighten
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.release import TablesRelease
from headcount.release.published import PublishedCells, by_name
from headcount.tabulate.additive import Additive
from headcount.tabulate.linked_tables import LinkedTables, link_tables
from headcount.tabulate.published import TableCells

T = TypeVar("T")
Entry = TypeVar("Entry", np.int64, np.float64, np.bool_)

INFORMED, UNINFORMED = "informed", "uninformed"
"""Two attackers: one who has read how counts are changed, and one who has the release alone."""


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
            least, most = self.published[where].ends(unknown=UNKNOWN, largest=largest)
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

    def exact(self) -> Flags:
        """Cells that are published as they are, by what the tables say of themselves."""
        found = np.zeros(self.linked.additive.size, dtype=bool)
        for where, number in self.linked.number.items():
            low, high = replace(self.published[where], known=None).ends(unknown=UNKNOWN)
            found[number[low == high]] = True
        return found

    def published_sums(self) -> tuple[Additive, Ints, Flags, bool]:
        """The relations all of whose cells are published, as ``least_changes`` takes them.

        With the value of each of their cells, those that are exact, and whether zeros stay.
        """
        value, known = self.values()
        shown = among(self.linked.additive, known)
        raised = any(
            one.off is not None and one.off.raises_zeros for one in self.published.values()
        )
        return shown.additive, value[shown.cell], self.exact()[shown.cell], not raised

    def proved_change(self) -> int:
        """The smallest D that no single relation refutes; 0 if all adds up."""
        additive, value, exact, zeros_stay = self.published_sums()
        least = least_changes(additive, value, zeros_stay=zeros_stay, exact=exact)
        return int(least.max(initial=0))

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


def hides_its_change(cells: Sequence[ChangedCells]) -> bool:
    """Whether it is not known of some table how far its counts may be off."""
    return hides_a_change(one for some in cells for one in some.published.values())


def hides_a_change(tables: Iterable[PublishedCells]) -> bool:
    """Whether neither the tables nor the settings say how far the counts of one may be off."""
    return any(one.off is not None and not one.off.told and one.known is None for one in tables)


def least_changes(
    additive: Additive,
    published: Ints,
    *,
    zeros_stay: bool = True,
    exact: Flags | None = None,
) -> Ints:
    """For each relation the smallest D for which the ranges of its total and of its parts meet.

    With a larger D ranges only widen, so that it is found by halving, for all relations at once.

    where
        published    the value of every cell
        zeros_stay   whether the adversary takes it as known that no positive value is made of 0
        exact        cells that are published as they are; by default none
    """
    if published.shape != (additive.size,) or np.any(published < 0):
        raise InputError(
            "margins",
            found="a value below 0 or a cell without one",
            expected=f"a published count for each of {additive.size} cells",
        )
    changed = np.ones(additive.size, dtype=bool) if exact is None else ~exact
    lengths, floor = np.diff(additive.start), int(zeros_stay)
    own = np.repeat(np.arange(len(lengths)), lengths)
    total, parts = published[additive.total], published[additive.part]

    def added(values: Ints) -> Ints:
        return np.bincount(own, weights=values, minlength=len(lengths)).astype(np.int64)

    def smallest(values: Ints, change: Ints) -> Ints:
        return np.where((values > 0) & (change > 0), np.maximum(values - change, floor), values)

    sums, of_total, of_part = added(parts), changed[additive.total], changed[additive.part]
    many = added(of_part.astype(np.int64))
    low, high = np.full(len(lengths), -1), np.maximum(total, sums) + floor
    while np.any(high - low > 1):
        middle = (low + high) // 2
        # No change at all is a change of 0, whatever D is.
        meet = (added(smallest(parts, middle[own] * of_part)) <= total + middle * of_total) & (
            smallest(total, middle * of_total) <= sums + middle * many
        )
        low, high = np.where(meet, low, middle), np.where(meet, middle, high)
    return high


def by_smallest_change(cells: Sequence[ChangedCells], attack: Callable[[int], T]) -> tuple[int, T]:
    """What an attacker takes for the largest change who does not know it, and what he finds by it.

    It is the smallest one under which no sum of published counts is impossible: each relation
    proves one, and all of them together, as far as the attack looks, may prove more.
    """
    first = guess = max(some.proved_change() for some in cells)
    while True:
        try:
            return guess, attack(guess)
        except Contradiction:
            if guess == first:
                # Counts that are published as they are may contradict each other: no change
                # explains that, and the search would never end.
                attack(_explains_all(cells))
            guess += 1


def _explains_all(cells: Sequence[ChangedCells]) -> int:
    """A largest change under which any tables can be true: each leaf cell may hold one person."""
    most = (one.value.max(initial=0) for some in cells for one in some.published.values())
    return sum(some.linked.additive.size for some in cells) + int(sum(most))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NarrowedCells(PublishedCells):
    """A published table, and the smallest and the largest count behind each cell."""

    low: Ints
    high: Ints

    def of_units(self, units: Ints) -> Self:
        """The same table of some units of its level, in this order."""
        return replace(super().of_units(units), low=self.low[units], high=self.high[units])


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NarrowedTables(TablesRelease):
    """A release of changed tables with what an attacker has worked out of each cell.

    where
        largest_change   what he takes for the largest change; None if the release says it
        guessed          whether that is the smallest change under which all tables can be true,
                         and not what he knows
    """

    largest_change: int | None
    guessed: bool

    @property
    def words(self) -> str:
        """What is known of the changes, in a sentence."""
        if self.largest_change is None:
            return "How far counts may be off is known, from the release or the settings."
        if not self.guessed:
            return f"The attacker knows that no count is off by more than {self.largest_change}."
        return (
            "The release does not say how far its counts may be off, and the attacker does not "
            f"know: {self.largest_change} is the smallest change under which all tables can be "
            "true, and he takes it for the largest. If it is larger, what he calls certain can be "
            "wrong."
        )


def narrowed_tables(
    release: TablesRelease, *, largest_change: int = 0, knows_settings: bool = True
) -> NarrowedTables:
    """The release with ranges as narrow as one sum at a time makes them.

    where
        largest_change   what the attacker knows of the largest change where the release does not
                         say it; 0 if nothing
        knows_settings   whether he uses the settings that an evaluation gives him
    """
    if isinstance(release, NarrowedTables):
        return release
    if not adding_tables(release):
        raise InputError(
            "release", found="tables whose groups all overlap", expected="a table that adds up"
        )
    if not knows_settings:
        release = release.without_settings()
    cells = changed_cells(release)
    hidden = hides_its_change(cells)
    largest = largest_change if hidden and largest_change else None
    if guessed := hidden and not largest_change:
        largest, ends = by_smallest_change(cells, lambda guess: _narrow(cells, guess))
    else:
        ends = _narrow(cells, largest)
    published = tuple(_with_ends(one, ends, largest) for one in release.published)
    kept = {field.name: getattr(release, field.name) for field in fields(release)}
    return NarrowedTables(
        **(kept | {"published": published}), largest_change=largest, guessed=guessed
    )


def _narrow(cells: Sequence[ChangedCells], largest: int | None) -> Mapping[tuple[str, str], Ends]:
    """The ends of every table's cells."""
    found: dict[tuple[str, str], Ends] = {}
    for some in cells:
        low, high = tighten(some.linked.additive, *some.ranges(largest))
        highs = some.spread(high)
        found |= {where: (own, highs[where]) for where, own in some.spread(low).items()}
    return found


def _with_ends(
    one: PublishedCells, ends: Mapping[tuple[str, str], Ends], largest: int | None
) -> NarrowedCells:
    # A table whose groups overlap has no sums that could narrow it.
    low, high = ends.get((one.name, one.level)) or one.ends(unknown=UNKNOWN, largest=largest)
    own = {field.name: getattr(one, field.name) for field in fields(one)}
    return NarrowedCells(**own, low=low, high=high)
