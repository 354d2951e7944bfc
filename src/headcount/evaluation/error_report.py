"""Errors of a release by a parametric bootstrap from itself alone, and the report of them.

The release r stands in the place of the truth, and the method protects it B times, with fresh
noise each time. What comes out, a, is as far from r as r is from the truth, on average over many
counts: that is the parametric bootstrap of a release, the "approximate Monte Carlo" of the Census
Bureau (arXiv 2503.19714). No count of the truth is looked at.

Sums are taken over the counts of a class, S_i in run i of n_i counts. A mean is m = sum S_i / sum
n_i, and its standard error over runs is that of a ratio,

    sqrt(B / (B - 1) * sum (S_i - m n_i)^2) / sum n_i

and that of a root mean square error, by the delta method, that of the mean square over twice the
root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.evaluation._base import LEVEL, QUERY, by_level
from headcount.evaluation.answers import COUNT_BANDS, possible_answer
from headcount.evaluation.tally import CountPairs, band_bounds, pair_counts, sums_by
from headcount.geography import Geography
from headcount.release import Release
from headcount.report.figures import Axis, Control, line_chart
from headcount.report.finding import Finding
from headcount.report.model import (
    Block,
    Callout,
    Column,
    Figure,
    KeyNumber,
    KeyNumbers,
    Prose,
    Report,
    Section,
    Subheading,
    gather_provenance,
    table_from_frame,
)
from headcount.report.notebook import shown
from headcount.schema import Schema
from headcount.tabulate import Query
from headcount.tabulate.counts import CELLS

ALL, PUBLISHED, BEFORE, UNLIKE = "all", "published", "before", "unlike parent"
"""Classes of counts: everything; by the count that is published, a; by the count before noise, r;
and counts of a group that is most of its unit and few of the unit's parent."""
MOST, FEW = 0.5, 0.2
"""Such a group: at least this share of the unit, at most this share of the parent, before noise."""
FEW_UNITS = 200
"""In a level of fewer units than this an average over them is itself uncertain."""
UNITS_AT_ONCE = 1 << 18

ADDED = ("counts", "squared", "absolute", "signed")
"""What is taken of each class: see ``sums_by``."""
BANDS = len(COUNT_BANDS) + 1
CLASSES = (
    (ALL, 0),
    *((sizes, band) for sizes in (PUBLISHED, BEFORE) for band in range(BANDS)),
    (UNLIKE, 0),
)
COLUMNS: Mapping[str, Any] = {
    "level": pl.String,
    "query": pl.String,
    "sizes": pl.String,
    "low": pl.Int64,
    "high": pl.Int64,
    "units": pl.Int64,
    "counts": pl.Float64,
    "rmse": pl.Float64,
    "rmse_error": pl.Float64,
    "mae": pl.Float64,
    "mae_error": pl.Float64,
    "bias": pl.Float64,
    "bias_error": pl.Float64,
}
NO_LOSS = (
    "This costs no privacy. Nothing but published files was used: the release, the settings in "
    "its receipt, and its measurements where these are published. So nothing is spent and no "
    "ledger is touched. The noise comes from an ordinary seeded generator (seed {seed}): it "
    "protects nobody here, and anyone gets the same report from the same seed."
)
UNDERSTATED = (
    "**Bias is understated in small areas.** The release has been made whole and non-negative once "
    "already, and a second time changes less. On the blocks of Rhode Island, with rho 0.1, blocks "
    "where nobody lives came out 3.5 people too high on average, and the report on the release "
    "says 3.2; blocks with 100 people or more 5.3 too low, and it says 3.6."
)
SHRUNK = (
    "**Shrunk releases understate themselves.** Where counts are drawn towards each other, the "
    "release is smoother than the truth, and protecting it again looks easier than it was. On real "
    "counts with equal shares, predicted errors of topdown were within 5 % of the true ones at "
    "every level of 200 units or more. Where totals of blocks were hardly measured (shares like "
    "those of 2020), so that they are sums of small counts that cannot be negative, predicted "
    "errors of these totals were 10 to 13 % too small. Errors by the measurements do not have this "
    "fault."
)
BY_MEASUREMENTS = (
    "**By the measurements.** The release was made from noisy answers that are published. From "
    "these, and from how the release follows them when a little more noise is added, its mean "
    "squared error is worked out without taking anything else for the truth: on average that is "
    "right also where the release is biased. Its standard error (±) is over the units of the "
    "level. *Best* is the figure of the reruns, raised towards this one where it is larger: nearly "
    "to it where it is sure, less where it is not. Reruns understate errors where the release is "
    "smoother than the truth. Counts of which estimates are off by less than 4 people are left "
    "out: whole numbers hide how the release follows."
)
WITHOUT = "Measurements were not used: {why}. All figures are by reruns."
AVERAGES = (
    "**These are averages over many counts**, never a statement about one count. Levels of fewer "
    f"than {FEW_UNITS} units are too few for a good average, whatever their standard error: that "
    "is of the reruns alone."
)
ABOUT = (
    "Errors are those of the protected table against the table before protection. Who was missed "
    "or counted twice by the census is another matter."
)
_ERRORS = (
    Column(key="units", label="Units", format=",d"),
    Column(key="counts", label="Counts", format=",.0f"),
    Column(key="rmse", label="RMSE", unit="people", format=",.2f"),
    Column(key="rmse_error", label="±", format=",.2f"),
    Column(key="mae", label="Mean error", unit="people", format=",.2f"),
    Column(key="bias", label="Bias", unit="people", format="+,.2f"),
    Column(key="bias_error", label="±", format=",.2f"),
)
_SIZE = Column(key="size", label="Count")
_MEASURED = (
    Column(key="rmse", label="RMSE by reruns", unit="people", format=",.2f"),
    Column(key="rmse_error", label="±", format=",.2f"),
    Column(key="measured", label="RMSE by measurements", unit="people", format=",.2f"),
    Column(key="measured_error", label="±", format=",.2f"),
    Column(key="best", label="Best", unit="people", format=",.2f"),
    Column(key="best_error", label="±", format=",.2f"),
    Column(key="best_by", label="By"),
)


