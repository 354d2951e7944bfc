"""How long does TopDown take on a nation of the size of 2020, and in how much memory?"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from math import log, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.figures import Reading, apart
from benchmarks.nation_people import (
    LARGEST_COUNTY,
    LEVELS,
    REAL,
    SEED,
    county_2020,
    nation_2020,
)
from benchmarks.nation_spine import (
    along_made_up_spine,
    bypassed_units,
    paths_beside_1,
)
from benchmarks.product_2020 import one_pass, preset_2020
from benchmarks.recheck import CAP_FACILITY, recheck, recheck_2020
from headcount.errors import ConfigError
from headcount.processes import silent
from headcount.tabulate import Counts
from headcount.topdown.choices import QuartersBounds
from headcount.topdown.mechanism import TopDown

SMALLEST = 0.001
SMALLER = (16, 4)
"""Slopes compare the nation with others of a part of its share."""
STEEPEST = 1.1
LIMITS = {1: (1_200, 4.0), 0.05: (60, 1.5)}
"""CPU seconds and GiB that a share of the nation may take."""
COUNTY_LIMITS = 20, 1.0
WHOLE_PASSES, PASSES = 1.3, 1.5
"""CPU of two passes as a multiple of one: of the whole nation, and of 1 % or more of it."""
PRESET_GIB = 4.0
"""Memory that the preset may take, along a spine."""
ONE_THREAD = 0.01
"""Shares up to which the preset runs on one thread."""
BUREAU = "the Bureau's run of the whole nation: 10.5 hours on a cluster (times in its certificates)"
WARM_UP = 0.001
QUICK = {"share": 0.004, "county": 100}

Ran = dict[str, Any]
"""What one run gave, as JSON."""


def measure(*, share: float = 0.01, county: int = LARGEST_COUNTY) -> list[Reading]:
    """Nations of three sizes and the largest county, each in a process of its own."""
    if not SMALLEST <= share <= 1:
        raise ConfigError(
            "benchmarks nation-2020",
            place="--share",
            found=str(share),
            expected=f"the part of the nation to make, {SMALLEST} to 1",
        )
    parts = [max(share / part, SMALLEST) for part in SMALLER]
    runs = [apart(run_nation, part, warm=True) for part in dict.fromkeys((*parts, share))]
    whole = runs[-1]
    one, two = in_one_pass_and_in_two(share)
    return [
        *_described(whole),
        *_stages(whole),
        *_slopes(runs),
        *beside_one_pass(one, two, plain=cpu_of(whole)),
        *apart(run_county, county),
    ]


def in_one_pass_and_in_two(share: float) -> tuple[Ran, Ran]:
    """A nation with the preset of 2020 along a spine, in one pass and with its own."""
    workers = 1 if share <= ONE_THREAD else 0
    one, two = (apart(run_nation, share, workers=workers, warm=True, passes=k) for k in (1, 2))
    return one, two


def topdown_2020(levels: Sequence[str] = LEVELS) -> TopDown:
    """The queries and shares of the preset of 2020, in one pass and on the tree as it is.

    With the bounds of 2018 by type of living quarters. Of fewer levels each has more.
    """
    preset = preset_2020()
    shares = {name: part for name, part in preset.level_shares or () if name in levels}
    return replace(
        preset,
        levels=tuple((name, part / sum(shares.values())) for name, part in shares.items()),
        level_queries=tuple(one for one in preset.level_queries if one[0] in levels),
        nurse_nva_0=False,
        bounds=(QuartersBounds(query="hhgq", caps=(99_999,) * 8, total_level="state"),),
        passes=(),
        spine=False,
        bypass="",
    )


def run_nation(
    share: float,
    *,
    workers: int = 0,
    folder: Path | None = None,
    warm: bool = False,
    passes: int = 0,
) -> Ran:
    """Make a nation, protect it with a seeded key, write the release; times, memory, digest.

    ``warm`` makes a small one before, so that no compiler is measured. With ``passes`` it is
    protected by the preset of 2020, along a spine: as it is with 2, in one pass with 1.
    """
    from headcount.engines import LocalEngine
    from headcount.mechanisms import Context, Tabulated, protect
    from headcount.release.store import check_files, write_release
    from headcount.storage import storage_at

    if warm:
        run_nation(WARM_UP, workers=workers, folder=folder, passes=passes)
    counts, mechanism = posed(share, passes)
    facts = _facts(counts)
    stages: dict[str, list[float]] = {}
    records: dict[str, list[float]] = {}
    with TemporaryDirectory(dir=folder) as made, watched_memory() as peak:
        out = Path(made)
        with _timed(stages, "digest of the counts"):
            truth = Tabulated.of(counts)
        peak()
        with _timed(stages, "check"):
            mechanism.on(counts.domain).check(counts)
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
        with _timed(records, "records of people"):
            lines = _written_lines(mechanism, release, counts, out) if passes > 1 else 0
        tables = release.as_counts().tables
        checked = (
            recheck_2020(counts, tables)
            if passes
            else recheck(truth.population, tables, exact="state", cap_household=CAP_FACILITY)
        )
    return {
        "share": share,
        **facts,
        "stages": stages,
        "records": [lines, *records["records of people"]],
        "levels": seconds,
        "notes": {k: v for k, v in release.notes.items() if isinstance(v, int | float) and v},
        "peak": most,
        "constraints": [sum(pair[i] for pair in checked.values()) for i in (0, 1)],
        "paths": _paths(counts, mechanism) if passes else None,
        "bytes": size,
        "digest": digest_of(tables),
    }


def posed(share: float, passes: int) -> tuple[Counts, TopDown]:
    """A nation and what protects it: see ``run_nation``."""
    counts = nation_2020(share, seed=SEED)
    if not passes:
        return counts, topdown_2020()
    preset = preset_2020()
    spined = along_made_up_spine(counts, seed=SEED)
    return spined, preset if passes > 1 else one_pass(preset)


def _written_lines(mechanism: TopDown, release: Any, counts: Counts, out: Path) -> int:
    """Everybody as a line of the layout of 2020, each read again and checked; a fault is an error.

    Returns how many lines there are besides the header.
    """
    publication = mechanism.publications()["mdf"].knowing(counts)
    (path,) = publication.write(release, out, quarters=counts.quarters, progress=silent)
    with path.open("rb") as file:
        pieces = iter(lambda: file.read(1 << 24), b"")
        return sum(piece.count(b"\n") for piece in pieces) - 1


def _paths(counts: Counts, mechanism: TopDown) -> list[int]:
    """Leaves of the spine, units without a share, and paths whose shares do not add up to 1."""
    tree = mechanism.tree(counts.geography)
    shares = mechanism.unit_shares(tree)
    assert shares is not None
    return [tree.size(tree.leaf), bypassed_units(shares), paths_beside_1(shares)]


def run_county(tracts: int) -> list[Reading]:
    """The largest county's tracts, one problem of least squares and rounding."""
    from headcount.engines import LocalEngine
    from headcount.mechanisms import Context, Tabulated, protect

    run_nation(WARM_UP)
    counts = county_2020(tracts, seed=SEED)
    levels = counts.geography.levels
    truth, mechanism = Tabulated.of(counts), topdown_2020(levels)
    stages: dict[str, list[float]] = {}
    with watched_memory() as peak, _timed(stages, "protect"):
        context = Context(engine=LocalEngine())
        release = protect(truth, mechanism, seed=SEED, context=context)
    wall, cpu = stages["protect"]
    checked = recheck(
        truth.population, release.as_counts().tables, exact="state", cap_household=CAP_FACILITY
    )
    broken = sum(pair[1] for pair in checked.values())
    seconds, gib = COUNTY_LIMITS if tracts <= LARGEST_COUNTY else (None, None)
    return [
        Reading("one county: tracts of one problem", tracts, "tracts"),
        Reading("  variables after reduction", _variables(counts, release), "variables"),
        Reading("  protect", cpu, "s CPU", f"{wall:.1f} s wall", at_most=seconds),
        Reading("  peak anonymous memory", peak(), "GiB", at_most=gib),
        Reading("  constraints broken", broken, "constraints", at_most=0),
    ]


