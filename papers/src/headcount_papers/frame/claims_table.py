"""Verdicts as a table for readers: by section of the paper, each with its cause and its figure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from headcount.comparison.template import Exhibits
from headcount.report.model import Column
from headcount_papers.frame.verdict import NOT_TESTABLE, PAPER_ERRS, UNDECIDED

GROUP = "group"
ERRATA = "Where the paper itself errs (not counted)"

COLUMNS = {
    "outcome": Column(key="outcome", label="Verdict", shows="verdict"),
    "chance": Column(key="chance", label="", under=True),
    "why": Column(key="why", label="", under=True),
    "figure": Column(key="figure", label="", shows="link", under=True),
}
"""How the columns are shown that every table of verdicts may have: all but one under the first."""


class Judged(Exhibits):
    """Exhibits of a paper: with ``verdicts = true`` a table is one of verdicts.

    It may have the columns outcome, chance, why and figure, and stands by section of the paper.
    With ``headlines = true`` it has the paper's main claims only, in their order.
    """

    def arranged(
        self, about: Mapping[str, Any], frame: pl.DataFrame, columns: list[Column]
    ) -> tuple[pl.DataFrame, list[Column], str]:
        """Verdicts by section; other tables as they are."""
        headlines = about.get("headlines", False)
        if not (headlines or about.get("verdicts", False)):
            return super().arranged(about, frame, columns)
        columns = [_of_verdicts(column) for column in columns]
        table = claims_table(frame, figures=self.drawn)
        if headlines:
            chosen = table.filter(pl.col("headline") > 0).sort("headline", maintain_order=True)
            return chosen, columns, "section"
        return table, columns, GROUP


def _of_verdicts(column: Column) -> Column:
    """A column that every table of verdicts may have, under the study's own label if it has one."""
    known = COLUMNS.get(column.key)
    if known is None:
        return column
    return known if column.label == column.key else replace(known, label=column.label)


def claims_table(claims: pl.DataFrame, *, figures: Collection[str]) -> pl.DataFrame:
    """The verdicts with the columns of ``COLUMNS``, sorted into groups.

    where
        chance   in what share of draws it is true, or the percentile of the printed number
        why      the cause, the same in a sentence, and what covers the claim
        figure   the report's figure; "" if this report has none of that name
        group    the section; what the paper itself errs in comes last, under ``ERRATA``
    """
    # The first of several cases of a claim is the one that others may be covered by.
    text = dict(zip(claims["id"].reverse(), claims["claim"].reverse(), strict=True))
    rows = list(claims.iter_rows(named=True))
    shown = claims.with_columns(
        pl.Series("chance", [chance(row) for row in rows], dtype=pl.String),
        pl.Series("why", [_why(row, text) for row in rows], dtype=pl.String),
        pl.when(pl.col("figure").is_in(list(figures))).then("figure").otherwise(pl.lit("")),
        pl.when(pl.col("outcome") == PAPER_ERRS)
        .then(pl.lit(ERRATA))
        .otherwise("section")
        .alias(GROUP),
    )
    sections = shown[GROUP].unique(maintain_order=True).to_list()
    order = {name: (name == ERRATA, number) for number, name in enumerate(sections)}
    ranked = sorted(sections, key=order.__getitem__)
    return shown.sort(pl.col(GROUP).cast(pl.Enum(ranked)), maintain_order=True)


def chance(row: Mapping[str, Any]) -> str:
    """How sure a verdict is, in words."""
    words = ""
    if row["low"] is not None:
        low, share, high = (round(100 * row[key]) for key in ("low", "share", "high"))
        words = f"true in {share} % of {row['draws']} draws ({low} to {high})"
    elif row["percentile"] is not None:
        words = f"percentile {percentile(row['percentile'])} of ours, {row['draws']} draws"
    if row["outcome"] == UNDECIDED:
        needed = row["needed"]
        words += "; " + (f"about {needed:,} would decide" if needed else "no number would decide")
    return words


def percentile(number: float) -> str:
    """A percentile, never rounded to the end of the scale."""
    if 1 <= number <= 99:
        return f"{number:.0f}"
    return "below 1" if number < 1 else "above 99"


def _why(row: dict[str, object], text: dict[str, str]) -> str:
    parts = [str(row["cause"] or ""), str(row["reason"] or "")]
    if row["outcome"] == NOT_TESTABLE:
        parts.reverse()
    if row["covered_by"]:
        parts.append(f"not counted, since it is covered by “{text[str(row['covered_by'])]}”")
    return "; ".join(part for part in parts if part)
