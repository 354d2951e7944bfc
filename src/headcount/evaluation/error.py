"""How far released counts are from the true ones: by level, by query, by group.

Errors of a stated set of counts (``tally``) of the answers at each level (``answers``): the total,
each attribute and every cell, and of each attribute every group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from headcount.errors import InputError
from headcount.evaluation._base import LEVEL, QUERY, Metric, Truth, by_level, publishes_some_counts
from headcount.evaluation.answers import group_names, tallied_answers
from headcount.evaluation.tally import CELL_WORDS, CellSet, CountPairs, beside_size, check_cells
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, Control, line_chart, point_chart
from headcount.report.finding import Finding, Support
from headcount.report.model import (
    Block,
    Column,
    Figure,
    KeyNumber,
    Prose,
    Subheading,
    table_from_frame,
)
from headcount.schema import Schema
from headcount.tabulate import Counts, Query
from headcount.tabulate.counts import CELLS

_TERMINAL = {
    "query": "counts by",
    "n": "counts",
    "median_count": "median count",
    "median_absolute": "median error",
    "mean_absolute": "mean error",
    "p95_absolute": "95 % within",
    "percent_of_mean": "error %",
    "lost": "lost groups",
    "negative": "below 0",
}


def _sizes(counted: str) -> tuple[Column, ...]:
    return (
        Column(key="n", label="Counts", format=",.0f"),
        Column(key="median_count", label="Median count", unit=counted, format=",.1f"),
        Column(key="median_absolute", label="Median error", unit=counted, format=",.1f"),
        Column(key="mean_absolute", label="Mean error", unit=counted, format=",.2f"),
        Column(key="percent_of_mean", label=f"Errors / {counted}", unit="%", format=",.1f"),
        Column(key="median_percent", label="Median error / count", unit="%", format=",.1f"),
    )


def _bias(counted: str) -> Column:
    return Column(key="bias", label="Bias", unit=counted, format="+,.2f")


@dataclass(frozen=True, kw_only=True)
class Error(Metric):
    """Errors over a stated set of counts: see ``headcount.evaluation.tally``."""

    name = "error"
    reads_estimates = True
    order = 10
    cells: CellSet = "all"

    def __post_init__(self) -> None:
        check_cells(self.cells)

    def supports(self, release: Release, truth: Truth) -> Support:
        """Counts of units and cells; those that are missing are not scored."""
        if not truth.counts.matrix.count_nonzero():
            return Support("nothing is counted in the data: there is nothing to be wrong about")
        return publishes_some_counts(release)

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """Errors of the total, of each attribute and of every cell, at every level."""
        errors, groups = _score(truth.counts, release, cells=self.cells)
        return _Errors(
            counted=truth.counts.domain.counted,
            table=errors,
            cells=self.cells,
            groups=groups,
            levels=release.geography.levels,
            below_zero=release.negative_counts(),
            clipped=release.clipped_after_summing,
            missing={
                level: int(flags.sum())
                for level in release.geography.levels
                if (flags := release.as_counts().missing_at(level)) is not None
            },
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Errors(Finding):
    """A row for each level and query, and one for each group."""

    name: str = Error.name
    title: str = "How far from the truth"
    index: tuple[str, ...] = ("level", "query", "n", "mean_count")
    value: str = "mean_absolute"
    value_words: str = "mean error, in {counted}, of the same counts"

    cells: CellSet
    groups: pl.DataFrame
    levels: tuple[str, ...]
    below_zero: Mapping[str, Mapping[str, int]]
    clipped: bool
    missing: Mapping[str, int] = field(default_factory=dict)

    @property
    def leaf(self) -> str:
        """The finest level."""
        return self.levels[-1]

    def files(self) -> Mapping[str, pl.DataFrame]:
        """Errors by level and query, and by group."""
        return {"errors": self.table, "groups": self.groups}

    def _missing_words(self) -> str:
        if not self.missing:
            return ""
        levels = ", ".join(f"{number:,} at {level}" for level, number in self.missing.items())
        return (
            f"Counts that are missing from the release ({levels}) have no error, nor has a sum "
            "of which one is a part: they are left out, not taken for 0. "
        )

    def explain(self) -> str:
        """What an error is here."""
        return (
            f"An error is a released count minus the exact one, in {self.counted}. "
            f"{self._set_words()} {self._missing_words()}The figures describe one release, not "
            "the spread over new noise, and say nothing about privacy: a release without error "
            "protects nobody."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """Errors of the smallest places, and what is missing there."""
        leaf, counted = self.leaf, self.counted
        totals = self.table.filter(level=leaf, query="total")
        if totals.is_empty():  # somebody else's table may lack counts of every place
            return ()
        total = totals.row(0, named=True)
        finest = self.table.filter(level=leaf).row(-1, named=True)
        numbers = [
            KeyNumber(
                value=_short(total["median_absolute"]),
                unit=counted,
                label=f"median error of a {leaf}'s total; the median {leaf} with any {counted} has "
                f"{_short(total['median_count'])}",
            ),
            KeyNumber(
                value=_short(total["percent_of_mean"]),
                unit="%",
                label=f"sum of the errors of {leaf} totals, as a percentage of {counted}",
            ),
            KeyNumber(
                value=_short(total["p95_absolute"]),
                unit=counted,
                label=f"95 % of the {leaf} totals are within this of the truth",
            ),
            KeyNumber(
                value=_short(total["bias"], sign="+"),
                unit=counted,
                label=f"mean of released minus exact {leaf} totals",
            ),
            KeyNumber(
                value=f"{finest['lost']:,}",
                unit="groups",
                label=f"with {finest['lost_people']:,.0f} {counted} in them are lost at {leaf}: "
                "published as 0 or less",
            ),
        ]
        if negative := sum(found["negative"] for found in self.below_zero.values()):
            numbers.append(
                KeyNumber(value=f"{negative:,}", unit="counts", label="are published below 0")
            )
        return tuple(numbers)

    def terminal(self) -> Mapping[str, pl.DataFrame]:
        """Errors of the totals at each level, and of all queries at the finest."""
        totals = self.table.filter(query="total")
        finest = self.table.filter(level=self.leaf).with_columns(
            query=pl.col("query").replace({CELLS: "every cell"})
        )
        sizes = ("n", "median_count", "mean_absolute", "percent_of_mean")
        named = _TERMINAL | {"lost_people": f"{self.counted} lost"}
        return {
            f"errors of the totals, in {self.counted}": totals.select(
                "level", *sizes[:2], "median_absolute", *sizes[2:], "p95_absolute", "bias"
            ).rename(named, strict=False),
            f"errors at {self.leaf!r}, in {self.counted}": finest.select(
                "query", *sizes, "lost", "lost_people", "negative"
            ).rename(named, strict=False),
        }

    def notes(self) -> str:
        """The set of counts, and the words of the columns."""
        return (
            f"counts: {CELL_WORDS[self.cells]}. median count: of those that are not 0. error %: "
            f"sum of all errors as a percentage of all {self.counted}. lost groups: true count "
            f"above 0, released as 0 or less."
        )

    def blocks(self) -> tuple[Block, ...]:
        """Errors by level, by group, and what is missing."""
        return (
            self.figure(),
            self._relative(),
            table_from_frame(
                self._named(),
                name="errors",
                caption=f"Errors by level and query: released minus exact, in {self.counted}.",
                columns=(
                    LEVEL,
                    QUERY,
                    *_sizes(self.counted),
                    Column(
                        key="p95_absolute", label="95 % within", unit=self.counted, format=",.1f"
                    ),
                    _bias(self.counted),
                ),
                notes=self._column_words() + self._set_words(),
            ),
            *(self._by_group() if self.groups.height else ()),
            *self._missing(),
        )

    def figure(self) -> Figure:
        """Mean errors by level."""
        title = f"Mean absolute error ({self.counted})"
        error = Axis(column="mean_absolute", title=title, zero=True)
        return Figure(
            name="mean-error-by-level",
            caption="Mean size of released minus exact count: of totals, of counts by each "
            "attribute, and of every cell.",
            alt="Mean absolute error by geographic level, one line per query",
            chart=line_chart(
                self._named(), x=by_level(self.levels), y=error, series="query", points=True
            ),
        )

    def _relative(self) -> Figure:
        most = max(self.table["percent_of_mean"].to_list())
        ticks = [0, *(10**power for power in range(7))]
        percent = Axis(
            column="percent_of_mean",
            title=f"Errors / {self.counted} (%)",
            scale="symlog",
            zero=True,
            ticks=tuple(tick for tick in ticks if tick <= most),
        )
        return Figure(
            name="relative-error-by-level",
            caption="The same errors relative to what is counted: their sum as a percentage of "
            f"{self.counted}, on a logarithmic scale. Above 100 % the errors outnumber the "
            f"{self.counted}.",
            alt=f"Errors as a percentage of {self.counted} by geographic level, one line per query",
            chart=line_chart(
                self._named(), x=by_level(self.levels), y=percent, series="query", points=True
            ),
        )

    def _by_group(self) -> tuple[Block, ...]:
        shown = self.groups.filter(pl.col("percent_of_mean").is_not_null()).with_columns(
            series=pl.lit(f"errors / {self.counted}")
        )
        names = tuple(dict.fromkeys(shown["group"].to_list()))
        return (
            Subheading("Error by group"),
            Figure(
                name="error-by-group",
                caption="How far off the counts of each group are, relative to its size, at the "
                "level and for the attribute chosen. Small groups usually fare worse.",
                alt="Relative error of each group, at one level",
                chart=point_chart(
                    shown,
                    x=Axis(column="group", title="Group", names=names),
                    y=Axis(
                        column="percent_of_mean", title=f"Errors / {self.counted} (%)", zero=True
                    ),
                    series="series",
                    controls=(
                        Control(column="attribute", label="Attribute"),
                        Control(column="level", label="Level", initial=self.leaf),
                    ),
                ),
            ),
            table_from_frame(
                self.groups,
                name="groups",
                caption="Counts of each group, one per unit: their errors and typical size.",
                columns=(
                    LEVEL,
                    Column(key="attribute", label="Attribute"),
                    Column(key="group", label="Group"),
                    *_sizes(self.counted),
                    _bias(self.counted),
                    Column(key="lost", label="Lost", unit="units", format=",.0f"),
                ),
                notes=f"{self._column_words()}*Lost*: units where the group has {self.counted} "
                f"and is published as 0 or less. {self._set_words()}",
                folded=True,
            ),
        )

    def _missing(self) -> tuple[Block, ...]:
        facts = [_below_zero(level, found) for level, found in self.below_zero.items()]
        if self.clipped:
            facts.append(
                "- The release asks that sums below 0 be set to 0: they are scored that way."
            )
        words = (
            f"A group is *lost* where it has {self.counted} and the release shows none: a count "
            "above 0 that was published as 0 or less. Counts *below 0* are the work of noise; set "
            f"to 0 one by one, they would add {self.counted} that do not exist.\n\n"
        )
        return (
            Subheading("Groups that are lost, and counts below zero"),
            Prose(words + "\n".join(facts)),
            table_from_frame(
                self._named(),
                name="missing",
                caption="Groups that are lost, and counts below 0, by level and query.",
                columns=(
                    LEVEL,
                    QUERY,
                    Column(key="lost", label="Lost", unit="groups", format=",.0f"),
                    Column(
                        key="lost_people",
                        label="In lost groups",
                        unit=self.counted,
                        format=",.0f",
                    ),
                    Column(key="negative", label="Below 0", unit="counts", format=",.0f"),
                ),
                notes="Counts above the level that is published are sums of published ones. "
                + self._set_words(),
            ),
        )

    def _column_words(self) -> str:
        return (
            "A *median count* is that of the true counts that are not zero. *Errors / "
            f"{self.counted}* is the sum of all errors as a percentage of the {self.counted} "
            "counted; *median error / count* is the median of error over true count where that is "
            "not zero. "
        )

    def _named(self) -> pl.DataFrame:
        return self.table.with_columns(query=pl.col("query").replace({CELLS: "every cell"}))

    def _set_words(self) -> str:
        words = f"Counted here: {CELL_WORDS[self.cells]}."
        if self.cells == "either":
            words += " That set depends on the release: do not compare methods by these figures."
        return words


def _short(value: float, *, sign: str = "") -> str:
    """A number with three digits, or all of its whole ones."""
    return format(value, f"{sign},.0f" if abs(value) >= 100 else f"{sign},.3g")


def _below_zero(level: str, found: Mapping[str, Any]) -> str:
    return (
        f"- Published at {level}: {found['negative']:,} of {found['counts']:,} counts are below 0."
    )


def _score(
    counts: Counts, release: Release, *, cells: CellSet = "all"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Compare released with exact counts on a set of counts: see ``headcount.evaluation.tally``.

    Gives a row for each level and query, and one for each level and level of an attribute: the
    counts of that group, one a unit; none for a schema without attributes.

    Structural zeros belong to no set. Where a release is to be clipped at 0 after summing, as the
    noisy histogram says of itself, its answers are.
    """
    if not counts.matrix.count_nonzero():
        raise InputError("release", found="only counts of 0", expected="at least one person")
    errors: list[dict[str, Any]] = []
    groups: list[dict[str, Any]] = []
    for level in release.geography.levels:
        for query, pairs in tallied_answers(counts, release, level, cells):
            if not pairs.n:
                continue
            errors.append({"level": level, "query": query.name, **_row(pairs)})
            if len(query.by) == 1:
                groups += _group_rows(level, query, release.schema, pairs)
    return pl.DataFrame(errors, infer_schema_length=None), _frame(groups, errors)


def _row(pairs: CountPairs) -> dict[str, Any]:
    """Figures of a set of counts: what is counted, then its errors, then what is missing."""
    error, size = asdict(pairs.summary()), beside_size(pairs)
    first = {"cells": error.pop("cells"), "n": error.pop("n")}
    sizes = {name: size.pop(name) for name in ("mean_count", "median_count")}
    return {**first, **sizes, **error, **size}


def _group_rows(
    level: str, query: Query, schema: Schema, pairs: CountPairs
) -> Iterator[dict[str, Any]]:
    columns: Iterator[CountPairs] = pairs.columns()
    for name, own in zip(group_names(query, schema), columns, strict=True):
        if own.n:
            yield {"level": level, "attribute": query.by[0], "group": name, **_row(own)}


def _frame(rows: list[dict[str, Any]], like: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a frame, with its columns even where there are none."""
    shaped = pl.DataFrame(like, infer_schema_length=None).drop("level", "query").schema
    names = dict.fromkeys(("level", "attribute", "group"), pl.String())
    return pl.DataFrame(rows, schema={**names, **shaped})
