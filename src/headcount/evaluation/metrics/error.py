"""How far released counts are from the true ones: by level, by query, by group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from headcount.evaluation._scores import Scores, score
from headcount.evaluation.error import CELL_WORDS, CellSet, check_cells
from headcount.evaluation.metrics._base import LEVEL, QUERY, Metric, by_level, publishes_some_counts
from headcount.evaluation.truth import Truth
from headcount.mechanisms.histogram import clips_answers
from headcount.progress import Progress, silent
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
from headcount.tabulate.query import CELLS

_SIZES = (
    Column(key="n", label="Counts", format=",.0f"),
    Column(key="median_count", label="Typical count", unit="people", format=",.1f"),
    Column(key="median_absolute", label="Median error", unit="people", format=",.1f"),
    Column(key="mean_absolute", label="Mean error", unit="people", format=",.2f"),
    Column(key="percent_of_mean", label="Errors / people", unit="%", format=",.1f"),
    Column(key="median_percent", label="Median error / count", unit="%", format=",.1f"),
)
_ERRORS = (
    LEVEL,
    QUERY,
    *_SIZES,
    Column(key="p95_absolute", label="95 % within", unit="people", format=",.1f"),
    Column(key="bias", label="Bias", unit="people", format="+,.2f"),
)
_GROUPS = (
    LEVEL,
    Column(key="attribute", label="Attribute"),
    Column(key="group", label="Group"),
    *_SIZES,
    Column(key="bias", label="Bias", unit="people", format="+,.2f"),
    Column(key="lost", label="Lost", unit="units", format=",.0f"),
)
_MISSING = (
    LEVEL,
    QUERY,
    Column(key="lost", label="Lost", unit="groups", format=",.0f"),
    Column(key="lost_people", label="In lost groups", unit="people", format=",.0f"),
    Column(key="negative", label="Below 0", unit="counts", format=",.0f"),
)
_TERMINAL = {
    "query": "counts by",
    "n": "counts",
    "median_count": "typical count",
    "median_absolute": "median error",
    "mean_absolute": "mean error",
    "p95_absolute": "95 % within",
    "percent_of_mean": "error %",
    "lost": "lost groups",
    "lost_people": "people lost",
    "negative": "below 0",
}
_NOTES = (
    "A *typical count* is the median of the true counts that are not zero. *Errors / people* is "
    "the sum of all errors as a percentage of the people counted; *median error / count* is the "
    "median of error over true count where that is not zero. "
)


@dataclass(frozen=True, kw_only=True)
class Error(Metric):
    """Errors over a stated set of counts: see ``headcount.evaluation.error``."""

    name = "error"
    order = 10
    cells: CellSet = "all"

    def __post_init__(self) -> None:
        check_cells(self.cells)

    def supports(self, release: Release, truth: Truth) -> Support:
        """Counts of units and cells; those that are missing are not scored."""
        if not truth.counts.matrix.count_nonzero():
            return Support("nobody is in the data: there is nothing to be wrong about")
        return publishes_some_counts(release)

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """Errors of the total, of each attribute and of every cell, at every level."""
        scores = score(truth.counts, release, cells=self.cells)
        return Errors(
            table=scores.errors,
            scores=scores,
            levels=release.geography.levels,
            below_zero=release.negative_counts(),
            clipped=clips_answers(release),
            missing={
                level: int(flags.sum())
                for level in release.geography.levels
                if (flags := release.as_counts().missing_at(level)) is not None
            },
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Errors(Finding):
    """A row for each level and query, and one for each group; errors are in people."""

    name: str = Error.name
    title: str = "How far from the truth"
    index: tuple[str, ...] = ("level", "query", "n", "mean_count")
    value: str = "mean_absolute"
    value_words: str = "mean error, in people, of the same counts"

    scores: Scores
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
        return {"errors": self.scores.errors, "groups": self.scores.groups}

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
            "An error is a released count minus the exact one, in people. "
            f"{self._set_words()} {self._missing_words()}The figures describe one release, not "
            "the spread over new noise, and say nothing about privacy: a release without error "
            "protects nobody."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """Errors of the smallest places, and what is missing there."""
        leaf = self.leaf
        total = self.table.filter(level=leaf, query="total").row(0, named=True)
        finest = self.table.filter(level=leaf).row(-1, named=True)
        numbers = [
            KeyNumber(
                value=_short(total["median_absolute"]),
                unit="people",
                label=f"median error of a {leaf}'s total; a {leaf} where anybody lives has "
                f"{_short(total['median_count'])} people (median)",
            ),
            KeyNumber(
                value=_short(total["percent_of_mean"]),
                unit="%",
                label=f"sum of the errors of {leaf} totals, as a percentage of people",
            ),
            KeyNumber(
                value=_short(total["p95_absolute"]),
                unit="people",
                label=f"95 % of the {leaf} totals are within this of the truth",
            ),
            KeyNumber(
                value=_short(total["bias"], sign="+"),
                unit="people",
                label=f"mean of released minus exact {leaf} totals",
            ),
            KeyNumber(
                value=f"{finest['lost']:,}",
                unit="groups",
                label=f"with {finest['lost_people']:,.0f} people in them are lost at {leaf}: "
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
        return {
            "errors of the totals, in people": totals.select(
                "level", *sizes[:2], "median_absolute", *sizes[2:], "p95_absolute", "bias"
            ).rename(_TERMINAL, strict=False),
            f"errors at {self.leaf!r}, in people": finest.select(
                "query", *sizes, "lost", "lost_people", "negative"
            ).rename(_TERMINAL, strict=False),
        }

    def notes(self) -> str:
        """The set of counts, and the words of the columns."""
        return (
            f"counts: {CELL_WORDS[self.scores.cells]}. typical count: median of those that are not "
            "0. error %: sum of the errors as a percentage of people. lost: groups with people, "
            "released as 0 or less."
        )

    def blocks(self) -> tuple[Block, ...]:
        """Errors by level, by group, and what is missing."""
        return (
            self.figure(),
            self._relative(),
            table_from_frame(
                self._named(),
                name="errors",
                caption="Errors by level and query: released minus exact, in people.",
                columns=_ERRORS,
                notes=_NOTES + self._set_words(),
            ),
            *(self._by_group() if self.scores.groups.height else ()),
            *self._missing(),
        )

    def figure(self) -> Figure:
        """Mean errors by level."""
        people = Axis(column="mean_absolute", title="Mean absolute error (people)", zero=True)
        return Figure(
            name="mean-error-by-level",
            caption="Mean size of released minus exact count: of totals, of counts by each "
            "attribute, and of every cell.",
            alt="Mean absolute error by geographic level, one line per query",
            chart=line_chart(
                self._named(), x=by_level(self.levels), y=people, series="query", points=True
            ),
        )

    def _relative(self) -> Figure:
        most = max(self.table["percent_of_mean"].to_list())
        ticks = [0, *(10**power for power in range(7))]
        percent = Axis(
            column="percent_of_mean",
            title="Errors / people (%)",
            scale="symlog",
            zero=True,
            ticks=tuple(tick for tick in ticks if tick <= most),
        )
        return Figure(
            name="relative-error-by-level",
            caption="The same errors relative to what is counted: their sum as a percentage of "
            "people, on a logarithmic scale. Above 100 % the errors outnumber the people.",
            alt="Errors as a percentage of people by geographic level, one line per query",
            chart=line_chart(
                self._named(), x=by_level(self.levels), y=percent, series="query", points=True
            ),
        )

    def _by_group(self) -> tuple[Block, ...]:
        shown = self.scores.groups.filter(pl.col("percent_of_mean").is_not_null()).with_columns(
            series=pl.lit("errors / people")
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
                    y=Axis(column="percent_of_mean", title="Errors / people (%)", zero=True),
                    series="series",
                    controls=(
                        Control(column="attribute", label="Attribute"),
                        Control(column="level", label="Level", initial=self.leaf),
                    ),
                ),
            ),
            table_from_frame(
                self.scores.groups,
                name="groups",
                caption="Counts of each group, one per unit: their errors and typical size.",
                columns=_GROUPS,
                notes=_NOTES + "*Lost*: units where the group has people and is published as "
                "0 or less. " + self._set_words(),
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
            "A group is *lost* where it has people and the release shows none: a count above 0 "
            "that was published as 0 or less. Counts *below 0* are the work of noise; set to 0 one "
            "by one, they would add people who do not exist.\n\n"
        )
        return (
            Subheading("Groups that are lost, and counts below zero"),
            Prose(words + "\n".join(facts)),
            table_from_frame(
                self._named(),
                name="missing",
                caption="Groups that are lost, and counts below 0, by level and query.",
                columns=_MISSING,
                notes="Counts above the level that is published are sums of published ones. "
                + self._set_words(),
            ),
        )

    def _named(self) -> pl.DataFrame:
        return self.table.with_columns(query=pl.col("query").replace({CELLS: "every cell"}))

    def _set_words(self) -> str:
        words = f"Counted here: {CELL_WORDS[self.scores.cells]}."
        if self.scores.cells == "either":
            words += " That set depends on the release: do not compare methods by these figures."
        return words


def _short(value: float, *, sign: str = "") -> str:
    """A number with three digits, or all of its whole ones."""
    return format(value, f"{sign},.0f" if abs(value) >= 100 else f"{sign},.3g")


def _below_zero(level: str, found: Mapping[str, Any]) -> str:
    return (
        f"- Published at {level}: {found['negative']:,} of {found['counts']:,} counts are below 0."
    )
