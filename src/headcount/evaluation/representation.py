"""How well a release represents small groups: smoothed divergence, squared error, lost people.

After Christ, Radway & Bellovin (2022, 2.1 and 4.4). Every function takes group counts, groups on
the last axis: the truth of some areas (areas x groups) and one or more releases of them
(..., areas x groups). ``only`` limits a metric to some groups: a flag for each group of each area.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import InputError
from headcount.evaluation._base import LEVEL, Metric, Truth, needs, publishes_counts
from headcount.evaluation.tally import band_bounds
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.release.layout import LevelTable
from headcount.report.figures import Axis, Control, line_chart
from headcount.report.finding import Finding, Support
from headcount.report.model import Column, Figure
from headcount.schema import Schema
from headcount.tabulate import Counts, Query
from headcount.tabulate.codings import find_attribute

MU = 1e-4
MINORITY = 0.1
UNDER = 0.75
"""The paper's smoothing, its share below which a group is a minority, and its bound of loss."""
SIZE_BANDS = (100, 1_000, 10_000, 100_000)
"""Edges of area sizes in people, where nobody names others."""
ANSWERS_AT_ONCE = 1 << 22
"""Groups of people of some areas that are compared at once."""
Row: TypeAlias = dict[str, Any]
HISPANIC_BY_RACE = Query("hispanic x race", ("hispanic", "race"))


_WORDS = {
    "kl": "divergence of shares (nats)",
    "mse": "squared error (people²)",
    "underallocated": "groups that lost people (per area)",
}
_COLUMNS = (
    LEVEL,
    Column(key="metric", label="Metric"),
    Column(key="group", label="Groups"),
    Column(key="people", label="People in the area"),
    Column(key="areas", label="Areas", format=",d"),
    Column(key="mean", label="Mean", format=",.4g"),
    Column(key="sd", label="Standard deviation", format=",.4g"),
)


@dataclass(frozen=True, kw_only=True)
class Representation(Metric):
    """Divergence, squared error and lost people of groups by race and origin, by size of area."""

    name = "representation"
    reads_estimates = True
    order = 20
    smoothing: float = MU
    minority_below: float = MINORITY
    under: float = UNDER

    def supports(self, release: Release, truth: Truth) -> Support:
        """Counts by race and origin, or by what a schema says to be sensitive."""
        if (found := needs(publishes_counts, below_the_whole=True)(release, truth)) and not _groups(
            release.schema
        ):
            return Support("the schema has no attribute race and hispanic ([roles] race, origin)")
        return found

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """Every metric at every level below the whole, by size of area."""
        by = _groups(release.schema)
        query = HISPANIC_BY_RACE if by == ("hispanic", "race") else Query(" x ".join(by), by)
        levels = release.geography.levels[1:]
        tables = [
            _represent(
                truth.counts,
                release.table(level),
                level=level,
                query=query,
                by=self,
                bands=SIZE_BANDS,
            )
            for level in progress(levels, what="Representation", total=len(levels))
        ]
        names = " and ".join(by)
        return _Represented(table=pl.concat(tables), by=self, levels=levels, groups=names)


