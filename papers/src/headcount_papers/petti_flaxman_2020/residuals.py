"""What the study keeps of one release: its residuals as histograms, and sums over groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.geography import Geography
from headcount.tabulate import Counts, Query
from headcount_papers.petti_flaxman_2020.settings import (
    COUNT_TYPES,
    LEVELS,
    STRATA_SHAPE,
    CountType,
    Level,
)

STRATA = Query("strata", ("voting_age", "hispanic", "race"))
"""The cells of a stratified count."""
SIZE_CLASSES = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""Lower ends of the classes by exact count: nobody, 1 to 9, 10 to 99 ..."""


class TrueCounts:
    """The exact stratified counts of every level, dense: 26 MB for the nation's districts."""

    def __init__(self, counts: Counts) -> None:
        self.geography: Geography = counts.geography
        self.strata: dict[Level, Ints] = {
            level: add_up(
                np.asarray((counts.matrix @ STRATA.matrix(counts.schema)).toarray()),
                counts.geography,
                level,
            )
            for level in LEVELS
        }

    @cached_property
    def totals(self) -> dict[Level, Ints]:
        """People per unit."""
        return {level: table.sum(axis=1) for level, table in self.strata.items()}

    def values(self, count_type: CountType, level: Level) -> Ints:
        """Exact counts: every unit (TC), or every unit and stratum (SC), flat."""
        return self.totals[level] if count_type == "TC" else self.strata[level].ravel()


@dataclass(frozen=True, kw_only=True, eq=False)
class Residuals:
    """Released minus exact, in units of 1/``denominator`` people: whole numbers for a sample too.

    where
        histograms   (count type, level) -> distinct residuals ascending, and how many of each;
                     a cell enters when it is not empty on either side
        totals       level -> residual of every unit's total, in the geography's order
        groups       level -> for each margin in ``MARGINS``: sum, sum of sizes, number
        sizes        (count type, level) -> the same for each class of exact counts
    """

    denominator: int
    histograms: Mapping[tuple[CountType, Level], tuple[Ints, Ints]]
    totals: Mapping[Level, Ints]
    groups: Mapping[Level, Ints]
    sizes: Mapping[tuple[CountType, Level], Ints]

    def to_bytes(self) -> bytes:
        """As a compressed numpy file."""
        arrays: dict[str, Any] = {"denominator": np.int64(self.denominator)}
        for (kind, level), (values, number) in self.histograms.items():
            arrays[f"histogram/{kind}/{level}"] = np.stack([values, number])
        for (kind, level), table in self.sizes.items():
            arrays[f"sizes/{kind}/{level}"] = table
        for level in self.totals:
            arrays[f"totals/{level}"] = self.totals[level]
            arrays[f"groups/{level}"] = self.groups[level]
        stream = BytesIO()
        np.savez_compressed(stream, **arrays)
        return stream.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Residuals:
        """Read what ``to_bytes`` wrote."""
        with np.load(BytesIO(data), allow_pickle=False) as file:
            pairs = [(kind, level) for kind in COUNT_TYPES for level in LEVELS]
            stacked = {pair: file[f"histogram/{pair[0]}/{pair[1]}"] for pair in pairs}
            return cls(
                denominator=int(file["denominator"]),
                histograms={pair: (table[0], table[1]) for pair, table in stacked.items()},
                totals={level: file[f"totals/{level}"] for level in LEVELS},
                groups={level: file[f"groups/{level}"] for level in LEVELS},
                sizes={pair: file[f"sizes/{pair[0]}/{pair[1]}"] for pair in pairs},
            )


def reduce_release(truth: TrueCounts, released: Ints, *, denominator: int = 1) -> Residuals:
    """Compare released strata of the leaf (leaf units x 24, in 1/denominator people) with truth."""
    histograms, sizes, totals, groups = {}, {}, {}, {}
    for level in LEVELS:
        exact = truth.strata[level]
        here = add_up(released, truth.geography, level)
        totals[level] = here.sum(axis=1) - denominator * truth.totals[level]
        groups[level] = _by_margin(exact, here, denominator)
        for kind in COUNT_TYPES:
            before = truth.values(kind, level)
            after = here.sum(axis=1) if kind == "TC" else here.ravel()
            enters = (before > 0) | (after > 0)
            before, error = before[enters], after[enters] - denominator * before[enters]
            histograms[kind, level] = np.unique(error, return_counts=True)
            of_class = np.searchsorted(SIZE_CLASSES, before, side="right") - 1
            sizes[kind, level] = _sums(of_class, error, len(SIZE_CLASSES))
    return Residuals(
        denominator=denominator, histograms=histograms, totals=totals, groups=groups, sizes=sizes
    )


def pool_histograms(
    draws: Iterable[Residuals], count_type: CountType, level: Level
) -> tuple[Floats, Ints]:
    """The distinct residuals of several releases together, in people, and how many of each."""
    parts = [(draw.denominator, *draw.histograms[count_type, level]) for draw in draws]
    values, place = np.unique(
        np.concatenate([values / denominator for denominator, values, _ in parts]),
        return_inverse=True,
    )
    numbers = np.zeros(values.size, dtype=np.int64)
    np.add.at(numbers, place, np.concatenate([number for *_, number in parts]))
    return values, numbers


def pool(draws: Iterable[Residuals], count_type: CountType, level: Level) -> Floats:
    """The residuals of several releases together, in people, ascending."""
    parts = [
        np.repeat(values / draw.denominator, number)
        for draw in draws
        for values, number in [draw.histograms[count_type, level]]
    ]
    return np.sort(np.concatenate(parts))


MARGINS: tuple[tuple[str, tuple[int, ...], tuple[str, ...]], ...] = (
    ("voting age", (0,), ("under 18", "18 and over")),
    ("ethnicity", (1,), ("not Hispanic", "Hispanic")),
    ("race", (2,), ("White", "Black", "American Indian", "Chinese", "Japanese", "other")),
)
"""Margins of the strata by which groups are looked at: name, axis, labels."""


def _by_margin(exact: Ints, released: Ints, denominator: int) -> Ints:
    """For every label of every margin: sum of errors, sum of their sizes, number of units."""
    rows = []
    for _, axes, labels in MARGINS:
        others = tuple(1 + axis for axis in range(3) if axis not in axes)
        before = exact.reshape(-1, *STRATA_SHAPE).sum(axis=others)
        after = released.reshape(-1, *STRATA_SHAPE).sum(axis=others)
        error = after - denominator * before
        enters = (before > 0) | (after > 0)
        sums = np.stack([error.sum(axis=0), np.abs(error).sum(axis=0), enters.sum(axis=0)], axis=1)
        assert len(sums) == len(labels)
        rows.append(sums)
    return np.concatenate(rows).astype(np.int64)


def _sums(label: Ints, error: Ints, number: int) -> Ints:
    """For each label: sum of errors, sum of their sizes, how many."""
    out = np.zeros((number, 3), dtype=np.int64)
    np.add.at(out[:, 0], label, error)
    np.add.at(out[:, 1], label, np.abs(error))
    np.add.at(out[:, 2], label, 1)
    return out


def add_up(leaf: Ints, geography: Geography, level: Level) -> Ints:
    """Leaf rows added up to a level."""
    if level == geography.leaf:
        return leaf
    at = geography.ancestors(level)
    start = np.searchsorted(at, np.arange(geography.size(level)))
    folded: Ints = np.add.reduceat(leaf, start, axis=0)
    return folded
