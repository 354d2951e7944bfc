"""Files: written whole or not at all, opened only if they are ours, read with clear errors.

Files too large to be made in memory are written in pieces, and named when they are whole. Of TOML,
``tomllib`` gives up on deep nesting with a RecursionError, on a whole number of 4,300 digits with a
plain ValueError, and takes minutes for a key of 30,000 parts: here each is one error, and soon.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import secrets
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from io import BufferedWriter
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headcount.errors import ConfigError, HeadcountError, RunError, near_name

if TYPE_CHECKING:
    from headcount.processes import Progress

log = logging.getLogger(__name__)

POSIX = hasattr(os, "geteuid")
"""Whether files have an owner and a mode. Windows has access lists, which are not looked at."""

UNCHECKED = (
    "%s: who may read it is not checked on this system, which has access lists in place of file "
    "modes; expected a folder that only you can read"
)
"""Said where a file that must stay secret is made and its mode says nothing."""

_JUNCTION = 0xA0000003
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_SAFELY = sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)


def user_cache() -> Path:
    """The folder of this user's caches: what is in it only saves time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headcount"


def open_own(path: Path, flags: int = os.O_RDONLY, *, within: int | None = None) -> int:
    """Open a plain file of this user's, and nothing that somebody else put in its place.

    Neither a link is followed nor a pipe waited for. Where the system cannot refuse to follow a
    link, the name is looked at before and after. ``within`` is an open folder, of which the last
    name of the path is opened.
    """
    _refuse_link(path)
    try:
        name = path if within is None else path.name
        handle = os.open(name, flags | _SAFELY, 0o600, dir_fd=within)
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


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone."""
    if not folder.is_dir():
        make_private(folder.absolute().parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, no more open than what they are in."""
    if not folder.is_dir():
        above = folder.absolute().parent
        make_folder(above)
        folder.mkdir(mode=_no_more_open(0o777, above), exist_ok=True)


def _no_more_open(mode: int, folder: Path) -> int:
    """Without what the folder itself forbids: a file of a folder that is closed to others is too.

    So that it stays closed where it is copied to; and whatever the umask, which can only take away.
    """
    allowed = mode_of(folder.stat())
    return mode if allowed is None else mode & allowed


@contextlib.contextmanager
def removing(remove: Callable[[], None], where: str) -> Iterator[None]:
    """Remove files in the end, however it comes.

    After an error that is the one to be raised: that files could not be removed is then logged.
    """
    try:
        yield
    except BaseException:
        try:
            remove()
        except (HeadcountError, OSError) as error:
            log.error("%s: confidential files are left there (%s)", where, error)
        raise
    remove()


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of the system name this path, if it names none, as on a disk that is full."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # without a number, a name would take the message's place
            error.filename = error.filename or str(path)
        raise


