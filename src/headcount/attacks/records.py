"""Records of people as an attacker compares them: where, what is known, what is to be learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.schema import Attribute, Schema
from headcount.schema.schema import combine
from headcount.tabulate.codings import codings, find_attribute, level_atoms

KNOWN, LEARNT = ("sex", "age"), ("race", "hispanic")
"""Roles of what an attacker knows and would learn, where a schema does not say who knows what."""


def known_names(schema: Schema) -> tuple[str, ...]:
    """Attributes that an attacker knows of named people; none if nothing says which."""
    return schema.attacker.knows or _playing(schema, KNOWN, but=schema.attacker.sensitive)


def learnt_names(schema: Schema) -> tuple[str, ...]:
    """Attributes that an attacker would learn; none if nothing says which."""
    return schema.attacker.sensitive or _playing(schema, LEARNT, but=schema.attacker.knows)


def _playing(schema: Schema, roles: tuple[str, ...], but: tuple[str, ...]) -> tuple[str, ...]:
    found = (find_attribute(schema, role) for role in roles)
    return tuple(one.name for one in found if one is not None and one.name not in but)


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """The cells of a schema, seen as a key (what is known) and a secret (what is to be learnt).

    where
        key       for each cell the number of its key: sex and age level, unless another is known
        binned    for each key the number of its bin: ages in 38 bins, or the schema's own levels
                  where those are coarser
        secret    for each cell the number of its secret: race and origin, unless others are named
        years     whether keys tell more than bins
    """

    schema: Schema
    key: Ints
    binned: Ints
    secret: Ints
    years: bool

    @classmethod
    def of(cls, schema: Schema) -> Features:
        """The features of a schema, in which something is known of people, and something is not."""
        known, learnt = known_names(schema), learnt_names(schema)
        for names, key, roles in (
            (known, "knows", "sex or age"),
            (learnt, "sensitive", "race or origin"),
        ):
            if not names:
                raise InputError(
                    "re-identification",
                    found=f"attributes {', '.join(map(repr, schema.names))}",
                    expected=f"[roles] with {roles}, or [attacker] {key} = [...]",
                )
        grid = np.indices(schema.shape).reshape(len(schema.shape), -1)
        code = {name: grid[number] for number, name in enumerate(schema.names)}
        size = schema.size
        keys = combine([code[name] for name in known], rows=size)
        age = find_attribute(schema, "age")
        bins = [
            _bin_of_level(schema, age)[code[name]]
            if age is not None and name == age.name
            else code[name]
            for name in known
        ]
        binned = np.zeros(int(keys.max()) + 1, dtype=np.int64)
        binned[keys] = combine(bins, rows=size)
        secret = combine([code[name] for name in learnt], rows=size)
        return cls(schema, keys, binned, secret, len(np.unique(binned)) < len(binned))

    @property
    def bins(self) -> int:
        """Binned keys are numbered below this."""
        return int(self.binned.max()) + 1

    @property
    def secrets(self) -> int:
        """Secrets are numbered below this."""
        return int(self.secret.max()) + 1

    def as_known_by(self, class_of: Ints, *, years: bool) -> Features:
        """The same, with keys told apart only so far as records are known.

        A reconstruction knows records up to ``class_of`` (for each cell of the schema). Keys that
        share a class, or a bin, are of one group: from tables of race by voting age alone, two
        groups remain. ``years`` says whether keys within a group may be believed.
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        keys = len(self.binned)
        if years and self.years:  # what tells years tells bins
            return self
        _, first = np.unique(class_of, return_index=True)
        head = np.zeros(int(class_of.max()) + 1, dtype=np.int64)
        head[class_of[first]] = self.key[first]
        same_bin = np.zeros(self.bins, dtype=np.int64)
        same_bin[self.binned] = np.arange(keys)
        pairs = (
            np.concatenate([head[class_of], same_bin[self.binned]]),
            np.concatenate([self.key, np.arange(keys)]),
        )
        graph = coo_array((np.ones(len(pairs[0])), pairs), shape=(keys, keys))
        _, group = connected_components(graph, directed=False)
        return replace(self, binned=np.asarray(group, dtype=np.int64), years=False)

    @property
    def known(self) -> tuple[Attribute, ...]:
        """What is known of people, in the order in which keys are numbered."""
        return tuple(self.schema.attribute(name) for name in known_names(self.schema))

    def key_of(self, codes: Mapping[str, Ints]) -> Ints:
        """Keys from level numbers of the attributes that are known."""
        key: Ints | int = 0
        for attribute in self.known:
            if attribute.name not in codes:
                raise InputError(
                    "re-identification", found=f"no {attribute.name}", expected=attribute.name
                )
            key = key * attribute.size + codes[attribute.name]
        return np.asarray(key, dtype=np.int64)


def _bin_of_level(schema: Schema, age: Attribute) -> Ints:
    """The 38 bins of the schema's ages; its own levels where one lies across two bins."""
    atoms = level_atoms(schema, age, "age")
    groups = codings()["age", "bins38"].layers[0]
    found = np.full(age.size, -1, dtype=np.int64)
    if not isinstance(atoms, str):
        for level, own in enumerate(atoms):
            for number, (_, group) in enumerate(groups):
                if own <= group:
                    found[level] = number
    return found if (found >= 0).all() else np.arange(age.size)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Records:
    """One row a person: leaf unit, key and secret, as numbers of ``features``."""

    features: Features
    block: Ints
    key: Ints
    secret: Ints

    def __repr__(self) -> str:
        return f"<Records: {self.features.schema.size:,} cells>"

    def __len__(self) -> int:
        return len(self.block)

    @property
    def binned(self) -> Ints:
        """The binned key of each record."""
        return self.features.binned[self.key]


def records_of(counts: Any, features: Features) -> Records:
    """Records from counts (leaf units x cells): a reconstruction's, or a release's own table.

    Counts must be whole people: negative or fractional ones are nobody's records.
    """
    from scipy.sparse import coo_array

    table = coo_array(counts)
    people = table.data
    if len(people) and (people.min() < 0 or np.any(people != np.rint(people))):
        raise InputError(
            "re-identification",
            place="records",
            found="counts that are negative or not whole",
            expected="whole counts of 0 or more, which can be written as records",
        )
    unit, cell = table.coords
    order = np.argsort(unit, kind="stable")
    times = people[order].astype(np.int64)
    where = np.repeat(unit[order].astype(np.int64), times)
    what = np.repeat(cell[order].astype(np.int64), times)
    return records_from_rows(where, what, features)


def records_from_rows(
    block: NDArray[np.integer], cell: NDArray[np.integer], features: Features
) -> Records:
    """Records from each person's leaf unit and cell, in that order."""
    return Records(
        features=features,
        block=np.asarray(block, dtype=np.int64),
        key=features.key[cell],
        secret=features.secret[cell],
    )
