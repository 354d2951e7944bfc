"""Queries with recodes that are given by names only: the schema comes later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headcount.arrays import Ints
from headcount.errors import ConfigError
from headcount.schema import Attribute, Recode, Schema
from headcount.schema.attribute import first_repeated
from headcount.tabulate import Query

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Grouping:
    """A recode of an attribute that is looked up in a schema when there is one.

    where
        of       the attribute
        groups   ((group, (level, ...)), ...): every level of the attribute in exactly one
    """

    name: str
    of: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    def __post_init__(self) -> None:
        Attribute(self.name, tuple(label for label, _ in self.groups))  # names stand the same test
        if twice := first_repeated(level for _, levels in self.groups for level in levels):
            raise ConfigError(
                "topdown",
                place=f"recode {self.name!r}",
                found=f"level {twice!r} in two groups",
                expected="each level in one group",
            )

    def on(self, schema: Schema) -> Recode:
        """The recode of that schema's attribute."""
        if self.name in schema.names:
            raise ConfigError(
                "topdown",
                place=f"recode {self.name!r}",
                found="the name of an attribute",
                expected="a name of its own: queries ask for it by name",
            )
        return Recode(self.name, schema.attribute(self.of), self.groups)


@dataclass(frozen=True)
class RecodedQuery(Query):
    """A marginal by attributes and groupings, all of them by name."""

    groupings: tuple[Grouping, ...] = ()

    def attributes(self, schema: Schema) -> tuple[Attribute, ...]:
        """The attributes of the answer, recodes replaced by their coarser attribute."""
        return self.on(schema).attributes(schema)

    def groups(self, schema: Schema) -> Ints:
        """For each cell of the schema the number of the answer's group it is counted in."""
        return self.on(schema).groups(schema)

    def on(self, schema: Schema) -> Query:
        """The query with recodes of that schema's attributes."""
        known = {one.name: one for one in self.groupings}
        axes = (a if isinstance(a, Recode) else known.get(a, a) for a in self.by)
        return Query(self.name, tuple(a.on(schema) if isinstance(a, Grouping) else a for a in axes))
