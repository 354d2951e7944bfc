"""What a post-tabular step made: protected counts, or published tables, of one or more runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeAlias, TypedDict

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.counted import CountsOf
from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.privacy import Guarantee
from headcount.release import CountsRelease, Dense, LevelTable, TablesRelease
from headcount.release.published import PublishedCells, TableRules
from headcount.schema import Schema

Runs: TypeAlias = Ints | Floats | Sequence[LevelTable]
"""Protected counts of several runs: an array runs x units x cells, or one table a run."""


class Making(TypedDict):
    """How a release was made: what its kinds have in common."""

    schema: Schema
    geography: Geography
    mechanism: str
    guarantee: Guarantee
    key_kind: str
    backend: str
    counted: CountsOf


@dataclass(frozen=True, eq=False)
class CountsOutcome:
    """Protected counts per published level, and facts for the receipt.

    where
        seconds   how long each part took: of steps that read the truth, so for the curator only
        weight    how many people each person of a sample stands for
    """

    tables: Mapping[str, Runs]
    notes: Mapping[str, float | str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    weight: Fraction = Fraction(1)

    def as_counts(self) -> CountsOutcome:
        """Itself."""
        return self

    def dense(self, level: str) -> Dense:
        """Protected counts of all runs at a published level: runs x units x cells."""
        runs = self.tables[level]
        if isinstance(runs, np.ndarray):
            return runs
        full = [one if isinstance(one, np.ndarray) else one.toarray() for one in runs]
        return np.stack(full)

    def weighted(self, weight: Fraction) -> CountsOutcome:
        """The same with every count times the weight of a person in a sample."""
        if weight == 1:
            return self
        tables = {
            level: [_weighted(one, weight) for one in runs] for level, runs in self.tables.items()
        }
        return replace(self, tables=tables, weight=self.weight * weight)

    def release(self, number: int, making: Making) -> CountsRelease:
        """The release of the run with this number in the outcome."""
        tables = {level: runs[number] for level, runs in self.tables.items()}
        return CountsRelease(tables=tables, weight=self.weight, notes=self.notes, **making)


@dataclass(frozen=True, eq=False)
class TablesOutcome:
    """Published tables, and the rules by which cells are withheld or counts changed.

    where
        published   the tables of the first run
        later       those of the other runs; none where every run gives the same
        weight      how many people each person of a sample stands for in these tables already
    """

    published: tuple[PublishedCells, ...]
    rules: TableRules
    notes: Mapping[str, float | str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    later: tuple[tuple[PublishedCells, ...], ...] = ()
    weight: Fraction = Fraction(1)

    def of_run(self, number: int) -> tuple[PublishedCells, ...]:
        """The tables of the run with this number in the outcome."""
        return self.later[number - 1] if number and self.later else self.published

    def as_counts(self) -> CountsOutcome:
        """An error: there are no counts of every unit and cell."""
        raise InputError(
            "mechanism",
            found="published tables, with cells withheld or counts changed",
            expected="counts of every unit and cell",
        )

    def weighted(self, weight: Fraction) -> TablesOutcome:
        """Itself: what is withheld or changed by its size cannot be weighted afterwards."""
        if weight != self.weight:
            raise ConfigError(
                "published tables",
                found=f"a sample, in which each person stands for {weight}",
                expected="everybody: counts of a sample are small for another reason",
            )
        return self

    def release(self, number: int, making: Making) -> TablesRelease:
        """The release of the run with this number in the outcome."""
        tables = self.of_run(number)
        return TablesRelease(published=tables, rules=self.rules, notes=self.notes, **making)


Outcome: TypeAlias = CountsOutcome | TablesOutcome


def _weighted(table: LevelTable, weight: Fraction) -> LevelTable:
    """Counts times a weight, as floats: multiplied first, so that whole results are exact."""
    if isinstance(table, np.ndarray):
        return np.asarray(table * weight.numerator / weight.denominator)
    from scipy.sparse import csr_array

    values = table.data * weight.numerator / weight.denominator
    return csr_array((values, table.indices, table.indptr), shape=table.shape)
