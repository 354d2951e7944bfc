"""Tables of a user's own: by any attributes, under broader groups of their levels, at any levels.

``"auto"`` makes tables for any population: each attribute by itself, and pairs of at most ``PAIR``
cells, the largest first, as long as they close no circle (of age by sex, sex by job and job by age
two are made). Each goes down to the lowest level at which it has at most ``MOST`` cells. That looks
at the schema and at how many units there are, which are public, and at no count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, TypeVar, cast

from headcount.domain import Domain
from headcount.errors import ConfigError, InputError, did_you_mean
from headcount.fields import Named, Pairs, ReadValue
from headcount.geography import Geography
from headcount.mechanisms._base import COPIES, SCALAR, Design, PostTabular
from headcount.mechanisms.suppression.rules import find_tables, known_tables
from headcount.schema import Attribute, Schema
from headcount.schema.schema import bin_labels, first_repeated
from headcount.tabulate.codings import own_coding, years
from headcount.tabulate.linked_tables import levels_of
from headcount.tabulate.published import OWN_PRODUCT, PublishedTable, TableCells

AUTO = "auto"
PAIR = 60
"""Cells of the largest pair of attributes that ``"auto"`` crosses, totals not counted."""
MOST = 30_000
"""Cells of a table of ``"auto"`` over all its units: one that has more stops at a level above."""
COLUMNS = ("table", "level", "unit", "n", "flag", "cost")
"""Columns that published and cost files have: no attribute of a table may have such a name."""

LARGEST = 20_000_000
"""Cells of the largest table, over all its units: more than a search could protect in a day."""

Groups = tuple[tuple[str, tuple[str, ...]], ...]
NameLists = Pairs[tuple[str, ...]]
NOTHING: Pairs[Any] = Pairs()
V = TypeVar("V")
Keyed = Mapping[str, V] | Pairs[V]
"""Names with values: a mapping from Python, kept as pairs."""
GroupsTable = Annotated[NameLists, Named(tuple[str, ...])]


@dataclass(frozen=True, kw_only=True)
class TablesField(ReadValue):
    """Names of known tables, or tables of one's own as ``{ NAME = [attributes] }``, or "auto"."""

    def read(self, value: object) -> tuple[str, ...] | NameLists | str:
        """The same, or a ValueError that says what was expected."""
        if value == AUTO:
            return AUTO
        if isinstance(value, Mapping | Pairs):
            return Pairs.of({name: _names(by, name) for name, by in dict(value).items()})
        if isinstance(value, str):
            raise ValueError(f'"{AUTO}", a list of tables, or {{ NAME = ["attribute", ...] }}')
        return _names(value, "")

    def json(self) -> dict[str, Any]:
        """ "auto", names of tables, or lists of attributes by name."""
        names = {"type": "array", "items": {"type": "string"}}
        own = {"type": "object", "additionalProperties": names}
        return {"anyOf": [{"const": AUTO}, names, own]}


def _names(value: object, table: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"a list of attributes for the table {table!r}" if table else "a list")
    return tuple(value)


