"""Progress of long work: a bar with the time left on a terminal, silence everywhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """Follows an iteration and shows how far it is."""

    def __call__(self, items: Iterable[T], *, what: str, total: int | None = None) -> Iterator[T]:
        """Yield the items one by one."""


def silent(items: Iterable[T], *, what: str, total: int | None = None) -> Iterator[T]:
    """No display: the library's default."""
    return iter(items)


def bar(items: Iterable[T], *, what: str, total: int | None = None) -> Iterator[T]:
    """A bar with the time left on standard error if that is a terminal, else nothing."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    if not console.is_terminal:
        return iter(items)
    return iter(track(items, description=what, total=total, console=console, transient=True))
