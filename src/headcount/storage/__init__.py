"""The folder with the files of an unfinished run, perhaps on a disk that several machines share.

It can read a range of a file, put a whole file, and put one if there is none.

Numbers are in files of rows that are read by ranges, and never need to fit in memory. Every block
of bytes has a digest, which is in the description of the file and not in the file. Whoever reads
some rows reads and checks the blocks that they are in, so that a wrong bit, or a file of another
run, is found before it is used.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Floats, Ints
from headcount.errors import ConfigError, RunError
from headcount.files import make_private, take_name, temporary_beside

if TYPE_CHECKING:
    import pyarrow as pa


FileContent: TypeAlias = bytes | memoryview | BinaryIO
"""All bytes of a file: in memory (a buffer of Arrow too), or in a file that ``scratch`` gave."""


@dataclass(frozen=True)
class Storage:
    """Files below a folder, by their names, which may have folders in them (``run-0/0-5.arrow``).

    They are read as mapped pages. A file appears whole or not at all, whoever is killed while
    writing it: it is written under another name and then renamed. So work may be done twice, by
    tasks that know nothing of each other.
    """

    folder: Path

    def check(self) -> None:
        """Make a file in the folder, or where the folder would be made; nothing stays."""
        there = (one for one in (self.folder, *self.folder.absolute().parents) if one.exists())
        with temporary_beside(next(there) / "scratch", mode=0o600):
            pass

    def read(self, name: str, first: int = 0, size: int | None = None) -> pa.Buffer:
        """Some bytes of a file, or all from ``first`` on; pages stay mapped while in use."""
        import pyarrow as pa

        path = self.folder / name
        if not path.stat().st_size:
            return pa.py_buffer(b"")  # which cannot be mapped
        with pa.memory_map(str(path)) as file:
            file.seek(min(first, file.size()))
            return file.read_buffer(size)

    def put(self, name: str, data: FileContent) -> None:
        """Write a whole file, in the place of any that has its name."""
        self._put(name, data, replace=True)

    def put_if_absent(self, name: str, data: FileContent) -> bool:
        """Write a whole file unless one has its name; whether it was written comes back."""
        return self._put(name, data, replace=False)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[BinaryIO]:
        """A file to fill, which is then put: in the folder, so that it can be renamed."""
        make_private(self.folder)
        with temporary_beside(self.folder / "scratch", mode=0o600) as file:
            yield file

    def names(self) -> list[str]:
        """Names of files that are whole."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(
            path.relative_to(self.folder).as_posix()
            for path in found
            if not (path.name.startswith(".") and path.name.endswith(".tmp"))
        )

    def remove(self) -> None:
        """Remove the folder, with what writers that were killed left behind."""
        if self.folder.is_dir():
            shutil.rmtree(self.folder)

    def below(self, name: str) -> Storage:
        """A folder in this one."""
        return Storage(self.folder / name)

    def _put(self, name: str, data: FileContent, *, replace: bool) -> bool:
        path = self.folder / name
        make_private(path.parent)
        if isinstance(data, io.BufferedIOBase):
            return take_name(data, path, replace=replace)
        with temporary_beside(path, mode=0o600) as file:
            file.write(cast("bytes", data))
            return take_name(file, path, replace=replace)


def storage_at(place: str | Path) -> Storage:
    """The storage at a folder."""
    if "://" in str(place):
        raise ConfigError(
            str(place).partition("://")[0] + "://...",  # there may be a password in the rest
            found="an address",
            expected="a folder: a bucket can be mounted as one",
        )
    return Storage(Path(place))


BLOCK = 1 << 16
"""Bytes that have one digest: some 40 microseconds of reading."""
DIGEST_BYTES = 32


