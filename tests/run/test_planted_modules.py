"""Python files that lie beside the data are never run, however headcount is started there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from queue import SimpleQueue

import pytest

from headcount.attacks._problem import Effort
from headcount.attacks.reconstruction import reconstruct
from headcount.processes import HOME, clean_import_path, environment, import_places
from headcount.registry import MECHANISMS
from headcount.solve import worker
from headcount.studio.jobs import Jobs
from tests.attacks.small_blocks import PAIRS, TINY, knowledge
from tests.attacks.test_solver_aborts import COUNTS
from tests.engines.spark import need_spark
from tests.run.town import write_config, write_town

PLANTED = (
    *("ast", "json", "pickle", "pathlib", "multiprocessing", "subprocess", "typing", "__future__"),
    *("numpy", "scipy", "polars", "pyarrow", "pydantic", "numba", "typer", "rich", "jinja2"),
    *("highspy", "cryptography", "pyspark", "py4j", "cloudpickle", "uvicorn"),
    "planted_part",
)
"""Libraries that headcount or one of its processes imports. Not here: functools and the like, which
``python -m`` needs before it reaches headcount; docs/commands.md says what helps."""

MARK = "open({mark!r}, 'w').close()\nraise ImportError\n"


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A folder of data with such files in it; those that were run leave a mark outside."""
    home = tmp_path / "data"
    home.mkdir()
    (tmp_path / "marks").mkdir()
    write_town(home)
    write_config(home)
    for name in PLANTED:
        (home / f"{name}.py").write_text(MARK.format(mark=str(tmp_path / f"marks/{name}.ran")))
    about = home / "evil-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    points = "[headcount.mechanisms]\nevil = planted_part:Evil\n"
    (about / "entry_points.txt").write_text(points)
    # Numba would take settings from the folder, among them where compiled code is.
    (home / ".numba_config.yaml").write_text(f"cache_dir: {tmp_path}/marks\n")
    # PySpark would take a Spark that lies above the folder it is started in.
    (tmp_path / "jars").mkdir()
    (tmp_path / "bin").mkdir()
    submit = tmp_path / "bin" / "spark-submit"
    submit.write_text(f"#!/bin/sh\ntouch {tmp_path}/marks/spark-submit.ran\nexit 1\n")
    submit.chmod(0o755)
    return home


def ran(beside: Path) -> list[str]:
    """Which of them were run."""
    return sorted(path.name for path in (beside.parent / "marks").iterdir())


def plain() -> dict[str, str]:
    """An environment that says nothing of where to import from, and Spark on one core."""
    without = ("PYTHONPATH", "PYTHONSAFEPATH", "SPARK_HOME", "PYSPARK_PYTHON")
    kept = {name: value for name, value in os.environ.items() if name not in without}
    return {**kept, "PYSPARK_SUBMIT_ARGS": "--master local[1] pyspark-shell"}


