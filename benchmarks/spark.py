"""Is a release from Spark the same as from this machine alone, and what does it cost?"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any, NamedTuple, TypeVar

import cloudpickle

from benchmarks.figures import Reading
from headcount.engines import Engine, InOrder, LocalEngine
from headcount.files import write_text_atomic
from headcount.population import Population
from tests.support.spark_cluster import Cluster, cluster

T = TypeVar("T")
QUICK = None  # Spark is started six times, and a cluster loses three workers
SEED = 1
WARM_UP = ("DE", "RI")
SMALL = 0.02
"""Share of the counties of a nation on which a cluster loses its workers."""
PARTITIONS = (1, 7, 40)
CORES = 2
DEAREST = 2
"""Times the CPU of this machine alone that Spark may take."""


class SparkRun(NamedTuple):
    """A release: digest of its counts, seconds of wall and of CPU.

    where
        first   CPU seconds of the same release before, when Java was still compiling
        maps    pieces of TopDown's work, levels at least, in which a worker was killed
        levels  levels below the first
    """

    digest: str
    wall: float = 0.0
    cpu: float = 0.0
    first: float = 0.0
    maps: int = 0
    levels: int = 0


def measure(*, share: float = 1.0) -> list[Reading]:
    """TopDown on a nation of 1940, or a share of its counties: here, on Spark, on a cluster.

    Every run has a process of its own. Loops are compiled and Spark is started by a run on two
    small states; then the same release is made twice. CPU is that of all processes: driver, Java
    and Python workers.
    """
    here = _apart({}, run_here, share)
    usual = _submit(f"local[{CORES}]")
    there = _apart(usual, run_on_spark, share)
    found = [
        Reading("this machine", here.cpu, "s CPU", f"{CORES} threads, {here.wall:.1f} s wall"),
        Reading(f"Spark, local[{CORES}]", there.cpu, "s CPU", f"{there.wall:.1f} s wall"),
        Reading("  times this machine's", there.cpu / here.cpu, "", at_most=DEAREST),
        Reading("  the first time", there.first, "s CPU", f"this machine's {here.first:.2f}"),
        _differing("  releases that differ", there, here),
    ]
    for number in PARTITIONS:
        settings = _submit(f"local[{CORES}]", **{"spark.default.parallelism": str(number)})
        ran = _apart(settings, run_on_spark, share)
        found.append(_differing(f"Spark with {number} partitions: releases that differ", ran, here))
    small = _apart({}, run_here, SMALL)
    killed = run_on_cluster(SMALL)
    what = f"cluster, a worker killed in each of {killed.levels} levels: releases that differ"
    spared = killed.levels - killed.maps if killed.levels else 1
    return [
        *found,
        _differing(what, killed, small),
        Reading("  levels in which none was killed", max(spared, 0), "levels", at_most=0),
    ]


def _differing(what: str, one: SparkRun, other: SparkRun) -> Reading:
    note = f"digest {one.digest[:16]}"
    return Reading(what, one.digest != other.digest, "of 1", note, at_most=0)


def run_here(share: float) -> SparkRun:
    """On this machine alone."""
    return _timed(share, LocalEngine(CORES))


def run_on_spark(share: float) -> SparkRun:
    """On Spark as the environment says."""
    from headcount.engines.spark import SparkEngine

    return _timed(share, SparkEngine())


def run_on_cluster(share: float) -> SparkRun:
    """On a cluster of two workers, of which one is killed in each level and another started."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        with cluster(folder) as made:
            _tell(folder, made)
            with _pool(made.environment()) as pool:
                run: Future[SparkRun] = pool.submit(run_and_kill, share, folder)
                while not run.done():
                    if sum(worker.poll() is None for worker in made.workers) < 2:
                        made.add_worker()
                        _tell(folder, made)
                    sleep(0.2)
                return run.result()


