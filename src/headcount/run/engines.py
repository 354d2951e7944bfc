"""The engine that a command runs on, by its name."""

from __future__ import annotations

from headcount.engines import Engine, EngineName
from headcount.engines.local import LocalEngine


def engine_named(name: EngineName | None) -> Engine:
    """The engine of that name, with the settings of its platform; None for this machine."""
    if name == "spark":
        from headcount.engines.spark import SparkEngine

        return SparkEngine()
    return LocalEngine()
