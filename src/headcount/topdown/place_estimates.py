"""The best linear estimates of published places from measurements, a few places at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import InputError
from headcount.release import CountsRelease
from headcount.topdown.linear.areas import Members
from headcount.topdown.measured_tree import MeasuredTree
from headcount.topdown.rerun import refuse_other_attributes

NamedArea = tuple[str, str, tuple[str, ...]]
"""A name, a level, and the codes of units of that level."""
NUMBERS_AT_ONCE = 1 << 25
"""Estimates of areas that are in memory together."""


@dataclass(frozen=True, eq=False)
class Estimated:
    """What measurements tell of some places: places x answers.

    where
        names      of the places
        estimate   as least squares gives it, also of what nobody can be counted by
        possible   whether anybody can be counted by an answer
        variance   of some queries; infinite where the measurements do not tell
        released   counts, if there is a release
    """

    names: NDArray[np.str_]
    estimate: Floats
    possible: Flags
    variance: Mapping[str, Floats]
    released: Ints | None


@dataclass(frozen=True, eq=False)
class _Unions:
    """Unions of published units of one level.

    where
        names   of the unions, or codes
        level   of the units
        union   for each unit that one has, which
        unit    and its place at the level
    """

    names: NDArray[np.str_]
    level: str
    union: Ints
    unit: Ints


class PlaceEstimates:
    """Estimates of one query in places.

    where
        measured   the measurements, and the query
        release    what was made from them, or published with them
        told       queries whose variances are wanted: this one, or others beside it
    """

    def __init__(
        self, measured: MeasuredTree, release: CountsRelease | None, told: Sequence[str]
    ) -> None:
        if release is not None:
            refuse_other_attributes(release, measured.start, source="intervals")
        self._measured, self._release, self._told = measured, release, told
        self._published = measured.published
        self._along_spine = measured.published.spine is not None

    def of_level(self, level: str) -> Iterator[Estimated]:
        """Every published unit of a level, in the order of the measured tree."""
        codes = self._published.units[self._published.depth(level)]
        leaf = level == self._published.leaf
        if self._along_spine and not leaf:
            every = np.arange(len(codes))
            yield from self._of_unions(_Unions(codes, level, every, every))
            return
        for places, estimate, variance in self._measured.of_level(level, self._told):
            possible = self._measured.possible(level, places)
            units = self._published.along_spine[places] if self._along_spine else places
            released = self._released(level, units, np.arange(len(units)), len(units))
            yield Estimated(codes[units], estimate, possible, variance, released)

    def of_areas(self, areas: Sequence[NamedArea]) -> Iterator[Estimated]:
        """Unions of units, those of one level after the other, each in the order given."""
        by_level: dict[str, list[NamedArea]] = {}
        for area in areas:
            by_level.setdefault(area[1], []).append(area)
        unions = [self._unions(level, those) for level, those in by_level.items()]
        for one in unions:
            yield from self._of_unions(one)

    def _unions(self, level: str, areas: Sequence[NamedArea]) -> _Unions:
        """Areas of one level, after looking up all of their units."""
        units = []
        for name, _, codes in areas:
            found = self._published.find(level, np.array(codes, dtype=str))
            if not codes or (found < 0).any():
                raise InputError(
                    "intervals",
                    place=f"area {name!r}",
                    found=f"{level} {codes[int(np.flatnonzero(found < 0)[0])]!r}"
                    if codes
                    else "no units",
                    expected=f"codes of units of {level!r}",
                )
            units.append(np.unique(found).astype(np.int64))
        which = np.repeat(np.arange(len(areas)), [len(one) for one in units])
        return _Unions(
            np.array([name for name, _, _ in areas]), level, which, np.concatenate(units)
        )

    def _of_unions(self, unions: _Unions) -> Iterator[Estimated]:
        """Unions of published units, as many at a time as fit in memory."""
        answers = self._measured.components.answers[self._measured.query]
        step = max(1, NUMBERS_AT_ONCE // answers)
        for first in range(0, len(unions.names), step):
            start, end = np.searchsorted(unions.union, (first, first + step))
            some = _Unions(
                unions.names[first : first + step],
                unions.level,
                unions.union[start:end] - first,
                unions.unit[start:end],
            )
            yield self._few_unions(some, answers)

    def _few_unions(self, unions: _Unions, answers: int) -> Estimated:
        many, leaves = len(unions.names), self._leaves(unions)
        variance = self._measured.area_variances(leaves, self._told)
        # Along a spine published units are sums of leaves; otherwise they are units themselves.
        level, unit, union = unions.level, unions.unit, unions.union
        if self._along_spine:
            level, unit, union = self._published.leaf, leaves.leaf, leaves.area
        order = np.argsort(unit, kind="stable")
        unit, union = unit[order], union[order]
        estimate, possible = np.zeros((many, answers)), np.zeros((many, answers), dtype=bool)
        for places, found in self._measured.estimates(level):
            at, of_area = _within(places, unit, union)
            np.add.at(estimate, of_area, found[at])
            np.logical_or.at(possible, of_area, self._measured.possible(level, places)[at])
        released = self._released(unions.level, unions.unit, unions.union, many)
        return Estimated(unions.names, estimate, possible, variance, released)

    def _leaves(self, unions: _Unions) -> Members:
        """The leaves of each union, by their places in the measured tree."""
        above = self._published.ancestors(unions.level)
        first = np.searchsorted(above, unions.unit)
        sizes = np.searchsorted(above, unions.unit, side="right") - first
        start = np.cumsum(sizes) - sizes
        leaf = np.arange(int(sizes.sum())) - np.repeat(start - first, sizes)
        if self._along_spine:
            now = np.empty(len(above), dtype=np.int64)
            now[self._published.along_spine] = np.arange(len(above))
            leaf = now[leaf]
        return Members(len(unions.names), np.repeat(unions.union, sizes), leaf)

    def _released(self, level: str, units: Ints, union: Ints, many: int) -> Ints | None:
        """The released answers of unions of some published units: unions x answers."""
        from scipy.sparse import csr_array

        if self._release is None:
            return None
        codes = self._published.units[self._published.depth(level)][units]
        found = self._release.geography.find(level, codes)
        if (found < 0).any():
            raise InputError(
                "intervals",
                place="release",
                found=f"no {level} {str(codes[int(np.argmax(found < 0))])!r}",
                expected="a release of the same places",
            )
        matrix = self._measured.asked.matrix(self._measured.schema)
        rows, own = csr_array(self._release.tables[level][found]), np.arange(len(found))
        sums = csr_array((np.ones_like(own), (union, own)), shape=(many, len(own)))
        return np.asarray((sums @ rows @ matrix).toarray(), dtype=np.int64)


def _within(places: Ints, unit: Ints, union: Ints) -> tuple[Ints, Ints]:
    """Of some places those that unions have: their positions, and which union has them.

    ``unit`` is sorted; a place that several unions have is there several times.
    """
    first = np.searchsorted(unit, places)
    sizes = np.searchsorted(unit, places, side="right") - first
    at = np.repeat(np.arange(len(places)), sizes)
    start = np.cumsum(sizes) - sizes
    return at, union[np.arange(len(at)) - start[at] + first[at]]
