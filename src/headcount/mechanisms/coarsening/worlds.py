"""What coarsened tables leave open: all populations that fit them, for whoever knows the keys.

An attacker knows the release, its rules, and how many people of each *key* (what is known of
persons: sex, age) live at each leaf. A *world* is a population that agrees with all of it:

    W = { x >= 0 whole : sum of x over each published cell is its value,
          sum_h x[a, k, h] = n[a, k] }

where
    a   an area of the finest division at which a table shows anything that is not known
    k   a key, as far as tables tell keys apart
    h   what is not known of a person, as far as tables show it; the secret is a part of it

Leaves of one area, keys that no table tells apart, and levels that are joined everywhere need no
unknowns of their own: within (a, k) any two people can change places without a change of any table.
Areas are chosen by numbers that all worlds have in common, so they add no condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.mechanisms._base import refuse_too_many
from headcount.release.published import PublishedCells
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts
from headcount.tabulate.published import TableCells

UNKNOWN = 1 << 40
"""Stands for an upper end of which nothing is said."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Known:
    """What cells of one table at one level say, none of which counts anybody twice.

    where
        depth       of the level in the ladder: the larger, the finer
        place       for each area its unit at that level
        group       for each key and hidden combination its cell
        low, high   (units x cells) the counts that the published values stand for
        kind        for each key what the table tells of it: keys of one kind are one to it
            crosses     whether the table shows keys and hidden attributes together
    """

    depth: int
    place: Ints
    group: Ints
    low: Ints
    high: Ints
    kind: Ints
    crosses: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Atoms:
    """Classes of levels that no table tells apart, and their combinations.

    where
        of_cell      for each cell of the schema its combination, key by key
        keys         how many keys, and ``hidden`` combinations of all else, there are
        secret       for each hidden combination its secret
        possible     (keys x hidden) which can be; a cell of the schema is behind each
        names        of the attributes that they are made of
    """

    of_cell: Ints
    keys: int
    hidden: int
    secret: Ints
    possible: Flags
    names: tuple[str, ...]


def atoms_of(
    schema: Schema, made: Sequence[TableCells], known: Sequence[str], secret: Sequence[str]
) -> Atoms:
    """The classes that tables make of each attribute, known ones first."""
    classes = {one.name: _classes(one, schema, made) for one in schema.attributes}
    shown = {axis.role for cells in made for axis in cells.axes}
    for name in {*secret} - shown:
        classes[name] = np.arange(schema.attribute(name).size)
    used = shown | {*secret}
    others = [name for name in schema.names if name not in known and name in used]
    levels = np.indices(schema.shape).reshape(len(schema.names), -1)
    codes = dict(zip(schema.names, levels, strict=True))
    key, keys = _joint(known, classes, codes)
    hide, hidden = _joint(others, classes, codes)
    of_cell = key * hidden + hide
    possible = np.zeros(keys * hidden, dtype=bool)
    possible[of_cell[schema.possible]] = True
    secret_of = np.zeros(hidden, dtype=np.int64)
    secret_of[hide], _ = _joint(secret, classes, codes)
    return Atoms(
        of_cell=of_cell,
        keys=keys,
        hidden=hidden,
        secret=secret_of,
        possible=possible.reshape(keys, hidden),
        names=(*known, *others),
    )


def _classes(attribute: Attribute, schema: Schema, made: Sequence[TableCells]) -> Ints:
    """For each level its class: levels that no table tells apart are in one.

    An attribute of which some combinations are impossible keeps all its levels.
    """
    if any(attribute.name in dict(zero) for zero in schema.structural_zeros):
        return np.arange(attribute.size)
    shown = np.zeros((attribute.size, 1), dtype=np.int64)
    for cells in made:
        for axis in cells.axes:
            if axis.role == attribute.name:
                detail = {
                    level: n for n, (_, group) in enumerate(axis.layers[0]) for level in group
                }
                own = np.array([detail[level] for level in attribute.levels])
                shown = np.column_stack([shown, own])
    return np.unique(shown, axis=0, return_inverse=True)[1].reshape(-1)


