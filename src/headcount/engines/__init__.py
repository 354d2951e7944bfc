"""Where work runs: one task is mapped over pieces of work, here or by a protocol on any machine.

Here threads do the pieces, because the heavy parts run without Python's lock.

Work is handed to other processes in private folders. What is in them may be true counts: their
owner alone can read one, and it goes when the work is done. The process that made it locks it
meanwhile, so that another can tell a folder in use from one whose process was killed.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from time import sleep
from typing import Literal, Protocol, TypeAlias, TypeVar

from headcount.files import POSIX, make_private, open_own, removing, stranger

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


HANDED = "handed-"
"""How the name of such a folder begins; among temporary files it says whose it is."""
OF_OURS = f"headcount-{HANDED}"
LOCK, UNNAMED = "lock", "lock.new"
PATIENCE, PAUSE = 20, 0.1
"""How often removing a folder is tried, and the seconds between."""


@contextmanager
def handed_folder(within: Path | None) -> Iterator[Path]:
    """A new folder in another, or among temporary files.

    There those of processes that were killed are removed first: no run comes back to them.
    """
    if within is not None:
        make_private(within)
    else:
        for left in Path(gettempdir()).glob(f"{OF_OURS}*"):
            if _is_own(left) and _is_left(left):
                _remove(left)
    own = Path(mkdtemp(prefix=OF_OURS if within is None else HANDED, dir=within)).absolute()
    with removing(lambda: _remove(own), str(own)), _locked(own):
        yield own


def left_behind(within: Path) -> list[Path]:
    """Folders of processes that were killed, and not those in use."""
    return [folder for folder in sorted(within.glob(f"{HANDED}*")) if _is_left(folder)]


def remove_left_behind(within: Path) -> None:
    """Remove folders of processes that were killed."""
    for folder in left_behind(within):
        _remove(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a new folder. It has its name only once it is locked."""
    from filelock import lock_descriptor

    # Elsewhere an open file cannot be renamed.
    unnamed = folder / (UNNAMED if POSIX else LOCK)
    with os.fdopen(os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b") as lock:
        lock_descriptor(lock.fileno(), blocking=False)
        if POSIX:
            unnamed.rename(folder / LOCK)
        yield


def _is_own(folder: Path) -> bool:
    try:
        return not stranger(folder.lstat())
    except FileNotFoundError:  # removed meanwhile
        return False


def _is_left(folder: Path) -> bool:
    """Whether nobody has a folder's lock; one that is just being made has only that of no name."""
    from filelock import lock_descriptor

    try:
        lock = os.fdopen(open_own(folder / LOCK, os.O_RDWR), "r+b")
    except FileNotFoundError:
        try:
            return any(path.name != UNNAMED for path in folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):  # removed meanwhile, or none of ours
            return False
    except NotADirectoryError:
        return False
    with lock:
        return lock_descriptor(lock.fileno(), blocking=False)


def _remove(folder: Path) -> None:
    """Remove a folder; an attempt that Spark has given up may still write a file meanwhile."""
    for _ in range(PATIENCE):
        try:
            shutil.rmtree(folder)
        except OSError:
            if not folder.exists():
                return
            sleep(PAUSE)
        else:
            return
    shutil.rmtree(folder)
