"""What a benchmark is: a name, a question, and readings with their units."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TypeVar

from headcount._version import __version__
from headcount.errors import ConfigError
from headcount.files import write_text_atomic
from headcount.memory import peak_memory

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
    """A question that a module of this room answers with its function ``measure``.

    The question is the first line of the module's text. ``needs`` names the arguments of
    ``measure`` that must be given on the command line, ``takes`` those that may be.
    """

    question: str
    module: str
    needs: tuple[str, ...]
    takes: tuple[str, ...]

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
    "share": "--share",
}
"""Arguments that a ``measure`` may have, as they are typed."""


@cache
def benchmarks() -> Mapping[str, Benchmark]:
    """Every module of this room with a ``measure``, by name; read as text, none is loaded."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == "measure":
                question = (ast.get_docstring(tree) or "").partition("\n")[0]
                found[path.stem.replace("_", "-")] = _described(path.stem, question, node.args)
    return found


def _described(module: str, question: str, arguments: ast.arguments) -> Benchmark:
    plain = [one.arg for one in arguments.args]
    needed = len(plain) - len(arguments.defaults)
    given = dict.fromkeys(plain[:needed], True) | dict.fromkeys(plain[needed:], False)
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        given[one.arg] = default is None
    return Benchmark(
        question=question,
        module=module,
        needs=tuple(name for name, must in given.items() if must),
        takes=tuple(name for name, must in given.items() if not must and name in OPTIONS),
    )


def run_benchmark(
    which: str, /, *, json_file: Path | None = None, **options: object
) -> Sequence[Reading]:
    """Run a benchmark and, if asked, write its readings with the machine's facts as JSON.

    ``options`` are those of ``OPTIONS``; None stands for one that was not given.
    """
    if which not in benchmarks():
        raise ConfigError(
            "headcount bench", found=repr(which), expected=f"one of {', '.join(benchmarks())}"
        )
    given = {option: value for option, value in options.items() if value is not None}
    _check_options(which, given)
    module = import_module(f"headcount.bench.{benchmarks()[which].module}")
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
    benchmark = benchmarks()[which]
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
        for line in cpuinfo.read_text("utf-8").splitlines():
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
    """The most memory that this process has held so far, in GiB; NaN if the system does not say."""
    return math.nan if (peak := peak_memory()) is None else peak / 2**30
