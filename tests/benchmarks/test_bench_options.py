"""Options of benchmarks: each is taken where it belongs and refused elsewhere."""

from __future__ import annotations

import inspect
import json
import logging
import os
import subprocess
import sys
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import benchmarks, run_benchmark
from benchmarks.__main__ import main
from benchmarks.figures import Reading
from benchmarks.harness import OPTIONS
from headcount.errors import ConfigError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", benchmarks())
def test_every_benchmark_declares_the_options_of_its_measure(name: str):
    benchmark = benchmarks()[name]
    module = import_module(f"benchmarks.{benchmark.module}")
    parameters = inspect.signature(module.measure).parameters.values()
    needed = {p.name for p in parameters if p.default is inspect.Parameter.empty}
    assert set(benchmark.needs) == needed
    assert set(benchmark.takes) <= {p.name for p in parameters} - needed
    assert {*benchmark.needs, *benchmark.takes} <= set(OPTIONS)


def test_an_option_that_it_does_not_take_is_refused():
    with pytest.raises(ConfigError) as caught:
        run_benchmark("golden", directory=Path("x"), epsilon=Fraction(1))
    assert str(caught.value) == "benchmarks golden: found --epsilon, expected --dir ..."
    with pytest.raises(ConfigError) as caught:
        run_benchmark("noise", name="full")
    assert str(caught.value) == "benchmarks noise: found --name, expected no options"


def test_an_option_that_it_needs_is_asked_for():
    with pytest.raises(ConfigError) as caught:
        run_benchmark("peer-e2e", directory=Path("x"), replicates=None)
    assert str(caught.value) == (
        "benchmarks peer-e2e: found no --name, expected --dir ... --name ... [--replicates ...]"
    )


def bench(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    # The command sets the level of the whole package; leave other tests as they were.
    monkeypatch.setattr(logging.getLogger("headcount"), "setLevel", lambda _level: None)
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


def test_the_command_line_hands_options_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    seen: list[dict[str, object]] = []

    def measure(**options: object) -> list[Reading]:
        seen.append(options)
        return [Reading("people", 132_404_766, "people")]

    monkeypatch.setattr("benchmarks.peer_e2e.measure", measure)
    monkeypatch.setattr("benchmarks.topdown_1940.measure", measure)
    monkeypatch.setattr("benchmarks.golden.measure", measure)
    for line in (
        "peer-e2e --dir folder --name full --replicates 7",
        "topdown-1940 --epsilon 0.25",
        "golden --dir folder",
    ):
        assert bench(*line.split(), monkeypatch=monkeypatch) == 0
        assert " 132,404,766 people" in capsys.readouterr().out
    assert seen == [
        {"directory": Path("folder"), "name": "full", "replicates": 7},
        {"epsilon": Fraction(1, 4)},
        {"directory": Path("folder")},
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("start --epsilon 1", "benchmarks start: found --epsilon, expected no options"),
        ("golden", "benchmarks golden: found no --dir, expected --dir ..."),
        ("topdown-1940 --epsilon none", "--epsilon: found 'none', expected a finite number"),
        ("topdown-1940 --epsilon -1", "--epsilon: found -1, expected a number above 0"),
        ("peer-e2e --dir . --name x --replicates 1", "Invalid value for '--replicates'"),
        ("golden --dir nowhere", "nowhere: found no index.json, expected a directory with one"),
    ],
)
def test_the_command_line_refuses(
    line: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    assert bench(*line.split(), monkeypatch=monkeypatch) == 2
    assert message in capsys.readouterr().err


def test_a_figure_beyond_its_limit_is_marked_and_ends_in_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    found = [
        Reading("wait", 2, "s", at_most=1, published="3 s"),
        Reading("faults", 0, "", at_most=0),
    ]
    monkeypatch.setattr("benchmarks.start.measure", lambda: found)
    assert bench("start", monkeypatch=monkeypatch) == 1
    said = capsys.readouterr()
    assert "2 s  (published: 3 s; BEYOND limit 1)\n" in said.out
    assert "(limit 0)\n" in said.out
    assert said.err == "beyond its limits: start\n"


def test_the_list_shows_what_is_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert bench(monkeypatch=monkeypatch) == 0
    listed = capsys.readouterr().out
    for name, benchmark in benchmarks().items():
        assert name in listed
        assert benchmark.question in listed
    assert "--dir ... --name ... [--replicates ...]\n" in listed
    assert "[--epsilon ...]\n" in listed


def test_an_unknown_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert bench("speed", "--json", str(tmp_path / "x.json"), monkeypatch=monkeypatch) == 2
    assert "benchmarks: found 'speed', expected one of all, " in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


def test_readings_are_printed_and_written_with_the_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    readings = [Reading("draws", 1234.5, "1/s", "on one core"), Reading("share", 0.25, "%")]
    monkeypatch.setattr("benchmarks.start.measure", lambda: readings)
    assert bench("start", "--json", str(tmp_path / "start.json"), monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "draws" in said
    assert "1,234 1/s  (on one core)" in said
    written = json.loads((tmp_path / "start.json").read_text())
    (result,) = written["results"]
    assert (result["name"], result["passed"]) == ("start", True)
    first = result["readings"][0]
    assert (first["what"], first["value"], first["unit"]) == ("draws", 1234.5, "1/s")
    assert first["note"] == "on one core"
    assert {"machine", "processor", "system", "versions"} <= set(written["machine"])


def test_they_are_started_from_the_root_of_a_clone():
    command = [sys.executable, "-m", "benchmarks", "nothing"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: benchmarks: found 'nothing', expected one of all, ")