@dataclass(frozen=True)
class _StoredRows:
    """Rows of numbers in one file: where they are, for other processes to open.

    Digests of a few numbers let one search for these, so this is as confidential as the file.

    where
        kind      how each number is written: in as few bytes as the largest needs
        shape     rows, and numbers in a row if it is a table
        digests   SHA-256 of each block of the file, one after the other
    """

    storage: Storage
    name: str
    kind: str
    shape: tuple[int, ...]
    digests: bytes = field(repr=False)

    def __len__(self) -> int:
        return self.shape[0]

    def _read(self, first: int, last: int) -> NDArray[Any]:
        """Rows as they are in the file: mapped pages, where it is on a disk."""
        kind, row = np.dtype(self.kind), self.shape[1:]
        width = kind.itemsize * int(np.prod(row, dtype=np.int64))
        start, stop = first * width, last * width
        blocks = range(start // BLOCK, -(-stop // BLOCK)) if stop > start else range(0)
        begin = blocks.start * BLOCK if blocks else start
        size = min(blocks.stop * BLOCK, len(self) * width) - begin if blocks else 0
        found = f"{self.storage.folder}/{self.name}: found"
        try:
            data = self.storage.read(self.name, begin, size)
        except FileNotFoundError:
            raise RunError(
                f"{found} no file on {socket.gethostname()}, expected the run's, in a place that "
                f"all machines share"
            ) from None
        if data.size != size:
            raise RunError(f"{found} a file that ends early, expected rows {first} to {last} in it")
        if not self._sound(memoryview(data), blocks):
            raise RunError(
                f"{found} other numbers than were written, in rows {first} to {last} or beside "
                f"them, expected the run's own: run the same command again"
            )
        numbers = np.frombuffer(data, kind, (stop - start) // kind.itemsize, start - begin)
        return numbers.reshape(last - first, *row)

    def _sound(self, data: memoryview, blocks: range) -> bool:
        """Whether some blocks have their digests."""
        made = (sha256(data[at : at + BLOCK]).digest() for at in range(0, len(data), BLOCK))
        first, last = blocks.start * DIGEST_BYTES, blocks.stop * DIGEST_BYTES
        return b"".join(made) == self.digests[first:last]


class StoredNumbers(_StoredRows):
    """Rows of whole numbers in one file."""

    def __getitem__(self, rows: slice | Ints) -> Ints:
        """Some rows, one after another or by their numbers."""
        if isinstance(rows, slice):
            first, last, _ = rows.indices(len(self))
            return self._read(first, max(first, last)).astype(np.int64)
        if not len(rows):
            return np.zeros((0, *self.shape[1:]), dtype=np.int64)
        first = int(rows.min())
        return self._read(first, int(rows.max()) + 1)[rows - first].astype(np.int64)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[:], dtype=dtype)


class StoredFloats(_StoredRows):
    """Rows of floats in one file, bit by bit."""

    def __getitem__(self, rows: slice) -> Floats:
        """Some rows, one after another."""
        first, last, _ = rows.indices(len(self))
        return self._read(first, max(first, last)).astype(np.float64)


def store_numbers(
    storage: Storage, name: str, pieces: Iterable[NDArray[Any]], *, least: int, most: int
) -> StoredNumbers:
    """Write rows, some at a time, none of whose numbers is below ``least`` or above ``most``."""
    kind = np.min_scalar_type(most) if least >= 0 else np.dtype(np.int64)
    return StoredNumbers(storage, name, *_written(storage, name, pieces, kind))


def store_floats(storage: Storage, name: str, rows: Floats) -> StoredFloats:
    """Write rows of floats."""
    return StoredFloats(storage, name, *_written(storage, name, [rows], np.dtype(np.float64)))


def _written(
    storage: Storage, name: str, pieces: Iterable[NDArray[Any]], kind: np.dtype[Any]
) -> tuple[str, tuple[int, ...], bytes]:
    """Write rows; how each number is written, the shape of all, and the digests of the file."""
    kind = kind.newbyteorder("<")
    rows, row, digests = 0, (), _BlockDigests()
    with storage.scratch() as file:
        for piece in pieces:
            data = np.ascontiguousarray(piece, dtype=kind).reshape(-1).view(np.uint8)
            file.write(data.data)
            digests.add(data)
            rows, row = rows + len(piece), piece.shape[1:]
        storage.put(name, file)
    return kind.str, (rows, *row), digests.result()


class _BlockDigests:
    """Digests of the blocks of a file that is written in pieces of any size."""

    def __init__(self) -> None:
        self._done = bytearray()
        self._hasher, self._room = sha256(), BLOCK

    def add(self, data: NDArray[np.uint8]) -> None:
        """The next bytes of the file."""
        while len(data):
            some, data = data[: self._room], data[self._room :]
            self._hasher.update(some.data)
            self._room -= len(some)
            if not self._room:
                self._done += self._hasher.digest()
                self._hasher, self._room = sha256(), BLOCK

    def result(self) -> bytes:
        """All digests, the last one of what is left."""
        left = self._hasher.digest() if self._room < BLOCK else b""
        return bytes(self._done) + left
