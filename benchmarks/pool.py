"""How much more exact is TopDown with pooled answers, on real counts and at the same loss?

Every Parquet file of a folder that has a column for each cell of 8 groups x 2 ages, and codes of
places from the leaf to the top, is protected with and without ``pool``, with the same noise. Shares
are equal, or like those of 2020: there totals are fitted first, in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.figures import Reading
from headcount.arrays import Floats
from headcount.domain import Domain
from headcount.engines import LocalEngine
from headcount.errors import InputError
from headcount.mechanisms import Context
from headcount.noise import KeyedNoise, RunKey
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts
from headcount.topdown.mechanism import TopDown

GROUPS = ("hisp", "white", "black", "aian", "asian", "nhpi", "other", "two")
AGES = ("minor", "adult")
PLACES = ("state", "county", "tract", "block_group", "block", "unit")
"""Columns of codes that a file may have, from the top down."""
RHOS = ("0.1", "0.5", "2.56")
SMALL = 50_000
RUNS = {True: 8, False: 3}
"""Runs of files with few and with many leaves."""
QUERIES: Mapping[str, tuple[str, ...] | None] = {
    "cells": None,
    "group": ("group",),
    "age": ("age",),
    "total": (),
}
LIKE_2020 = {
    "state": ("377/1000", ("264/4097", "54/4097", "6/4097", "3773/4097")),
    "county": ("109/1000", ("893/4097", "68/4097", "10/4097", "3126/4097")),
    "tract": ("168/1000", ("584/4102", "1946/4102", "5/4102", "1567/4102")),
    "block_group": ("306/1000", ("1330/4099", "1061/4099", "3/4099", "1705/4099")),
    "block": ("40/1000", ("4052/4097", "35/4097", "5/4097", "5/4097")),
}
"""Shares of levels and of ``QUERIES``: the eleven queries of 2020 folded into these four."""
WORSE = 3.0
"""Standard errors by which an answer may come out worse: over seeds, of the paired difference."""
EQUAL_LIMITS = {("tract", "cells"): -11.0, ("block_group", "cells"): -3.0}
COUNTY_LIMITS = {("county", "cells"): -2.0}
LIKE_2020_LIMITS = {("tract", "cells"): -25.0, ("tract", "total"): -20.0}
"""The most by which the root mean square error may change, in %, as figures of a trial allow."""
LEAF = 1.0
"""The most by which the error of a leaf may grow, in %."""
SLACK = 0.05
"""Of a change in %: that of a root mean square error is 0 to no more digits than this."""
PLAIN, POOLED = "plain", "pooled"


@dataclass(frozen=True)
class SplitOfLoss:
    """One way to share a loss, and what pooling must bring with it."""

    name: str
    keys: Mapping[str, Any]
    limits: Mapping[tuple[str, str], float]


def measure(directory: Path, *, replicates: int = 0) -> list[Reading]:
    """Changes of root mean square errors in %, for every file, loss, level and query."""
    readings: list[Reading] = []
    for name, counts in files_in(directory):
        runs = replicates or RUNS[is_small(counts)]
        for setting in settings_for(counts):
            for rho in RHOS:
                readings += _compared(name, counts, setting, rho, runs)
    return readings


def files_in(directory: Path) -> Iterator[tuple[str, Counts]]:
    """The name and the counts of each file with columns of cells; an error if there is none."""
    found = False
    for path in sorted(directory.glob("*.parquet")):
        if (counts := read_file(path)) is not None:
            found = True
            yield path.stem, counts
    if not found:
        raise InputError(
            str(directory),
            found="no file of counts by group and age",
            expected="Parquet with hisp_minor ... two_adult and codes of places",
        )


def is_small(counts: Counts) -> bool:
    """Whether a file has few leaves, so that many runs of it are quick."""
    return counts.geography.size(counts.geography.leaf) < SMALL


def read_file(path: Path) -> Counts | None:
    """The counts of a file; None if it has other columns."""
    import polars as pl
    from scipy.sparse import csr_array

    from headcount.geography.geography import CodeColumns, build_geography

    frame = pl.read_parquet(path)
    cells = [f"{group}_{age}" for group in GROUPS for age in AGES]
    if not set(cells) <= set(frame.columns):
        return None
    levels = tuple(level for level in PLACES if level in frame.columns)
    several = frame[levels[0]].n_unique() > 1
    source = CodeColumns(
        columns=levels if several else levels[1:], root="nation" if several else levels[0]
    )
    geography, leaf = build_geography(frame, source, name=path.name, distinct=True)
    schema = Schema((Attribute("group", GROUPS), Attribute("age", AGES)))
    table = np.zeros((geography.size(geography.leaf), schema.size), dtype=np.int64)
    table[leaf] = frame.select(cells).to_numpy()
    return Counts(Domain(schema, geography), geography.leaf, csr_array(table))


def settings_for(counts: Counts) -> Iterator[SplitOfLoss]:
    """Equal shares; and those like 2020 where a file has their levels."""
    levels = counts.geography.levels
    state = "state"
    below = levels[levels.index(state) :]
    queries = {
        name: {"share": "1/4"} | ({} if by is None else {"by": by}) for name, by in QUERIES.items()
    }
    exact = [{"query": "total", "level": state}]
    without = dict.fromkeys(("cells", "group", "age"), "1/3")
    tops = dict.fromkeys(levels[: levels.index(state) + 1], without)
    limits = EQUAL_LIMITS if "tract" in levels else COUNTY_LIMITS
    yield SplitOfLoss(
        "equal shares",
        {"queries": queries, "invariant": exact, "level_queries": tops},
        limits,
    )
    if set(LIKE_2020) != set(levels):
        return
    shares = {level: share for level, (share, _) in LIKE_2020.items()}
    own = {
        level: dict(zip(QUERIES, parts, strict=True))
        for level, (_, parts) in LIKE_2020.items()
        if level != state
    }
    three = [Fraction(part) for part in LIKE_2020[state][1][:3]]
    own[state] = {name: str(part / sum(three)) for name, part in zip(without, three, strict=True)}
    first = {"fit": [["total"], ["cells", "group", "age"]], "round": [["total"], ["cells"]]}
    passes = dict.fromkeys(below[1:-1], first)
    yield SplitOfLoss(
        "shares like 2020",
        {
            "queries": queries,
            "invariant": exact,
            "levels": shares,
            "level_queries": own,
            "passes": passes,
        },
        LIKE_2020_LIMITS,
    )


def _compared(
    name: str, counts: Counts, setting: SplitOfLoss, rho: str, runs: int
) -> Iterator[Reading]:
    """Mean squared errors of both ways, paired by the seed of their noise."""
    squares: dict[tuple[str, str, str], list[float]] = {}
    cpu = dict.fromkeys((PLAIN, POOLED), 0.0)
    for seed in (-1, *range(runs)):  # the first is not counted: loops may have to be compiled
        for way in cpu:
            began = process_time()
            tables = _made(way, counts, setting, rho, seed=max(seed, 0))
            if seed < 0:
                continue
            cpu[way] += process_time() - began
            for level, query, mean in _errors(counts, tables):
                squares.setdefault((way, level, query), []).append(mean)
    about = f"{name}, {setting.name}, rho {rho}"
    for way, level, query in squares:
        if way == POOLED:
            before, after = (np.array(squares[one, level, query]) for one in (PLAIN, POOLED))
            yield _change(about, level, query, before, after, setting, counts)
    yield Reading(f"{about}: CPU", cpu[POOLED] / cpu[PLAIN], "times", at_most=1.3)


def _made(
    way: str, counts: Counts, setting: SplitOfLoss, rho: str, *, seed: int
) -> Mapping[str, Any]:
    """The table of every level, from the same noise whatever the way."""
    noise = KeyedNoise(RunKey.from_seed(seed), "topdown", b"pool", rho.encode())
    mechanism = TopDown(rho=Fraction(rho), pool=way == POOLED, **setting.keys)
    made = mechanism.on(counts.domain).run(
        counts, noise, runs=range(1), context=Context(engine=LocalEngine(1))
    )
    return {level: one[0] for level, one in made.as_counts().tables.items()}


def _change(
    about: str,
    level: str,
    query: str,
    before: Floats,
    after: Floats,
    setting: SplitOfLoss,
    counts: Counts,
) -> Reading:
    """The change of a root mean square error in %, with what it must not exceed.

    Its standard error is that of the differences of the seeds' mean squared errors: within a run
    the errors of units depend on each other.
    """
    change = 100 * float(np.sqrt(after.mean() / before.mean()) - 1)
    off = 50 * (after - before) / before.mean()
    error = float(off.std(ddof=1) / np.sqrt(len(off)))
    limit = setting.limits.get((level, query), WORSE * error + SLACK)
    if level == counts.geography.leaf:
        limit = min(limit, LEAF)
    note = (
        f"{np.sqrt(before.mean()):.3g} to {np.sqrt(after.mean()):.3g}, standard error {error:.2f}"
    )
    return Reading(f"{about}: {query} at {level}", change, "%", note, at_most=limit)


def _errors(counts: Counts, tables: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """The mean squared error of each query, at each level of more units than one."""
    shape = (-1, len(GROUPS), len(AGES))
    for level in counts.geography.levels:
        if counts.geography.size(level) == 1:
            continue
        off = (tables[level].toarray() - counts.at(level).dense()).reshape(shape).astype(float)
        sums = {"cells": off, "group": off.sum(2), "age": off.sum(1), "total": off.sum((1, 2))}
        for query, values in sums.items():
            if query != "total" or level != "state":
                yield level, query, float((values**2).mean())