def _joint(names: Sequence[str], classes: Any, codes: Any) -> tuple[Ints, int]:
    """For each cell of the schema the number of its combination, and how many there are."""
    number = np.zeros(len(next(iter(codes.values()), np.zeros(1))), dtype=np.int64)
    for name in names:
        number = number * (1 + classes[name].max()) + classes[name][codes[name]]
    return number, prod(int(1 + classes[name].max()) for name in names)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Worlds:
    """The truth at the finest areas, and all that is published and known of it.

    where
        of_leaf               for each leaf its area
        area, key, hide, n    entries of the truth that are not 0, in this order
            known                 what tables say of anything that is not known of persons
        level, codes          where the areas are units, and their codes there
        leaf                  the truth by leaf, for whose secret is unlike their leaf's majority
    """

    atoms: Atoms
    of_leaf: Ints
    level: str
    codes: tuple[str, ...]
    area: Ints
    key: Ints
    hide: Ints
    n: Ints
    known: tuple[Known, ...]
    leaf: Any

    @property
    def areas(self) -> int:
        """How many areas there are."""
        return len(self.codes)

    @cached_property
    def atom(self) -> Ints:
        """Key and hidden combination of each entry, as one number."""
        return self.key * self.atoms.hidden + self.hide

    @cached_property
    def cell(self) -> Ints:
        """For each entry the number of its (area, key) among those where somebody lives."""
        new = np.ones(len(self.area), dtype=bool)
        new[1:] = (np.diff(self.area) != 0) | (np.diff(self.key) != 0)
        return np.cumsum(new) - 1

    @cached_property
    def first(self) -> Ints:
        """The first entry of each (area, key)."""
        return np.flatnonzero(np.diff(self.cell, prepend=-1))

    @cached_property
    def people(self) -> Ints:
        """How many live in each (area, key)."""
        return np.add.reduceat(self.n, self.first) if len(self.n) else self.n

    @cached_property
    def secrets(self) -> tuple[Ints, Ints, Ints]:
        """Cell, secret and how many, where anybody has that secret."""
        size = 1 + int(self.atoms.secret.max(initial=0))
        code, back = np.unique(self.cell * size + self.atoms.secret[self.hide], return_inverse=True)
        many = np.zeros(len(code), dtype=np.int64)
        np.add.at(many, back, self.n)
        return code // size, code % size, many

    def most(self, area: Ints, key: Ints) -> Ints:
        """The most people of each hidden combination that tables allow in each (area, key)."""
        atom = key[:, None] * self.atoms.hidden + np.arange(self.atoms.hidden)
        most = np.where(self.atoms.possible[key], UNKNOWN, 0)
        for one in self.known:
            most = np.minimum(most, one.high[one.place[area][:, None], one.group[atom]])
        return most

    def values(self, one: Known, n: Ints | None = None) -> Ints:
        """The cells of a table, of the truth or of another number for each of its entries."""
        found = np.zeros(one.low.shape, dtype=np.int64)
        np.add.at(found, (one.place[self.area], one.group[self.atom]), self.n if n is None else n)
        return found

    def fits(self, area: Ints, atom: Ints, change: Ints) -> bool:
        """Whether the truth with these changes is a world: whole, not negative, all sums kept."""
        code = area * self.atoms.keys * self.atoms.hidden + atom
        mine = self.area * self.atoms.keys * self.atoms.hidden + self.atom
        every, back = np.unique(np.concatenate([code, mine]), return_inverse=True)
        after = np.zeros(len(every), dtype=np.int64)
        np.add.at(after, back, np.concatenate([change, self.n]))
        if (after < 0).any() or not self.atoms.possible.reshape(-1)[atom].all():
            return False
        of_key = np.unique(code // self.atoms.hidden, return_inverse=True)[1]
        if np.bincount(of_key, weights=change).any():
            return False
        return all(self._keeps(one, area, atom, change) for one in self.known)

    def _keeps(self, one: Known, area: Ints, atom: Ints, change: Ints) -> bool:
        code, back = np.unique(
            one.place[area] * one.low.shape[1] + one.group[atom], return_inverse=True
        )
        moved = np.zeros(len(code), dtype=np.int64)
        np.add.at(moved, back, change)
        moved, code = moved[moved != 0], code[moved != 0]
        true = self._true[id(one)].reshape(-1)[code] + moved
        low, high = one.low.reshape(-1)[code], one.high.reshape(-1)[code]
        return bool(((low <= true) & (true <= high)).all())

    @cached_property
    def _true(self) -> dict[int, Ints]:
        return {id(one): self.values(one) for one in self.known}


def worlds_of(
    counts: Counts, published: Sequence[PublishedCells], known: Sequence[str], secret: Sequence[str]
) -> Worlds:
    """The worlds of some tables; ``counts`` are at the leaf, their geography is the ladder."""
    refuse_too_many(counts, name="coarsening")
    made = tuple(dict.fromkeys(one.cells for one in published))
    atoms = atoms_of(counts.schema, made, known, secret)
    geography = counts.geography
    hiding = [one for one in published if any(axis.role not in known for axis in one.cells.axes)]
    finest = {}
    for one in sorted(hiding, key=lambda one: geography.depth(one.level)):
        finest[one.name] = one.level
    level = max(finest.values(), key=geography.depth, default=geography.levels[0])
    leaf = _by_atom(counts.matrix, atoms)
    here = _by_atom(counts.at(level).matrix, atoms)
    area, atom = here.coords
    return Worlds(
        atoms=atoms,
        of_leaf=geography.ancestors(level).astype(np.int64),
        level=level,
        codes=tuple(geography.units[geography.depth(level)].tolist()),
        area=area.astype(np.int64),
        key=atom.astype(np.int64) // atoms.hidden,
        hide=atom.astype(np.int64) % atoms.hidden,
        n=here.data.astype(np.int64),
        known=tuple(
            one
            for table in hiding
            # Exact values at coarser levels are sums of these.
            if table.off is not None or table.level == finest[table.name]
            for one in _known(table, counts, atoms, level, known)
        ),
        leaf=leaf,
    )


def _by_atom(matrix: Any, atoms: Atoms) -> Any:
    """Counts by key and hidden combination: coordinates in order, none of them 0."""
    from scipy.sparse import csr_array

    ones = np.ones(len(atoms.of_cell), dtype=np.int64)
    shape = (len(atoms.of_cell), atoms.keys * atoms.hidden)
    up = csr_array((ones, (np.arange(len(ones)), atoms.of_cell)), shape=shape)
    found = csr_array(matrix @ up)
    found.eliminate_zeros()
    found.sort_indices()
    return found.tocoo()


def _known(
    table: PublishedCells, counts: Counts, atoms: Atoms, level: str, known: Sequence[str]
) -> Iterator[Known]:
    """What a table says: its detail, and where values are not exact its sums too.

    Sums of exact values follow from the detail at the lowest level at which the table is shown.
    """
    cells, geography = table.cells, counts.geography
    exact = table.off is None
    low, high = table.ends(unknown=UNKNOWN)
    first = np.zeros(atoms.keys * atoms.hidden, dtype=np.int64)
    first[atoms.of_cell[::-1]] = np.arange(len(atoms.of_cell))[::-1]
    # An area is within one unit of every coarser level: its first leaf tells which.
    leaf = np.unique(geography.ancestors(level), return_index=True)[1]
    place = geography.ancestors(table.level)[leaf].astype(np.int64)
    for family in np.unique(cells.family[cells.inner] if exact else cells.family):
        own = np.flatnonzero(cells.family == family)
        entries = cells.matrix[:, own].tocoo()
        column = np.zeros(entries.shape[0], dtype=np.int64)
        column[entries.coords[0]] = entries.coords[1]
        group = column[first]
        by_key = group.reshape(atoms.keys, atoms.hidden)
        if (by_key == by_key[:, :1]).all():
            continue  # of keys alone: they are known
        yield Known(
            depth=geography.depth(table.level),
            place=place,
            group=group,
            low=low[:, own],
            high=high[:, own],
            kind=np.unique(by_key, axis=0, return_inverse=True)[1].reshape(-1),
            crosses=bool((by_key != by_key[:1]).any()),
        )