def _groups(schema: Schema) -> tuple[str, ...]:
    """Attributes that groups are made of: what is sensitive, or else origin and race; or none."""
    if schema.attacker.sensitive:
        return schema.attacker.sensitive
    found = [find_attribute(schema, role) for role in ("hispanic", "race")]
    names = tuple(one.name for one in found if one is not None)
    return names if len(names) == len(found) else ()


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Represented(Finding):
    """A row for each level, metric, kind of group and band of area sizes."""

    name: str = Representation.name
    title: str = "How small groups fare"
    index: tuple[str, ...] = ("level", "metric", "group", "low", "high", "areas")
    value: str = "mean"
    value_words: str = "representation of small groups, mean over areas"
    caption: str = "Metrics of representation by level and size of area."
    table_name: str = Representation.name
    folded: bool = True

    by: Representation
    levels: tuple[str, ...]
    groups: str

    def explain(self) -> str:
        """What the three metrics are."""
        return (
            f"People are grouped by {self.groups}, area by area. *Divergence* is the "
            "Kullback-Leibler divergence of the released shares of an area from the true ones, "
            f"smoothed by {self.by.smoothing:g}, in nats: 0 where the shares agree. *Squared "
            "error* is the mean over groups of (released - exact)², in people squared. *Groups "
            f"that lost people* are released at {100 * self.by.under:g} % of their size or less. "
            f"*Minorities* are groups below {100 * self.by.minority_below:g} % of their area. "
            "Answers below 0 are taken as 0. Means and standard deviations are over areas of one "
            "release, not over new noise, and areas where nobody lives are left out."
        )

    def figure(self) -> Figure:
        """Means by size of area; the metric and the level are chosen by the reader."""
        shown = self.shown()
        bands = tuple(dict.fromkeys(shown.sort("low")["people"].to_list()))
        return Figure(
            name="representation-by-size",
            caption="Representation of groups by race and origin, by number of people in the area.",
            alt="Mean of a representation metric by size of area, for everyone and for minorities",
            chart=line_chart(
                shown,
                x=Axis(column="people", title="People in the area", names=bands),
                y=Axis(column="mean", title="Mean over areas", zero=True),
                series="group",
                points=True,
                controls=(
                    Control(column="metric", label="Metric"),
                    Control(column="level", label="Level", initial=self.levels[-1]),
                ),
            ),
        )

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        return _COLUMNS

    def shown(self) -> pl.DataFrame:
        """Metrics and sizes of areas in words."""
        high = pl.col("high").cast(pl.Int64)
        return self.table.with_columns(
            pl.col("mean", "sd").fill_nan(None),
            metric=pl.col("metric").replace(_WORDS),
            people=pl.when(high.is_null())
            .then(pl.format("{} or more", "low"))
            .otherwise(pl.format("{} to {}", "low", high - 1)),
        )


def _represent(
    counts: Counts,
    released: LevelTable,
    *,
    level: str,
    query: Query = HISPANIC_BY_RACE,
    by: Representation | None = None,
    bands: Sequence[int] = (),
) -> pl.DataFrame:
    """Metrics of a release's cells (units of a level x cells), by metric, group and size band.

    The answers to ``query`` are summed first and clipped at 0 after that. Units where nobody
    lives are left out. ``bands`` are the edges of size bands, in people of a unit.
    """
    answer = query.matrix(counts.schema)
    truth = counts.at(level).matrix
    step = max(1, ANSWERS_AT_ONCE // answer.shape[1])
    people: list[Ints] = []
    found: dict[tuple[str, str], list[Floats]] = {}
    for first in range(0, truth.shape[0], step):
        some = slice(first, first + step)
        exact = np.asarray((truth[some] @ answer).toarray())
        asked = released[some] @ answer
        made = np.maximum(asked if isinstance(asked, np.ndarray) else asked.toarray(), 0)
        lived_in = exact.sum(axis=1) > 0
        exact, made = exact[lived_in], made[lived_in]
        people.append(exact.sum(axis=1))
        for name, values in metrics(exact, made, by=by).items():
            found.setdefault(name, []).append(values)
    rows = []
    for (metric, group), pieces in found.items():
        for band in _size_bands(np.concatenate(people), np.concatenate(pieces), edges=bands):
            named = {"level": level, "query": query.name, "metric": metric, "group": group}
            rows.append({**named, **band})
    if not rows:
        raise InputError("representation", found="no people", expected="at least one person")
    # Without a type, an open last band on its own would be a column of nothing.
    return pl.DataFrame(rows, schema_overrides={"high": pl.Int64})


def metrics(
    truth: ArrayLike, released: ArrayLike, *, by: Representation | None = None
) -> dict[tuple[str, str], Floats]:
    """Every metric, for everyone and for minorities, of each area of each release."""
    by = by or Representation()
    found: dict[tuple[str, str], Floats] = {}
    for group, only in (
        ("everyone", None),
        ("minorities", minorities(truth, below=by.minority_below)),
    ):
        found["kl", group] = smoothed_kl(truth, released, mu=by.smoothing, only=only)
        found["mse", group] = _mean_squared_error(truth, released, only=only)
        found["underallocated", group] = _underallocated(
            truth, released, at_most=by.under, only=only
        ).astype(np.float64)
    return found


def minorities(truth: ArrayLike, *, below: float = MINORITY) -> Flags:
    """Which groups hold less than this share of their area, groups of nobody included."""
    counts = np.asarray(truth, dtype=np.float64)
    if not 0 < below <= 1:
        raise InputError(
            "representation", place="below", found=f"{below}", expected="above 0, at most 1"
        )
    return np.asarray(counts < below * counts.sum(axis=-1, keepdims=True))


def smoothed_kl(
    truth: ArrayLike, released: ArrayLike, *, mu: float = MU, only: ArrayLike | None = None
) -> Floats:
    """The mu-smoothed Kullback-Leibler divergence of released from true shares, in nats.

        D(P || Q) = sum over x with P(x) > 0 of (P(x) + mu) log((P(x) + mu) / (Q(x) + mu))

    where
        P, Q   true and released shares of the groups of an area; negative counts must have been
               set to 0. If nothing is released at all, Q is 0 everywhere.
        mu     smoothing above 0: the smaller, the more small groups weigh

    Definition 2 of the paper, after Tantipongpipat et al. (2019). It can fall below 0, because
    groups that are empty in truth do not count.
    """
    if not mu > 0:
        raise InputError("smoothed KL", place="mu", found=f"{mu}", expected="above 0")
    exact, made = _sides(truth, released)
    if made.size and made.min() < 0:
        raise InputError(
            "smoothed KL", place="released", found="a count below 0", expected="0 or more"
        )
    p, q = _shares(exact) + mu, _shares(made) + mu
    counted = exact > 0 if only is None else (exact > 0) & np.asarray(only)
    return np.asarray(np.where(counted, p * np.log(p / q), 0.0).sum(axis=-1))


def _mean_squared_error(
    truth: ArrayLike, released: ArrayLike, *, only: ArrayLike | None = None
) -> Floats:
    """The mean of (released - true)^2 over the groups of an area, in people squared.

    Groups of nobody count: phantom people are errors too. Not a number where ``only`` leaves none.
    """
    exact, made = _sides(truth, released)
    squared = np.square(made - exact)
    if only is None:
        return np.asarray(squared.mean(axis=-1))
    chosen = np.broadcast_to(np.asarray(only), squared.shape)
    groups = chosen.sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(chosen, squared, 0.0).sum(axis=-1) / groups)


