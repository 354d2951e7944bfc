"""Write a file so that a reader sees the whole of it or nothing, and open only what is ours."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

from headcount.errors import RunError

POSIX = hasattr(os, "geteuid")
"""Whether files have an owner and a mode. Windows has access lists, which are not looked at."""

UNCHECKED = (
    "%s: who may read it is not checked on this system, which has access lists in place of file "
    "modes; expected a folder that only you can read"
)
"""Said where a file that must stay secret is made and its mode says nothing."""

_JUNCTION = 0xA0000003
_SAFELY = sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)


def open_own(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a plain file of this user's, and nothing that somebody else put in its place.

    Neither a link is followed nor a pipe waited for. Where the system cannot refuse to follow a
    link, the name is looked at before and after.
    """
    _refuse_link(path)
    try:
        handle = os.open(path, flags | _SAFELY, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise RunError(f"{path}: found a link, expected a file of this run") from None
    try:
        _refuse_link(path)
        if why := stranger(os.fstat(handle)):
            raise RunError(f"{path}: found {why}, expected a file of this run")
    except BaseException:
        os.close(handle)
        raise
    return handle


def _refuse_link(path: Path) -> None:
    if not hasattr(os, "O_NOFOLLOW") and os.path.lexists(path) and _is_link(path.lstat()):
        raise RunError(f"{path}: found a link, expected a file of this run")


def _is_link(info: os.stat_result) -> bool:
    """A symbolic link, or a junction of Windows."""
    return stat.S_ISLNK(info.st_mode) or getattr(info, "st_reparse_tag", 0) == _JUNCTION


def stranger(info: os.stat_result) -> str:
    """What is wrong with something that should be this user's own file or folder; "" if nothing.

    On Windows the owner is not looked at.
    """
    if _is_link(info):
        return "a link"
    if POSIX and info.st_uid != os.geteuid():
        return "something that belongs to another user"
    if stat.S_ISDIR(info.st_mode):
        return ""
    return "" if stat.S_ISREG(info.st_mode) else "no plain file"


def mode_of(info: os.stat_result) -> int | None:
    """Who may read, write and enter; None on Windows, where the bits say nothing about others."""
    return stat.S_IMODE(info.st_mode) if POSIX else None


def close_to_others(handle: int, mode: int) -> None:
    """Give an open file or folder exactly this mode, under whatever umask it was made."""
    if POSIX:
        os.fchmod(handle, mode)


def close_folder(folder: Path) -> None:
    """Let nobody but the owner into a folder, which must not be a link."""
    if not POSIX:  # made with mode 0700, which newer Pythons turn into an access list
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        close_to_others(handle, 0o700)
    finally:
        os.close(handle)


def write_bytes_atomic(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Replace ``path`` by ``data``: a crash leaves the old file or the new one, never a part.

    The bytes go to a temporary file in the same directory (a rename is atomic only within one
    file system), are flushed to disk, and take the final name last.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    # os.open rather than tempfile: the finished file gets the usual permissions of the user's
    # umask, where tempfile would leave it readable by the owner only.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, mode)
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
    if not POSIX:
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
