"""The report on one release: what it promises, and how far it is from the truth."""

from __future__ import annotations

from typing import Any

import polars as pl

from headcount.evaluate.error import CELL_WORDS
from headcount.evaluate.scores import Scores
from headcount.mechanisms.histogram import clips_answers
from headcount.privacy import Guarantee
from headcount.release import Release
from headcount.report.figures import Axis, Control, line_chart, point_chart
from headcount.report.model import (
    Callout,
    Column,
    Figure,
    KeyNumber,
    KeyNumbers,
    Prose,
    Report,
    Section,
    Table,
    table_from_frame,
)
from headcount.report.provenance import gather_provenance
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
    Column(key="level", label="Level"),
    Column(key="query", label="Counts by"),
    *_SIZES,
    Column(key="p95_absolute", label="95 % within", unit="people", format=",.1f"),
    Column(key="bias", label="Bias", unit="people", format="+,.2f"),
)
_GROUPS = (
    Column(key="level", label="Level"),
    Column(key="attribute", label="Attribute"),
    Column(key="group", label="Group"),
    *_SIZES,
    Column(key="bias", label="Bias", unit="people", format="+,.2f"),
    Column(key="lost", label="Lost", unit="units", format=",.0f"),
)
_MISSING = (
    Column(key="level", label="Level"),
    Column(key="query", label="Counts by"),
    Column(key="lost", label="Lost", unit="groups", format=",.0f"),
    Column(key="lost_people", label="In lost groups", unit="people", format=",.0f"),
    Column(key="negative", label="Below 0", unit="counts", format=",.0f"),
)
_EXPLAINED = (
    "A *typical count* is the median of the true counts that are not zero. *Errors / people* is "
    "the sum of all errors in per cent of the people counted; *median error / count* the median of "
    "error over true count where that is not zero. "
)


def evaluation_report(release: Release, scores: Scores, *, recipe: str, public: bool) -> Report:
    """A report that a person who has to decide on a release can read."""
    sections = [_levels(release, scores)]
    if scores.groups.height:
        sections.append(_by_group(release, scores))
    sections.append(_missing(release, scores))
    return Report(
        title="What the protection costs",
        subtitle=f"A release by {release.mechanism.split('(', 1)[0]}, scored against the truth",
        summary=(_key_numbers(release, scores), *promise(release.guarantee)),
        sections=tuple(sections),
        limits=(
            Prose(
                "These figures describe one release, not the spread over new noise. They are "
                "worked out from the true counts and are protected by nothing."
            ),
            Prose("\n".join(f"- Not covered: {what}." for what in release.guarantee.not_covered)),
        ),
        provenance=gather_provenance(recipe=recipe, seeds=(), config=release.mechanism),
        confidential=not public,
    )


def promise(guarantee: Guarantee) -> tuple[Callout, ...]:
    """What a release promises, or that it promises nothing."""
    said = guarantee.sentences()[: len(guarantee.sentences()) - len(guarantee.not_covered)]
    return (Callout("key finding" if guarantee.exists else "warning", " ".join(said)),)


def _key_numbers(release: Release, scores: Scores) -> KeyNumbers:
    leaf = release.geography.leaf
    total = scores.errors.filter(level=leaf, query="total").row(0, named=True)
    finest = scores.errors.filter(level=leaf).row(-1, named=True)
    numbers = [
        KeyNumber(
            value=_said(total["median_absolute"]), unit="people",
            label=f"median error of a {leaf}'s total; a {leaf} where anybody lives has "
            f"{_said(total['median_count'])} people (median)",
        ),
        KeyNumber(
            value=_said(total["percent_of_mean"]), unit="%",
            label=f"errors of the {leaf} totals, added up, in per cent of the people",
        ),
        KeyNumber(
            value=_said(total["p95_absolute"]), unit="people",
            label=f"95 % of the {leaf} totals are within this of the truth",
        ),
        KeyNumber(
            value=_said(total["bias"], sign="+"), unit="people",
            label=f"mean of released minus exact {leaf} totals",
        ),
        KeyNumber(
            value=f"{finest['lost']:,}", unit="groups",
            label=f"with {finest['lost_people']:,.0f} people in them are lost at {leaf}: published "
            "as nobody",
        ),
    ]  # fmt: skip
    if negative := sum(found["negative"] for found in release.negative_counts().values()):
        numbers.append(
            KeyNumber(value=f"{negative:,}", unit="counts", label="are published below 0")
        )
    return KeyNumbers(tuple(numbers))


