"""Intervals for any count, from published measurements alone.

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

Intervals of a level are made a few units at a time, so that no level needs to fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from headcount.arrays import Floats
from headcount.errors import ConfigError
from headcount.geography.spine import NamedArea
from headcount.release import CountsRelease
from headcount.run._published import published_start
from headcount.topdown.accuracy import EXACT
from headcount.topdown.from_measurements import PublishedStart
from headcount.topdown.place_estimates import Estimated, MeasuredTree, PlaceEstimates

if TYPE_CHECKING:
    import polars as pl

NEARLY = 1e-9
"""Ends that miss a whole number by less are on it: exact counts come from sums of floats."""


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
