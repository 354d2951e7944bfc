"""Methods that publish tables: which tables they are, by name or of a user's own, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from headcount.errors import ConfigError
from headcount.fields import Pairs
from headcount.geography import Geography
from headcount.mechanisms._base import PostTabular
from headcount.mechanisms._own_tables import NameLists, OwnTables, TablesField, frozen
from headcount.mechanisms.suppression.rules import find_tables, known_tables
from headcount.schema import Schema
from headcount.schema.attribute import first_repeated
from headcount.tabulate.linked_tables import levels_of
from headcount.tabulate.published import TableCells

OF_OWN = ("groups", "bins", "prefixes", "lowest_of")
"""Settings of own tables."""


class TableMethod(PostTabular):
    """A method with the settings ``tables``, ``lowest`` and those of own tables."""

    tables: Any
    lowest: str
    groups: Any
    bins: Any
    prefixes: Any
    lowest_of: Any

    def freeze_tables(self) -> None:
        """From Python: mappings as pairs, lists as tuples; what are no tables is refused."""
        for name in OF_OWN:
            object.__setattr__(self, name, frozen(getattr(self, name)))
        try:
            object.__setattr__(self, "tables", TablesField().read(self.tables))
        except ValueError as error:
            raise self.bad("tables", repr(self.tables), str(error)) from None
        if not self.tables:
            raise self.bad("tables", "none", "at least one")

    def bad(self, place: str, found: str, expected: str) -> ConfigError:
        """What is wrong with a setting."""
        return ConfigError(self.name, place=place, found=found, expected=expected)

    @property
    def own(self) -> OwnTables | None:
        """Tables of one's own, where they are asked for."""
        if not isinstance(self.tables, Pairs | str):
            return None
        return OwnTables(
            tables=cast("NameLists | str", self.tables),
            groups=cast(Pairs[NameLists], self.groups),
            bins=cast(Pairs[Any], self.bins),
            prefixes=cast(Pairs[tuple[int, ...]], self.prefixes),
            lowest=cast(Pairs[str], self.lowest_of),
            source=self.name,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Tables that are known by name."""
        return cast(tuple[str, ...], self.tables) if self.own is None else ()

    def refuse_names(self, *more: str) -> None:
        """Refuse tables that nobody knows, or twice, and settings that go with own tables only."""
        if self.own is not None:
            return
        known = known_tables()
        for name in (*self.names, *more):
            if name not in known:
                raise self.bad("tables", repr(name), f"some of {', '.join(known)}")
        if (repeated := first_repeated(self.names)) is not None:
            raise self.bad("tables", f"{repeated!r} twice", "distinct tables")
        for place in OF_OWN:
            if getattr(self, place):
                expected = 'tables of one\'s own: tables = { NAME = ["attribute", ...] }'
                raise self.bad(place, "tables that are known by name", expected)

    def made(self, schema: Schema, geography: Geography) -> tuple[TableCells, ...]:
        """The tables on a population's schema; one that cannot be made is an error."""
        if self.lowest:
            geography.depth(self.lowest)  # refuses a level that there is not
        if (own := self.own) is None:
            found = find_tables(self.names, schema, source=self.name)
            for cells in found:
                cells.table.published_at(geography)  # refuses a level that there is not
            return found
        tables = own.on(schema, geography, lowest_of_all=self.lowest)
        return tuple(table.on(schema) for table in tables)

    def where(self, made: Sequence[TableCells], geography: Geography) -> Iterator[tuple[int, str]]:
        """Each table, by its number, at each of its levels."""
        for number, cells in enumerate(made):
            for level in levels_of(cells, geography, self.lowest):
                yield number, level

    def remarks(self, made: Sequence[TableCells], geography: Geography) -> tuple[str, ...]:
        """What will be published, of the schema and the list of units alone."""
        told = []
        for cells in made:
            levels = levels_of(cells, geography, self.lowest)
            units = sum(geography.size(level) for level in levels)
            told.append(
                f"publishes {cells.table.name} ({cells.table.title}): {cells.size:,} cells at "
                f"{', '.join(levels)}, {units * cells.size:,} in all"
            )
        return tuple(told)
