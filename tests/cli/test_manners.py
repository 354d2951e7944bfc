"""Manners of the command line: version, JSON, few words, completion, Ctrl-C, narrow terminals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import headcount
from headcount.cli.app import EXAMPLES, main
from headcount.cli.options import print_json
from headcount.cli.show import show_table
from headcount.processes import Terminated
from headcount.run.protect import protect_run
from tests.run.town import LEDGER, MICRODATA, make_ledger, people, write_config, write_town

ROOT = Path(__file__).parents[2]
Say = Callable[..., str]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    def run(*arguments: str | Path, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["headcount", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert (ended.value.code or 0) == code, said.err
        return said.out if not code else said.err

    return run


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


def test_the_version_is_printed(say: Say):
    assert say("--version") == f"headcount {headcount.__version__}\n"


# --- JSON -------------------------------------------------------------------------------------


def test_check_answers_programs_with_what_a_run_would_do(say: Say, town: Path):
    config = write_config(town)
    found = json.loads(say("check", "--json", config))
    assert found["confidential"] is True
    assert found["units"] == {"whole": 1, "county": 2, "tract": 5}
    assert found["cells"] == 6
    assert found["guarantee"]["losses"]
    assert found["answers"][0]["loss"] == {"epsilon": "1/2"}
    far = {(one["level"], one["query"]): one for one in found["how_far_off"]["rows"]}
    assert 0 < far["tract", "cells"]["rmse"] < far["tract", "cells"]["within"]
    assert found["read"]["people"] == len(people())
    quiet = json.loads(say("check", "--json", "--quiet", config))
    assert quiet == {name: found[name] for name in found if name not in ("read", "needs")}


@pytest.mark.parametrize(
    "mechanism",
    [
        'name = "topdown"\nepsilon = 1',
        'name = "geometric"\nepsilon = 0.5',
        'name = "sampling"\nfraction = 0.5',
        'name = "cell-key"\ntables = { by_sex = ["sex"] }',
    ],
)
def test_a_quiet_check_says_the_same_of_neighbouring_files(
    say: Say, tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
):
    alone, crowd = ("b", "b2", "m", "adult"), ("a", "a1", "f", "minor")
    said: list[list[str]] = []
    for rows in ([crowd] * 9, [crowd] * 8 + [alone], [crowd] * 7 + [alone] * 2, [crowd] * 10):
        write_town(tmp_path, rows=rows)
        config = write_config(tmp_path, mechanism=mechanism)
        said.append([say("check", "--quiet", *more, config) for more in ([], ["--json"])])
    assert said[0] == said[1] == said[2] == said[3]
    assert "needs" not in said[0][0] + said[0][1]
    loud = json.loads(say("check", "--json", config))
    assert loud["needs"]["memory"] > 0
    assert loud["read_from_data"] == []


def test_a_quiet_check_says_that_it_depends_on_lists_read_from_the_data(say: Say, town: Path):
    off = MICRODATA.replace('units = "tracts.csv"\n', "")
    config = write_config(town, population=off)
    said = " ".join(say("check", "--quiet", config).split())
    assert "What is printed here depends on lists that were read from the data: " in said
    assert "depends on lists" not in say("check", config)
    assert json.loads(say("check", "--quiet", "--json", config))["read_from_data"]


def test_protect_and_evaluate_answer_programs(say: Say, town: Path):
    config = write_config(town)
    made = json.loads(say("protect", config, "--json"))
    assert made["release"] == str(town / "out/release")
    assert made["guarantee"]["losses"][0]["amount"] == "1/2"
    assert any("epsilon" in sentence for sentence in made["in_words"])
    scored = json.loads(say("evaluate", town / "out", "--json", "--attacks", "none"))
    (run,) = scored["runs"]
    assert run["confidential"] is True
    assert run["report"].endswith("report.html")
    assert {"level", "median_absolute"} <= set(run["tables"]["errors"][0])
    assert scored["compared"] == {}


def test_two_runs_are_compared_for_programs(say: Say, town: Path):
    runs = [protect_run(write_config(town, out=name)) for name in ("one", "two")]
    scored = json.loads(say("evaluate", *runs, "--json", "--metrics", "error", "--attacks", "none"))
    assert [one["run"] for one in scored["runs"]] == [str(run) for run in runs]
    (table,) = scored["compared"].values()
    assert {str(run) for run in runs} <= set(table[0])


def test_the_ledger_answers_programs(say: Say, town: Path):
    make_ledger(town, total="2")
    protect_run(write_config(town, run=LEDGER))
    (shown,) = json.loads(say("ledger", "show", town / "ledger.db", "--json"))["datasets"]
    assert (shown["total"], shown["spent"], shown["remaining"]) == ("2", "1/2", "3/2")
    assert (shown["currency"], shown["unit"], shown["runs"]) == ("epsilon", "change-one", 1)
    arguments = ("ledger", "history", town / "ledger.db", "--dataset", "town", "--json")
    (spent,) = json.loads(say(*arguments))["runs"]
    assert spent["private"] is True
    assert [event["state"] for event in spent["events"]] == ["recorded", "drawn", "complete"]


def test_init_answers_programs(say: Say, town: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(town)
    found = json.loads(say("init", "people.csv", "--yes", "--json"))
    assert found["config"] == "people.toml"
    assert "people.toml" in found["written"]
    assert found["decided"]
    assert json.loads(say("check", "people.toml", "--json"))["read"]["people"] == len(people())


def test_what_is_no_number_is_null_in_json(capsys: pytest.CaptureFixture[str]):
    print_json({"table": pl.DataFrame({"x": [1.0, float("nan"), float("inf"), None]})})
    rows = json.loads(capsys.readouterr().out)["table"]
    assert [row["x"] for row in rows] == [1.0, None, None, None]
    with pytest.raises(TypeError, match="object has no form in JSON"):
        print_json({"x": object()})


def test_an_error_is_one_line_on_the_other_stream_also_with_json(say: Say, tmp_path: Path):
    said = say("check", tmp_path / "none.toml", "--json", code=2)
    assert said.startswith("error: ")
    assert said.count("\n") == 1


# --- few words ----------------------------------------------------------------------------------


def test_quiet_commands_say_where_the_result_is(say: Say, town: Path):
    config = write_config(town)
    assert say("protect", config, "-q") == f"release: {town / 'out/release'}\n"
    said = say("evaluate", town / "out", "-q", "--metrics", "error", "--attacks", "none")
    assert said == f"report: {town / 'out/internal/evaluation/report.html'}\n"


def test_a_quiet_run_that_is_complete_logs_nothing(
    say: Say, town: Path, caplog: pytest.LogCaptureFixture
):
    config = write_config(town)
    say("protect", config)
    say("protect", config, "--quiet")
    assert [one.message for one in caplog.records if one.levelname == "INFO"] == []
    say("protect", config)
    assert "nothing was drawn or spent again" in caplog.text


@pytest.mark.parametrize("verb", ["protect", "evaluate", "check", "demo", "study flaxman-2019"])
def test_every_long_command_can_be_quiet(say: Say, verb: str):
    assert "--quiet" in say(*verb.split(), "--help")


# --- completion ---------------------------------------------------------------------------------


def completed(*words: str) -> list[str]:
    """What bash is offered for the last word."""
    program = "import sys; sys.argv = ['headcount']; from headcount.cli.app import main; main()"
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            **asked,
            "PYTHONPATH": str(ROOT / "src"),
            "_HEADCOUNT_COMPLETE": "complete_bash",
        },
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


def test_a_shell_completes_commands_options_and_studies():
    assert completed("headcount", "pro") == ["protect"]
    assert "--quiet" in completed("headcount", "evaluate", "--q")
    assert completed("headcount", "study", "petti") == ["petti-flaxman-2020"]


# --- Ctrl-C ---------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="sends signals of Unix")
@pytest.mark.usefixtures("signals_as_usual")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_run_that_is_stopped_says_that_it_resumes_and_does(town: Path, name: str, code: int):
    config = write_config(town)
    program = """
