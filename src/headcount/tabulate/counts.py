"""From people to counts: true numbers by unit and cell, queries of them, and their digest.

Counts are of people, or of housing units, sparse, at one level; a query is a marginal of the cells
by attribute name, optionally recoded. A population with its counts and digest (``Tabulated``) is
made once for whatever is done with it. The digest is the same for the same people, whatever the
order of rows or files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headcount.addresses import ATTRIBUTE, SCHEMA, each, listed, plain
from headcount.arrays import Ints, Ints32
from headcount.compiled import kernel
from headcount.domain import Domain
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.population import Population
from headcount.population.population import Households, Quarters, ReadSummary, RecordKeys
from headcount.schema import Attribute, Recode, Schema

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Query:
    """A marginal: counts by some attributes, summed over all others.

    ``by`` holds attribute names or recodes; empty, the query is the total.
    """

    name: str
    by: tuple[str | Recode, ...] = ()

    def on(self, schema: Schema) -> Query:
        """The query as asked of a schema: every recode with its source."""
        return self

    def attributes(self, schema: Schema) -> tuple[Attribute, ...]:
        """The attributes of the answer, recodes replaced by their coarser attribute."""
        return tuple(
            axis.on(schema.attribute(axis.source.name)).attribute
            if isinstance(axis, Recode)
            else schema.attribute(axis)
            for axis in self.by
        )

    def groups(self, schema: Schema) -> Ints:
        """For each cell of the schema the number of the answer's group it is counted in."""
        levels = dict(zip(schema.names, np.indices(schema.shape), strict=True))
        group = np.zeros(schema.shape, dtype=np.int64)
        for axis, attribute in zip(self.by, self.attributes(schema), strict=True):
            if isinstance(axis, Recode):
                if schema.attribute(axis.source.name) != axis.source:
                    raise InputError(
                        f"query {self.name!r}",
                        place=f"recode {axis.name!r}",
                        found=f"other levels of {axis.source.name!r}",
                        expected="the levels of the schema",
                    )
                code = np.asarray(axis.group_of_level)[levels[axis.source.name]]
            else:
                code = levels[axis]
            group = group * attribute.size + code
        return group.reshape(-1)

    def size(self, schema: Schema) -> int:
        """Number of groups in the answer."""
        return prod(attribute.size for attribute in self.attributes(schema))

    def matrix(self, schema: Schema) -> csr_array[Any, tuple[int, int]]:
        """The 0/1 matrix (cells x groups): an answer is ``counts @ matrix``, integer throughout."""
        from scipy.sparse import csr_array

        ones = np.ones(schema.size, dtype=np.int64)
        where = (np.arange(schema.size), self.groups(schema))
        return csr_array((ones, where), shape=(schema.size, self.size(schema)))


CELLS = "cells"
"""Name of the query that asks for every cell."""


def every_cell(schema: Schema) -> Query:
    """The detailed query: all attributes."""
    return Query(CELLS, schema.names)


TOTAL = Query("total")
"""People per unit."""


@kernel
def _add_rows(
    start: Ints, cell: Ints32, value: Ints, first: Ints, cells: int
) -> tuple[Ints, Ints32, Ints]:
    """Sums of the rows first[p] to first[p + 1] for every p, cells in order, zeros left out.

    Row r has the cells ``cell[start[r]:start[r+1]]``.
    """
    total, used = np.zeros(cells, np.int64), np.empty(cells, np.int64)
    out_start = np.zeros(len(first), np.int64)
    out_cell, out_value = np.empty(0, np.int32), np.empty(0, np.int64)
    for fill in (False, True):
        for p in range(len(first) - 1):
            met = 0
            for k in range(start[first[p]], start[first[p + 1]]):
                if total[cell[k]] == 0 and value[k] != 0:
                    used[met] = cell[k]
                    met += 1
                total[cell[k]] += value[k]
            if fill:
                at = out_start[p]
                for c in np.sort(used[:met]):
                    out_cell[at], out_value[at] = c, total[c]
                    at += 1
            else:
                out_start[p + 1] = out_start[p] + met
            for c in used[:met]:
                total[c] = 0
        if not fill:
            out_cell = np.empty(out_start[-1], np.int32)
            out_value = np.empty(out_start[-1], np.int64)
    return out_start, out_cell, out_value


