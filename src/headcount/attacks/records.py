"""Records of people as an attacker compares them: where, what is known, what is to be learnt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.schema import Schema
from headcount.schema.schema import combine
from headcount.tabulate.codings import codings, find_attribute, level_atoms

KNOWN, LEARNT = ("sex", "age"), ("race", "hispanic")


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """The cells of a schema, seen as a key (sex, age) and a secret (race, Hispanic origin).

    where
        key       for each cell the number of its (sex, age level)
        binned    for each key the number of its (sex, age bin): 38 bins, or the schema's own
                  levels where those are coarser
        secret    for each cell the number of its (race, Hispanic origin)
        years     whether keys tell more than bins
    """

    schema: Schema
    key: Ints
    binned: Ints
    secret: Ints
    years: bool

    @classmethod
    def of(cls, schema: Schema) -> Features:
        """The features of a schema, which needs someone's sex or age, and race or origin."""
        there = {
            role: attribute
            for role in (*KNOWN, *LEARNT)
            if (attribute := find_attribute(schema, role)) is not None
        }
        for roles in (KNOWN, LEARNT):
            if not any(role in there for role in roles):
                raise InputError(
                    "re-identification",
                    found=f"attributes {', '.join(map(repr, schema.names))}",
                    expected=f"one called {roles[0]!r} or {roles[1]!r}",
                )
        grid = np.indices(schema.shape).reshape(len(schema.shape), -1)
        code = {role: grid[schema.attributes.index(one)] for role, one in there.items()}
        keys = combine([code[role] for role in KNOWN if role in code], rows=schema.size)
        bins = [code["sex"]] if "sex" in code else []
        if "age" in code:
            bins.append(_bin_of_level(schema)[code["age"]])
        binned = np.zeros(int(keys.max()) + 1, dtype=np.int64)
        binned[keys] = combine(bins, rows=schema.size)
        secret = combine([code[role] for role in LEARNT if role in code], rows=schema.size)
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

    def key_of(self, *, sex: Ints | None, age: Ints | None) -> Ints:
        """Keys from level numbers of sex and age, as far as the schema has them."""
        given = {"sex": sex, "age": age}
        key: Ints | int = 0
        for role in KNOWN:
            if (attribute := find_attribute(self.schema, role)) is not None:
                column = given[role]
                if column is None:
                    raise InputError("re-identification", found=f"no {role}", expected=f"{role}")
                key = key * attribute.size + column
        return np.asarray(key, dtype=np.int64)


def _bin_of_level(schema: Schema) -> Ints:
    """The 38 bins of the schema's ages; its own levels where one lies across two bins."""
    attribute = find_attribute(schema, "age")
    assert attribute is not None  # asked for only where there is one
    atoms = level_atoms(attribute, "age")
    groups = codings()["age", "bins38"].layers[0]
    found = np.full(attribute.size, -1, dtype=np.int64)
    if not isinstance(atoms, str):
        for level, own in enumerate(atoms):
            for number, (_, group) in enumerate(groups):
                if own <= group:
                    found[level] = number
    return found if (found >= 0).all() else np.arange(attribute.size)


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