import sys
from headcount.run import protect
def wait(*arguments, **named):
    print("drawing", flush=True)
    import time
    time.sleep(600)
protect.make_release = wait
sys.argv = ["headcount", "protect", sys.argv[1]]
from headcount.cli.app import main
main()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(config)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "drawing\n"
        process.send_signal(signal.Signals[name])
        _out, err = process.communicate(timeout=300)
    assert process.returncode == code
    assert err.splitlines()[-1] == "stopped: the same command resumes"
    assert "Traceback" not in err
    assert (protect_run(config) / "release/manifest.json").is_file()


@pytest.mark.usefixtures("signals_as_usual")
@pytest.mark.parametrize(
    ("stopped", "code"), [(KeyboardInterrupt(), 130), (Terminated(signal.SIGTERM), 143)]
)
def test_who_stops_it_before_there_is_a_command_sees_no_traceback(
    monkeypatch: pytest.MonkeyPatch, stopped: KeyboardInterrupt, code: int
):
    def stop():
        raise stopped

    monkeypatch.setattr("headcount.cli.app.app", stop)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code


@pytest.mark.usefixtures("signals_as_usual")
def test_who_stops_it_while_options_are_read_gets_the_code_of_the_signal(
    monkeypatch: pytest.MonkeyPatch,
):
    """There typer ends with the code of Ctrl-C, whatever the signal was."""

    def read(*_: object):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("headcount.processes._STOPPED", [])
    monkeypatch.setattr("headcount.cli.app.Commands.parse_args", read)
    monkeypatch.setattr(sys, "argv", ["headcount", "check", "x.toml"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 143


ENDLESS = """
import sys
from headcount.engines import LocalEngine
from headcount.run import protect
from headcount.solve import worker
worker.COMMAND = [sys.executable, "-c", "import time; time.sleep(600)"]
def solve(number):
    print("solving\\n", end="", flush=True)  # in one piece, as two threads say it
    try:
        worker.solve_apart(None)
    except Exception as error:  # as attacks do: without an answer nothing is proven
        print("taken for an answer", error)
protect.make_release = lambda *_, **__: list(LocalEngine(2).map(solve, [1, 2]))
sys.argv = ["headcount", "protect", sys.argv[1]]
from headcount.cli.app import main
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="sends signals of Unix")
@pytest.mark.usefixtures("signals_as_usual")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_solver_at_work_ends_with_its_command_and_gives_no_answer(town: Path, name: str):
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(write_config(town))],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["solving\n"] * 2
        os.killpg(process.pid, signal.Signals[name])  # all of them, as a terminal does
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (128 + signal.Signals[name], "")
    assert err.splitlines()[-1] == "stopped: the same command resumes"


SPINNING = """
import sys
import numpy as np
from headcount.compiled import kernel, njit
from headcount.engines import LocalEngine
from headcount.run import protect
@njit
def step(number):
    return number + 1
def spin(values):
    print("spinning\\n", end="", flush=True)
    while True:
        step(values[0])
protect.make_release = lambda *_, **__: list(LocalEngine(2).map(kernel(spin), [np.ones(1)] * 2))
sys.argv = ["headcount", "protect", sys.argv[1]]
from headcount.cli.app import main
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="sends signals of Unix")
@pytest.mark.usefixtures("signals_as_usual")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_loops_that_threads_interpret_end_with_their_command(town: Path, name: str):
    with subprocess.Popen(
        [sys.executable, "-c", SPINNING, str(write_config(town))],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["spinning\n"] * 2
        process.send_signal(signal.Signals[name])
        try:
            _out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.Signals[name]
    assert err.splitlines()[-1] == "stopped: the same command resumes"


def test_a_stopped_command_without_a_run_says_that_nothing_is_half_written(
    say: Say, town: Path, monkeypatch: pytest.MonkeyPatch
):
    def stop(*_arguments: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headcount.run.protect.prepare_run", stop)
    said = say("check", write_config(town), code=130)
    assert said == "stopped: nothing was left half written\n"


# --- exit codes -----------------------------------------------------------------------------------


def test_exit_codes_stand_in_the_help_and_in_the_docs(say: Say):
    codes = EXAMPLES.split("Exit codes:")[1]
    listed = [int(line.split()[0]) for line in codes.strip().splitlines()]
    assert listed == [0, 1, 2, 3, 130, 143]
    assert "Exit codes:" in say("--help")
    text = (ROOT / "docs/commands.md").read_text("utf-8")
    assert [f"| {code} |" in text for code in listed] == [True] * len(listed)


def test_codes_are_as_listed(say: Say, town: Path, monkeypatch: pytest.MonkeyPatch):
    say("no-such-command", code=2)
    say("check", town / "none.toml", code=2)

    def full(*_arguments: Any, **_named: Any) -> None:
        raise OSError(28, "No space left on device", "out")

    monkeypatch.setattr("headcount.run.protect.protect_run", full)
    assert say("protect", write_config(town), code=3) == "error: out: No space left on device\n"


# --- narrow terminals -----------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 60, 80])
def test_tables_fit_a_narrow_terminal(
    say: Say, town: Path, monkeypatch: pytest.MonkeyPatch, width: int
):
    monkeypatch.setenv("COLUMNS", str(width))
    config = write_config(town)
    protect_run(config)
    for said in (
        say("check", config),
        say("evaluate", town / "out", "--attacks", "none"),
    ):
        tables = [line for line in said.splitlines() if set(line) & set("─━│┃┏┡")]
        assert [line for line in tables if len(line) > width] == []
        assert "…" not in "".join(tables)


def test_a_table_wider_than_the_terminal_is_shown_row_by_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("COLUMNS", "40")
    frame = pl.DataFrame({"level": ["county"], **{f"error_{n}": [n + 0.5] for n in range(9)}})
    show_table(frame, title="errors")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["errors", "county", "  error 0: 0.5"]
    assert max(map(len, lines)) <= 40
    assert len(lines) == 11
