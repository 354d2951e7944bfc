"""Published tables as data: what one counts, by what, down to which level, how its cells add up.

P.L. 94-171 and Summary File 1 are shipped as TOML; a user's own tables come from a file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.errors import ConfigError, InputError, one_of
from headcount.files import read_toml
from headcount.geography import Geography
from headcount.schema import Attribute, Recode, Schema
from headcount.schema.roles import Roles
from headcount.schema.schema import first_repeated
from headcount.tabulate.codings import (
    OWN,
    TOTAL_LABEL,
    Atoms,
    Coding,
    codings,
    find_attribute,
    level_atoms,
    own_coding,
)
from headcount.tabulate.counts import Query

if TYPE_CHECKING:
    from scipy.sparse import csr_array

PERSONS, HOUSING = "persons", "housing"
OWN_PRODUCT = "own"
OUTSIDE = "outside"


@dataclass(frozen=True)
class _TableSupport:
    """Whether a schema can make a table, why not, and the codings it is made with."""

    possible: bool
    reason: str = ""
    axes: tuple[Coding, ...] = ()
    universe: tuple[tuple[str, Coding, str], ...] = ()

    def __bool__(self) -> bool:
        return self.possible


@dataclass(frozen=True)
class PublishedTable:
    """The definition of a table; ``on(schema)`` gives its cells for a population.

    where
        universe    (role, alternatives) who is counted; an alternative is "coding/group"
        axes        (role, alternatives) by what; the first coding that the schema can make is used.
                    An attribute without alternatives is shown by its own levels
        lowest      the lowest level of the geography at which the table is published; "block" is
                    the leaf where no level has that name
        counts      "persons", or "housing" for homes by occupancy
        within      (axis, or axis/coding, and labels) groups of that axis are published only
                    within these groups of the axis before, its total everywhere; by default axes
                    are crossed in full
        groups      (attribute, (label and levels of each)) broader groups of an attribute that is
                    shown by its own levels
        joined      the same, shown in place of these levels
    """

    product: str
    name: str
    title: str
    lowest: str
    axes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    universe: tuple[tuple[str, tuple[str, ...]], ...] = ()
    counts: str = PERSONS
    within: tuple[tuple[str, tuple[str, ...]], ...] = ()
    groups: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...] = ()
    joined: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...] = ()

    @property
    def is_own(self) -> bool:
        """Whether the table is a user's, by attributes as they are."""
        return self.product == OWN_PRODUCT

    def supports(self, schema: Schema) -> _TableSupport:
        """Can this schema make the table? If not, the reason."""
        return _support(self, schema, schema.roles)

    def on(self, schema: Schema) -> TableCells:
        """The cells of the table for a population of this schema."""
        return _cells(self, schema, schema.roles)

    def of(self, counts: Any, schema: Schema) -> Any:
        """The table (units x table cells, sparse) from counts (units x cells of the schema)."""
        from scipy.sparse import csr_array

        return csr_array(csr_array(counts) @ self.on(schema).matrix)

    def published_at(self, geography: Geography) -> tuple[str, ...]:
        """Levels of a geography at which the table is published, from the whole down."""
        if self.lowest == "block" and self.lowest not in geography.levels:
            return geography.levels  # down to the leaf, whatever its name
        return geography.levels[: geography.depth(self.lowest) + 1]


def own_table(by: Sequence[str], *, name: str = "", lowest: str = "block") -> PublishedTable:
    """A user's own table by some attributes as they are; of everybody if there are none."""
    title = " by ".join(by) or "people"
    axes: tuple[tuple[str, tuple[str, ...]], ...] = tuple((attribute, ()) for attribute in by)
    return PublishedTable(OWN_PRODUCT, name or title, title, lowest, axes)


