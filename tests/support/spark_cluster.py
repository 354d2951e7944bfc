"""A cluster of Spark on this machine: a standalone master and workers, each its own process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

HERE = "127.0.0.1"
PATIENCE = 600.0
"""Seconds until a cluster that does not come up is given up."""


@dataclass(frozen=True)
class Cluster:
    """Where the master is, and the processes of its workers, with their files in ``folder``."""

    folder: Path
    master: str
    stack: ExitStack
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def add_worker(self) -> None:
        """Start a worker of one core; it registers with the master by itself."""
        name = f"worker-{len(self.workers)}"
        options = ("--host", HERE, "--cores", "1", "--memory", "600m")
        where = ("--work-dir", str(self.folder / f"{name}-files"), self.master)
        self.workers.append(_start(self.stack, self.folder, name, *options, *where))

    def wait_for_workers(self) -> None:
        """Wait until all that run have registered."""
        for number, process in enumerate(self.workers):
            if process.poll() is None:
                _wait_for(self.folder / f"worker-{number}.log", "Successfully registered", process)

    def kill(self, worker: int) -> None:
        """End a worker at once, and all that it started."""
        os.killpg(self.workers[worker].pid, signal.SIGKILL)
        self.workers[worker].wait()

    def environment(self, **settings: str) -> dict[str, str]:
        """Environment of a program that uses this cluster; settings of Spark by their names."""
        given = {
            "spark.driver.host": HERE,
            "spark.driver.bindAddress": HERE,
            "spark.executor.memory": "512m",
        } | settings
        options = " ".join(f"--conf {name}={value}" for name, value in given.items())
        arguments = f"--master {self.master} {options} pyspark-shell"
        return os.environ | {"PYSPARK_SUBMIT_ARGS": arguments, "PYSPARK_PYTHON": sys.executable}


@contextmanager
def cluster(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """A master and workers of one core each, ended on leaving; their files are in ``folder``."""
    with ExitStack() as stack, socket.socket() as free:
        free.bind((HERE, 0))
        port = free.getsockname()[1]
        free.close()
        master = _start(stack, folder, "master", "--host", HERE, "--port", str(port))
        _wait_for(folder / "master.log", "I have been elected leader", master)
        made = Cluster(folder, f"spark://{HERE}:{port}", stack)
        for _ in range(workers):
            made.add_worker()
        made.wait_for_workers()
        yield made


def _start(stack: ExitStack, folder: Path, name: str, *options: str) -> subprocess.Popen[bytes]:
    import pyspark

    kind = name.split("-")[0]
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    java = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
    log = stack.enter_context((folder / f"{name}.log").open("wb"))
    process = subprocess.Popen(
        [str(program), java, *options, "--webui-port", "0"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=os.environ | {"SPARK_LOCAL_IP": HERE, "SPARK_DAEMON_MEMORY": "256m"},
        start_new_session=True,  # a group of its own, to be ended whole
    )
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_for(log: Path, words: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while words not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{log.name}: no {words!r} in\n{log.read_text(errors='replace')}")
        time.sleep(0.1)
