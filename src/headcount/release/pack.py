"""A finished release as one file to send, whose bytes are those that its manifest names.

Each file is opened once, below the folder and through no link, and is copied while its digest is
taken: what was checked is what is packed, whatever happens to the folder meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from headcount.errors import RunError
from headcount.files import open_own
from headcount.release.directory import RELEASE, RunDirectory
from headcount.release.store import MANIFEST, manifest_in

AT_ONCE = 1 << 20
"""Bytes that are copied at a time."""

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def write_zip(directory: RunDirectory, to: IO[bytes]) -> None:
    """The files of ``release/`` that the manifest lists, and no others; always the same bytes."""
    folder = directory.release
    with ZipFile(to, "w", ZIP_DEFLATED) as archive, _opened(folder) as root:
        with _below(folder, root, MANIFEST) as source:
            whole = source.read()
        with archive.open(_entry(MANIFEST), "w") as target:
            target.write(whole)
        for name, digest in manifest_in(whole, folder / MANIFEST)["files"].items():
            found = sha256()
            with (
                _below(folder, root, name) as source,
                archive.open(_entry(name), "w") as target,
            ):
                while part := source.read(AT_ONCE):
                    found.update(part)
                    target.write(part)
            if found.hexdigest() != digest:
                raise RunError(f"{folder / name}: found a changed file, expected sha256 {digest}")


def _entry(name: str) -> ZipInfo:
    entry = ZipInfo(f"{RELEASE}/{name}", date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


@contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    """A folder by a number of the system, so that nobody can put another in its place."""
    if os.open not in os.supports_dir_fd:  # Windows: names are looked at instead
        yield None
        return
    try:
        handle = os.open(folder, _FOLDER)
    except OSError:
        raise RunError(
            f"{folder}: found no folder or a link, expected a finished release"
        ) from None
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _below(folder: Path, root: int | None, name: str) -> Iterator[BinaryIO]:
    """A plain file of this user's below an opened folder, reached through no link."""
    steps = PurePosixPath(name).parts
    if not steps or steps[0] == "/" or ".." in steps:
        raise RunError(f"{folder}: found {name!r} in the manifest, expected names inside")
    inside, opened = root, []
    try:
        if root is not None:
            for step in steps[:-1]:
                opened.append(os.open(step, _FOLDER, dir_fd=inside))
                inside = opened[-1]
        with os.fdopen(open_own(folder / name, within=inside), "rb") as file:
            yield file
    except OSError as error:
        raise RunError(
            f"{folder / name}: found no plain file ({error.strerror}), expected one of the release"
        ) from None
    finally:
        for handle in opened:
            os.close(handle)
