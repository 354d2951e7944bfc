"""Progress of long work: a bar on a terminal, notes in a file if asked, silence elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol, TypeVar

from headcount.errors import HeadcountError, without_values
from headcount.files import write_text_atomic

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
    if sys.stderr is None or sys.stderr.closed or not sys.stderr.isatty():
        return iter(items)
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return iter(track(items, description=what, total=total, console=console, transient=True))


EVERY = 0.2
"""Seconds between two notes of how far work is."""


@dataclass(frozen=True)
class ToFile:
    """Notes in a file how far work is, for programs: ``{"what": ..., "done": 3, "total": 8}``.

    The file is replaced whole, so that a reader always sees one note. ``total`` is null where it
    is not known.
    """

    path: Path

    def __call__(self, items: Iterable[T], *, what: str, total: int | None = None) -> Iterator[T]:
        """Yield the items one by one."""
        known = len(items) if total is None and isinstance(items, Sized) else total
        noted = -EVERY
        done = 0
        for done, item in enumerate(items, start=1):
            if monotonic() - noted >= EVERY:
                self._note(what, done - 1, known)
                noted = monotonic()
            yield item
        self._note(what, done, known)

    def _note(self, what: str, done: int, total: int | None) -> None:
        note = {"what": what, "done": done, "total": total}
        write_text_atomic(self.path, json.dumps(note, ensure_ascii=False) + "\n")


@contextmanager
def fault_noted(path: Path | None) -> Iterator[None]:
    """Note in the file of progress why work ends with an error: ``{"fault": ...}``, no values."""
    try:
        yield
    except HeadcountError as error:
        if path is not None:
            note = {"fault": without_values(error)}
            write_text_atomic(path, json.dumps(note, ensure_ascii=False) + "\n")
        raise