def _variables(counts: Counts, release: Any) -> int:
    """Pairs (tract, cell) that can hold people: the county has some, the tract has quarters.

    Worked out from the release: what it has for the county is the county's estimate.
    """
    assert counts.quarters is not None
    county = release.as_counts().tables["county"][[-1]]
    kind = county.indices[county.data > 0] // (county.shape[1] // 8)
    inside = counts.geography.parents[-1] == counts.geography.size("county") - 1
    return int((counts.quarters.occupied[inside] > 0).sum(axis=0)[kind].sum())


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
def watched_memory() -> Iterator[Any]:
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
    many, broken = ran["constraints"]
    seconds, gib = LIMITS.get(ran["share"], (None, None))
    readings += [
        Reading(
            "tabulated counts to finished release",
            cpu_of(ran),
            "s CPU",
            at_most=seconds,
            published=BUREAU,
        ),
        Reading("constraints broken", broken, f"of {many:,}", "rechecked in integers", at_most=0),
        Reading("peak anonymous memory", ran["peak"], "GiB", at_most=gib),
        Reading("size of the release", ran["bytes"] / 2**20, "MiB", f"digest {ran['digest'][:16]}"),
    ]
    return readings


def beside_one_pass(one: Ran, two: Ran, *, plain: float) -> list[Reading]:
    """The preset of 2020 on the nation's spine, beside the same in one pass.

    ``plain`` are the seconds of one pass on the tree as it is, rounded by cells.
    """
    (leaves, bypassed, uneven), (lines, _, cpu) = two["paths"], two["records"]
    many, broken = (one["constraints"][i] + two["constraints"][i] for i in (0, 1))
    ratio = cpu_of(two) / cpu_of(one)
    limit = None if two["share"] < ONE_THREAD else PASSES if two["share"] < 1 else WHOLE_PASSES
    on_tree = "  beside one pass on the tree as it is, rounded by cells"
    return [
        Reading("preset of 2020, along a spine: counts to release", cpu_of(two), "s CPU"),
        Reading("  beside one pass", ratio, "x", f"one pass: {cpu_of(one):.1f} s", at_most=limit),
        Reading(on_tree, cpu_of(two) / plain, "x"),
        *(
            Reading(f"  {level}", two["levels"][level], "s wall", f"one pass: {wall:.2f} s")
            for level, wall in one["levels"].items()
        ),
        Reading("  peak anonymous memory", two["peak"], "GiB", at_most=PRESET_GIB),
        Reading("  units without a share", bypassed, "units", "only children"),
        Reading("  paths whose shares do not add up to 1", uneven, f"of {leaves:,}", at_most=0),
        Reading("  constraints broken", broken, f"of {many:,}", "in both", at_most=0),
        Reading(
            "  lines of people that are not there",
            abs(two["people"] - lines),
            f"of {two['people']:,}",
            f"all others written and checked, {cpu:.1f} s CPU",
            at_most=0,
        ),
    ]