@dataclass(eq=False)
class ReleaseErrors:
    """Sums of errors by level, query and class of counts, run after run.

    where
        queries   what is asked, by name: columns of answers that can hold anyone
        before    tables that stand in the place of the truth, by level
    """

    schema: Schema
    geography: Geography
    queries: Sequence[Query]
    before: Mapping[str, Any]
    _runs: list[Floats] = field(default_factory=list)
    _unlike_at: dict[tuple[str, str], Ints] = field(default_factory=dict)

    def add(self, made: Mapping[str, Any]) -> None:
        """Add a run: its tables by level."""
        found = [
            self._sums(level, query, made[level])
            for level in self.geography.levels
            for query in self.queries
        ]
        self._runs.append(np.concatenate(found))

    def _keys(self) -> list[tuple[str, str, str, int]]:
        return [
            (level, query.name, sizes, band)
            for level in self.geography.levels
            for query in self.queries
            for sizes, band in CLASSES
        ]

    def _sums(self, level: str, query: Query, made: Any) -> Floats:
        """Counts, and sums of errors, of every class; some units at a time."""
        answer = possible_answer(query, self.schema)
        if (level, query.name) not in self._unlike_at:  # the same in every run
            self._unlike_at[level, query.name] = self._unlike(level, answer)
        unlike = self._unlike_at[level, query.name]
        found = np.zeros((len(CLASSES), len(ADDED)))
        for first in range(0, made.shape[0], UNITS_AT_ONCE):
            some = slice(first, first + UNITS_AT_ONCE)
            pairs = pair_counts(self.before[level][some] @ answer, made[some] @ answer)
            published, before = (
                np.searchsorted(COUNT_BANDS, value, side="right")
                for value in (pairs.released, pairs.truth)
            )
            own = np.isin(pairs.place + first * answer.shape[1], unlike)
            found += np.concatenate(
                [
                    _added(pairs, np.zeros_like(pairs.place), keys=1),
                    _added(pairs, published, keys=BANDS),
                    _added(pairs, before, keys=BANDS),
                    _added(pairs, own.astype(np.int64), keys=2)[1:],
                ]
            )
        return found

    def _unlike(self, level: str, answer: Any) -> Ints:
        """Positions of counts of groups that are most of their unit and few of its parent."""
        if not (depth := self.geography.depth(level)) or answer.shape[1] == 1:
            return np.zeros(0, dtype=np.int64)
        own = (self.before[level] @ answer).tocoo()
        unit, group = own.coords
        parent = self.geography.parents[depth][unit]
        above = self.before[self.geography.levels[depth - 1]] @ answer
        most = own.data >= MOST * own.sum(axis=1)[unit]
        few = np.asarray(above.tocsr()[parent, group]) <= FEW * above.sum(axis=1)[parent]
        found: Ints = (unit.astype(np.int64) * answer.shape[1] + group)[most & few]
        return found

    def table(self) -> pl.DataFrame:
        """A row for each level, query and class that has any counts; errors are in people.

        ``counts`` is the mean number over runs; ``..._error`` are standard errors over runs.
        """
        runs = np.stack(self._runs)  # run x key x sum
        rows = []
        for key, sums in zip(self._keys(), runs.transpose(1, 0, 2), strict=True):
            level, query, sizes, band = key
            if (n := sums[:, 0]).any():
                bands = band_bounds(band, COUNT_BANDS) if sizes in (PUBLISHED, BEFORE) else {}
                about = {"level": level, "query": query, "sizes": sizes, **bands}
                size = {"units": self.geography.size(level), "counts": float(n.mean())}
                rows.append({**about, **size, **_means(n, sums[:, 1:])})
        return pl.DataFrame(rows, schema=dict(COLUMNS))


