"""Benchmarks can all be found, say what they measured, and write it whole."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from headcount.bench import benchmarks, run_benchmark
from headcount.bench import start as start_benchmark
from headcount.bench.figures import machine_facts, timed
from headcount.errors import ConfigError


@pytest.mark.parametrize("name", benchmarks())
def test_every_benchmark_has_a_module_that_measures(name: str):
    module = import_module(f"headcount.bench.{benchmarks()[name].module}")
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


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(start_benchmark, "measure", list)
    with pytest.raises(FileNotFoundError):
        run_benchmark("start", json_file=tmp_path / "none" / "x.json")
