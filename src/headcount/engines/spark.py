"""Apache Spark: every piece of work is a task, on this machine or on a cluster.

A task may be lost, repeated, or made twice at once: pieces are pure, so nothing differs then.
Spark writes logs, and an event log where one is asked for, and what a task holds can end up there.
So neither a function nor a piece may hold a secret (``protocol.Engine``), and of an error that is
not ours only its type and its place are passed on: its message may have counts in it.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from itertools import islice
from typing import Any, ClassVar, TypeVar

from headcount.errors import ConfigError, HeadcountError

T = TypeVar("T")
R = TypeVar("R")

PIECES = 1024
"""Pieces in one of Spark's jobs: what the driver holds of pieces and results at a time."""

LIBRARIES = ("headcount", "llvmlite", "numba", "numpy", "scipy")
"""What the bits of a result depend on, besides Python."""


@dataclass(frozen=True)
class SparkEngine:
    """Spark as it is usually configured: spark-submit, spark-defaults.conf, PYSPARK_SUBMIT_ARGS.

    Without any, all cores of this machine. A task has one piece, or
    ``spark.default.parallelism`` says how many tasks a job has.
    """

    elsewhere: ClassVar[bool] = True

    def map(self, function: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield the results in order; an error in one piece stops the rest."""
        context = spark_context()
        tasks = int(context.getConf().get("spark.default.parallelism", str(PIECES)))
        work, waiting = partial(_work, function, libraries()), iter(pieces)
        while job := list(islice(waiting, PIECES)):
            for result in context.parallelize(job, min(tasks, len(job))).map(work).collect():
                if isinstance(result, HeadcountError):
                    raise result
                yield result


def spark_context() -> Any:
    """The running context, or a new one: without a web page or a port that others can reach."""
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkRuntimeError
    except ImportError:
        raise ConfigError(
            "engine",
            found="'spark' without PySpark",
            expected="the extra headcount[spark], which brings it",
        ) from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        SparkContext._ensure_initialized()  # starts Java, which reads the usual configuration
    except PySparkRuntimeError:
        raise ConfigError(
            "engine",
            found="'spark', and no Java that starts",
            expected="Java 17 or newer on the path or in JAVA_HOME",
        ) from None
    settings = SparkConf()
    defaults = {
        "spark.app.name": "headcount",
        "spark.master": "local[*]",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
    }
    if settings.get("spark.master", "local").startswith("local"):
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in defaults.items():
        settings.setIfMissing(name, value)
    settings.set("spark.ui.showConsoleProgress", "false")  # commands have a bar of their own
    return SparkContext.getOrCreate(settings)


@cache
def libraries() -> Mapping[str, str]:
    """The version of each library that results depend on, and of Python."""
    return {"Python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def _work(function: Callable[[T], R], expected: Mapping[str, str], piece: T) -> R | HeadcountError:
    """One piece on a worker. Our own errors come back as they are, and are not tried again."""
    try:
        refuse_others(expected)
        return function(piece)
    except HeadcountError as error:
        return error
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise RuntimeError(
            f"{type(error).__name__} in {last.filename}, line {last.lineno}"
        ) from None


def refuse_others(expected: Mapping[str, str]) -> None:
    """Refuse a worker whose libraries are not the driver's: its bits could differ."""
    for name, wanted in expected.items():
        found = libraries()[name]
        if found != wanted:
            raise ConfigError(
                "engine",
                place=f"worker {socket.gethostname()}",
                found=f"{name} {found}",
                expected=f"{wanted}, as on the driver",
            )
