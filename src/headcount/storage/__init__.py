"""Where the files of an unfinished run are kept: a folder, or a place in an object store.

A place can read a range of a file, put a whole file, and put one if there is none. A folder may be
on a disk that several machines share.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from headcount.errors import ConfigError
from headcount.files import make_private, take_name, temporary_beside

if TYPE_CHECKING:
    import pyarrow as pa

FileContent: TypeAlias = bytes | memoryview | BinaryIO
"""All bytes of a file: in memory (a buffer of Arrow too), or in a file that ``scratch`` gave."""


class Storage(Protocol):
    """Files by their names, which may have folders in them (``run-0/state/0-5.arrow``).

    A file appears whole or not at all, whoever is killed while writing it, and is never renamed or
    changed in part. So work may be done twice, by tasks that know nothing of each other. A storage
    can be pickled: it says where the files are, and never by what right (each process finds its
    own credentials).
    """

    @property
    def uri(self) -> str:
        """Where this is, for messages: without any secret."""

    def check(self) -> None:
        """Refuse a place that cannot be read and written as the other verbs will."""

    def read(self, name: str, first: int = 0, size: int | None = None) -> pa.Buffer:
        """Some bytes of a file, or all from ``first`` on; FileNotFoundError if there is none."""

    def put(self, name: str, data: FileContent) -> None:
        """Write a whole file, in the place of any that has its name."""

    def put_if_absent(self, name: str, data: FileContent) -> bool:
        """Write a whole file unless one has its name; whether it was written comes back.

        Of several at once one is written. An answer that was lost on the way may make this False
        for the one that was: what is there must be looked at.
        """

    def scratch(self) -> AbstractContextManager[BinaryIO]:
        """A file of this process's own to fill, which is then put; it goes in the end."""

    def names(self) -> list[str]:
        """The names of all files here, in order."""

    def remove(self) -> None:
        """Remove every file here; harmless when done twice."""

    def below(self, name: str) -> Storage:
        """The files whose names begin with a folder."""


@dataclass(frozen=True)
class DiskStorage:
    """Files below a folder: read as mapped pages, written under another name and then renamed."""

    folder: Path

    @property
    def uri(self) -> str:
        """The folder."""
        return str(self.folder)

    def check(self) -> None:
        """Make a file in the folder, or where the folder would be made; nothing stays."""
        there = (one for one in (self.folder, *self.folder.absolute().parents) if one.exists())
        with temporary_beside(next(there) / "scratch", mode=0o600):
            pass

    def read(self, name: str, first: int = 0, size: int | None = None) -> pa.Buffer:
        """Mapped pages, which stay while they are in use."""
        import pyarrow as pa

        path = self.folder / name
        if not path.stat().st_size:
            return pa.py_buffer(b"")  # which cannot be mapped
        with pa.memory_map(str(path)) as file:
            file.seek(min(first, file.size()))
            return file.read_buffer(size)

    def put(self, name: str, data: FileContent) -> None:
        """Write and rename."""
        self._put(name, data, replace=True)

    def put_if_absent(self, name: str, data: FileContent) -> bool:
        """Write, and take the name if it is free."""
        return self._put(name, data, replace=False)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[BinaryIO]:
        """A file in the folder, so that it can be renamed."""
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

    def below(self, name: str) -> DiskStorage:
        """A folder in this one."""
        return DiskStorage(self.folder / name)

    def _put(self, name: str, data: FileContent, *, replace: bool) -> bool:
        path = self.folder / name
        make_private(path.parent)
        if isinstance(data, io.BufferedIOBase):
            return take_name(data, path, replace=replace)
        with temporary_beside(path, mode=0o600) as file:
            file.write(cast("bytes", data))
            return take_name(file, path, replace=replace)


_OPTIONS = ("region", "endpoint_override", "scheme")


def storage_at(place: str | Path) -> Storage:
    """The storage at a folder, at ``file:///folder`` or at ``s3://bucket/folder``.

    An S3 URI may end in Arrow's options ``region``, ``endpoint_override`` (host and port) and
    ``scheme`` (of the endpoint: ``https``, or ``http``). What it leaves out comes from the
    environment of each process, as in every tool that uses Amazon's settings.
    """
    text = str(place)
    if "://" not in text:
        return DiskStorage(Path(place))
    parts = urlsplit(text)
    if "@" in parts.netloc:  # its name and password are not repeated
        raise _refused(
            f"{parts.scheme}://...@...", "a URI with a name or a password in it", "neither"
        )
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and not parts.query:
        return DiskStorage(Path(unquote(parts.path)))
    if parts.scheme != "s3":
        raise _refused(
            text, f"a URI of scheme {parts.scheme!r}", "a folder, file:///folder or s3://bucket"
        )
    given = parse_qsl(parts.query, keep_blank_values=True)
    if unknown := [name for name, _ in given if name not in _OPTIONS]:  # its value may be secret
        plain = f"s3://{parts.netloc}{parts.path}"
        raise _refused(plain, f"a URI with option {unknown[0]!r}", f"some of {', '.join(_OPTIONS)}")
    if not parts.netloc:
        raise _refused(text, "a URI without a bucket", "s3://bucket/folder")
    from headcount.storage.s3 import S3Storage

    options = dict(given)
    endpoint = options.get("endpoint_override")
    return S3Storage(
        bucket=parts.netloc,
        folder=unquote(parts.path).strip("/"),
        region=options.get("region"),
        endpoint=f"{options.get('scheme', 'https')}://{endpoint}" if endpoint else None,
    )


def _refused(uri: str, found: str, expected: str) -> ConfigError:
    return ConfigError(uri, found=found, expected=expected)
