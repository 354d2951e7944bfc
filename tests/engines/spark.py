"""Spark for tests: one context of two threads, or a reason why there is none.

Without Java or PySpark a test is skipped and says so; with ``HEADCOUNT_REQUIRE_SPARK=1`` in the
environment it fails instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from headcount.engines.spark import _spark_context, lacking

REQUIRE_VARIABLE = "HEADCOUNT_REQUIRE_SPARK"


def need_spark() -> None:
    """Skip, or fail where the environment asks for it, unless Spark can start."""
    missing = " and no ".join(lacking())
    if missing and os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(f"{REQUIRE_VARIABLE}=1 but no {missing}")
    if missing:
        pytest.skip(f"spark: no {missing}")


@contextmanager
def spark(settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A context with settings of Spark, given as spark-submit gives them; stopped at the end."""
    need_spark()
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    java: Any = SparkContext._jvm
    system = java.java.lang.System
    given = {"spark.master": "local[2]"} | dict(settings or {})
    for name, value in given.items():
        system.setProperty(name, value)
    try:
        context = _spark_context()
        yield context
        context.stop()
    finally:
        for name in given:
            system.clearProperty(name)


def end_java() -> None:
    """End the Java process of this one's last Spark: some settings are read once by each."""
    need_spark()
    from pyspark import SparkContext

    if SparkContext._gateway is None:
        return
    process: Any = SparkContext._gateway.proc
    SparkContext._gateway.shutdown()
    process.stdin.close()
    process.wait()
    SparkContext._gateway = SparkContext._jvm = None
