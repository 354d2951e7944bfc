"""What do the outputs of a nation take: measurements, microdata, reading back, evaluation?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import TypeVar

from benchmarks.figures import Reading, apart
from benchmarks.nation_2020 import topdown_2020, watched_memory
from benchmarks.nation_people import SEED, nation_2020
from headcount.errors import ConfigError
from headcount.progress import silent
from headcount.tabulate import Counts

T = TypeVar("T")

SMALLER = 4
"""Slopes compare the nation with one of a part of its share."""
CPU_LIMIT = 2 * 180
"""Seconds of CPU for all measurements of a twentieth of the nation: 3 minutes on two cores."""
WALL_LIMIT = 180
"""The same in seconds of wall time, on two cores that are idle."""
MOST_ADDED = 0.5
"""GiB of memory that measuring may add, however large the nation."""
QUICK = {"share": 0.002}
WARM_UP = 0.001
MEASURING = "all measurements"

StageFigures = dict[str, tuple[float, float, float, float]]
"""For each stage wall and CPU seconds, GiB of anonymous memory before it, and the most in it."""


def measure(*, share: float = 0.01) -> list[Reading]:
    """Two nations, each in a process of its own, after a small one that compiles."""
    if not 0.002 <= share <= 1:
        raise ConfigError(
            "benchmarks nation-outputs",
            place="--share",
            found=str(share),
            expected="the part of the nation to make, 0.002 to 1",
        )
    part = max(share / SMALLER, 0.001)
    smaller, whole = (apart(run_outputs, one, warm=True) for one in (part, share))
    readings = []
    for name, (wall, cpu, before, most) in whole.items():
        grown = log(cpu / smaller[name][1]) / log(share / part)
        measuring, part_of_it = name == MEASURING, share / 0.05
        limit = CPU_LIMIT * part_of_it if measuring else None
        readings.append(Reading(name, cpu, "s CPU", f"slope {grown:.2f}", at_most=limit))
        limit = WALL_LIMIT * part_of_it if measuring else None
        readings.append(Reading("  wall time", wall, "s wall", at_most=limit))
        added = f"{before:.2f} before; {smaller[name][3]:.2f} at a share of {part:g}"
        readings.append(Reading("  peak anonymous memory", most, "GiB", added))
        if measuring:
            more = Reading("  that it adds", most - before, "GiB", at_most=MOST_ADDED)
            readings.append(more)
    return readings


def run_outputs(share: float, *, warm: bool = False) -> StageFigures:
    """Protect a nation with everything that can be published of it, read it back, evaluate it."""
    from headcount.evaluation.evaluate import evaluate
    from headcount.release.store import read_release

    if warm:
        run_outputs(WARM_UP)
    counts = nation_2020(share, seed=SEED)
    ran: StageFigures = {}
    with TemporaryDirectory() as made:
        out = Path(made)
        _publish(counts, out, ran)
        release = _stage(ran, "reading the release", lambda: read_release(out / "release"))
        _stage(ran, "evaluation", lambda: evaluate(release, counts))
    return ran


def _publish(counts: Counts, out: Path, ran: StageFigures) -> None:
    """Tables, microdata and measurements of a seeded release."""
    from headcount.engines.local import LocalEngine
    from headcount.mechanisms import Context, Tabulated, protect
    from headcount.release.publication import PeopleInQuarters
    from headcount.release.receipt import guarantee_to_json
    from headcount.release.store import write_release
    from headcount.storage import storage_at

    context = Context(
        engine=LocalEngine(),
        workspace=storage_at(out / "work"),
        measurements=out / "measurements",
        progress=_Clock(ran),
    )
    release = protect(Tabulated.of(counts), topdown_2020(), seed=SEED, context=context)
    receipt = {
        "mechanism": release.mechanism,
        "guarantee": guarantee_to_json(release.guarantee),
        "key_kind": release.key_kind,
        "noise_backend": release.backend,
        "notes": dict(release.notes),
    }
    _stage(ran, "tables", lambda: write_release(release, out / "release", receipt=receipt))
    people, quarters = PeopleInQuarters(), counts.quarters
    _stage(
        ran,
        "microdata",
        lambda: people.write(release, out / "people", quarters=quarters, progress=silent),
    )


def _stage(ran: StageFigures, name: str, work: Callable[[], T]) -> T:
    with watched_memory() as most:
        before, wall, cpu = most(), perf_counter(), process_time()
        result = work()
        ran[name] = perf_counter() - wall, process_time() - cpu, before, most()
    return result


class _Clock:
    """A progress that shows nothing and takes the time of measuring, all levels together."""

    def __init__(self, ran: StageFigures) -> None:
        self._ran = ran

    def __call__(self, items: Iterable[T], *, what: str, total: int | None = None) -> Iterator[T]:
        if not what.startswith("measurements of"):
            yield from items
            return
        with watched_memory() as most:
            first, wall, cpu = most(), perf_counter(), process_time()
            yield from items
            now = perf_counter() - wall, process_time() - cpu
            before = self._ran.get(MEASURING, (0.0, 0.0, first, 0.0))
            self._ran[MEASURING] = (
                before[0] + now[0],
                before[1] + now[1],
                before[2],
                max(before[3], most()),
            )
