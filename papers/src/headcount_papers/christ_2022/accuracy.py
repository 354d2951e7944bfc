"""How well each release represents groups: the rows of ``accuracy.csv``.

Two queries are scored: people by Hispanic origin and race, and the four attributes of the noisy
histogram. A minority is a group of Hispanic origin by race below 10 % of its area, in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.evaluation.representation import (
    HISPANIC_BY_RACE,
    MU,
    metrics,
    minorities,
    smoothed_kl,
)
from headcount_papers.christ_2022.cases import noise_cases, released_cells
from headcount_papers.christ_2022.people import Area
from headcount_papers.christ_2022.rates import AreaSwaps, SwappedArea
from headcount_papers.christ_2022.settings import AGES, BUCKETS, DP, FOUR, MUS, RACE, Grid
from headcount_papers.histogram import Clip, answers, coarsen, histogram_query

COLUMNS: dict[str, Any] = {
    "county": pl.String,
    "draw": pl.Int64,
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
    "reading": pl.String,
}
CLIPS: tuple[Clip, ...] = ("query", "cell")
SHORT = 6
"""Attributes of a person, tenure among them; figure 13 has 15."""


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a table, in the promised order of columns."""
    return pl.DataFrame(rows, schema=COLUMNS)


def score_swaps(
    area: Area,
    swaps: AreaSwaps,
    grid: Grid,
    *,
    mechanism: str,
    attributes: int = SHORT,
    reading: str = "",
) -> pl.DataFrame:
    """Every metric of one swapper, at every rate."""
    truth, rows = area.truth(), []
    four = FourAttributes(area, BUCKETS[0]) if attributes == SHORT else None
    for rate in grid.rates:
        made = swaps.at(rate)
        about = {"mechanism": mechanism, "parameter": float(rate), "reading": reading}
        counts = made.counts(area.group(made.records), area.groups)
        for row in race_rows(truth, counts, mus=mechanism == "0-similar"):
            rows.append({**about, **row})
        for row in four.rows(four.count(made)) if four else ():
            rows.append({**about, "buckets": BUCKETS[0], **row})
    shared = {"county": area.name, "draw": area.draw, "attributes": attributes}
    return frame([{**shared, **row} for row in rows])


def score_noise(area: Area, buckets: int, grid: Grid, *, seed: int) -> pl.DataFrame:
    """Every metric of the noisy histogram with so many age buckets, at every epsilon.

    The same noisy cells are read in both ways: clipped after they were summed, and before.
    """
    query, truth, rows = FourAttributes(area, buckets), area.truth(), []
    for case in noise_cases(grid.epsilons, runs=grid.runs):
        cells = released_cells(case, query.counts, seed=seed)
        for clip in CLIPS:
            made = answers(cells, query.counts.schema, HISPANIC_BY_RACE, clip=clip)
            mus = buckets == BUCKETS[0] and clip == "query"
            for row in race_rows(truth, made, mus=mus):
                rows.append({**case.columns, "clip": clip, **row})
        for row in query.rows(np.maximum(cells, 0)) if buckets == BUCKETS[0] else ():
            # Each answer is one cell, so that both ways to clip are the same.
            rows.append({**case.columns, "clip": "query = cell", **row})
    shared = {"county": area.name, "draw": area.draw, "mechanism": DP, "buckets": buckets}
    return frame([{**shared, "attributes": SHORT, "reading": "", **row} for row in rows])


def race_rows(truth: Ints, made: Ints, *, mus: bool) -> Iterator[dict[str, Any]]:
    """Metrics of people by Hispanic origin and race; KL at the other mus where asked for."""
    for (metric, group), values in metrics(truth, made).items():
        yield summary(values, query=RACE, group=group, metric=metric)
    for mu in MUS if mus else ():
        if mu != MU:
            values = smoothed_kl(truth, made, mu=mu)
            yield {**summary(values, query=RACE, group="everyone", metric="kl"), "mu": mu}


def summary(values: Floats, *, query: str, group: str, metric: str) -> dict[str, Any]:
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

    def count(self, made: SwappedArea) -> Ints:
        """People of each cell in each run."""
        rows = made.records
        bucket = np.minimum(rows["age"] // self._width, self._buckets - 1)
        own = [bucket, rows["hispanic"], rows["race"]]
        own += [rows["household_size"]] if "household_size" in rows else []
        return made.counts(np.ravel_multi_index(own, self.counts.schema.shape), self.size)

    def rows(self, made: Ints) -> Iterator[dict[str, Any]]:
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
