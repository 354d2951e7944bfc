"""Does TopDown err as another system's TopDown does, on that system's own population?"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fractions import Fraction
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.figures import Reading
from benchmarks.peer_files import Peer, Releases, read_peer
from benchmarks.peer_tree import ABOVE_LEAF, EXACT, LEAF
from benchmarks.two_samples import energy_p_value, means_p_value
from headcount.arrays import Floats, Ints
from headcount.errors import ConfigError
from headcount.mechanisms import protect
from headcount.tabulate import Counts, Tabulated
from headcount.topdown.choices import Invariant, QuartersBounds
from headcount.topdown.mechanism import TopDown

REPLICATES = 500
FARTHEST = 3.5
"""How many of the peer's standard errors a mean may lie from the peer's."""
CAP_HOUSEHOLD, CAP_FACILITY = 99, 99_999
_PIECES = 10


def measure(*, directory: Path, name: str, replicates: int = REPLICATES) -> list[Reading]:
    """Mean absolute errors at every epsilon of the peer's files beside the peer's, and tests.

    An error is taken over all units (and cells, empty ones too) of one replicate, then averaged
    over replicates; every replicate has a key of its own from the operating system.
    """
    if replicates < 2:
        raise ConfigError(
            "benchmarks peer-e2e",
            place="--replicates",
            found=str(replicates),
            expected="2 or more",
        )
    peer = read_peer(directory, name)
    data = Tabulated.of(peer.population)
    counts = data.counts
    readings = _describe(peer)
    cores = os.cpu_count() or 1
    # Fresh processes: the work is too fine-grained for threads, and forking threads is unsafe.
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        for epsilon, theirs in peer.releases.items():
            make = partial(replicate, data, peer_settings(peer, epsilon))
            list(pool.map(make, [1] * cores))  # compile, build noise tables
            begin = perf_counter()
            parts = list(pool.map(make, _shares(replicates, pieces=_PIECES * cores)))
            wall = perf_counter() - begin
            cpu = sum(seconds for _, seconds in parts) / replicates
            readings.append(
                Reading(
                    f"epsilon {float(epsilon):g}: {replicates} replicates",
                    wall,
                    "s wall",
                    f"{1e3 * cpu:.1f} ms CPU a replicate, compiling excluded",
                )
            )
            readings += compare(counts, _joined([releases for releases, _ in parts]), theirs)
    return readings


def _shares(whole: int, *, pieces: int) -> list[int]:
    """A whole as nearly equal positive parts."""
    pieces = min(pieces, whole)
    return [(whole + k) // pieces for k in range(pieces)]


def _joined(parts: list[Releases]) -> Releases:
    cells = [part.cells for part in parts if part.cells is not None]
    return Releases(
        totals=np.concatenate([part.totals for part in parts]), cells=np.concatenate(cells)
    )


def peer_settings(peer: Peer, epsilon: Fraction) -> TopDown:
    """The preset of the 2018 test on the peer's schema, without the report."""
    first, *others = peer.population.schema.names
    types = peer.population.schema.shape[0]
    preset = TopDown.from_preset("e2e-2018", epsilon=epsilon)
    by = {"hhgq": (first,), "va_hisp_race": tuple(others)}
    queries = ((name, replace(asked, by=by.get(name, asked.by))) for name, asked in preset.queries)
    caps = (CAP_HOUSEHOLD, *[CAP_FACILITY] * (types - 1))
    return replace(
        preset,
        queries=tuple(queries),
        invariant=(Invariant(query="total", level=EXACT),),
        bounds=(QuartersBounds(query="hhgq", caps=caps, total_level=EXACT),),
        failsafe_over=(first,),
        report_epsilon=Fraction(0),
    )


