"""How long does TopDown take on a nation of the size of 2020, and in how much memory?"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from fractions import Fraction
from hashlib import sha256
from math import log, nan
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import perf_counter, process_time
from typing import Any

import numpy as np

from headcount.bench.figures import Reading
from headcount.bench.nation_people import LEVELS, REAL, nation_2020
from headcount.bench.recheck import CAP_FACILITY, recheck
from headcount.errors import ConfigError
from headcount.tabulate import Counts

SEED = 2020
SMALLER = 4
"""Slopes compare the nation with one of a quarter of its share."""

QUERIES: Mapping[str, tuple[str, ...]] = {
    "total": (),
    "cenrace": ("cenrace",),
    "hispanic": ("hispanic",),
    "votingage": ("votingage",),
    "hhinstlevels": ("hhinstlevels",),
    "hhgq": ("hhgq",),
    "hispanic*cenrace": ("hispanic", "cenrace"),
    "votingage*cenrace": ("votingage", "cenrace"),
    "votingage*hispanic": ("votingage", "hispanic"),
    "votingage*hispanic*cenrace": ("votingage", "hispanic", "cenrace"),
}
RHO = Fraction(293_764, 114_921)
LEVEL_SHARES = (104, 1440, 447, 687, 1256, 165)
QUERY_SHARES: Mapping[str, tuple[int, ...]] = {
    "nation": (0, 52, 26, 26, 26, 26, 130, 130, 26, 442, 3213),
    "state": (3773, 6, 6, 6, 6, 6, 12, 12, 6, 34, 230),
    "county": (3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754),
    "tract": (1567, 8, 5, 5, 5, 5, 1933, 20, 5, 67, 482),
    "block_group": (1705, 3, 3, 3, 3, 3, 1055, 9, 3, 24, 1288),
    "block": (5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945),
}
"""The redistricting product of 2020: its loss, and what each level and query has of it."""

Ran = dict[str, Any]
"""What one run gave, as JSON."""


def measure(*, share: float = 0.01) -> list[Reading]:
    """Run twice, each in a fresh process: a quarter of the share, which also compiles, then all."""
    if not 0.001 <= share <= 1:
        raise ConfigError(
            "headcount bench nation-2020",
            place="--share",
            found=str(share),
            expected="the part of the nation to make, 0.001 to 1",
        )
    runs = []
    for part in (share / SMALLER, share):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            runs.append(pool.submit(run_nation, part).result())
    smaller, whole = runs
    return [*_described(whole), *_stages(whole), *_slopes(smaller, whole)]


def topdown_2020() -> Any:
    """TopDown with the schema, the queries and the shares of the redistricting product."""
    from headcount.mechanisms.topdown.mechanism import TopDown

    names = [*QUERIES, "cells"]
    keys: dict[str, Any] = {
        "rho": RHO,
        "unit": "change-one",
        "levels": {n: Fraction(part, 4099) for n, part in zip(LEVELS, LEVEL_SHARES, strict=True)},
        "queries": {"cells": {}} | {name: {"by": by} for name, by in QUERIES.items()},
        "recodes": {
            "hhinstlevels": {
                "of": "hhgq",
                "groups": {
                    "household": ["household"],
                    "institutional": [
                        "correctional",
                        "juvenile",
                        "nursing",
                        "other_institutional",
                    ],
                    "noninstitutional": ["college", "military", "other_noninstitutional"],
                },
            }
        },
        "level_queries": {
            level: {
                name: Fraction(part, sum(parts))
                for name, part in zip(names, parts, strict=True)
                if part
            }
            for level, parts in QUERY_SHARES.items()
        },
        "invariant": ({"query": "total", "level": "state"},),
        "bounds": ({"query": "hhgq", "caps": (99_999,) * 8, "total_level": "state"},),
    }
    return TopDown(**keys)


def run_nation(share: float, *, workers: int = 0, folder: Path | None = None) -> Ran:
    """Make a nation, protect it with a seeded key, write the release; times, memory, digest."""
    from headcount.engines.local import LocalEngine
    from headcount.mechanisms import Context, Tabulated, protect
    from headcount.release.store import check_files, write_release
    from headcount.storage import storage_at

    counts = nation_2020(share, seed=SEED)
    facts = _facts(counts)
    stages: dict[str, list[float]] = {}
    with TemporaryDirectory(dir=folder) as made, _watched() as peak:
        out = Path(made)
        mechanism = topdown_2020()
        with _timed(stages, "digest of the counts"):
            truth = Tabulated.of(counts)
        peak()
        with _timed(stages, "check"):
            mechanism.check(counts)
        with _timed(stages, "protect"):
            work = storage_at(out / "work")
            context = Context(engine=LocalEngine(workers), workspace=work, curator=out)
            release = protect(truth, mechanism, seed=SEED, context=context)
        seconds = json.loads((out / "seconds.json").read_text("utf-8"))
        with _timed(stages, "write the release"):
            write_release(release, out / "release", receipt={})
        files = check_files(out / "release")["files"]
        size = sum((out / "release" / name).stat().st_size for name in files)
        most = peak()
        checked = recheck(
            truth.population, release.as_counts().tables, exact="state", cap_household=CAP_FACILITY
        )
    return {
        "share": share,
        **facts,
        "stages": stages,
        "levels": seconds,
        "notes": {k: v for k, v in release.notes.items() if isinstance(v, int | float) and v},
        "peak": most,
        "constraints": [sum(pair[i] for pair in checked.values()) for i in (0, 1)],
        "bytes": size,
        "digest": digest_of(release.as_counts().tables),
    }


def digest_of(tables: Mapping[str, Any]) -> str:
    """SHA-256 of all released counts, however they are held: equal bits, equal digest."""
    hasher = sha256()
    for level, table in tables.items():
        hasher.update(f"{level}:{table.shape}".encode())
        for part in (table.indptr, table.indices, table.data):
            hasher.update(np.ascontiguousarray(part, dtype="<i8").data)
    return hasher.hexdigest()


def _facts(counts: Counts) -> Ran:
    """How many places and people there are, and cells in use a unit."""
    used = {}
    for level in LEVELS:
        matrix = counts.at(level).matrix
        used[level] = matrix.nnz / matrix.shape[0]
    sizes = {level: counts.geography.size(level) for level in LEVELS}
    people = int(counts.matrix.sum())
    populated = int((np.diff(counts.matrix.indptr) > 0).sum())
    return {"units": sizes, "people": people, "used": used, "populated": populated}


@contextmanager
def _timed(stages: dict[str, list[float]], name: str) -> Iterator[None]:
    wall, cpu = perf_counter(), process_time()
    yield
    stages[name] = [perf_counter() - wall, process_time() - cpu]


@contextmanager
def _watched() -> Iterator[Any]:
    """A function that gives the most anonymous memory so far, in GiB; looked at 20 times a second.

    Pages of mapped files are not counted: the system takes them back when it needs them.
    """
    stop, most = Event(), [0.0]

    def look() -> float:
        most[0] = max(most[0], anonymous_gib())
        return most[0]

    def watch() -> None:
        while not stop.wait(0.05):
            look()

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield look
    finally:
        stop.set()
        thread.join()


def anonymous_gib() -> float:
    """Memory of this process that no file backs, in GiB; NaN where the system does not say."""
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text("utf-8").splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 2**20
    return nan


def _described(ran: Ran) -> list[Reading]:
    tree = ", ".join(f"{level} {n:,}" for level, n in ran["units"].items() if n > 1)
    readings = [
        Reading("people", ran["people"], "people", tree),
        Reading("  blocks with people", ran["populated"], "blocks"),
    ]
    for level, used in ran["used"].items():
        real = f"2020: about {REAL[level]}" if level in REAL else ""
        readings.append(Reading(f"  cells in use in a mean {level}", used, "of 2,016", real))
    return readings


def _stages(ran: Ran) -> list[Reading]:
    readings = []
    for name, (wall, cpu) in ran["stages"].items():
        readings.append(Reading(name, cpu, "s CPU", f"{wall:.1f} s wall, {os.cpu_count()} cores"))
    readings += [Reading(f"  {level}", wall, "s wall") for level, wall in ran["levels"].items()]
    total = sum(cpu for _, cpu in ran["stages"].values())
    many, broken = ran["constraints"]
    readings += [
        Reading("tabulated counts to finished release", total, "s CPU"),
        Reading("constraints broken", broken, f"of {many:,}", "rechecked in integers"),
        Reading("peak anonymous memory", ran["peak"], "GiB"),
        Reading("size of the release", ran["bytes"] / 2**20, "MiB", f"digest {ran['digest'][:16]}"),
    ]
    return readings


def _slopes(smaller: Ran, whole: Ran) -> list[Reading]:
    """Exponents of growth: 1 is in proportion."""

    def slope(small: float, large: float) -> float:
        return log(large / small) / log(whole["people"] / smaller["people"])

    cpu = [sum(one for _, one in ran["stages"].values()) for ran in (smaller, whole)]
    protecting = [ran["stages"]["protect"][1] for ran in (smaller, whole)]
    return [
        Reading("slope of CPU in people", slope(*cpu), "", f"from a {SMALLER}th of the share"),
        Reading("slope of CPU in people, protect", slope(*protecting), ""),
        Reading("slope of memory in people", slope(smaller["peak"], whole["peak"]), ""),
    ]
