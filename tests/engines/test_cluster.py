"""A release on a real cluster: a master and two workers as processes of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from headcount.run.protect import protect_run
from tests.engines.cluster import PATIENCE, cluster

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
    protect_run(config(tmp_path, "here"))
    command = ("protect", str(config(tmp_path, "there")), "--engine", "spark", "--quiet")
    with cluster(tmp_path) as made:
        program = subprocess.Popen(
            [sys.executable, "-m", "headcount", *command],
            env=made.environment(),
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
