"""Where work runs: one protocol, one implementation per platform."""

from headcount.engines.protocol import Engine

__all__ = ["Engine"]
