"""What the benchmark of Spark counts, and whom it kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import spark
from benchmarks.spark import Killing, SparkRun, dies_once, tree_seconds
from headcount.engines import InOrder

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def doubled(number: int) -> int:
    return 2 * number


def test_the_time_of_processes_below_counts_also_when_they_have_ended():
    before = tree_seconds()
    subprocess.run(
        [sys.executable, "-c", f"import os\nif os.fork(): os.wait()\n{BURN}"], check=True
    )
    assert tree_seconds() - before > 0.5


@pytest.mark.parametrize("number", [0, 1])
def test_the_first_task_of_a_map_ends_the_worker_that_it_runs_on(number, tmp_path, monkeypatch):
    killed, done = [], []

    def kill(process: int, how: int) -> None:
        killed.append((process, how))
        if process == os.getpid():
            raise SystemExit

    monkeypatch.setattr(os, "killpg", kill)
    monkeypatch.setattr(os, "kill", kill)
    (tmp_path / "workers.json").write_text(json.dumps([1, os.getppid()]))
    with pytest.raises(SystemExit):
        dies_once(tmp_path, number, lambda piece: done.append(piece), 5)
    assert killed == [(os.getppid(), signal.SIGKILL), (os.getpid(), signal.SIGKILL)]
    assert done == [5] * number  # in every other level what it wrote stays
    assert dies_once(tmp_path, number, doubled, 5) == 10


def test_every_map_has_a_kill_of_its_own(tmp_path: Path):
    for number in range(2):
        (tmp_path / f"killed-{number}").touch()
    engine = Killing(InOrder(), tmp_path)
    assert [list(engine.map(doubled, [1, 2])), list(engine.map(doubled, [3]))] == [[2, 4], [6]]
    assert next(engine.maps) == 2


def test_releases_that_differ_and_a_spark_that_is_too_dear_are_beyond_their_limits(monkeypatch):
    here, there = SparkRun("a", cpu=2.0), SparkRun("a", cpu=3.0)
    found = {spark.run_here: here, spark.run_on_spark: there}
    monkeypatch.setattr(spark, "_apart", lambda environment, run, share: found[run])
    monkeypatch.setattr(spark, "run_on_cluster", lambda share: SparkRun("b", maps=3, levels=3))
    readings = {one.what: one for one in spark.measure(share=0.5)}
    assert readings["  times this machine's"].value == 1.5
    assert readings["Spark with 7 partitions: releases that differ"].value == 0
    assert [what for what, one in readings.items() if not one.passed] == [
        "cluster, a worker killed in each of 3 levels: releases that differ"
    ]
    found[spark.run_on_spark] = SparkRun("c", cpu=4.1)
    missed = [one.what for one in spark.measure(share=0.5) if not one.passed]
    assert missed[:2] == ["  times this machine's", "  releases that differ"]
    assert len(missed) == 6
    for spared in (SparkRun("a", maps=2, levels=3), SparkRun("a")):
        found[spark.run_on_spark] = SparkRun("a", cpu=1.0)
        monkeypatch.setattr(spark, "run_on_cluster", lambda share, ran=spared: ran)
        (beyond,) = [one for one in spark.measure(share=0.5) if not one.passed]
        assert (beyond.what, beyond.value) == ("  levels in which none was killed", 1)
