"""What a benchmark gives: readings with their units, and the limits that they must keep."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from time import perf_counter, process_time
from typing import TypeVar

from headcount.processes import peak_memory

T = TypeVar("T")


@dataclass(frozen=True)
class Reading:
    """One figure of a benchmark.

    where
        at_most     what it must not exceed; None for a figure that is only shown
        published   the figure of another system, as its authors published it: never measured here
    """

    what: str
    value: float
    unit: str
    note: str = ""
    at_most: float | None = None
    published: str = ""

    @property
    def passed(self) -> bool:
        """Whether it keeps its limit; a figure that is no number keeps none."""
        return self.at_most is None or self.value <= self.at_most


@dataclass(frozen=True)
class Result:
    """What one benchmark gave.

    where
        seconds   wall time of all of it, what it prepared included
        cpu       CPU seconds of it and of the processes that it started
        fault     why it has no readings
        left_out  whether it was not even begun
    """

    name: str
    readings: tuple[Reading, ...]
    seconds: float = 0.0
    cpu: float = 0.0
    fault: str = ""
    left_out: bool = False

    @property
    def missed(self) -> tuple[Reading, ...]:
        """Readings beyond their limits."""
        return tuple(reading for reading in self.readings if not reading.passed)

    @property
    def passed(self) -> bool:
        """Whether it came to its end within all limits."""
        return not self.fault and not self.missed


def timed(work: Callable[[], T]) -> tuple[T, float, float]:
    """The result of some work with its wall and CPU seconds, those of solvers apart included."""
    from headcount.solve.worker import worker_seconds

    wall, cpu = perf_counter(), process_time() + worker_seconds()
    result = work()
    return result, perf_counter() - wall, process_time() + worker_seconds() - cpu


def apart(work: Callable[..., T], *arguments: object, **options: object) -> T:
    """What some work gives in a fresh process, so that its peak of memory is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments, **options).result()


def peak_gib() -> float:
    """The most memory that this process has held so far, in GiB; NaN if the system does not say."""
    return math.nan if (peak := peak_memory()) is None else peak / 2**30
