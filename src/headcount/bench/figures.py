"""What a benchmark is: a name, a question, and readings with their units."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TypeVar

from headcount._version import __version__
from headcount.errors import ConfigError
from headcount.files import write_text_atomic

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One figure of a benchmark."""

    what: str
    value: float
    unit: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A question that a module ``headcount.bench.<module>`` answers with ``measure()``."""

    question: str
    module: str


BENCHMARKS: Mapping[str, Benchmark] = {
    "start": Benchmark(question="How long do import and --help take?", module="start"),
    "flaxman-2019": Benchmark(
        question="Figure 1 and the direct runs of Flaxman (2019)?", module="flaxman_2019"
    ),
    "audit": Benchmark(question="Does the audit keep its error rate?", module="audit"),
    "noise": Benchmark(question="How many exact draws a second?", module="noise"),
}


def run_benchmark(name: str, *, json_file: Path | None = None) -> Sequence[Reading]:
    """Run a benchmark and, if asked, write its readings with the machine's facts as JSON."""
    if name not in BENCHMARKS:
        raise ConfigError(
            "headcount bench", found=repr(name), expected=f"one of {', '.join(BENCHMARKS)}"
        )
    module = import_module(f"headcount.bench.{BENCHMARKS[name].module}")
    readings: Sequence[Reading] = module.measure()
    if json_file is not None:
        content = {
            "benchmark": name,
            "headcount": __version__,
            "machine": machine_facts(),
            "readings": [asdict(reading) for reading in readings],
        }
        write_text_atomic(json_file, json.dumps(content, indent=2) + "\n")
    return readings


def machine_facts() -> dict[str, Any]:
    """What the figures depend on besides the code."""
    import platform

    from headcount.release.receipt import versions
    from headcount.report.provenance import describe_machine

    return {
        "machine": describe_machine(),
        "processor": _processor(),
        "system": platform.platform(),
        "versions": versions(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown"


def timed(work: Callable[[], T]) -> tuple[T, float, float]:
    """The result of some work with its wall and CPU seconds."""
    wall, cpu = perf_counter(), process_time()
    result = work()
    return result, perf_counter() - wall, process_time() - cpu
