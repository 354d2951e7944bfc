"""What a mechanism knows of the machine: a way to map one pure function over pieces of work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")

EngineName: TypeAlias = Literal["local", "spark"]
"""What a config or an option calls an engine."""


class Engine(Protocol):
    """Runs pieces of work, in any order and place, and returns the results in order."""

    def map(self, function: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield ``function(piece)`` for each piece, in the order of the pieces.

        ``pieces`` may be made on the way, and should be taken a few at a time. Function and pieces
        can be pickled, and hold nothing secret.
        """


class InOrder:
    """One piece after the other, here: the plainest engine."""

    def map(self, function: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield ``function(piece)`` for each piece."""
        return map(function, pieces)