@dataclass(frozen=True, eq=False)
class TableCells:
    """The cells of a table on one schema: the published detail and the published subtotals.

    where
        axes        the codings used, one for each axis
        shape       groups along each axis, subtotals included, as if all were crossed
        place       the number of each cell among those of ``shape``, row by row
        matrix      (cells of the schema x cells of the table) 1 where a cell counts, more where
                    races are tallied; cells out of the universe are in no cell of the table
        inner       whether a cell is detail (True) or follows from others as their sum
        family      number of the set of cells a cell belongs to: within a family no person is
                    counted twice
        relations   (relations x cells): +1 at the parts and -1 at their subtotal, so that for
                    every true table ``relations @ cells == 0``
    """

    table: PublishedTable
    axes: tuple[Coding, ...]
    matrix: csr_array[Any, tuple[int, int]]
    inner: Flags
    family: Ints
    relations: csr_array[Any, tuple[int, int]]
    place: Ints
    full: TableCells | None = None

    @property
    def crossed(self) -> TableCells:
        """The table with its axes crossed in full, cells that are not published included."""
        return self.full or self

    @property
    def size(self) -> int:
        """Number of cells, subtotals included."""
        return len(self.inner)

    @property
    def shape(self) -> tuple[int, ...]:
        """Groups along each axis."""
        return tuple(len(coding.groups) for coding in self.axes)

    @cached_property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The groups of each cell, one for each axis."""
        every = list(product(*([label for label, _ in coding.groups] for coding in self.axes)))
        return tuple(every[number] for number in self.place)

    def query(self, schema: Schema) -> Query:
        """The detail as a query on the whole population: recodes of the axes' attributes.

        Levels that no group holds gather in a group "outside". The universe is not applied, and
        a table that counts people more than once, or whose detail is not crossed, has no query.
        """
        recodes = []
        for coding in self.axes:
            if coding.overlapping:
                raise InputError(
                    f"table {self.table.name}", found="overlapping groups", expected="none"
                )
            recodes.append(_recode(schema, coding))
        if self.inner.sum() < np.prod([len(coding.layers[0]) for coding in self.axes]):
            raise InputError(
                f"table {self.table.name}",
                found="groups that are not crossed with others",
                expected="all crossed",
            )
        return Query(self.table.name, tuple(recodes))


@cache
def _support(table: PublishedTable, schema: Schema, roles: Roles) -> _TableSupport:
    if table.counts == HOUSING:
        return _TableSupport(False, f"{table.name} counts homes: it is made from living quarters")
    axes, universe = [], []
    for role, alternatives in (*table.universe, *table.axes):
        if not alternatives and role in schema.names:
            joined = dict(table.joined).get(role, ())
            groups = joined or dict(table.groups).get(role, ())
            axes.append(own_coding(schema.attribute(role), groups, joined=bool(joined)))
            continue
        found = _first_possible(schema, role, alternatives)
        if isinstance(found, str):
            return _TableSupport(False, f"{table.name}: {found}")
        coding, label = found
        if label:
            universe.append((role, coding, label))
        else:
            axes.append(coding)
    return _TableSupport(True, axes=tuple(axes), universe=tuple(universe))


def _first_possible(
    schema: Schema, role: str, alternatives: Sequence[str]
) -> tuple[Coding, str] | str:
    """The first coding (with its group, for a universe) that the schema can make, or why none."""
    attribute = find_attribute(schema, role)
    if attribute is None:
        return f"the schema has no attribute {role!r}"
    levels = level_atoms(schema, attribute, role)
    if isinstance(levels, str):
        return levels
    reasons = []
    for alternative in alternatives:
        name, _, label = alternative.partition("/")
        coding = codings()[role, name]
        groups = [(label, coding.group(label))] if label else list(coding.layers[0])
        across = _across(attribute.levels, levels, groups)
        if across is None:
            return coding, label
        reasons.append(f"{role} level {across[0]!r} lies across {across[1]!r} of {name!r}")
    return "; ".join(reasons)


def _across(
    names: Sequence[str], levels: Sequence[Atoms], groups: Sequence[tuple[str, Atoms]]
) -> tuple[str, str] | None:
    for name, level in zip(names, levels, strict=True):
        for label, group in groups:
            if level & group and not level <= group:
                return name, label
    return None


def _shown(schema: Schema, coding: Coding) -> Attribute | None:
    """The attribute that a coding is of: by its own name, or by the role that it plays."""
    own = coding.name == OWN
    return schema.attribute(coding.role) if own else find_attribute(schema, coding.role)


def _member(schema: Schema, coding: Coding, groups: Sequence[Atoms]) -> Ints:
    """0/1 (levels of the attribute x groups)."""
    attribute = _shown(schema, coding)
    assert attribute is not None  # a table is made only on a schema that supports it
    levels: tuple[Atoms, ...] | str
    if coding.name == OWN:
        levels = tuple(frozenset({level}) for level in attribute.levels)
    else:
        levels = level_atoms(schema, attribute, coding.role)
    if isinstance(levels, str):
        raise ValueError(levels)
    return np.array([[int(level <= group) for group in groups] for level in levels], dtype=np.int64)


def _recode(schema: Schema, coding: Coding) -> Recode:
    attribute = _shown(schema, coding)
    assert attribute is not None  # the table was made on this schema
    groups = coding.layers[0]
    member = _member(schema, coding, [atoms for _, atoms in groups]).astype(bool)
    levels = np.array(attribute.levels)
    named = {label: levels[member[:, i]].tolist() for i, (label, _) in enumerate(groups)}
    if outside := levels[~member.any(axis=1)].tolist():
        named[OUTSIDE] = outside
    return Recode.of(attribute, f"{coding.role}_{coding.name}", named)


@cache
def _cells(table: PublishedTable, schema: Schema, roles: Roles) -> TableCells:
    # Roles are no part of what makes two schemas equal: kept by them too.
    support = table.supports(schema)
    if not support:
        raise InputError(
            f"table {table.name}",
            found=support.reason,
            expected="a schema that can make the table",
        )
    family = np.zeros(1, dtype=np.int64)
    for coding in support.axes:
        kind = _family_of_group(coding)
        family = np.add.outer(family * (kind.max() + 1), kind).reshape(-1)
    shown = _published(table, support.axes)
    relations = _relations(support.axes)
    # A sum with a cell that is not published is none of this table's.
    relations = relations[(abs(relations) @ ~shown) == 0][:, shown]
    sums = np.unique(relations.tocoo().coords[1][relations.tocoo().data < 0])
    inner = np.ones(relations.shape[1], dtype=bool)
    inner[sums] = False
    return TableCells(
        table=table,
        axes=support.axes,
        matrix=_matrix(schema, support)[:, shown],
        inner=inner,
        family=family[shown],
        relations=relations,
        place=np.flatnonzero(shown),
        full=None if shown.all() else _cells(replace(table, within=()), schema, roles),
    )


def _published(table: PublishedTable, axes: Sequence[Coding]) -> Flags:
    """Which cells of the crossed axes the table has."""
    labels = [[label for label, _ in coding.groups] for coding in axes]
    shown = np.ones([len(one) for one in labels], dtype=bool)
    for name, groups in table.within:
        role, _, only = name.partition("/")
        number = [coding.role for coding in axes].index(role)
        if only not in ("", axes[number].name):
            continue
        inside, total = np.isin(labels[number - 1], groups), np.array(labels[number]) == TOTAL_LABEL
        both = inside[:, None] | total[None, :]
        sizes = [1] * len(axes)
        sizes[number - 1 : number + 1] = both.shape
        shown &= both.reshape(sizes)
    return shown.reshape(-1)


def _family_of_group(coding: Coding) -> Ints:
    """For each group its layer (0 is the detail), or its own number if groups overlap."""
    if coding.overlapping:
        return np.arange(len(coding.groups))[::-1].copy()
    sizes = [len(layer) for layer in coding.layers]
    return np.repeat(np.arange(len(sizes)), sizes)[::-1].copy()


def _matrix(schema: Schema, support: _TableSupport) -> Any:
    """Kronecker product over the schema's attributes of (levels x groups), axes then reordered."""
    from scipy.sparse import csr_array, kron

    order, sizes = [], []
    matrix = csr_array(np.ones((1, 1), dtype=np.int64))
    for attribute in schema.attributes:
        part = np.ones((attribute.size, 1), dtype=np.int64)
        for number, coding in enumerate(support.axes):
            if _shown(schema, coding) is attribute:
                part = _member(schema, coding, [atoms for _, atoms in coding.groups])
                if coding.overlapping:  # the total is of what is counted, not of people
                    part[:, 0] = part[:, 1:].sum(axis=1)
                order.append(number)
                sizes.append(part.shape[1])
        for wanted, coding, label in support.universe:
            if find_attribute(schema, wanted) is attribute:
                part = part * _member(schema, coding, [coding.group(label)])
        matrix = csr_array(kron(matrix, csr_array(part), format="csr"))
    if not order:
        return matrix
    columns = np.arange(matrix.shape[1]).reshape(sizes).transpose(np.argsort(order))
    return csr_array(matrix[:, columns.reshape(-1)])