def _levels(release: Release, scores: Scores) -> Section:
    x = Axis(column="level", title="Level, from the whole down", names=release.geography.levels)
    most = max(scores.errors["percent_of_mean"].to_list())
    ticks = [0, *(10**power for power in range(7))]
    percent = Axis(
        column="percent_of_mean", title="Errors / people (%)", scale="symlog", zero=True,
        ticks=tuple(tick for tick in ticks if tick <= most),
    )  # fmt: skip
    people = Axis(column="mean_absolute", title="Mean absolute error (people)", zero=True)
    errors = _named(scores.errors)
    return Section(
        title="Error at every level",
        blocks=(
            Figure(
                name="mean-error-by-level",
                caption="Mean size of released minus exact count: of totals, of counts by each "
                "attribute, and of every cell.",
                alt="Mean absolute error by geographic level, one line per query",
                chart=line_chart(errors, x=x, y=people, series="query", points=True),
            ),
            Figure(
                name="relative-error-by-level",
                caption="The same errors beside what is counted: their sum in per cent of the "
                "people, on a scale by tens. Above 100 % the errors outnumber the people.",
                alt="Errors in per cent of people by geographic level, one line per query",
                chart=line_chart(errors, x=x, y=percent, series="query", points=True),
            ),
            table_from_frame(
                errors,
                name="errors",
                caption="Errors by level and query: released minus exact, in people.",
                columns=_ERRORS,
                notes=_EXPLAINED + _set_words(scores),
            ),
        ),
    )


def _by_group(release: Release, scores: Scores) -> Section:
    shown = scores.groups.filter(pl.col("percent_of_mean").is_not_null()).with_columns(
        series=pl.lit("errors / people")
    )
    names = tuple(dict.fromkeys(shown["group"].to_list()))
    return Section(
        title="Error by group",
        blocks=(
            Figure(
                name="error-by-group",
                caption="How far the counts of each group are off beside its size, at the level "
                "and for the attribute chosen. Small groups usually err more.",
                alt="Relative error of each group, at one level",
                chart=point_chart(
                    shown,
                    x=Axis(column="group", title="Group", names=names),
                    y=Axis(column="percent_of_mean", title="Errors / people (%)", zero=True),
                    series="series",
                    controls=(
                        Control(column="attribute", label="Attribute"),
                        Control(column="level", label="Level", initial=release.geography.leaf),
                    ),
                ),
            ),
            table_from_frame(
                scores.groups,
                name="groups",
                caption="Counts of each group, one a unit: their errors and typical size.",
                columns=_GROUPS,
                notes=_EXPLAINED + "*Lost*: units where the group has people and is published as "
                "0 or less. " + _set_words(scores),
                folded=True,
            ),
        ),
    )


def _missing(release: Release, scores: Scores) -> Section:
    said = [_below_zero(level, found) for level, found in release.negative_counts().items()]
    if clips_answers(release):
        said.append("- The release asks for answers set to 0 after summing: they are scored so.")
    if scores.impossible:
        said.append(
            f"- {scores.impossible:,} released counts are not 0 where the schema says that nobody "
            "can be. They are part of no figure on cells."
        )
    table: Table = table_from_frame(
        _named(scores.errors),
        name="missing",
        caption="Groups that are lost, and counts below 0, by level and query.",
        columns=_MISSING,
        notes="Counts above the level that is published are sums of published ones. "
        + _set_words(scores),
    )
    words = (
        "A group is *lost* where somebody of it lives and the release says nobody: a count above 0 "
        "that was published as 0 or less. Counts *below 0* are what noise leaves; set to 0 one by "
        "one, they would add people who do not exist.\n\n"
    )
    return Section(
        title="Groups that are lost, and counts below zero",
        blocks=(Prose(words + "\n".join(said)), table),
    )


def _named(errors: pl.DataFrame) -> pl.DataFrame:
    return errors.with_columns(query=pl.col("query").replace({CELLS: "every cell"}))


def _said(value: float, *, sign: str = "") -> str:
    """A number with three digits, or all of its whole ones."""
    return format(value, f"{sign},.0f" if abs(value) >= 100 else f"{sign},.3g")


def _below_zero(level: str, found: dict[str, Any]) -> str:
    return (
        f"- Published at {level}: {found['negative']:,} of {found['counts']:,} counts are below 0."
    )


def _set_words(scores: Scores) -> str:
    words = f"Counted here: {CELL_WORDS[scores.cells]}."
    if scores.cells == "either":
        words += " That set depends on the release: do not compare methods by these figures."
    return words
