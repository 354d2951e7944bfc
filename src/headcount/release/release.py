"""The release: what is published, what it promises, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Flags
from headcount.counted import CountsOf
from headcount.errors import InputError, one_of
from headcount.geography import Geography
from headcount.privacy import Guarantee
from headcount.release.frames import (
    Dense,
    LevelTable,
    dense,
    tables_frame,
    tidy_frame,
    units_frame,
    wide_frame,
)
from headcount.release.published import PublishedCells, Rules, TableRules
from headcount.schema import Schema
from headcount.tabulate.counts import adder

if TYPE_CHECKING:
    import polars as pl

    from headcount.report.model import Figure

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
        counted     what the counts are of: people, or housing units

    What is published is said by the kinds of release: ``CountsRelease``, ``TablesRelease``.
    """

    schema: Schema
    geography: Geography
    mechanism: str
    guarantee: Guarantee
    key_kind: str
    backend: str
    notes: Mapping[str, float | str] = field(default_factory=dict)
    counted: CountsOf = CountsOf.PEOPLE

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
        from headcount.release._show import counts_figure

        return counts_figure(self, level, by)

    def _repr_html_(self) -> str:
        from headcount.release._show import release_html

        level = next(iter(self.tables))
        units = units_frame(self.geography, level)[:1]
        first = tidy_frame(units, self.schema, self.tables[level][:1])
        return release_html(self, level, first)

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
    """

    published: tuple[PublishedCells, ...]
    rules: TableRules

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
        from headcount.release._show import tables_figure

        if level is not None or by is not None:
            raise InputError(
                "plot",
                found="level or by",
                expected="neither: of tables the share of cells that are withheld, or 0, is drawn",
            )
        return tables_figure(self)

    def _repr_html_(self) -> str:
        from headcount.release._show import release_html

        level = self.published[0].level
        return release_html(self, level, self.to_polars(level, tidy=True))

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