ENTRIES_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False, repr=False)
class _KeyedRecords:
    """Where everybody is, and what their words are made from: for keys of cells, never shown.

    where
        unit, cell   of each record, at the leaf
        keys         of each record
        before       ``places`` of the same people before a step changed them; b"" if none has
    """

    unit: Ints32
    cell: Ints32
    keys: RecordKeys
    shape: tuple[int, int]
    before: bytes = b""

    def sums(self, values: NDArray[np.uint64]) -> Any:
        """Values of records added up in each leaf unit and cell, modulo 2^64."""
        return _sums(self.shape, self.unit, self.cell, values)

    def places(self) -> bytes:
        """A digest of who lives with whom in a leaf unit, whatever units and people are called."""
        total = self.sums(self.keys.values) @ np.ones(self.shape[1], dtype=np.uint64)
        return sha256(np.sort(total[total != 0]).astype("<u8").tobytes()).digest()


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """True counts (unit x cell) at one level: the curator's side, never written to a release.

    ``matrix`` is sparse by rows, because most cells of most small places are empty: the 1940
    census has 6 non-empty cells of 192 per district. Counts of a sample are of the people in it;
    each stands for ``weight`` people. ``of_dwellings`` says that it was known who lives with whom.
    ``records`` are the people one by one where words of persons make the keys of cells, at the
    leaf.
    """

    domain: Domain
    level: str
    matrix: csr_array[Any, tuple[int, int]]
    quarters: Quarters | None = None
    weight: Fraction = Fraction(1)
    of_dwellings: bool = False
    records: _KeyedRecords | None = None

    @property
    def schema(self) -> Schema:
        """The schema of the domain."""
        return self.domain.schema

    @property
    def geography(self) -> Geography:
        """The geography of the domain."""
        return self.domain.geography

    def __repr__(self) -> str:
        # Says nothing that depends on how many people there are.
        return f"<Counts at {self.level!r}: {self.schema.size:,} cells, {self.geography!r}>"

    def at(self, level: str) -> Counts:
        """The same counts added up to a level at or above this one."""
        if level == self.level:
            return self
        up = adder(self.geography, level, of=self.level)
        return replace(self, level=level, matrix=(up @ self.matrix).tocsr(), records=None)

    def dense(self) -> Ints:
        """The counts as a full array, units by cells."""
        return np.asarray(self.matrix.toarray(), dtype=np.int64)

    def totals(self) -> Ints:
        """People per unit."""
        return np.asarray(self.matrix.sum(axis=1), dtype=np.int64).reshape(-1)


def tabulate(population: Population) -> Counts:
    """Count a population at the leaf, a few million entries at a time to keep memory low."""
    shape = (population.geography.size(population.geography.leaf), population.schema.size)
    unit, cell, keys = population.unit, population.cell, population.record_keys
    matrix = _sums(shape, unit, cell, population.count)
    return Counts(
        population.domain,
        population.domain.leaf,
        matrix,
        quarters=population.quarters,
        weight=population.weight,
        of_dwellings=population.households is not None or population.of_dwellings,
        records=None if keys is None else _KeyedRecords(unit, cell, keys, shape),
    )


def _sums(
    shape: tuple[int, int], unit: Ints32, cell: Ints32, values: NDArray[np.integer] | None
) -> Any:
    """Values added up by unit and cell, 1 each by default; those of 64 bits without a sign wrap."""
    from scipy.sparse import coo_array, csr_array

    if values is not None and _each_once(unit, cell) and (values > 0).all():
        first = np.searchsorted(unit, np.arange(shape[0] + 1))
        return sparse_counts(first, cell, values, cells=shape[1])
    matrix: Any = None
    for start in range(0, len(unit), ENTRIES_AT_ONCE):
        part = slice(start, start + ENTRIES_AT_ONCE)
        where = (unit[part], cell[part])
        some = np.ones(len(where[0]), dtype=np.int64) if values is None else values[part]
        # tocsr adds up entries of the same unit and cell
        sums = coo_array((some, where), shape=shape).tocsr()
        matrix = sums if matrix is None else matrix + sums
    if matrix is None:
        matrix = csr_array(shape, dtype=np.int64 if values is None else values.dtype)
    matrix.eliminate_zeros()
    return matrix


def _each_once(unit: Ints32, cell: Ints32) -> bool:
    """Whether entries are in the order of units and cells, none of them twice."""
    later = unit[1:] > unit[:-1]
    return bool((later | ((unit[1:] == unit[:-1]) & (cell[1:] > cell[:-1]))).all())


def add_up(
    matrix: csr_array[Any, tuple[int, int]], geography: Geography, level: str, *, of: str
) -> csr_array[Any, tuple[int, int]]:
    """Counts (none below 0) of one level added up to the level above it: as ``adder``, but quick.

    Children of one parent stand together, so that a pass over the rows is enough.
    """

    first = np.append(geography.children_start(level), geography.size(of)).astype(np.int64)
    start, cell, value = _add_rows(
        matrix.indptr, matrix.indices, matrix.data, first, matrix.shape[1]
    )
    return sparse_counts(start, cell, value, cells=matrix.shape[1])