@dataclass(frozen=True, kw_only=True)
class OwnTables:
    """Tables as they are asked for, before a schema is known.

    where
        tables     attributes by the table's name, or "auto"
        groups     for an attribute labels of broader groups, each with levels or other groups
        bins       for an attribute whose levels are years or spans of years, where broader ones
                   begin
        prefixes   for an attribute whose levels are codes, how many first characters make a
                   broader code
        lowest     for a table the lowest level at which it is published
        source     the mechanism that they are asked of, for messages
    """

    tables: NameLists | str
    groups: Pairs[NameLists] = NOTHING
    bins: Pairs[Any] = NOTHING
    prefixes: Pairs[tuple[int, ...]] = NOTHING
    lowest: Pairs[str] = NOTHING
    source: str

    def __post_init__(self) -> None:
        if isinstance(self.tables, str):
            return
        for name, by in self.tables:
            if not re.fullmatch(r"\w[\w-]{0,59}", name):
                raise self._bad(
                    "tables", repr(name), "names of letters, digits, _ and -, at most 60"
                )
            if (twice := first_repeated(by)) is not None:
                raise self._bad(f"tables.{name}", f"{twice!r} twice", "each attribute once")
        # Files of two tables must not be one on a disk that does not tell a from A.
        if (same := first_repeated(name.casefold() for name, _ in self.tables)) is not None:
            raise self._bad("tables", f"{same!r} twice", "names that differ in more than case")
        names = [name for name, _ in self.tables]
        for name, _ in self.lowest:
            if name not in names:
                raise self._bad("lowest_of", f"table {name!r}", did_you_mean(name, names))

    def on(
        self, schema: Schema, geography: Geography, *, lowest_of_all: str = ""
    ) -> tuple[PublishedTable, ...]:
        """The tables for a population; what its schema or geography lacks is refused."""
        groups = self._groups(schema)
        lowest = dict(self.lowest)
        made = []
        for name, by in auto_tables(schema) if isinstance(self.tables, str) else self.tables:
            for attribute in by:
                if attribute not in schema.names:
                    raise self._bad(
                        f"tables.{name}", repr(attribute), did_you_mean(attribute, schema.names)
                    )
                if attribute in COLUMNS:
                    expected = f"another name than {', '.join(COLUMNS)}"
                    raise self._bad(f"tables.{name}", f"attribute {attribute!r}", expected)
            level = lowest.get(name, "")
            if level and level not in geography.levels:
                raise self._bad(
                    f"lowest_of.{name}", repr(level), did_you_mean(level, geography.levels)
                )
            cells = _cells(by, schema, groups)
            if isinstance(self.tables, str):
                level = _lowest(cells, geography)
            table = PublishedTable(
                product=OWN_PRODUCT,
                name=name,
                title=" by ".join(by) or "people",
                lowest=level or lowest_of_all or geography.leaf,
                axes=tuple((attribute, ()) for attribute in by),
                groups=tuple((one, groups[one]) for one in by if one in groups),
            )
            cells *= sum(geography.size(level) for level in table.published_at(geography))
            if cells > LARGEST:
                expected = f"at most {LARGEST:,}: fewer attributes, or a higher level in lowest_of"
                raise self._bad(f"tables.{name}", f"{cells:,} cells in all units", expected)
            made.append(table)
        return tuple(made)

    def _groups(self, schema: Schema) -> dict[str, Groups]:
        """Broader groups of every attribute that has any, as sets of levels."""
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for key, given in (
            ("groups", self.groups),
            ("bins", self.bins),
            ("prefixes", self.prefixes),
        ):
            for name, value in given:
                if name not in schema.names:
                    raise self._bad(key, repr(name), did_you_mean(name, schema.names))
                attribute = schema.attribute(name)
                for label, levels in _MAKE[key](self.source, attribute, value):
                    if levels == (label,) and label in attribute.levels:
                        continue  # a bin of one year is that year
                    if label in found.setdefault(name, {}):
                        raise self._bad(f"{key}.{name}", f"{label!r} twice", "each group once")
                    found[name][label] = levels
        made = {name: tuple(groups.items()) for name, groups in found.items()}
        for name, groups in made.items():
            try:
                own_coding(schema.attribute(name), groups)
            except InputError as error:
                raise self._bad(f"groups.{name}", error.found, error.expected) from None
        return made

    def _bad(self, place: str, found: str, expected: str) -> ConfigError:
        return _bad(self.source, place, found, expected)


def _bad(source: str, place: str, found: str, expected: str) -> ConfigError:
    return ConfigError(source, place=place, found=found, expected=expected)


def _named(
    source: str, attribute: Attribute, groups: NameLists
) -> list[tuple[str, tuple[str, ...]]]:
    """Groups of a value map; a member may be another group of it."""
    known = dict(groups)

    def levels(label: str, above: tuple[str, ...]) -> tuple[str, ...]:
        if label in above:
            raise _bad(
                source, f"groups.{attribute.name}", f"{label!r} within itself", "groups that nest"
            )
        if label not in known:
            if label not in attribute.levels:
                names = (*attribute.levels, *known)
                expected = did_you_mean(label, names)
                raise _bad(source, f"groups.{attribute.name}.{above[-1]}", repr(label), expected)
            return (label,)
        inside = (levels(one, (*above, label)) for one in known[label])
        return tuple(dict.fromkeys(level for one in inside for level in one))

    return [(label, levels(label, ())) for label in known]


def _binned(
    source: str, attribute: Attribute, bins: Sequence[int] | str
) -> list[tuple[str, tuple[str, ...]]]:
    """Bins of years that gather levels which are years or spans of years."""
    place, found = f"bins.{attribute.name}", []
    spans = {level: years(level) for level in attribute.levels}
    for label in bin_labels(bins):
        inside = years(label) or frozenset()
        members = []
        for level, span in spans.items():
            if span is None:
                raise _bad(
                    source, place, f"level {level!r}", "levels that are years or spans of years"
                )
            if span & inside and not span <= inside:
                raise _bad(
                    source,
                    place,
                    f"level {level!r} across {label!r}",
                    "bins that hold whole levels",
                )
            if span <= inside:
                members.append(level)
        if members:
            found.append((label, tuple(members)))
    return found


