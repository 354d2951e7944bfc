"""One harness for all benchmarks: found by name, run alone or all in turn, written as JSON."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.figures import Reading, Result, apart
from headcount._version import __version__
from headcount.errors import ConfigError
from headcount.files import write_text_atomic
from headcount.processes import machine_memory


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A question that a module of this folder answers with its function ``measure``.

    The question is the first line of the module's text. ``needs`` names the arguments of
    ``measure`` that must be given on the command line, ``takes`` those that may be. What the module
    calls ``QUICK`` are arguments that make it short; None says that nothing does.
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
    "county": "--county",
    "kills": "--kills",
    "on_spark": "--on-spark",
}
"""Arguments that a ``measure`` may have, as they are typed."""


@cache
def benchmarks() -> Mapping[str, Benchmark]:
    """Every module of this folder with a ``measure``, by name; read as text, none is loaded."""
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


def run_benchmark(which: str, /, *, quick: bool = False, **options: object) -> Result:
    """Run a benchmark, with less of everything if it is to be quick.

    ``options`` are those of ``OPTIONS``; None stands for one that was not given.
    """
    if which not in benchmarks():
        known = ", ".join(["all", *benchmarks()])
        raise ConfigError("benchmarks", found=repr(which), expected=f"one of {known}")
    given = {option: value for option, value in options.items() if value is not None}
    _check_options(which, given)
    module = import_module(f"benchmarks.{benchmarks()[which].module}")
    smaller = getattr(module, "QUICK", {}) if quick else {}
    if smaller is None:
        return Result(which, (), fault="left out: it is never quick", left_out=True)
    begin, spent = perf_counter(), sum(os.times()[:4])
    readings: Sequence[Reading] = module.measure(**{**smaller, **given})
    cpu = sum(os.times()[:4]) - spent
    return Result(which, tuple(readings), perf_counter() - begin, cpu)


def run_all(*, quick: bool) -> Iterator[Result]:
    """Every benchmark that needs nothing from outside, each in a process of its own.

    One that breaks off is a result as well, and the others go on.
    """
    for name, benchmark in benchmarks().items():
        if benchmark.needs:
            needs = " ".join(OPTIONS[one] for one in benchmark.needs)
            yield Result(name, (), fault=f"left out: it needs {needs}", left_out=True)
            continue
        try:
            yield apart(run_benchmark, name, quick=quick)
        except Exception as error:  # whatever it broke off with is told
            yield Result(name, (), fault=f"{type(error).__name__}: {error}")


def write_results(path: Path, results: Sequence[Result]) -> None:
    """Write results with the facts of the machine as JSON."""
    content = {
        "headcount": __version__,
        "machine": machine_facts(),
        "results": [{**asdict(one), "passed": one.passed} for one in results],
    }
    write_text_atomic(path, json.dumps(content, indent=2) + "\n")


def _check_options(which: str, given: Mapping[str, object]) -> None:
    benchmark = benchmarks()[which]
    source = f"benchmarks {which}"
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

    from headcount.release.store import versions
    from headcount.report.model import describe_machine

    return {
        "machine": describe_machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
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


def _memory_gib() -> float | None:
    found = machine_memory()
    return None if found is None else round(found / 2**30, 1)
