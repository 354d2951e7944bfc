"""Benchmarks can all be found, say what they measured, and write it whole."""

from __future__ import annotations

import json
import os
from importlib import import_module
from math import nan
from pathlib import Path

import pytest

from benchmarks import Reading, Result, benchmarks, harness, run_all, run_benchmark
from benchmarks import start as start_benchmark
from benchmarks.figures import apart, timed
from benchmarks.harness import machine_facts, write_results
from headcount.errors import ConfigError


@pytest.mark.parametrize("name", benchmarks())
def test_every_benchmark_has_a_module_that_measures(name: str):
    module = import_module(f"benchmarks.{benchmarks()[name].module}")
    assert callable(module.measure)
    assert module.__doc__
    assert benchmarks()[name].question.endswith("?")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError) as caught:
        run_benchmark("x")
    for name in benchmarks():
        assert name in caught.value.expected


def test_the_start_of_a_process_is_measured():
    readings = start_benchmark.measure(repeats=1)
    assert [reading.what for reading in readings] == list(start_benchmark.COMMANDS)
    assert all(reading.value > 0 and reading.unit == "s" for reading in readings)


def test_work_is_timed_by_wall_and_cpu():
    result, wall, cpu = timed(lambda: sum(range(100_000)))
    assert result == sum(range(100_000))
    assert wall > 0
    assert cpu > 0


def test_the_machine_is_described():
    facts = machine_facts()
    assert facts["processor"]
    assert "numpy" in facts["versions"]
    assert facts["cores"] >= 1


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        write_results(tmp_path / "none" / "x.json", [])


def test_a_reading_beyond_its_limit_fails_its_result():
    free, kept = Reading("speed", 7, "s"), Reading("faults", 0, "of 9", at_most=0)
    beyond, none = Reading("faults", 1, "of 9", at_most=0), Reading("peak", nan, "GiB", at_most=4)
    assert Result("x", (free, kept)).passed
    assert Result("x", (free, beyond, none)).missed == (beyond, none)
    assert not Result("x", (kept, beyond)).passed
    assert not Result("x", (), fault="broken off").passed


def test_all_run_apart_and_those_that_lack_something_or_break_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """In this process here; each with less of everything."""
    some = {name: benchmarks()[name] for name in ("golden", "start", "noise", "spark")}
    monkeypatch.setattr(harness, "benchmarks", lambda: some)
    monkeypatch.setattr(harness, "apart", lambda work, *given, **named: work(*given, **named))
    seen = {}

    def measure(**options: object) -> list[Reading]:
        seen.update(options)
        return [Reading("wait", 1, "s", at_most=0.5, published="2 s")]

    def break_off(**_options: object) -> list[Reading]:
        raise ValueError("no such thing")

    monkeypatch.setattr(start_benchmark, "measure", measure)
    monkeypatch.setattr("benchmarks.noise.measure", break_off)
    results = {one.name: one for one in run_all(quick=True)}
    assert results["golden"].fault == "left out: it needs --dir"
    assert results["spark"].fault == "left out: it is never quick"
    assert results["noise"].fault == "ValueError: no such thing"
    assert [name for name, one in results.items() if one.left_out] == ["golden", "spark"]
    assert seen == start_benchmark.QUICK
    assert results["start"].missed == results["start"].readings
    write_results(tmp_path / "all.json", list(results.values()))
    written = json.loads((tmp_path / "all.json").read_text("utf-8"))
    assert written["machine"]["versions"]["numpy"]
    (start,) = (one for one in written["results"] if one["name"] == "start")
    assert not start["passed"]
    assert start["readings"][0]["published"] == "2 s"
    assert start["readings"][0]["at_most"] == 0.5


def test_work_apart_is_done_in_another_process():
    assert apart(os.getpid) != os.getpid()
