"""Where work runs: one protocol, one implementation per platform."""

from typing import Literal, TypeAlias

from headcount.engines.protocol import Engine

__all__ = ["Engine", "EngineName", "engine_named"]

EngineName: TypeAlias = Literal["local", "spark"]
"""What a config or an option calls an engine."""


def engine_named(name: EngineName | None) -> Engine:
    """The engine of that name, with the settings of its platform; None for this machine."""
    if name == "spark":
        from headcount.engines.spark import SparkEngine

        return SparkEngine()
    from headcount.engines.local import LocalEngine

    return LocalEngine()