def run_and_kill(share: float, folder: Path) -> SparkRun:
    """The driver: each map of TopDown, which is a level, costs one worker."""
    from headcount.engines.spark import SparkEngine

    # Workers import nothing from the folder that they are started in, and so not this module.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    engine = Killing(SparkEngine(folder / "handed"), folder)
    population = _nation(share)
    digest = _release(population, engine)
    killed, levels = list(folder.glob("killed-*")), population.geography.levels
    return SparkRun(digest, maps=len(killed), levels=len(levels) - 1)


@dataclass(frozen=True)
class Killing:
    """Spark, but a worker is killed in every map: before it does its piece, or when it has."""

    engine: Engine
    folder: Path
    maps: Iterator[int] = field(default_factory=count)

    def map(self, function: Callable[[T], Any], pieces: Iterable[T]) -> Iterator[Any]:
        """As Spark does it."""
        return self.engine.map(partial(dies_once, self.folder, next(self.maps), function), pieces)

    def private_folder(self) -> AbstractContextManager[Path | None]:
        """Spark's."""
        return self.engine.private_folder()

    def __reduce__(self) -> tuple[type[InOrder], tuple[()]]:
        return (InOrder, ())


def dies_once(folder: Path, number: int, function: Callable[[T], Any], piece: T) -> Any:
    """The first task of a map ends the worker that it runs on, and all that this started."""
    try:
        (folder / f"killed-{number}").touch(exist_ok=False)
    except FileExistsError:
        return function(piece)
    if number % 2:
        function(piece)  # what it wrote stays; that it has done so is not heard of
    workers = json.loads((folder / "workers.json").read_text("utf-8"))
    own = os.getpid()
    while own not in workers:
        own = _stat(own)[0]
    os.killpg(own, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a process that was killed goes on")


def _tell(folder: Path, made: Cluster) -> None:
    """Write down which processes are workers."""
    write_text_atomic(folder / "workers.json", json.dumps([one.pid for one in made.workers]))


def _timed(share: float, engine: Engine) -> SparkRun:
    _release(_nation(1.0, states=WARM_UP), engine)
    population, start = _nation(share), tree_seconds()
    _release(population, engine)
    wall, cpu = perf_counter(), tree_seconds()
    digest = _release(population, engine)
    return SparkRun(digest, perf_counter() - wall, tree_seconds() - cpu, first=cpu - start)


def _nation(share: float, *, states: tuple[str, ...] | None = None) -> Population:
    from headcount_papers.us1940 import us1940

    population, quarters = us1940(seed=SEED, scale=share, states=states)
    return replace(population, quarters=quarters)


def _release(population: Population, engine: Engine) -> str:
    """The digest of a seeded release."""
    from benchmarks.nation_2020 import digest_of
    from headcount.mechanisms import Context, protect
    from headcount.storage import storage_at
    from headcount.topdown.mechanism import TopDown

    mechanism = TopDown.from_preset("e2e-2018", epsilon=1)
    with TemporaryDirectory() as folder:
        context = Context(engine=engine, workspace=storage_at(folder))
        release = protect(population, mechanism, seed=SEED, context=context)
        return digest_of(release.as_counts().tables)


def tree_seconds() -> float:
    """CPU seconds of this process and of all below it, those that have ended included."""
    known = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                known[int(folder.name)] = _stat(int(folder.name))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
    ours, found = {os.getpid()}, 0.0
    while more := {pid for pid, (parent, _) in known.items() if parent in ours} - ours:
        ours |= more
    for pid in ours:
        found += known[pid][1]
    return found


def _stat(pid: int) -> tuple[int, float]:
    """The parent of a process, and the CPU seconds of it and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _submit(master: str, **settings: str) -> dict[str, str]:
    options = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    return {"PYSPARK_SUBMIT_ARGS": f"--master {master} {options} pyspark-shell"}


def _pool(environment: dict[str, str]) -> ProcessPoolExecutor:
    """One fresh process, which has another environment."""
    given = environment | {"PYSPARK_PYTHON": sys.executable}
    return ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=_set, initargs=(given,)
    )


def _set(environment: dict[str, str]) -> None:
    os.environ.update(environment)


def _apart(environment: dict[str, str], run: Callable[[float], SparkRun], share: float) -> SparkRun:
    with _pool(environment) as pool:
        return pool.submit(run, share).result()
