"""A release on a real cluster: a master and two workers as processes of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from headcount.noise import RunKey
from headcount.run.protect import protect_run
from tests.engines.search import found
from tests.engines.spark import need_spark
from tests.support.spark_cluster import PATIENCE, cluster

pytestmark = pytest.mark.spark

CONFIG = """
[population]
kind = "towns"
people = 4000
seed = 1
[mechanism]
name = "topdown"
epsilon = 1
[run]
out = "{out}"
seed = 5
"""


def config(folder: Path, out: str) -> Path:
    """A seeded run of TopDown into a folder."""
    file = folder / f"{out}.toml"
    file.write_text(CONFIG.format(out=folder / out))
    return file


def test_a_release_is_the_same_from_a_cluster_that_loses_a_worker(tmp_path: Path):
    need_spark()
    protect_run(config(tmp_path, "here"))
    command = ("protect", str(config(tmp_path, "there")), "--engine", "spark", "--quiet")
    files = tmp_path / "spark"
    (files / "events").mkdir(parents=True)
    log = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (files / "events").as_uri(),
        "spark.eventLog.compress": "false",
    }
    with cluster(files) as made:
        program = subprocess.Popen(
            [sys.executable, "-m", "headcount", *command],
            env=made.environment(**log),
            stderr=subprocess.PIPE,
            text=True,
        )
        levels, until = tmp_path / "there" / "internal" / "levels", time.monotonic() + PATIENCE
        while not any(levels.glob("run-*/*/*.arrow")):
            assert program.poll() is None, program.communicate()[1]
            assert time.monotonic() < until, "no level was finished"
            time.sleep(0.02)
        made.kill(0)
        assert program.poll() is None  # it was killed while work remained
        _, said = program.communicate(timeout=PATIENCE)
    assert program.returncode == 0, said
    here, there = tmp_path / "here" / "release", tmp_path / "there" / "release"
    tables = sorted(path.name for path in here.glob("*.parquet"))
    assert "block.parquet" in tables
    for name in tables:
        assert (there / name).read_bytes() == (here / name).read_bytes()
    (files / "driver.log").write_text(said)
    assert list(files.rglob("stderr"))  # of the tasks of a worker
    assert list((files / "events").iterdir())
    assert found(files, RunKey.from_seed(5).material) == set()
