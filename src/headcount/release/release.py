"""The release: what is published, what it promises, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from headcount.errors import InputError, one_of
from headcount.geography import Geography
from headcount.privacy import Guarantee
from headcount.release.frames import (
    Dense,
    LevelTable,
    tables_frame,
    tidy_frame,
    units_frame,
    wide_frame,
)
from headcount.release.published import PublishedCells, Rules
from headcount.schema import Schema
from headcount.tabulate.counts import adder

if TYPE_CHECKING:
    import polars as pl


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

    schema: Schema
    geography: Geography
    mechanism: str
    guarantee: Guarantee
    key_kind: str
    backend: str
    notes: Mapping[str, float | str] = field(default_factory=dict)

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
        """Protected counts at a level as a full array: as published, or the leaf added up."""
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
        tables   units x cells for each level that the mechanism publishes, the leaf among them
        weight   how many people each person of a sample stands for; 1 if everybody was counted
    """

    tables: Mapping[str, LevelTable]
    weight: Fraction = Fraction(1)

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
                "counts": table.shape[0] * possible,
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

    def to_polars(self, level: str, *, tidy: bool = False) -> pl.DataFrame:
        """Counts at a level as a data frame: a row for each unit, or tidy."""
        form = tidy_frame if tidy else wide_frame
        return form(units_frame(self.geography, level), self.schema, self.table(level))

    def at(self, level: str) -> Dense:
        """Protected counts at a level as a full array: as published, or the leaf added up."""
        table = self.table(level)
        return table if isinstance(table, np.ndarray) else np.asarray(table.toarray())


def _divided(table: LevelTable, weight: Fraction) -> LevelTable:
    """Counts over a weight, to the nearest whole number where that is what they were made from."""
    if isinstance(table, np.ndarray):
        return np.rint(table * weight.denominator / weight.numerator)
    from scipy.sparse import csr_array

    values = np.rint(table.data * weight.denominator / weight.numerator)
    return csr_array((values, table.indices, table.indptr), shape=table.shape)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TablesRelease(Release):
    """Published tables, some of whose cells are withheld.

    where
        published   each table at each level
        rules       the rules by which cells are withheld, which every attacker may read
    """

    published: tuple[PublishedCells, ...]
    rules: Rules

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
