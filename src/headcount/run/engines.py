"""The engine that a command runs on, by its name."""

from __future__ import annotations

from pathlib import Path

from headcount.engines import Engine, EngineName
from headcount.engines.local import LocalEngine


def engine_named(name: EngineName | None, folder: Path | None) -> Engine:
    """The engine of that name, with the settings of its platform; None for this machine.

    where
        folder   for files by which work is handed to other processes: as confidential as the
                 data, and gone when the work is done; a temporary one if None
    """
    if name == "spark":
        from headcount.engines.spark import SparkEngine

        return SparkEngine(folder)
    return LocalEngine()
