"""Who lives in which unit: protected people dealt to exact living quarters.

Nothing is held per person: any range of people or quarters is worked out from running sums, so
that a nation is written piece by piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.population.quarters import Quarters
from headcount.schema import Schema

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LeafCounts: TypeAlias = "NDArray[np.integer[Any]] | csr_array[Any, tuple[int, int]]"
"""Protected counts, leaf units x cells, dense or sparse by rows."""


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
class Placement:
    """People in the order of leaf, type and cell; quarters in the order of leaf and type.

    Within one leaf and type, person i of those expanded in cell order goes to quarters i mod n and
    is number i div n + 1 there (n quarters of that type), as in the 2018 end-to-end test.

    where
        entry_*     one for each leaf and cell that holds anyone, in the order of people
        slot_*      one for each leaf and slot: the types, then vacant
    """

    types: int
    entry_slot: Ints
    entry_cell: Ints
    entry_end: Ints
    slot_quarters: Ints
    slot_people: Ints
    slot_first_quarters: Ints
    slot_first_person: Ints

    @property
    def people(self) -> int:
        """How many people there are."""
        return int(self.entry_end[-1]) if len(self.entry_end) else 0

    @property
    def quarters(self) -> int:
        """How many living quarters there are, vacant ones included."""
        return int(self.slot_first_quarters[-1] + self.slot_quarters[-1])

    def people_between(self, start: int, stop: int) -> PlacedPeople:
        """People number ``start`` to ``stop`` (from 0, end not included)."""
        entry = _spread(self.entry_end, start, stop)
        slot = self.entry_slot[entry]
        rank = np.arange(start, stop) - self.slot_first_person[slot]
        turn, place = np.divmod(rank, self.slot_quarters[slot])
        leaf = slot // (self.types + 1)
        quarters = self.slot_first_quarters[slot] + place
        return PlacedPeople(leaf, self.entry_cell[entry], quarters, turn + 1)

    def quarters_between(self, start: int, stop: int) -> PlacedDwellings:
        """Living quarters number ``start`` to ``stop`` (from 0, end not included)."""
        slot = _spread(self.slot_first_quarters + self.slot_quarters, start, stop)
        place = np.arange(start, stop) - self.slot_first_quarters[slot]
        share, left = np.divmod(self.slot_people[slot], self.slot_quarters[slot])
        leaf, kind = np.divmod(slot, self.types + 1)
        return PlacedDwellings(leaf, kind, share + (place < left))


def place(
    counts: LeafCounts, *, schema: Schema, geography: Geography, quarters: Quarters
) -> Placement:
    """Deal protected leaf counts (leaves x cells) to living quarters, after checking that they fit.

    Each type in each leaf must have at least one person for each occupied quarters, and nobody
    where no quarters stand; an error names the leaf and the type.
    """
    leaf, cell, people = _entries(counts, schema, geography)
    axis = _type_axis(schema, geography, quarters)
    types = schema.shape[axis]
    kind = np.unravel_index(cell, schema.shape)[axis].astype(np.int64)
    order = np.lexsort((cell, kind, leaf))
    slot = (leaf * (types + 1) + kind)[order]
    standing = np.column_stack([quarters.occupied, quarters.vacant]).astype(np.int64)
    living = np.zeros(standing.shape, dtype=np.int64)
    np.add.at(living.reshape(-1), slot, people[order])
    _refuse_misfit(living[:, :types], quarters.occupied, schema.names[axis], schema, geography)
    return Placement(
        types=types,
        entry_slot=slot,
        entry_cell=cell[order],
        entry_end=np.cumsum(people[order]),
        slot_quarters=standing.reshape(-1),
        slot_people=living.reshape(-1),
        slot_first_quarters=_starts(standing.reshape(-1)),
        slot_first_person=_starts(living.reshape(-1)),
    )


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


def _entries(counts: LeafCounts, schema: Schema, geography: Geography) -> tuple[Ints, Ints, Ints]:
    """Leaf, cell and people of each count that is not 0; a sparse one may come in several parts."""
    shape = (geography.size(geography.leaf), schema.size)
    if counts.shape != shape or not np.issubdtype(counts.dtype, np.integer):
        raise InputError(
            "counts",
            found=f"{counts.dtype} counts of shape {counts.shape}",
            expected=f"whole numbers of shape {shape}, leaf units by cells",
        )
    if isinstance(counts, np.ndarray):
        leaf, cell = np.nonzero(counts)
        people = counts[leaf, cell].astype(np.int64)
    else:
        held = counts.data != 0
        leaf = np.repeat(np.arange(shape[0]), np.diff(counts.indptr))[held]
        cell, people = counts.indices[held], counts.data[held].astype(np.int64)
    if (people < 0).any():
        code = str(geography.units[-1][leaf[np.argmax(people < 0)]])
        raise InputError(
            "counts",
            place=f"{geography.leaf} {code!r}",
            found="a negative count",
            expected="0 or more",
        )
    return leaf.astype(np.int64), cell.astype(np.int64), people


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
    living: Ints, standing: Ints, attribute: str, schema: Schema, geography: Geography
) -> None:
    bad = (living < standing) | ((standing == 0) & (living > 0))
    if not bad.any():
        return
    leaf, kind = (int(axis[0]) for axis in np.nonzero(bad))
    none = standing[leaf, kind] == 0
    raise InputError(
        "counts",
        place=f"{geography.leaf} {str(geography.units[-1][leaf])!r}, "
        f"{attribute} {schema.attribute(attribute).levels[kind]!r}",
        found="people where no such living quarters stand" if none else "too few people",
        expected="nobody" if none else "at least one for each occupied living quarters",
    )
