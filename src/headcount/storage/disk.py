"""Files in a folder of a disk, which may be one that several machines share."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from headcount.files import make_private, take_name, temporary_beside
from headcount.storage.protocol import FileContent

if TYPE_CHECKING:
    import pyarrow as pa


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
