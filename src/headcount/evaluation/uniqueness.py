"""People alone of their kind in their place, and how many of them a release points out.

    found  = 100 x (counts of 1 that are released as 1) / (counts of 1 in truth)
    right  = 100 x (counts of 1 that are released as 1) / (counts released as 1)

A count of 1 tells of one person. Whoever reads a released 1 as one person needs no attribute of any
name for it, no list of people and no settings: so every method can be attacked like this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from headcount.evaluation._base import Metric, Truth, by_level
from headcount.evaluation.answers import (
    EVERY_CELL,
    answers_to,
    asked_queries,
    attribute_of,
    true_answers,
)
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, point_chart
from headcount.report.finding import SUPPORTED, Finding, Support
from headcount.report.model import Column, Figure, KeyNumber
from headcount.tabulate import Query

_KNOWN = "what is known"
"""The kind that combines all that an attacker knows."""
FOUND = {
    "level": pl.String,
    "kind": pl.String,
    "alone": pl.Int64,
    "claimed": pl.Int64,
    "right": pl.Int64,
    "found_percent": pl.Float64,
    "right_percent": pl.Float64,
}


@dataclass(frozen=True, kw_only=True)
class Uniqueness(Metric):
    """How many people who are alone of their kind in their place a released 1 points out.

    Kinds are the levels of each attribute, all combinations, and the combinations of what
    ``attacker.knows`` names. Counts of a sample are taken as they are, not weighted.
    """

    name = "uniqueness"
    order = 40

    def supports(self, release: Release, truth: Truth) -> Support:
        """Every release."""
        return SUPPORTED

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """Each kind at every level; a level of which nothing is published points nobody out."""
        release, schema = release.unweighted(), release.schema
        queries = asked_queries(schema, ())
        queries = [one for one in queries if one.by] or queries
        if known := schema.attacker.knows:
            queries.append(Query(_KNOWN, tuple(known)))
        rows = []
        for level in release.geography.levels:
            found = dict(answers_to(truth.counts, release, level, "all", queries))
            for query in queries:
                exact: Any = true_answers(truth.counts, level, query, schema)
                alone, claimed, right = int((exact.data == 1).sum()), 0, 0
                if query in found:
                    pairs = found[query]
                    one = np.rint(pairs.released) == 1
                    claimed, right = int(one.sum()), int((one & (pairs.truth == 1)).sum())
                kind = attribute_of(query)
                rows.append(
                    {"level": level, "kind": kind, "alone": alone, "claimed": claimed}
                    | {"right": right, **percentages(alone, claimed, right)}
                )
        return _PointedOut(
            table=pl.DataFrame(rows, schema=FOUND),
            counted=truth.counts.domain.counted,
            levels=release.geography.levels,
        )


def percentages(alone: int, claimed: int, right: int) -> dict[str, float | None]:
    """Those who are found of those who are alone, and what of the claims is right."""
    return {
        "found_percent": 100 * right / alone if alone else None,
        "right_percent": 100 * right / claimed if claimed else None,
    }


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _PointedOut(Finding):
    """A row for each level and kind: who is alone, and who is pointed out."""

    name: str = Uniqueness.name
    title: str = "Who is pointed out by a count of 1"
    index: tuple[str, ...] = ("level", "kind")
    value: str = "found_percent"
    value_words: str = "of those who are alone of their kind in their place, released as 1, %"
    caption: str = "Counts of 1 in truth, and those of them that are released as 1."

    levels: tuple[str, ...]

    def explain(self) -> str:
        """What is counted, and what it leaves out."""
        return (
            "A count of 1 stands alone of its kind in its place: whoever knows place and kind "
            "learns that there is no other, and finds the same record in other tables. Here an "
            "attacker reads every released 1 as exactly one record. *Found* are, of the counts "
            "that are 1 in truth, those that are released as 1; *right* are, of the released 1s, "
            "those that are 1 in truth. Where claims are seldom right a 1 can be denied. What was "
            "swapped or drawn is compared with what really is there. The attack needs no names, "
            "so it says nothing of what else may be found."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """Of all single attributes at the finest level."""
        one = alone_by_attributes(self.table, level=self.levels[-1])
        if one["found_percent"] is None:
            return ()
        return (
            KeyNumber(
                value=f"{one['found_percent']:,.3g}",
                unit="%",
                label=f"of {one['alone']:,} counts of 1 of single attributes at {self.levels[-1]} "
                "are released as 1",
            ),
        )

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        return (
            Column(key="level", label="Level"),
            Column(key="kind", label="Kind"),
            Column(key="alone", label="Alone in truth", format=",d"),
            Column(key="claimed", label="Released as 1", format=",d"),
            Column(key="right", label="Both", format=",d"),
            Column(key="found_percent", label="Found", unit="% of those alone", format=",.1f"),
            Column(key="right_percent", label="Right", unit="% of 1s", format=",.1f"),
        )

    def figure(self) -> Figure:
        """Who is found, by level; where nobody is alone, that there is nobody."""
        caption = "Of counts of 1 in truth, those that are released as 1, at each level."
        rows = self.table.drop_nulls("found_percent")
        y = Axis(column="found_percent", title="Found (% of those alone)", zero=True)
        if rows.is_empty():
            caption = "Counts of 1 in truth at each level: there is none that could be found."
            rows, y = self.table, Axis(column="alone", title="Alone in truth", zero=True)
        return Figure(
            name=f"{self.name}-by-level",
            caption=caption,
            alt=caption,
            chart=point_chart(rows, x=by_level(self.levels), y=y, series="kind"),
        )


def alone_by_attributes(table: pl.DataFrame, *, level: str) -> dict[str, Any]:
    """All single attributes together at a level; the total where there is no attribute."""
    rows = table.filter(pl.col("level") == level, ~pl.col("kind").is_in([EVERY_CELL, _KNOWN]))
    alone, claimed, right = (int(rows[key].sum()) for key in ("alone", "claimed", "right"))
    return {"alone": alone, "claimed": claimed, "right": right} | percentages(alone, claimed, right)
