"""Intervals for any count, from published measurements alone.

The best linear estimate of a count (accuracy/estimate.py) is unbiased, and its standard deviation
follows from the noise, so that

    estimate - z deviation  <=  count  <=  estimate + z deviation

in a share ``confidence`` of cases, where z is the quantile of the normal law. Counts are whole and
not negative: ends are rounded inwards and cut at 0, which loses no count. An interval stands beside
a released count and is not centred on it: a release was pressed into whole numbers that add up,
and its own error has another law. Counts that are known to be 0 are shown as 0. Estimates use
structural zeros, whose answers say nothing more (accuracy/components.py), but not what is known of
single places, such as that no facility of a kind stands there: its noisy answers are taken as they
are, with the noise that they have.

Intervals of a level are made a few units at a time, so that no level needs to fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headcount.accuracy.areas import Members
from headcount.arrays import Flags, Floats, Ints
from headcount.errors import ConfigError, InputError
from headcount.mechanisms.topdown.accuracy import EXACT
from headcount.mechanisms.topdown.from_measurements import PublishedStart
from headcount.mechanisms.topdown.rerun import refuse_other_attributes
from headcount.release import CountsRelease
from headcount.run._measured_tree import MeasuredTree
from headcount.run._published import published_start
from headcount.run.plan import NamedArea

if TYPE_CHECKING:
    import polars as pl

NEARLY = 1e-9
"""Ends that miss a whole number by less are on it: exact counts come from sums of floats."""
NUMBERS_AT_ONCE = 1 << 25
"""Estimates of areas that are in memory together."""


def intervals(
    release: PublishedStart | Path | str,
    areas: str | Sequence[NamedArea],
    query: str,
    confidence: Fraction | str | float = "9/10",
) -> pl.DataFrame:
    """Intervals of a query's answers in every published unit of a level, or in some areas.

    where
        release      with its measurements: a run, the folder of a release or of measurements, the
                     config of an estimate, or what ``start_from`` read
        areas        the name of a level, or unions of units of one level each, with names:
                     ``[("north", "county", ("001", "003"))]``
        query        of the mechanism, by name
        confidence   the share of cases in which an interval holds the true count

    Columns: place, the attributes of the query, estimate, deviation, low, high, known ("exact" for
    what is published exactly, "zero" where nobody can be counted), and released: the counts that
    the folder has, which must be made from these measurements or published with them.
    """
    import polars as pl

    start, beside = release, None
    if not isinstance(start, PublishedStart | Path | str):
        raise ConfigError(
            "intervals",
            place="release",
            found=type(start).__name__,
            expected="a run or folder with its measurements, or what start_from read",
        )
    if not isinstance(start, PublishedStart):
        start, beside = published_start(Path(start))
    pieces = interval_pieces(start, areas, query, confidence=confidence, release=beside)
    return pl.concat(pieces)


def interval_pieces(
    start: PublishedStart,
    areas: str | Sequence[NamedArea],
    query: str,
    *,
    confidence: Fraction | str | float = "9/10",
    release: CountsRelease | None = None,
) -> Iterator[pl.DataFrame]:
    """The same table in pieces, of a few places each.

    where
        release   what was made from these measurements, or published with them
    """
    reach = NormalDist().inv_cdf((1 + _confidence(confidence)) / 2)
    if not areas:
        raise ConfigError("intervals", found="no level and no areas", expected="one or the other")
    if release is not None:
        refuse_other_attributes(release, start, source="intervals")
    found = _Intervals(MeasuredTree(start, query), reach, release)
    return found.of_level(areas) if isinstance(areas, str) else found.of_areas(areas)


def _confidence(given: Fraction | str | float) -> float:
    try:
        share = float(Fraction(given))
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        share = 0.0
    if not 0 < share < 1:
        raise ConfigError(
            "intervals", place="confidence", found=str(given), expected="a share between 0 and 1"
        )
    return share


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


class _Intervals:
    """Tables of intervals of one query."""

    def __init__(self, measured: MeasuredTree, reach: float, release: CountsRelease | None) -> None:
        self._measured, self._reach, self._release = measured, reach, release
        self._published = measured.published
        self._along_spine = measured.published.spine is not None
        attributes = measured.asked.attributes(measured.schema)
        rows = list(product(*(one.levels for one in attributes)))
        self._labels = {one.name: [row[k] for row in rows] for k, one in enumerate(attributes)}

    def of_level(self, level: str) -> Iterator[pl.DataFrame]:
        """Every published unit of a level, in the order of the measured tree."""
        codes = self._published.units[self._published.depth(level)]
        leaf = level == self._published.leaf
        if self._along_spine and not leaf:
            every = np.arange(len(codes))
            yield from self._of_unions(_Unions(codes, level, every, every))
            return
        for places, estimate, variance in self._measured.of_level(level):
            possible = self._measured.possible(level, places)
            units = self._published.along_spine[places] if self._along_spine else places
            released = self._released(level, units, np.arange(len(units)), len(units))
            yield self._table(codes[units], estimate, variance, possible, released)

    def of_areas(self, areas: Sequence[NamedArea]) -> Iterator[pl.DataFrame]:
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

    def _of_unions(self, unions: _Unions) -> Iterator[pl.DataFrame]:
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

    def _few_unions(self, unions: _Unions, answers: int) -> pl.DataFrame:
        many, leaves = len(unions.names), self._leaves(unions)
        variance = self._measured.area_variances(leaves)
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
        return self._table(unions.names, estimate, variance, possible, released)

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

    def _table(
        self,
        places: NDArray[np.str_],
        estimate: Floats,
        variance: Floats,
        possible: Flags,
        released: Ints | None,
    ) -> pl.DataFrame:
        """One row for each place and answer."""
        import polars as pl

        deviation = np.where(possible, np.sqrt(variance), 0.0)
        estimate = np.where(possible, estimate, 0.0)
        low, high = ends(estimate, deviation, self._reach)
        told, answers = np.isfinite(deviation), estimate.shape[1]
        known = np.where(possible, np.where(deviation < EXACT, "exact", ""), "zero")
        columns: dict[str, object] = {"place": np.repeat(places, answers)}
        columns |= {name: np.tile(values, len(places)) for name, values in self._labels.items()}
        numbers: Mapping[str, Floats] = {
            "estimate": estimate,
            "deviation": deviation,
            "low": low,
            "high": high,
        }
        columns |= {
            name: np.where(told | (name == "low"), values, np.nan).reshape(-1)
            for name, values in numbers.items()
        }
        columns["known"] = known.reshape(-1)
        if released is not None:
            columns["released"] = released.reshape(-1)
        whole = [pl.col("low").cast(pl.Int64), pl.col("high").cast(pl.Int64)]
        return pl.DataFrame(columns, nan_to_null=True).with_columns(whole)


def _within(places: Ints, unit: Ints, union: Ints) -> tuple[Ints, Ints]:
    """Of some places those that unions have: their positions, and which union has them.

    ``unit`` is sorted; a place that several unions have is there several times.
    """
    first = np.searchsorted(unit, places)
    sizes = np.searchsorted(unit, places, side="right") - first
    at = np.repeat(np.arange(len(places)), sizes)
    start = np.cumsum(sizes) - sizes
    return at, union[np.arange(len(at)) - start[at] + first[at]]


def ends(estimate: Floats, deviation: Floats, reach: float) -> tuple[Floats, Floats]:
    """Ends of intervals: whole numbers of 0 or more, the high one infinite without a deviation.

    An interval between two whole numbers becomes the one that is nearest to the estimate.
    """
    low = np.ceil(estimate - reach * deviation - NEARLY)
    high = np.floor(estimate + reach * deviation + NEARLY)
    between, nearest = low > high, np.rint(estimate)
    low, high = np.where(between, nearest, low), np.where(between, nearest, high)
    return np.maximum(low, 0.0), np.maximum(high, 0.0)
