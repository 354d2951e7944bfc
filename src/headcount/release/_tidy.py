"""Synthetic people and living quarters, or a sample of people, as tidy Parquet tables.

Protected people are dealt to exact living quarters. Nothing is held per person or per count: any
range of people or quarters is worked out from the counts of its own leaves, so that a nation is
written piece by piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.files import pieces, whole_files
from headcount.geography import Geography
from headcount.population.population import Quarters
from headcount.processes import Progress, silent
from headcount.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from scipy.sparse import csr_array

LeafCounts: TypeAlias = "NDArray[np.integer[Any]] | csr_array[Any, tuple[int, int]]"
"""Protected counts, leaf units x cells, dense or sparse by rows."""

LEAVES_AT_ONCE = 1 << 16
"""Leaves whose people are looked at together."""


@dataclass(frozen=True, eq=False)
class PlacedPeople:
    """Some people, in order: leaf, cell, living quarters (from 0), and number there (from 1)."""

    leaf: Ints
    cell: Ints
    quarters: Ints
    number: Ints


@dataclass(frozen=True, eq=False)
class PlacedDwellings:
    """Some living quarters, in order: leaf, type (or the slot after the types: vacant), people."""

    leaf: Ints
    slot: Ints
    people: Ints


@dataclass(frozen=True, eq=False, repr=False)
class _Placement:
    """People in the order of leaf, type and cell; quarters in the order of leaf and type.

    Within one leaf and type, person i of those expanded in cell order goes to quarters i mod n and
    is number i div n + 1 there (n quarters of that type), as in the 2018 end-to-end test. Only how
    many there are in each leaf is held; leaves are placed when their people are asked for.

    where
        axis             of the attribute whose levels are the types
        first_person     number of the first person of each leaf, and the end
        first_quarters   number of the first living quarters of each leaf, and the end
    """

    counts: LeafCounts
    schema: Schema
    standing: Quarters
    axis: int
    first_person: Ints
    first_quarters: Ints

    @property
    def people(self) -> int:
        """How many people there are."""
        return int(self.first_person[-1])

    @property
    def quarters(self) -> int:
        """How many living quarters there are, vacant ones included."""
        return int(self.first_quarters[-1])

    def people_between(self, start: int, stop: int) -> PlacedPeople:
        """People number ``start`` to ``stop`` (from 0, end not included)."""
        some = self._placed(_leaves(self.first_person, start, stop))
        return some.people_between(start, stop)

    def quarters_between(self, start: int, stop: int) -> PlacedDwellings:
        """Living quarters number ``start`` to ``stop`` (from 0, end not included)."""
        some = self._placed(_leaves(self.first_quarters, start, stop))
        return some.quarters_between(start, stop)

    def _placed(self, leaves: range) -> _PlacedLeaves:
        leaf, cell, people = _entries(self.counts, leaves)
        types = self.schema.shape[self.axis]
        kind = np.unravel_index(cell, self.schema.shape)[self.axis].astype(np.int64)
        order = np.lexsort((cell, kind, leaf))
        slot = (leaf * (types + 1) + kind)[order]
        own = slice(leaves.start, leaves.stop)
        standing = np.column_stack([self.standing.occupied[own], self.standing.vacant[own]])
        standing = standing.astype(np.int64).reshape(-1)
        living = np.zeros(standing.shape, dtype=np.int64)
        np.add.at(living, slot, people[order])
        first_person = int(self.first_person[leaves.start])
        return _PlacedLeaves(
            first_leaf=leaves.start,
            types=types,
            entry_slot=slot,
            entry_cell=cell[order],
            entry_end=np.cumsum(people[order]) + first_person,
            slot_quarters=standing,
            slot_people=living,
            slot_first_quarters=_starts(standing) + int(self.first_quarters[leaves.start]),
            slot_first_person=_starts(living) + first_person,
        )


@dataclass(frozen=True, eq=False, repr=False)
class _PlacedLeaves:
    """The people and living quarters of a run of leaves, numbered as in the whole.

    where
        entry_*     one for each leaf and cell that holds anyone, in the order of people
        slot_*      one for each leaf and slot: the types, then vacant
    """

    first_leaf: int
    types: int
    entry_slot: Ints
    entry_cell: Ints
    entry_end: Ints
    slot_quarters: Ints
    slot_people: Ints
    slot_first_quarters: Ints
    slot_first_person: Ints

    def people_between(self, start: int, stop: int) -> PlacedPeople:
        entry = _spread(self.entry_end, start, stop)
        slot = self.entry_slot[entry]
        rank = np.arange(start, stop) - self.slot_first_person[slot]
        turn, place = np.divmod(rank, self.slot_quarters[slot])
        leaf = slot // (self.types + 1) + self.first_leaf
        quarters = self.slot_first_quarters[slot] + place
        return PlacedPeople(leaf, self.entry_cell[entry], quarters, turn + 1)

    def quarters_between(self, start: int, stop: int) -> PlacedDwellings:
        slot = _spread(self.slot_first_quarters + self.slot_quarters, start, stop)
        place = np.arange(start, stop) - self.slot_first_quarters[slot]
        share, left = np.divmod(self.slot_people[slot], self.slot_quarters[slot])
        leaf, kind = np.divmod(slot, self.types + 1)
        return PlacedDwellings(leaf + self.first_leaf, kind, share + (place < left))


def place(
    counts: LeafCounts, *, schema: Schema, geography: Geography, quarters: Quarters
) -> _Placement:
    """Deal protected leaf counts (leaves x cells) to living quarters, after checking that they fit.

    Each type in each leaf must have at least one person for each occupied quarters, and nobody
    where no quarters stand; an error names the leaf and the type.
    """
    _refuse_other_counts(counts, schema, geography)
    axis = _type_axis(schema, geography, quarters)
    size = geography.size(geography.leaf)
    type_of_cell = np.unravel_index(np.arange(schema.size), schema.shape)[axis]
    of_leaf = np.zeros(size, dtype=np.int64)
    for first in range(0, size, LEAVES_AT_ONCE):
        leaves = range(first, min(first + LEAVES_AT_ONCE, size))
        leaf, cell, people = _entries(counts, leaves)
        _refuse_negative(leaf + first, people, geography)
        living = np.zeros((len(leaves), schema.shape[axis]), dtype=np.int64)
        np.add.at(living, (leaf, type_of_cell[cell]), people)
        _refuse_misfit(living, leaves, quarters, schema, geography)
        of_leaf[first : leaves.stop] = living.sum(axis=1)
    standing = quarters.occupied.sum(axis=1) + quarters.vacant
    return _Placement(
        counts=counts,
        schema=schema,
        standing=quarters,
        axis=axis,
        first_person=_firsts(of_leaf),
        first_quarters=_firsts(standing),
    )


def _firsts(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _leaves(first: Ints, start: int, stop: int) -> range:
    """The leaves that have any of the numbers from ``start`` to ``stop``."""
    if start >= stop:
        return range(0)
    a, b = np.searchsorted(first, [start, stop - 1], side="right") - 1
    return range(int(a), int(b) + 1)


def _starts(sizes: Ints) -> Ints:
    return np.cumsum(sizes) - sizes


def _spread(end: Ints, start: int, stop: int) -> Ints:
    """For each number from ``start`` to ``stop``, the interval it lies in, given their ends."""
    if start >= stop:
        return np.empty(0, dtype=np.int64)
    first, last = np.searchsorted(end, [start, stop - 1], side="right")
    inner = end[first:last]
    lengths = np.diff(inner, prepend=start, append=stop)
    return np.repeat(np.arange(first, last + 1), lengths)


def _entries(counts: LeafCounts, leaves: range) -> tuple[Ints, Ints, Ints]:
    """Leaf (from the first of these), cell and people of each count that is not 0.

    One of a sparse table may come in several parts.
    """
    some = counts[leaves.start : leaves.stop]
    if isinstance(some, np.ndarray):
        leaf, cell = np.nonzero(some)
        people = some[leaf, cell].astype(np.int64)
    else:
        held = some.data != 0
        leaf = np.repeat(np.arange(len(leaves)), np.diff(some.indptr))[held]
        cell, people = some.indices[held], some.data[held].astype(np.int64)
    return leaf.astype(np.int64), cell.astype(np.int64), people


def _refuse_other_counts(counts: LeafCounts, schema: Schema, geography: Geography) -> None:
    shape = (geography.size(geography.leaf), schema.size)
    if counts.shape != shape or not np.issubdtype(counts.dtype, np.integer):
        raise InputError(
            "counts",
            found=f"{counts.dtype} counts of shape {counts.shape}",
            expected=f"whole numbers of shape {shape}, leaf units by cells",
        )


def _refuse_negative(leaf: Ints, people: Ints, geography: Geography) -> None:
    if (people < 0).any():
        code = str(geography.units[-1][leaf[np.argmax(people < 0)]])
        raise InputError(
            "counts",
            place=f"{geography.leaf} {code!r}",
            found="a negative count",
            expected="0 or more",
        )


def _type_axis(schema: Schema, geography: Geography, quarters: Quarters) -> int:
    """Position of the attribute whose levels are the types, after checking that all three fit."""
    size = schema.attribute(quarters.attribute).size
    if quarters.occupied.shape[1] != size:
        raise InputError(
            "living quarters",
            place=quarters.attribute,
            found=f"{quarters.occupied.shape[1]} types",
            expected=f"the {size} levels of the schema",
        )
    if not np.array_equal(quarters.geography.units[-1], geography.units[-1]):
        raise InputError(
            "living quarters",
            place=geography.leaf,
            found="other units than those of the counts",
            expected="the same units in the same order",
        )
    return schema.names.index(quarters.attribute)


def _refuse_misfit(
    living: Ints, leaves: range, quarters: Quarters, schema: Schema, geography: Geography
) -> None:
    standing = quarters.occupied[leaves.start : leaves.stop]
    bad = (living < standing) | ((standing == 0) & (living > 0))
    if not bad.any():
        return
    leaf, kind = (int(axis[0]) for axis in np.nonzero(bad))
    none = standing[leaf, kind] == 0
    code, attribute = str(geography.units[-1][leaves[leaf]]), quarters.attribute
    raise InputError(
        "counts",
        place=f"{geography.leaf} {code!r}, "
        f"{attribute} {schema.attribute(attribute).levels[kind]!r}",
        found="people where no such living quarters stand" if none else "too few people",
        expected="nobody" if none else "at least one for each occupied living quarters",
    )


SAMPLE_FILE, WEIGHT = "sample.parquet", "weight"


def write_sample(
    counts: csr_array[Any, tuple[int, int]],
    *,
    fraction: Fraction,
    schema: Schema,
    geography: Geography,
    folder: Path,
    progress: Progress = silent,
) -> tuple[Path]:
    """One row for each person drawn: codes of the place, attributes by level, ``weight`` 1/f.

    where
        counts    weighted counts of the sample at the leaf: each a whole number of people over f

    People of one place and one cell are alike in all that is published, so how many of them were
    drawn says everything. Rows are in the order of places and cells, not of any file.
    """
    import pyarrow.parquet as pq

    refuse_weight(schema, geography)
    sample = _Sample(counts, fraction)
    table = _Table(schema, geography, weight=fraction.denominator / fraction.numerator)
    options: dict[str, Any] = {"compression": "zstd", "store_schema": False}
    with whole_files(folder / SAMPLE_FILE) as (file,):
        none = np.empty(0, dtype=np.int64)
        with pq.ParquetWriter(file, table.of(none, none).schema, **options) as writer:
            for start, stop in pieces(sample.people, "writing the sample", progress):
                writer.write_table(table.of(*sample.between(start, stop)))
    return (folder / SAMPLE_FILE,)


class _Sample:
    """Leaf and cell of each person drawn, in the order of leaves; held are numbers a leaf alone."""

    def __init__(self, counts: csr_array[Any, tuple[int, int]], fraction: Fraction) -> None:
        self._counts = counts.tocsr()
        self._share = fraction.numerator / fraction.denominator
        leaves = self._counts.shape[0]
        of_leaf = np.zeros(leaves, dtype=np.int64)
        for first in range(0, leaves, LEAVES_AT_ONCE):
            some = range(first, min(first + LEAVES_AT_ONCE, leaves))
            place, _, drawn = self._entries(some)
            np.add.at(of_leaf, place, drawn)
        self._end = np.cumsum(of_leaf)

    @property
    def people(self) -> int:
        """How many were drawn."""
        return int(self._end[-1]) if self._end.size else 0

    def between(self, start: int, stop: int) -> tuple[Ints, Ints]:
        """Leaf and cell of people number ``start`` to ``stop``."""
        first, last = np.searchsorted(self._end, [start, stop - 1], side="right")
        place, cell, drawn = self._entries(range(int(first), int(last) + 1))
        before = int(self._end[first - 1]) if first else 0
        entry = np.searchsorted(np.cumsum(drawn) + before, np.arange(start, stop), side="right")
        return place[entry], cell[entry]

    def _entries(self, leaves: range) -> tuple[Ints, Ints, Ints]:
        """Leaf, cell and people of each count of some leaves."""
        some = self._counts[leaves.start : leaves.stop]
        place = np.repeat(np.arange(leaves.start, leaves.stop), np.diff(some.indptr))
        return place, some.indices, np.rint(some.data * self._share).astype(np.int64)


def refuse_weight(schema: Schema, geography: Geography) -> None:
    """Refuse a domain whose table would have two columns of one name."""
    names = [*(geography.levels[1:] or geography.levels), *schema.names, WEIGHT]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(
            "sample of people",
            place=f"column {twice[0]!r}",
            found="two columns of that name",
            expected=f"geography levels and attributes with names of their own, none {WEIGHT!r}",
        )


class _Table:
    """Arrow tables of people; text columns are dictionaries."""

    def __init__(self, schema: Schema, geography: Geography, *, weight: float) -> None:
        self.schema, self.geography, self.weight = schema, geography, weight
        self.levels = geography.levels[1:] or geography.levels

    def of(self, leaf: Any, cell: Any) -> pa.Table:
        import pyarrow as pa

        columns: dict[str, Any] = {}
        some = range(int(leaf[0]), int(leaf[-1]) + 1) if len(leaf) else range(0)
        for level in self.levels:
            codes = self.geography.units[self.geography.depth(level)]
            unit = self.geography.ancestors(level, units=some)[leaf - some.start]
            columns[level] = pa.array(codes[unit], pa.string())
        numbers = np.unravel_index(cell, self.schema.shape) if self.schema.names else ()
        for attribute, number in zip(self.schema.attributes, numbers, strict=True):
            columns[attribute.name] = pa.DictionaryArray.from_arrays(
                pa.array(np.asarray(number, dtype=np.int32)), pa.array(list(attribute.levels))
            )
        columns[WEIGHT] = pa.array(np.full(len(leaf), self.weight))
        return pa.table(columns)


PEOPLE_FILE, QUARTERS_FILE = "people.parquet", "quarters.parquet"


def write_tidy(
    counts: LeafCounts,
    *,
    schema: Schema,
    geography: Geography,
    quarters: Quarters,
    folder: Path,
    progress: Progress = silent,
) -> tuple[Path, Path]:
    """Write people and living quarters as two Parquet tables, for any schema and geography.

    People: the codes of their place, ``quarters_id``, ``person_number`` and each attribute by the
    name of its level. Living quarters: the codes, ``quarters_id``, ``type``, ``vacant`` and
    ``population``; a vacant one has no type. Both files appear whole or not at all.
    """
    import pyarrow.parquet as pq

    tables = _Tables(schema, geography, quarters)
    placed = place(counts, schema=schema, geography=geography, quarters=quarters)
    # Written from dictionaries, which is fast; without the Arrow schema readers see plain text.
    options: dict[str, Any] = {"compression": "zstd", "store_schema": False}
    with whole_files(folder / PEOPLE_FILE, folder / QUARTERS_FILE) as (people_file, quarters_file):
        columns = tables.people(placed.people_between(0, 0)).schema
        with pq.ParquetWriter(people_file, columns, **options) as writer:
            for start, stop in pieces(placed.people, "writing people", progress):
                writer.write_table(tables.people(placed.people_between(start, stop)))
        columns = tables.quarters(placed.quarters_between(0, 0), 0).schema
        with pq.ParquetWriter(quarters_file, columns, **options) as writer:
            for start, stop in pieces(placed.quarters, "writing living quarters", progress):
                writer.write_table(tables.quarters(placed.quarters_between(start, stop), start))
    return folder / PEOPLE_FILE, folder / QUARTERS_FILE


def refuse_same_names(schema: Schema, geography: Geography) -> None:
    """Refuse a domain whose two tables would have two columns of one name."""
    levels = geography.levels[1:] or geography.levels
    for others in (
        ("quarters_id", "person_number", *schema.names),
        ("quarters_id", "type", "vacant", "population"),
    ):
        names = [*levels, *others]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(
                "tidy files",
                place=f"column {twice[0]!r}",
                found="two columns of that name",
                expected="geography levels and attributes with names of their own",
            )


class _Tables:
    """Arrow tables of people and living quarters; text columns are dictionaries."""

    def __init__(self, schema: Schema, geography: Geography, quarters: Quarters) -> None:
        self.schema = schema
        self.geography = geography
        self.levels = geography.levels[1:] or geography.levels
        self.types = [*schema.attribute(quarters.attribute).levels]
        refuse_same_names(schema, geography)

    def people(self, people: PlacedPeople) -> pa.Table:
        import pyarrow as pa

        columns = self._codes(people.leaf)
        columns["quarters_id"] = pa.array(people.quarters)
        columns["person_number"] = pa.array(people.number)
        levels = np.unravel_index(people.cell, self.schema.shape)
        for attribute, level in zip(self.schema.attributes, levels, strict=True):
            columns[attribute.name] = _named(attribute.levels, level)
        return pa.table(columns)

    def quarters(self, dwellings: PlacedDwellings, first: int) -> pa.Table:
        import pyarrow as pa

        vacant = dwellings.slot == len(self.types)
        columns = self._codes(dwellings.leaf)
        columns["quarters_id"] = pa.array(np.arange(first, first + len(vacant)))
        columns["type"] = _named(self.types, np.where(vacant, 0, dwellings.slot), missing=vacant)
        columns["vacant"] = pa.array(vacant)
        columns["population"] = pa.array(dwellings.people)
        return pa.table(columns)

    def _codes(self, leaf: Ints) -> dict[str, pa.Array]:
        columns = {}
        some = range(int(leaf[0]), int(leaf[-1]) + 1) if len(leaf) else range(0)
        for level in self.levels:
            unit = self.geography.ancestors(level, units=some)[leaf - some.start]
            # Leaves come in order, so their ancestors do: a short dictionary is enough.
            first, last = (int(unit[0]), int(unit[-1])) if len(unit) else (0, 0)
            codes = self.geography.units[self.geography.depth(level)][first : last + 1]
            columns[level] = _named(codes.tolist(), unit - first)
        return columns


def _named(names: Sequence[str], numbers: Any, *, missing: Any = None) -> pa.Array:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(
        pa.array(np.asarray(numbers, dtype=np.int32), mask=missing), pa.array(list(names))
    )
