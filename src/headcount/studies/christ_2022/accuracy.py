"""How well each release represents groups: the rows of ``accuracy.csv``.

Two queries are scored: people by Hispanic origin and race, and the four attributes of the noisy
histogram. A minority is a group of Hispanic origin by race below 10 % of its area, in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.evaluate.representation import (
    MU,
    metrics,
    minorities,
    smoothed_kl,
)
from headcount.mechanisms.histogram import Clip, draw_sums
from headcount.studies.christ_2022.people import Area, Codes
from headcount.studies.christ_2022.settings import (
    AGES,
    BUCKETS,
    DP,
    FOUR,
    MUS,
    RACE,
    Settings,
)
from headcount.studies.christ_2022.swapped import Swapped, stream

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
Row = dict[str, Any]

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
    swapped: Swapped, settings: Settings, *, mechanism: str, four: bool = True, attributes: int = 6
) -> pl.DataFrame:
    """Every metric of one swapper, at every rate."""
    area = swapped.area
    truth, rows = area.truth(), []
    cells = {buckets: FourAttributes(area, buckets) for buckets in (BUCKETS if four else ())}
    for rate in settings.swap_rates():
        made, _ = swapped.at(rate)
        about = {"mechanism": mechanism, "parameter": float(rate)}
        counts = _counts(area.group(made), area.groups)
        for row in race_rows(truth, counts, mus=mechanism == "0-similar"):
            rows.append({**about, **row})
        for buckets, query in cells.items():
            for row in query.rows(query.count(made)):
                rows.append({**about, "buckets": buckets, **row})
    return frame([{"county": area.name, "attributes": attributes, **row} for row in rows])


def score_noise(area: Area, buckets: int, settings: Settings) -> pl.DataFrame:
    """Every metric of the noisy histogram with so many age buckets, at every epsilon."""
    rng = stream(settings.seed, area.name, DP, str(buckets))
    query, truth, rows = FourAttributes(area, buckets), area.truth(), []
    cells = query.by_group()
    for epsilon in settings.promises():
        for clip in CLIPS:
            made = draw_sums(cells, epsilon=epsilon, clip=clip, draws=settings.replicates, rng=rng)
            mus = buckets == BUCKETS[0] and clip == "query"
            for row in race_rows(truth, made, mus=mus):
                rows.append({"parameter": epsilon, "clip": clip, **row})
        noisy = query.draw(epsilon, settings.replicates, rng)
        for row in query.rows(noisy):
            # Each answer is one cell, so that both ways to clip are the same.
            rows.append({"parameter": epsilon, "clip": "query = cell", **row})
    shared = {"county": area.name, "mechanism": DP, "buckets": buckets, "attributes": SHORT}
    return frame([{**shared, **row} for row in rows])


def race_rows(truth: Numbers, made: Numbers, *, mus: bool) -> Iterator[Row]:
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
    """People of an area by age bucket x Hispanic x race x household size, counted and scored."""

    def __init__(self, area: Area, buckets: int) -> None:
        self._area, self._buckets = area, buckets
        self._width = AGES // buckets
        self.size = area.groups * buckets * area.sizes
        self._truth = np.bincount(self._cell(area.rows), minlength=self.size)
        self._lived_in = np.flatnonzero(self._truth)
        self._group = self._lived_in // (buckets * area.sizes)
        few = minorities(area.truth())
        self._only = {"everyone": np.ones(area.groups, dtype=bool), "minorities": few}

    def _cell(self, rows: Codes) -> Numbers:
        """Cells of one group stand together."""
        bucket = np.minimum(rows["age"] // self._width, self._buckets - 1)
        cell = self._area.group(rows) * self._buckets + bucket
        household = rows.get("household_size")
        return cell if household is None else cell * self._area.sizes + household

    def count(self, rows: Codes) -> Numbers:
        """People of each cell in each replicate."""
        return _counts(self._cell(rows), self.size)

    def by_group(self) -> Numbers:
        """True counts, groups x cells of a group."""
        return self._truth.reshape(self._area.groups, -1)

    def draw(self, epsilon: float, draws: int, rng: np.random.Generator) -> Numbers:
        """Noisy counts of all cells, clipped at 0.

        Most cells are empty, and their noise X matters only above 0: Pr[X >= k] is
        a^k / (1 + a) for k >= 1, where a = exp(-epsilon), so that one uniform number tells.
        """
        a = np.exp(-epsilon)
        chance = rng.random((draws, self.size))
        made = np.zeros(chance.shape, dtype=np.int64)
        above = chance < a / (1 + a)
        made[above] = np.ceil(-np.log(chance[above] * (1 + a)) / epsilon) - 1
        size = (draws, len(self._lived_in))
        noise = rng.geometric(1 - a, size) - rng.geometric(1 - a, size)
        made[:, self._lived_in] = np.maximum(self._truth[self._lived_in] + noise, 0)
        return made

    def rows(self, made: Numbers) -> Iterator[Row]:
        """KL and squared error, for everyone and for minorities.

        Cells where nobody lives are not told apart: for KL all of them are one cell, for the
        squared error their squares are summed by group.
        """
        lived, truth = made[:, self._lived_in], self._truth[self._lived_in]
        elsewhere = made.sum(axis=1) - lived.sum(axis=1)
        short, true = np.column_stack([lived, elsewhere]), np.append(truth, 0)
        cells = made.reshape(len(made), self._area.groups, -1)
        squares = np.einsum("rgc,rgc->rg", cells, cells)
        error = np.square(lived - truth) - np.square(lived)
        for group, only in self._only.items():
            here = only[self._group]
            kl = smoothed_kl(true, short, only=np.append(here, False))
            yield summary(kl, query=FOUR, group=group, metric="kl")
            total = squares[:, only].sum(axis=1) + error[:, here].sum(axis=1)
            mse = total / (only.sum() * cells.shape[2])
            yield summary(mse, query=FOUR, group=group, metric="mse")


def _counts(number: Numbers, size: int) -> Numbers:
    """How often each number below ``size`` stands in each row."""
    replicates = len(number)
    flat = (number + np.arange(replicates)[:, None] * size).ravel()
    return np.bincount(flat, minlength=replicates * size).reshape(replicates, size)
