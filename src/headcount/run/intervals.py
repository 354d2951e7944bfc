"""Intervals for any count, from published measurements alone.

The best linear estimate of a count (accuracy/estimate.py) is unbiased, and its standard deviation
follows from the noise, so that

    estimate - z deviation  <=  count  <=  estimate + z deviation

in a share ``confidence`` of cases, where z is the quantile of the normal law. Counts are whole and
not negative: ends are rounded inwards and cut at 0, which loses no count. An interval stands beside
a released count and is not centred on it: a release was pressed into whole numbers that add up,
and its own error has another law. Structural zeros are 0; beyond that estimates do not use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from headcount.accuracy.areas import AreaErrors
from headcount.accuracy.estimate import Coordinates, best_estimates
from headcount.accuracy.kinds import NoiseTree
from headcount.accuracy.units import answer_variances
from headcount.arrays import Flags, Floats, Ints
from headcount.errors import ConfigError, InputError, one_of
from headcount.mechanisms.topdown.accuracy import components_of, noise_tree
from headcount.mechanisms.topdown.from_measurements import PublishedStart, start_from
from headcount.release import CountsRelease
from headcount.run.plan import NamedArea
from headcount.tabulate import every_cell

if TYPE_CHECKING:
    import polars as pl

NEARLY = 1e-9
"""Ends that miss a whole number by less are on it: exact counts come from sums of floats."""


def intervals(
    measurements: PublishedStart | Path | str,
    query: str,
    *,
    level: str = "",
    areas: Sequence[NamedArea] = (),
    confidence: Fraction | str | float = "9/10",
    release: CountsRelease | None = None,
) -> pl.DataFrame:
    """Intervals of a query's answers in every unit of a level, or in some areas.

    where
        measurements   a folder of published measurements, or what was read from one
        areas          unions of units of one level, each with a name
        confidence     the share of cases in which an interval holds the true count
        release        a release of the same places, whose counts are shown beside

    Columns: place, the attributes of the query, estimate, deviation, low, high, and released.
    """
    start = measurements
    if not isinstance(start, PublishedStart):
        start = start_from(start)
    found = _Intervals(start, query, _confidence(confidence), release)
    if bool(level) == bool(areas):
        raise ConfigError(
            "intervals",
            found="a level and areas" if level else "no level and no areas",
            expected="one or the other",
        )
    return found.of_level(level) if level else found.of_areas(areas)


def _confidence(given: Fraction | str | float) -> float:
    try:
        share = float(Fraction(given))
    except (ValueError, OverflowError, ZeroDivisionError):
        share = 0.0
    if not 0 < share < 1:
        raise ConfigError(
            "intervals", place="confidence", found=str(given), expected="a share between 0 and 1"
        )
    return share


class _Intervals:
    """Estimates and deviations of one query."""

    def __init__(
        self, start: PublishedStart, query: str, confidence: float, release: CountsRelease | None
    ) -> None:
        self._start, self._query, self._release = start, query, release
        self._schema, self._tree = start.measurements.schema, start.measurements.tree
        settings = start.mechanism
        if settings.spine:
            raise ConfigError(
                "intervals",
                found="measurements along a spine",
                expected="measurements of the published tree: what is exact of parts together is "
                "not used yet",
            )
        asked = [every_cell(self._schema), *settings.marginals]
        queries = {one.name: one.on(self._schema) for one in asked}
        if query not in queries:
            raise ConfigError(
                "intervals", place="query", found=repr(query), expected=one_of(list(queries))
            )
        self._asked = queries[query]
        self._components = components_of(settings, self._schema)
        self._coordinates = Coordinates(self._components, query, queries, self._schema.names)
        self._noise: NoiseTree = noise_tree(
            settings,
            self._tree,
            planned=start.answers.planned,
            classes=start.answers.classes,
            published=start.measurements.geography,
        )
        self._reach = NormalDist().inv_cdf((1 + confidence) / 2)

    def _answered(self, depth: int, query: str, units: range) -> Floats | Ints:
        """Answers of some units of a level; what is exact comes from the constraints."""
        level = self._tree.levels[depth]
        if query in self._noise.levels[depth].exact:
            own = next(one for one in self._start.restrictions[level] if one.query.name == query)
            return np.asarray(own.low[units.start : units.stop], dtype=np.int64)
        return self._start.answers.values(level, query, units)

    def of_level(self, level: str) -> pl.DataFrame:
        """Every unit of a level of the measured tree."""
        depth = self._tree.depth(level)
        estimate = best_estimates(self._noise, self._coordinates, self._answered, depth=depth)
        by_attribute = answer_variances(self._noise, self._components, self._query, depth)
        variance = self._coordinates.in_own_order(by_attribute)
        places = self._tree.units[depth].tolist()
        return self._table(places, estimate, variance, self._released(level))

    def of_areas(self, areas: Sequence[NamedArea]) -> pl.DataFrame:
        """Unions of units."""
        estimates, variances, released = [], [], []
        whole: dict[int, Floats] = {}
        for name, level, codes in areas:
            units = self._tree.find(level, np.array(codes, dtype=str))
            if not codes or (units < 0).any():
                raise InputError(
                    "intervals",
                    place=f"area {name!r}",
                    found=f"{level} {codes[int(np.flatnonzero(units < 0)[0])]!r}"
                    if codes
                    else "no units",
                    expected=f"codes of units of {level!r}",
                )
            depth, inside = self._tree.depth(level), np.isin(self._tree.ancestors(level), units)
            if depth not in whole:
                whole[depth] = best_estimates(
                    self._noise, self._coordinates, self._answered, depth=depth
                )
            estimates.append(whole[depth][np.unique(units)].sum(axis=0))
            if (known := self._released(level)) is not None:
                released.append(known[np.unique(units)].sum(axis=0))
            errors = AreaErrors.of(self._noise, self._components, inside)
            groups = self._components.groups[self._query]
            answers = np.indices([int(one.max()) + 1 for one in groups]).reshape(len(groups), -1).T
            found = [errors.variance(self._query, one.tolist()) for one in answers]
            variances.append(self._coordinates.in_own_order(np.array([found]))[0])
        names = [name for name, _, _ in areas]
        beside = np.array(released) if released else None
        return self._table(names, np.array(estimates), np.array(variances), beside)

    def _released(self, level: str) -> Ints | None:
        """The released answers of every unit of a level, in its order."""
        if self._release is None:
            return None
        codes = self._tree.units[self._tree.depth(level)]
        units = self._release.geography.find(level, codes)
        if (units < 0).any():
            raise InputError(
                "intervals",
                place="release",
                found=f"no {level} {str(codes[int(np.argmax(units < 0))])!r}",
                expected="a release of the same places",
            )
        matrix = self._asked.matrix(self._schema)
        return np.asarray(self._release.at(level)[units] @ matrix, dtype=np.int64)

    def _possible(self) -> Flags:
        """For each answer whether anybody can be counted by it."""
        groups = self._asked.groups(self._schema)
        found = np.bincount(
            groups, weights=self._schema.possible, minlength=self._asked.size(self._schema)
        )
        return np.asarray(found > 0)

    def _labels(self) -> dict[str, list[str]]:
        """The levels that each answer is about, by attribute."""
        attributes = self._asked.attributes(self._schema)
        rows = list(product(*(one.levels for one in attributes)))
        return {one.name: [row[k] for row in rows] for k, one in enumerate(attributes)}

    def _table(
        self, places: Sequence[str], estimate: Floats, variance: Floats, released: Ints | None
    ) -> pl.DataFrame:
        """One row for each place and answer."""
        import polars as pl

        deviation = np.where(self._possible(), np.sqrt(variance), 0.0)
        estimate = np.where(self._possible(), estimate, 0.0)
        low, high = ends(estimate, deviation, self._reach)
        known, labels = np.isfinite(deviation), self._labels()
        answers = estimate.shape[1]
        columns: dict[str, object] = {"place": np.repeat(np.array(places, dtype=str), answers)}
        columns |= {name: np.tile(values, len(places)) for name, values in labels.items()}
        columns |= {
            name: np.where(known, values, np.nan).reshape(-1)
            for name, values in (("estimate", estimate), ("deviation", deviation))
        }
        columns |= {"low": low.reshape(-1), "high": high.reshape(-1)}
        if released is not None:
            columns["released"] = released.reshape(-1)
        return pl.DataFrame(columns, nan_to_null=True)


def ends(estimate: Floats, deviation: Floats, reach: float) -> tuple[Floats, Floats]:
    """Ends of intervals: whole numbers of 0 or more, the high one infinite without a deviation.

    An interval between two whole numbers becomes the one that is nearest to the estimate.
    """
    low = np.ceil(estimate - reach * deviation - NEARLY)
    high = np.floor(estimate + reach * deviation + NEARLY)
    between, nearest = low > high, np.rint(estimate)
    low, high = np.where(between, nearest, low), np.where(between, nearest, high)
    return np.maximum(low, 0.0), np.maximum(high, 0.0)
