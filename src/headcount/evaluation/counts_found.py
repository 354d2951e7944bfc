"""Claims about the counts behind published tables, beside the true ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.attacks import ClaimedCounts, CountRanges
from headcount.attacks.differencing import PIECE, Pieces, Slivers
from headcount.attacks.intervals import UNBOUNDED
from headcount.errors import InputError
from headcount.evaluation.attacked import Attacked, score_claims
from headcount.evaluation.part import Part, TruePeople
from headcount.release.published import by_name
from headcount.report.figures import Axis, point_chart
from headcount.report.model import Column, Figure, KeyNumber
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import table_values

SMALL = 2
"""The largest count of people that offices call small."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _CountsFound(Attacked):
    """A row for each attacker, table and level: counts that are known, and how wide the rest is."""

    index: tuple[str, ...] = ("attacker", "table", "level")
    value: str = "known_percent"
    value_words: str = "counts that the attacker knows for certain and that are right, %"
    caption: str = "Counts that an attacker claims to know, by table and level."

    def explain(self) -> str:
        """What a claim is, and whose counts it is compared with."""
        return (
            f"{self.words} A count is claimed if its range is one number, and the claim is right "
            "if that is the true count; *outside* are counts whose range does not have the true "
            "one. Where records were swapped before the tables were made, counts of the swapped "
            f"records are found, and fewer are right. Small counts are those of 1 to {SMALL} "
            f"{self.counted}: to know them says most about someone. The *informed* attacker knows "
            "the settings by which counts were changed, the *uninformed* one has the release "
            "alone. The figures are of this one release."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """For each attacker the share of counts that is known."""
        found = []
        for (name,), some in self.table.group_by("attacker", maintain_order=True):
            claimed, right = int(some["claimed"].sum()), int(some["right"].sum())
            wrong = f"; {claimed - right:,} of {claimed:,} claims are wrong"
            found.append(
                KeyNumber(
                    value=f"{100 * right / max(int(some['attacked'].sum()), 1):,.3g}",
                    unit="%",
                    label=f"of {some['attacked'].sum():,} counts attacked are known for certain "
                    f"to an {name} attacker{wrong if claimed > right else ''}",
                )
            )
        return tuple(found)

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        return (
            Column(key="attacker", label="Attacker"),
            Column(key="table", label="Table"),
            Column(key="level", label="Level"),
            Column(key="cells", label="Counts", format=",d"),
            Column(key="attacked", label="Attacked", format=",d"),
            Column(key="claimed", label="Claimed", format=",d"),
            Column(key="right", label="Right", format=",d"),
            Column(key="known_percent", label="Right", unit="% of attacked", format=",.1f"),
            Column(key="small", label="Small counts", format=",d"),
            Column(key="small_right", label="Small counts, right", format=",d"),
            Column(key="outside", label="Outside", format=",d"),
            Column(
                key="width", label="Width of a range", unit=f"mean, {self.counted}", format=",.3g"
            ),
        )

    def figure(self) -> Figure:
        """Counts that are known, by level."""
        shown = self.table.group_by("attacker", "level", maintain_order=True).agg(
            (100 * pl.col("right").sum() / pl.col("attacked").sum()).fill_nan(None).alias("percent")
        )
        caption = "Counts that the attacker knows for certain and that are right, by level."
        return Figure(
            name=f"{self.name}-figure",
            caption=caption,
            alt=caption,
            chart=point_chart(
                shown,
                x=Axis(
                    column="level",
                    title="Level",
                    names=tuple(dict.fromkeys(shown["level"].to_list())),
                ),
                y=Axis(column="percent", title="Known (% of counts attacked)", zero=True),
                series="attacker",
            ),
        )


@score_claims.register
def counts_found(claims: ClaimedCounts, people: TruePeople, part: Part) -> _CountsFound:
    """Every range beside the true count."""
    rows = list(_rows(claims, people, part))
    return _CountsFound.by(claims, part, table=pl.DataFrame(rows, infer_schema_length=None))


@score_claims.register
def slivers_found(claims: Slivers, people: TruePeople, part: Part) -> _CountsFound:
    """Every range of a piece beside the true count of it."""
    caption = "Counts of pieces that an attacker claims to know, by table."
    table = slivers_frame(claims, people.counts())
    return _CountsFound.by(claims, part, table=table, caption=caption)


def slivers_frame(claims: Slivers, counts: Counts) -> pl.DataFrame:
    """A row for each attacker and table: pieces that are known, and how wide the rest is."""
    rows = _scored(claims.ranges, sliver_counts(claims.pieces, counts))
    return pl.DataFrame(list(rows), infer_schema_length=None)


def sliver_counts(pieces: Pieces, counts: Counts) -> dict[tuple[str, str], Ints]:
    """The true counts of the chosen pieces (pieces x cells)."""
    numbers = {str(code): n for n, code in enumerate(counts.geography.units[-1])}
    leaf = np.array([numbers.get(str(code), -1) for code in pieces.crosswalk.leaf])
    if len(leaf) and leaf.min() < 0:
        raise InputError(
            "crosswalk",
            place="column 'leaf'",
            found=repr(str(pieces.crosswalk.leaf[int(np.argmin(leaf))])),
            expected=f"leaf units ({counts.geography.leaf}) of the truth",
        )
    found = {}
    for name, cells in pieces.tables.items():
        values = np.zeros((pieces.overlaid.pieces, cells.size), dtype=np.int64)
        np.add.at(values, pieces.overlaid.of_leaf, table_values(counts, cells)[leaf])
        found[name, PIECE] = values[pieces.chosen]
    return found


def _rows(claims: ClaimedCounts, people: TruePeople, part: Part) -> Iterator[dict[str, Any]]:
    tables, counts = by_name(part.release.as_tables().published), people.counts()
    true = {
        where: table_values(counts.at(where[1]), tables[where].cells)
        for where in claims.ranges[0].low
    }
    return _scored(claims.ranges, true)


def _scored(
    ranges: Sequence[CountRanges], true: Mapping[tuple[str, str], Ints]
) -> Iterator[dict[str, Any]]:
    for one in ranges:
        for where, low in one.low.items():
            place = {"attacker": one.attacker, "table": where[0], "level": where[1]}
            here = one.attacked[where]
            size = {"cells": true[where].size, "attacked": int(here.sum())}
            yield place | size | _score(true[where][here], low[here], one.high[where][here])


def _score(true: Ints, low: Ints, high: Ints) -> dict[str, Any]:
    """Of the counts that were attacked."""
    claimed, bounded = low == high, high < UNBOUNDED
    right, small = claimed & (low == true), (true > 0) & (true <= SMALL)
    return {
        "claimed": int(claimed.sum()),
        "right": int(right.sum()),
        "known_percent": 100 * float(right.mean()) if true.size else None,
        "small": int(small.sum()),
        "small_right": int((right & small).sum()),
        "outside": int(((true < low) | (true > high)).sum()),
        "width": float(np.mean((high - low)[bounded])) if bounded.any() else None,
    }