def _underallocated(
    truth: ArrayLike, released: ArrayLike, *, at_most: float = UNDER, only: ArrayLike | None = None
) -> Ints:
    """How many groups of an area are released at or below this share of their true size.

    Groups of nobody cannot lose anyone and never count.
    """
    if not 0 <= at_most < 1:
        raise InputError(
            "underallocation", place="at_most", found=f"{at_most}", expected="0 to below 1"
        )
    exact, made = _sides(truth, released)
    lost = (exact > 0) & (made <= at_most * exact)
    if only is not None:
        lost &= np.asarray(only)
    return np.asarray(lost.sum(axis=-1, dtype=np.int64))


def _size_bands(people: ArrayLike, values: ArrayLike, *, edges: Sequence[int] = ()) -> list[Row]:
    """A metric in each band of area sizes, low <= people < high, that has areas.

    The last ``high`` is None. Gives the number of areas, the mean and the standard deviation.

    where
        people   true size of each area
        values   the metric of each area, areas on the last axis; NaN is left out
        edges    rising sizes that part the bands; without any there is one band

    With one value in a band its standard deviation is not a number.
    """
    size, metric = np.asarray(people), np.asarray(values, dtype=np.float64)
    if metric.shape[-1:] != size.shape:
        raise InputError(
            "size bands",
            place="values",
            found=f"shape {metric.shape}",
            expected=f"... x {len(size)} areas",
        )
    if any(a >= b for a, b in itertools.pairwise(edges)) or any(e < 1 for e in edges):
        raise InputError(
            "size bands", place="edges", found=f"{list(edges)}", expected="rising sizes above 0"
        )
    which = np.searchsorted(np.asarray(edges, dtype=np.int64), size, side="right")
    found = []
    for band in range(len(edges) + 1):
        some = metric[..., which == band]
        real = some[~np.isnan(some)]
        if not (which == band).any():
            continue
        found.append(
            {
                **band_bounds(band, edges),
                "areas": int((which == band).sum()),
                "mean": float(real.mean()) if real.size else float("nan"),
                "sd": float(real.std(ddof=1)) if real.size > 1 else float("nan"),
            }
        )
    return found


def _sides(truth: ArrayLike, released: ArrayLike) -> tuple[Floats, Floats]:
    exact = np.asarray(truth, dtype=np.float64)
    made = np.asarray(released, dtype=np.float64)
    if exact.shape != made.shape[made.ndim - exact.ndim :]:
        raise InputError(
            "representation",
            place="released",
            found=f"shape {made.shape}",
            expected=f"... x {exact.shape}",
        )
    return exact, made


def _shares(counts: Floats) -> Floats:
    total = counts.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(counts, total, out=np.zeros_like(counts), where=total != 0))
