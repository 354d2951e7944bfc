"""A release as a notebook shows it: its guarantee, its first rows, and figures of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from headcount.errors import InputError, did_you_mean
from headcount.report.figures import Axis, histogram_chart, point_chart
from headcount.report.model import Figure
from headcount.report.notebook import shown

if TYPE_CHECKING:
    from headcount.release.release import CountsRelease, Release, TablesRelease

MOST_UNITS = 8
"""Units whose counts one figure sets side by side."""
BINS = 40


def release_html(release: Release, level: str, first: pl.DataFrame) -> str:
    """The mechanism, what is published, what is promised, and the first rows of a level."""
    kinds = {
        "os": "drawn with a key from the operating system",
        "seed": "drawn from a seed: anyone who knows it can take the noise away",
        "none": "none",
    }
    return shown(
        "Release",
        facts={
            "made by": release.mechanism,
            "publishes": ", ".join(release.parts()),
            "noise": kinds.get(release.key_kind, release.key_kind),
        },
        sentences=release.guarantee.sentences(),
        frames={f"First rows of {level!r}": first},
        note=f'All rows: release.to_polars("{level}", tidy=True)',
    )


def counts_figure(release: CountsRelease, level: str | None, by: str | None) -> Figure:
    """Totals of a level's units, or counts by an attribute's levels in few units."""
    if by is None:
        return _totals(release, level or release.geography.leaf)
    level = level or release.geography.levels[0]
    if by not in release.schema.names:
        raise InputError(
            "plot",
            place="by",
            found=repr(by),
            expected=did_you_mean(by, release.schema.names),
        )
    units = release.geography.size(level)
    if units > MOST_UNITS:
        few = [one for one in release.geography.levels if release.geography.size(one) <= MOST_UNITS]
        raise InputError(
            "plot",
            place="level",
            found=f"{level!r} with {units:,} units",
            expected=f"a level of at most {MOST_UNITS} units: {' or '.join(map(repr, few))}",
        )
    frame = release.to_polars(level, tidy=True)
    counts = frame.group_by([level, by], maintain_order=True).agg(pl.col("n").sum())
    chart = point_chart(
        counts.with_columns(pl.col(by).cast(pl.String)),
        x=Axis(column=by, title=by, names=release.schema.attribute(by).levels),
        y=Axis(column="n", title="People (protected counts)", format=",d", zero=True),
        series=level,
    )
    return Figure(
        name="release",
        caption=f"**Protected counts by {by}** in each {level}.",
        alt=f"Points: protected counts by {by}, one for each level of it and each {level}.",
        chart=chart,
    )


def _totals(release: CountsRelease, level: str) -> Figure:
    """How many people units of a level have, as published."""
    people = np.asarray(release.table(level).sum(axis=1), dtype=np.float64).reshape(-1)
    totals = pl.DataFrame({"people": people, "release": level})
    low, high = (float(totals["people"].quantile(share) or 0) for share in (0.0, 0.99))
    chart = histogram_chart(
        totals.filter(pl.col("people") <= high) if high > low else totals,
        value=Axis(column="people", title=f"People of a {level} (protected counts)", format=",d"),
        series="release",
        bin_width=max(1.0, round((high - low) / BINS)),
        y_title="Share of units (%)",
    )
    return Figure(
        name="release",
        caption=f"**People of each {level}** as published; the largest 1 % are not shown.",
        alt=f"Histogram of the protected totals of the units of level {level}.",
        chart=chart,
    )


def tables_figure(release: TablesRelease) -> Figure:
    """How many cells of each table are withheld at each level; or 0, where counts are changed."""
    what = "published as 0" if release.changed else "withheld"
    rows = [
        {
            "table": one.name,
            "level": one.level,
            "share": 100
            * float(((one.value == 0) & ~one.withheld if release.changed else one.withheld).mean()),
        }
        for one in release.published
    ]
    names = tuple(dict.fromkeys(one.name for one in release.published))
    chart = point_chart(
        pl.DataFrame(rows),
        x=Axis(column="table", title="Table", names=names),
        y=Axis(column="share", title=f"Cells {what} (%)", zero=True),
        series="level",
    )
    return Figure(
        name="release",
        caption=f"**Cells {what}**, by table and level.",
        alt=f"Points: the share of cells {what} in each table at each level.",
        chart=chart,
    )