def sparse_counts(
    start: Ints, cell: Ints32, value: NDArray[np.integer], *, cells: int
) -> csr_array[Any, tuple[int, int]]:
    """Counts by rows, units x cells; the arrays are used as they are, mapped ones too.

    With ``start`` in 64 bits scipy would copy ``cell`` to as many.
    """
    from scipy.sparse import csr_array

    narrow = start.astype(np.int32) if start[-1] <= np.iinfo(np.int32).max else start
    return csr_array((value, cell, narrow), shape=(len(start) - 1, cells))


def every_level(counts: Counts) -> dict[str, Counts]:
    """Counts of the leaf added up to each level in turn, the whole first."""
    geography = counts.geography
    levels = {counts.level: counts}
    for depth in range(geography.depth(counts.level) - 1, -1, -1):
        level, below = geography.levels[depth], geography.levels[depth + 1]
        matrix = add_up(levels[below].matrix, geography, level, of=below)
        levels[level] = replace(counts, level=level, matrix=matrix)
    return {level: levels[level] for level in geography.levels if level in levels}


def adder(geography: Geography, level: str, *, of: str) -> csr_array[Any, tuple[int, int]]:
    """The 0/1 matrix (units of ``level`` x units of ``of``) that adds children to ancestors."""
    from scipy.sparse import csr_array

    ancestor = geography.ancestors(level, of=of)
    ones = np.ones(len(ancestor), dtype=np.int64)
    shape = (geography.size(level), len(ancestor))
    return csr_array((ones, (ancestor, np.arange(len(ancestor)))), shape=shape)


HASHED_AT_ONCE = 1 << 20
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
        counts.domain,
        unit=entries.row.astype(np.int32, copy=False),
        cell=entries.col.astype(np.int32, copy=False),
        count=np.asarray(entries.data, dtype=np.int64),
        quarters=counts.quarters,
        weight=counts.weight,
        of_dwellings=counts.of_dwellings,
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
    parts = (
        flat[i : i + HASHED_AT_ONCE].astype(kind).tobytes()
        for i in range(0, flat.size, HASHED_AT_ONCE)
    )
    return _Pieces(flat.size * np.dtype(kind).itemsize, parts)


def _texts(codes: NDArray[np.str_]) -> _Pieces:
    """Texts, with a zero byte between any two."""
    starts = range(0, len(codes), HASHED_AT_ONCE)

    def piece(start: int) -> bytes:
        text = "\0".join(codes[start : start + HASHED_AT_ONCE].tolist())
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
    add("read off", repr(counts.domain.read_off).encode())
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


@dataclass(frozen=True, kw_only=True)
class _LevelSummary:
    """Units of one level, how many of them have people, and the mean over all of them."""

    name: str
    units: int
    inhabited: int
    mean: float


@dataclass(frozen=True, kw_only=True)
class _AttributeSummary:
    """Levels of one attribute: how many were read from the data, and how many nobody has."""

    name: str
    levels: tuple[str, ...]
    new: int
    empty: int


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Numbers that show whether a file was read as it was meant."""

    reading: ReadSummary
    people: int
    levels: tuple[_LevelSummary, ...]
    attributes: tuple[_AttributeSummary, ...]


def summarize(counts: Counts, reading: ReadSummary) -> Summary:
    """Sum up counts at the leaf, with what their reader met."""
    tree, schema, here = counts.geography, counts.schema, counts.totals()
    people = int(here.sum())
    levels = []
    for level in tree.levels:
        units = tree.size(level)
        inhabited = len(np.unique(tree.ancestors(level)[here > 0]))
        levels.append(
            _LevelSummary(name=level, units=units, inhabited=inhabited, mean=people / units)
        )
    for level, units, inhabited in reading.smaller:
        levels.append(
            _LevelSummary(name=level, units=units, inhabited=inhabited, mean=people / units)
        )
    cells = np.asarray(counts.matrix.sum(axis=0)).reshape(schema.shape)
    attributes = []
    for axis, attribute in enumerate(schema.attributes):
        others = tuple(other for other in range(cells.ndim) if other != axis)
        # The reader owns up to levels that it took from the data; the list of them is public else.
        new = f"which levels of {attribute.name!r} exist" in counts.domain.read_off
        attributes.append(
            _AttributeSummary(
                name=attribute.name,
                levels=attribute.levels,
                new=attribute.size if new else 0,
                empty=int((cells.sum(axis=others) == 0).sum()),
            )
        )
    return Summary(
        reading=reading, people=people, levels=tuple(levels), attributes=tuple(attributes)
    )
