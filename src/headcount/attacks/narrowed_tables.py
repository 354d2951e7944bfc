"""Tables whose counts were changed, as an attacker reads them: ranges, narrowed by all sums.

This takes the whole release: what some leaf units hold also follows from the units beside them,
and from the totals of all. Afterwards each unit can be attacked by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

from headcount.arrays import Ends, Ints
from headcount.attacks.changed_cells import (
    ChangedCells,
    adding_tables,
    changed_cells,
    ends_of,
    hides_its_change,
)
from headcount.attacks.intervals import tighten
from headcount.attacks.margin_gaps import by_smallest_change
from headcount.errors import InputError
from headcount.release import TablesRelease
from headcount.release.published import PublishedCells


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
    low, high = ends.get((one.name, one.level)) or ends_of(one, largest)
    own = {field.name: getattr(one, field.name) for field in fields(one)}
    return NarrowedCells(**own, low=low, high=high)
