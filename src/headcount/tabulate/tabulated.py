"""A population with its counts and its digest, made once for whatever is done with it.

The digest is the same for the same people, whatever the order of rows or files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headcount.addresses import ATTRIBUTE, SCHEMA, each, listed, plain
from headcount.geography import Geography
from headcount.population import Population
from headcount.population.dwellings import Households
from headcount.tabulate.counts import Counts, tabulate

AT_ONCE = 1 << 20
"""Numbers or texts that are hashed together: they bound the memory."""


@dataclass(frozen=True, eq=False, repr=False)
class Tabulated:
    """The truth, counted: the curator's side, never written to a release.

    where
        counts   true counts at the leaf
        digest   of the content, whatever the order of rows or files
        people   who was counted; None where only counts are known
    """

    counts: Counts
    digest: bytes
    people: Population | None = None

    @classmethod
    def of(cls, data: Population | Counts | Tabulated) -> Tabulated:
        """People counted; of counts alone neither dwellings nor any order are known."""
        if isinstance(data, Tabulated):
            return data
        if isinstance(data, Counts):
            return cls(data, counts_digest(data))
        counts = tabulate(data)
        return cls(counts, content_digest(data, counts), data)

    @property
    def population(self) -> Population:
        """Who was counted. Of counts alone it is made anew each time, because it is as large."""
        return self.people if self.people is not None else _of_counts(self.counts)

    def __repr__(self) -> str:
        # Says nothing that depends on how many people there are.
        return f"<Tabulated {self.people if self.people is not None else self.counts!r}>"


def _of_counts(counts: Counts) -> Population:
    entries = counts.matrix.tocoo(copy=False)
    return Population(
        "counts",
        counts.schema,
        counts.geography,
        unit=entries.row.astype(np.int32, copy=False),
        cell=entries.col.astype(np.int32, copy=False),
        count=np.asarray(entries.data, dtype=np.int64),
        read_off=counts.read_off,
        quarters=counts.quarters,
        one_person=counts.one_person,
        weight=counts.weight,
        of_dwellings=counts.of_dwellings,
        plugin=counts.plugin,
        counted=counts.counted,
    )


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


class _Pieces(NamedTuple):
    """Bytes that are too many to be held at once, and how many there are."""

    length: int
    each: Iterable[bytes]


def _numbers(values: NDArray[Any], kind: str) -> _Pieces:
    flat = np.asarray(values).reshape(-1)
    parts = (flat[i : i + AT_ONCE].astype(kind).tobytes() for i in range(0, flat.size, AT_ONCE))
    return _Pieces(flat.size * np.dtype(kind).itemsize, parts)


def _texts(codes: NDArray[np.str_]) -> _Pieces:
    """Texts, with a zero byte between any two."""
    starts = range(0, len(codes), AT_ONCE)

    def piece(start: int) -> bytes:
        text = "\0".join(codes[start : start + AT_ONCE].tolist())
        return (text if start == 0 else f"\0{text}").encode()

    return _Pieces(sum(len(piece(start)) for start in starts), map(piece, starts))


class _Content:
    """Named parts, hashed one after another."""

    def __init__(self) -> None:
        self._hasher = sha256(b"headcount counts 1\0")

    def add(self, name: str, content: bytes | _Pieces) -> None:
        pieces = content if isinstance(content, _Pieces) else _Pieces(len(content), (content,))
        self._hasher.update(f"{name}:{pieces.length}:".encode())
        for piece in pieces.each:
            self._hasher.update(piece)

    def digest(self) -> bytes:
        return self._hasher.digest()


def _add_counts(add: Callable[[str, bytes | _Pieces], None], counts: Counts) -> None:
    add("schema", SCHEMA(counts.schema).encode())
    _add_places(add, counts.geography)
    if counts.geography.spine is not None:
        _add_places(add, counts.geography.spine)
    _add_matrix(add, "counts", counts.matrix)
    add("read off", repr(counts.read_off).encode())
    if counts.quarters is not None:
        add("quarters by", counts.quarters.attribute.encode())
        add("occupied", _numbers(counts.quarters.occupied, "<i8"))
        add("vacant", _numbers(counts.quarters.vacant, "<i8"))
    if counts.weight != 1:
        add("weight", str(counts.weight).encode())
    if (records := counts.records) is not None:
        sums = records.sums(records.keys.values)
        _add_matrix(add, f"record keys, {records.keys.possible} possible", sums)


def _add_places(add: Callable[[str, bytes | _Pieces], None], geography: Geography) -> None:
    add("levels", repr(geography.levels).encode())
    for codes, parents in zip(geography.units, geography.parents, strict=True):
        add("units", _texts(codes))
        add("parents", _numbers(parents, "<i4"))


def _add_matrix(add: Callable[[str, bytes | _Pieces], None], name: str, given: Any) -> None:
    matrix = given
    if not given.has_canonical_format:
        matrix = given.copy()
        matrix.sum_duplicates()
    for part in (matrix.indptr, matrix.indices, matrix.data):
        add(name, _numbers(part, "<i8"))


def _add_households(add: Callable[[str, bytes | _Pieces], None], households: Households) -> None:
    """Who lives with whom: the order of dwellings counts, because swaps are drawn in it."""
    both = (households.person_attributes, households.dwelling_attributes)
    attributes = listed(map(each(ATTRIBUTE), both))
    add("households", listed((plain(households.kinds), attributes)).encode())
    for part in (households.block, households.kind, households.first):
        add("dwellings", part.astype("<i8").tobytes())
    for codes in (households.persons, households.dwellings):
        for name in sorted(codes):
            add(name, codes[name].astype("<i8").tobytes())
    for areas in households.areas:
        add(areas.name, "\0".join(areas.codes.tolist()).encode())
        add("of leaf", areas.of_leaf.astype("<i4").tobytes())
