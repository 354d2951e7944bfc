"""A digest of counts: the same for the same people, whatever the order of rows or files."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np

from headcount.population import Population
from headcount.population.households import Households
from headcount.tabulate.counts import Counts


def content_digest(population: Population, counts: Counts) -> bytes:
    """SHA-256 of the domain, the counts, and who lives with whom where that is known.

    For the curator only: whoever knows all records but one could test guesses of the last one
    against it. What is published is an HMAC of it, under a secret.
    """
    content = _Content()
    _add_counts(content.add, counts)
    if population.households is not None:
        _add_households(content.add, population.households)
        content.add("cells of persons", population.cell.astype("<i8").tobytes())
    return content.digest()


def counts_digest(counts: Counts) -> bytes:
    """The same of counts alone: equal to it where no households are known."""
    content = _Content()
    _add_counts(content.add, counts)
    return content.digest()


class _Content:
    """Named parts, hashed one after another."""

    def __init__(self) -> None:
        self._hasher = sha256(b"headcount counts 1\0")

    def add(self, name: str, content: bytes) -> None:
        self._hasher.update(f"{name}:{len(content)}:".encode())
        self._hasher.update(content)

    def digest(self) -> bytes:
        return self._hasher.digest()


def _add_counts(add: Callable[[str, bytes], None], counts: Counts) -> None:
    add("schema", repr(counts.schema).encode())
    add("levels", repr(counts.geography.levels).encode())
    for codes, parents in zip(counts.geography.units, counts.geography.parents, strict=True):
        add("units", "\0".join(codes.tolist()).encode())
        add("parents", parents.astype("<i4").tobytes())
    _add_matrix(add, "counts", counts.matrix)
    add("read off", repr(counts.read_off).encode())
    if counts.quarters is not None:
        add("quarters by", counts.quarters.attribute.encode())
        add("occupied", counts.quarters.occupied.astype("<i8").tobytes())
        add("vacant", counts.quarters.vacant.astype("<i8").tobytes())
    if counts.weight != 1:
        add("weight", str(counts.weight).encode())
    if (records := counts.records) is not None:
        sums = records.sums(records.keys.values)
        _add_matrix(add, f"record keys, {records.keys.possible} possible", sums)


def _add_matrix(add: Callable[[str, bytes], None], name: str, given: Any) -> None:
    matrix = given.copy()
    matrix.sum_duplicates()
    matrix.sort_indices()
    for part in (matrix.indptr, matrix.indices, matrix.data):
        add(name, np.asarray(part).astype("<i8").tobytes())


def _add_households(add: Callable[[str, bytes], None], households: Households) -> None:
    """Who lives with whom: the order of dwellings counts, because swaps are drawn in it."""
    attributes = (households.person_attributes, households.dwelling_attributes)
    add("households", repr((households.kinds, attributes)).encode())
    for part in (households.block, households.kind, households.first):
        add("dwellings", part.astype("<i8").tobytes())
    for codes in (households.persons, households.dwellings):
        for name in sorted(codes):
            add(name, codes[name].astype("<i8").tobytes())
    for areas in households.areas:
        add(areas.name, "\0".join(areas.codes.tolist()).encode())
        add("of leaf", areas.of_leaf.astype("<i4").tobytes())
