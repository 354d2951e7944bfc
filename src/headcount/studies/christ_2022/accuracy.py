"""How well each release represents groups: the rows of ``accuracy.csv``.

Two queries are scored: people by Hispanic origin and race, and the four attributes of the noisy
histogram. A minority is a group of Hispanic origin by race below 10 % of its area, in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Codes, Floats, Ints
from headcount.evaluate.representation import (
    HISPANIC_BY_RACE,
    MU,
    metrics,
    minorities,
    smoothed_kl,
)
from headcount.mechanisms import protect
from headcount.mechanisms.histogram import Clip, Histogram, answers, coarsen, histogram_query
from headcount.mechanisms.swapping.rates import AreaSwaps
from headcount.studies.christ_2022.people import AREA, Area
from headcount.studies.christ_2022.settings import (
    AGES,
    BUCKETS,
    DP,
    FOUR,
    MUS,
    RACE,
    UNIT,
    Settings,
)
from headcount.studies.christ_2022.swapped import noise_for
from headcount.studies.frame.claims import Row
from headcount.tabulate import Counts, Tabulated

COLUMNS: dict[str, Any] = {
    "county": pl.String,
    "mechanism": pl.String,
    "parameter": pl.Float64,
    "buckets": pl.Int64,
    "query": pl.String,
    "group": pl.String,
    "metric": pl.String,
    "mean": pl.Float64,
    "sd": pl.Float64,
    "mu": pl.Float64,
    "clip": pl.String,
    "attributes": pl.Int64,
}
CLIPS: tuple[Clip, ...] = ("query", "cell")
SHORT = 6
"""Attributes of a person, tenure among them; figure 13 has 15."""


def frame(rows: list[Row]) -> pl.DataFrame:
    """Rows as a table, in the promised order of columns."""
    return pl.DataFrame(rows, schema=COLUMNS)


def score_swaps(
    area: Area,
    swaps: AreaSwaps,
    settings: Settings,
    *,
    mechanism: str,
    four: bool = True,
    attributes: int = SHORT,
) -> pl.DataFrame:
    """Every metric of one swapper, at every rate."""
    truth, rows = area.truth(), []
    cells = {buckets: FourAttributes(area, buckets) for buckets in (BUCKETS if four else ())}
    for rate in settings.swap_rates():
        made, _ = swaps.at(rate)
        about = {"mechanism": mechanism, "parameter": float(rate)}
        counts = _counts(area.group(made), area.groups)
        for row in race_rows(truth, counts, mus=mechanism == "0-similar"):
            rows.append({**about, **row})
        for buckets, query in cells.items():
            for row in query.rows(query.count(made)):
                rows.append({**about, "buckets": buckets, **row})
    return frame([{"county": area.name, "attributes": attributes, **row} for row in rows])


def score_noise(area: Area, buckets: int, settings: Settings) -> pl.DataFrame:
    """Every metric of the noisy histogram with so many age buckets, at every epsilon.

    The same noisy cells are read in both ways: clipped after they were summed, and before.
    """
    query, truth, rows = FourAttributes(area, buckets), area.truth(), []
    for epsilon in settings.promises():
        cells = released_cells(query.counts, epsilon, settings)
        about = {"parameter": float(epsilon)}
        for clip in CLIPS:
            made = answers(cells, query.counts.schema, HISPANIC_BY_RACE, clip=clip)
            mus = buckets == BUCKETS[0] and clip == "query"
            for row in race_rows(truth, made, mus=mus):
                rows.append({**about, "clip": clip, **row})
        for row in query.rows(np.maximum(cells, 0)):
            # Each answer is one cell, so that both ways to clip are the same.
            rows.append({**about, "clip": "query = cell", **row})
    shared = {"county": area.name, "mechanism": DP, "buckets": buckets, "attributes": SHORT}
    return frame([{**shared, **row} for row in rows])


def released_cells(counts: Counts, epsilon: Fraction, settings: Settings) -> Ints:
    """Cells of the noisy histogram of one area, one release for each replicate."""
    mechanism, data = Histogram(epsilon=epsilon, unit=UNIT), Tabulated.of(counts)
    noise = noise_for(mechanism, data, settings)
    releases = (
        protect(data, mechanism, noise, run=run).at(AREA) for run in range(settings.replicates)
    )
    return np.concatenate(list(releases)).astype(np.int64)


def race_rows(truth: Ints, made: Ints, *, mus: bool) -> Iterator[Row]:
    """Metrics of people by Hispanic origin and race; KL at the other mus where asked for."""
    for (metric, group), values in metrics(truth, made).items():
        yield summary(values, query=RACE, group=group, metric=metric)
    for mu in MUS if mus else ():
        if mu != MU:
            values = smoothed_kl(truth, made, mu=mu)
            yield {**summary(values, query=RACE, group="everyone", metric="kl"), "mu": mu}


def summary(values: Floats, *, query: str, group: str, metric: str) -> Row:
    """Mean and standard deviation over replicates."""
    return {
        "query": query,
        "group": group,
        "metric": metric,
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)) if len(values) > 1 else None,
        "mu": MU if metric == "kl" else None,
    }


class FourAttributes:
    """People of an area by age bucket x Hispanic x race x household size, counted and scored.

    ``counts`` are their true numbers, on the schema of the noisy histogram.
    """

    def __init__(self, area: Area, buckets: int) -> None:
        self._area, self._buckets = area, buckets
        self._width = AGES // buckets
        everybody = area.alone()
        self.counts = coarsen(everybody, histogram_query(everybody.schema, buckets=buckets))
        schema = self.counts.schema
        self.size = schema.size
        self._truth = self.counts.dense()[0]
        self._lived_in = np.flatnonzero(self._truth)
        self._group_of = HISPANIC_BY_RACE.groups(schema)
        self._by_group = HISPANIC_BY_RACE.matrix(schema)
        few = minorities(area.truth())
        self._only = {"everyone": np.ones(area.groups, dtype=bool), "minorities": few}

    def count(self, rows: Codes) -> Ints:
        """People of each cell in each replicate."""
        bucket = np.minimum(rows["age"] // self._width, self._buckets - 1)
        own = [bucket, rows["hispanic"], rows["race"]]
        own += [rows["household_size"]] if "household_size" in rows else []
        return _counts(np.ravel_multi_index(own, self.counts.schema.shape), self.size)

    def rows(self, made: Ints) -> Iterator[Row]:
        """KL and squared error, for everyone and for minorities.

        Cells where nobody lives are not told apart: for KL all of them are one cell, for the
        squared error their squares are summed by group.
        """
        lived, truth = made[:, self._lived_in], self._truth[self._lived_in]
        elsewhere = made.sum(axis=1) - lived.sum(axis=1)
        short, true = np.column_stack([lived, elsewhere]), np.append(truth, 0)
        squares = np.square(made) @ self._by_group
        error = np.square(lived - truth) - np.square(lived)
        for group, only in self._only.items():
            here = only[self._group_of[self._lived_in]]
            kl = smoothed_kl(true, short, only=np.append(here, False))
            yield summary(kl, query=FOUR, group=group, metric="kl")
            total = squares[:, only].sum(axis=1) + error[:, here].sum(axis=1)
            mse = total / (only.sum() * (self.size // self._area.groups))
            yield summary(mse, query=FOUR, group=group, metric="mse")


def _counts(number: Ints, size: int) -> Ints:
    """How often each number below ``size`` stands in each row."""
    replicates = len(number)
    flat = (number + np.arange(replicates)[:, None] * size).ravel()
    return np.bincount(flat, minlength=replicates * size).reshape(replicates, size)
