"""Errors of one release broken down by level, group and size, as sums that add up over releases.

A mean over several releases of a method is the quotient of two sums, so that sums are all that is
taken from a release: how many counts, how many people, and the errors in them. The counts are those
of one set (``headcount.evaluation.tally``) which does not depend on the release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.evaluation.answers import answers, counts_at, group_names
from headcount.evaluation.representation import SIZE_BANDS
from headcount.evaluation.tally import SUMS, CellSet, CountPairs, band_bounds, sums_by
from headcount.geography import Geography
from headcount.release import Release
from headcount.tabulate import CELLS, Counts, Query

COUNT_BANDS = (1, 10, 100, 1_000, 10_000)
"""Edges of the sizes of a count: nobody, 1 to 9 people, and so on."""
MOST_LARGEST = 20
EVERYONE, EVERY_CELL = "everyone", "every cell"
"""What stands for an attribute where people are not told apart, and where they are by all."""

_BANDED = {"low": pl.Int64, "high": pl.Int64, **SUMS}

_GROUP = {"level": pl.String, "attribute": pl.String, "group": pl.String}
_LARGEST = {
    **_GROUP,
    "unit": pl.String,
    "truth": pl.Float64,
    "released": pl.Float64,
    "error": pl.Float64,
}
_SPREAD = {
    "level": pl.String,
    "attribute": pl.String,
    "median": pl.Float64,
    "p95": pl.Float64,
    "largest": pl.Float64,
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Breakdown:
    """Errors of one release; computed from the truth, and as confidential.

    where
        by_place   a row for each level, attribute, group and band of people in the unit
        by_count   a row for each level, attribute and band of the true count itself
        spread     a row for each level and attribute: median, 95th percentile and largest error
        largest    the largest errors of all, with where they are

    The columns of sums are those of ``sums_by``. The last band is open: its ``high`` is null.
    """

    by_place: pl.DataFrame
    by_count: pl.DataFrame
    spread: pl.DataFrame
    largest: pl.DataFrame

    @classmethod
    def nothing(cls) -> Breakdown:
        """Of a release that has no counts to be compared."""
        return cls(
            by_place=pl.DataFrame(schema={**_GROUP, **_BANDED}),
            by_count=pl.DataFrame(schema={"level": pl.String, "attribute": pl.String, **_BANDED}),
            spread=pl.DataFrame(schema=_SPREAD),
            largest=pl.DataFrame(schema=_LARGEST),
        )


def break_down(
    counts: Counts,
    release: Release,
    *,
    cells: CellSet = "all",
    edges: Sequence[int] = SIZE_BANDS,
) -> Breakdown:
    """Compare released with exact counts: totals, each attribute and every cell, at all levels."""
    schema, geography = release.schema, release.geography
    places, sizes, spread, largest = [], [], [], []
    for level in geography.levels:
        band = np.searchsorted(edges, counts_at(counts, level).totals(), side="right")
        for query, pairs in answers(counts, release, level, cells):
            if not pairs.n:
                continue
            attribute = attribute_of(query)
            # All cells are one group, because they are too many.
            names = group_names(query, schema) if len(query.by) == 1 else [attribute]
            about = {"level": level, "attribute": attribute}
            place = _by_place(pairs, band, groups=len(names), edges=edges)
            places += [{**about, "group": names[group], **row} for group, row in place]
            sizes += [{**about, **row} for row in _by_count(pairs)]
            found = pairs.summary()
            spread.append(
                {
                    **about,
                    "median": found.median_absolute,
                    "p95": found.p95_absolute,
                    "largest": found.max_absolute,
                }
            )
            if query.name != CELLS:
                largest += [{**about, **row} for row in _largest(pairs, names, geography, level)]
    top = pl.DataFrame(largest, schema=_LARGEST).sort(
        pl.col("error").abs(), descending=True, maintain_order=True
    )
    nothing = Breakdown.nothing()
    return Breakdown(
        by_place=pl.DataFrame(places, schema=nothing.by_place.schema),
        by_count=pl.DataFrame(sizes, schema=nothing.by_count.schema),
        spread=pl.DataFrame(spread, schema=_SPREAD),
        largest=top.head(MOST_LARGEST),
    )


def attribute_of(query: Query) -> str:
    """What tells the groups of a query apart."""
    if query.name == CELLS:
        return EVERY_CELL
    return query.name if query.by else EVERYONE


def _by_place(
    pairs: CountPairs, band: Ints, *, groups: int, edges: Sequence[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Sums by group and by people in the unit; bands without a unit are left out."""
    columns, bands = pairs.shape[1], len(edges) + 1

    def key_of(place: Ints) -> Ints:
        group = place % columns if groups > 1 else np.zeros_like(place)
        found: Ints = group * bands + band[place // columns]
        return found

    every, keys = None, groups * bands
    if pairs.cells == "all":
        units = np.bincount(band, minlength=bands) * (1 if groups > 1 else columns)
        every = np.tile(units, groups) - np.bincount(key_of(pairs.missing), minlength=keys)
    for number, row in _rows(sums_by(pairs, key_of(pairs.place), keys=keys, counts=every)):
        yield number // bands, {**band_bounds(number % bands, edges), **row}


def _by_count(pairs: CountPairs) -> Iterator[dict[str, Any]]:
    """Sums by the true count; counts that are zero on both sides are in the first band."""
    key = np.searchsorted(COUNT_BANDS, pairs.truth, side="right")
    for number, row in _rows(sums_by(pairs, key, keys=len(COUNT_BANDS) + 1)):
        yield {**band_bounds(number, COUNT_BANDS), **row}


def _rows(sums: Mapping[str, NDArray[Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The classes that have any counts, by number."""
    for number in np.flatnonzero(sums["counts"]).tolist():
        yield number, {name: column[number].item() for name, column in sums.items()}


def _largest(
    pairs: CountPairs, names: Sequence[str], geography: Geography, level: str
) -> Iterator[dict[str, Any]]:
    error = pairs.residuals()
    most = min(MOST_LARGEST, error.size)
    top = np.argpartition(-np.abs(error), most - 1)[:most] if most else np.empty(0, dtype=np.int64)
    for at in top[error[top] != 0].tolist():
        unit, group = divmod(int(pairs.place[at]), pairs.shape[1])
        yield {
            "group": names[group],
            "unit": str(geography.units[geography.depth(level)][unit]),
            "truth": float(pairs.truth[at]),
            "released": float(pairs.released[at]),
            "error": float(error[at]),
        }
