"""Write a file so that a reader sees the whole of it or nothing."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def write_bytes_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data``: a crash leaves the old file or the new one, never a part.

    The bytes go to a temporary file in the same directory (a rename is atomic only within one
    file system), are flushed to disk, and take the final name last.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    # os.open rather than tempfile: the finished file gets the usual permissions of the user's
    # umask, where tempfile would leave it readable by the owner only.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def write_text_atomic(path: Path, text: str) -> None:
    """Write UTF-8 text with the guarantee of ``write_bytes_atomic``; newlines stay as given."""
    write_bytes_atomic(path, text.encode("utf-8"))


def sync_directory(directory: Path) -> None:
    """Make the rename itself durable, where the system lets a directory be opened."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