def cpu_of(ran: Ran) -> float:
    """CPU seconds from tabulated counts to a finished release."""
    return float(sum(cpu for _, cpu in ran["stages"].values()))


def _slopes(runs: Sequence[Ran]) -> list[Reading]:
    """Exponents of growth from each size to the next larger one: 1 is in proportion.

    The smallest nation has none that is smaller.
    """
    if len(runs) < 2:
        return []
    costs: Mapping[str, Callable[[Ran], float]] = {"CPU": cpu_of, "memory": lambda ran: ran["peak"]}
    sizes: Mapping[str, Callable[[Ran], float]] = {
        "people": lambda ran: ran["people"],
        "leaves": lambda ran: ran["units"]["block"],
        "cells in use": lambda ran: ran["used"]["block"] * ran["units"]["block"],
    }
    readings = []
    for cost, value in costs.items():
        for size, of in sizes.items():
            found = [
                log(value(large) / value(small)) / log(of(large) / of(small))
                for small, large in pairwise(runs)
            ]
            shares = " to ".join(f"{ran['share']:g}" for ran in runs)
            steps = ", ".join(f"{one:.2f}" for one in found)
            note = f"shares {shares}: {steps}"
            readings.append(
                Reading(f"slope of {cost} in {size}", max(found), "", note, at_most=STEEPEST)
            )
    return readings
