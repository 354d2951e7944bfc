"""How much more exact is the redistricting product of 2020 with pooled answers?

The made-up nation with the preset of 2020, as it is and with ``pool``: the same loss and, for each
seed, the same noise. Errors are of units of the measured tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import nan, sqrt
from time import process_time
from typing import Any

import numpy as np

from benchmarks.figures import Reading
from benchmarks.nation_people import SEED, nation_2020
from benchmarks.nation_spine import along_made_up_spine
from benchmarks.product_2020 import preset_2020
from headcount.arrays import Floats, Ints
from headcount.engines.local import LocalEngine
from headcount.geography import Geography
from headcount.mechanisms import Context, protect
from headcount.mechanisms.topdown.accuracy import ExpectedErrors
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.tabulate import Counts, Tabulated

QUICK = {"share": 0.004, "replicates": 1}
LEVELS = ("county", "tract", "block_group", "block")
RACES = "hispanic*cenrace"
LIMITS = {
    ("tract", "cells"): -22.0,
    ("tract", "total"): -22.0,
    ("block_group", "cells"): -12.0,
    ("county", RACES): -15.0,
    ("block", "cells"): 1.0,
    ("block", "total"): 1.0,
}
"""The most by which the root mean square error may change, in %, on 1 % of the nation."""
ASKED = -8.0
"""What was asked for totals of block groups, in %: more than any linear estimate reaches here.

They have 42 % of a block group's share, and no other answer tells much of them: what they gain is
what their tract does, divided among 2.86 of them.
"""
NEAR = 1.0
"""By so much of 100 may they gain less than the best linear estimate from all answers does."""
ROUNDING = 1 / 12
"""The variance that whole numbers add."""
JUDGED = 0.01
"""The smallest share with units enough to hold the figures against their limits."""


def measure(*, share: float = 0.01, replicates: int = 4) -> list[Reading]:
    """Changes of root mean square errors in %, paired by the seed of the noise.

    On the published tree, whose block groups are few, and along a spine, which has many more:
    then each of them tells less of its tract.
    """
    counts = along_made_up_spine(nation_2020(share, seed=SEED), seed=SEED)
    preset = preset_2020()
    plain = replace(preset, spine=False, bypass="")
    return [
        Reading("people", int(counts.matrix.sum()), "people"),
        *_compared(counts, plain, "published tree", replicates, judged=share >= JUDGED),
        *_compared(counts, preset, "spine", replicates, judged=False),
    ]


def _compared(
    counts: Counts, preset: TopDown, name: str, replicates: int, *, judged: bool
) -> Iterator[Reading]:
    """One way to measure, with and without pooled answers."""
    data, tree = Tabulated.of(counts), preset.tree(counts.geography)
    squares: dict[tuple[bool, str, str], list[float]] = {}
    cpu = {False: 0.0, True: 0.0}
    for seed in range(-1, replicates):  # the first is not counted: loops may have to be compiled
        for pool in (False, True):
            began = process_time()
            context = Context(engine=LocalEngine(1))
            made = protect(
                data, replace(preset, pool=pool), seed=max(seed, 0), context=context
            ).as_counts()
            if seed < 0:
                continue
            cpu[pool] += process_time() - began
            table = made.tables[counts.geography.leaf]
            for level, query, mean in _errors(counts, table, tree):
                squares.setdefault((pool, level, query), []).append(mean)
    yield Reading(f"{name}: units", tree.size("block_group"), "block groups", f"{tree!r}")
    expected = ExpectedErrors.of(preset, counts.schema, counts.geography).by_level()
    best = {one.level: one.best for one in expected if one.query == "total"}
    own = {one.level: one.own for one in expected if one.query == "total"}
    alone = _totals_alone(tree, own) if tree is counts.geography else {}
    most = {
        level: 100 * (sqrt((best[level] ** 2 + ROUNDING) / (variance + ROUNDING)) - 1)
        for level, variance in alone.items()
    }
    yield from _changes(name, squares, most, judged=judged)
    limit = 1.3 if judged else None
    yield Reading(
        f"{name}: CPU with pooled answers", cpu[True] / cpu[False], "times", at_most=limit
    )


def _changes(
    name: str,
    squares: Mapping[tuple[bool, str, str], list[float]],
    most: Mapping[str, float],
    *,
    judged: bool,
) -> Iterator[Reading]:
    """Changes in %, with their standard errors over seeds.

    ``most`` is what totals of a level gain by the best linear estimate from all answers.
    """
    for pool, level, query in squares:
        if not pool:
            continue
        before, after = (np.array(squares[one, level, query]) for one in (False, True))
        own, pooled = np.sqrt(before.mean()), np.sqrt(after.mean())
        off = 50 * (after - before) / before.mean()
        error = off.std(ddof=1) / np.sqrt(len(off)) if len(off) > 1 else nan
        note = f"{own:.3g} to {pooled:.3g}, standard error {error:.1f}"
        limit = LIMITS.get((level, query))
        if query == "total" and level in most:
            note += f"; by the best linear estimate, rounded: {most[level]:.1f}"
        if (level, query) == ("block_group", "total") and level in most:
            note += f" ({ASKED:.0f} was asked)"
            limit = most[level] + NEAR
        yield Reading(
            f"{name}: {query} at {level}: root mean square error",
            100 * float(pooled / own - 1),
            "%",
            note,
            at_most=limit if judged else None,
        )


def _totals_alone(tree: Geography, own: Mapping[str, float]) -> dict[str, float]:
    """The mean variance of totals where each level has its own answers alone, as without ``pool``.

        V_j = v (1 - 1/K) + V_p / K^2

    where
        v     the variance of the total of a unit of the level
        K     how many children its parent p has; totals of states are exact

    On a tree in which all units of a level are measured alike.
    """
    variance, found = np.zeros(tree.size("state")), {}
    for level in LEVELS[:-1]:
        parent = tree.parents[tree.depth(level)]
        kids = np.bincount(parent)[parent]
        variance = own[level] ** 2 * (1 - 1 / kids) + variance[parent] / kids**2
        found[level] = float(variance.mean())
    return found


def _errors(counts: Counts, table: Any, tree: Geography) -> Iterator[tuple[str, str, float]]:
    """The mean squared error of cells, of Hispanic origin by race, and of totals."""
    from scipy.sparse import csr_array

    off = csr_array(table - counts.matrix)
    if tree is counts.geography.spine:
        off = off[counts.geography.along_spine]
    shape = counts.schema.shape
    for level in LEVELS:
        unit, units = tree.ancestors(level), tree.size(level)
        ones = np.ones(len(unit), dtype=np.int64)
        sums = csr_array((ones, (unit, np.arange(len(unit)))), shape=(units, len(unit))) @ off
        yield level, "cells", _mean_square(sums.data, units * counts.schema.size)
        cell, value = sums.tocoo(), sums.tocoo().data
        _, _, hispanic, race = np.unravel_index(cell.coords[1], shape)
        group = (cell.coords[0].astype(np.int64) * shape[2] + hispanic) * shape[3] + race
        groups = np.bincount(np.unique(group, return_inverse=True)[1], weights=value)
        yield level, RACES, _mean_square(groups, units * shape[2] * shape[3])
        yield level, "total", _mean_square(np.asarray(sums.sum(axis=1)), units)


def _mean_square(values: Floats | Ints, many: int) -> float:
    return float(np.sum(np.square(values, dtype=np.float64))) / many