def replicate(data: Tabulated, mechanism: TopDown, times: int) -> tuple[Releases, float]:
    """Release the counts so many times, each with a new key from the operating system.

    Returns the releases and the CPU seconds they took.
    """
    begin = process_time()
    totals, cells = [], []
    for _ in range(times):
        table: Any = protect(data, mechanism).table(data.counts.geography.leaf)
        dense = table.toarray()
        totals.append(dense.sum(axis=1))
        cells.append(_beside_type(data.counts, dense))
    return Releases(totals=np.array(totals), cells=np.array(cells)), process_time() - begin


def _beside_type(counts: Counts, dense: Ints) -> Ints:
    """Units x cells summed over the first attribute."""
    by_type = dense.reshape(len(dense), counts.schema.shape[0], -1)
    return np.asarray(by_type.sum(axis=1), dtype=np.int64)


def compare(counts: Counts, ours: Releases, theirs: Releases) -> list[Reading]:
    """Mean absolute errors side by side, then two-sample tests on the leaf totals."""
    geography = counts.geography
    dense = counts.dense()
    people = dense.sum(axis=1)
    readings = _beside("ED totals", _error(people), ours.totals, theirs.totals)
    if ABOVE_LEAF in geography.levels:
        parent = geography.ancestors(ABOVE_LEAF)
        add = np.zeros((len(parent), geography.size(ABOVE_LEAF)), dtype=np.int64)
        add[np.arange(len(parent)), parent] = 1
        readings += _beside(
            "county totals", _error(people @ add), ours.totals @ add, theirs.totals @ add
        )
    if ours.cells is not None:
        names = " x ".join(counts.schema.names[1:])
        readings += _beside(
            f"ED {names}", _error(_beside_type(counts, dense)), ours.cells, theirs.cells
        )
    return [*readings, *_tests(_error(people), ours.totals, theirs.totals)]


def _error(true: Ints) -> Callable[[Ints], Floats]:
    """The mean absolute error of each replicate."""
    return lambda released: np.abs(released - true).reshape(len(released), -1).mean(axis=1)


def _beside(
    what: str, error: Callable[[Ints], Floats], ours: Ints, theirs: Ints | None
) -> list[Reading]:
    a = error(ours)
    reading = Reading(
        f"  {what}, mean absolute error",
        float(a.mean()),
        "people",
        f"s.e. {_standard_error(a):.2g}",
    )
    if theirs is None:
        return [replace(reading, note=f"{reading.note}; the peer's are not in its files")]
    b = error(theirs)
    apart = (a.mean() - b.mean()) / _standard_error(b)
    verdict = "within" if abs(apart) <= FARTHEST else "NOT within"
    peer = f"peer {b.mean():.4g}, s.e. {_standard_error(b):.2g}, {len(b)} replicates"
    return [
        replace(reading, note=f"{reading.note}; {peer}"),
        Reading("    apart", float(apart), "peer's s.e.", f"{verdict} {FARTHEST}"),
    ]


def _standard_error(values: Floats) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _tests(error: Callable[[Ints], Floats], ours: Ints, theirs: Ints) -> list[Reading]:
    from scipy.stats import ks_2samp

    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    found = {
        "mean absolute error of a replicate (Kolmogorov-Smirnov)": float(
            ks_2samp(error(ours), error(theirs)).pvalue
        ),
        "mean of any ED (permutation)": means_p_value(a, b, seed=1),
        "whole vector of EDs (energy distance, permutation)": energy_p_value(a, b, seed=1),
    }
    return [Reading(f"  {what}", p, "p") for what, p in found.items()]


def _describe(peer: Peer) -> list[Reading]:
    """What was found in the files."""
    population = peer.population
    sizes = " x ".join(map(str, population.schema.shape))
    levels = population.geography.levels
    tree = ", ".join(f"{level} {population.geography.size(level)}" for level in levels[1:])
    return [
        Reading("cells of the peer's schema", population.schema.size, "cells", sizes),
        Reading(
            "leaf units of the peer's tree",
            population.geography.size(LEAF),
            "units",
            f"{tree}; exact totals: {EXACT}",
        ),
    ]
