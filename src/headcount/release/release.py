"""The release: what is published, what it promises, how it was made, how a notebook shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Flags
from headcount.domain import CountsOf, Domain
from headcount.errors import InputError, did_you_mean, one_of
from headcount.geography import Geography
from headcount.privacy import Guarantee
from headcount.release.layout import (
    Dense,
    LevelTable,
    dense,
    tables_frame,
    tidy_frame,
    units_frame,
    wide_frame,
)
from headcount.release.published import PublishedCells, Rules, TableRules
from headcount.report.figures import Axis, histogram_chart, point_chart
from headcount.report.model import Figure
from headcount.report.notebook import shown
from headcount.schema import Schema
from headcount.tabulate.counts import adder

CLIP_NOTE = "negative_counts"
CLIPPED_AFTER_SUMMING = "answers summed from cells with their noise, then set to 0 where negative"
"""What a method notes of its release if readers are to sum cells first, and clip then."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Release:
    """What is published: a type of its own, so that truth and release are never mistaken.

    where
        mechanism   the mechanism with its parameters, as written to make it again
        guarantee   what the release promises, or that it promises nothing
        key_kind    'os' (fresh entropy), 'seed' (repeatable, therefore not private) or 'none'
        backend     which sampler drew the noise
        notes       facts about the making, none of them computed from the truth alone

    What is published is said by the kinds of release: ``CountsRelease``, ``TablesRelease``.
    """

    domain: Domain
    mechanism: str
    guarantee: Guarantee
    key_kind: str
    backend: str
    notes: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def schema(self) -> Schema:
        """The schema of the domain."""
        return self.domain.schema

    @property
    def geography(self) -> Geography:
        """The geography of the domain."""
        return self.domain.geography

    @property
    def counted(self) -> CountsOf:
        """What the counts are of: people, or housing units."""
        return self.domain.counted

    @property
    def clipped_after_summing(self) -> bool:
        """Whether answers to a query are to be set to 0 where negative, after summing."""
        return self.notes.get(CLIP_NOTE) == CLIPPED_AFTER_SUMMING

    def __repr__(self) -> str:
        return f"<Release by {self.mechanism}: {', '.join(self.parts())}>"

    def parts(self) -> tuple[str, ...]:
        """The names of the tables that are published."""
        raise NotImplementedError

    def as_counts(self) -> CountsRelease:
        """The same as counts of every unit and cell; an error if it has none."""
        raise InputError(
            "release",
            found="published tables with withheld cells",
            expected="counts of every unit and cell",
        )

    def at(self, level: str) -> Dense:
        """Protected counts at a level as a full array: as published, or the leaf added up.

        Of a large sparse level that is refused where it does not fit; ``table`` has it.
        """
        return self.as_counts().at(level)

    def table(self, level: str) -> LevelTable:
        """Protected counts at a level, as published or added up; sparse where they were made so."""
        return self.as_counts().table(level)

    def to_polars(self, level: str, *, tidy: bool = False) -> pl.DataFrame:
        """What is published at a level, as a data frame; codes of units are text.

        where
            tidy   one row for each count, its attributes by level and the count as ``n``; else
                   one row for each unit, with a column for each cell

        A level that is not published is the leaf added up.
        """
        raise NotImplementedError

    def to_pandas(self, level: str, *, tidy: bool = False) -> Any:
        """The same as a frame of pandas, which must be installed."""
        return self.to_polars(level, tidy=tidy).to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The finest level that is published, tidy: for polars, pyarrow, DuckDB and others."""
        return self.to_polars(self.finest, tidy=True).__arrow_c_stream__(requested_schema)

    @property
    def finest(self) -> str:
        """The finest level that is published."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """What a notebook shows: the guarantee, and the first rows."""
        raise NotImplementedError

    def plot(self, level: str | None = None, *, by: str | None = None) -> Figure:
        """A picture of what is published; ``plot().chart`` is the chart of altair.

        where
            level   the level whose units are shown
            by      an attribute, whose levels are then set side by side for each unit
        """
        raise NotImplementedError

    def unweighted(self) -> Release:
        """The same with counts of the people of a sample, where it is weighted."""
        return self

    def as_tables(self) -> TablesRelease:
        """The same as published tables; an error if it has none."""
        raise InputError(
            "release",
            found="counts of every unit and cell",
            expected="published tables, some of whose cells are withheld",
        )

    def negative_counts(self) -> dict[str, dict[str, int]]:
        """How many published counts there are at each level, and how many of them are below 0.

        Facts of what is published. Counts that cannot be other than zero are not among them.
        """
        return {}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CountsRelease(Release):
    """Protected counts of every unit and cell.

    where
        tables    units x cells for each level that the mechanism publishes, the leaf among them
        weight    how many people each person of a sample stands for; 1 if everybody was counted
        missing   for some of these levels, which counts are not there (their table has 0): only
                  in files of others, since a release made here has every count
    """

    tables: Mapping[str, LevelTable]
    weight: Fraction = Fraction(1)
    missing: Mapping[str, Flags] = field(default_factory=dict)

    @property
    def finest(self) -> str:
        """The leaf: every release of counts has it."""
        return self.geography.leaf

    def plot(self, level: str | None = None, *, by: str | None = None) -> Figure:
        """Totals of the units of a level, or counts by an attribute in each of few units."""

        return _counts_figure(self, level, by)

    def _repr_html_(self) -> str:

        level = next(iter(self.tables))
        units = units_frame(self.geography, level)[:1]
        first = tidy_frame(units, self.schema, self.tables[level][:1])
        return _release_html(self, level, first)

    def parts(self) -> tuple[str, ...]:
        """The levels."""
        return tuple(self.tables)

    def as_counts(self) -> CountsRelease:
        """Itself."""
        return self

    def unweighted(self) -> CountsRelease:
        """Counts of the people of the sample: the weight is public, so attackers divide by it."""
        if self.weight == 1:
            return self
        tables = {level: _divided(table, self.weight) for level, table in self.tables.items()}
        return replace(self, tables=tables, weight=Fraction(1))

    def negative_counts(self) -> dict[str, dict[str, int]]:
        """How many published counts there are at each level, and how many of them are below 0."""
        possible = int(self.schema.possible.sum())
        return {
            level: {
                "counts": table.shape[0] * possible
                - int(self.missing[level].sum() if level in self.missing else 0),
                "negative": int(
                    ((table if isinstance(table, np.ndarray) else table.data) < 0).sum()
                ),
            }
            for level, table in self.tables.items()
        }

    def table(self, level: str) -> LevelTable:
        """Protected counts at a level, as published or added up; sparse where they were made so."""
        if level in self.tables:
            return self.tables[level]
        leaf = self.geography.leaf
        added: LevelTable = adder(self.geography, level, of=leaf) @ self.tables[leaf]
        return added

    def missing_at(self, level: str) -> Flags | None:
        """Which counts of a level are not there, nor the sum of such that are; None if none."""
        if level in self.tables or self.geography.leaf not in self.missing:
            return self.missing.get(level)
        leaf = self.geography.leaf
        below = adder(self.geography, level, of=leaf) @ self.missing[leaf].astype(np.int64)
        return np.asarray(below > 0)

    def to_polars(self, level: str, *, tidy: bool = False) -> pl.DataFrame:
        """Counts at a level as a data frame: a row for each unit, or tidy."""
        form = tidy_frame if tidy else wide_frame
        return form(units_frame(self.geography, level), self.schema, self.table(level))

    def at(self, level: str) -> Dense:
        """Protected counts at a level as a full array: as published, or the leaf added up."""
        return dense(self.table(level))


def _divided(table: LevelTable, weight: Fraction) -> LevelTable:
    """Counts over a weight, to the nearest whole number where that is what they were made from."""
    if isinstance(table, np.ndarray):
        return np.rint(table * weight.denominator / weight.numerator)
    from scipy.sparse import csr_array

    values = np.rint(table.data * weight.denominator / weight.numerator)
    return csr_array((values, table.indices, table.indptr), shape=table.shape)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TablesRelease(Release):
    """Published tables, some of whose cells are withheld, or whose counts are changed.

    where
        published   each table at each level
        rules       the rules by which cells are withheld or counts changed, which every attacker
                    may read
        areas       whether its places were made for it, so that a file says which leaf is where
    """

    published: tuple[PublishedCells, ...]
    rules: TableRules
    areas: bool = False

    @property
    def changed(self) -> bool:
        """Whether counts are changed, so that no value may be taken for the count behind it."""
        return not isinstance(self.rules, Rules)

    @property
    def withholding(self) -> Rules:
        """The rules by which cells are withheld; an error where counts are changed instead."""
        if not isinstance(self.rules, Rules):
            raise InputError(
                "release",
                found=f"tables whose counts are changed by {self.rules.method}",
                expected="tables some of whose cells are withheld, and the others exact",
            )
        return self.rules

    def without_settings(self) -> TablesRelease:
        """The same as it is published: without what an attacker was told of the settings."""
        return replace(self, published=tuple(replace(one, known=None) for one in self.published))

    @property
    def finest(self) -> str:
        """The finest level with a table."""
        return max((one.level for one in self.published), key=self.geography.depth)

    def plot(self, level: str | None = None, *, by: str | None = None) -> Figure:
        """How many cells of each table are withheld, or 0 where counts are changed, by level."""

        if level is not None or by is not None:
            raise InputError(
                "plot",
                found="level or by",
                expected="neither: of tables the share of cells that are withheld, or 0, is drawn",
            )
        return _tables_figure(self)

    def _repr_html_(self) -> str:

        level = self.published[0].level
        return _release_html(self, level, self.to_polars(level, tidy=True))

    def parts(self) -> tuple[str, ...]:
        """The tables with their levels."""
        return tuple(f"{one.name} at {one.level}" for one in self.published)

    def as_tables(self) -> TablesRelease:
        """Itself."""
        return self

    def to_polars(self, level: str, *, tidy: bool = False) -> pl.DataFrame:
        """The tables that are published at a level; what is withheld is missing.

        Tidy: ``table``, codes of the unit, ``cell``, ``n``, and whether it is ``published``.
        """
        here = [one for one in self.published if one.level == level]
        if not here:
            levels = dict.fromkeys(one.level for one in self.published)
            raise InputError(
                "release", found=f"level {level!r}", expected=f"tables at {one_of(levels)}"
            )
        return tables_frame(self.geography, level, here, tidy=tidy)


MOST_UNITS = 8
"""Units whose counts one figure sets side by side."""
BINS = 40


def _release_html(release: Release, level: str, first: pl.DataFrame) -> str:
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


def _counts_figure(release: CountsRelease, level: str | None, by: str | None) -> Figure:
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


def _tables_figure(release: TablesRelease) -> Figure:
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
