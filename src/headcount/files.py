"""Write a file so that a reader sees the whole of it or nothing, and open only what is ours."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

from headcount.errors import RunError


def open_own(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a plain file of this user's, and nothing that somebody else put in its place.

    Neither a link is followed nor a pipe waited for.
    """
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise RunError(f"{path}: found a link, expected a file of this run") from None
    if why := stranger(os.fstat(handle)):
        os.close(handle)
        raise RunError(f"{path}: found {why}, expected a file of this run")
    return handle


def stranger(info: os.stat_result) -> str:
    """What is wrong with something that should be this user's own file or folder; "" if nothing."""
    if stat.S_ISLNK(info.st_mode):
        return "a link"
    if info.st_uid != os.geteuid():
        return "something that belongs to another user"
    if stat.S_ISDIR(info.st_mode):
        return ""
    return "" if stat.S_ISREG(info.st_mode) else "no plain file"


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