@contextlib.contextmanager
def temporary_beside(path: Path, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """A new file in the folder of ``path``, for ``take_name``; it goes if it gets no other name.

    The folder is the same because a name can be given only within one file system. The file's own
    name is unlike any other, so that several may be written at once. Without a ``mode`` it is as
    open as the umask lets it be, and no more than its folder.
    """
    chosen = _no_more_open(0o666, path.parent) if mode is None else mode
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    # An opener rather than tempfile: the finished file gets the usual permissions of the user's
    # umask, where tempfile would leave it readable by the owner only.
    with open(temporary, "x+b", opener=lambda name, flags: os.open(name, flags, chosen)) as stream:
        try:
            with naming(path):
                yield stream
        finally:
            with contextlib.suppress(OSError):  # what could not be written cannot be flushed either
                stream.close()
            temporary.unlink(missing_ok=True)


def take_name(stream: BinaryIO, path: Path, *, replace: bool = True) -> bool:
    """Give a file of ``temporary_beside`` its final name, once its bytes are on the disk.

    Without ``replace``, only if nothing has the name: whether it was given comes back.
    """
    stream.flush()
    os.fsync(stream.fileno())
    stream.close()
    temporary = Path(stream.name)
    if replace:
        temporary.replace(path)
    elif not _take_free_name(temporary, path):
        return False
    sync_directory(path.parent)
    return True


def _take_free_name(temporary: Path, path: Path) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without second names: two at once may both find the name free, and then
        # the later one has it. Whole it is in any case.
        if path.exists():
            return False
        temporary.replace(path)
    return True


def write_bytes_atomic(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace ``path`` by ``data``: a crash leaves the old file or the new one, never a part.

    The bytes go to a temporary file in the same directory, are flushed to disk, and take the final
    name last.
    """
    path = Path(path)
    with temporary_beside(path, mode=mode) as stream:
        stream.write(data)
        take_name(stream, path)


def write_text_atomic(path: Path, text: str) -> None:
    """Write UTF-8 text with the guarantee of ``write_bytes_atomic``; newlines stay as given."""
    write_bytes_atomic(path, text.encode("utf-8"))


def from_json(text: str | bytes) -> Any:
    """What JSON says; text that is nested too deeply is a ValueError, like any other damage."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def sync_directory(directory: Path) -> None:
    """Make the rename itself durable, where the system lets a directory be opened."""
    if not POSIX:
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        with naming(directory):
            os.fsync(handle)
    finally:
        os.close(handle)


ROWS_AT_ONCE = 1 << 20
"""Rows made and written together: they bound the memory."""


def pieces(total: int, what: str, progress: Progress) -> Iterator[tuple[int, int]]:
    """Rows 0 to ``total`` in ranges of at most ``ROWS_AT_ONCE``."""
    starts = range(0, total, ROWS_AT_ONCE)
    for start in progress(starts, what=what, total=len(starts)):
        yield start, min(start + ROWS_AT_ONCE, total)


@contextlib.contextmanager
def whole_files(*paths: Path) -> Iterator[list[BufferedWriter]]:
    """Streams for new files that get their names one after the other when all are on disk.

    An error before that leaves the folder as it was.
    """
    part = secrets.token_hex(6)
    temporary = [path.with_name(f".{path.name}.{part}.tmp") for path in paths]
    try:
        with naming(paths[0].parent), contextlib.ExitStack() as stack:
            streams: list[BufferedWriter] = []
            for path in temporary:
                path.parent.mkdir(parents=True, exist_ok=True)
                streams.append(stack.enter_context(path.open("xb")))
            yield streams
            for stream in streams:
                stream.flush()
                os.fsync(stream.fileno())
        for path, final in zip(temporary, paths, strict=True):
            path.replace(final)
    except BaseException:
        for path in temporary:
            path.unlink(missing_ok=True)
        raise
    for folder in {path.parent for path in paths}:
        sync_directory(folder)


MOST_BYTES = 1 << 20
"""Size of a TOML file: reading one takes seconds at most."""

MOST_PARTS = 32
"""Parts of a dotted key; no key of headcount's has more than six."""

TABLES = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".xlsx", ".xls", ".sav", ".dta")
"""Endings of files of people, which some give in the place of a config."""

_TEXT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|' r"'''.*?'''|" r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'|#[^\n]*", re.S
)


CONFIG = "a TOML config"


def read_toml(path: Path, *, expected: str, only_if: str = "") -> dict[str, Any]:
    """The content of a TOML file; ``expected`` says which, where there is none.

    Decimals keep the digits that were typed: 0.1 is 1/10, not the nearest binary float. With
    ``only_if``, a SHA-256 in hexadecimal digits, a file with any other bytes is refused.
    """
    source = str(path)
    if path.is_dir():
        raise ConfigError(source, found="a directory", expected=expected)
    if not path.is_file():
        raise ConfigError(source, found="no such file", expected=expected + near_name(path))
    if path.suffix.lower() in TABLES and expected == CONFIG:
        raise ConfigError(
            source,
            found="a table, by its name",
            expected=f"{CONFIG}; 'headcount init {path.name}' writes one",
        )
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ConfigError(
            source, found=f"a file of {size:,} bytes", expected=f"at most {MOST_BYTES:,}"
        )
    content = path.read_bytes()
    if only_if and sha256(content).hexdigest() != only_if.lower():
        raise ConfigError(
            source,
            found="another text than the one that was confirmed (its SHA-256 differs)",
            expected="the same: look at it and confirm it again",
        )
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise _not_toml(source, str(error)) from None
    return parse_toml(text, source=source)


def parse_toml(text: str, *, source: str) -> dict[str, Any]:
    """The content of a text in TOML."""
    plain = _TEXT.sub("text", text)
    if any(part.count(".") >= MOST_PARTS for part in re.split(r"[=,\[\]{}\n]", plain)):
        raise _not_toml(source, f"a key of more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text, parse_float=_decimal)
    except RecursionError:
        raise _not_toml(source, "tables or lists nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(source, f"{error}{_unquoted(text, str(error))}") from None
    except ValueError:  # of int(), with advice for programmers
        most = f"{sys.get_int_max_str_digits():,}"
        raise _not_toml(source, f"a whole number of more than {most} digits") from None


def to_toml(tables: Mapping[str, Any]) -> str:
    """Tables of plain values as TOML; what is None is left out, as TOML has nothing for it."""
    top = [_entry(key, value) for key, value in tables.items() if _is_value(value)]
    parts = [("".join(top))] if top else []
    for key, value in tables.items():
        name = _key(key)
        if isinstance(value, Mapping):
            parts.append(f"[{name}]\n{_entries(value)}")
        elif not _is_value(value):
            parts += [f"[[{name}]]\n{_entries(one)}" for one in value]
    return "\n".join(parts)


def _is_value(value: Any) -> bool:
    """Whether something stands behind a key at the top, not in a table of its own."""
    tables = isinstance(value, list) and bool(value) and all(isinstance(x, Mapping) for x in value)
    return not (isinstance(value, Mapping) or tables)


def _entries(table: Mapping[str, Any]) -> str:
    return "".join(_entry(key, value) for key, value in table.items())


def _entry(key: str, value: Any) -> str:
    return "" if value is None else f"{_key(key)} = {_value(value)}\n"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    """A value in one line; texts as JSON has them, which TOML reads alike."""
    if isinstance(value, Mapping):
        inner = [f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None]
        return f"{{ {', '.join(inner)} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(one) for one in value)}]"
    # JSON leaves this one sign as it is, which TOML does not allow.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise tomllib.TOMLDecodeError(f"the number {text[:40]} is too large to read") from None


def _unquoted(text: str, why: str) -> str:
    """A hint, where the line that a parser stumbles over has a value without quotes."""
    line = re.search(r"Invalid value \(at line (\d+)", why)
    if not line:
        return ""
    typed = text.split("\n")[int(line[1]) - 1]
    bare = re.fullmatch(r"\s*([\w.-]+)\s*=\s*([^\W\d][\w./\\ -]*?)\s*(#.*)?", typed)
    return f'; text has quotes: {bare[1]} = "{bare[2]}"' if bare else ""


def _not_toml(source: str, why: str) -> ConfigError:
    return ConfigError(source, found=f"text that is not TOML ({why})", expected="TOML")


ON_DISK = Path("/var/tmp")
"""Where temporary files are on a disk. The usual folder may be in memory, which they save."""


def scratch_file() -> AbstractContextManager[BinaryIO]:
    """A file without a name, which goes however this process ends: in TMPDIR, or else on a disk."""
    chosen = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    usable = not chosen and os.access(ON_DISK, os.W_OK | os.X_OK)
    return TemporaryFile(dir=ON_DISK if usable else None)


def append(file: BinaryIO, values: NDArray[Any], kind: DTypeLike) -> None:
    """Write numbers to the end of a file."""
    file.write(np.ascontiguousarray(values, dtype=kind).data)


def mapped(file: BinaryIO, kind: DTypeLike) -> NDArray[Any]:
    """All numbers in a file, as pages of it, which stay when its name goes.

    Whoever changes one changes a copy.
    """
    file.flush()
    if not file.tell():
        return np.zeros(0, dtype=kind)  # nothing cannot be mapped
    return np.asarray(np.memmap(file, dtype=kind, mode="c"))