def _relations(axes: Sequence[Coding]) -> Any:
    """Each subtotal along each axis with its parts of the layer below, for all other groups."""
    from scipy.sparse import csr_array, eye_array, kron, vstack

    found = []
    sizes = [len(coding.groups) for coding in axes]
    for number, coding in enumerate(axes):
        one = _axis_relations(coding)
        before, after = int(np.prod(sizes[:number])), int(np.prod(sizes[number + 1 :]))
        found.append(kron(kron(eye_array(before, dtype=np.int64), one), eye_array(after)))
    if not found:
        return csr_array((0, int(np.prod(sizes))), dtype=np.int64)
    return csr_array(vstack(found, format="csr").astype(np.int64))


def _axis_relations(coding: Coding) -> Ints:
    parents = np.array(coding.parents)
    own = np.eye(len(parents), dtype=np.int64)
    return np.array([(parents == one) - own[one] for one in np.unique(parents[parents >= 0])])


Alternatives = tuple[tuple[str, tuple[str, ...]], ...]
KEYS = ("name", "title", "lowest", "axes", "within", "universe", "counts", "iterations")
PRODUCTS = ("pl94-171", "sf1")


def tables(product: str | Path) -> Mapping[str, PublishedTable]:
    """The tables of a shipped product ("pl94-171", "sf1") or of a TOML file, by name."""
    return _shipped(product) if product in PRODUCTS else _read(Path(product))


