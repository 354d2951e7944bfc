"""What a mechanism knows of the machine: a way to map one task over pieces of work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")

EngineName: TypeAlias = Literal["local", "spark"]
"""What a config or an option calls an engine."""

HANDED = "handed-"
"""How the name of a folder begins by which work is handed to other processes."""


class Engine(Protocol):
    """Runs pieces of work, in any order and place, and returns the results in order.

    ``elsewhere`` says that pieces go to other processes, by files that nobody else can read. The
    function and the pieces may hold true counts, but not the key of a release, which other
    processes read from its own file.
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