def start(beside: Path, *command: str, code: int = 0, **more: str) -> str:
    done = subprocess.run(
        command, cwd=beside, env={**plain(), **more}, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stderr + done.stdout


def script(name: str) -> str:
    found = Path(sys.executable).with_name(name)
    if not found.is_file():
        pytest.skip(f"no {name} beside {sys.executable}")
    return str(found)


def test_a_planted_file_is_run_by_a_python_that_does_not_look_out(beside: Path):
    """Without this none of the other tests says anything."""
    start(beside, sys.executable, "-c", "import polars", code=1)
    assert ran(beside) == ["polars.ran"]
    found = distributions(path=[str(beside)])
    assert [point.name for one in found for point in one.entry_points] == ["evil"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["the command", "by name", "by name in one word"])
def test_commands_in_the_folder_run_none(beside: Path, how: str):
    by_name = [sys.executable, *(["-m", "headcount"] if how == "by name" else ["-Bmheadcount"])]
    command = [script("headcount")] if how == "the command" else by_name
    start(beside, *command, "check", "config.toml")
    if how != "by name in one word":
        start(beside, *command, "protect", "config.toml")
    write_config(beside, mechanism='name = "evil"', name="evil.toml")
    said = start(beside, *command, "check", "evil.toml", code=2)
    assert "mechanism.name: found 'evil'" in said
    assert ran(beside) == []


LARGE = 'kind = "uniform"\npeople = 240_000\ndepth = 2\nmean = 2'
"""So many areas that loops are loaded, and numba with them."""


@pytest.mark.slow
def test_a_large_run_in_the_folder_runs_none(beside: Path):
    write_config(beside, population=LARGE)
    python = [sys.executable, "-X", "importtime", "-m", "headcount"]
    assert "numba.core" in start(beside, *python, "protect", "config.toml")
    assert ran(beside) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", ["the command", "by name", "by name, safely"])
def test_commands_with_the_folder_on_the_path_of_imports_run_none(beside: Path, how: str):
    """As by "export PYTHONPATH=$PYTHONPATH:/lib", where the empty name is the folder worked in."""
    (beside / "parts").mkdir()
    for name in PLANTED:
        shutil.copy(beside / f"{name}.py", beside / "parts")
    safely = ["-P"] if how.endswith("safely") else []
    by_name = [sys.executable, *safely, "-m", "headcount"]
    command = [script("headcount")] if how == "the command" else by_name
    names = ["", "parts", ".", str(beside), str(HOME)]
    start(beside, *command, "protect", "config.toml", PYTHONPATH=os.pathsep.join(names))
    assert ran(beside) == []


@pytest.mark.slow
@pytest.mark.parametrize("what", ["protect", "compare"])
def test_jobs_of_the_studio_run_none(beside: Path, what: str, monkeypatch: pytest.MonkeyPatch):
    # As by "export PYTHONPATH=$PYTHONPATH:/lib", where the empty name is the folder worked in.
    for name in ("PYTHONSAFEPATH", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", str(beside), str(HOME)]))
    few = ["--methods", "geometric", "--epsilon", "1", "--replicates", "2"]
    jobs = Jobs(beside)
    try:
        job = jobs.start(what, [what, "config.toml", *(few if what == "compare" else [])])
        assert job.process.wait() == 0, job.words
    finally:
        jobs.close()
    assert ran(beside) == []


def test_solvers_that_a_session_in_the_folder_starts_run_none(
    beside: Path, monkeypatch: pytest.MonkeyPatch
):
    asked, effort = knowledge(COUNTS, TINY, PAIRS), Effort(nodes=0)
    monkeypatch.setattr(worker, "_idle", SimpleQueue())
    assert reconstruct(asked, effort=effort).proven[0]  # and all is loaded
    worker.end_workers()
    monkeypatch.chdir(beside)
    monkeypatch.setattr(sys, "path", ["", str(beside), *sys.path])  # as in a notebook
    assert reconstruct(asked, effort=effort).proven[0]
    worker.end_workers()
    assert ran(beside) == []
    assert "evil" not in MECHANISMS.names()


@pytest.mark.slow
@pytest.mark.spark
def test_spark_started_in_the_folder_runs_none(beside: Path):
    need_spark()
    program = "from headcount.engines.spark import SparkEngine as S; print(*S().map(abs, [-1, -2]))"
    assert start(beside, sys.executable, "-P", "-c", program).splitlines()[-1] == "1 2"
    # Python itself has loaded what it needs: the names are for those that Java starts.
    named = f"import os, pyspark; os.environ['PYTHONPATH'] = ':.'; {program}"
    assert start(beside, sys.executable, "-P", "-c", named).splitlines()[-1] == "1 2"
    assert ran(beside) == []


def test_another_process_imports_from_here_but_for_folders_of_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data, linked, kept = tmp_path / "data", tmp_path / "linked", tmp_path / "lib"
    data.mkdir()
    kept.mkdir()
    linked.symlink_to(data)
    monkeypatch.chdir(data)
    named = ["", ".", "data", str(data), str(linked), str(kept), str(kept), str(HOME)]
    monkeypatch.setattr(sys, "path", named)
    assert import_places() == (str(kept), str(HOME))
    assert import_places(kept) == (str(HOME),)
    assert environment()["PYTHONPATH"] == os.pathsep.join([str(kept), str(HOME)])
    assert environment()["PYTHONSAFEPATH"] == "1"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(named[:6]))
    clean_import_path()
    assert os.environ["PYTHONPATH"] == str(kept)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "."]))
    clean_import_path()
    assert "PYTHONPATH" not in os.environ
    monkeypatch.chdir(HOME)  # a clone, used where it is
    assert str(HOME) in import_places()
    script = str(kept / "script.py")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", script, raising=False)
    assert str(kept) not in import_places()