def _added(pairs: CountPairs, key: Ints, *, keys: int) -> Floats:
    """Classes x sums."""
    sums = sums_by(pairs, key, keys=keys)
    return np.stack([sums[name] for name in ADDED], axis=1).astype(np.float64)


def _means(n: Floats, sums: Floats) -> dict[str, float]:
    """Means over all runs, and their standard errors."""
    whole, runs = n.sum(), len(n)
    mean = sums.sum(axis=0) / whole
    off = sums - mean * n[:, None]
    error = np.sqrt(runs / (runs - 1) * np.square(off).sum(axis=0)) / whole
    root = float(np.sqrt(mean[0]))
    return {
        "rmse": root,
        "rmse_error": float(error[0] / (2 * root)) if root else 0.0,
        "mae": float(mean[1]),
        "mae_error": float(error[1]),
        "bias": float(mean[2]),
        "bias_error": float(error[2]),
    }


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ErrorReport(Finding):
    """Predicted errors of a release, by level, query and size; computed from no true count.

    where
        table    a row for each level, query and class of counts, as ``ReleaseErrors`` gives it
        levels   from the whole down
        runs     how often the release was protected again
        seed     of their noise
        without_measurements   why nothing was learnt from measurements; "" where it was
    """

    name: str = "release-errors"
    title: str = "How far off the counts are, by the release's own account"
    index: tuple[str, ...] = ("level", "query", "sizes", "low", "high")
    value: str = "rmse"
    value_words: str = "predicted root mean square error, in people"

    levels: tuple[str, ...]
    runs: int
    seed: int
    without_measurements: str = ""

    def __repr__(self) -> str:
        return f"<ErrorReport of {self.runs} runs, {self.table.height} rows>"

    def _repr_html_(self) -> str:
        note = f"Computed from published files alone, not from the truth. {self.explain()}"
        return shown(self.title, frames={"errors": self.shown()}, note=note)

    def shown(self) -> pl.DataFrame:
        """Errors of all counts of a level and query, without classes."""
        return self._named(ALL).drop("sizes", "low", "high")

    def _named(self, sizes: str) -> pl.DataFrame:
        """Rows of one kind of classes, the classes in words."""
        low, high = pl.col("low"), pl.col("high")
        whole = pl.when(low == 0).then(pl.lit("0")).otherwise(pl.format("{} and more", low))
        words = pl.when(low.is_null()).then(pl.lit("")).when(high.is_null() | (low == 0))
        size = words.then(whole).otherwise(pl.format("{} to {}", low, high - 1))
        return self.table.filter(sizes=sizes).with_columns(
            query=pl.col("query").replace({CELLS: "every cell"}), size=size
        )

    def explain(self) -> str:
        """What was done, and what the figures are."""
        return (
            "No true count was looked at. The release stood in the place of the truth, and the "
            f"same method with the same settings protected it {self.runs} times, with fresh noise. "
            "An error is a count of such a run minus that of the release, in people: on average "
            "over many counts, the release is about as far from the truth. *RMSE* is the root "
            "mean square error, *mean error* the mean size of errors, *bias* their mean; ± is the "
            f"standard error over the {self.runs} runs. Where everything is 0, the counts are "
            "published exactly."
        )

    def figure(self) -> Figure:
        """Errors by level."""
        return Figure(
            name="predicted-error-by-level",
            caption="**Predicted error by level.** Root mean square error of the release's counts, "
            "as it tells it itself.",
            alt="Predicted root mean square error by geographic level, one line per query",
            chart=line_chart(
                self._named(ALL),
                x=by_level(self.levels),
                y=Axis(column="rmse", title="Root mean square error (people)", zero=True),
                series="query",
                points=True,
            ),
        )

    def _by_size(self) -> Figure:
        rows = self._named(PUBLISHED)
        names = tuple(rows.sort("low")["size"].unique(maintain_order=True))
        return Figure(
            name="predicted-error-by-size",
            caption="**Predicted error by the published count**, at the level chosen.",
            alt="Predicted root mean square error by the size of the published count",
            chart=line_chart(
                rows,
                x=Axis(column="size", title="Published count (people)", names=names),
                y=Axis(column="rmse", title="Root mean square error (people)", zero=True),
                series="query",
                points=True,
                controls=(Control(column="level", label="Level", initial=self.levels[-1]),),
            ),
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """Errors of the finest cells, and of totals at each level that has many units."""
        rows = self._named(ALL).filter(pl.col("units") >= FEW_UNITS, pl.col("best") > 0)
        wanted = rows.filter(pl.col("query").is_in(["total", "every cell"]))
        return tuple(
            KeyNumber(
                value=f"{row['best']:,.3g}",
                unit="people",
                label=f"root mean square error of {row['query']} at {row['level']}",
            )
            for row in wanted.tail(4).iter_rows(named=True)
        )

    def blocks(self) -> tuple[Block, ...]:
        """Errors of all counts, then by size as published and before noise, then unlike ones."""
        by_size = (LEVEL, QUERY, _SIZE, *_ERRORS)
        found: list[Block] = [
            self.figure(),
            table_from_frame(
                self._named(ALL),
                name="errors",
                caption="Predicted errors by level and query, in people.",
                columns=(LEVEL, QUERY, *_ERRORS),
            ),
            *self._measured(),
            Subheading("By the size of the published count"),
            Prose(
                "A reader has a published count in hand: how far from the truth are counts that "
                "are published as this size?"
            ),
            self._by_size(),
            table_from_frame(
                self._named(PUBLISHED),
                name="by-published-size",
                caption="Predicted errors by the size of the published count.",
                columns=by_size,
                folded=True,
            ),
            Subheading("By the size of the count before noise"),
            Prose(
                "What happens to places of a size: are those where nobody lives counted too high, "
                "and large ones too low? Here the counts of the release stand for those before "
                f"noise. {UNDERSTATED}"
            ),
            table_from_frame(
                self._named(BEFORE),
                name="by-size-before",
                caption="Predicted errors by the size of the count before noise.",
                columns=by_size,
                folded=True,
            ),
        ]
        unlike = self._named(UNLIKE)
        if unlike.height:
            found += [
                Subheading("Places unlike their parent"),
                Prose(
                    f"Counts of a group that is {MOST:.0%} or more of a place, and at most "
                    f"{FEW:.0%} of the place above it, in the release. Whatever draws a place "
                    "towards the one above hurts these most."
                ),
                table_from_frame(
                    unlike,
                    name="unlike-parent",
                    caption="Predicted errors where a place is unlike its parent.",
                    columns=(LEVEL, QUERY, *_ERRORS),
                ),
            ]
        return tuple(found)

    def _measured(self) -> tuple[Block, ...]:
        """Errors by the measurements beside those by reruns, where there are any."""
        if self.without_measurements:
            return (Prose(WITHOUT.format(why=self.without_measurements)),)
        return (
            Subheading("By the measurements"),
            Prose(BY_MEASUREMENTS),
            table_from_frame(
                self._told(),
                name="by-measurements",
                caption="Root mean square errors by the measurements and by reruns, in people.",
                columns=(LEVEL, QUERY, *_MEASURED),
            ),
        )

    def _told(self) -> pl.DataFrame:
        """Rows of all counts of which the measurements tell the error."""
        return self._named(ALL).filter(pl.col("measured").is_not_null())

    def terminal(self) -> Mapping[str, pl.DataFrame]:
        """Errors of all counts by level and query."""
        columns = ["level", "query", "rmse", "rmse_error", "mae", "bias", "bias_error"]
        found = {"predicted errors, in people": self._named(ALL).select(columns)}
        if not self.without_measurements:
            of_measured = ["level", "query", *(one.key for one in _MEASURED)]
            found["root mean square errors by the measurements, in people"] = self._told().select(
                of_measured
            )
        return found

    def notes(self) -> str:
        """What a reader of the short table must know."""
        return (
            "From published files alone: the release was protected again "
            f"{self.runs} times as if it were the truth. Bias is understated in small areas, and "
            "releases that are shrunk understate all errors. "
            f"{self._said_of_measurements()} No privacy is spent."
        )

    def _said_of_measurements(self) -> str:
        if self.without_measurements:
            return WITHOUT.format(why=self.without_measurements)
        return "Errors by the measurements are right on average also where the release is biased."

    def report(self, release: Release, *, recipe: str) -> Report:
        """The whole report, which may be published with the release."""
        numbers = self.numbers()
        summary: list[Block] = [KeyNumbers(numbers)] if numbers else []
        summary.append(Callout("note", NO_LOSS.format(seed=self.seed)))
        limits = "\n".join(f"- {one}" for one in (AVERAGES, UNDERSTATED, SHRUNK, ABOUT))
        return Report(
            title="How far off is this release?",
            subtitle="Errors predicted from published files alone",
            summary=tuple(summary),
            sections=(Section(title=self.title, blocks=(Prose(self.explain()), *self.blocks())),),
            limits=(Prose(limits),),
            provenance=gather_provenance(
                recipe=recipe, seeds=(self.seed,), config=release.mechanism
            ),
            confidential=False,
        )
