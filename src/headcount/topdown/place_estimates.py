"""Best linear unbiased estimates (BLUE) of published places, and intervals around them.

The best linear estimate of a count (``linear/estimate.py``) is unbiased, and its standard deviation
follows from the noise, so that

    estimate - z deviation  <=  count  <=  estimate + z deviation

in a share ``confidence`` of cases, where z is the quantile of the normal law. Counts are whole and
not negative: ends are rounded inwards and cut at 0, which loses no count. An interval stands beside
a released count and is not centred on it: a release was pressed into whole numbers that add up,
and its own error has another law. Counts that are known to be 0 are shown as 0. Estimates use
structural zeros, whose answers say nothing more (``components.py`` there), but not what is known of
single places, such as that no facility of a kind stands there: its noisy answers are taken as they
are, with the noise that they have.

Places are taken a few at a time, so that no level needs to fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.errors import ConfigError, InputError, one_of
from headcount.geography.spine import NamedArea
from headcount.release import CountsRelease
from headcount.schema import Schema
from headcount.tabulate import every_cell
from headcount.topdown.accuracy import EXACT, components_of, noise_tree, together_tree
from headcount.topdown.from_measurements import PublishedStart
from headcount.topdown.linear.estimate import BestEstimates, Coordinates
from headcount.topdown.linear.tree import NoiseTree
from headcount.topdown.linear.variances import AnswerClasses, AnswerVariances, AreaErrors, Members

if TYPE_CHECKING:
    import polars as pl


class MeasuredTree:
    """The estimates of one query, in units of the tree that was measured.

    where
        together   that tree, with totals that units have exactly together
        queries    all that were asked
        asked      the one that is estimated
    """

    def __init__(self, start: PublishedStart, query: str) -> None:
        self.start, self.query = start, query
        self.schema, self.published = start.measurements.schema, start.measurements.geography
        self.tree, settings = start.measurements.tree, start.mechanism
        self.queries = {
            one.name: one.on(self.schema) for one in (every_cell(self.schema), *settings.marginals)
        }
        if query not in self.queries:
            raise ConfigError(
                "intervals", place="query", found=repr(query), expected=one_of(list(self.queries))
            )
        self.asked = self.queries[query]
        self.components = components_of(settings, self.schema)
        self.together = together_tree(settings, noise_of(start), self.tree, groups_of(start))
        self._matrix = self.asked.matrix(self.schema)

    def _coordinates(self, query: str) -> Coordinates:
        return Coordinates(self.components, query, self.queries, self.schema.names)

    def of_level(
        self, level: str, told: Sequence[str]
    ) -> Iterator[tuple[Ints, Floats, dict[str, Floats]]]:
        """Some units of a level after others: their places there, estimates, and variances.

        These are units x answers; variances are of the queries in ``told``, and infinite where the
        answers do not tell.
        """
        depth, tree = self.together.depth(self.tree.depth(level)), self.together.tree
        of = {query: AnswerVariances.of(tree, self.components, query, depth) for query in told}
        for places, estimate, units in self._estimates(depth):
            variance = {
                query: self._coordinates(query).in_own_order(one.units(units))
                for query, one in of.items()
            }
            yield places, estimate, variance

    def estimates(self, level: str) -> Iterator[tuple[Ints, Floats]]:
        """The same without variances."""
        for places, estimate, _ in self._estimates(self.together.depth(self.tree.depth(level))):
            yield places, estimate

    def _estimates(self, depth: int) -> Iterator[tuple[Ints, Floats, range]]:
        best = BestEstimates(self.together.tree, self._coordinates(self.query), self._answered)
        for units, estimate in best.at(depth):
            yield self.together.places[depth][units.start : units.stop], estimate, units

    def area_variances(self, members: Members, told: Sequence[str]) -> dict[str, Floats]:
        """The variances of some queries in areas, given by places of leaves: areas x answers."""
        now = np.empty_like(self.together.places[-1])
        now[self.together.places[-1]] = np.arange(len(now))
        moved = Members(members.areas, members.area, now[members.leaf])
        errors = AreaErrors.of(self.together.tree, self.components, moved, told)
        variances = {}
        for query in told:
            classes = AnswerClasses.of(self.components, query)
            found = np.stack([errors.variance(query, one) for one in classes.examples], axis=1)
            own = self._coordinates(query).in_own_order(found[:, classes.of_answer])
            variances[query] = own
        return variances

    def possible(self, level: str, places: Ints) -> Flags:
        """For some units whether anybody can be counted by each answer: units x answers.

        Nobody can in cells that are structural zeros, nor where what is published says so: that
        there is no facility, or nobody at all.
        """
        cells = np.broadcast_to(self.schema.possible, (len(places), self.schema.size))
        for one in self.start.restrictions[level]:
            high = [one.high[run.start : run.stop] for run in _runs(places)]
            if (none := np.concatenate(high) <= 0).any():
                cells = cells & ~none[:, one.query.groups(self.schema)]
        return np.asarray(cells.astype(np.int64) @ self._matrix > 0)

    def _answered(self, depth: int, query: str, units: range) -> Floats | Ints:
        """Answers of some units; what is exact comes from what is published exactly."""
        places = self.together.places[depth][units.start : units.stop]
        before = self.together.levels[depth]
        if before < 0:  # published units that the spine has in parts: the level of these is next
            level = self.tree.levels[self.together.levels[depth + 1]]
            return self.start.joint[level].total[places][:, None]
        level = self.tree.levels[before]
        return np.concatenate([self._read(level, query, run) for run in _runs(places)])

    def _read(self, level: str, query: str, units: range) -> Floats | Ints:
        """Answers of units that stand side by side in the files."""
        if query in self.together.tree.levels[self.together.depth(self.tree.depth(level))].exact:
            own = next(one for one in self.start.restrictions[level] if one.query.name == query)
            return np.asarray(own.low[units.start : units.stop], dtype=np.int64)
        return self.start.answers.values(level, query, units)


def noise_of(start: PublishedStart) -> NoiseTree:
    """The noise of published measurements, in the tree that was measured."""
    return noise_tree(
        start.mechanism,
        start.measurements.tree,
        planned=start.answers.planned,
        classes=start.answers.classes,
        published=start.measurements.geography,
    )


def groups_of(start: PublishedStart) -> dict[str, Ints32]:
    """For some levels the published unit of each unit: totals of these are exact."""
    return {level: joint.group for level, joint in start.joint.items()}


def _runs(places: Ints) -> list[range]:
    """Places in the order of the tree, as ranges that stand side by side in the files."""
    ends = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    return [range(int(places[a]), int(places[b - 1]) + 1) for a, b in pairwise(ends)]


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


def refuse_other_attributes(release: CountsRelease, start: PublishedStart, *, source: str) -> None:
    """Refuse a release that counts people by something else than the measurements do."""
    found, expected = _counted(release.schema), _counted(start.measurements.schema)
    if found != expected:
        raise InputError(
            source,
            place="release",
            found=f"counts by {_in_words(found)}",
            expected=f"counts by {_in_words(expected)}, as the measurements have them",
        )


def _in_words(counted: list[tuple[str, tuple[str, ...]]]) -> str:
    """Attributes with their levels, of which the first few are enough."""
    return ", ".join(
        f"{name} ({', '.join(levels[:4])}{', ...' if len(levels) > 4 else ''})"
        for name, levels in counted
    )


def _counted(schema: Schema) -> list[tuple[str, tuple[str, ...]]]:
    """The attributes with their levels."""
    return [(one.name, one.levels) for one in schema.attributes]


NEARLY = 1e-9
"""Ends that miss a whole number by less are on it: exact counts come from sums of floats."""


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
    measured = MeasuredTree(start, query)
    places = PlaceEstimates(measured, release, [query])
    found = places.of_level(areas) if isinstance(areas, str) else places.of_areas(areas)
    return map(_Tables(measured, reach).of, found)


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


class _Tables:
    """Tables of intervals of one query."""

    def __init__(self, measured: MeasuredTree, reach: float) -> None:
        self._query, self._reach = measured.query, reach
        attributes = measured.asked.attributes(measured.schema)
        rows = list(product(*(one.levels for one in attributes)))
        self._labels = {one.name: [row[k] for row in rows] for k, one in enumerate(attributes)}

    def of(self, found: Estimated) -> pl.DataFrame:
        """One row for each place and answer."""
        import polars as pl

        possible = found.possible
        deviation = np.where(possible, np.sqrt(found.variance[self._query]), 0.0)
        estimate = np.where(possible, found.estimate, 0.0)
        low, high = ends(estimate, deviation, self._reach)
        told, answers = np.isfinite(deviation), estimate.shape[1]
        known = np.where(possible, np.where(deviation < EXACT, "exact", ""), "zero")
        columns: dict[str, object] = {"place": np.repeat(found.names, answers)}
        columns |= {name: np.tile(one, len(found.names)) for name, one in self._labels.items()}
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
        if found.released is not None:
            columns["released"] = found.released.reshape(-1)
        whole = [pl.col("low").cast(pl.Int64), pl.col("high").cast(pl.Int64)]
        return pl.DataFrame(columns, nan_to_null=True).with_columns(whole)


def ends(estimate: Floats, deviation: Floats, reach: float) -> tuple[Floats, Floats]:
    """Ends of intervals: whole numbers of 0 or more, the high one infinite without a deviation.

    An interval between two whole numbers becomes the one that is nearest to the estimate.
    """
    low = np.ceil(estimate - reach * deviation - NEARLY)
    high = np.floor(estimate + reach * deviation + NEARLY)
    between, nearest = low > high, np.rint(estimate)
    low, high = np.where(between, nearest, low), np.where(between, nearest, high)
    return np.maximum(low, 0.0), np.maximum(high, 0.0)
