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


@dataclass(frozen=True)
class Reading:
    """One figure of a benchmark."""

    what: str
    value: float
    unit: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A question that a module ``headcount.bench.<module>`` answers with ``measure(**options)``.

    ``needs`` names the options that must be given, ``takes`` those that may be; see ``OPTIONS``.
    """

    question: str
    module: str
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """Its options as they are typed, those that may be left out in brackets."""
        typed = [f"{OPTIONS[one]} ..." for one in self.needs]
        return " ".join([*typed, *(f"[{OPTIONS[one]} ...]" for one in self.takes)])


OPTIONS: Mapping[str, str] = {
    "directory": "--dir",
    "name": "--name",
    "replicates": "--replicates",
    "epsilon": "--epsilon",
    "households": "--households",
    "persons": "--persons",
    "cases": "--cases",
}
"""Arguments that a ``measure`` may have, as they are typed."""

BENCHMARKS: Mapping[str, Benchmark] = {
    "start": Benchmark(question="How long do import and --help take?", module="start"),
    "flaxman-2019": Benchmark(
        question="Figure 1 and the direct runs of Flaxman (2019)?", module="flaxman_2019"
    ),
    "audit": Benchmark(question="Does the audit keep its error rate?", module="audit"),
    "noise": Benchmark(question="How many exact draws a second?", module="noise"),
    "noise-law": Benchmark(
        question="Does the noise follow its law, and are wrong samples found out?",
        module="noise_law",
    ),
    "us1940": Benchmark(question="How well does the synthetic 1940 fit?", module="us1940"),
    "topdown-solve": Benchmark(
        question="Least squares beside PIQP and OSQP?", module="topdown_solve"
    ),
    "topdown-round": Benchmark(question="Rounding beside HiGHS?", module="topdown_round"),
    "topdown-1940": Benchmark(
        question="TopDown on the nation of 1940: seconds, memory, constraints?",
        module="topdown_1940",
        takes=("epsilon",),
    ),
    "topdown-audit": Benchmark(
        question="Does the measuring step lose what it says, and are wrong builds caught?",
        module="topdown_audit",
    ),
    "topdown-bounds": Benchmark(
        question="TopDown on random tables of bounds: does what check passes complete?",
        module="topdown_bounds",
        takes=("cases",),
    ),
    "neighbours": Benchmark(
        question="Neighbouring input files of every kind: does anything move beyond the plan?",
        module="neighbours",
        takes=("cases",),
    ),
    "petti-flaxman-2020": Benchmark(
        question="The study at full size: seconds, published rows, wrong builds?",
        module="petti_flaxman_2020",
        takes=("replicates",),
    ),
    "swapping": Benchmark(
        question="Household swapping on workload S: seconds, memory, rate, invariants?",
        module="swapping",
        takes=("households",),
    ),
    "swap-need": Benchmark(
        question="Small towns by brute force: is anybody at risk left who could be swapped?",
        module="swap_need",
        takes=("replicates",),
    ),
    "linkage": Benchmark(
        question="Person swapping and the linkage attack on workload S: seconds, who is found?",
        module="linkage",
        takes=("households",),
    ),
    "reconstruction": Benchmark(
        question="Records from published tables: seconds, proofs, hits?",
        module="reconstruction",
        takes=("persons",),
    ),
    "certainty": Benchmark(
        question="By brute force: are blocks that reconstruction calls certain the only ones?",
        module="certainty",
        takes=("cases",),
    ),
    "reidentification": Benchmark(
        question="Named people matched to records on workload S: seconds, who is right?",
        module="reidentification",
        takes=("households", "replicates"),
    ),
    "suppression": Benchmark(
        question="What complementary suppression withholds, how fast; is every small count safe?",
        module="suppression",
        takes=("directory",),
    ),
    "golden": Benchmark(
        question="As good as another system's stored optima?",
        module="golden",
        needs=("directory",),
    ),
    "peer-e2e": Benchmark(
        question="Same errors as another system's releases?",
        module="peer_e2e",
        needs=("directory", "name"),
        takes=("replicates",),
    ),
}


def run_benchmark(
    which: str, /, *, json_file: Path | None = None, **options: object
) -> Sequence[Reading]:
    """Run a benchmark and, if asked, write its readings with the machine's facts as JSON.

    ``options`` are those of ``OPTIONS``; None stands for one that was not given.
    """
    if which not in BENCHMARKS:
        raise ConfigError(
            "headcount bench", found=repr(which), expected=f"one of {', '.join(BENCHMARKS)}"
        )
    given = {option: value for option, value in options.items() if value is not None}
    _check_options(which, given)
    module = import_module(f"headcount.bench.{BENCHMARKS[which].module}")
    readings: Sequence[Reading] = module.measure(**given)
    if json_file is not None:
        content = {
            "benchmark": which,
            "headcount": __version__,
            "machine": machine_facts(),
            "readings": [asdict(reading) for reading in readings],
        }
        write_text_atomic(json_file, json.dumps(content, indent=2) + "\n")
    return readings


def _check_options(which: str, given: Mapping[str, object]) -> None:
    benchmark = BENCHMARKS[which]
    source = f"headcount bench {which}"
    usage = benchmark.usage or "no options"
    for option in given:
        if option not in (*benchmark.needs, *benchmark.takes):
            raise ConfigError(source, found=OPTIONS.get(option, option), expected=usage)
    for option in benchmark.needs:
        if option not in given:
            raise ConfigError(source, found=f"no {OPTIONS[option]}", expected=usage)


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
    """The result of some work with its wall and CPU seconds, those of solvers apart included."""
    from headcount.solve.worker import worker_seconds

    wall, cpu = perf_counter(), process_time() + worker_seconds()
    result = work()
    return result, perf_counter() - wall, process_time() + worker_seconds() - cpu


def peak_gib() -> float:
    """The most memory that this process has held so far, in GiB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts in KiB