def _prefixed(
    source: str, attribute: Attribute, lengths: Sequence[int]
) -> list[tuple[str, tuple[str, ...]]]:
    """Codes that begin alike; one that is no longer than a prefix, or alone, stands by itself."""
    found: dict[str, list[str]] = {}
    for length in sorted(set(lengths)):
        if length < 1:
            raise _bad(source, f"prefixes.{attribute.name}", str(length), "numbers of characters")
        for level in attribute.levels:
            if len(level) > length:
                found.setdefault(f"{level[:length]}*", []).append(level)
    return [(label, tuple(levels)) for label, levels in found.items() if len(levels) > 1]


_MAKE: Mapping[str, Any] = {"groups": _named, "bins": _binned, "prefixes": _prefixed}


def auto_tables(schema: Schema) -> NameLists:
    """Each attribute, and pairs of at most ``PAIR`` cells that close no circle.

    Without a circle whatever keeps the sums within and between tables is the tables of some
    population, so that protection against sums is protection against all that they tell.
    """
    names = [name for name in schema.names if name not in COLUMNS]
    size = {name: schema.attribute(name).size for name in names}
    pairs = [(a, b) for a, b in combinations(names, 2) if size[a] * size[b] <= PAIR]
    pairs.sort(key=lambda pair: -size[pair[0]] * size[pair[1]])
    listed: list[tuple[str, ...]] = [(name,) for name in names]
    for pair in pairs:
        if not cross([*listed, pair]):
            listed.append(pair)
    listed = listed or [()]
    return Pairs((_table_name(by, number), by) for number, by in enumerate(listed, start=1))


def cross(tables: Sequence[Sequence[str]]) -> frozenset[str]:
    """Attributes by which tables cross each other in a circle; none if they hang like a tree.

    Tables are taken off one by one whose attributes, but for those of no other table, all stand in
    one other table (Graham 1979; Yu & Özsoyoğlu 1979). What is left is a circle.
    """
    left = list(dict.fromkeys(frozenset(by) for by in tables))
    while True:
        for one in left:
            others = [by for by in left if by is not one]
            shared = one & frozenset().union(*others)
            if not others or any(shared <= by for by in others):
                left = others
                break
        else:
            return frozenset().union(*left)
        if not left:
            return frozenset()


def _table_name(by: Sequence[str], number: int) -> str:
    """The attributes' names, if a file can be called so."""
    name = "_".join(by) or "people"
    return name if re.fullmatch(r"\w[\w-]{0,59}", name) else f"table{number}"


def _cells(by: Sequence[str], schema: Schema, groups: Mapping[str, Groups]) -> int:
    cells = 1
    for name in by:
        cells *= 1 + schema.attribute(name).size + len(groups.get(name, ()))
    return cells


def _lowest(cells: int, geography: Geography) -> str:
    """The lowest level down to which a table has at most ``MOST`` cells; the top in any case."""
    lowest, total = geography.levels[0], 0
    for level in geography.levels:
        total += cells * geography.size(level)
        if total > MOST:
            break
        lowest = level
    return lowest


def frozen(value: Any) -> Any:
    """Mappings as pairs and lists as tuples, all the way down."""
    if isinstance(value, Mapping):
        return Pairs((str(name), frozen(one)) for name, one in value.items())
    if isinstance(value, Pairs):
        return Pairs((name, frozen(one)) for name, one in value)
    if isinstance(value, list | tuple):
        return tuple(frozen(one) for one in value)
    return value


def plain(value: Any) -> Any:
    """Pairs as the mapping that makes them again."""
    if isinstance(value, Pairs):
        return {name: plain(one) for name, one in value}
    if isinstance(value, tuple):
        return tuple(plain(one) for one in value)
    return value


OF_OWN = ("groups", "bins", "prefixes", "lowest_of")
"""Settings of own tables."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TablesDesign(Design):
    """Of a method that publishes tables: ``made`` has them once each, whatever their levels."""

    made: tuple[TableCells, ...]

    @property
    def table_bytes(self) -> int:
        """Of tables with changed counts, which are held together, and copies of the largest."""
        sizes = [cells.size * self.tree.size(level) for cells, level in self.tables]
        return (2 * sum(sizes) + COPIES * max(sizes, default=0)) * SCALAR


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

    def made(self, domain: Domain) -> tuple[TableCells, ...]:
        """The tables on a population's schema; one that cannot be made is an error."""
        schema, geography = domain.schema, domain.geography
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
