"""The geography: levels from the whole to the leaf, their units, and each unit's parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints, Ints32
from headcount.errors import InputError, did_you_mean

AT_ONCE = 1 << 20
"""Codes that are hashed together: they bound the memory."""


@dataclass(frozen=True, eq=False, repr=False)
class Geography:
    """A tree of places as arrays.

    where
        levels      level names from the whole (one unit) to the leaf
        units       for each level the unit codes; children of one parent stand together, in the
                    order of their parents
        parents     for each level the position of each unit's parent in the level above;
                    empty for the whole
        spine       another tree over the same leaves, made for measuring (spine.py); None without
    """

    levels: tuple[str, ...]
    units: tuple[NDArray[np.str_], ...]
    parents: tuple[Ints32, ...]
    spine: Geography | None = None

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels) or not self.levels or "" in self.levels:
            raise InputError(
                "geography",
                found=f"levels {list(self.levels)}",
                expected="distinct level names, none of them empty",
            )
        if not len(self.levels) == len(self.units) == len(self.parents):
            raise InputError(
                "geography",
                found=f"{len(self.units)} unit arrays and {len(self.parents)} parent arrays",
                expected=f"one of each for the {len(self.levels)} levels",
            )
        if len(self.units[0]) != 1:
            raise InputError(
                "geography",
                place=f"level {self.levels[0]!r}",
                found=f"{len(self.units[0])} units",
                expected="one: the whole",
            )
        for depth in range(1, len(self.levels)):
            self._check_level(depth)
        if self.spine is not None and not np.array_equal(
            np.sort(self.spine.units[-1]), np.sort(self.units[-1])
        ):
            raise InputError(
                "geography",
                place="spine",
                found=f"other leaves ({len(self.spine.units[-1]):,})",
                expected=f"the same {len(self.units[-1]):,} units of {self.leaf!r}",
            )

    def _check_level(self, depth: int) -> None:
        level, codes, parent = self.levels[depth], self.units[depth], self.parents[depth]
        place = f"level {level!r}"
        in_order = bool((codes[1:] > codes[:-1]).all())  # quicker to see than to sort
        if not in_order and len(np.unique(codes)) != len(codes):
            values, times = np.unique(codes, return_counts=True)
            raise InputError(
                "geography",
                place=f"{place}, unit {str(values[times > 1][0])!r}",
                found="the unit twice",
                expected="each unit once",
            )
        whole = np.arange(len(self.units[depth - 1]))
        if len(parent) != len(codes) or not np.array_equal(np.unique(parent), whole):
            raise InputError(
                "geography",
                place=place,
                found="a parent array that does not fit the level above",
                expected=f"one parent for each of {len(codes)} units, and a child for each parent",
            )
        if np.any(np.diff(parent) < 0):
            raise InputError(
                "geography",
                place=place,
                found="children of one parent that are not next to each other",
                expected="units in the order of their parents",
            )

    def __repr__(self) -> str:
        sized = zip(self.levels, self.units, strict=True)
        sizes = ", ".join(f"{level} {len(units):,}" for level, units in sized)
        return f"<Geography {sizes}>"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of levels, codes and parents, in their order; a spine has its own."""
        hasher = sha256(b"headcount places 1")
        for level, codes, parents in zip(self.levels, self.units, self.parents, strict=True):
            hasher.update(f"\0\0{level}:{len(codes)}".encode())
            for start in range(0, len(codes), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                hasher.update("\0".join(["", *codes[some].tolist()]).encode())
                hasher.update(parents[some].astype("<i4").tobytes())
        return hasher.hexdigest()

    def description(self) -> dict[str, Any]:
        """Levels with their numbers of units, and the digest: for a receipt."""
        sizes = {level: len(codes) for level, codes in zip(self.levels, self.units, strict=True)}
        return {"units": sizes, "sha256": self.digest}

    @property
    def leaf(self) -> str:
        """Name of the finest level."""
        return self.levels[-1]

    def depth(self, level: str) -> int:
        """Position of a level, 0 for the whole."""
        try:
            return self.levels.index(level)
        except ValueError:
            raise InputError(
                "geography", found=f"level {level!r}", expected=did_you_mean(level, self.levels)
            ) from None

    def size(self, level: str) -> int:
        """Number of units at a level."""
        return len(self.units[self.depth(level)])

    def ancestors(self, level: str, *, of: str | None = None, units: range | None = None) -> Ints32:
        """For each unit of a finer level (by default every leaf), its ancestor at ``level``."""
        top, depth = self.depth(level), self.depth(of or self.leaf)
        if depth < top:
            raise InputError(
                "geography", found=f"level {level!r}", expected=f"a level at or above {of!r}"
            )
        units = range(len(self.units[depth])) if units is None else units
        index: Ints32 = np.arange(units.start, units.stop, dtype=np.int32)
        for finer in range(depth, top, -1):
            index = self.parents[finer][index]
        return index

    def children_start(self, level: str) -> Ints:
        """For each unit of ``level`` the position of its first child in the level below."""
        below = self.parents[self.depth(level) + 1]
        return np.searchsorted(below, np.arange(self.size(level)))

    def of_leaves(self, leaves: Ints) -> Geography:
        """The tree above some leaves alone, which stay in their order."""
        units, parents, index = [], [], np.unique(leaves)
        for depth in range(len(self.levels) - 1, 0, -1):
            above, parent = np.unique(self.parents[depth][index], return_inverse=True)
            units.append(self.units[depth][index])
            parents.append(parent.astype(np.int32))
            index = above.astype(np.int64)
        spine = self.spine
        if spine is not None:
            codes = units[0] if units else self.units[0]
            spine = spine.of_leaves(np.flatnonzero(np.isin(spine.units[-1], codes)))
        return Geography(
            self.levels,
            (self.units[0], *reversed(units)),
            (np.empty(0, dtype=np.int32), *reversed(parents)),
            spine,
        )

    def path(self, level: str, unit: int) -> tuple[str, ...]:
        """Codes from the level below the whole down to one unit: its full address."""
        codes = []
        for depth in range(self.depth(level), 0, -1):
            codes.append(str(self.units[depth][unit]))
            unit = int(self.parents[depth][unit])
        return tuple(reversed(codes))

    def find(self, level: str, codes: NDArray[np.str_]) -> Ints32:
        """The position of the unit of each code at a level; -1 where there is none."""
        depth = self.depth(level)
        units, order = self.units[depth], self._orders[depth]
        # As wide as the units, so that these are not copied; what is cut off is not found.
        at = np.searchsorted(units, codes.astype(units.dtype), sorter=order)
        at = np.minimum(at, len(units) - 1)
        number = at if order is None else order[at]
        found: Ints32 = np.where(units[number] == codes, number, -1).astype(np.int32)
        return found

    @cached_property
    def _orders(self) -> tuple[Ints | None, ...]:
        """For each level what sorts its codes; None where they are in order."""
        in_order = [bool((codes[1:] > codes[:-1]).all()) for codes in self.units]
        return tuple(
            None if sorted_already else np.argsort(codes)
            for codes, sorted_already in zip(self.units, in_order, strict=True)
        )

    @cached_property
    def along_spine(self) -> Ints:
        """The leaves in the order of the spine: for each of its leaves the position here."""
        if self.spine is None:
            raise InputError("geography", found="no spine", expected="a geography with a spine")
        own = np.argsort(self.units[-1])
        return np.asarray(own[np.searchsorted(self.units[-1][own], self.spine.units[-1])])

    @cached_property
    def unit_numbers(self) -> dict[str, int]:
        """Position of each leaf unit by its code."""
        return {str(code): number for number, code in enumerate(self.units[-1])}


def regular(*, children: int, depth: int, root: str = "whole") -> Geography:
    """A tree in which every unit above the leaf has the same number of children."""
    levels = (root, *(f"level_{j}" for j in range(1, depth + 1)))
    codes: Sequence[str] = [root]
    units, parents = [np.array(codes)], [np.empty(0, dtype=np.int32)]
    for level in range(1, depth + 1):
        above = [""] if level == 1 else [f"{code}." for code in units[-1]]
        units.append(np.array([f"{prefix}{c}" for prefix in above for c in range(children)]))
        parents.append(np.repeat(np.arange(len(above), dtype=np.int32), children))
    return Geography(levels, tuple(units), tuple(parents))
