"""What a mechanism knows of the machine: a way to map one task over pieces of work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")

EngineName: TypeAlias = Literal["local", "spark"]
"""What a config or an option calls an engine."""


class Engine(Protocol):
    """Runs pieces of work, in any order and place, and returns the results in order.

    ``elsewhere`` says that pieces go to other processes. Then function and pieces must hold all
    that is needed, and nothing secret; else the function may hold truth and key, which stay here.
    """

    @property
    def elsewhere(self) -> bool:
        """Whether function and pieces are pickled."""

    def map(self, function: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield ``function(piece)`` for each piece, in the order of the pieces.

        ``pieces`` may be made on the way, and should be taken a few at a time.
        """


class InOrder:
    """One piece after the other, here: the plainest engine."""

    elsewhere = False

    def map(self, function: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield ``function(piece)`` for each piece."""
        return map(function, pieces)
