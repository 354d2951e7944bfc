"""Work handed to other processes by files: what is done, each piece of it, and what came out.

What an engine maps may hold true counts, and so may a result. Spark keeps what passes through it
in places of its own (logs, event logs, broadcast files, blocks on disk), so none of that passes
through it: it is given the name of a folder and a few numbers. The folder is its owner's alone,
must be the same for all machines, and goes when the work is done. All that is in it begins with
its digest, and is unpickled only if that is right.
"""

from __future__ import annotations

import gc
import os
import pickle
import secrets
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar

from headcount.errors import ConfigError, HeadcountError, RunError

T = TypeVar("T")
R = TypeVar("R")

FUNCTION = "function"
DIGEST_BYTES = 32


class PiecePlace(NamedTuple):
    """Where a piece stands in the file of its job."""

    job: int
    number: int
    start: int
    end: int


class _Refused(NamedTuple):
    """An error of ours in place of a result: its message may have counts in it."""

    error: HeadcountError


@dataclass(frozen=True)
class HandedWork(Generic[T, R]):
    """A folder with a function, files of pieces, and a file for each result."""

    folder: Path

    def put_function(self, function: Callable[[T], R]) -> None:
        """Write what is done with each piece."""
        with _private(self.folder / FUNCTION) as file:
            file.write(_sealed(function))

    def put_pieces(self, job: int, pieces: Iterable[T]) -> list[PiecePlace]:
        """Write the pieces of a job into one file."""
        found, end = [], 0
        with _private(self.folder / f"pieces-{job}") as file:
            for number, piece in enumerate(pieces):
                start, end = end, end + file.write(_sealed(piece))
                found.append(PiecePlace(job, number, start, end))
        return found

    def do(self, place: PiecePlace) -> None:
        """Do one piece, in the process that is to do it, and write what came out, whole.

        An attempt that was made before, or is being made now, writes the same: the last one stays.
        """
        path = self.folder / f"pieces-{place.job}"
        try:
            with path.open("rb") as file:
                file.seek(place.start)
                piece = file.read(place.end - place.start)
        except FileNotFoundError:
            raise ConfigError(
                "engine",
                place=f"worker {socket.gethostname()}",
                found=f"no work in {self.folder}",
                expected="the folder of the run on a file system that all machines share",
            ) from None
        try:
            made = _function(self.folder)(_unsealed(piece, path))
        except HeadcountError as error:
            made = _Refused(error)
        target = self._result(place)
        attempt = target.with_name(f"{target.name}.{secrets.token_hex(6)}")
        with _private(attempt) as file:
            file.write(_sealed(made))
        attempt.replace(target)

    def take(self, place: PiecePlace) -> R:
        """The result of one piece, whose file goes; or the error that was raised."""
        file = self._result(place)
        try:
            made = _unsealed(file.read_bytes(), file)
        except FileNotFoundError:
            raise RunError(f"{file}: found no file, expected the result of a piece") from None
        file.unlink()
        if isinstance(made, _Refused):
            raise made.error
        return made  # type: ignore[no-any-return]

    def _result(self, place: PiecePlace) -> Path:
        return self.folder / f"result-{place.job}-{place.number}"


def _private(path: Path) -> BinaryIO:
    """A new file that its owner alone can read, whatever the umask."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))


@lru_cache(maxsize=1)
def _function(folder: Path) -> Callable[[Any], Any]:
    """What is done, read once in each process: the name of the folder is new for each map."""
    path = folder / FUNCTION
    function: Callable[[Any], Any] = _unsealed(path.read_bytes(), path)
    # PySpark collects garbage after every task: without this each takes 0.1 s to walk through
    # all libraries that are loaded.
    gc.freeze()
    return function


def _sealed(thing: object) -> bytes:
    """Pickled, behind its digest.

    Also functions that are made inside others, which Python's own pickle cannot write.
    """
    import cloudpickle

    data = bytes(cloudpickle.dumps(thing))
    return sha256(data).digest() + data


def _unsealed(data: bytes, path: Path) -> Any:
    """What was pickled, if it is as it was written."""
    content = memoryview(data)[DIGEST_BYTES:]
    if sha256(content).digest() != data[:DIGEST_BYTES]:
        raise RunError(
            f"{path}: found other bytes than were written, expected those of the run: run the same "
            f"command again"
        )
    return pickle.loads(content)
