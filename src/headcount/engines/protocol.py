"""What a mechanism knows of the machine: a way to map one task over pieces of work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")

EngineName: TypeAlias = Literal["local", "spark"]
"""What a config or an option calls an engine."""


class Engine(Protocol):
    """Runs pieces of work, in any order and place, and returns the results in order.

    Where pieces go to other processes, function, pieces and results pass by files that nobody else
    can read. They may hold true counts, but not the key of a release, which other processes read
    from its own file.
    """

    def map(self, function: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield ``function(piece)`` for each piece, in the order of the pieces.

        ``pieces`` may be made on the way, and should be taken a few at a time.
        """

    def private_folder(self) -> AbstractContextManager[Path | None]:
        """A folder of this user's that all processes which do pieces can read; it goes in the end.

        None where pieces are done in this process, which needs no files.
        """


class InOrder:
    """One piece after the other, here: the plainest engine."""

    def map(self, function: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield ``function(piece)`` for each piece."""
        return map(function, pieces)

    def private_folder(self) -> AbstractContextManager[None]:
        """None."""
        return nullcontext()
