"""Where work runs: one protocol, one implementation per platform."""

from headcount.engines.protocol import Engine, EngineName

__all__ = ["Engine", "EngineName"]
