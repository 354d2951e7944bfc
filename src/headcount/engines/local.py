"""This machine: threads over pieces of work, because the heavy parts run without Python's lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


LOOK_UP = 0.5
"""Seconds after which a thread that waits looks whether somebody has stopped the command: Python
handles a signal that came just before the wait only when the wait is over."""


def _result(future: Future[R]) -> R:
    while not wait((future,), timeout=LOOK_UP).done:
        pass
    return future.result()


@dataclass(frozen=True)
class LocalEngine:
    """Threads of this machine, one for each core or ``workers``; a few pieces in memory at once."""

    workers: int = 0

    def map(self, function: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield the results in order; an error in one piece stops the rest.

        Pieces are taken, and so made, in the caller's thread, a few ahead of the results.
        """
        workers = self.workers or os.cpu_count() or 1
        if workers == 1:
            yield from map(function, pieces)
            return
        pool = ThreadPoolExecutor(workers)
        try:
            waiting: deque[Future[R]] = deque()
            for piece in pieces:
                waiting.append(pool.submit(function, piece))
                if len(waiting) > 2 * workers:
                    yield _result(waiting.popleft())
            while waiting:
                yield _result(waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def private_folder(self) -> AbstractContextManager[None]:
        """None: threads share the memory of this process."""
        return nullcontext()