def supported(
    known: Iterable[PublishedTable], schema: Schema
) -> tuple[tuple[TableCells, ...], Mapping[str, str]]:
    """The tables that a schema can make, and for each of the others the reason."""
    cells, reasons = [], {}
    for table in known:
        if support := table.supports(schema):
            cells.append(table.on(schema))
        else:
            reasons[table.name] = support.reason
    return tuple(cells), reasons


@cache
def _shipped(product: str | Path) -> Mapping[str, PublishedTable]:
    file = resources.files("headcount.tabulate") / "products" / f"{product}.toml"
    return _tables_from(tomllib.loads(file.read_text(encoding="utf-8")), source=str(product))


def _read(path: Path) -> Mapping[str, PublishedTable]:
    data = read_toml(path, expected=f"tables: a TOML file, or {one_of(PRODUCTS)}")
    return _tables_from(data, source=str(path))


def _tables_from(data: Mapping[str, Any], *, source: str) -> Mapping[str, PublishedTable]:
    """Build tables from parsed TOML: ``[[table]]`` entries and ``[iteration]`` universes."""
    iterations = data.get("iteration", {})
    made = [one for entry in data.get("table", ()) for one in _tables(entry, iterations, source)]
    if not made:
        raise ConfigError(source, found="no [[table]]", expected="at least one")
    if repeated := first_repeated(table.name for table in made):
        raise ConfigError(source, found=f"table {repeated!r} twice", expected="each name once")
    return {table.name: table for table in made}


def _tables(
    entry: Mapping[str, Any], iterations: Mapping[str, Any], source: str
) -> Iterator[PublishedTable]:
    for key in ("name", "title", "lowest"):
        if not isinstance(entry.get(key), str):
            raise ConfigError(
                source,
                place=f"table {entry.get('name', '?')}, {key}",
                found="no text",
                expected="a text",
            )
    name = entry["name"]
    if unknown := sorted(set(entry) - set(KEYS)):
        raise ConfigError(
            source, place=f"table {name}", found=f"key {unknown[0]!r}", expected=one_of(KEYS)
        )
    counts = entry.get("counts", PERSONS)
    if counts not in (PERSONS, HOUSING):
        raise ConfigError(
            source,
            place=f"table {name}, counts",
            found=repr(counts),
            expected=one_of((PERSONS, HOUSING)),
        )
    axes = _alternatives(entry.get("axes", {}), source, name)
    within = _within(entry, axes, source)
    universe = entry.get("universe", {})
    for letter in ("", *entry.get("iterations", "")):
        if letter and letter not in iterations:
            raise ConfigError(
                source,
                place=f"table {name}",
                found=f"iteration {letter!r}",
                expected=one_of(iterations),
            )
        who = universe | (iterations[letter] if letter else {})
        yield PublishedTable(
            product=source,
            name=name + letter,
            title=entry["title"] + (f", iteration {letter}" if letter else ""),
            lowest=entry["lowest"],
            axes=axes,
            universe=_alternatives(who, source, name),
            counts=counts,
            within=within,
        )


def _within(entry: Mapping[str, Any], axes: Alternatives, source: str) -> Alternatives:
    """Checked: a later axis, or one coding of it, and groups of the axis before."""
    found = []
    for name, labels in entry.get("within", {}).items():
        role = name.partition("/")[0]
        place = f"table {entry['name']}, within"
        roles = [one for one, _ in axes]
        if role not in roles[1:]:
            raise ConfigError(source, place=place, found=repr(name), expected=one_of(roles[1:]))
        before, alternatives = axes[roles.index(role) - 1]
        known = {label for one in alternatives for label, _ in codings()[before, one].groups}
        if strange := sorted(set(labels) - known):
            raise ConfigError(
                source, place=place, found=repr(strange[0]), expected=one_of(sorted(known))
            )
        found.append((name, tuple(labels)))
    return tuple(found)


def _alternatives(entry: Mapping[str, list[str]], source: str, table: str) -> Alternatives:
    for role, names in entry.items():
        for name in names:
            coding, _, label = name.partition("/")
            known = [n for r, n in codings() if r == role]
            if coding not in known:
                raise ConfigError(
                    source,
                    place=f"table {table}, {role}",
                    found=f"coding {coding!r}",
                    expected=one_of(known),
                )
            groups = [group for group, _ in codings()[role, coding].groups]
            if label and label not in groups:
                raise ConfigError(
                    source,
                    place=f"table {table}, {role}",
                    found=f"group {label!r}",
                    expected=one_of(groups),
                )
    return tuple((role, tuple(names)) for role, names in entry.items())
